//! What to try if nothing failed, the most promising first.

use super::Look;
use super::moment::{self, Place, Places};
use super::words;
use crate::cards::capital;
use crate::cards::markdown::code;
use api::explain::{Advice, Basis, Moment, OtherDevice};
use api::leaks::Verdict;
use std::cmp::Reverse;
use std::collections::HashMap;
use timeline::format::plural;
use trace::allocator::{Config, conf};
use trace::categories::{self, Category, Named};
use trace::device::DeviceIdx;
use trace::known::{Point, Unknown};
use trace::leaks;
use trace::steps::Word;
use trace::trace::{BlockIdx, Series};
use trace::units::{Bytes, EventIdx};
use trace::watch::Stopped;
use trace::what_if::{self, Conditions, Evidence, Replay};

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
/// Fewer steps do not show that something grows.
const LEAST_STEPS: usize = 4;
/// It grows if it does over this share of the steps.
const RISES: f64 = 0.75;
/// The setting that saves most, where segments do not expand yet.
const EXPANDABLE: &str = "expandable_segments:True";

/// What to try.
///
/// # Errors
/// [`Stopped`].
pub fn of(
    look: &Look<'_>,
    places: &mut Places<'_>,
    peak: &Moment,
    unknown: &Unknown,
) -> Result<Vec<Advice>, Stopped> {
    let whole = match unknown.is_of_state() {
        true => "what is held",
        false => "the peak",
    };
    let settings = |look| match unknown.has(Series::Reserved, Point::Peak) {
        true => Ok(None),
        false => settings(look),
    };
    let all = match look.device.device {
        // The allocator of the host has none of these settings, and offloading brings memory there.
        DeviceIdx::PINNED => [leak(look), None, None, None],
        _ => [
            leak(look),
            settings(look)?,
            waiting(look),
            largest(look, places, peak, whole),
        ],
    };
    Ok(all.into_iter().flatten().collect())
}

/// What to do about leaks of other devices.
pub fn of_others(others: &[OtherDevice]) -> impl Iterator<Item = Advice> + '_ {
    others.iter().filter_map(|other| {
        let place = other.leaking_place.as_ref()?;
        let name = other.device.name();
        Some(Advice {
            basis: Basis::Computed,
            sentence: format!("Fix the leak of {name} at {}.", code(place)),
        })
    })
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
    let step = Word::of(&look.device.steps).one();
    Some(Advice {
        basis: Basis::Computed,
        sentence: across(look).unwrap_or_else(|| {
            format!(
                "Give back sooner what {} keeps: it piles up in each {step} until the {step} \
                 ends, and makes the peak.",
                code(&first.place)
            )
        }),
    })
}

/// What to do about what accumulates from step to step: the first place, with its own bytes, and
/// how much accumulates elsewhere.
fn across(look: &Look<'_>) -> Option<String> {
    let groups = look.report.groups.iter();
    let groups = groups.filter(|group| group.pattern != leaks::Pattern::WithinStep);
    let mut by_place: Vec<(String, Bytes)> = Vec::new();
    for group in groups {
        let place = moment::leaking(look.stacks(), group);
        match by_place.iter_mut().find(|(known, _)| *known == place) {
            Some((_, bytes)) => *bytes += group.live_bytes,
            None => by_place.push((place, group.live_bytes)),
        }
    }
    let ((place, own), others) = by_place.split_first()?;
    let explained = look.leaks.groups.iter();
    let first = explained.into_iter().find(|leak| leak.place == *place);
    let caller = first.map_or_else(String::new, words::called_by);
    let elsewhere: Bytes = others.iter().map(|(_, bytes)| *bytes).sum();
    let elsewhere = match others.len() as u64 {
        0 => String::new(),
        n => format!(
            "; {elsewhere} more accumulate at {}",
            plural(n, "other place")
        ),
    };
    Some(format!(
        "Fix the leak in {}{caller}: what accumulates there holds {own} at the end of the last {}, \
         and keeps growing{elsewhere}.{}",
        code(place),
        Word::of(&look.device.steps).one(),
        fills(look).unwrap_or_default()
    ))
}

/// When what leaks fills what is left, if somebody tells the limit.
fn fills(look: &Look<'_>) -> Option<String> {
    let (limit, rate) = (look.limit?, look.leaks.bytes_per_step);
    let device = look.device;
    let peak = device.allocated_peak(device.steps.last()?.events);
    let left = limit.saturating_sub(peak);
    let word = Word::of(&device.steps);
    let steps = match rate >= 1.0 {
        true => (left.0 as f64 / rate) as usize,
        false => return None,
    };
    Some(format!(
        " At this rate it fills what is left below the limit of {limit} in about {}.",
        word.counted(steps.max(1))
    ))
}

/// Memory that was given back and waits for other streams, more with nearly every step.
fn waiting(look: &Look<'_>) -> Option<Advice> {
    let device = look.device;
    let at_end = device.steps.iter().map(|step| {
        let last = step.events.end().0.saturating_sub(1);
        let levels = device.levels_at(EventIdx(last));
        let waits = levels
            .get(Series::Active)
            .saturating_sub(levels.get(Series::Allocated));
        (waits, levels.get(Series::Reserved))
    });
    let at_end: Vec<(Bytes, Bytes)> = at_end.collect();
    let (waits, reserved) = at_end.last().copied()?;
    let pairs = at_end.windows(2);
    let rises = pairs.filter(|pair| pair[0].0 < pair[1].0).count() as f64;
    let grows = at_end.len() >= LEAST_STEPS && rises >= RISES * (at_end.len() - 1) as f64;
    let step = Word::of(&device.steps).one();
    (grows && moment::is_much(waits, reserved)).then(|| Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{waits} that the program gave back wait for other streams at the end of the last \
             {step} (`record_stream`), more with nearly every {step}: make sure that these streams \
             finish what they use."
        ),
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
    let replay = Replay::new(device, &evidence, look.watch);
    let peak = |settings: &Config| {
        let outcome = replay.under(&Conditions::as_recorded(settings, None))?;
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

/// In a small program they are most of what there is, and nothing that it does lowers them.
fn about_workspaces(share: f64, whole: &str) -> Advice {
    Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "Workspaces of cuBLAS are {:.0} % of {whole}. They are made once for each stream and \
             thread, and grow neither with the model nor with the batch; the variable {} sets \
             their size.",
            100.0 * share,
            code("CUBLAS_WORKSPACE_CONFIG")
        ),
    }
}

