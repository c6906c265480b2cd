//! The growth chart: which moments it has, and what is said, walked to and selected in it.

use super::areas::{Areas, Spot};
use super::picture::show_stack;
use ::timeline::format::{self, count};
use ::timeline::lanes::step_name;
use ::timeline::ticks::{self, Tick};
use api::alive::{Growth, GrowthBand};
use api::view_state::ViewState;
use std::sync::Arc;

/// The chart's moments up to the last step that ended, and the name of one that did not: it ran out
/// of memory, or the recording (of so many events) ended early in it. What is alive there is no end
/// of a step.
pub fn ended(growth: Arc<Growth>, events: u32, failures: &[u32]) -> (Arc<Growth>, Option<String>) {
    let n = growth.moments.len();
    let Some([before, last]) = growth.moments.last_chunk::<2>() else {
        return (growth, None);
    };
    let Some(step) = last.step.clone() else {
        return (growth, None);
    };
    let ends: Vec<u32> = growth.moments.iter().map(|moment| moment.event.0).collect();
    let lengths = ends.windows(2).map(|ends| ends[1] - ends[0]);
    let usual = trace::median::upper(lengths).unwrap_or(0);
    let in_it = before.event.0 + 1..=last.event.0;
    let failed = failures.iter().any(|event| in_it.contains(event));
    let is_open = last.event.0 + 1 >= events;
    let is_short = (last.event.0 - before.event.0) * 2 < usual;
    let has_ended = !failed && (!is_open || !is_short);
    if has_ended {
        return (growth, None);
    }
    let mut ended = Arc::unwrap_or_clone(growth);
    ended.moments.truncate(n - 1);
    for band in &mut ended.bands {
        band.bytes.truncate(n - 1);
        band.counts.truncate(n - 1);
    }
    (Arc::new(ended), Some(step))
}

/// A longer word before the number of the first step is left out, in bytes.
const WORD_BYTES: usize = 16;

/// The labels below the chart, with their distance from the left in percent. The first one says
/// what is counted.
pub fn moment_labels(growth: &Growth) -> Vec<(f64, String)> {
    const LABELS: usize = 6;
    let moments = &growth.moments;
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else {
        return Vec::new();
    };
    if first.step.is_none() {
        // The moments lie at events that are evenly spaced, but not round.
        let (from, to) = (f64::from(first.event.0), f64::from(last.event.0));
        let ticks = ticks::events(from, to, LABELS).into_iter().enumerate();
        let label = |(at, tick): (usize, Tick)| {
            let event = if at == 0 { "event " } else { "" };
            let place = (tick.at - from) / (to - from).max(1.0) * 100.0;
            (place, [event, &tick.label].concat())
        };
        return ticks.map(label).collect();
    }
    let n = moments.len();
    let name = |at: usize| moments[at].step.as_deref().map_or("", step_name);
    let counts = counting(name(0), name(n - 1));
    let label = |at: usize| {
        let (word, number) = counted(name(at), counts);
        let is_word = word.len() <= WORD_BYTES
            && word
                .chars()
                .all(|c| c.is_ascii_alphabetic() || c == ' ' || c == '-');
        let text = match at {
            _ if number.is_empty() => name(at).to_owned(),
            0 if is_word => [word, number].concat(),
            0 => ["step ", number].concat(),
            _ => number.to_owned(),
        };
        let place = if n > 1 {
            at as f64 / (n - 1) as f64
        } else {
            0.5
        };
        (place * 100.0, text)
    };
    (0..n).step_by(n.div_ceil(LABELS)).map(label).collect()
}

/// Which of the numbers in the names of steps counts them: the first that differs between two.
fn counting(first: &str, last: &str) -> Option<usize> {
    let of = |name: &str| -> Vec<String> {
        let numbers = name.split(|c: char| !c.is_ascii_digit());
        numbers
            .filter(|n| !n.is_empty())
            .map(str::to_owned)
            .collect()
    };
    of(first).iter().zip(of(last)).position(|(a, b)| *a != b)
}

/// The number that counts a step, and the word before it: the one at the end of the name, else the
/// `counts`th of its numbers, as in `step 3 of epoch 1 (lr 3e-4)`. Without one, both are empty.
fn counted(name: &str, counts: Option<usize>) -> (&str, &str) {
    let is_digit = |c: char| c.is_ascii_digit();
    let at_end = name.trim_end_matches(is_digit).len();
    if at_end < name.len() {
        return name.split_at(at_end);
    }
    let starts = name
        .char_indices()
        .filter(|&(at, c)| is_digit(c) && !name[..at].ends_with(is_digit));
    let mut starts = starts.map(|(at, _)| at);
    let Some(start) = counts.and_then(|counts| starts.nth(counts)) else {
        return ("", "");
    };
    let (word, rest) = name.split_at(start);
    let digits = rest.len() - rest.trim_start_matches(is_digit).len();
    (word, &rest[..digits])
}

