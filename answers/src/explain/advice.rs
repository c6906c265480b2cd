//! What to try if nothing failed, the most promising first.

use super::Look;
use super::lowers;
use super::moment;
use super::words;
use crate::cards::capital;
use crate::cards::markdown::code;
use crate::places::Places;
use api::explain::{Advice, Basis, Moment, OtherDevice, OutlivedStep};
use api::leaks::Verdict;
use timeline::format::plural;
use trace::allocator::{Config, conf};
use trace::device::DeviceIdx;
use trace::known::{Point, Unknown};
use trace::leaks;
use trace::peaking::Peaking;
use trace::steps::Word;
use trace::trace::Series;
use trace::units::{Bytes, EventIdx};
use trace::watch::Stopped;
use trace::what_if::{self, Conditions, Evidence, LimitSeen, Outcome, Replay, Waiting};

/// A better setting is searched if at least this share of reserved memory was unused at its peak …
const UNUSED: f64 = 0.1;
/// … and at least this much.
const UNUSED_BYTES: Bytes = Bytes::mib(64);
/// The rules must predict at least this share of addresses; otherwise an answer has no value.
const FAITHFUL: f64 = 0.95;
/// … and the peak of *reserved* but for this share of it.
const OFF: f64 = 0.02;
/// A setting must save at least this share of *reserved*, and what is given back sooner, of the
/// peak.
const SAVES: f64 = 0.05;
/// Fewer steps do not show that something grows.
const LEAST_STEPS: usize = 4;
/// It grows if it does over this share of the steps.
const RISES: f64 = 0.75;
/// The setting that saves most, where segments do not expand yet.
const EXPANDABLE: &str = "expandable_segments:True";

/// What to try, and what other settings would change if that is too little to try them.
///
/// # Errors
/// [`Stopped`].
pub fn of(
    look: &Look<'_>,
    places: &mut Places<'_>,
    peak: &Moment,
    (peaking, outlived): (&Peaking, Option<&OutlivedStep>),
    unknown: &Unknown,
) -> Result<(Vec<Advice>, Option<String>), Stopped> {
    let whole = match unknown.is_of_state() {
        true => "what is held",
        false => "the peak",
    };
    // The allocator of the host has none of these settings, and offloading brings memory there.
    if look.device.device == DeviceIdx::PINNED {
        return Ok((leak(look).into_iter().collect(), None));
    }
    let settings = match unknown.has(Series::Reserved, Point::Peak) {
        true => Settings::default(),
        false => settings(look)?,
    };
    let give_back = outlived.and_then(|outlived| give_back(look, outlived));
    let is_held = give_back.is_some();
    let all = [
        leak(look),
        streams(look),
        give_back,
        settings.better,
        waiting(look),
    ];
    let lowers = lowers::at_peak(look, places, (peak, peaking, is_held), whole);
    let all = all.into_iter().flatten().chain(lowers);
    Ok((all.collect(), settings.no_better))
}

/// What to do about what the step before had made, if that lowers the peak.
fn give_back(look: &Look<'_>, outlived: &OutlivedStep) -> Option<Advice> {
    let step = Word::of(&look.device.steps).one();
    let peak = look.device.summary[Series::Allocated as usize].peak;
    let saved = peak.saturating_sub(outlived.peak_without);
    (saved.0 as f64 >= SAVES * peak.0 as f64).then(|| Advice {
        basis: Basis::Computed,
        sentence: format!(
            "Give back (`del`) what {} makes before the next {step} makes it anew, if nothing \
             needs it then: without the {} of the {step} before, the peak would be {} instead \
             of {}.",
            code(&outlived.place),
            outlived.bytes,
            outlived.peak_without,
            peak
        ),
    })
}

/// What to do where steps bring streams. Settings that would do about other growth of *reserved*
/// are tried.
fn streams(look: &Look<'_>) -> Option<Advice> {
    let growth = look.report.reserved_growth.as_ref();
    let growth = growth.filter(|growth| growth.by_streams)?;
    Some(Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{}: reserved memory grows with each new one.",
            capital(growth.advice)
        ),
    })
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
        "Fix the leak in {}{caller}: what accumulates there holds {own} {}, and keeps \
         growing{elsewhere}.{}",
        code(place),
        leaks::alive_when(false, &Word::of(&look.device.steps).a()),
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

/// What other settings would reserve.
#[derive(Default)]
struct Settings {
    /// What saves enough to be tried.
    better: Option<Advice>,
    /// That nothing does.
    no_better: Option<String>,
}

