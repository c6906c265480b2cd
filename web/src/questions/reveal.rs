//! Brings an answer onto the screen. It stands below the picture, which often fills the screen, so
//! that a click on its tab would seem to do nothing.

use crate::timeline::drive::reduced_motion;
use leptos::prelude::*;
use presentation::questions::reveal::{Places, distance};
use web_sys::{ScrollBehavior, ScrollToOptions};

/// Shows the answer of the tab that was just chosen, once it is on the page.
pub fn reveal() {
    request_animation_frame(|| {
        let Some(far) = places().and_then(distance) else {
            return;
        };
        let options = ScrollToOptions::new();
        options.set_top(far);
        options.set_behavior(match reduced_motion() {
            true => ScrollBehavior::Instant,
            false => ScrollBehavior::Smooth,
        });
        window().scroll_by_with_scroll_to_options(&options);
    });
}

fn places() -> Option<Places> {
    let place = |selector: &str| {
        let found = document().query_selector(selector).ok().flatten()?;
        Some(found.get_bounding_client_rect())
    };
    Some(Places {
        header: place(".app-header")?.bottom(),
        bar: place(".tabs")?.top(),
        panel: place(".questions:not([hidden])")?.top(),
        screen: window().inner_height().ok()?.as_f64()?,
    })
}
