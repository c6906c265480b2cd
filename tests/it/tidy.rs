//! The rules of this repository that no lint checks. Each is a line of prose in ARCHITECTURE.md;
//! this test enforces them.
//!
//! It scans text. That is enough for code that is formatted by rustfmt and does not try to cheat.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tests::workspace_root;

const MAX_COLUMNS: usize = 100;
const MAX_FUNCTION_LINES: usize = 70;

/// A comment that starts like this, followed by a reason, lifts the limit on a function's length.
const LONG_BECAUSE: &str = "// long because";

/// Names that do not say what is inside.
const VAGUE_NAMES: [&str; 4] = ["util", "helper", "common", "misc"];

/// The only place that may call CUDA and use `unsafe`, and the only place that may contain SQL.
const CUDA: &str = "engine/src/device/cuda/";
const STORE: &str = "server/src/store/";

/// The tests of the whole binary read the database from outside, as anyone can with `sqlite3`.
const FROM_OUTSIDE: [&str; 2] = ["server/tests/", "tests/s3/"];

/// This file, which must contain examples of what it looks for.
const SELF: &str = "tests/it/tidy.rs";

/// Counts the allocator's calls, which safe code cannot do.
const COUNTING_ALLOCATOR: &str = "trace/tests/memory.rs";

/// What crates of plain rules do without: input and output, clocks, threads, and a browser.
const PURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::env",
    "std::time::Instant",
    "std::time::SystemTime",
    "leptos",
    "web_sys",
    "js_sys",
    "tokio",
];

/// Who may not import what: path prefix, exceptions, and forbidden modules or crates.
const IMPORTS: &[(&str, &[&str], &[&str])] = &[
    // The state is the first project. Whoever answers about data takes the project of the request.
    (
        "server/src/http/",
        &[
            "server/src/http/account/forms.rs",
            "server/src/http/account/oidc.rs",
            "server/src/http/account/pages.rs",
            "server/src/http/account/people.rs",
            "server/src/http/audited.rs",
            "server/src/http/cards/mod.rs",
            "server/src/http/layers/cors.rs",
            "server/src/http/layers/guard.rs",
            "server/src/http/health.rs",
            "server/src/http/here.rs",
            "server/src/http/layers/measure.rs",
            "server/src/http/metrics.rs",
            "server/src/http/people.rs",
            "server/src/http/layers/problem_page.rs",
            "server/src/http/projects/mod.rs",
            "server/src/http/projects/page.rs",
            "server/src/http/session.rs",
            "server/src/http/shares.rs",
            "server/src/http/tests/",
            "server/src/http/usage.rs",
            "server/src/http/views/badge.rs",
        ],
        &["axum::extract::State"],
    ),
    ("trace/src/", &[], PURE),
    ("trace/src/", &[], &["serde_json::Value"]),
    // In a browser, its own reader of decimal numbers spares the tables of ours.
    ("api/src/", &["api/src/decimal.rs"], PURE),
    ("api/src/", &[], &["serde_json::Value", "axum"]),
    ("answers/src/", &["answers/src/explain/tests.rs"], PURE),
    (
        "local/src/",
        &["local/src/worker.rs"],
        &[
            "std::fs",
            "std::net",
            "std::thread",
            "std::time::Instant",
            "std::time::SystemTime",
            "tokio",
            "web_sys",
            "wasm_bindgen",
        ],
    ),
    ("server/src/store/", &[], &["axum"]),
    ("server/src/bench/", &[], &["axum"]),
    ("server/src/ingest/", &[], &["axum"]),
    ("timeline/src/", &[], PURE),
    ("presentation/src/", &["presentation/src/letters.rs"], PURE),
    (
        "",
        &[STORE, FROM_OUTSIDE[0], FROM_OUTSIDE[1]],
        &["rusqlite", "rusqlite_migration"],
    ),
    ("", &[CUDA], &["cudarc"]),
];

/// Code that must not print: the caller decides what people see.
const SILENT: [&str; 11] = [
    "trace/src/",
    "api/src/",
    "timeline/src/",
    "answers/src/",
    "local/src/",
    "engine/src/",
    "presentation/src/",
    "web/src/",
    "server/src/http/",
    "server/src/store/",
    "server/src/ingest/",
];

