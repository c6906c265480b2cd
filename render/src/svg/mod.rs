//! A scene as an SVG document.
//!
//! In a scene, a picture has a rectangle for each column of pixels: thousands of them. Here all
//! rectangles with the same paint become one path. So a card has only some ten kilobytes, and is
//! still the same picture as the PNG, pixel by pixel. A scene for which that would take too much
//! (only a hostile file has one) becomes an image in the document; its texts are still texts.

mod cover;
mod layers;
mod outline;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cover::Cover;
use layers::{Layer, Paint, layers};
use outline::Outline;
use std::fmt::Write;
use timeline::colours::Rgba;
use timeline::paint::stripe;
use timeline::scene::{Anchor, Scene, Text};
use trace::plain::is_plain;

/// Distance from the middle of a line of text down to its baseline, in font sizes: half a capital
/// letter.
const TO_BASELINE: f64 = 0.36;

/// The viewer's own fonts, as on the page.
const FONT: &str = "system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif";

/// The document. Its texts stay texts.
pub fn svg(scene: &Scene) -> Vec<u8> {
    let (width, height) = scene.size;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n"
    );
    match layers(scene) {
        Some(layers) => write_layers(&mut out, &layers),
        None => write_image(&mut out, scene),
    }
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<g font-family=\"{FONT}\">");
    for text in &scene.texts {
        write_text(&mut out, text);
    }
    out += "</g>\n</svg>\n";
    out.into_bytes()
}

/// The most memory that making a document of this size takes, in bytes: the layers, and their
/// outlines, which all together have about as many steps as there are pixels.
pub fn memory_needed(size: (i32, i32)) -> usize {
    let pixels = size.0.max(0) as usize * size.1.max(0) as usize;
    // Two more say what is hidden, and what of a layer is left.
    (layers::MOST + 2) * Cover::bytes(size) + pixels * 16
}

fn write_layers(out: &mut String, layers: &[Layer]) {
    let mut hatches: Vec<Paint> = Vec::new();
    for layer in layers {
        if matches!(layer.paint, Paint::Hatch { .. }) && !hatches.contains(&layer.paint) {
            define(out, hatches.len(), layer.paint);
            hatches.push(layer.paint);
        }
    }
    for layer in layers {
        shape(out, layer, &hatches);
    }
}

/// All shapes as one image.
fn write_image(out: &mut String, scene: &Scene) {
    let (width, height) = scene.size;
    let _ = write!(
        out,
        "<image width=\"{width}\" height=\"{height}\" href=\"data:image/png;base64,"
    );
    STANDARD.encode_string(crate::png::without_texts(scene), out);
    *out += "\"/>\n";
}

/// Defines stripes as a pattern. Its tile is fixed to the whole picture, so stripes continue from
/// one shape to the next.
fn define(out: &mut String, number: usize, paint: Paint) {
    let Paint::Hatch { colour, spacing } = paint else {
        return;
    };
    let _ = write!(
        out,
        "<pattern id=\"h{number}\" width=\"{spacing}\" height=\"{spacing}\" \
         patternUnits=\"userSpaceOnUse\"><path {} d=\"",
        fill(colour)
    );
    for y in 0..spacing {
        for x in (0..spacing).filter(|x| stripe(spacing, *x, y)) {
            let _ = write!(out, "M{x} {y}h1v1h-1z");
        }
    }
    *out += "\"/></pattern>\n";
}

fn shape(out: &mut String, layer: &Layer, hatches: &[Paint]) {
    let paint = match layer.paint {
        Paint::Fill(colour) => fill(colour),
        Paint::Hatch { .. } => {
            let number = hatches.iter().position(|hatch| *hatch == layer.paint);
            format!("fill=\"url(#h{})\"", number.unwrap_or_default())
        }
    };
    let _ = write!(out, "<path {paint} d=\"");
    for outline in &layer.outlines {
        draw(out, outline);
    }
    *out += "\"/>\n";
}

/// `fill="#0072b2" fill-opacity=".16"`.
fn fill(Rgba(r, g, b, a): Rgba) -> String {
    let mut out = format!("fill=\"#{r:02x}{g:02x}{b:02x}\"");
    if a < 255 {
        let _ = write!(out, " fill-opacity=\"{:.3}\"", f64::from(a) / 255.0);
    }
    out
}

/// Goes along the upper edge to the right, then back along the lower one.
fn draw(out: &mut String, outline: &Outline) {
    let (mut x, mut y) = (outline.x0, outline.upper[0].1);
    let _ = write!(out, "M{x} {y}");
    let mut to = |out: &mut String, at: (i32, i32)| {
        for (axis, from, to) in [('h', &mut x, at.0), ('v', &mut y, at.1)] {
            if *from != to {
                let _ = write!(out, "{axis}{}", to - *from);
                *from = to;
            }
        }
    };
    let mut begin = outline.x0;
    for &(end, level) in &outline.upper {
        to(out, (begin, level));
        to(out, (end, level));
        begin = end;
    }
    for (at, &(end, level)) in outline.lower.iter().enumerate().rev() {
        let begin = at
            .checked_sub(1)
            .map_or(outline.x0, |before| outline.lower[before].0);
        to(out, (end, level));
        to(out, (begin, level));
    }
    out.push('z');
}

fn write_text(out: &mut String, text: &Text) {
    let anchor = match text.anchor {
        Anchor::Left => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::Right => " text-anchor=\"end\"",
    };
    let y = f64::from(text.y) + text.size * TO_BASELINE;
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{y:.1}\" font-size=\"{:.1}\"{anchor} {}>{}</text>",
        text.x,
        text.size,
        fill(text.colour),
        escaped(&text.text)
    );
}

/// A text between tags. XML allows no control characters, in any spelling. Characters that reorder
/// others would reorder the text of the card.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            c if !is_plain(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
