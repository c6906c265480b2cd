//! Sizes have a type: in crates whose fields other crates or clients read, a field with a name like
//! a number of bytes is `trace::units::Bytes`, not a bare integer. The test looks only at names in
//! the text.

use crate::tidy::{product_code, sources};

/// The crates where this rule holds.
const HELD: [&str; 2] = ["engine/src/", "api/src/"];

/// Words in the names of sizes.
const SIZES: [&str; 12] = [
    "bytes",
    "peak",
    "allocated",
    "reserved",
    "requested",
    "capacity",
    "memory",
    "host_pinned",
    "wanted",
    "rounded",
    "traffic",
    "address",
];

/// Exceptions, which are bare numbers: the file, the name, and why.
const BARE: &[(&str, &str, &str)] = &[
    (
        "engine/src/device/cuda/contents.rs",
        "bytes",
        "laid out as a kernel declares it",
    ),
    ("api/src/alive.rs", "bytes", "a curve, for a chart"),
    (
        "api/src/compare.rs",
        "heap_bytes",
        "memory of this process, as in `trace`",
    ),
];

/// The names in a line that are declared with a bare integer as their type: fields, parameters, and
/// functions that return one.
fn bare_names(line: &str) -> Vec<&str> {
    let is_bare = |of: &str| {
        let of = of.trim_start_matches(['&', '(', '[']);
        let inner = ["Option<", "Vec<"];
        let of = inner.iter().find_map(|w| of.strip_prefix(w)).unwrap_or(of);
        let word = of.split(|c: char| !c.is_alphanumeric()).next();
        matches!(word, Some("u64" | "i64" | "usize"))
    };
    let name_before = |text| {
        let name = |c: char| c.is_alphanumeric() || c == '_';
        let words: &str = text;
        words.rsplit(|c| !name(c)).next().unwrap_or_default()
    };
    let typed = line.match_indices(": ");
    let typed = typed.filter(|(at, _)| is_bare(&line[at + 2..]));
    let mut names: Vec<&str> = typed.map(|(at, _)| name_before(&line[..at])).collect();
    let function = line.split_once("fn ").zip(line.split_once("-> "));
    if let Some(((_, declared), (_, returned))) = function
        && is_bare(returned)
    {
        names.extend(declared.split(['(', '<']).next());
    }
    names
}

fn is_a_size(name: &str) -> bool {
    SIZES.iter().any(|size| name.contains(size))
}

#[test]
fn sizes_have_their_type() {
    let mut offences = Vec::new();
    let mut excused = Vec::new();
    for source in sources() {
        if !HELD.iter().any(|held| source.path.starts_with(held)) {
            continue;
        }
        for (number, line) in product_code(&source) {
            for name in bare_names(line).into_iter().filter(|name| is_a_size(name)) {
                let excuse = |bare: &&(&str, &str, &str)| (bare.0, bare.1) == (&source.path, name);
                match BARE.iter().find(excuse) {
                    Some(bare) => excused.push(bare),
                    None => offences.push(format!("{}:{number}: `{name}`", source.path)),
                }
            }
        }
    }
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
    for bare in BARE {
        assert!(
            excused.contains(&bare),
            "{} is an exception to nothing",
            bare.0
        );
    }
}

#[test]
fn bare_sizes_are_found_in_fields_parameters_and_results() {
    let check = |line: &str, expected: &[&str]| assert_eq!(bare_names(line), expected, "{line}");
    check("pub peak_allocated: u64,", &["peak_allocated"]);
    check("pub capacity: Option<u64>,", &["capacity"]);
    check(
        "fn take(&mut self, bytes: u64, at: u32) -> bool {",
        &["bytes"],
    );
    check("pub fn reserved(&self) -> u64 {", &["reserved"]);
    check("pub peak_allocated: Bytes,", &[]);
    check("pub bytes_per_second: f64,", &[]);
    assert!(is_a_size("d2h_bytes") && !is_a_size("tracker"));
}
