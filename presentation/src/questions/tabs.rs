//! The tabs of a run: their names, and what keys do on their bar.

use api::view_state::Tab;

/// The name of a tab.
pub const fn title(tab: Tab) -> &'static str {
    match tab {
        Tab::Timeline => "Timeline",
        Tab::Leaks => "Leaks",
        Tab::Alive => "Alive",
        Tab::Allocations => "Allocations",
        Tab::Map => "Map",
        Tab::WhatIf => "What if",
    }
}

/// The id of its element.
pub const fn id(tab: Tab) -> &'static str {
    match tab {
        Tab::Timeline => "tab-timeline",
        Tab::Leaks => "tab-leaks",
        Tab::Alive => "tab-alive",
        Tab::Allocations => "tab-allocations",
        Tab::Map => "tab-map",
        Tab::WhatIf => "tab-what-if",
    }
}

/// The tab that a key on the bar leads to.
pub fn after_key(tab: Tab, key: &str) -> Option<Tab> {
    let at = Tab::ALL.iter().position(|&t| t == tab)?;
    let n = Tab::ALL.len();
    let to = match key {
        "ArrowRight" => (at + 1) % n,
        "ArrowLeft" => (at + n - 1) % n,
        "Home" => 0,
        "End" => n - 1,
        _ => return None,
    };
    Some(Tab::ALL[to])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_go_round() {
        let mut tab = Tab::Timeline;
        let round = [
            Tab::Leaks,
            Tab::Alive,
            Tab::Allocations,
            Tab::Map,
            Tab::WhatIf,
            Tab::Timeline,
        ];
        for expected in round {
            tab = after_key(tab, "ArrowRight").unwrap();
            assert_eq!(tab, expected);
        }
        assert_eq!(after_key(tab, "ArrowLeft"), Some(Tab::WhatIf));
        assert_eq!(after_key(tab, "x"), None);
    }
}
