//! Answers about one recording.

use super::answer::{Answer, Page, Row, document};
use super::arguments::{At, OfConditions, OfLimited, OfMoment, OfRecording};
use super::asker::{Asker, Refusal, device, ended, sentence, view};
use crate::inspection::{self, Inspected, Judgement, Live, Memory};
use answers::elsewhere::elsewhere;
use answers::names::frame_line;
use answers::questions::what_if::{self, Asked, Gone};
use answers::{explain, questions};
use api::leaks::{LeakGroup, Pattern, Verdict};
use api::view_state::{Tab, ViewState, When};
use api::what_if::Conditions;
use serde_json::json;
use timeline::format::plural;
use trace::alive::Dimension;
use trace::known::Point;
use trace::leaks::{Weight, alive_when, counted_by, worst as worst_of};
use trace::stacks::StackIdx;
use trace::steps::Word;
use trace::tiles::with_caller;
use trace::trace::{DeviceTrace, Series, Trace};
use trace::units::{Bytes, EventIdx};
use trace::watch::Watch;
use trace::{main_device, oom};

pub(super) fn explain(asker: Asker<'_>, asked: OfLimited) -> Result<Page, Refusal> {
    let limit = asked.bytes()?;
    let recording = asker.recording(&asked.recording)?;
    let device = match asked.device {
        None => main_device::of(recording.trace()),
        Some(_) => Some(device(recording.trace(), asked.device)?),
    };
    let (name, trace) = (&recording.name, recording.trace());
    if let Some(why) = explain::refusal_of(limit, trace, device, asker.watch)? {
        return Err(Refusal::Told(format!("limit: {why}.")));
    }
    let found = explain::explain(name, trace, device, limit, asker.watch)?;
    let found = explain::beside(found, recording.bench_row.clone());
    let mut answer = Answer::default();
    if let Some(row) = &found.bench_row {
        answer.field("bench_row", row);
    }
    if let Some(device) = &found.device {
        answer.field("device", &device.device);
        answer.field("recording", &device.recording);
        answer.field("leaks", &device.leaks.verdict);
        let is_told = device.leaks.verdict != Verdict::CannotTell;
        let rate = is_told.then_some(device.leaks.bytes_per_step);
        answer.field("bytes_per_step", &rate);
        if let Some(oom) = &device.out_of_memory {
            answer.field("cause", &oom.cause);
            answer.field("remedies", &oom.remedies);
        }
        let unknown = &device.unknown;
        for (name, series, level) in [
            ("peak_allocated", Series::Allocated, device.allocated),
            ("peak_reserved", Series::Reserved, device.reserved),
        ] {
            let is_known = !unknown.has(series, Point::Peak);
            answer.field(name, &is_known.then_some(level.peak));
        }
        answer.field("peak_is_least", &unknown.is_cut());
    }
    let page = explain::page(&found);
    answer.rows = sections(&page);
    answer.link = view(&recording, device, Tab::Timeline);
    Ok(answer.page(asked.offset))
}

/// The sections of a page of Markdown.
fn sections(page: &str) -> Vec<Row> {
    let mut rows: Vec<String> = Vec::new();
    for line in page.lines() {
        match rows.last_mut() {
            Some(row) if !line.starts_with("## ") => *row += &format!("{line}\n"),
            _ => rows.push(format!("{line}\n")),
        }
    }
    let title = |row: &str| {
        row.lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches('#')
            .trim()
            .to_owned()
    };
    let rows = rows.into_iter();
    rows.map(|row| Row::section(&title(&row), &row)).collect()
}

pub(super) fn inspect(asker: Asker<'_>, asked: OfLimited) -> Result<Page, Refusal> {
    let limit = asked.bytes()?;
    let recording = asker.recording(&asked.recording)?;
    let name = recording.name.clone();
    let trace = recording.trace();
    let only = asked.device.map(|_| device(trace, asked.device));
    let only = only.transpose()?;
    let subject = Inspected { trace, only, limit };
    if let Some(why) = subject.refusal(asker.watch)? {
        return Err(Refusal::Told(format!("limit: {why}.")));
    }
    let memory = Memory::of(subject, Live::Summed, asker.watch)?;
    let judgement = Judgement::of(subject, asker.watch)?;
    let mut found = inspection::of(name, subject, memory, judgement);
    let steps = found.steps.items.len() as u32;
    let ended = recording.bench_row.as_ref();
    let ended = ended.and_then(|row| row.too_few_steps(steps));
    if let Some(why) = ended.filter(|_| found.leaks.verdict == Verdict::CannotTell) {
        found.leaks.reason = why;
    }
    let mut answer = Answer {
        text: inspection::of_all(&found),
        ..Answer::default()
    };
    answer.field("format", &found.format);
    answer.field("recording", &found.recording);
    answer.field("steps", &found.steps.items.len());
    answer.field("step_source", &found.steps.source);
    answer.field(
        "leaks",
        &json!({"verdict": found.leaks.verdict, "reason": found.leaks.reason}),
    );
    answer.field("quality", &found.quality);
    let devices = found.devices.iter().chain(&found.pinned);
    let devices = devices.map(|one| Row::new(inspection::of_device(&found, one), one));
    let steps = found.steps.items.iter().map(|step| {
        let text = format!(
            "{}: events {} to {}, allocated peak {}, end {}, reserved end {}\n",
            step.name,
            step.first_event.0,
            step.end_event.0,
            step.told_peak(),
            step.allocated_end,
            step.reserved_end
        );
        Row::new(text, step)
    });
    answer.rows = devices.chain(steps).collect();
    answer.link = view(&recording, only, Tab::Timeline);
    Ok(answer.page(asked.offset))
}

