//! What would happen under other conditions, and how certain that is: the results in the answers of
//! *What if*. Each comes from replays of the same requests; ranges are over several of them.
//!
//! The page does not read what only its sentence tells: that would make its program larger.

use serde::{Deserialize, Serialize};
use trace::trace::Step;
use trace::units::{Bytes, EventIdx};
use trace::what_if::words::{self, Certainty};
use trace::what_if::{self, Failed, Outcome, Reach};

/// What would happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Replayed {
    /// How much the process may reserve; `null`: no limit.
    pub limit: Option<Bytes>,
    /// Highest *allocated*.
    pub peak_allocated: Bytes,
    /// Highest *reserved*.
    pub peak_reserved: Bytes,
    /// Requests that needed the cache emptied first (`num_alloc_retries`).
    pub retries: u64,
    /// The position of the step in which an allocation fails first, from 0; `null` when none does.
    /// A recording without steps is step 0.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub oom_step: Option<u32>,
    /// Where that is in words, by the program's own numbers: `in step 121`, `after step 17`.
    pub oom_place: Option<String>,
    /// The event at which it fails.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub oom_event: Option<EventIdx>,
    /// The segment that could not be had; `null` also where no allocation fails, but the memory
    /// from before the recording already needs more than the limit.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub oom_segment: Option<Bytes>,
    /// Where the answer ends.
    pub reaches: Reaches,
    /// How certain the answer is: as its sentence says.
    pub certainty: Certainty,
    /// Lowest and highest *reserved* peak of all replays, whatever `spread` and `waiting` depend
    /// on. Both are `peak_reserved` where nothing else was tried.
    #[cfg_attr(feature = "openapi", schema(min_items = 2, max_items = 2))]
    pub peak_reserved_range: [Bytes; 2],
    /// How much the answer depends on addresses of segments that nobody knows. `null` where it does
    /// not, or the recording is too long to try.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub spread: Option<Spread>,
    /// How much it depends on when other streams are done with what was given back. `null` where it
    /// hardly does, or the recording is too long to try.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub waiting: Option<Waiting>,
    /// How much it depends on what was cached before the recording. `null` where it hardly does.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub earlier: Option<Earlier>,
    /// How it ends if the program makes do without the work space that is refused. `null` where
    /// something else fails, or nothing does.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub without_work_space: Option<Ending>,
    /// How it ends on a card that is full at the limit, where that refuses another request than a
    /// memory fraction.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub on_full_card: Option<Ending>,
}

impl Replayed {
    /// The range of the highest *reserved* where it is worth a word, as in the sentence:
    /// ` (8 MiB to 10 MiB)`. `size` writes a size.
    pub fn range_in_words(&self, size: impl Fn(Bytes) -> String) -> String {
        match what_if::is_wide(self.peak_reserved_range) {
            true => {
                let [low, high] = self.peak_reserved_range.map(size);
                format!(" ({low} to {high})")
            }
            false => String::new(),
        }
    }
}

/// Where an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Reaches {
    /// To the end of the recording.
    End,
    /// To the allocation that fails.
    Failure,
    /// To the allocation that failed when recorded and does not here: what would have come next was
    /// not recorded.
    RecordedFailure,
}

/// The same answer replayed in several ways: with segments in several orders, or with other waits
/// for streams. Lowest and highest are of those replays for which the answer goes as far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Spread {
    /// How many replays there are, with the one of the answer itself.
    pub orders: u32,
    /// In how many of them a request fails.
    pub failed: u32,
    /// Where one fails, the first and the last step in which it does.
    #[cfg_attr(feature = "openapi", schema(min_items = 2, max_items = 2))]
    pub oom_step: Option<[u32; 2]>,
    /// Lowest and highest peak of *allocated*.
    #[cfg_attr(feature = "openapi", schema(min_items = 2, max_items = 2))]
    pub peak_allocated: [Bytes; 2],
    /// Lowest and highest peak of *reserved*.
    #[cfg_attr(feature = "openapi", schema(min_items = 2, max_items = 2))]
    pub peak_reserved: [Bytes; 2],
    /// Fewest and most retries.
    #[cfg_attr(feature = "openapi", schema(min_items = 2, max_items = 2))]
    pub retries: [u64; 2],
}

/// Frees that waited for another stream, where the answer depends on how long they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Waiting {
    /// How many frees waited in the recording.
    pub waited: u64,
    /// How many frees there were.
    pub frees: u64,
    /// The answer itself, and those with other waits.
    pub spread: Spread,
}

/// The answer with another cache from before the recording. Neither of the two is a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = OtherCache))]
pub struct Earlier {
    /// What was cached and free before the first event.
    pub cached: Bytes,
    /// Whether the answer counts it; then the other one does not.
    pub is_counted: bool,
    /// Highest *reserved* in the other one.
    pub peak_reserved: Bytes,
    /// The event at which an allocation fails in the other one.
    pub oom_event: Option<EventIdx>,
}

/// How the same requests end where something else is assumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ending {
    /// Highest *reserved*.
    pub peak_reserved: Bytes,
    /// The position of the step in which an allocation fails first, from 0; `null` when none does.
    pub oom_step: Option<u32>,
    /// Where that is in words.
    pub oom_place: Option<String>,
    /// The event at which it fails.
    pub oom_event: Option<EventIdx>,
    /// Where this ends.
    pub reaches: Reaches,
}

