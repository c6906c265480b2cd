//! The tools: what each of them takes, and its answer.

use super::answer::{Answer, Page, Row, document};
use super::library::{Library, MOST_RUNS, Recording};
use crate::cards::{markdown, place};
use crate::inspection::{self, Inspected, Judgement, Live, Memory};
use crate::questions::what_if::{self, Asked, Gone};
use crate::{explain, questions};
use answers::elsewhere::elsewhere;
use answers::names::frame_line;
use api::compare::{Against, ComparedRun, Comparison};
use api::leaks::{LeakGroup, Pattern};
use api::runs::RunSummary;
use api::view_state::{Tab, ViewState};
use api::what_if::Conditions;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use timeline::format::{doing, plural};
use trace::alive::{self, Dimension, Grouping, Subject};
use trace::categories::Categories;
use trace::compare::Difference;
use trace::compare::gate::Limits;
use trace::compare::headline::signed;
use trace::compare::profile::Profile;
use trace::intervals::LiveIndex;
use trace::leaks::{LeakReport, Verdict, counted_by, find_while};
use trace::main_device;
use trace::oom;
use trace::stacks::StackIdx;
use trace::steps::Word;
use trace::trace::{DeviceTrace, PINNED, Series, Trace, device_name};
use trace::units::{Bytes, EventIdx};
use trace::watch::{Stopped, Watch};

/// Which recording, and which part of the answer.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfRecording {
    /// Path of a snapshot (pickle or JSON, plain, gzip or zstd), or a run of the dashboard: its id
    /// or link, or its name or labels (`branch=main,config=a`) if no other run has them.
    recording: String,
    /// CUDA ordinal. Default: the device that ran out of memory, otherwise the one that held most;
    /// for `inspect`, all; for `leaks`, the one with the worst verdict.
    device: Option<u32>,
    /// First entry of the list; `next` of the page before.
    #[serde(default)]
    offset: usize,
}

/// What is alive, when, and by what.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfMoment {
    /// Path of a snapshot, or a run of the dashboard: its id or link, or its name or labels.
    recording: String,
    /// CUDA ordinal. Default: the device that ran out of memory, otherwise the one that held most.
    device: Option<u32>,
    /// `peak` (of allocated, the default), `end`, `oom` (the first failed allocation), or the
    /// number of an event.
    at: Option<At>,
    /// `site` (call shape, the default), `stack`, `module`, `file`, `function`, `category`,
    /// `stream` or `pool`.
    by: Option<String>,
    /// First entry of the list; `next` of the page before.
    #[serde(default)]
    offset: usize,
}

/// A moment.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum At {
    /// An event.
    Event(u64),
    /// A word, or the number of an event.
    Word(String),
}

/// Two recordings.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfTwo {
    /// The baseline: path of a snapshot, or a run of the dashboard: its id or link, or its name or
    /// labels.
    base: String,
    /// What is compared with it, called in the same ways.
    new: String,
    /// First entry of the list; `next` of the page before.
    #[serde(default)]
    offset: usize,
}

/// Other conditions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfConditions {
    /// Path of a snapshot, or a run of the dashboard: its id or link, or its name or labels.
    recording: String,
    /// CUDA ordinal. Default: the device that ran out of memory, otherwise the one that held most.
    device: Option<u32>,
    /// Settings in the form of PYTORCH_CUDA_ALLOC_CONF, such as `expandable_segments:True` or
    /// `max_split_size_mb:128`; an empty text is PyTorch's defaults. Left out: those of the
    /// recording.
    alloc_conf: Option<String>,
    /// How much the process may reserve, such as `24GiB`: a smaller or larger card, or a memory
    /// fraction.
    limit: Option<String>,
    /// Free leaked memory at the end of the step that allocated it.
    #[serde(default)]
    without_leaks: bool,
    /// Leave out requests from places whose function or `file:line` contains one of these texts.
    #[serde(default)]
    without: Vec<String>,
}

/// Which runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfRuns {
    /// Part of the names that are wanted, in any case; left out: all.
    #[serde(default)]
    name: String,
    /// First entry of the list; `next` of the page before.
    #[serde(default)]
    offset: usize,
}

