//! What a recording leaves out, in words. A number of a run that is not whole is shown with them.

use trace::quality_code;
use trace::units::Bytes;

/// Codes of findings about the data that make numbers incomplete or unknown: each with a word or
/// two, and what it means.
pub const CAUTIONS: [(&str, &str, &str); 10] = [
    (
        quality_code::RING_WRAPPED,
        "history cut",
        "The recorder's ring of events wrapped: the beginning of the run is missing.",
    ),
    (
        quality_code::NO_EVENTS,
        "state only",
        "The file holds no events, only the state at its end.",
    ),
    (
        quality_code::STATE_ONLY,
        "state only",
        "Recorded without history: only the state at the end.",
    ),
    (
        quality_code::EVENTS_LEFT_OUT,
        "state only",
        "Allocations or frees were left out (`skip_actions`): only the state at the end.",
    ),
    (
        quality_code::CONTRADICTORY,
        "inconsistent",
        "Events are missing, since others contradict one another: levels are not certain.",
    ),
    (
        quality_code::NO_SEGMENTS,
        "no segments",
        "Memory from before the first event, and true block sizes, are unknown.",
    ),
    (
        quality_code::DOUBLE_ALLOCS,
        "inconsistent",
        "Addresses were handed out again without having been freed.",
    ),
    (
        quality_code::DOUBLE_FREES,
        "inconsistent",
        "Blocks were given back again without having become free.",
    ),
    (
        quality_code::UNKNOWN_ACTIONS,
        "unknown events",
        "Some events are of a kind that this version does not know: what they change is left out.",
    ),
    (
        quality_code::END_DIFFERS,
        "ends differ",
        "The levels after the last event differ from what the segments state.",
    ),
];

/// Those of them with which a part of the run was not recorded.
pub const NOT_RECORDED: [&str; 5] = [
    quality_code::RING_WRAPPED,
    quality_code::NO_EVENTS,
    quality_code::STATE_ONLY,
    quality_code::EVENTS_LEFT_OUT,
    quality_code::NO_SEGMENTS,
];

/// Those of them with which a peak is only known to be no lower.
const PEAK_MAY_BE_LOST: [&str; 4] = [
    quality_code::RING_WRAPPED,
    quality_code::NO_EVENTS,
    quality_code::STATE_ONLY,
    quality_code::EVENTS_LEFT_OUT,
];

/// Whether nothing but the state at the end was recorded, by these codes.
pub fn is_state(codes: &[String]) -> bool {
    let states = [
        quality_code::NO_EVENTS,
        quality_code::STATE_ONLY,
        quality_code::EVENTS_LEFT_OUT,
    ];
    codes.iter().any(|code| states.contains(&code.as_str()))
}

/// Whether the peak of a run with these codes is only known to be no lower.
pub fn is_least(codes: &[String]) -> bool {
    let is_lost = |code: &String| PEAK_MAY_BE_LOST.contains(&code.as_str());
    codes.iter().any(is_lost)
}

/// The peak of a run with these codes in words: `8.00 GiB`, or `at least 8.00 GiB`.
pub fn told_peak(peak: Bytes, codes: &[String]) -> String {
    trace::compare::told_peak(peak, is_least(codes))
}

/// The same in few letters, for a narrow place: `8.00 GiB`, or `≥ 8.00 GiB`.
pub fn peak_in_short(peak: Bytes, codes: &[String]) -> String {
    match is_least(codes) {
        true => format!("≥ {peak}"),
        false => peak.to_string(),
    }
}

/// A word or two for such a code, and what it means; `None` for all other codes.
pub fn caution(code: &str) -> Option<(&'static str, &'static str)> {
    let found = CAUTIONS.iter().find(|(one, ..)| *one == code);
    found.map(|&(_, word, about)| (word, about))
}

/// The same for all codes of a run, each word once.
pub fn cautions(codes: &[String]) -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for (word, about) in codes.iter().filter_map(|code| caution(code)) {
        if found.iter().all(|(known, _)| *known != word) {
            found.push((word, about));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_said_once() {
        let codes = [
            "no_stacks",
            "state_only",
            "ring_wrapped",
            "no_events",
            "new",
        ];
        let words = cautions(&codes.map(str::to_owned));
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        assert_eq!(words, ["state only", "history cut"]);
        let told = |codes: &[&str]| {
            let codes: Vec<String> = codes.iter().map(|code| (*code).to_owned()).collect();
            told_peak(Bytes::gib(8), &codes)
        };
        assert_eq!(told(&[]), "8.00 GiB");
        assert_eq!(told(&["no_stacks", "end_differs"]), "8.00 GiB");
        assert_eq!(told(&["no_stacks", "ring_wrapped"]), "at least 8.00 GiB");
        assert!(NOT_RECORDED.iter().all(|code| caution(code).is_some()));
    }
}
