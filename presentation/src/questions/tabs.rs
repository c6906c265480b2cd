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

/// The tabs of a recording. Of a state alone, those that ask for no history.
pub const fn all(has_events: bool) -> &'static [Tab] {
    match has_events {
        true => &Tab::ALL,
        false => &[Tab::Alive, Tab::Allocations, Tab::Map],
    }
}

/// The tab that is shown where this one was chosen.
pub fn shown(tab: Tab, has_events: bool) -> Tab {
    let all = all(has_events);
    if all.contains(&tab) { tab } else { all[0] }
}

/// The tab of these that a key on the bar leads to.
pub fn after_key(all: &[Tab], tab: Tab, key: &str) -> Option<Tab> {
    let at = all.iter().position(|&t| t == tab)?;
    let n = all.len();
    let to = match key {
        "ArrowRight" => (at + 1) % n,
        "ArrowLeft" => (at + n - 1) % n,
        "Home" => 0,
        "End" => n - 1,
        _ => return None,
    };
    Some(all[to])
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
            tab = after_key(&Tab::ALL, tab, "ArrowRight").unwrap();
            assert_eq!(tab, expected);
        }
        assert_eq!(after_key(&Tab::ALL, tab, "ArrowLeft"), Some(Tab::WhatIf));
        assert_eq!(after_key(&Tab::ALL, tab, "x"), None);
    }

    #[test]
    fn a_state_alone_has_the_tabs_that_ask_for_no_history() {
        for tab in Tab::ALL {
            assert_eq!(shown(tab, true), tab);
            assert!(all(false).contains(&shown(tab, false)), "{tab:?}");
        }
        assert_eq!(shown(Tab::Timeline, false), Tab::Alive);
        assert_eq!(shown(Tab::Map, false), Tab::Map);
        assert_eq!(
            after_key(all(false), Tab::Map, "ArrowRight"),
            Some(Tab::Alive)
        );
    }
}
