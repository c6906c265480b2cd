//! The card of a run.

use super::{AT_PEAK, held_then, sentence};
use crate::contents::{contents, inferred};
use crate::decoded::{Decoded, NoDevice};
use crate::elsewhere::{Elsewhere, elsewhere};
use crate::facts::DeviceFacts;
use crate::pictures::marks;
use crate::places::Places;
use crate::questions;
use crate::texts::Texts;
use api::bench::{Fault, RowOfRun};
use api::contents::Contents;
use api::ids::RunId;
use api::shares::nameless;
use api::timeline::{Marks, OomMark};
use api::view_state::ViewState;
use std::sync::Arc;
use timeline::card::{self, Card, MAX_SITES, Numbers, PICTURE_SCALE, Theme, Tone};
use timeline::format::{count, doing, short_count};
use timeline::model::{Model, TileRequest};
use timeline::oom;
use timeline::plot::PxRect;
use timeline::scene::Scene;
use trace::alive::Dimension;
use trace::categories;
use trace::code::last_components;
use trace::device::DeviceIdx;
use trace::known::{Point, Unknown};
use trace::leaks::{self, LeakGroup, LeakReport, Verdict};
use trace::main_device;
use trace::stacks::{Frame, Stacks};
use trace::steps::Word;
use trace::tiles::GroupBy;
use trace::trace::{DeviceTrace, Series, StepSource, Trace};
use trace::units::{Bytes, EventIdx};
use trace::watch::{Stopped, Watch};

/// What a run is called, and what is known of it without its trace.
pub struct Head<'a> {
    /// Its id.
    pub id: &'a RunId,
    /// Its name.
    pub name: &'a str,
    /// What wrote it, if that can be told.
    pub written_by: Option<String>,
    /// Facts of its devices.
    pub devices: &'a [DeviceFacts],
}

/// Why there is no card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCard {
    /// The run has no such device.
    #[error(transparent)]
    NoDevice(#[from] NoDevice),
    /// The watch stopped it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The content of a run's card.
pub struct RunCard {
    /// The texts.
    pub card: Card,
    /// What the numbers are of.
    pub memory: &'static str,
    /// Peak and end of allocated and reserved, in words.
    pub levels: [(Series, String, String); 2],
    /// What leaks per step, in words, under the name of what it counts; absent without steps.
    pub growth: Option<(String, String)>,
    /// The answer in a word or two, and why.
    pub verdict: (String, String),
    /// How many steps the recording shows, and why it is not known whether it leaks; absent where
    /// it is known, or something else is told.
    unsure: Option<(u32, String)>,
    /// The first failed allocation, in words.
    pub out_of_memory: Option<OutOfMemory>,
    /// What went wrong that no memory shows, as a bench knows it: in a word or two, and how.
    pub faults: Vec<[String; 2]>,
    pictures: Vec<Scene>,
    theme: Theme,
}

/// A failed allocation, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// `in step 3, in the backward pass`; empty if it is not known.
    place: String,
    /// When it failed, what was requested, and what was free. It has no names.
    pub said: String,
    /// Who asked.
    pub asker: Option<String>,
}

impl OutOfMemory {
    fn of(marks: &Marks, oom: &OomMark) -> OutOfMemory {
        let place = oom::place(marks, oom);
        let when = match place.as_str() {
            "" => String::new(),
            place => format!("{}: ", super::capital(place)),
        };
        OutOfMemory {
            place,
            said: format!("{when}{}", oom::why(oom)),
            asker: oom::asker(oom),
        }
    }

    /// In a sentence or two.
    fn sentence(&self) -> String {
        match &self.asker {
            Some(asker) => format!("{} Asked by {asker}.", self.said),
            None => self.said.clone(),
        }
    }
}

/// How a run is shown.
pub struct Look {
    /// What part of it, and which panels.
    pub view: ViewState,
    /// Whether names are as recorded.
    pub texts: Texts,
    /// In which colours.
    pub theme: Theme,
}

/// Who may stop the making of a card.
pub struct Watches<'a> {
    /// Stops the search for leaks alone: the card is drawn without a verdict then.
    pub judging: Watch<'a>,
    /// Stops all of it.
    pub drawing: Watch<'a>,
}

