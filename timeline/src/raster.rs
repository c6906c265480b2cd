//! A pixel buffer as a plotters backend.
//!
//! The mountain has tens of thousands of axis-aligned rectangles in each frame. A call into the
//! browser for each would take as long as many frames. Writing their pixels here takes a few
//! milliseconds, and one call brings the finished buffer to the canvas.

use super::colours::Rgba;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, DrawingBackend, DrawingErrorKind,
};
use std::convert::Infallible;

/// Red, green, blue, opacity per pixel, rows from top to bottom, in the form of canvas image data.
#[derive(Debug, Default)]
pub struct Raster {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

impl Raster {
    /// An empty raster; [`Raster::clear`] gives it a size.
    pub fn new() -> Raster {
        Raster::default()
    }

    /// Sets the size and fills everything with one colour.
    pub fn clear(&mut self, width: u32, height: u32, colour: Rgba) {
        (self.width, self.height) = (width, height);
        let wanted = width as usize * height as usize * 4;
        if self.pixels.len() != wanted {
            self.pixels = vec![0; wanted];
        }
        if colour.3 == 0 {
            return self.pixels.fill(0);
        }
        let pixel = [colour.0, colour.1, colour.2, colour.3];
        // What is filled is copied behind itself: a copy of memory is one instruction in a browser,
        // and a loop over a million pixels is not.
        let mut filled = pixel.len().min(wanted);
        self.pixels[..filled].copy_from_slice(&pixel[..filled]);
        while filled < wanted {
            let more = filled.min(wanted - filled);
            self.pixels.copy_within(..more, filled);
            filled += more;
        }
    }

    /// The pixels.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    fn fill(&mut self, from: BackendCoord, to: BackendCoord, colour: BackendColor) {
        let clip = |v: i32, max: u32| v.clamp(0, max as i32) as usize;
        let (x0, x1) = (clip(from.0, self.width), clip(to.0, self.width));
        let (y0, y1) = (clip(from.1, self.height), clip(to.1, self.height));
        if x0 >= x1 {
            return;
        }
        let width = self.width as usize;
        let (pixels, _) = self.pixels.as_chunks_mut::<4>();
        let (r, g, b) = colour.rgb;
        let alpha = (colour.alpha * 255.0).round() as u32;
        for y in y0..y1 {
            let row = &mut pixels[y * width + x0..y * width + x1];
            if alpha >= 255 {
                row.fill([r, g, b, 255]);
            } else {
                for pixel in row {
                    *pixel = blend(*pixel, [r, g, b], alpha);
                }
            }
        }
    }
}

/// Paints `colour` at `alpha`/255 over a pixel, which may be transparent itself (overlays are).
fn blend(under: [u8; 4], colour: [u8; 3], alpha: u32) -> [u8; 4] {
    let below = u32::from(under[3]) * (255 - alpha) / 255;
    let total = (alpha + below).max(1);
    let mix =
        |a: u8, b: u8| ((u32::from(a) * below + u32::from(b) * alpha + total / 2) / total) as u8;
    [
        mix(under[0], colour[0]),
        mix(under[1], colour[1]),
        mix(under[2], colour[2]),
        (alpha + below) as u8,
    ]
}

impl DrawingBackend for &mut Raster {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn draw_pixel(
        &mut self,
        point: BackendCoord,
        colour: BackendColor,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        self.fill(point, (point.0 + 1, point.1 + 1), colour);
        Ok(())
    }

    /// The right and bottom edges are outside, as on a canvas and in SVG.
    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        if fill {
            self.fill(upper_left, bottom_right, style.color());
            return Ok(());
        }
        let ((x0, y0), (x1, y1)) = (upper_left, bottom_right);
        for (from, to) in [
            ((x0, y0), (x1, y0 + 1)),
            ((x0, y1 - 1), (x1, y1)),
            ((x0, y0 + 1), (x0 + 1, y1 - 1)),
            ((x1 - 1, y0 + 1), (x1, y1 - 1)),
        ] {
            self.fill(from, to, style.color());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::style::{Color, RGBColor};

    fn picture(raster: &Raster) -> Vec<String> {
        let (width, _) = raster.size();
        raster
            .pixels()
            .chunks(4 * width as usize)
            .map(|row| {
                row.chunks(4)
                    .map(|p| if p[0] > 100 { '#' } else { '.' })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn rectangles_are_half_open_and_clipped() {
        let mut raster = Raster::new();
        raster.clear(6, 4, Rgba(0, 0, 0, 255));
        let red = RGBColor(255, 0, 0);
        (&mut raster).draw_rect((1, 1), (3, 3), &red, true).unwrap();
        (&mut raster)
            .draw_rect((5, -9), (90, 1), &red, true)
            .unwrap();
        assert_eq!(picture(&raster), [".....#", ".##...", ".##...", "......"]);
    }

    #[test]
    fn an_outline_leaves_the_inside_alone() {
        let mut raster = Raster::new();
        raster.clear(5, 4, Rgba(0, 0, 0, 255));
        (&mut raster)
            .draw_rect((0, 0), (5, 4), &RGBColor(255, 0, 0), false)
            .unwrap();
        assert_eq!(picture(&raster), ["#####", "#...#", "#...#", "#####"]);
    }

    #[test]
    fn opacity_mixes() {
        let mut raster = Raster::new();
        raster.clear(1, 1, Rgba(0, 100, 200, 255));
        let half = RGBColor(200, 100, 0).mix(0.5);
        (&mut raster)
            .draw_rect((0, 0), (1, 1), &half, true)
            .unwrap();
        assert_eq!(raster.pixels(), [100, 100, 100, 255]);
        raster.clear(1, 1, Rgba(0, 0, 0, 0));
        (&mut raster)
            .draw_rect((0, 0), (1, 1), &half, true)
            .unwrap();
        assert_eq!(
            raster.pixels(),
            [200, 100, 0, 128],
            "black below does not shine through"
        );
    }
}