/// Advice to lower the largest part of a moment, apart from what leaks and from workspaces; `whole`
/// names all that was in use then.
pub fn largest(
    look: &Look<'_>,
    places: &mut Places<'_>,
    peak: &Moment,
    whole: &str,
) -> Option<Advice> {
    let leaking = look.leaking();
    let alive = categories::alive(look.device, peak.event);
    let alive = alive.filter(|block| !leaking.has(*block));
    let is_workspace =
        |block: &BlockIdx| (look.categories).is_workspace(look.device, look.stacks(), *block);
    let (workspaces, others): (Vec<BlockIdx>, Vec<BlockIdx>) = alive.partition(is_workspace);
    let size = |block: BlockIdx| look.device.blocks.kind(block).size;
    let mut sums = vec![Bytes::ZERO; look.categories.len()];
    for &block in &others {
        sums[look.categories.position(block)] += size(block);
    }
    let first = (0..sums.len()).rev().max_by_key(|at| sums[*at])?;
    let (name, bytes) = (look.categories.name(first), sums[first]);
    let share = |bytes: Bytes| bytes.0 as f64 / peak.allocated.0.max(1) as f64;
    let of_libraries: Bytes = workspaces.iter().map(|&block| size(block)).sum();
    if of_libraries > bytes && share(of_libraries) >= LARGE {
        return Some(about_workspaces(share(of_libraries), whole));
    }
    let share = share(bytes);
    // What would lower a category of the team's own, only the team knows.
    let Named::Ours(category) = name else {
        return None;
    };
    let what = match category {
        _ if share < LARGE => return None,
        Category::Activation => "activation checkpointing, offloading, or a smaller batch",
        Category::OptimizerState => "an optimizer with a smaller state (8-bit), or sharding it",
        Category::Parameter => "a lower precision, or sharding",
        Category::Gradient => "clearing them before the forward pass, or sharding",
        Category::Temporary => {
            let of_it = others
                .iter()
                .copied()
                .filter(|block| look.categories.position(*block) == first);
            let of_it = of_it.map(|block| (places.of(block), size(block)));
            &format!(
                "computing in chunks, or fusing operations{}",
                asked_for_by(of_it, bytes)
            )
        }
        Category::KvCache => "a shorter context, fewer requests at once, or a lower precision",
        Category::Buffer | Category::Input | Category::Before | Category::Unknown => return None,
    };
    let all = peak.categories.iter().find(|all| all.category == name);
    let all = all.map_or(bytes, |all| all.bytes);
    let of_category = |block: &&BlockIdx| look.categories.position(**block) == first;
    let of_it = workspaces.iter().filter(of_category);
    let of_it: Bytes = of_it.map(|&block| size(block)).sum();
    let label = LeftOut::of(all, bytes, of_it).named(name.label());
    let verb = match category {
        Category::OptimizerState | Category::KvCache => "is",
        _ => "are",
    };
    Some(Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{label} {verb} {:.0} % of {whole} (inferred). What lowers that: {what}.",
            100.0 * share
        ),
    })
}

/// What of a category is left out of its sum.
#[derive(Clone, Copy)]
enum LeftOut {
    Nothing,
    Leaks,
    Workspaces,
    LeaksAndWorkspaces,
}

impl LeftOut {
    /// Of all bytes of a category, so many are counted; what is neither these nor `workspaces`
    /// leaks.
    fn of(all: Bytes, counted: Bytes, workspaces: Bytes) -> LeftOut {
        match (all > counted + workspaces, workspaces > Bytes::ZERO) {
            (true, true) => LeftOut::LeaksAndWorkspaces,
            (true, false) => LeftOut::Leaks,
            (false, true) => LeftOut::Workspaces,
            (false, false) => LeftOut::Nothing,
        }
    }

    /// `Without what leaks, temporaries`: at the beginning of a sentence.
    fn named(self, category: &str) -> String {
        match self {
            LeftOut::LeaksAndWorkspaces => {
                format!("Without what leaks and workspaces of cuBLAS, {category}")
            }
            LeftOut::Leaks => format!("Without what leaks, {category}"),
            LeftOut::Workspaces => format!("Without workspaces of cuBLAS, {category}"),
            LeftOut::Nothing => capital(category),
        }
    }
}

/// `; most is asked for by …`: the place in the program that asked for most of these blocks.
fn asked_for_by(blocks: impl Iterator<Item = (Place, Bytes)>, all: Bytes) -> String {
    let mut sums: HashMap<String, Bytes> = HashMap::new();
    for (place, size) in blocks.filter(|(place, _)| place.frame.is_some()) {
        *sums.entry(place.name).or_default() += size;
    }
    let most = sums
        .iter()
        .max_by_key(|(place, sum)| (**sum, Reverse(*place)));
    most.map_or_else(String::new, |(place, sum)| {
        let how = match sum.0 * 2 > all.0 {
            true => "most",
            false => "the largest part",
        };
        format!("; {how} is asked for by {}", code(place))
    })
}