impl RunCard {
    /// The card of a run, as `look` shows it.
    ///
    /// # Errors
    /// When the run has no such device, or it is stopped.
    pub fn new(
        head: &Head<'_>,
        decoded: &Decoded,
        look: &Look,
        watches: Watches<'_>,
    ) -> Result<RunCard, NoCard> {
        let Watches { judging, drawing } = watches;
        let device = chosen(decoded, &look.view)?;
        let Trace {
            stacks, quality, ..
        } = &decoded.trace;
        let report = leaks::find_while(device, stacks, quality, judging);
        let unknown = Unknown::of(device.device, quality);
        let levels = [Series::Allocated, Series::Reserved].map(|series| {
            let summary = device.summary[series as usize];
            let peak = unknown.told(series, Point::Peak, summary.peak);
            (series, peak, unknown.told(series, Point::End, summary.end))
        });
        let contents = contents(device, stacks, drawing)?;
        let word = contents.recording.kind.word();
        let growth = || growth(&report, Word::of(&device.steps));
        let growth = word.is_none().then(growth);
        let numbers = numbers(&levels, growth.clone());
        let marks = Arc::new(marks(device, &decoded.trace, drawing)?);
        let out_of_memory = marks.ooms.first().map(|oom| OutOfMemory::of(&marks, oom));
        let mut model = model(decoded, device, marks, look, numbers.picture(), drawing)?;
        let pictures = vec![model.base_scene(), model.overlay_scene()];
        let title = match look.texts {
            Texts::All(_) => head.name.to_owned(),
            Texts::Redacted(_) => nameless(head.id),
        };
        let (sites_title, sites) = sites((decoded, device), &report, (&model, look), drawing)?;
        let others = elsewhere(&decoded.trace, Some(device.device), judging);
        let others: Vec<Elsewhere> = others.filter(|other| other.trouble().is_some()).collect();
        let of_device = verdict(&report, &contents);
        let unsure = (of_device.tone == Tone::Unknown)
            .then(|| (device.steps.len() as u32, of_device.reason.clone()));
        let told = beside(of_device, &others);
        let first = headline(&told, out_of_memory.as_ref());
        let card = Card {
            title,
            subtitle: subtitle(head, device, &unknown),
            numbers,
            verdict: first.word,
            tone: first.tone,
            reason: first.reason,
            at_peak: peak_of(&contents, &unknown),
            sites_title,
            sites,
        };
        Ok(RunCard {
            card,
            memory: match device.device {
                DeviceIdx::PINNED => "Pinned host memory",
                _ => "GPU memory",
            },
            levels,
            growth,
            verdict: (told.word, told.reason),
            unsure,
            out_of_memory,
            faults: Vec::new(),
            pictures,
            theme: look.theme,
        })
    }

    /// The card beside what a bench knows of the run, which is told first.
    #[must_use]
    pub fn of_row(mut self, row: &RowOfRun) -> RunCard {
        if let Some((steps, why)) = &self.unsure
            && !why.is_empty()
            && let Some(ended) = row.too_few_steps(*steps)
        {
            let ended = sentence(&ended);
            for text in [&mut self.verdict.1, &mut self.card.reason] {
                *text = text.replace(why, &ended);
            }
        }
        // What the recording shows is told already.
        let is_new = |fault: &Fault| *fault != Fault::OutOfMemory || self.out_of_memory.is_none();
        let faults = row.faults().filter(is_new);
        let told = faults.map(|fault| {
            let about = sentence(&row.about(fault));
            [super::capital(fault.label()), about]
        });
        self.faults = told.collect();
        let words = self.faults.iter().map(|[word, _]| word.clone());
        let Some(word) = words.reduce(|words, word| format!("{words}, {}", lowered(&word))) else {
            return self;
        };
        let how = self.faults.iter().map(|[_, how]| format!("{how} "));
        let how: String = how.collect();
        let card = &mut self.card;
        let before = lowered(&card.verdict);
        card.reason = format!("{how}What this card shows: {before}. {}", card.reason);
        (card.verdict, card.tone) = (word, Tone::Bad);
        self
    }

    /// The card as a scene.
    pub fn scene(&self) -> Scene {
        card::scene(&self.card, &self.pictures, self.theme)
    }
}