/// The ways in which an SQL statement begins, right after the quote.
const SQL: [&str; 8] = [
    "SELECT ",
    "INSERT INTO ",
    "INSERT OR ",
    "UPDATE ",
    "DELETE FROM ",
    "CREATE TABLE ",
    "ALTER TABLE ",
    "PRAGMA ",
];

/// One Rust file.
pub(crate) struct Source {
    /// Its path from the workspace root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

#[test]
fn repository_is_tidy() {
    let offences: Vec<String> = sources().iter().flat_map(offences).collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// Two schemas with the same name would become one in the API's document, and the last one would
/// replace the other.
#[test]
fn every_schema_has_a_name_of_its_own() {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut twice = Vec::new();
    for source in sources() {
        for name in schemas(&source.text) {
            if let Some(other) = known.insert(name.clone(), source.path.clone()) {
                twice.push(format!("{name} in {other} and {}", source.path));
            }
        }
    }
    assert!(known.len() > 100, "{} schemas", known.len());
    assert!(twice.is_empty(), "{}", twice.join("\n"));
}

/// The names of a file's schemas: the name of the type, unless the code gives another one.
fn schemas(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut given = None;
    let mut is_schema = false;
    for line in text.lines().map(str::trim) {
        is_schema |= line.starts_with("#[") && line.contains("ToSchema");
        if let Some((_, rest)) = line.split_once("schema(as = ") {
            given = rest.split(')').next().map(str::to_owned);
        }
        let item = line
            .strip_prefix("pub struct ")
            .or(line.strip_prefix("pub enum "));
        if let Some(item) = item {
            let own = item.split(|c: char| !is_word(c)).next();
            let name = given.take().or(own.map(str::to_owned));
            names.extend(name.filter(|_| is_schema));
            is_schema = false;
        }
    }
    names
}

#[test]
fn schemas_are_found_with_their_names() {
    let text = "#[derive(ToSchema)]\npub struct A;\n\npub struct B;\n\
                #[cfg_attr(x, derive(utoipa::ToSchema), schema(as = D))]\n\
                #[serde(x)]\npub enum C {";
    assert_eq!(schemas(text), ["A", "D"]);
}

#[test]
fn every_rule_is_about_something() {
    let imports = IMPORTS.iter().flat_map(|(prefix, exceptions, _)| {
        let exceptions = exceptions.iter().copied();
        exceptions.chain([*prefix])
    });
    let files = [COUNTING_ALLOCATOR, SELF];
    for path in imports.chain(SILENT).chain(files) {
        assert!(workspace_root().join(path).exists(), "there is no {path}");
    }
}

#[test]
fn migrations_are_numbered_without_gaps_and_all_applied() {
    let dir = workspace_root().join("migrations");
    let mut names: Vec<String> = files_under(&dir)
        .iter()
        .filter(|path| path.extension().is_some_and(|ext| ext == "sql"))
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let store: String = sources()
        .into_iter()
        .filter(|source| source.path.starts_with(STORE))
        .map(|source| source.text)
        .collect();
    for (index, name) in names.iter().enumerate() {
        let number = format!("{:04}_", index + 1);
        assert!(name.starts_with(&number), "{name}: expected {number}…");
        assert!(
            store.contains(name.as_str()),
            "{STORE} never applies {name}"
        );
    }
}

pub(crate) fn sources() -> Vec<Source> {
    let root = workspace_root();
    let mut sources: Vec<Source> = files_under(root)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
        .map(|path| Source {
            text: fs::read_to_string(&path).unwrap(),
            path: path.strip_prefix(root).unwrap().to_string_lossy().into(),
        })
        .collect();
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(sources.len() > 10, "the walk found too little: {root:?}");
    sources
}

/// Every file under `dir`, without those that git ignores.
pub(crate) fn files_under(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if name.starts_with('.') || name.starts_with("target") || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            files.extend(files_under(&path));
        } else {
            files.push(path);
        }
    }
    files
}

fn offences(source: &Source) -> Vec<String> {
    let rules = [
        names_and_documentation(source),
        long_lines(source),
        long_functions(source),
        forbidden_imports(source),
        misplaced_code(source),
    ];
    let lines = rules.into_iter().flatten();
    lines
        .map(|(line, text)| format!("{}:{line}: {text}", source.path))
        .collect()
}

/// A line's number and what is wrong with it.
type Offence = (usize, String);

