//! The scene: everything to paint, as plain shapes in device pixels, back to front.
//!
//! Scenes are data, so that tests can check them and any plotters backend can paint them.
//! Everything in the picture is a step function of the event. So all edges are horizontal or
//! vertical and meet exactly: no anti-aliasing is needed, and no gap can show.

use super::colours::Rgba;
use super::plot::PxRect;

/// A shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A filled rectangle.
    Fill {
        /// Where.
        rect: PxRect,
        /// With what.
        colour: Rgba,
    },
    /// A rectangle filled with diagonal stripes; stripes of neighbouring rectangles meet.
    Hatch {
        /// Where.
        rect: PxRect,
        /// Colour of the stripes.
        colour: Rgba,
        /// Distance of the stripes, pixels.
        spacing: i32,
    },
}

/// The position of the anchor in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Left end, vertically centred.
    Left,
    /// Middle.
    Middle,
    /// Right end, vertically centred.
    Right,
}

/// A text.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Anchor point.
    pub x: i32,
    /// Anchor point.
    pub y: i32,
    /// Which point of the text the anchor is.
    pub anchor: Anchor,
    /// Font size, device pixels.
    pub size: f64,
    /// Colour.
    pub colour: Rgba,
    /// What it says.
    pub text: String,
}

/// Shapes and texts, back to front; texts are over all shapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// Width and height in pixels.
    pub size: (i32, i32),
    /// Shapes.
    pub shapes: Vec<Shape>,
    /// Texts.
    pub texts: Vec<Text>,
}

impl Scene {
    /// An empty scene.
    pub fn new(size: (i32, i32)) -> Scene {
        Scene {
            size,
            ..Scene::default()
        }
    }

    /// Adds a filled rectangle, unless it is empty.
    pub fn fill(&mut self, rect: PxRect, colour: Rgba) {
        if rect.width() > 0 && rect.height() > 0 {
            self.shapes.push(Shape::Fill { rect, colour });
        }
    }

    /// Adds a striped rectangle, unless it is empty.
    pub fn hatch(&mut self, rect: PxRect, colour: Rgba, spacing: i32) {
        if rect.width() > 0 && rect.height() > 0 {
            self.shapes.push(Shape::Hatch {
                rect,
                colour,
                spacing,
            });
        }
    }

    /// Adds the four edges of a rectangle, `thick` pixels, inside it.
    pub fn outline(&mut self, rect: PxRect, colour: Rgba, thick: i32) {
        let PxRect { x0, y0, x1, y1 } = rect;
        let (top, bottom) = ((y0 + thick).min(y1), (y1 - thick).max(y0));
        self.fill(
            PxRect {
                x0,
                y0,
                x1,
                y1: top,
            },
            colour,
        );
        self.fill(
            PxRect {
                x0,
                y0: bottom.max(top),
                x1,
                y1,
            },
            colour,
        );
        let (left, right) = ((x0 + thick).min(x1), (x1 - thick).max(x0));
        self.fill(
            PxRect {
                x0,
                y0: top,
                x1: left,
                y1: bottom,
            },
            colour,
        );
        self.fill(
            PxRect {
                x0: right.max(left),
                y0: top,
                x1,
                y1: bottom,
            },
            colour,
        );
    }

    /// Adds another scene, its upper left corner at a place.
    pub fn place(&mut self, other: &Scene, (x, y): (i32, i32)) {
        let moved = |rect: PxRect| PxRect {
            x0: rect.x0 + x,
            y0: rect.y0 + y,
            x1: rect.x1 + x,
            y1: rect.y1 + y,
        };
        self.shapes
            .extend(other.shapes.iter().map(|shape| match *shape {
                Shape::Fill { rect, colour } => Shape::Fill {
                    rect: moved(rect),
                    colour,
                },
                Shape::Hatch {
                    rect,
                    colour,
                    spacing,
                } => Shape::Hatch {
                    rect: moved(rect),
                    colour,
                    spacing,
                },
            }));
        self.texts.extend(other.texts.iter().map(|text| Text {
            x: text.x + x,
            y: text.y + y,
            ..text.clone()
        }));
    }

