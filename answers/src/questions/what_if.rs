//! What if: the requests of a run under other settings, another limit, or without some of the
//! requests.

use api::what_if::{Backward, Conditions, WhatIf, WhatIfDrawn};
use trace::allocator::Config;
use trace::allocator::conf::{self, BadConf};
use trace::device::DeviceIdx;
use trace::known::Unknown;
use trace::leaks::{self, LeakReport, MIN_BYTES, Pattern};
use trace::quality_code;
use trace::site::{self, BadSite, Keys, SiteKey};
use trace::stacks::Stacks;
use trace::steps::Word;
use trace::trace::{BlockKind, DeviceTrace, PoolId, QualityNote, Trace};
use trace::units::Bytes;
use trace::watch::{Stopped, Watch};
use trace::what_if::{self, Early, Question};

/// Columns of a curve: about as many as a wide page has pixels for it.
pub const COLUMNS: u32 = 600;

/// How many call sites one question may leave out.
pub const MOST_GONE: usize = 64;

/// Why nothing is replayed for the pinned memory of the host.
pub const NOT_OF_PINNED: &str =
    "pinned host memory has an allocator of its own: settings of the devices' do not change it";

/// Other conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Settings; `None`: those of the file.
    pub settings: Option<Settings>,
    /// The limit of what the process may reserve.
    pub limit: Option<Bytes>,
    /// Whether leaked blocks are given back when their step ends.
    pub leaks: Leaks,
    /// What is never requested.
    pub gone: Gone,
}

/// The text of `PYTORCH_CUDA_ALLOC_CONF`, which is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings(String);

impl Settings {
    /// Reads a text.
    ///
    /// # Errors
    /// [`BadConf`].
    pub fn of(text: &str) -> Result<Settings, BadConf> {
        conf::parse(text, None).map(|_| Settings(text.to_owned()))
    }

    /// What it sets under the version of torch that wrote a recording.
    fn under(&self, torch: Option<&str>) -> Config {
        conf::parse_accepted(&self.0, torch)
    }
}

/// What happens with leaked blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaks {
    /// They stay.
    #[default]
    AsRecorded,
    /// They are given back at the end of the step that made them.
    GivenBack,
}

/// Requests that are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Those of these call sites.
    Sites(Vec<SiteKey>),
    /// Those whose own code has such a text in a function or in a `file:line`.
    Places(Vec<String>),
}

impl Default for Gone {
    fn default() -> Gone {
        Gone::Sites(Vec::new())
    }
}

/// The question is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConditions {
    /// The settings are not valid.
    #[error("alloc_conf: {0}")]
    Settings(String),
    /// The limit is not a size.
    #[error("limit: {0}")]
    Limit(String),
    /// A site is not valid.
    #[error("gone: {0}")]
    Site(#[from] BadSite),
    /// Too many sites at once: this many.
    #[error("gone: {0} call sites are asked for; one question leaves out {MOST_GONE} at most")]
    TooMany(usize),
}

impl Asked {
    /// The question of a page or a program.
    ///
    /// # Errors
    /// [`BadConditions`].
    pub fn of(conditions: &Conditions) -> Result<Asked, BadConditions> {
        let settings = conditions.alloc_conf.as_deref().map(Settings::of);
        let settings = settings.transpose();
        let limit = conditions.limit.as_deref().map(str::parse::<Bytes>);
        let limit = limit.transpose();
        let gone = conditions.gone();
        if gone.len() > MOST_GONE {
            return Err(BadConditions::TooMany(gone.len()));
        }
        let gone = gone.into_iter().map(str::parse);
        Ok(Asked {
            settings: settings.map_err(|error| BadConditions::Settings(error.to_string()))?,
            limit: limit.map_err(|error| BadConditions::Limit(error.to_string()))?,
            leaks: match conditions.without_leaks {
                true => Leaks::GivenBack,
                false => Leaks::AsRecorded,
            },
            gone: Gone::Sites(gone.collect::<Result<_, _>>()?),
        })
    }
}

