//! Frame times for the browser tests: `window.__tidemark_frames`, only when the page is opened
//! with `frames=1` in its query.

use leptos::prelude::window;
use std::cell::OnceCell;
use wasm_bindgen::JsValue;

/// Frames kept, at most.
const MAX_FRAMES: u32 = 20_000;

thread_local! {
    static FRAMES: OnceCell<Option<js_sys::Array>> = const { OnceCell::new() };
}

/// Notes a frame: its start, and how long its script took, milliseconds.
pub fn record(began_ms: f64, took_ms: f64) {
    FRAMES.with(|frames| {
        let Some(frames) = frames.get_or_init(wanted) else {
            return;
        };
        if frames.length() < MAX_FRAMES {
            frames.push(&js_sys::Array::of2(&began_ms.into(), &took_ms.into()));
        }
    });
}

fn wanted() -> Option<js_sys::Array> {
    let query = window().location().search().ok()?;
    let asked = query
        .trim_start_matches('?')
        .split('&')
        .any(|pair| pair == "frames=1");
    let frames = asked.then(js_sys::Array::new)?;
    js_sys::Reflect::set(&window(), &JsValue::from_str("__tidemark_frames"), &frames).ok()?;
    Some(frames)
}
