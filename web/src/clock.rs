//! The browser's clock.

use crate::format::UnixMillis;
use leptos::prelude::*;
use std::time::Duration;

/// Now.
pub fn now() -> UnixMillis {
    UnixMillis(js_sys::Date::now() as i64)
}

/// The current time, renewed every `period` as long as the owner lives; for ages that stay right.
pub fn ticking(period: Duration) -> ReadSignal<UnixMillis> {
    let (moment, set_moment) = signal(now());
    if let Ok(interval) = set_interval_with_handle(move || set_moment.set(now()), period) {
        on_cleanup(move || interval.clear());
    }
    moment
}

/// Waits.
pub async fn sleep(time: Duration) {
    let promise = js_sys::Promise::new(&mut |resolve, _| {
        set_timeout(
            move || drop(resolve.call0(&wasm_bindgen::JsValue::NULL)),
            time,
        );
    });
    // Never rejects: only its resolving function is used.
    let _ = wasm_bindgen_futures::JsFuture::from(promise).await;
}