    /// Adds a dashed horizontal line, `thick` pixels.
    pub fn dashes(&mut self, x: (i32, i32), y: i32, colour: Rgba, thick: i32) {
        let (dash, gap) = (thick * 6, thick * 4);
        let mut at = x.0;
        while at < x.1 {
            let rect = PxRect {
                x0: at,
                y0: y,
                x1: (at + dash).min(x.1),
                y1: y + thick,
            };
            self.fill(rect, colour);
            at += dash + gap;
        }
    }
}

/// About how wide a text is at a font size. Labels are placed with it, so it is generous.
pub fn text_width(text: &str, size: f64) -> i32 {
    widths(text, size).last().map_or(0, |(_, width)| width)
}

/// Where each letter ends, and how wide the text is up to there.
fn widths(text: &str, size: f64) -> impl Iterator<Item = (usize, i32)> {
    let narrow = |c: char| matches!(c, 'i' | 'l' | 'j' | 't' | 'f' | '.' | ',' | ':' | ' ' | '/');
    let mut units = 0.0_f64;
    text.char_indices().map(move |(at, c)| {
        units += match c {
            c if narrow(c) => 0.34,
            'm' | 'w' | 'M' | 'W' => 0.86,
            c if c.is_uppercase() => 0.68,
            _ => 0.58,
        };
        (at + c.len_utf8(), (units * size).ceil() as i32)
    })
}

/// Whether the text fits into a width. It is not measured any further: names may be long, and there
/// may be thousands of them.
pub fn fits(text: &str, size: f64, width: i32) -> bool {
    width >= 0 && widths(text, size).all(|(_, so_far)| so_far <= width)
}

/// The text cut to a width, with an ellipsis; `None` if not even a few letters fit.
pub fn fitted(text: &str, size: f64, width: i32) -> Option<String> {
    if fits(text, size, width) {
        return Some(text.to_owned());
    }
    let ellipsis = (size * 0.9) as i32;
    let beside = widths(text, size).take_while(|(_, so_far)| so_far + ellipsis <= width);
    let cut = beside.last().map_or("", |(end, _)| &text[..end]);
    (cut.chars().count() >= 4).then(|| format!("{cut}…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_place_or_left_out() {
        assert_eq!(fitted("short", 10.0, 100).as_deref(), Some("short"));
        let cut = fitted("forward model.py:12", 10.0, 60).unwrap();
        assert!(cut.ends_with('…') && text_width(&cut, 10.0) <= 66, "{cut}");
        assert_eq!(fitted("forward", 10.0, 12), None);
    }

    /// A hostile file has thousands of names of a kilobyte, each above a few pixels.
    #[test]
    fn a_long_text_is_measured_only_as_far_as_it_can_fit() {
        let long = "é".repeat(4 << 20);
        let (mut told, mut left_out) = (0, 0);
        for _ in 0..2000 {
            match fitted(&long, 10.0, 40) {
                Some(_) => told += 1,
                None => left_out += 1,
            }
        }
        assert_eq!((told, left_out), (2000, 0));
    }

    #[test]
    fn an_outline_stays_inside_and_does_not_overlap_itself() {
        for (w, h) in [(10, 10), (1, 10), (10, 1), (3, 3)] {
            let mut scene = Scene::new((20, 20));
            let rect = PxRect {
                x0: 2,
                y0: 2,
                x1: 2 + w,
                y1: 2 + h,
            };
            scene.outline(rect, Rgba(0, 0, 0, 255), 2);
            let area: i32 = scene
                .shapes
                .iter()
                .map(|s| match s {
                    Shape::Fill { rect: r, .. } => r.width() * r.height(),
                    Shape::Hatch { .. } => 0,
                })
                .sum();
            let inner = (w - 4).max(0) * (h - 4).max(0);
            assert_eq!(area, w * h - inner, "{w}x{h}");
        }
    }
}
