//! What to try if nothing failed, the most promising first.

use super::Look;
use crate::cards::capital;
use crate::cards::markdown::code;
use api::explain::{Advice, Basis, LeakExplained, Moment, PlaceBytes};
use api::leaks::{Pattern, Verdict};
use trace::allocator::{Config, conf};
use trace::categories::{Category, Named};
use trace::trace::{PINNED, Series};
use trace::units::Bytes;
use trace::watch::Stopped;
use trace::what_if::{self, Conditions, Early, Evidence, Placement};

/// A better setting is searched if at least this share of reserved memory was unused at its peak …
const UNUSED: f64 = 0.1;
/// … and at least this much.
const UNUSED_BYTES: Bytes = Bytes::mib(64);
/// The rules must predict at least this share of addresses; otherwise an answer has no value.
const FAITHFUL: f64 = 0.95;
/// A setting must save at least this share of *reserved*.
const SAVES: f64 = 0.05;
/// A category is mentioned from this share of the peak on.
const LARGE: f64 = 0.4;
/// The setting that saves most, where segments do not expand yet.
const EXPANDABLE: &str = "expandable_segments:True";

/// What to try.
///
/// # Errors
/// [`Stopped`].
pub fn of(look: &Look<'_>, peak: &Moment) -> Result<Vec<Advice>, Stopped> {
    let all = match look.device.device {
        // The allocator of the host has none of these settings, and offloading brings memory there.
        PINNED => [leak(look), None, None],
        _ => [leak(look), settings(look)?, largest(peak)],
    };
    Ok(all.into_iter().flatten().collect())
}

fn leak(look: &Look<'_>) -> Option<Advice> {
    let leaks = &look.leaks;
    let first = leaks
        .groups
        .first()
        .filter(|_| leaks.verdict == Verdict::Leak)?;
    let has_stack = look
        .report
        .groups
        .iter()
        .any(|group| group.alloc_frame.is_some());
    if !has_stack {
        return Some(Advice {
            basis: Basis::NotComputed,
            sentence: "Find the code that leaks: record again with Python stacks \
                       (`stacks=\"python\"`, or `\"all\"`)."
                .to_owned(),
        });
    }
    let place = code(&first.place);
    let is_across = |group: &&LeakExplained| group.pattern != Pattern::WithinStep;
    let live: Bytes = leaks
        .groups
        .iter()
        .filter(is_across)
        .map(|g| g.live_bytes)
        .sum();
    Some(Advice {
        basis: Basis::Computed,
        sentence: match leaks.groups.iter().any(|group| is_across(&group)) {
            true => format!(
                "Fix the leak in {place}: what accumulates holds {live} at the end of the last \
                 step, and grows on."
            ),
            false => format!(
                "Give back sooner what {place} keeps: it piles up in each step until the step \
                 ends, and makes the peak."
            ),
        },
    })
}

/// Whether other settings would reserve less: expandable segments, or the defaults in place of the
/// file's own.
fn settings(look: &Look<'_>) -> Result<Option<Advice>, Stopped> {
    let device = look.device;
    let [allocated, reserved] =
        [Series::Allocated, Series::Reserved].map(|series| device.summary[series as usize].peak);
    let unused = reserved.saturating_sub(allocated);
    let fidelity = device.fidelity;
    let is_faithful = fidelity.predicted as f64 >= FAITHFUL * fidelity.allocs as f64;
    let own = what_if::own_settings(&look.trace.format, device);
    // Memory that was reserved before the recording began may have been needed then.
    let is_recorded = device.summary[Series::Reserved as usize]
        .peak_event
        .is_some();
    let is_worth = unused >= UNUSED_BYTES && unused.0 as f64 >= UNUSED * reserved.0 as f64;
    if !is_worth || !is_recorded || !is_faithful {
        return Ok(None);
    }
    let evidence = Evidence::of(device, &own, look.watch)?;
    let peak = |settings: &Config| {
        let conditions = Conditions {
            settings,
            limit: None,
            early: &Early::default(),
            batch: None,
            placement: Placement::Seen,
        };
        let outcome = what_if::replay(device, &evidence, &conditions, look.watch)?;
        Ok((outcome.peak_reserved, conf::text(settings)))
    };
    let tried = what_if::simpler(&own);
    let tried = tried.iter().map(peak).collect::<Result<Vec<_>, _>>()?;
    let Some((best, setting)) = tried.iter().min_by_key(|(peak, _)| *peak) else {
        return Ok(None);
    };
    let begin = format!("Reserved memory peaks {unused} above allocated memory");
    let variable = |conf: &str| code(&format!("{}={conf}", conf::VARIABLE));
    let is_better = reserved.saturating_sub(*best).0 as f64 >= SAVES * reserved.0 as f64;
    let own = conf::text(&own);
    let instead = match (setting.as_str(), own.as_str()) {
        ("", own) => format!("without {}", variable(own)),
        (setting, "") => format!("under {}", variable(setting)),
        (setting, own) => format!("under {} in place of {}", variable(setting), code(own)),
    };
    Ok(match is_better {
        true => Some(format!(
            "{begin}: {instead} it would peak at {best} instead of {reserved}."
        )),
        // Where segments expand already, there is nothing better to name.
        false if own.contains(EXPANDABLE) => None,
        false => Some(format!(
            "{begin}, and {} would not change that.",
            variable(EXPANDABLE)
        )),
    }
    .map(|sentence| Advice {
        basis: Basis::Computed,
        sentence,
    }))
}

/// Advice to lower the largest part of the peak.
fn largest(peak: &Moment) -> Option<Advice> {
    let first = peak.categories.first()?;
    let share = first.bytes.0 as f64 / peak.allocated.0.max(1) as f64;
    let place = peak.places.iter().find(|place| place.frame.is_some());
    let asked_for_by =
        |place: &PlaceBytes| format!("; most is asked for by {}", code(&place.place));
    let at = place.map(asked_for_by).unwrap_or_default();
    // What would lower a category of the team's own, only the team knows.
    let Named::Ours(category) = first.category else {
        return None;
    };
    let what = match category {
        Category::Activation => "activation checkpointing, offloading, or a smaller batch",
        Category::OptimizerState => "an optimizer with a smaller state (8-bit), or sharding it",
        Category::Parameter => "a lower precision, or sharding",
        Category::Gradient => "clearing them before the forward pass, or sharding",
        Category::Temporary => &format!("computing in chunks, or fusing operations{at}"),
        Category::KvCache => "a shorter context, fewer requests at once, or a lower precision",
        Category::Buffer | Category::Input | Category::Before | Category::Unknown => return None,
    };
    let name = first.category.label();
    let verb = if first.category == Category::OptimizerState || first.category == Category::KvCache
    {
        "is"
    } else {
        "are"
    };
    (share >= LARGE).then(|| Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{} {verb} {:.0} % of the peak (inferred). What lowers that: {what}.",
            capital(name),
            100.0 * share
        ),
    })
}
