//! Brings an answer onto the screen. It stands below the picture, which often fills the screen, so
//! that a click on its tab would seem to do nothing.

use crate::timeline::drive::reduced_motion;
use leptos::prelude::*;
use web_sys::{ScrollBehavior, ScrollToOptions};

/// Where parts of the page are, CSS pixels from the upper edge of the screen.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// The lower edge of the page's header, which stays on the screen.
    header: f64,
    /// The bar of tabs.
    bar: f64,
    /// The answer.
    panel: f64,
    /// The lower edge of the screen.
    screen: f64,
}

/// How far the page moves, so that the bar is right below the header. `None` if the answer's head
/// and a good part of it are on the screen already.
fn distance(places: Places) -> Option<f64> {
    let room = places.screen - places.header;
    let begins_on_screen = places.panel >= places.header;
    let seen = begins_on_screen && places.screen - places.panel >= room * 0.4;
    (!seen).then_some(places.bar - places.header)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_moves_where_the_answer_is_not_seen() {
        let moved = |bar, panel| {
            distance(Places {
                header: 44.0,
                bar,
                panel,
                screen: 900.0,
            })
        };
        assert_eq!(moved(400.0, 907.0), Some(356.0), "below the screen");
        assert_eq!(moved(300.0, 800.0), Some(256.0), "only its head");
        assert_eq!(moved(44.0, 540.0), None, "a good part");
        assert_eq!(moved(-800.0, -200.0), Some(-844.0), "its head is above");
    }
}
