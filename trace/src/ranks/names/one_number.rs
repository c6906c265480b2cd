//! Names that differ in one number alone: whether it may be the rank.
//!
//! `worker0` and `worker1` are two processes, but `step10` and `step20` are one process at two
//! moments, and `bs8` and `bs16` two runs. The word before the number tells. Behind a word that is
//! not known, ranks begin with 0 or 1.

use super::fields::{is_axis, is_role};
use super::numbering::Ordered;

/// What counts moments of a program, or its variants.
const OTHERS: [&str; 63] = [
    "after",
    "attempt",
    "batch",
    "batchsize",
    "before",
    "beta",
    "bs",
    "bsz",
    "case",
    "cfg",
    "checkpoint",
    "chunk",
    "ckpt",
    "commit",
    "conf",
    "config",
    "ctx",
    "day",
    "dim",
    "e",
    "ep",
    "epoch",
    "exp",
    "experiment",
    "fold",
    "gen",
    "generation",
    "hidden",
    "hour",
    "iter",
    "iteration",
    "layer",
    "len",
    "length",
    "lora",
    "lr",
    "mb",
    "microbatch",
    "minute",
    "model",
    "pass",
    "patch",
    "phase",
    "pr",
    "rev",
    "revision",
    "round",
    "run",
    "sample",
    "sec",
    "second",
    "seed",
    "seq",
    "seqlen",
    "size",
    "step",
    "t",
    "test",
    "time",
    "trial",
    "try",
    "v",
    "version",
];

/// Whether these numbers behind this word, which is in lower case and may be empty, may be ranks.
pub(super) fn may_be_ranks(word: &str, numbers: &[u32]) -> bool {
    let one = word.strip_suffix('s').unwrap_or(word);
    if is_axis(word) || is_role(word) {
        true
    } else if OTHERS.contains(&word) || OTHERS.contains(&one) {
        false
    } else {
        numbers.iter().any(|number| *number <= 1)
    }
}

/// What is said of such ranks; nothing behind a word for processes.
pub(super) fn ordered(word: &str) -> Option<Ordered> {
    let is_said = is_axis(word) || is_role(word);
    (!is_said).then(|| Ordered::ByNumber(word.to_owned()))
}

/// The word at the end of the text before a number, in lower case: `step` of `a/llama-step_`.
pub(super) fn word_before(text: &str) -> String {
    let name = text.rsplit('/').next().unwrap_or_default();
    let name = name.trim_end_matches(|c: char| !c.is_alphanumeric());
    let letters = name.chars().rev().take_while(|c| c.is_alphabetic());
    let word: String = letters.flat_map(char::to_lowercase).collect();
    word.chars().rev().collect()
}