/// What a view names, a device or the pinned memory; otherwise the main device, as on the page.
fn chosen<'d>(decoded: &'d Decoded, view: &ViewState) -> Result<&'d DeviceTrace, NoDevice> {
    let trace = &decoded.trace;
    let named = view.device.and_then(|device| decoded.device(device).ok());
    named
        .or_else(|| main_device::of(trace))
        .or(trace.pinned.as_ref())
        .ok_or(NoDevice(DeviceIdx(0)))
}

/// The page's model, with every tile that the view needs.
fn model(
    decoded: &Decoded,
    device: &DeviceTrace,
    marks: Arc<Marks>,
    look: &Look,
    place: PxRect,
    watch: Watch<'_>,
) -> Result<Model, Stopped> {
    let beside = decoded.trace.pinned.as_ref();
    let tops = beside.map(|pinned| pinned.summary[Series::Allocated as usize].peak);
    let peak = device.summary[Series::Reserved as usize]
        .peak
        .max(tops.unwrap_or_default());
    let mut model = Model::new(device.events.len(), peak, &look.view);
    model.set_palette(look.theme.palette());
    model.set_marks(marks);
    let css = |pixels: i32| f64::from(pixels) / PICTURE_SCALE;
    model.resize(css(place.width()), css(place.height()), PICTURE_SCALE);
    while model.is_waiting() {
        let requests = model.take_requests(0.0);
        if requests.is_empty() {
            break;
        }
        for request in requests {
            watch.look(0)?;
            match request {
                TileRequest::Series(id) => {
                    model.series_arrived(decoded.trace.series_tile(device, id));
                }
                TileRequest::Mountain(group_by, id) => {
                    let index = decoded.mountain_index(device, group_by);
                    model.mountain_arrived(device.mountain_tile(id, &index));
                }
            }
        }
    }
    watch.look(0)?;
    Ok(model)
}

fn subtitle(head: &Head<'_>, device: &DeviceTrace, unknown: &Unknown) -> String {
    let mut parts = vec![device.device.name()];
    let word = Word::of(&device.steps);
    let steps = doing(device.steps.len() as u64, word.one(), word.many());
    match device.step_source {
        StepSource::None => {}
        StepSource::Annotations => parts.push(steps),
        StepSource::Inferred => parts.push(format!("{steps}, inferred")),
    }
    let events = u64::from(device.events.len());
    parts.push(format!("{} events", short_count(events)));
    if unknown.is_cut() {
        parts.push("history cut".to_owned());
    }
    parts.extend(head.written_by.clone());
    parts.join(" · ")
}

/// What leaks, in words, under the name of what it counts. How the level itself grows, which in a
/// run without a leak is something else, comparisons tell.
fn growth(report: &LeakReport, word: Word) -> (String, String) {
    let growth = match report.verdict {
        Verdict::Leak => amount(report.rate()),
        Verdict::Clean => "none".to_owned(),
        Verdict::CannotTell => "cannot tell".to_owned(),
    };
    let name = match report.told().is_some_and(LeakGroup::is_within) {
        true => format!("leak per part of {}", word.a()),
        false => format!("leak per {}", word.one()),
    };
    (name, growth)
}

fn numbers(levels: &[(Series, String, String); 2], growth: Option<(String, String)>) -> Numbers {
    let [(_, allocated, end), (_, reserved, _)] = levels;
    let numbers = [
        ("peak allocated", allocated),
        ("peak reserved", reserved),
        ("allocated at the end", end),
    ];
    let numbers = numbers.map(|(name, bytes)| (name.to_owned(), bytes.clone()));
    Numbers::Headline(numbers.into_iter().chain(growth).collect())
}

/// An answer in words.
struct Told {
    word: String,
    reason: String,
    tone: Tone,
}

