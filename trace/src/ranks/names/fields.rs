//! What a name is made of: words, numbers, dates, and codes that a machine made.

use super::named::{SEPARATORS, without_ending};

/// Digits of a number that may be a rank; what has more is a date or a count.
const DIGITS: usize = 7;
/// The end of the name of a Kubernetes pod: five characters, none of which could make a word.
const OF_PODS: &str = "bcdfghjklmnpqrstvwxz2456789";
const POD_LENGTH: usize = 5;
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
/// What counts the parts of a mesh of processes.
const AXES: [&str; 37] = [
    "pp", "tp", "dp", "cp", "sp", "ep", "mp", "etp", "edp", "ddp", "fsdp", "hsdp", "pipe",
    "pipeline", "stage", "tensor", "data", "expert", "context", "shard", "replica", "node", "host",
    "machine", "pod", "instance", "gpu", "cuda", "device", "dev", "npu", "xpu", "local", "worker",
    "proc", "process", "slot",
];

/// Roles of processes that are parts of one program, without the `s` of several.
const ROLES: [&str; 31] = [
    "actor",
    "agent",
    "chief",
    "client",
    "controller",
    "coordinator",
    "critic",
    "decode",
    "evaluator",
    "generator",
    "head",
    "infer",
    "inference",
    "judge",
    "launcher",
    "leader",
    "learner",
    "master",
    "policy",
    "prefill",
    "ps",
    "ref",
    "reference",
    "reward",
    "rollout",
    "sampler",
    "server",
    "student",
    "teacher",
    "trainer",
    "worker",
];
/// A part of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    /// Letters, in lower case.
    Word(String),
    Number(u32),
    /// Letters and digits in no order, or the random end of the name of a pod.
    Code(String),
    /// A date, with or without a time; or a number too large for a rank.
    Date(Writing),
}

/// How a date is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Writing {
    /// `Nov_28_12_00_01`, as PyTorch's guide to snapshots does, behind the name of the host.
    WithMonth,
    Digits,
}

/// Whether a word counts the parts of a mesh.
pub(super) fn is_axis(word: &str) -> bool {
    AXES.contains(&word)
}

/// Whether a word is known as a role, or as several processes of one.
pub(super) fn is_role(word: &str) -> bool {
    let one = word.strip_suffix('s').unwrap_or(word);
    ROLES.contains(&word) || ROLES.contains(&one)
}

/// Whether a code may be one that Kubernetes made for a pod.
pub(super) fn may_be_of_pod(code: &str) -> bool {
    code.len() == POD_LENGTH || code.chars().all(|c| OF_PODS.contains(c))
}

/// The fields of a name, without its ending; folders count as parts of it.
pub(super) fn fields_of(name: &str) -> Vec<Field> {
    let is_separator = |c: char| SEPARATORS.contains(&c) || c == '/' || c == ':';
    let chunks = without_ending(name).split(is_separator);
    let chunks: Vec<&str> = chunks.filter(|chunk| !chunk.is_empty()).collect();
    let (mut fields, mut at) = (Vec::new(), 0);
    while at < chunks.len() {
        if let Some((n, writing)) = date(&chunks[at..]) {
            fields.push(Field::Date(writing));
            at += n;
            continue;
        }
        let behind_code = matches!(fields.last(), Some(Field::Code(_)));
        push(chunks[at], behind_code, &mut fields);
        at += 1;
    }
    fields
}

