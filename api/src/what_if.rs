//! The questions of *What if*, and what `tidemark what-if --json` prints.
//!
//! `calibration` says how far the answer can be trusted, `recorded` is what happened, `what_if`
//! what would happen. Sizes are bytes.

pub use crate::replayed::{Earlier, Ending, Reaches, Replayed, Spread, Waiting};
pub use trace::what_if::words::Certainty;

use crate::query::{decode, encode};
use serde::{Deserialize, Serialize};
use trace::device::DeviceIdx;
use trace::known::{Point, Unknown};
use trace::redact::place_in_words;
use trace::trace::{DeviceTrace, Series};
use trace::units::{Bytes, grouped, size};
use trace::what_if::{self, Answer, Early, LimitSeen, words};

/// A question. Parts that are not set stay as recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct Conditions {
    /// Settings in the form of `PYTORCH_CUDA_ALLOC_CONF`; an empty text: PyTorch's defaults.
    pub alloc_conf: Option<String>,
    /// How much the process may reserve, such as `24GiB`.
    pub limit: Option<String>,
    /// Whether what leaks is given back at the end of the step that made it.
    #[serde(default)]
    pub without_leaks: bool,
    /// Call sites whose requests are left out: the keys of `groups`, separated by commas.
    pub gone: Option<String>,
}

impl Conditions {
    /// Whether anything is asked.
    pub fn is_any(&self) -> bool {
        *self != Conditions::default()
    }

    /// The keys of the call sites that are left out.
    pub fn gone(&self) -> Vec<&str> {
        let keys = self.gone.as_deref().unwrap_or_default().split(',');
        keys.filter(|key| !key.is_empty()).collect()
    }

    /// Leaves a call site out, or puts it back.
    pub fn toggle(&mut self, site: &str) {
        let mut keys = self.gone();
        match keys.iter().position(|key| *key == site) {
            Some(at) => drop(keys.remove(at)),
            None => keys.push(site),
        }
        self.gone = (!keys.is_empty()).then(|| keys.join(","));
    }

    /// As the end of a query: `&alloc_conf=…&limit=…`.
    pub fn query(&self) -> String {
        let mut query = String::new();
        let texts = [
            ("alloc_conf", &self.alloc_conf),
            ("limit", &self.limit),
            ("gone", &self.gone),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                query += &format!("&{key}={}", encode(text));
            }
        }
        if self.without_leaks {
            query += "&without_leaks=true";
        }
        query
    }

    /// Takes a pair of a query. `None` if the key is not one of these; otherwise whether the value
    /// was understood.
    pub fn take(&mut self, key: &str, value: &str) -> Option<bool> {
        let field = match key {
            "alloc_conf" => &mut self.alloc_conf,
            "limit" => &mut self.limit,
            "gone" => &mut self.gone,
            "without_leaks" => {
                let read = value.parse().ok();
                self.without_leaks = read.unwrap_or_default();
                return Some(read.is_some());
            }
            _ => return None,
        };
        *field = Some(decode(value)).filter(|text| text.len() <= MAX_TEXT);
        Some(field.is_some())
    }
}

/// A longer text is not accepted.
const MAX_TEXT: usize = 2048;

/// The answer about one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIf {
    /// CUDA ordinal as the process saw it.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub device: DeviceIdx,
    /// How well the rules reproduce the recording.
    pub calibration: Calibration,
    /// What was recorded.
    pub recorded: Recorded,
    /// What was asked.
    pub what_if: Replayed,
    /// The same under the limit that the recording shows, where none was asked for.
    pub at_recorded_limit: Option<Replayed>,
    /// What the program does differently than in the recording.
    pub otherwise: Otherwise,
    /// The answer in words.
    pub sentence: String,
    /// How far it can be trusted, in words.
    pub trust: String,
}

/// What the program does differently than in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Otherwise {
    /// Blocks that are given back at the end of the step that made them.
    pub given_back: u64,
    /// Blocks that are never asked for.
    pub gone: u64,
    /// What the backward pass asks for because of these. It is asked for all the same.
    pub backward: Option<Backward>,
}

/// What a backward pass asks for because of operations that are never run (inferred).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Backward {
    /// How many blocks.
    pub blocks: u64,
    /// The peak of *allocated* if these are never asked for, either.
    pub peak_allocated: Bytes,
}