impl Spread {
    fn of(spread: what_if::Spread) -> Spread {
        let what_if::Spread {
            orders,
            failed,
            failed_at,
            peak_allocated,
            peak_reserved,
            retries,
        } = spread;
        Spread {
            orders,
            failed,
            oom_step: failed_at.map(|at| at.map(|failed| failed.step)),
            peak_allocated,
            peak_reserved,
            retries,
        }
    }
}

impl Waiting {
    fn of(found: what_if::Waiting) -> Waiting {
        Waiting {
            waited: found.waited,
            frees: found.frees,
            spread: Spread::of(found.spread),
        }
    }
}

impl Earlier {
    fn of(found: what_if::Earlier) -> Earlier {
        Earlier {
            cached: found.cached,
            is_counted: found.is_counted,
            peak_reserved: found.peak_reserved,
            oom_event: found.failed,
        }
    }
}

impl Ending {
    fn of(ending: &what_if::Ending, steps: &[Step]) -> Ending {
        let failed: Option<Failed> = ending.failed;
        Ending {
            peak_reserved: ending.peak_reserved,
            oom_step: failed.map(|failed| failed.step),
            oom_place: failed.map(|failed| words::place(&failed, steps)),
            oom_event: failed.map(|failed| failed.event),
            reaches: Reaches::of(ending.reach),
        }
    }
}

impl Reaches {
    fn of(reach: Reach) -> Reaches {
        match reach {
            Reach::End => Reaches::End,
            Reach::Failure => Reaches::Failure,
            Reach::Recorded(_) => Reaches::RecordedFailure,
        }
    }
}

impl Replayed {
    /// Of an outcome under a limit, on a device with these steps.
    pub(crate) fn of(limit: Option<Bytes>, outcome: &Outcome, steps: &[Step]) -> Replayed {
        let failed: Option<Failed> = outcome.failed;
        let ending = |other: &what_if::Ending| Ending::of(other, steps);
        Replayed {
            limit,
            peak_allocated: outcome.peak_allocated,
            peak_reserved: outcome.peak_reserved,
            retries: outcome.retries,
            oom_step: failed.map(|failed| failed.step),
            oom_place: failed.map(|failed| words::place(&failed, steps)),
            oom_event: failed.map(|failed| failed.event),
            oom_segment: failed.and_then(|failed| failed.segment),
            reaches: Reaches::of(outcome.reach),
            certainty: words::certainty(outcome, limit),
            peak_reserved_range: outcome.peak_reserved_range(),
            spread: outcome.spread.map(Spread::of),
            waiting: outcome.waiting.map(Waiting::of),
            earlier: outcome.earlier.map(Earlier::of),
            without_work_space: outcome.without_work_space.as_ref().map(ending),
            on_full_card: outcome.on_full_card.as_ref().map(ending),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread_of(peaks: [u64; 2]) -> what_if::Spread {
        what_if::Spread {
            orders: 8,
            failed: 0,
            failed_at: None,
            peak_allocated: [Bytes::mib(1); 2],
            peak_reserved: peaks.map(Bytes::mib),
            retries: [0; 2],
        }
    }

    /// What segments at other addresses and other waits for streams give, as one range.
    #[test]
    fn a_number_has_the_range_that_its_sentence_has() {
        let check = |by_place: Option<[u64; 2]>, by_wait: Option<[u64; 2]>, range, words: &str| {
            let outcome = Outcome {
                peak_reserved: Bytes::mib(300),
                spread: by_place.map(spread_of),
                waiting: by_wait.map(|peaks| what_if::Waiting {
                    waited: 20,
                    frees: 4000,
                    spread: spread_of(peaks),
                }),
                ..Outcome::NOTHING
            };
            let told = Replayed::of(None, &outcome, &[]);
            assert_eq!(told.peak_reserved_range, <[u64; 2]>::map(range, Bytes::mib));
            assert_eq!(told.range_in_words(|bytes| bytes.to_string()), words);
            assert_eq!(told.certainty, Certainty::Would);
        };
        check(None, None, [300, 300], "");
        check(Some([298, 300]), None, [298, 300], "");
        check(None, Some([250, 300]), [250, 300], " (250 MiB to 300 MiB)");
        let both = " (250 MiB to 400 MiB)";
        check(Some([299, 400]), Some([250, 310]), [250, 400], both);
    }

    /// A request that fails only with other waits for streams.
    #[test]
    fn what_the_sentence_says_is_certain_in_the_numbers_too() {
        let waiting = what_if::Waiting {
            waited: 20,
            frees: 4000,
            spread: what_if::Spread {
                failed: 3,
                ..spread_of([300, 300])
            },
        };
        let outcome = Outcome {
            peak_reserved: Bytes::mib(300),
            waiting: Some(waiting),
            ..Outcome::NOTHING
        };
        let told = Replayed::of(Some(Bytes::mib(320)), &outcome, &[]);
        assert_eq!(told.certainty, Certainty::Might);
        let waiting = told.waiting.expect("frees that waited");
        assert_eq!((waiting.waited, waiting.spread.failed), (20, 3));
        let text = serde_json::to_string(&told).expect("plain data");
        assert!(text.contains(r#""certainty":"might""#), "{text}");
    }
}