/// The answer and its reason. A single pass has no verdict: its name is given instead.
fn verdict(report: &LeakReport, contents: &Contents) -> Told {
    let recording = &contents.recording;
    let (word, tone) = match (report.verdict, recording.kind.word()) {
        (Verdict::Leak, _) => ("Leak", Tone::Bad),
        (Verdict::CannotTell, Some(word)) => {
            // The name need not be repeated.
            let rest = recording.sentence.strip_prefix(word);
            let rest = rest.and_then(|rest| rest.strip_prefix(": "));
            return Told {
                word: super::capital(word),
                reason: sentence(rest.unwrap_or(&recording.sentence)),
                tone: Tone::Plain,
            };
        }
        (Verdict::Clean, _) => ("No leak", Tone::Good),
        (Verdict::CannotTell, None) => ("Cannot tell", Tone::Unknown),
    };
    let growth = report.reserved_growth.as_ref();
    let growth = growth.map(|growth| [" ", &sentence(&growth.sentence())].concat());
    Told {
        word: word.to_owned(),
        reason: sentence(&report.reason) + &growth.unwrap_or_default(),
        tone,
    }
}

/// The answer, where other devices are in trouble, too: a card is read as being about the run.
fn beside(told: Told, others: &[Elsewhere]) -> Told {
    let Some(first) = others.first() else {
        return told;
    };
    let of_others = others.iter().filter_map(Elsewhere::sentence);
    let of_others: Vec<String> = of_others
        .map(|other| sentence(&super::capital(&other)))
        .collect();
    let of_others = of_others.join(" ");
    let Told { word, reason, tone } = told;
    if tone == Tone::Bad {
        let reason = format!("{reason} {of_others}");
        return Told { word, reason, tone };
    }
    let what = match first.verdict {
        Verdict::Leak => "Leak",
        _ => "Out of memory",
    };
    let place = match first.device {
        DeviceIdx::PINNED => "in pinned host memory".to_owned(),
        device => format!("on device {device}"),
    };
    Told {
        reason: format!(
            "{of_others} What this card shows: {}. {reason}",
            lowered(&word)
        ),
        word: format!("{what} {place}"),
        tone: Tone::Bad,
    }
}

fn lowered(word: &str) -> String {
    let mut rest = word.chars();
    let first = rest.next().into_iter().flat_map(char::to_lowercase);
    first.chain(rest).collect()
}

/// The first words about the picture: that memory ran out, if it did.
fn headline(told: &Told, out_of_memory: Option<&OutOfMemory>) -> Told {
    let Told { word, reason, tone } = told;
    let (word, reason) = match (out_of_memory, tone) {
        (None, _) => (word.clone(), reason.clone()),
        (Some(oom), Tone::Bad) => {
            // The picture shows what was requested. The shortage comes first, because the end may
            // be cut.
            let said = format!("memory ran out {}", oom.place);
            let said = format!("{} {reason}", sentence(said.trim_end()));
            (format!("{word}, out of memory"), said)
        }
        (Some(oom), _) => ("Out of memory".to_owned(), oom.sentence()),
    };
    let tone = match out_of_memory {
        None => *tone,
        Some(_) => Tone::Bad,
    };
    Told { word, reason, tone }
}

/// What is held at the peak; in a state, all that there is is its end.
fn peak_of(contents: &Contents, unknown: &Unknown) -> String {
    let when = match unknown.is_of_state() {
        true => "At the end",
        false => AT_PEAK,
    };
    let held = contents.peak.as_ref().map(|peak| &peak.categories[..]);
    let held = held.unwrap_or_default();
    let parts = held.iter();
    held_then(
        &[when, inferred(held)].concat(),
        parts.map(|share| (share.category, share.bytes.to_string())),
    )
}

/// `+8.00 MiB`.
fn amount(bytes: f64) -> String {
    format!("+{}", Bytes(bytes.max(0.0).round() as u64))
}

/// What accumulates; if nothing does, what the memory consists of at the highest level in view.
fn sites(
    (decoded, device): (&Decoded, &DeviceTrace),
    report: &LeakReport,
    (model, look): (&Model, &Look),
    watch: Watch<'_>,
) -> Result<(String, Vec<(String, String)>), Stopped> {
    let (stacks, word) = (&decoded.trace.stacks, Word::of(&device.steps));
    if report.verdict == Verdict::Leak {
        let apart = report.told_apart(stacks);
        let groups = report.groups.iter().zip(apart).take(MAX_SITES);
        let sites = groups.map(|(group, made_in)| leaking(group, made_in, word, stacks));
        return Ok(("What accumulates".to_owned(), sites.collect()));
    }
    let Some(composition) = model.composition() else {
        return Ok((String::new(), Vec::new()));
    };
    let event = composition.event;
    let largest = largest((decoded, device), event, look.view.group_by, watch)?;
    let sites = largest
        .into_iter()
        .map(|(name, bytes)| (bytes.to_string(), name));
    let at = count(u64::from(event.0));
    let title = format!("The largest of {} at event {at}", composition.total);
    Ok((title, sites.collect()))
}