impl Otherwise {
    /// Which parts of the question matched something in the recording; `None` if none did.
    pub fn in_words(&self) -> Option<String> {
        let part = |n: u64, what: &str| match n {
            0 => None,
            1 => Some(format!("1 block {what}")),
            n => Some(format!("{} blocks {what}", grouped(n))),
        };
        let parts = [
            part(self.given_back, "given back at the end of their steps"),
            part(self.gone, "never asked for"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let backward = self.backward.map(|backward| {
            format!(
                " Their backward pass asks for {} more (inferred); without them, too, allocated \
                 memory would peak at {}.",
                grouped(backward.blocks),
                backward.peak_allocated
            )
        });
        (!parts.is_empty())
            .then(|| format!("{}.{}", parts.join(", "), backward.unwrap_or_default()))
    }
}

/// An answer with its picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhatIfDrawn {
    /// The answer.
    pub answer: WhatIf,
    /// The levels on the way, where they were asked for.
    pub curves: Option<Curves>,
}

/// Levels on the way, in columns of as many events each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ReplayedCurves))]
pub struct Curves {
    /// Events in a column.
    pub events_per_column: u32,
    /// As recorded.
    pub recorded: Curve,
    /// As asked: under the recorded limit, where one shows and none was asked for. It ends where
    /// the answer does.
    pub what_if: Curve,
}

/// The highest levels of each column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ReplayedCurve))]
pub struct Curve {
    /// *Allocated*.
    pub allocated: Vec<Bytes>,
    /// *Reserved*.
    pub reserved: Vec<Bytes>,
}

/// How well the allocator's rules reproduce the recording, under the file's own settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Calibration {
    /// Allocations.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub allocs: u64,
    /// Those whose address the rules predict.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub predicted: u64,
    /// Computed peak of reserved memory against the recorded one, as a share: 0.01 is 1 % too much.
    pub peak_reserved_error: f64,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Recorded {
    /// Highest *allocated*.
    pub peak_allocated: Bytes,
    /// Highest *reserved*.
    pub peak_reserved: Bytes,
    /// The position of the step in which an allocation failed first, from 0; `null` when none did.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub oom_step: Option<u32>,
    /// Where that was in words, by the program's own numbers: `in step 121`, `after step 17`.
    pub oom_place: Option<String>,
    /// What the recording shows of the limit that it ran under.
    pub limit: Option<Limit>,
    /// Levels that the recording does not show. The number in place of such a level is a bound, or
    /// means nothing.
    #[serde(default, skip_serializing_if = "Unknown::is_empty")]
    pub unknown: Unknown,
}

impl Recorded {
    /// One of its peaks in words, `text` where it is known.
    pub fn told_peak(&self, series: Series, text: impl ToString) -> String {
        self.unknown.told(series, Point::Peak, text)
    }
}

/// A limit, as far as a recording shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Limit {
    /// Lower bound of the limit.
    pub at_least: Bytes,
    /// Upper bound (exclusive) of the limit.
    pub below: Bytes,
}

impl Limit {
    /// In words: `between 2.01 GiB and 2.07 GiB`.
    pub fn in_words(self) -> String {
        size::between(self.at_least, self.below)
    }
}

impl WhatIfDrawn {
    /// An answer about a device, together with its sentences.
    pub fn of(device: &DeviceTrace, answer: &Answer, early: &Early) -> WhatIfDrawn {
        let curves = answer.curves.as_ref();
        WhatIfDrawn {
            answer: WhatIf::of(device, answer, early),
            curves: curves.map(|curves| Curves {
                events_per_column: curves.recorded.events_per_column,
                recorded: Curve::of(&curves.recorded),
                what_if: Curve::of(&curves.what_if),
            }),
        }
    }
}

impl Curve {
    fn of(curve: &what_if::Curve) -> Curve {
        Curve {
            allocated: curve.allocated.clone(),
            reserved: curve.reserved.clone(),
        }
    }
}

impl WhatIf {
    fn of(device: &DeviceTrace, answer: &Answer, early: &Early) -> WhatIf {
        let calibration = &answer.calibration;
        let recorded = &answer.recorded;
        let own_limit = recorded.limit.map(LimitSeen::taken);
        let at_recorded = answer.at_recorded_limit.as_ref();
        let steps = &device.steps;
        WhatIf {
            device: device.device,
            calibration: Calibration {
                allocs: calibration.addresses.allocs,
                predicted: calibration.addresses.predicted,
                peak_reserved_error: calibration.peak_reserved_error,
            },
            recorded: Recorded {
                peak_allocated: recorded.peak_allocated,
                peak_reserved: recorded.peak_reserved,
                oom_step: recorded.failed.map(|(_, step)| step),
                oom_place: recorded
                    .failed
                    .map(|(event, _)| place_in_words(steps, event)),
                limit: recorded.limit.map(|seen| Limit {
                    at_least: seen.at_least,
                    below: seen.below,
                }),
                unknown: Unknown::default(),
            },
            what_if: Replayed::of(answer.limit, &answer.what_if, steps),
            at_recorded_limit: at_recorded.map(|outcome| Replayed::of(own_limit, outcome, steps)),
            otherwise: Otherwise {
                given_back: early.len() as u64,
                gone: early.n_gone() as u64,
                backward: None,
            },
            sentence: words::sentence(answer, steps),
            trust: words::trust(answer),
        }
    }

