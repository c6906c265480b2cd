//! The canvases: puts the pixels of scenes on the page. Only this code touches a canvas context.
//!
//! Shapes are painted into a [`Raster`] and copied in one call. Texts go through plotters' canvas
//! backend, because only the browser has fonts. All coordinates are device pixels: the canvas has
//! as many pixels as the screen has in its place, and CSS sets its size.

use ::timeline::colours::{Palette, Rgba};
use ::timeline::paint;
use ::timeline::raster::Raster;
use ::timeline::scene::Scene;
use leptos::prelude::{document, window};
use plotters_canvas::CanvasBackend;
use wasm_bindgen::{Clamped, JsCast, JsValue};
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, ImageData};

/// One canvas and its paint.
pub struct Surface {
    canvas: HtmlCanvasElement,
    context: CanvasRenderingContext2d,
    text: CanvasBackend,
    raster: Raster,
    /// Whether nothing is on it.
    blank: bool,
}

impl Surface {
    /// Takes hold of a canvas; `None` if the browser gives no 2D context.
    pub fn new(canvas: HtmlCanvasElement) -> Option<Surface> {
        let context = canvas.get_context("2d").ok()??.dyn_into().ok()?;
        let text = CanvasBackend::with_canvas_object(canvas.clone())?;
        Some(Surface {
            canvas,
            context,
            text,
            raster: Raster::new(),
            blank: false,
        })
    }

    /// Paints a scene over a background, which may be transparent.
    ///
    /// # Errors
    /// What the browser reports, such as a canvas too large for its memory.
    pub fn paint(&mut self, scene: &Scene, background: Rgba) -> Result<(), JsValue> {
        let (width, height) = (scene.size.0.max(1) as u32, scene.size.1.max(1) as u32);
        let size = (self.canvas.width(), self.canvas.height());
        let blank = background.3 == 0 && scene.shapes.is_empty() && scene.texts.is_empty();
        if blank && self.blank && size == (width, height) {
            return Ok(());
        }
        self.blank = blank;
        // Setting the size clears the canvas and costs an allocation, even when it stays the same.
        if size != (width, height) {
            self.canvas.set_width(width);
            self.canvas.set_height(height);
        }
        self.raster.clear(width, height, background);
        let Ok(()) = paint::shapes(scene, &mut &mut self.raster).map_err(|_| ()) else {
            return Err(JsValue::from_str("the pixel buffer cannot fail"));
        };
        let pixels = Clamped(self.raster.pixels());
        let image = ImageData::new_with_u8_clamped_array_and_sh(pixels, width, height)?;
        self.context.put_image_data(&image, 0.0, 0.0)?;
        paint::texts(scene, &mut self.text).map_err(|error| JsValue::from_str(&error.to_string()))
    }
}

/// The palette of the page's theme, from its design tokens.
pub fn palette() -> Palette {
    let style = document()
        .document_element()
        .and_then(|root| window().get_computed_style(&root).ok().flatten());
    Palette::from_tokens(|name| style.as_ref()?.get_property_value(name).ok())
}

/// Device pixels per CSS pixel, now.
pub fn pixel_ratio() -> f64 {
    window().device_pixel_ratio().clamp(0.5, 4.0)
}
