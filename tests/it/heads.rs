//! The head of each crate names all of its modules: ARCHITECTURE.md sends readers there.

use std::fs;
use tests::workspace_root;

/// The heads of these files are maps.
const MAPS: [&str; 9] = [
    "answers/src/lib.rs",
    "api/src/lib.rs",
    "engine/src/lib.rs",
    "presentation/src/lib.rs",
    "render/src/lib.rs",
    "server/src/lib.rs",
    "timeline/src/lib.rs",
    "trace/src/lib.rs",
    "web/src/lib.rs",
];

/// The modules that a file has and its head does not name, and names in brackets that it has not.
fn offences(text: &str) -> Vec<String> {
    let head: String = text
        .lines()
        .filter(|line| line.starts_with("//!"))
        .collect();
    let words: Vec<&str> = head.split(|c: char| !is_word(c)).collect();
    let mut modules = Vec::new();
    for line in text.lines() {
        let line = line
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub ");
        let name = line
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'));
        modules.extend(name.filter(|name| *name != "tests"));
    }
    let unnamed = modules.iter().filter(|name| !words.contains(name));
    let unnamed = unnamed.map(|name| format!("`{name}` is not in the head"));
    // Two names may be one link, `[`a`]`; a path, `[`a::b`]`, is of another file.
    let links = head
        .split("[`")
        .skip(1)
        .filter_map(|rest| rest.split("`]").next());
    let is_name = |link: &&str| link.chars().all(|c| is_word(c) && !c.is_ascii_uppercase());
    let gone = links.filter(is_name).filter(|link| !modules.contains(link));
    unnamed
        .chain(gone.map(|link| format!("`{link}` is no module")))
        .collect()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[test]
fn every_crate_names_its_modules() {
    for path in MAPS {
        let text = fs::read_to_string(workspace_root().join(path)).expect(path);
        assert_eq!(offences(&text), Vec::<String>::new(), "{path}");
    }
}

#[test]
fn modules_that_are_not_named_are_found() {
    let check = |text: &str, expected: &[&str]| assert_eq!(offences(text), expected, "{text}");
    check("//! Has `a`.\n\nmod a;\n", &[]);
    check("//! Has [`a`], [`x::B`].\npub mod a;\nmod tests;\n", &[]);
    check(
        "//! Has ab.\npub(crate) mod a;\n",
        &["`a` is not in the head"],
    );
    check("//! Has [`b`] and a.\nmod a;\n", &["`b` is no module"]);
}