fn names_and_documentation(source: &Source) -> Vec<Offence> {
    let mut found = Vec::new();
    if !source.text.starts_with("//!") {
        found.push((1, "say in a `//!` what this module is for".to_owned()));
    }
    for part in source.path.split('/') {
        if VAGUE_NAMES.iter().any(|vague| part.starts_with(vague)) {
            found.push((1, format!("`{part}` names no concept")));
        }
    }
    found
}

fn long_lines(source: &Source) -> Vec<Offence> {
    let lines = source.text.lines().enumerate();
    lines
        .map(|(index, line)| (index + 1, line.chars().count()))
        .filter(|(_, columns)| *columns > MAX_COLUMNS)
        .map(|(line, columns)| (line, format!("{columns} columns")))
        .collect()
}

/// Rustfmt puts the closing brace of a function at the same indent as its first line.
fn long_functions(source: &Source) -> Vec<Offence> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let body = &lines[start..];
        let end = body.iter().position(|line| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest == "}" || rest.ends_with(';') && !rest.starts_with(' '))
        });
        let count = end.unwrap_or(0) + 1;
        let before = start.saturating_sub(3);
        let excused = lines[before..start + count]
            .iter()
            .any(|line| line.contains(LONG_BECAUSE));
        if count > MAX_FUNCTION_LINES && !excused {
            found.push((start + 1, format!("`{name}` has {count} lines")));
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let modifiers = ["pub", "const", "async", "unsafe", "extern", "\"C\""];
    let only_modifiers = before.split_whitespace().all(|word| {
        let word = word.split('(').next().unwrap_or_default();
        modifiers.contains(&word) || matches!(word, "crate)" | "super)")
    });
    let name = after.split(['(', '<']).next()?;
    (only_modifiers && !name.is_empty()).then_some(name)
}

/// The lines that are compiled into the product: no comments, no items that only tests use, and no
/// tests at the end of the file.
pub(crate) fn product_code(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = source.text.lines().map(str::trim_start).collect();
    let for_tests = |index: usize| index > 0 && lines[index - 1] == "#[cfg(test)]";
    let tests = |index: usize| for_tests(index) && lines[index].ends_with("mod tests {");
    let end = (0..lines.len()).find(|&index| tests(index));
    let kept = (0..end.unwrap_or(lines.len())).filter(|&index| !for_tests(index));
    let kept: Vec<(usize, &str)> = kept.map(|index| (index + 1, lines[index])).collect();
    kept.into_iter().filter(|(_, line)| !line.starts_with("//"))
}

fn forbidden_imports(source: &Source) -> Vec<Offence> {
    let mut found = Vec::new();
    for (prefix, exceptions, forbidden) in IMPORTS {
        let excepted = exceptions.iter().any(|e| source.path.starts_with(e));
        if excepted || !source.path.starts_with(prefix) || source.path == SELF {
            continue;
        }
        for (line, path) in paths_used(source) {
            if let Some(name) = forbidden.iter().find(|name| is_within(&path, name)) {
                found.push((line, format!("`{name}` does not belong here")));
            }
        }
    }
    found
}

fn is_within(path: &str, module: &str) -> bool {
    let rest = path.strip_prefix(module);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path that `use` imports, with braces resolved, and every path written out in code.
pub(crate) fn paths_used(source: &Source) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    let mut statement: Option<(usize, String)> = None;
    for (number, line) in product_code(source) {
        let starts = ["use ", "pub use ", "pub(crate) use "];
        let tree = starts.iter().find_map(|start| line.strip_prefix(start));
        if let Some((_, text)) = &mut statement {
            text.push_str(line);
        } else if let Some(tree) = tree {
            statement = Some((number, tree.to_owned()));
        } else {
            let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let words = line
                .split(|c| !is_path(c))
                .filter(|word| word.contains("::"));
            paths.extend(words.map(|word| (number, word.to_owned())));
        }
        if let Some((number, text)) = statement.take_if(|(_, text)| text.ends_with(';')) {
            let tree = text.trim_end_matches(';');
            paths.extend(resolve(tree).into_iter().map(|path| (number, path)));
        }
    }
    paths
}

/// `a::{b, c::{d}}` as `a::b` and `a::c::d`.
fn resolve(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return vec![path.trim_end_matches("::self").to_owned()];
    };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let mut depth = 0;
    let parts = inner.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts
        .flat_map(|part| resolve(&format!("{}{part}", prefix.trim())))
        .collect()
}