/// Places of [`Gone::Places`] at which nothing is asked for. A place that is misspelt would else
/// look like one without which nothing changes.
pub fn unknown_places<'a>(trace: &Trace, device: &DeviceTrace, asked: &'a Asked) -> Vec<&'a str> {
    let Gone::Places(places) = &asked.gone else {
        return Vec::new();
    };
    let kinds = &device.blocks.kinds;
    let mut keys = Keys::new(&trace.stacks);
    let unknown = places.iter().filter(|place| {
        let one = Gone::Places(vec![(*place).clone()]);
        !kinds
            .iter()
            .any(|kind| one.holds(&trace.stacks, &mut keys, kind))
    });
    unknown.map(String::as_str).collect()
}

/// Why such places are no question, or `None` if each is known.
pub fn refusal_of(unknown: &[&str], device: DeviceIdx) -> Option<String> {
    (!unknown.is_empty()).then(|| {
        let places = unknown.join(" or ");
        format!(
            "nothing of device {device} is asked for at {places}: `explain` lists the largest \
             places"
        )
    })
}

/// What an answer without leaks has to add where there is nothing to give back.
pub const NO_LEAKS: &str = "nothing was found that leaks and could be given back at the end of its \
                            step, so nothing is given back early; a buffer that is enlarged again \
                            and again could not, nor could what grows within steps";

/// [`NO_LEAKS`], where that is so.
pub fn nothing_given_back(asked: &Asked, found: &WhatIf) -> Option<&'static str> {
    let is_in_vain = asked.leaks == Leaks::GivenBack && found.otherwise.given_back == 0;
    is_in_vain.then_some(NO_LEAKS)
}

/// What an answer without leaks says of what accumulates all the same: what is at no place that is
/// known to leak, and buffers that are enlarged. `None` if that is too little.
fn left_in(report: &LeakReport, word: Word) -> Option<String> {
    let ends_with_steps =
        |pattern: Pattern| matches!(pattern, Pattern::EveryStep | Pattern::EveryNth(_));
    let groups = report.groups.iter();
    let given_back = groups.filter(|group| ends_with_steps(group.pattern));
    let given_back: f64 = given_back.map(|group| group.bytes_per_step).sum();
    let rest = report.bytes_per_step - given_back;
    let is_enough = rest >= MIN_BYTES.0 as f64 && rest >= LEFT_IN * report.bytes_per_step;
    is_enough.then(|| {
        format!(
            " {} {} of what accumulates are left in: of these it is not known what could be given \
             back.",
            Bytes(rest.round() as u64),
            word.a()
        )
    })
}

/// A smaller share of what accumulates is not worth a sentence.
const LEFT_IN: f64 = 0.01;

/// What is said where pools were given up, and the settings are others.
const GIVEN_UP: &str = " Private pools were given up before the end, and the recording does not \
                        name them: they count as one, without what lay alone in a segment. So \
                        under other settings reserved memory may be less or more.";

/// What is said first where the recorded events contradict one another.
const EVENTS_MISSING: &str = "Events are missing from this recording, as the others show, so what \
                              follows cannot be relied on: record again, without `skip_actions`. ";

/// What would happen.
///
/// # Errors
/// [`Stopped`].
pub fn what_if(
    trace: &Trace,
    device: &DeviceTrace,
    asked: &Asked,
    watch: Watch<'_>,
) -> Result<WhatIf, Stopped> {
    Ok(answered(trace, device, asked, 0, watch)?.answer)
}

/// The same, with curves of the levels.
///
/// # Errors
/// [`Stopped`].
pub fn what_if_drawn(
    trace: &Trace,
    device: &DeviceTrace,
    asked: &Asked,
    watch: Watch<'_>,
) -> Result<WhatIfDrawn, Stopped> {
    answered(trace, device, asked, COLUMNS, watch)
}