/// The source of recordings for a question, and its limits.
#[derive(Clone, Copy)]
struct Asker<'a> {
    recordings: &'a dyn Library,
    watch: Watch<'a>,
}

impl Asker<'_> {
    /// A recording. To read it takes time, so nobody begins that for a client that has gone.
    fn recording(&self, name: &str) -> Result<Recording, Refusal> {
        self.watch.look(0)?;
        Ok(self.recordings.recording(name)?)
    }
}

/// Why a tool has no answer.
enum Refusal {
    /// The question was wrong; the text says what to do.
    Told(String),
    /// It was stopped.
    Stopped,
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal::Told(why)
    }
}

impl From<Stopped> for Refusal {
    fn from(Stopped: Stopped) -> Refusal {
        Refusal::Stopped
    }
}

/// A tool: its name, what it is for, its arguments, and its answer.
struct Spec {
    name: &'static str,
    about: &'static str,
    takes: fn(Tool) -> Tool,
    answer: fn(Asker<'_>, Value) -> Result<Page, Refusal>,
}

const TOOLS: [Spec; 7] = [
    Spec {
        name: "explain",
        about: "One page about a recording: what it is, what held the memory at its peak, what \
                leaks and where, fragmentation, and, if it ran out of memory, why and which single \
                changes would have helped, ranked. Begin here.",
        takes: Tool::with_input_schema::<OfRecording>,
        answer: |asker, arguments| self::explain(asker, read(arguments)?),
    },
    Spec {
        name: "inspect",
        about: "The facts of a recording: the four series (requested, allocated, active, reserved) \
                with start, peak and end of each device, what was held by category, failed \
                allocations, and every step with its levels.",
        takes: Tool::with_input_schema::<OfRecording>,
        answer: |asker, arguments| self::inspect(asker, read(arguments)?),
    },
    Spec {
        name: "leaks",
        about: "Whether memory leaks from step to step (leak, clean, or cannot tell with the \
                reason), how fast, and the places in the code that account for it, with their \
                stacks.",
        takes: Tool::with_input_schema::<OfRecording>,
        answer: |asker, arguments| self::leaks(asker, read(arguments)?),
    },
    Spec {
        name: "alive",
        about: "What is allocated at a moment, grouped by place in the code, category, stream or \
                pool, most bytes first.",
        takes: Tool::with_input_schema::<OfMoment>,
        answer: |asker, arguments| self::alive(asker, read(arguments)?),
    },
    Spec {
        name: "compare",
        about: "What changed between two recordings of a program: better or worse, peaks, growth \
                a step, leaks fixed or new, and the places in the code that differ.",
        takes: Tool::with_input_schema::<OfTwo>,
        answer: |asker, arguments| self::compare(asker, read(arguments)?),
    },
    Spec {
        name: "what_if",
        about: "The same requests replayed under other allocator settings, another limit, or \
                without what leaks: would it have fitted, peak reserved, retries, and how far \
                the answer can be trusted.",
        takes: Tool::with_input_schema::<OfConditions>,
        answer: |asker, arguments| self::what_if(asker, read(arguments)?),
    },
    Spec {
        name: RUNS,
        about: "The runs of a dashboard, newest first: id, name, peak, steps, whether it leaks. \
                Their ids are what the other tools take as `recording`.",
        takes: Tool::with_input_schema::<OfRuns>,
        answer: |asker, arguments| self::runs(asker, read(arguments)?),
    },
];

/// The tool that needs no recording.
pub const RUNS: &str = "runs";

/// All tools, as a client lists them.
pub fn all() -> Vec<Tool> {
    let tool = |spec: &Spec| {
        let tool = Tool::new(spec.name, spec.about, JsonObject::new());
        // All tools only read.
        (spec.takes)(tool).with_annotations(ToolAnnotations::new().read_only(true))
    };
    TOOLS.iter().map(tool).collect()
}

/// Calls a tool. Must be called on a thread that may block.
///
/// The inner result says why there is no answer, and what to do.
///
/// # Errors
/// [`Stopped`] by the watch.
pub fn call(
    recordings: &dyn Library,
    watch: Watch<'_>,
    name: &str,
    arguments: JsonObject,
) -> Result<Result<Page, String>, Stopped> {
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        let names = names.join(", ");
        return Ok(Err(format!("There is no tool {name}: use {names}.")));
    };
    match (tool.answer)(Asker { recordings, watch }, Value::Object(arguments)) {
        Ok(page) => Ok(Ok(page)),
        Err(Refusal::Told(why)) => Ok(Err(why)),
        Err(Refusal::Stopped) => Err(Stopped),
    }
}