pub(super) fn leaks(asker: Asker<'_>, asked: OfRecording) -> Result<Page, Refusal> {
    let recording = asker.recording(&asked.recording)?;
    let trace = recording.trace();
    let device = match asked.device {
        Some(_) => device(trace, asked.device)?,
        None => worst(trace, asker.watch)?,
    };
    let found = questions::report(trace, device, asker.watch);
    let found = found.beside(recording.bench_row.as_ref());
    asker.watch.look(0)?;
    let word = Word::of(&device.steps);
    let mut answer = Answer::default();
    let verdict = match found.verdict {
        // The reason of a leak says how much.
        api::leaks::Verdict::Leak => "Leak",
        api::leaks::Verdict::Clean => "No leak",
        api::leaks::Verdict::CannotTell => "Cannot tell",
    };
    let several = trace.with_pinned().count() > 1;
    let of = match several {
        true => format!(" ({})", device.device.name()),
        false => String::new(),
    };
    answer.text = format!("{verdict}{of}: {}\n", ended(&found.reason));
    for caveat in &found.caveats {
        answer.text += &format!("{}\n", sentence(caveat));
    }
    if let Some(growth) = &found.reserved_growth {
        answer.text += &format!("{}\n", sentence(growth));
    }
    let others = elsewhere(trace, Some(device.device), asker.watch);
    let others: Vec<String> = others.filter_map(|other| other.sentence()).collect();
    for other in &others {
        answer.text += &format!("{}\n", sentence(other));
    }
    answer.field("device", &device.device);
    answer.field("verdict", &found.verdict);
    answer.field("reason", &found.reason);
    answer.field("caveats", &found.caveats);
    answer.field("reserved_growth", &found.reserved_growth);
    answer.field("elsewhere", &others);
    answer.field("bytes_per_step", &found.bytes_per_step);
    answer.field("steps", &found.steps);
    answer.rows = found
        .groups
        .iter()
        .map(|group| leak_row(trace, word, group))
        .collect();
    answer.link = view(&recording, Some(device), Tab::Leaks);
    Ok(answer.page(asked.offset))
}

/// The device that speaks for a recording: the one with the worst verdict, and the first of
/// several.
fn worst<'t>(trace: &'t Trace, watch: Watch<'_>) -> Result<&'t DeviceTrace, Refusal> {
    let chosen = device(trace, None)?;
    let devices = trace.devices.iter().collect();
    let (devices, reports) = questions::judged(trace, devices, trace.pinned.as_ref(), watch);
    watch.look(0)?;
    let weights = devices.iter().zip(&reports);
    let worst = worst_of(weights.map(|(device, report)| Weight::of(device.device, report)));
    Ok(worst.map_or(chosen, |at| devices[at]))
}

fn leak_row(trace: &Trace, word: Word, group: &LeakGroup) -> Row {
    let stack = group
        .stack
        .map(|stack| explain::own_frames(&trace.stacks, StackIdx(stack)));
    let mut value = document(group);
    // The page uses these fields to ask about single blocks.
    if let Some(fields) = value.as_object_mut() {
        fields.remove("evidence");
        fields.insert("stack".to_owned(), document(&stack));
    }
    let frame = group.frame.as_ref().or(group.alloc_frame.as_ref());
    let place = frame.map_or_else(|| "no stack recorded".to_owned(), frame_line);
    let made_in = group.made_in.as_ref();
    let made_in = made_in.map_or_else(String::new, |frame| format!(", in {}", frame_line(frame)));
    let is_within = group.pattern == Pattern::WithinStep;
    let counted_by = counted_by(is_within, word);
    let when = alive_when(is_within, &counted_by);
    let mut text = format!(
        "{} {counted_by}, {} alive {when}: {place}{made_in}\n",
        Bytes(group.bytes_per_step.max(0.0).round() as u64),
        group.live_bytes
    );
    for frame in stack.iter().flatten() {
        text += &format!("  {}\n", frame_line(frame));
    }
    Row { text, value }
}

