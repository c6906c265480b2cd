//! What else accumulates beside the groups, in words.

use super::beside::Beside;
use super::found::Found;
use super::report::LeakGroup;
use super::view::View;
use crate::code::file_name;
use crate::growth::{Line, settled};
use crate::site::SiteKey;
use crate::stacks::StackIdx;
use crate::units::Bytes;
use std::collections::HashSet;

/// So large a part of bytes is nearly all of them.
const NEARLY_ALL: f64 = 0.9;

/// Growth that has ended is worth a word if it was so large a part of what goes on.
const WORTH_A_WORD: f64 = 0.1;

/// What else grows beside the groups.
pub(super) struct Others {
    /// How many further sites do, but with too few growths for a rhythm.
    pub(super) places: usize,
    /// The one that grows fastest.
    fastest: Option<Place>,
    /// Bytes a step of optimizer state.
    state: f64,
    /// Whether some of it is made again and again, as one optimizer does not.
    is_state_again: bool,
    /// A place that grew and no longer does: the one that holds most of such growth.
    ended: Option<Ended>,
}

/// A site that grows.
struct Place {
    /// Bytes a step, as a line through its level says.
    slope: f64,
    /// ` at save (train.py:7)`; empty without a stack.
    at: String,
}

/// A site whose growth has ended.
pub(super) struct Ended {
    /// ` at save (train.py:7)`; empty without a stack.
    pub(super) at: String,
    /// The step that added to it last.
    pub(super) last: usize,
    /// What it keeps of its growth.
    pub(super) bytes: Bytes,
    /// Bytes a step that it seems to grow by over all settled steps.
    slope: f64,
}

impl Others {
    pub(super) fn of(
        view: &View<'_>,
        groups: &[LeakGroup],
        found: &Found,
        beside: &Beside,
    ) -> Others {
        let from = settled(view.ends.len());
        let fit = |site: usize| Line::fit(&view.survey.kept[site].as_ref()?.live[from..]);
        let covered = covered(view, groups);
        // What has an explanation is not irregular, nor is what has ended.
        let excused = found.excused.iter().map(|(_, site, _)| *site);
        let explained: HashSet<usize> = excused
            .chain(beside.ended.iter().map(|(site, _)| *site))
            .collect();
        let mut others = Others {
            places: 0,
            fastest: None,
            state: 0.0,
            is_state_again: false,
            ended: None,
        };
        (others.state, others.is_state_again) = found.states();
        for site in (0..covered.len()).filter(|site| !covered[*site] && !explained.contains(site)) {
            let Some(line) = fit(site).filter(|line| line.slope >= 1.0) else {
                continue;
            };
            others.places += 1;
            if others
                .fastest
                .as_ref()
                .is_none_or(|known| line.slope > known.slope)
            {
                others.fastest = Some(Place {
                    slope: line.slope,
                    at: at(view, view.sites.stacks[site]),
                });
            }
        }
        let most = beside.ended.iter().max_by_key(|(_, ended)| ended.bytes);
        others.ended = most.map(|(site, ended)| Ended {
            at: at(view, view.sites.stacks[*site]),
            last: ended.last,
            bytes: Bytes(ended.bytes),
            slope: fit(*site).map_or(0.0, |line| line.slope),
        });
        others
    }

    /// What accounts for these bytes a step, which the groups do not hold.
    pub(super) fn in_words(&self, rest: f64) -> String {
        let bytes = Bytes(rest.round() as u64);
        if self.state >= NEARLY_ALL * rest {
            return match self.is_state_again {
                true => format!("the other {bytes} are optimizer state, made anew each time"),
                false => format!("the other {bytes} are optimizer state"),
            };
        }
        let fastest = self.fastest.as_ref();
        let Some(place) = fastest.filter(|place| place.slope * 2.0 > rest) else {
            return match self.places {
                0 | 1 => format!("no place alone accounts for the other {bytes}"),
                n => format!(
                    "the other {bytes} are spread over {n} places, at each too irregular to be sure"
                ),
            };
        };
        let at = match place.at.as_str() {
            "" => " at one place without a stack",
            at => at,
        };
        match place.slope >= NEARLY_ALL * rest {
            true => format!("the other {bytes} are kept{at}, too irregularly to be sure"),
            false => format!(
                "of the other {bytes} more than half is kept{at}, too irregularly to be sure"
            ),
        }
    }

    /// Growth that has ended, if it was not small beside so many bytes a step.
    pub(super) fn ended_beside(&self, bytes_per_step: f64) -> Option<&Ended> {
        let ended = self.ended.as_ref();
        ended.filter(|ended| ended.slope >= WORTH_A_WORD * bytes_per_step)
    }
}

/// Which sites belong to the groups.
pub(super) fn covered(view: &View<'_>, groups: &[LeakGroup]) -> Vec<bool> {
    let known: HashSet<SiteKey> = groups.iter().map(|g| g.site).collect();
    let has_any_size = known.contains(&SiteKey::ANY_SIZE);
    let is_covered =
        |key: &SiteKey| known.contains(key) || (has_any_size && matches!(key, SiteKey::Size(_)));
    view.sites.keys.iter().map(is_covered).collect()
}

/// ` at save (train.py:7)`: where a stack allocates; empty without one.
fn at(view: &View<'_>, stack: StackIdx) -> String {
    let Some(frame) = view.stacks.headline(stack) else {
        return String::new();
    };
    let name = view.stacks.str(frame.name);
    match (file_name(view.stacks.str(frame.filename)), frame.line) {
        ("" | "??", _) => format!(" at {name}"),
        (file, 0) => format!(" at {name} ({file})"),
        (file, line) => format!(" at {name} ({file}:{line})"),
    }
}
