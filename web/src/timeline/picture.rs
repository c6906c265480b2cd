//! A canvas that shows one scene. It is painted again when its size, the theme or its content
//! changes.

use super::canvas::{self, Surface};
use super::observe;
use ::timeline::colours::Palette;
use ::timeline::overlay::Canvas;
use ::timeline::scene::Scene;
use leptos::html;
use leptos::prelude::*;

/// Makes the scene for a canvas of this size. `None` if it is not known yet; the canvas then stays
/// as it is. Signals that it reads are tracked.
pub type Painted = Box<dyn Fn(Canvas, &Palette) -> Option<Scene>>;

/// A canvas that has not been measured yet.
pub const UNMEASURED: Canvas = Canvas {
    width: 1.0,
    height: 1.0,
    scale: 1.0,
};

/// Connects a canvas to its content. `size` follows the element that holds the canvas.
pub fn paint_when_changed(
    (canvas, holder): (NodeRef<html::Canvas>, NodeRef<html::Div>),
    size: RwSignal<Canvas>,
    scene: Painted,
) {
    let theme = RwSignal::new(0_u32);
    let surface: StoredValue<Option<Surface>, LocalStorage> = StoredValue::new_local(None);
    Effect::new(move |_| {
        let (Some(canvas), Some(holder)) = (canvas.get(), holder.get()) else {
            return;
        };
        surface.set_value(Surface::new(canvas));
        observe::size(&holder, move |width, height| {
            let scale = canvas::pixel_ratio();
            size.set(Canvas {
                width,
                height,
                scale,
            });
        });
        observe::theme(move || theme.update(|n| *n = n.wrapping_add(1)));
    });
    Effect::new(move |_| {
        theme.track();
        let palette = canvas::palette();
        let Some(scene) = scene(size.get(), &palette) else {
            return;
        };
        surface.update_value(|surface| {
            if let Some(surface) = surface {
                // If the canvas is too large for the browser's memory, it stays as it is.
                let _ = surface.paint(&scene, palette.surface);
            }
        });
    });
}