/// What holds most at an event: places as explanations name them, or the groups of the view. The
/// picture is no source for it, because it draws small blocks that live throughout apart.
fn largest(
    (decoded, device): (&Decoded, &DeviceTrace),
    event: EventIdx,
    group_by: GroupBy,
    watch: Watch<'_>,
) -> Result<Vec<(String, Bytes)>, Stopped> {
    let by = match group_by {
        GroupBy::Stack | GroupBy::None => {
            let mut places = Places::new(device, &decoded.trace.stacks);
            let held = places.held(categories::alive(device, Some(event)), watch)?;
            let held = held.into_iter().take(MAX_SITES);
            return Ok(held
                .map(|(place, tally)| (place.name, tally.bytes))
                .collect());
        }
        GroupBy::File => Dimension::File,
        GroupBy::Stream => Dimension::Stream,
        GroupBy::Pool => Dimension::Pool,
        GroupBy::Category => Dimension::Category,
    };
    let alive = questions::alive(decoded, device, Some(event), by, watch)?;
    let groups = alive.groups.into_iter().take(MAX_SITES);
    Ok(groups
        .map(|group| (group.label, group.tally.bytes))
        .collect())
}

/// A leak, and the function that tells it from others of its line.
fn leaking(
    group: &LeakGroup,
    made_in: Option<Frame>,
    word: Word,
    stacks: &Stacks,
) -> (String, String) {
    let frame = group.frame.or(group.alloc_frame);
    let place = frame.map_or_else(|| "no stack recorded".to_owned(), |f| place_of(f, stacks));
    let made_in = made_in.map_or_else(String::new, |f| format!(", in {}", place_of(f, stacks)));
    let unit = leaks::counted_by(group.is_within(), word);
    let rate = format!("{} {unit}", amount(group.bytes_per_step));
    (rate, [place, made_in].concat())
}

