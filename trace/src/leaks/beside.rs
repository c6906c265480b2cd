//! What of the level is no growth of the leaks: other sites that grow, and those that only hold.

use super::found::Found;
use super::judge;
use super::report::LeakGroup;
use super::view::View;
use crate::growth::{Line, settled};
use crate::site::SiteKey;
use std::collections::HashSet;

/// What of *allocated* at the ends of steps is no growth, in sites outside of the groups.
#[derive(Default)]
pub(super) struct Beside {
    /// What each step has made itself: it may be the results of longer and longer data, which the
    /// next step replaces.
    pub(super) young: Vec<u64>,
    /// The same, and all that sites hold that give it all back now and then: where such a site
    /// stands in its saw-tooth at the end is no growth.
    pub(super) emptied: Vec<u64>,
}

pub(super) fn beside(view: &View<'_>, groups: &[LeakGroup]) -> Beside {
    let known: HashSet<SiteKey> = groups.iter().map(|g| g.site).collect();
    let sites = view.sites.keys.iter().zip(&view.survey.kept);
    let outside = sites.filter(|(key, _)| !known.contains(key));
    let none = vec![0_u64; view.ends.len()];
    let mut beside = Beside {
        young: none.clone(),
        emptied: none,
    };
    for kept in outside.filter_map(|(_, kept)| kept.as_deref()) {
        add(&mut beside.young, &kept.new_bytes);
        add(
            &mut beside.emptied,
            match judge::is_emptied(kept) {
                true => &kept.live,
                false => &kept.new_bytes,
            },
        );
    }
    beside
}

pub(super) fn add(levels: &mut [u64], more: &[u64]) {
    for (level, more) in levels.iter_mut().zip(more) {
        *level = level.saturating_add(*more);
    }
}

/// What else grows beside the groups.
pub(super) struct Others {
    /// How many further sites do, but with too few growths for a rhythm.
    pub(super) places: usize,
    /// Bytes a step of optimizer state.
    pub(super) state: f64,
    /// Whether some of it is made again and again, as one optimizer does not.
    pub(super) is_state_again: bool,
}

impl Others {
    pub(super) fn of(view: &View<'_>, groups: &[LeakGroup], found: &Found) -> Others {
        let from = settled(view.ends.len());
        let known: HashSet<SiteKey> = groups.iter().map(|g| g.site).collect();
        let is_any_size = |key: &SiteKey| matches!(key, SiteKey::Size(_));
        let covered = |key: &SiteKey| {
            known.contains(key) || (is_any_size(key) && known.contains(&SiteKey::ANY_SIZE))
        };
        // What has an explanation is not irregular.
        let excused: HashSet<usize> = found.excused.iter().map(|(_, site, _)| *site).collect();
        let sites = view.sites.keys.iter().zip(&view.survey.kept).enumerate();
        let outside = sites.filter(|(at, (key, _))| !covered(key) && !excused.contains(at));
        let lines = outside.filter_map(|(_, (_, kept))| Line::fit(&kept.as_ref()?.live[from..]));
        let (state, is_state_again) = found.states();
        Others {
            places: lines.filter(|line| line.slope >= 1.0).count(),
            state,
            is_state_again,
        }
    }
}
