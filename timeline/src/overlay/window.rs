//! Moving the visible part of the axis.

use trace::compare::curves::Align;

/// The narrowest window that is allowed, in the axis's own unit.
pub fn narrowest(align: Align) -> f64 {
    match align {
        Align::Step => 0.01,
        Align::Event => 8.0,
        Align::Time => 1e-5,
    }
}

/// The window `factor` times narrower around a place, inside the whole; `None` for the whole.
pub fn zoomed(
    window: (f64, f64),
    whole: (f64, f64),
    at: f64,
    factor: f64,
    align: Align,
) -> Option<(f64, f64)> {
    let length = (window.1 - window.0) / factor.max(1e-6);
    let length = length.max(narrowest(align));
    let share = ((at - window.0) / (window.1 - window.0)).clamp(0.0, 1.0);
    inside((at - share * length, at + (1.0 - share) * length), whole)
}

/// The window moved by a share of its length.
pub fn panned(window: (f64, f64), whole: (f64, f64), by: f64) -> Option<(f64, f64)> {
    let shift = (window.1 - window.0) * by;
    inside((window.0 + shift, window.1 + shift), whole)
}

/// Moves a window inside the whole; its length stays the same if possible.
fn inside(window: (f64, f64), whole: (f64, f64)) -> Option<(f64, f64)> {
    let length = window.1 - window.0;
    if length >= (whole.1 - whole.0) * (1.0 - 1e-9) {
        return None;
    }
    let from = window.0.clamp(whole.0, whole.1 - length);
    Some((from, from + length))
}