/// Whether other settings would reserve less: expandable segments, or the defaults in place of the
/// file's own.
fn settings(look: &Look<'_>) -> Result<Settings, Stopped> {
    let device = look.device;
    let [allocated, reserved] =
        [Series::Allocated, Series::Reserved].map(|series| device.summary[series as usize].peak);
    let unused = reserved.saturating_sub(allocated);
    let fidelity = device.fidelity;
    let is_faithful =
        fidelity.allocs > 0 && fidelity.predicted as f64 >= FAITHFUL * fidelity.allocs as f64;
    let own = what_if::own_settings(&look.trace.format, device);
    // Memory that was reserved before the recording began may have been needed then.
    let is_recorded = device.summary[Series::Reserved as usize]
        .peak_event
        .is_some();
    let is_worth = unused >= UNUSED_BYTES && unused.0 as f64 >= UNUSED * reserved.0 as f64;
    if !is_worth || !is_recorded || !is_faithful {
        return Ok(Settings::default());
    }
    let evidence = Evidence::of(device, &own, look.watch)?;
    let replay = Replay::new(device, &evidence, look.watch);
    if !gives_the_recorded_peak(replay, &evidence, &own)? {
        return Ok(Settings::default());
    }
    let Some((outcome, setting)) = simplest(replay, &own)? else {
        return Ok(Settings::default());
    };
    let best = outcome.peak_reserved;
    let [_, highest] = outcome.peak_reserved_range();
    let begin = format!("Reserved memory peaks {unused} above allocated memory");
    let variable = |conf: &str| code(&format!("{}={conf}", conf::VARIABLE));
    // What saves only where other streams are soon done is not sure to.
    let is_better = reserved.saturating_sub(highest).0 as f64 >= SAVES * reserved.0 as f64;
    let own = conf::text(&own);
    let instead = match (setting.as_str(), own.as_str()) {
        ("", own) => format!("without {}", variable(own)),
        (setting, "") => format!("under {}", variable(setting)),
        (setting, own) => format!("under {} in place of {}", variable(setting), code(own)),
    };
    let would = format!(
        "{begin}: {instead} it would peak at {best}{} instead of {reserved}",
        range(&outcome)
    );
    Ok(match is_better {
        true => Settings {
            better: Some(Advice {
                basis: Basis::Computed,
                sentence: format!("{would}."),
            }),
            no_better: None,
        },
        // Where segments expand already, there is nothing better to name.
        false if own.contains(EXPANDABLE) => Settings::default(),
        false => Settings {
            better: None,
            no_better: Some(match best < reserved {
                true => format!("{would} (computed)."),
                false => format!(
                    "{begin}, and {} would not change that (computed).",
                    variable(EXPANDABLE)
                ),
            }),
        },
    })
}

/// Whether the recording's own settings give its peak of *reserved*. Where they do not, a lower
/// peak under other settings may be the error of the replay: addresses can be right and segments
/// not.
fn gives_the_recorded_peak(
    replay: Replay<'_>,
    evidence: &Evidence,
    own: &Config,
) -> Result<bool, Stopped> {
    let limit = evidence.limit.map(LimitSeen::limit);
    let outcome = replay.under(&Conditions::as_recorded(own, limit))?;
    let recorded = replay.device.summary[Series::Reserved as usize].peak;
    let off = recorded.0.abs_diff(outcome.peak_reserved.0);
    Ok(off as f64 <= OFF * recorded.0 as f64)
}

/// What is reserved under those of the simplest settings that reserve least, without a limit.
fn simplest(replay: Replay<'_>, own: &Config) -> Result<Option<(Outcome, String)>, Stopped> {
    let simpler = what_if::simpler(own);
    let tried = simpler.iter().map(|settings| {
        let outcome = replay.under(&Conditions::as_recorded(settings, None))?;
        Ok((outcome, settings))
    });
    let tried = tried.collect::<Result<Vec<_>, _>>()?;
    let best = tried.iter().min_by_key(|(tried, _)| tried.peak_reserved);
    let Some((outcome, settings)) = best else {
        return Ok(None);
    };
    let conditions = Conditions::as_recorded(settings, None);
    let outcome = Outcome {
        waiting: Waiting::of(replay, &conditions, outcome)?,
        ..*outcome
    };
    Ok(Some((outcome, conf::text(settings))))
}

/// Between which peaks it depends on other streams, where that is worth a word.
fn range(outcome: &Outcome) -> String {
    let depends = outcome.waiting.is_some_and(|found| found.spread.is_wide());
    match depends {
        true => {
            let [low, high] = outcome.peak_reserved_range();
            format!(" ({low} to {high}, depending on when other streams are done)")
        }
        false => String::new(),
    }
}
