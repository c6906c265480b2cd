//! A scene as an SVG document.

use plotters::prelude::SVGBackend;
use timeline::paint;
use timeline::scene::Scene;

/// The document. Its texts are texts, in the fonts of whoever looks at it.
pub fn svg(scene: &Scene) -> Vec<u8> {
    let mut document = String::new();
    {
        let size = (scene.size.0 as u32, scene.size.1 as u32);
        let mut backend = SVGBackend::with_string(&mut document, size);
        paint::shapes(scene, &mut backend).expect("a string takes everything");
        paint::texts(scene, &mut backend).expect("a string takes everything");
    }
    document.into_bytes()
}