pub(super) fn alive(asker: Asker<'_>, asked: OfMoment) -> Result<Page, Refusal> {
    let recording = asker.recording(&asked.recording)?;
    let device = device(recording.trace(), asked.device)?;
    let at = asked.at.map(|at| match at {
        At::Event(number) => number.to_string(),
        At::Word(word) => word,
        At::Other(value) => value.to_string(),
    });
    let event = moment(device, at.as_deref())?;
    let by: Dimension = match &asked.by {
        Some(by) => by.parse().map_err(|error| format!("by: {error}."))?,
        None => Dimension::Site,
    };
    let groups = questions::groups(recording.trace(), device, event, by, asker.watch)?;
    let levels = event.map(|event| device.levels_at(event));
    let level = |series| match levels {
        Some(levels) => levels.get(series),
        None => device.summary[series as usize].start,
    };
    let (allocated, reserved) = (level(Series::Allocated), level(Series::Reserved));
    let moment = match event {
        Some(event) => format!("Event {}", event.0),
        None if device.events.is_empty() => "The recorded state".to_owned(),
        None => "Before the first event".to_owned(),
    };
    let of = device.device;
    let mut answer = Answer {
        text: format!("{moment} of device {of}: {allocated} allocated, {reserved} reserved.\n"),
        ..Answer::default()
    };
    answer.field("device", &device.device);
    answer.field("event", &event);
    answer.field("allocated", &allocated);
    answer.field("reserved", &reserved);
    let rows = groups.into_iter().map(|group| {
        let blocks = plural(group.tally.count, "block");
        let named = with_caller(&group.label, &group.caller);
        let text = format!("{} in {blocks}: {named}\n", group.tally.bytes);
        let value = json!({
            "label": group.label, "caller": group.caller, "inferred": group.inferred,
            "bytes": group.tally.bytes, "count": group.tally.count,
        });
        Row::new(text, &value)
    });
    answer.rows = rows.collect();
    let has_events = !device.events.is_empty();
    let of_moment = ViewState {
        device: Some(device.device),
        tab: Tab::Alive,
        // A state alone has no other moment.
        at: match event {
            Some(event) => Some(When::After(event)),
            None => has_events.then_some(When::Start),
        },
        by,
        ..ViewState::default()
    };
    answer.link = recording.link(&of_moment);
    Ok(answer.page(asked.offset))
}

/// The event that the question names; `None` for the state of a recording without events.
fn moment(device: &DeviceTrace, at: Option<&str>) -> Result<Option<EventIdx>, String> {
    let events = device.events.len();
    let Some(last) = events.checked_sub(1).map(EventIdx) else {
        return match at {
            None | Some("peak" | "end") => Ok(None),
            Some(_) => Err("The recording holds a state and no events: leave out `at`.".to_owned()),
        };
    };
    match at.unwrap_or("peak") {
        "end" => Ok(Some(last)),
        // Without an event, the peak is the state before the first one.
        "peak" => Ok(device.summary[Series::Allocated as usize].peak_event),
        "oom" => match oom::failures(device).first() {
            Some(failure) => Ok(Some(failure.event)),
            None => Err("No allocation failed: ask `at` peak, end, or an event.".to_owned()),
        },
        number => match number.parse() {
            Ok(event) if event < events => Ok(Some(EventIdx(event))),
            _ => Err(format!(
                "at: use peak, end, oom, or an event from 0 to {}.",
                last.0
            )),
        },
    }
}

pub(super) fn what_if(asker: Asker<'_>, asked: OfConditions) -> Result<Page, Refusal> {
    let conditions = Conditions {
        alloc_conf: asked.alloc_conf,
        limit: asked.limit,
        without_leaks: asked.without_leaks,
        gone: None,
    };
    let mut conditions = Asked::of(&conditions).map_err(|error| format!("{error}."))?;
    conditions.gone = Gone::Places(asked.without);
    let recording = asker.recording(&asked.recording)?;
    let device = device(recording.trace(), asked.device)?;
    let unknown = what_if::unknown_places(recording.trace(), device, &conditions);
    if let Some(why) = what_if::refusal_of(&unknown, device.device) {
        return Err(Refusal::Told(sentence(&why)));
    }
    let found = what_if::what_if(recording.trace(), device, &conditions, asker.watch)?;
    let mut answer = Answer {
        text: format!("{}\n{}\n", found.sentence, found.trust),
        ..Answer::default()
    };
    if let Some(otherwise) = found.otherwise.in_words() {
        answer.text += &format!("{otherwise}\n");
    }
    if let Some(in_vain) = what_if::nothing_given_back(&conditions, &found) {
        answer.text += &format!("{}\n", sentence(in_vain));
    }
    answer.field("answer", &found);
    answer.link = view(&recording, Some(device), Tab::Timeline);
    Ok(answer.page(0))
}