/// How many of the first chunks are a date, if there is one.
fn date(chunks: &[&str]) -> Option<(usize, Writing)> {
    let is_number = |chunk: &str, digits: &[usize]| {
        digits.contains(&chunk.len()) && chunk.bytes().all(|b| b.is_ascii_digit())
    };
    let are = |from: usize, pattern: &[&[usize]]| {
        let found = chunks.get(from..from + pattern.len());
        found.is_some_and(|found| found.iter().zip(pattern).all(|(c, d)| is_number(c, d)))
    };
    const TWO: &[usize] = &[2];
    // The time of a day: together, or in parts.
    let with_time = |n: usize| match () {
        () if are(n, &[TWO, TWO, TWO]) => n + 3,
        () if are(n, &[&[4, 6]]) => n + 1,
        () => n,
    };
    let first = chunks.first()?.to_ascii_lowercase();
    let (days, time) = first.split_once('t').unwrap_or((&first, ""));
    let is_year = |year: &str| year.starts_with("20");
    match () {
        () if MONTHS.contains(&&*first) && are(1, &[&[1, 2], TWO, TWO, TWO]) => {
            Some((5, Writing::WithMonth))
        }
        () if is_number(days, &[8]) && is_number(time, &[4, 6]) => Some((1, Writing::Digits)),
        () if is_number(&first, &[8]) && is_year(&first) => Some((with_time(1), Writing::Digits)),
        () if is_number(&first, &[4]) && is_year(&first) && are(1, &[TWO, TWO]) => {
            Some((with_time(3), Writing::Digits))
        }
        () if first.len() > DIGITS && first.bytes().all(|b| b.is_ascii_digit()) => {
            Some((1, Writing::Digits))
        }
        () => None,
    }
}

/// Adds the fields of a chunk without separators: `pp0` and `pp0tp1` are words with numbers.
fn push(chunk: &str, behind_code: bool, fields: &mut Vec<Field>) {
    let chunk = chunk.to_lowercase();
    let parts = super::order::parts_of(&chunk);
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let are_short = parts
        .iter()
        .all(|part| !is_number(part) || part.len() <= DIGITS);
    let counts = |pair: &[&str]| matches!(pair, [word, n] if is_axis(word) && is_number(n));
    let is_mesh = parts.len() > 2 && parts.chunks(2).all(counts);
    let is_plain = match &parts[..] {
        [_] => true,
        [word, _] => !is_number(word),
        _ => is_mesh,
    };
    // Numbers alone, and axes with a number, are what they look like.
    let is_told = is_mesh || is_number(&chunk) || counts(&parts);
    let may_be_pod = chunk.len() == POD_LENGTH && !is_told;
    let is_pod = may_be_pod && (behind_code || chunk.chars().all(|c| OF_PODS.contains(c)));
    if !is_plain || !are_short || is_pod {
        fields.push(Field::Code(chunk));
        return;
    }
    fields.extend(parts.into_iter().map(|part| match part.parse() {
        Ok(number) => Field::Number(number),
        Err(_) => Field::Word(part.to_owned()),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_words_numbers_dates_and_codes() {
        let check = |name: &str, expected: &str| {
            let told = fields_of(name).into_iter().map(|field| match field {
                Field::Word(word) => word,
                Field::Number(n) => n.to_string(),
                Field::Code(code) => format!("<{code}>"),
                Field::Date(Writing::WithMonth) => "month".to_owned(),
                Field::Date(Writing::Digits) => "date".to_owned(),
            });
            assert_eq!(told.collect::<Vec<_>>().join(" "), expected, "{name}");
        };
        check("actor_0.pickle", "actor 0");
        check("pp0_tp1_dp12.pickle.gz", "pp 0 tp 1 dp 12");
        check("mem-PP0TP1.pkl", "mem pp 0 tp 1");
        check("node2/gpu3.pickle", "node 2 gpu 3");
        check("gpu-node-3_Nov_28_12_00_01.pickle", "gpu node 3 month");
        check(
            "ip-172-31-20-200_Dec_1_09_00_01.pickle",
            "ip 172 31 20 200 month",
        );
        check("w_0_20261129_100612.pickle", "w 0 date");
        check("w_20261129T100612_3.pickle", "w date 3");
        check("w_2026-11-29_10-06-12_3.pickle", "w date 3");
        check("20261129_12.pickle", "date 12");
        check("snap_1732100000.pickle", "snap date");
        check("may_2.pickle", "may 2");
        check("trainer-7f9c6d-abcde.pickle", "trainer <7f9c6d> <abcde>");
        check("job-0-x7k2p.pickle", "job 0 <x7k2p>");
        check("job-bcdfg.pickle", "job <bcdfg>");
        check("step10.pickle", "step 10");
        check("", "");
    }
}
