//! Gathers shapes with the same paint into layers.
//!
//! A shape joins an earlier layer with the same paint, with two exceptions. Something painted in
//! between lies under it. Or it is translucent and overlaps a shape of that layer, where it must
//! look different. In these cases it begins a layer of its own.

use super::cover::Cover;
use super::outline::{Outline, outlines};
use timeline::colours::Rgba;
use timeline::scene::{Scene, Shape};

/// What a layer is painted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// One colour.
    Fill(Rgba),
    /// Diagonal stripes.
    Hatch {
        /// Colour of the stripes.
        colour: Rgba,
        /// Distance of the stripes, pixels.
        spacing: i32,
    },
}

impl Paint {
    /// Whether nothing shows through.
    fn is_opaque(self) -> bool {
        matches!(self, Paint::Fill(Rgba(.., 255)))
    }
}

/// Areas with the same paint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The paint.
    pub paint: Paint,
    /// The areas.
    pub outlines: Vec<Outline>,
}

/// The most layers of a scene, each of which holds a bit for every pixel. Cards of seven real
/// recordings had 38 to 80.
pub const MOST: usize = 256;

/// The layers of a scene, back to front; `None` if it needs too many.
pub fn layers(scene: &Scene) -> Option<Vec<Layer>> {
    let gathered = gathered(scene)?;
    let mut hidden = Cover::new(scene.size);
    let mut layers = Vec::with_capacity(gathered.len());
    // From front to back: hidden pixels need not be painted, but may be.
    for (paint, cover) in gathered.into_iter().rev() {
        let outlines = outlines(&cover.without(&hidden), &hidden);
        layers.push(Layer { paint, outlines });
        if paint.is_opaque() {
            hidden.add_all(&cover);
        }
    }
    layers.reverse();
    Some(layers)
}

fn gathered(scene: &Scene) -> Option<Vec<(Paint, Cover)>> {
    let mut layers: Vec<(Paint, Cover)> = Vec::new();
    for shape in &scene.shapes {
        let (rect, paint) = match *shape {
            Shape::Fill { rect, colour } => (rect, Paint::Fill(colour)),
            Shape::Hatch {
                rect,
                colour,
                spacing,
            } => (rect, Paint::Hatch { colour, spacing }),
        };
        let mut joined = None;
        for (at, (other, cover)) in layers.iter().enumerate().rev() {
            let meets = cover.meets(rect);
            if *other == paint && (paint.is_opaque() || !meets) {
                joined = Some(at);
            }
            if *other == paint || meets {
                break;
            }
        }
        let at = match joined {
            Some(at) => at,
            None if layers.len() == MOST => return None,
            None => {
                layers.push((paint, Cover::new(scene.size)));
                layers.len() - 1
            }
        };
        layers[at].1.add(rect);
    }
    Some(layers)
}
