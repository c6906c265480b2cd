//! A scene as a PNG file, with a built-in font.

use ab_glyph::{Font, FontRef, Glyph, Point, PxScale, ScaleFont, point};
use plotters_backend::{BackendColor, DrawingBackend};
use timeline::colours::Rgba;
use timeline::paint;
use timeline::raster::Raster;
use timeline::scene::{Anchor, Scene, Text};

/// Inter Medium (SIL Open Font License, `render/fonts/`), reduced to European scripts.
static FONT: &[u8] = include_bytes!("../fonts/inter-medium.otf");

/// Distance from the middle of a line of text down to its baseline, in font sizes: half a capital
/// letter.
const TO_BASELINE: f32 = 0.36;

/// The file.
pub fn png(scene: &Scene) -> Vec<u8> {
    let mut raster = shapes(scene);
    let font = FontRef::try_from_slice(FONT).expect("the font is one");
    for text in &scene.texts {
        write(&mut raster, &font, text);
    }
    encoded(&raster)
}

/// The same without its texts.
pub fn without_texts(scene: &Scene) -> Vec<u8> {
    encoded(&shapes(scene))
}

fn shapes(scene: &Scene) -> Raster {
    let (width, height) = (scene.size.0 as u32, scene.size.1 as u32);
    let mut raster = Raster::new();
    raster.clear(width, height, Rgba(255, 255, 255, 255));
    paint::shapes(scene, &mut &mut raster).expect("a raster takes everything");
    raster
}

fn write(raster: &mut Raster, font: &FontRef<'_>, text: &Text) {
    let Rgba(r, g, b, alpha) = text.colour;
    for glyph in laid_out(font, text) {
        let Some(outline) = font.outline_glyph(glyph) else {
            continue;
        };
        let origin = outline.px_bounds().min;
        outline.draw(|x, y, coverage| {
            let at = (origin.x as i32 + x as i32, origin.y as i32 + y as i32);
            let colour = BackendColor {
                alpha: f64::from(coverage.min(1.0)) * f64::from(alpha) / 255.0,
                rgb: (r, g, b),
            };
            let mut backend = &mut *raster;
            backend
                .draw_pixel(at, colour)
                .expect("a raster takes everything");
        });
    }
}

/// The text's glyphs, each in its place.
fn laid_out(font: &FontRef<'_>, text: &Text) -> Vec<Glyph> {
    let size = text.size as f32;
    let em = font.units_per_em().unwrap_or(1000.0);
    let scale = PxScale::from(size * font.height_unscaled() / em);
    let scaled = font.as_scaled(scale);
    let mut pen: Point = point(0.0, text.y as f32 + size * TO_BASELINE);
    let mut glyphs: Vec<Glyph> = Vec::new();
    for letter in text.text.chars() {
        let id = scaled.glyph_id(letter);
        if let Some(last) = glyphs.last() {
            pen.x += scaled.kern(last.id, id);
        }
        glyphs.push(id.with_scale_and_position(scale, pen));
        pen.x += scaled.h_advance(id);
    }
    let left = match text.anchor {
        Anchor::Left => text.x as f32,
        Anchor::Middle => text.x as f32 - pen.x / 2.0,
        Anchor::Right => text.x as f32 - pen.x,
    };
    for glyph in &mut glyphs {
        glyph.position.x += left;
    }
    glyphs
}

fn encoded(raster: &Raster) -> Vec<u8> {
    let (width, height) = raster.size();
    let (pixels, _) = raster.pixels().as_chunks::<4>();
    let opaque: Vec<u8> = pixels.iter().flat_map(|&[r, g, b, _]| [r, g, b]).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header().expect("memory takes everything");
    writer
        .write_image_data(&opaque)
        .expect("memory takes everything");
    writer.finish().expect("memory takes everything");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_of_a_card_is_in_the_font() {
        let font = FontRef::try_from_slice(FONT).unwrap();
        let letters = "Tidemark 0123456789 +−±…·:/._→×“”’ äöüßéèçñŁğ";
        for letter in letters.chars() {
            assert_ne!(font.glyph_id(letter).0, 0, "{letter}");
        }
    }

    #[test]
    fn texts_are_where_their_anchor_is() {
        let font = FontRef::try_from_slice(FONT).unwrap();
        let text = |anchor| Text {
            x: 100,
            y: 20,
            anchor,
            size: 20.0,
            colour: Rgba(0, 0, 0, 255),
            text: "8.00 MiB".to_owned(),
        };
        let first = |anchor| laid_out(&font, &text(anchor))[0].position.x;
        assert_eq!(first(Anchor::Left), 100.0);
        let (middle, right) = (first(Anchor::Middle), first(Anchor::Right));
        assert!(right < middle && middle < 100.0);
        assert!((100.0 - right - 2.0 * (100.0 - middle)).abs() < 0.1);
    }
}