/// The name of a band, with what it holds at the last moment.
pub fn band_name(band: &GrowthBand) -> String {
    let inferred = if band.inferred { " (inferred)" } else { "" };
    let held = format::bytes(band.bytes.last().copied().unwrap_or(0));
    format!("{}{inferred} · {held}", band.label)
}

/// The text about a spot of the chart.
pub fn readout(growth: &Growth, areas: &Areas, spot: Spot) -> String {
    let moment = &growth.moments[spot.moment];
    let place = match &moment.step {
        Some(step) => format!("end of {}", step_name(step)),
        None => format!("event {}", count(u64::from(moment.event.0))),
    };
    let total: u64 = areas
        .order
        .iter()
        .map(|&b| growth.bands[b].bytes[spot.moment])
        .sum();
    let of = |band: &GrowthBand| {
        let bytes = band.bytes[spot.moment];
        let inferred = if band.inferred { " (inferred)" } else { "" };
        format!(
            "{}{inferred} · {} in {}",
            band.label,
            format::with_exact(bytes),
            format::plural(band.counts[spot.moment], "block"),
        )
    };
    let total = format!("total {}", format::bytes(total));
    match spot.band {
        Some(band) => format!("{place}: {} · {total}", of(&growth.bands[band])),
        None => format!("{place}: {total}"),
    }
}

/// The spot that an arrow key leads to.
pub fn moved(areas: &Areas, from: Option<Spot>, key: &str) -> Option<Spot> {
    let last = areas.n_moments().checked_sub(1)?;
    let top = areas.order.last().copied();
    let Some(spot) = from else {
        return ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]
            .contains(&key)
            .then_some(Spot {
                moment: last,
                band: top,
            });
    };
    let at = spot
        .band
        .and_then(|band| areas.order.iter().position(|&b| b == band));
    let band_at = |at: Option<usize>| at.and_then(|at| areas.order.get(at).copied()).or(spot.band);
    Some(match key {
        "ArrowLeft" => Spot {
            moment: spot.moment.saturating_sub(1),
            ..spot
        },
        "ArrowRight" => Spot {
            moment: (spot.moment + 1).min(last),
            ..spot
        },
        "ArrowUp" => Spot {
            band: band_at(at.map(|at| at + 1)).or(top),
            ..spot
        },
        "ArrowDown" => Spot {
            band: band_at(at.and_then(|at| at.checked_sub(1))).or(top),
            ..spot
        },
        _ => return None,
    })
}

/// Selects a band's group: its allocations are listed, and its stack is shown in the picture.
pub fn select_band(state: &mut ViewState, band: &GrowthBand) {
    match state.growth_by {
        None => state.filter.site = Some(band.key.clone()),
        Some(by) => state.filter.of = Some(format!("{}:{}", by.name(), band.key)),
    }
    show_stack(state, band.stack);
}

