//! Changes around the timeline that have no DOM event: its size, and the theme.

use leptos::prelude::*;
use wasm_bindgen::JsCast;
use wasm_bindgen::closure::Closure;
use web_sys::{Element, MutationObserver, MutationObserverInit, ResizeObserver};

/// Calls back with the CSS size of an element, now and whenever it changes, until the owner is
/// cleaned up.
pub fn size(element: &Element, react: impl Fn(f64, f64) + 'static) {
    let observed = element.clone();
    let callback = Closure::<dyn Fn()>::new(move || {
        let rect = observed.get_bounding_client_rect();
        react(rect.width(), rect.height());
    });
    let Ok(observer) = ResizeObserver::new(callback.as_ref().unchecked_ref()) else {
        return;
    };
    // The first report comes with the next frame.
    observer.observe(element);
    let kept = StoredValue::new_local((observer, callback));
    on_cleanup(move || kept.with_value(|(observer, _)| observer.disconnect()));
}

/// Calls back when the page's theme changes, by the switch or by the system, until the owner is
/// cleaned up.
pub fn theme(react: impl Fn() + Clone + 'static) {
    let callback = Closure::<dyn Fn()>::new(react);
    let function = callback
        .as_ref()
        .unchecked_ref::<js_sys::Function>()
        .clone();
    let observer = MutationObserver::new(&function).ok();
    if let (Some(observer), Some(root)) = (&observer, document().document_element()) {
        let what = MutationObserverInit::new();
        what.set_attributes(true);
        what.set_attribute_filter(&js_sys::Array::of1(&"data-theme".into()));
        // Fails only for contradictory options.
        let _ = observer.observe_with_options(&root, &what);
    }
    let system = window()
        .match_media("(prefers-color-scheme: dark)")
        .ok()
        .flatten();
    if let Some(system) = &system {
        let _ = system.add_event_listener_with_callback("change", &function);
    }
    let kept = StoredValue::new_local((observer, system, callback));
    on_cleanup(move || {
        kept.with_value(|(observer, system, callback)| {
            if let Some(observer) = observer {
                observer.disconnect();
            }
            if let Some(system) = system {
                let function = callback.as_ref().unchecked_ref();
                let _ = system.remove_event_listener_with_callback("change", function);
            }
        });
    });
}