/// Function and line, with the file but without most of its folders.
fn place_of(frame: Frame, stacks: &Stacks) -> String {
    let file = stacks.str(frame.filename);
    let kept = last_components(file, 2);
    let name = stacks.str(frame.name);
    match (file, frame.line) {
        ("" | "??", _) => name.to_owned(),
        (_, 0) => format!("{name} · {kept}"),
        (_, line) => format!("{name} · {kept}:{line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::span::Span;
    use trace::testing::{TraceBuilder, block_of};
    use trace::trace::{BlockKind, Step};

    #[test]
    fn steps_are_called_what_the_loop_calls_them() {
        let of = |word: Word, n: u32| {
            let step = |index| Step {
                index,
                name: word.nth(index),
                events: Span::new(EventIdx(index), EventIdx(index + 1)),
            };
            let device = DeviceTrace {
                steps: (0..n).map(step).collect(),
                step_source: StepSource::Annotations,
                ..DeviceTrace::default()
            };
            let head = Head {
                id: &"run_a".parse().unwrap(),
                name: "a",
                written_by: None,
                devices: &[],
            };
            subtitle(&head, &device, &Unknown::default())
        };
        assert_eq!(of(Word::Step, 1200), "device 0 · 1,200 steps · 0 events");
        assert_eq!(of(Word::Request, 12), "device 0 · 12 requests · 0 events");
        assert_eq!(
            of(Word::MicroBatch, 2),
            "device 0 · 2 micro-batches · 0 events"
        );
        assert_eq!(of(Word::Epoch, 1), "device 0 · 1 epoch · 0 events");
    }

    /// The picture draws small blocks that live throughout apart; their places hold them.
    #[test]
    fn the_largest_places_are_told_with_their_small_blocks() {
        let mut builder = TraceBuilder::default();
        let small = builder.stack("state", "/srv/app/optimizer.py", 3);
        let large = builder.stack("forward", "/srv/app/net.py", 7);
        let block = |mib: u64, alloc_stack| BlockKind {
            alloc_stack,
            ..block_of(Bytes::mib(mib))
        };
        for _ in 0..12 {
            builder.preexisting(block(1, small));
        }
        builder.alloc(block(4096, large));
        (0..8).for_each(|_| builder.mark());
        let decoded = Decoded::new(builder.finish(), ());
        let told = |group_by| {
            let look = Look {
                view: ViewState {
                    group_by,
                    ..ViewState::default()
                },
                texts: Texts::AS_RECORDED,
                theme: Theme::Light,
            };
            let head = Head {
                id: &"run_a".parse().unwrap(),
                name: "a",
                written_by: None,
                devices: &[],
            };
            let [judging, drawing] = [Watch::nobody(), Watch::nobody()];
            let watches = Watches { judging, drawing };
            RunCard::new(&head, &decoded, &look, watches)
                .unwrap()
                .card
                .sites
        };
        let expected = [
            ("4.00 GiB", "forward net.py:7"),
            ("12.0 MiB", "state optimizer.py:3"),
        ];
        let expected = expected.map(|(bytes, place)| (bytes.to_owned(), place.to_owned()));
        assert_eq!(told(GroupBy::Stack), expected);
        assert_eq!(told(GroupBy::None), expected);
        let files = told(GroupBy::File);
        assert_eq!(files[1].0, "12.0 MiB", "{files:?}");
    }

    /// What a bench knows is told before what the memory shows, in the picture and in the block.
    #[test]
    fn a_card_tells_first_what_no_memory_shows() {
        use crate::cards::markdown::{Names, run};
        let card = || RunCard {
            card: Card {
                title: "a".to_owned(),
                subtitle: String::new(),
                numbers: Numbers::Headline(Vec::new()),
                verdict: "No leak".to_owned(),
                tone: Tone::Good,
                reason: "Nothing accumulates.".to_owned(),
                at_peak: String::new(),
                sites_title: String::new(),
                sites: Vec::new(),
            },
            memory: "GPU memory",
            levels: [Series::Allocated, Series::Reserved]
                .map(|series| (series, "2 B".to_owned(), "1 B".to_owned())),
            growth: None,
            verdict: ("No leak".to_owned(), "Nothing accumulates.".to_owned()),
            unsure: None,
            out_of_memory: None,
            faults: Vec::new(),
            pictures: Vec::new(),
            theme: Theme::Light,
        };
        let sound = card().of_row(&RowOfRun::default());
        assert_eq!((sound.card.tone, sound.faults.len()), (Tone::Good, 0));
        let row = RowOfRun {
            corrupted_tensors: 2,
            crash: Some("setStorage".to_owned()),
            steps: 3,
            ..RowOfRun::default()
        };
        let told = card().of_row(&row);
        assert_eq!(told.card.verdict, "Crashed, corrupted data");
        assert_eq!(told.card.tone, Tone::Bad);
        let expected = "In step 3: setStorage. 2 restored tensors hold the elements of another \
                        view. What this card shows: no leak. Nothing accumulates.";
        assert_eq!(told.card.reason, expected);
        let block = run(&told, None, Names::Told);
        let begin = "### GPU memory: a\n\n**Crashed.** In step 3: setStorage.\n\n**Corrupted \
                     data.** 2 restored tensors hold the elements of another view.\n\n| |";
        assert!(block.starts_with(begin), "{block}");
        // To record more is no advice where there is no more.
        let advice = "One step is too few; record 4 steps or more.";
        let mut unsure = card();
        unsure.verdict = ("Cannot tell".to_owned(), advice.to_owned());
        unsure.card.reason = advice.to_owned();
        unsure.unsure = Some((2, advice.to_owned()));
        let early = RowOfRun { steps: 1, ..row };
        let told = unsure.of_row(&early);
        let why =
            "The run crashed in step 1: there is 1 whole step, and 4 are needed to see a leak.";
        assert_eq!(told.verdict.1, why);
        assert!(told.card.reason.ends_with(why), "{}", told.card.reason);
    }
}