fn misplaced_code(source: &Source) -> Vec<Offence> {
    let path = source.path.as_str();
    let mut found = Vec::new();
    if path == SELF {
        return found;
    }
    let silent = SILENT.iter().any(|dir| path.starts_with(dir)) && !path.ends_with("main.rs");
    for (number, line) in product_code(source) {
        let mut offence = |text: &str| found.push((number, text.to_owned()));
        let has_word = |word: &str| line.split(|c: char| !is_word(c)).any(|part| part == word);
        let may_be_unsafe = path.starts_with(CUDA) || path == COUNTING_ALLOCATOR;
        if !may_be_unsafe && (has_word("unsafe") || line.contains("allow(unsafe_code)")) {
            offence("`unsafe` belongs to the CUDA device alone");
        }
        let speaks_sql = SQL.iter().any(|start| line.contains(&format!("\"{start}")));
        let from_outside = FROM_OUTSIDE.iter().any(|folder| path.starts_with(folder));
        let may_speak = path.starts_with(STORE) || from_outside;
        if !may_speak && speaks_sql {
            offence("SQL belongs to the store alone");
        }
        if silent && (line.contains("println!(") || line.contains("print!(")) {
            offence("a library prints nothing");
        }
    }
    found
}

/// The hyphen counts as part of a word: `'wasm-unsafe-eval'` in a content security policy is not
/// unsafe code.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

// Checks that these rules can fail.

fn check(path: &str, text: &str, expected: &[&str]) {
    let source = Source {
        path: path.to_owned(),
        text: format!("//! Doc.\n{text}"),
    };
    let found = offences(&source);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn vague_names_long_lines_and_missing_documentation_are_found() {
    check("api/src/utils.rs", "", &["names no concept"]);
    check(
        "api/src/ids.rs",
        &"x".repeat(101),
        &["ids.rs:2: 101 columns"],
    );
    let bare = Source {
        path: "api/src/ids.rs".to_owned(),
        text: "fn f() {}".to_owned(),
    };
    assert_eq!(offences(&bare).len(), 1);
}

#[test]
fn long_functions_are_found_unless_they_say_why() {
    let body = "    x();\n".repeat(69);
    let long = format!("pub(crate) async fn f<T>(t: T) {{\n{body}}}\n");
    check("api/src/ids.rs", &long, &["`f` has 71 lines"]);
    check("api/src/ids.rs", &long.replacen("    x();\n", "", 1), &[]);
    let excused = format!("{LONG_BECAUSE} it is a table.\n{long}");
    check("api/src/ids.rs", &excused, &[]);
    let declared = format!("trait T {{\n    fn f(&self);\n{body}}}\n");
    check("api/src/ids.rs", &declared, &[]);
}

#[test]
fn forbidden_imports_are_found_in_every_spelling() {
    let fs = ["`std::fs` does not belong here"];
    check("trace/src/replay.rs", "use std::fs;", &fs);
    check(
        "trace/src/replay.rs",
        "use std::{\n    fmt,\n    fs::{self, File},\n};",
        &[fs[0]; 2],
    );
    check("trace/src/replay.rs", "fn f() { std::fs::read(p) }", &fs);
    check("trace/src/replay.rs", "use std::time::Duration;", &[]);
    check("trace/src/replay.rs", "#[cfg(test)]\nuse std::fs;", &[]);
    check(
        "server/src/http/runs.rs",
        "use rusqlite::Connection;",
        &["rusqlite"],
    );
    check("server/src/store/runs.rs", "use rusqlite::Connection;", &[]);
    check(
        "engine/src/offload/mod.rs",
        "use cudarc::driver;",
        &["cudarc"],
    );
}

#[test]
fn unsafe_code_sql_and_printing_are_found_out_of_place() {
    check("engine/src/alloc.rs", "unsafe { f() }", &["unsafe"]);
    check("engine/src/device/cuda/enabled.rs", "unsafe { f() }", &[]);
    check("server/src/http/runs.rs", "q(\"SELECT 1\")", &["SQL"]);
    check("server/src/store/runs.rs", "q(\"SELECT 1\")", &[]);
    check("engine/src/recorder.rs", "println!(\"x\")", &["prints"]);
    check("server/src/main.rs", "println!(\"x\")", &[]);
}
