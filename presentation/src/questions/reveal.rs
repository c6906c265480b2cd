//! How far the page moves to bring an answer onto the screen.

/// Where parts of the page are, CSS pixels from the upper edge of the screen.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The lower edge of the page's header, which stays on the screen.
    pub header: f64,
    /// The bar of tabs.
    pub bar: f64,
    /// The answer.
    pub panel: f64,
    /// The lower edge of the screen.
    pub screen: f64,
}

/// How far the page moves, so that the bar is right below the header. `None` if the answer's head
/// and a good part of it are on the screen already.
pub fn distance(places: Places) -> Option<f64> {
    let room = places.screen - places.header;
    let begins_on_screen = places.panel >= places.header;
    let seen = begins_on_screen && places.screen - places.panel >= room * 0.4;
    (!seen).then_some(places.bar - places.header)
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