    /// Says what the recording does not tell. Of a state alone no peak is known, so only what was
    /// in use can be told to fit or not.
    pub fn bounded_by(&mut self, unknown: Unknown) {
        let told = |bytes: Bytes| size::exact(bytes.0 as f64);
        if unknown.is_of_state() {
            let state = self.at_recorded_limit.as_ref().unwrap_or(&self.what_if);
            if state.oom_step.is_none() {
                let [held, reserved] = [state.peak_allocated, state.peak_reserved].map(told);
                self.sentence = match state.limit {
                    Some(limit) => format!(
                        "What was in use at the end fits under a limit of {}: {held}, in segments \
                         of {reserved}.",
                        told(limit)
                    ),
                    None => format!("In use at the end were {held}, in segments of {reserved}."),
                };
            }
            "Only this state was recorded: how much the peak before needed is not known."
                .clone_into(&mut self.trust);
        } else if unknown.is_cut() {
            self.trust += " The beginning of the run is not in the recording, so its peaks may \
                           have been higher.";
        }
        self.recorded.unknown = unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::trace::QualityNote;

    fn answer(limit: Option<Bytes>, oom_step: Option<u32>) -> WhatIf {
        WhatIf {
            device: DeviceIdx(0),
            calibration: Calibration {
                allocs: 0,
                predicted: 0,
                peak_reserved_error: 0.0,
            },
            recorded: Recorded {
                peak_allocated: Bytes::mib(3),
                peak_reserved: Bytes::mib(20),
                oom_step: None,
                oom_place: None,
                limit: None,
                unknown: Unknown::default(),
            },
            what_if: Replayed {
                limit,
                peak_allocated: Bytes::mib(3),
                peak_reserved: Bytes::mib(20),
                retries: 0,
                oom_step,
                oom_place: None,
                oom_event: None,
                oom_segment: None,
                reaches: Reaches::End,
                certainty: Certainty::Would,
                peak_reserved_range: [Bytes::mib(20); 2],
                spread: None,
                waiting: None,
                earlier: None,
                without_work_space: None,
                on_full_card: None,
            },
            at_recorded_limit: None,
            otherwise: Otherwise {
                given_back: 0,
                gone: 0,
                backward: None,
            },
            sentence: "As computed.".to_owned(),
            trust: "As calibrated.".to_owned(),
        }
    }

    #[test]
    fn what_the_recording_does_not_tell_is_said() {
        let check = |code: &str, limit, oom_step, sentence: &str, trust: &str, peak: &str| {
            let note = QualityNote {
                code: code.to_owned(),
                detail: String::new(),
            };
            let mut told = answer(limit, oom_step);
            told.bounded_by(Unknown::of(DeviceIdx(0), &[note]));
            assert_eq!(told.sentence, sentence);
            assert!(told.trust.contains(trust), "{}", told.trust);
            let recorded = &told.recorded;
            let of = |series| recorded.told_peak(series, "20 MiB");
            assert_eq!([Series::Allocated, Series::Reserved].map(of), [peak; 2]);
        };
        let state = "Only this state was recorded";
        let limit = Some(Bytes::mib(64));
        let in_use = "In use at the end were 3.000 MiB, in segments of 20.000 MiB.";
        check("state_only", None, None, in_use, state, "≥ 20 MiB");
        let fits = "What was in use at the end fits under a limit of 64.000 MiB: 3.000 MiB, in \
                    segments of 20.000 MiB.";
        check("state_only", limit, None, fits, state, "≥ 20 MiB");
        check(
            "state_only",
            limit,
            Some(0),
            "As computed.",
            state,
            "≥ 20 MiB",
        );
        let cut = "As calibrated. The beginning";
        check("ring_wrapped", limit, None, "As computed.", cut, "≥ 20 MiB");
        check(
            "no_stacks",
            limit,
            None,
            "As computed.",
            "As calibrated.",
            "20 MiB",
        );
    }

    #[test]
    fn what_the_program_does_otherwise_is_told() {
        let check = |given_back, gone, backward, expected: Option<&str>| {
            let backward = (backward > 0).then_some(Backward {
                blocks: backward,
                peak_allocated: Bytes(221 << 20),
            });
            let otherwise = Otherwise {
                given_back,
                gone,
                backward,
            };
            assert_eq!(otherwise.in_words().as_deref(), expected);
        };
        check(0, 0, 0, None);
        check(
            1,
            0,
            0,
            Some("1 block given back at the end of their steps."),
        );
        check(0, 1200, 0, Some("1,200 blocks never asked for."));
        let text = "40 blocks never asked for. Their backward pass asks for 8 more (inferred); \
                    without them, too, allocated memory would peak at 221 MiB.";
        check(0, 40, 8, Some(text));
    }
}