fn answered(
    trace: &Trace,
    device: &DeviceTrace,
    asked: &Asked,
    columns: u32,
    watch: Watch<'_>,
) -> Result<WhatIfDrawn, Stopped> {
    let own = what_if::own_settings(&trace.format, device);
    let mut left = None;
    let early = match asked.leaks {
        Leaks::AsRecorded => Early::default(),
        Leaks::GivenBack => {
            let report = leaks::find_while(device, &trace.stacks, &trace.quality, watch);
            // A report that was stopped names no leaks, which is not true of the recording.
            watch.look(0)?;
            left = left_in(&report, Word::of(&device.steps));
            Early::leaks(device, &trace.stacks, &report)
        }
    };
    let mut keys = Keys::new(&trace.stacks);
    let torch = trace.format.torch_guess.as_deref();
    let early = early.without(device, |kind| {
        asked.gone.holds(&trace.stacks, &mut keys, kind)
    });
    let question = Question {
        settings: asked.settings.as_ref().map(|text| text.under(torch)),
        limit: asked.limit,
        early,
        columns,
    };
    let answer = what_if::ask(device, &own, &question, watch)?;
    let mut drawn = WhatIfDrawn::of(device, &answer, &question.early);
    let unknown = Unknown::of(device.device, &trace.quality);
    drawn.answer.bounded_by(unknown);
    let is_contradictory = |note: &QualityNote| {
        note.code == quality_code::CONTRADICTORY && note.concerns(device.device)
    };
    if trace.quality.iter().any(is_contradictory) {
        drawn.answer.sentence.insert_str(0, EVENTS_MISSING);
    }
    let mut kinds = device.blocks.kinds.iter();
    if question.settings.is_some() && kinds.any(|kind| kind.pool == PoolId::GONE) {
        drawn.answer.trust += GIVEN_UP;
    }
    if let Some(left) = left.filter(|_| drawn.answer.otherwise.given_back > 0) {
        drawn.answer.trust += &left;
    }
    let n_gone = question.early.n_gone();
    if let Some(early) = question
        .early
        .without_their_backward(device, &trace.stacks, watch)?
    {
        let blocks = (early.n_gone() - n_gone) as u64;
        let question = Question {
            early,
            columns: 0,
            ..question
        };
        let answer = what_if::ask(device, &own, &question, watch)?;
        drawn.answer.otherwise.backward = Some(Backward {
            blocks,
            peak_allocated: answer.what_if.peak_allocated,
        });
    }
    Ok(drawn)
}

impl Gone {
    fn holds(&self, stacks: &Stacks, keys: &mut Keys<'_>, kind: &BlockKind) -> bool {
        match self {
            Gone::Sites(sites) if sites.is_empty() => false,
            Gone::Sites(sites) => {
                let key = keys.of(kind);
                sites.iter().any(|site| site.covers(key))
            }
            Gone::Places(texts) if texts.is_empty() => false,
            Gone::Places(texts) => {
                let frames = stacks.frames(kind.alloc_stack).iter();
                let frames = frames.map(|&frame| stacks.frame(frame));
                let mut own = frames.filter(|frame| !site::is_framework(stacks, *frame));
                own.any(|frame| {
                    let place = format!("{}:{}", stacks.str(frame.filename), frame.line);
                    let name = stacks.str(frame.name);
                    let is_there = |text: &String| name.contains(text) || place.contains(text);
                    texts.iter().any(is_there)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::testing;

    #[test]
    fn what_is_at_no_known_place_is_left_in() {
        let trace = testing::trace("a alloc 1MiB at f m.py:1");
        let device = &trace.devices[0];
        let mut report = leaks::find(device, &trace.stacks, &[]);
        let left = |report: &LeakReport| left_in(report, Word::of(&device.steps));
        assert_eq!(left(&report), None);
        report.bytes_per_step = f64::from(3 << 20);
        let told = left(&report).expect("no group holds it");
        assert!(
            told.starts_with(" 3.00 MiB a step of what accumulates are left in"),
            "{told}"
        );
    }
}
