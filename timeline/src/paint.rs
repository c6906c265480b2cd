//! Paints a scene with any plotters backend: the pixel buffer and the canvas in the browser, SVG in
//! tests.

use super::colours::Rgba;
use super::plot::PxRect;
use super::scene::{Anchor, Scene, Shape, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, RGBAColor, TextStyle};
use plotters_backend::{BackendColor, BackendStyle, DrawingBackend, DrawingErrorKind};

/// What painting returns.
pub type Painted<DB> = Result<(), DrawingErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// The font of all text on the canvas: the same as on the page.
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

impl BackendStyle for Rgba {
    fn color(&self) -> BackendColor {
        BackendColor {
            alpha: f64::from(self.3) / 255.0,
            rgb: (self.0, self.1, self.2),
        }
    }
}

/// Paints the shapes.
///
/// # Errors
/// What the backend reports.
pub fn shapes<DB: DrawingBackend>(scene: &Scene, backend: &mut DB) -> Painted<DB> {
    for shape in &scene.shapes {
        match *shape {
            Shape::Fill { rect, colour } => fill(backend, rect, colour)?,
            Shape::Hatch {
                rect,
                colour,
                spacing,
            } => hatch(backend, rect, colour, spacing)?,
        }
    }
    Ok(())
}

/// Paints the texts.
///
/// # Errors
/// What the backend reports.
pub fn texts<DB: DrawingBackend>(scene: &Scene, backend: &mut DB) -> Painted<DB> {
    scene
        .texts
        .iter()
        .try_for_each(|text| draw_text(backend, text))
}

fn fill<DB: DrawingBackend>(backend: &mut DB, rect: PxRect, colour: Rgba) -> Painted<DB> {
    backend.draw_rect((rect.x0, rect.y0), (rect.x1, rect.y1), &colour, true)
}

/// Whether a pixel lies on a stripe, for stripes of this distance: `x + y` is near a multiple of
/// it. So stripes continue from one rectangle to the next.
pub fn stripe(spacing: i32, x: i32, y: i32) -> bool {
    (x + y).rem_euclid(spacing) < thick(spacing)
}

fn thick(spacing: i32) -> i32 {
    (spacing / 3).max(1)
}

/// Paints stripes ([`stripe`]) as staircases of dots: at this size the steps cannot be seen. Thin
/// rectangles (a bucket is often one pixel wide) then cost no more than their pixels.
fn hatch<DB: DrawingBackend>(
    backend: &mut DB,
    rect: PxRect,
    colour: Rgba,
    spacing: i32,
) -> Painted<DB> {
    for x in rect.x0..rect.x1 {
        let mut y = rect.y0 - (rect.y0 + x).rem_euclid(spacing);
        while y < rect.y1 {
            let (y0, y1) = (y.max(rect.y0), (y + thick(spacing)).min(rect.y1));
            if y0 < y1 {
                let (x0, x1) = (x, x + 1);
                fill(backend, PxRect { x0, y0, x1, y1 }, colour)?;
            }
            y += spacing;
        }
    }
    Ok(())
}

fn draw_text<DB: DrawingBackend>(backend: &mut DB, text: &Text) -> Painted<DB> {
    let Rgba(r, g, b, a) = text.colour;
    let h_pos = match text.anchor {
        Anchor::Left => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::Right => HPos::Right,
    };
    let colour = RGBAColor(r, g, b, f64::from(a) / 255.0);
    let style = TextStyle::from((FontFamily::Name(FONT), text.size))
        .color(&colour)
        .pos(Pos::new(h_pos, VPos::Center));
    backend.draw_text(&text.text, &style, (text.x, text.y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::prelude::SVGBackend;

    #[test]
    fn a_scene_becomes_svg() {
        let mut scene = Scene::new((40, 30));
        let grey = Rgba(200, 200, 200, 255);
        let rect = PxRect {
            x0: 0,
            y0: 0,
            x1: 40,
            y1: 20,
        };
        scene.fill(rect, grey);
        scene.hatch(
            PxRect {
                x0: 4,
                y0: 4,
                x1: 6,
                y1: 8,
            },
            Rgba(0, 0, 0, 128),
            3,
        );
        scene.texts.push(Text {
            x: 20,
            y: 25,
            anchor: Anchor::Middle,
            size: 10.0,
            colour: Rgba(0, 0, 0, 255),
            text: "<b>names are text</b>".to_owned(),
        });
        let mut svg = String::new();
        {
            let mut backend = SVGBackend::with_string(&mut svg, (40, 30));
            shapes(&scene, &mut backend).unwrap();
            texts(&scene, &mut backend).unwrap();
        }
        insta::assert_snapshot!(svg);
    }
}