/// The names of the recordings that a question is about.
pub fn recordings_of(arguments: &JsonObject) -> impl Iterator<Item = &str> {
    let named = ["recording", "base", "new"].map(|argument| arguments.get(argument));
    named.into_iter().flatten().filter_map(Value::as_str)
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("The arguments do not fit: {error}."))
}

fn explain(asker: Asker<'_>, asked: OfRecording) -> Result<Page, Refusal> {
    let recording = asker.recording(&asked.recording)?;
    let device = match asked.device {
        None => main_device::of(recording.trace()),
        Some(_) => Some(device(recording.trace(), asked.device)?),
    };
    let (name, trace) = (&recording.name, recording.trace());
    let found = explain::explain(name, trace, device, asker.watch)?;
    let mut answer = Answer::default();
    if let Some(device) = &found.device {
        answer.field("device", &device.device);
        answer.field("recording", &device.recording);
        answer.field("leaks", &device.leaks.verdict);
        answer.field("bytes_per_step", &device.leaks.bytes_per_step);
        if let Some(oom) = &device.out_of_memory {
            answer.field("cause", &oom.cause);
            answer.field("remedies", &oom.remedies);
        }
        answer.field("peak_allocated", &device.allocated.peak);
        answer.field("peak_reserved", &device.reserved.peak);
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
    rows.map(|row| Row::new(row.clone(), &title(&row)))
        .collect()
}

fn inspect(asker: Asker<'_>, asked: OfRecording) -> Result<Page, Refusal> {
    let recording = asker.recording(&asked.recording)?;
    let name = recording.name.clone();
    let trace = recording.trace();
    let only = asked.device.map(|_| device(trace, asked.device));
    let only = only.transpose()?;
    let subject = Inspected { trace, only };
    let memory = Memory::of(subject, Live::Summed, asker.watch)?;
    let judgement = Judgement::of(subject, asker.watch)?;
    let found = inspection::of(name, subject, memory, judgement);
    let mut answer = Answer {
        text: inspection::text(&found),
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
    let pinned = found.pinned.iter().filter(|_| only.is_some());
    let devices = found.devices.iter().chain(pinned);
    let devices = devices.map(|found| Row::new(String::new(), found));
    let steps = found.steps.items.iter().map(|step| {
        let text = format!(
            "{}: events {} to {}, allocated peak {}, end {}, reserved end {}\n",
            step.name,
            step.first_event.0,
            step.end_event.0,
            step.allocated_peak,
            step.allocated_end,
            step.reserved_end
        );
        Row::new(text, step)
    });
    answer.rows = devices.chain(steps).collect();
    answer.link = view(&recording, only, Tab::Timeline);
    Ok(answer.page(asked.offset))
}

fn leaks(asker: Asker<'_>, asked: OfRecording) -> Result<Page, Refusal> {
    let recording = asker.recording(&asked.recording)?;
    let trace = recording.trace();
    let device = match asked.device {
        Some(_) => device(trace, asked.device)?,
        None => worst(trace, asker.watch)?,
    };
    let found = questions::report(trace, device, asker.watch);
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
        true => format!(" ({})", device_name(device.device)),
        false => String::new(),
    };
    answer.text = format!("{verdict}{of}: {}\n", ended(&found.reason));
    for caveat in &found.caveats {
        answer.text += &format!("{}\n", sentence(caveat));
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
/// several, as `inspect` has it. The pinned memory of the host does so only if it leaks.
fn worst<'t>(trace: &'t Trace, watch: Watch<'_>) -> Result<&'t DeviceTrace, Refusal> {
    let chosen = device(trace, None)?;
    let judge = |device: &DeviceTrace| find_while(device, &trace.stacks, &trace.quality, watch);
    let (devices, reports): (Vec<&DeviceTrace>, Vec<LeakReport>) = trace
        .with_pinned()
        .map(|device| (device, judge(device)))
        .filter(|(device, report)| device.device != PINNED || report.verdict == Verdict::Leak)
        .unzip();
    watch.look(0)?;
    let worst = trace::leaks::worst(&reports);
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
    // What grows within steps is given back at their ends.
    let is_within = group.pattern == Pattern::WithinStep;
    let when = if is_within {
        "after the last part"
    } else {
        "at the end"
    };
    let mut text = format!(
        "{} {}, {} alive {when}: {place}\n",
        Bytes(group.bytes_per_step.max(0.0).round() as u64),
        counted_by(is_within, word),
        group.live_bytes
    );
    for frame in stack.iter().flatten() {
        text += &format!("  {}\n", frame_line(frame));
    }
    Row { text, value }
}

fn alive(asker: Asker<'_>, asked: OfMoment) -> Result<Page, Refusal> {
    let recording = asker.recording(&asked.recording)?;
    let device = device(recording.trace(), asked.device)?;
    let at = asked.at.map(|at| match at {
        At::Event(number) => number.to_string(),
        At::Word(word) => word,
    });
    let event = moment(device, at.as_deref())?;
    let by: Dimension = match &asked.by {
        Some(by) => by.parse().map_err(|error| format!("by: {error}."))?,
        None => Dimension::Site,
    };
    let stacks = &recording.trace().stacks;
    let categories = (by == Dimension::Category).then(|| Categories::of(device, stacks));
    let subject = Subject {
        device,
        stacks,
        live: &LiveIndex::new(&device.blocks),
        categories: categories.as_ref(),
    };
    let mut grouping = Grouping::new(device, stacks, by);
    let cells = alive::alive(subject, event, asker.watch)?;
    let sums = grouping.sum(&cells, asker.watch)?;
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
    let rows = sums.iter().map(|(group, tally)| {
        let label = &grouping.labels[*group as usize];
        let blocks = plural(tally.count, "block");
        let text = format!("{} in {blocks}: {}\n", tally.bytes, label.text);
        let value = json!({
            "label": label.text, "inferred": label.inferred, "bytes": tally.bytes,
            "count": tally.count,
        });
        Row::new(text, &value)
    });
    answer.rows = rows.collect();
    let view = ViewState {
        device: Some(device.device),
        tab: Tab::Alive,
        at: event,
        by,
        ..ViewState::default()
    };
    answer.link = recording.link(&view);
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

fn compare(asker: Asker<'_>, asked: OfTwo) -> Result<Page, Refusal> {
    let [base, new] = [&asked.base, &asked.new].map(|name| {
        let recording = asker.recording(name)?;
        let profile = Profile::judged_while(recording.trace(), asker.watch, asker.watch)?;
        Ok::<_, Refusal>((profile, recording))
    });
    let ((base, base_of), (new, new_of)) = (base?, new?);
    let held = base.heap_bytes() + new.heap_bytes();
    let watch = asker.watch.beside(held);
    let against = Against::while_watched(&base, &new, &Limits::default(), watch)?;
    let comparison = Comparison {
        runs: vec![compared(base_of, &base), compared(new_of, &new)],
        against: vec![against],
    };
    let mut answer = Answer {
        text: markdown::comparison(&comparison, None),
        ..Answer::default()
    };
    let against = &comparison.against[0];
    answer.field(
        "gate",
        &json!({
            "outcome": against.gate.outcome, "reason": against.gate.reason,
        }),
    );
    let Some(difference) = against.difference() else {
        return Ok(answer.page(asked.offset));
    };
    answer.field("device", &difference.new.device);
    let others = against.others().take(OTHER_DEVICES);
    let others: Vec<Value> = others.map(changed_device).collect();
    answer.field("other_devices", &others);
    answer.field("change", &difference.change);
    answer.field("headline", &difference.headline);
    answer.field("leaks", &difference.leaks);
    answer.field("conditions", &difference.conditions);
    for (name, series) in [
        ("allocated", Series::Allocated),
        ("reserved", Series::Reserved),
    ] {
        answer.field(name, difference.series(series));
    }
    let sites = difference.sites.iter().map(|site| {
        let text = format!(
            "{} at its own peak, {} at the peak of the run, {} at the end: {}\n",
            signed(site.peak as f64),
            signed(site.at_peak as f64),
            signed(site.at_end as f64),
            place(site)
        );
        let value = json!({
            "place": place(site), "change": site.change, "peak": site.peak,
            "at_peak": site.at_peak, "end": site.at_end,
        });
        Row::new(text, &value)
    });
    answer.rows = sites.collect();
    Ok(answer.page(asked.offset))
}

/// Devices told besides the one whose places are listed.
const OTHER_DEVICES: usize = 15;

/// A device besides the one whose places are listed.
fn changed_device(difference: &Difference) -> Value {
    json!({
        "device": difference.new.device, "change": difference.change,
        "headline": difference.headline, "leaks": difference.leaks,
        "allocated": difference.series(Series::Allocated),
        "reserved": difference.series(Series::Reserved),
    })
}

fn compared(recording: Recording, profile: &Profile) -> ComparedRun {
    ComparedRun {
        id: recording.place.map(|place| place.run),
        name: recording.name,
        torch: profile.torch.clone(),
    }
}

fn what_if(asker: Asker<'_>, asked: OfConditions) -> Result<Page, Refusal> {
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
    if let Some(in_vain) = what_if::nothing_given_back(&conditions, &found) {
        answer.text += &format!("{}\n", sentence(in_vain));
    }
    answer.field("answer", &found);
    answer.link = view(&recording, Some(device), Tab::Timeline);
    Ok(answer.page(0))
}

fn runs(asker: Asker<'_>, asked: OfRuns) -> Result<Page, Refusal> {
    let wanted = asked.name.to_lowercase();
    let mut runs = asker.recordings.runs()?;
    let mut answer = Answer::default();
    if runs.len() >= MOST_RUNS as usize {
        answer.text += &format!("Of the newest {MOST_RUNS} runs:\n");
    }
    runs.retain(|run| run.name.to_lowercase().contains(&wanted));
    if runs.is_empty() {
        answer.text += "No run has such a name.\n";
    }
    answer.rows = runs.iter().map(run_row).collect();
    Ok(answer.page(asked.offset))
}

fn run_row(run: &RunSummary) -> Row {
    let leaks = match run.leaks.as_ref().map(|leaks| leaks.verdict) {
        Some(api::leaks::Verdict::Leak) => ", leaks",
        _ => "",
    };
    let (id, name, peak, steps) = (&run.id, &run.name, run.peak_allocated, run.steps);
    let word = run
        .leaks
        .as_ref()
        .map_or(Word::Step, |leaks| Word::called(&leaks.step));
    let of = doing(u64::from(steps), word.one(), word.many());
    let text = format!("{id}  {name}: peak {}, {of}{leaks}\n", run.peak());
    let value = json!({
        "id": id, "name": name, "created_ms": run.created_ms, "peak_allocated": peak,
        "steps": steps, "leaks": run.leaks, "job": run.job,
    });
    Row::new(text, &value)
}

/// A reason as a sentence.
fn sentence(reason: &str) -> String {
    let mut chars = reason.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    ended(&(first.unwrap_or_default() + chars.as_str()))
}

/// A reason with a full stop.
fn ended(reason: &str) -> String {
    match reason.ends_with('.') {
        true => reason.to_owned(),
        false => format!("{reason}."),
    }
}

fn device(trace: &Trace, ordinal: Option<u32>) -> Result<&DeviceTrace, String> {
    let Some(ordinal) = ordinal else {
        return main_device::of(trace)
            .ok_or_else(|| "No device holds memory or events.".to_owned());
    };
    let mut devices = trace.with_pinned();
    devices
        .find(|device| device.device == ordinal)
        .ok_or_else(|| {
            let known: Vec<String> = trace.with_pinned().map(|d| d.device.to_string()).collect();
            format!(
                "The recording holds nothing of device {ordinal}; it holds {}.",
                known.join(", ")
            )
        })
}

fn view(recording: &Recording, device: Option<&DeviceTrace>, tab: Tab) -> Option<String> {
    recording.link(&ViewState {
        device: device.map(|device| device.device),
        tab,
        ..ViewState::default()
    })
}