/// The key of the band that is selected.
pub fn selected_band(state: &ViewState) -> Option<&str> {
    let Some(by) = state.growth_by else {
        return state.filter.site.as_deref();
    };
    let (of, key) = state.filter.of.as_deref()?.split_once(':')?;
    (of == by.name()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::super::areas::Rest;
    use super::*;
    use crate::questions::areas::tests::growth;
    use trace::alive::Dimension;
    use trace::units::EventIdx;

    #[test]
    fn the_name_of_a_band_says_what_it_holds_at_the_end() {
        let mut growth = growth(&[("a", &[1 << 20, 3 << 20])]);
        assert_eq!(band_name(&growth.bands[0]), "group a · 3.00 MiB");
        growth.bands[0].inferred = true;
        assert_eq!(band_name(&growth.bands[0]), "group a (inferred) · 3.00 MiB");
    }

    #[test]
    fn arrows_walk_over_moments_and_bands() {
        let growth = growth(&[("a", &[1, 2]), ("b", &[3, 4]), ("", &[5, 6])]);
        let areas = Areas::new(&growth, Rest::Shown);
        let walk = |keys: &[&str]| {
            let spot = keys.iter().fold(None, |spot, key| moved(&areas, spot, key));
            spot.map(|s| (s.moment, s.band))
        };
        assert_eq!(
            walk(&["ArrowLeft"]),
            Some((1, Some(0))),
            "it begins at the end, on top"
        );
        assert_eq!(walk(&["ArrowLeft", "ArrowLeft"]), Some((0, Some(0))));
        assert_eq!(walk(&["ArrowDown", "ArrowDown"]), Some((1, Some(1))));
        assert_eq!(
            walk(&["ArrowDown", "ArrowUp"]),
            Some((1, Some(0))),
            "there is nothing above"
        );
        assert_eq!(walk(&["x"]), None);
    }

    #[test]
    fn a_step_that_did_not_end_is_no_end_of_a_step() {
        let check = |ends: &[u32], oom: &[u32], events: u32, expected: usize| {
            let bytes = vec![1; ends.len()];
            let mut growth = growth(&[("a", &bytes)]);
            for (moment, &end) in growth.moments.iter_mut().zip(ends) {
                moment.event = EventIdx(end);
            }
            let (shown, left_out) = ended(Arc::new(growth), events, oom);
            assert_eq!(shown.moments.len(), expected, "{ends:?}");
            assert_eq!(shown.bands[0].bytes.len(), expected);
            assert_eq!(left_out.is_some(), expected < ends.len());
        };
        check(&[99, 199, 299], &[], 300, 3);
        check(&[99, 199, 299], &[250], 300, 2);
        check(&[99, 199, 299], &[150], 300, 3);
        check(&[99, 199, 219], &[], 220, 2);
        check(&[99, 199, 219], &[], 900, 3);
        check(&[99], &[50], 100, 1);
    }

    #[test]
    fn labels_are_round_and_say_what_they_count() {
        let told = |growth: &Growth| -> Vec<String> {
            let labels = moment_labels(growth).into_iter();
            labels
                .map(|(x, text)| format!("{text} at {x:.0}"))
                .collect()
        };
        let mut chart = growth(&[("a", &[1; 8])]);
        let steps = ["step 0 at 0", "2 at 29", "4 at 57", "6 at 86"];
        assert_eq!(told(&chart), steps);
        for (moment, at) in chart.moments.iter_mut().zip(12..) {
            moment.step = Some(format!("Optimizer.step#SGD.step 1.{at}"));
        }
        assert_eq!(told(&chart)[..2], ["step 12 at 0", "14 at 29"]);
        for (moment, at) in chart.moments.iter_mut().zip(0..) {
            moment.step = Some(format!(
                "## step {at} ## of epoch 3 (wikitext-103, lr 3e-4)"
            ));
        }
        assert_eq!(
            told(&chart),
            steps,
            "the number that counts, not all that is told"
        );
        for (moment, at) in chart.moments.iter_mut().zip(0..) {
            moment.step = Some(format!("a very long word of the program's own {at}"));
        }
        assert_eq!(told(&chart), steps);
        for (moment, at) in chart.moments.iter_mut().zip(1..) {
            (moment.event, moment.step) = (EventIdx(at * 1250 - 1), None);
        }
        let events = [
            "event 2,000 at 9",
            "4,000 at 31",
            "6,000 at 54",
            "8,000 at 77",
        ];
        assert_eq!(told(&chart), events);
        let one = growth(&[("a", &[1])]);
        assert_eq!(told(&one), ["step 0 at 50"], "below the only moment");
        assert_eq!(told(&growth(&[])), Vec::<String>::new());
    }

    #[test]
    fn a_spot_is_read_out_exactly() {
        let growth = growth(&[("a", &[1, 2048]), ("", &[5, 6])]);
        let areas = Areas::new(&growth, Rest::Shown);
        let spot = Spot {
            moment: 1,
            band: Some(0),
        };
        assert_eq!(
            readout(&growth, &areas, spot),
            "end of step 1: group a · 2.00 KiB (2,048 B) in 1 block · total 2.01 KiB"
        );
    }

    #[test]
    fn a_band_is_selected_in_its_own_dimension() {
        let mut state = ViewState::default();
        state.filter.site = Some("z4096".to_owned());
        state.filter.of = Some("module:backward:a.b".to_owned());
        assert_eq!(selected_band(&state), Some("z4096"));
        state.growth_by = Some(Dimension::Module);
        assert_eq!(selected_band(&state), Some("backward:a.b"));
        state.growth_by = Some(Dimension::Stream);
        assert_eq!(selected_band(&state), None);
    }
}
