//! Every document, section, file and test that a comment or a document names exists.
//!
//! A section is cited by its heading: `docs/allocator.md, "Sizes"` in a comment,
//! `[allocator.md](allocator.md), *Sizes*` in a document. A test, or any function, is cited by its
//! file: `clients/pace.rs::its_name`. This test scans text, like `tidy`.

use super::tidy::files_under;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use tests::workspace_root;

/// Folders with files that are not ours.
const FOREIGN: [&str; 2] = ["tests/vendor/", "trace/fuzz/target/"];

/// This file, which must contain examples of what it looks for.
const SELF: &str = "tests/it/citations.rs";

/// Everything that can be cited.
struct Repository {
    /// Paths of files and folders from the workspace root, with slashes.
    paths: BTreeSet<String>,
    /// The last parts of each path, without the first parts; and the first path that ends so.
    tails: HashMap<String, String>,
    /// Documents and the headings in them.
    headings: BTreeSet<(String, String)>,
    /// Files of code and the functions in them.
    functions: BTreeSet<(String, String)>,
}

/// The text in a file that is for people: comments of code, or all of a document. Lines follow one
/// another without comment marks.
struct Prose<'a> {
    path: &'a str,
    text: String,
    /// Where each line begins in `text`.
    begins: Vec<usize>,
}

#[test]
fn what_is_cited_exists() {
    let root = workspace_root();
    let files = files_under(root);
    let texts = files.iter().filter_map(|path| {
        let name = path
            .strip_prefix(root)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let cites = name.ends_with(".rs") || name.ends_with(".md") || name.ends_with(".sh");
        let ours = !FOREIGN.iter().any(|folder| name.starts_with(folder)) && name != SELF;
        (cites && ours).then(|| (name, fs::read_to_string(path).unwrap()))
    });
    let texts: Vec<(String, String)> = texts.collect();
    let repository = Repository::of(root, &files, &texts);
    let offences = texts
        .iter()
        .flat_map(|(path, text)| repository.offences(path, text));
    let offences: Vec<String> = offences.collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

impl Repository {
    fn of(root: &Path, files: &[std::path::PathBuf], texts: &[(String, String)]) -> Repository {
        let mut paths = BTreeSet::new();
        for file in files {
            let relative = file.strip_prefix(root).unwrap();
            paths.extend(
                relative
                    .ancestors()
                    .map(|path| path.to_string_lossy().into_owned()),
            );
        }
        paths.remove("");
        let mut tails = HashMap::new();
        for path in &paths {
            for (slash, _) in path.match_indices('/') {
                let tail = tails.entry(path[slash + 1..].to_owned());
                tail.or_insert_with(|| path.clone());
            }
        }
        let headings = texts.iter().filter(|(path, _)| path.ends_with(".md"));
        let headings = headings.flat_map(|(path, text)| {
            let titles = text.lines().filter(|line| line.starts_with('#'));
            titles.map(|line| (path.clone(), line.trim_start_matches('#').trim().to_owned()))
        });
        let code = texts.iter().filter(|(path, _)| path.ends_with(".rs"));
        let functions = code.flat_map(|(path, text)| {
            let named = text.split("fn ").skip(1).map(identifier);
            named.map(|name| (path.clone(), name.to_owned()))
        });
        Repository {
            headings: headings.collect(),
            functions: functions.collect(),
            paths,
            tails,
        }
    }

    fn offences(&self, path: &str, text: &str) -> Vec<String> {
        let prose = Prose::of(path, text);
        let mut found = Vec::new();
        for (at, _) in prose.text.match_indices('§') {
            found.push((at, "cite a section by its heading".to_owned()));
        }
        for (at, token) in prose.tokens() {
            for name in alternatives(token) {
                match self.find(path, &name) {
                    None if self.must_exist(&name) => {
                        found.push((at, format!("there is no {name}")));
                    }
                    Some(document) if document.ends_with(".md") => {
                        let rest = &prose.text[at + token.len()..];
                        let title = section(rest);
                        let title = title.filter(|title| !self.has(&document, title));
                        found.extend(title.map(|t| (at, format!("{document} has no \"{t}\""))));
                    }
                    Some(code) if name.ends_with(".rs") => {
                        let rest = &prose.text[at + token.len()..];
                        let function = rest.strip_prefix("::").map(identifier);
                        let function = function.filter(|name| !self.holds(&code, name));
                        found.extend(function.map(|f| (at, format!("{code} has no fn {f}"))));
                    }
                    _ => {}
                }
            }
        }
        let told = found.into_iter();
        told.map(|(at, what)| format!("{path}:{}: {what}", prose.line(at)))
            .collect()
    }

    fn has(&self, document: &str, title: &str) -> bool {
        self.headings
            .contains(&(document.to_owned(), title.to_owned()))
    }

    fn holds(&self, code: &str, function: &str) -> bool {
        self.functions
            .contains(&(code.to_owned(), function.to_owned()))
    }

    /// Whether a word is meant to be the path of one of our files.
    fn must_exist(&self, name: &str) -> bool {
        let folder = name.split('/').next().unwrap_or_default();
        let deep = name.matches('/').count() > 1 || folder == "docs";
        let named = ["README", "NAME", "FILE"]
            .iter()
            .all(|word| !name.starts_with(word));
        let is_path = name.contains('/') && self.paths.contains(folder) && deep;
        named && (name.ends_with(".md") || name.ends_with(".rs") || is_path)
    }

    /// Finds the path that a name stands for: from the root, from the folder of the citing file,
    /// or, for code, by the last parts of the path.
    fn find(&self, from: &str, name: &str) -> Option<String> {
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = normal(&format!("{folder}/{name}"));
        let exact = [name.to_owned(), beside, format!("{name}.rs")];
        if let Some(path) = exact.into_iter().find(|path| self.paths.contains(path)) {
            return Some(path);
        }
        let tails = [name.to_owned(), format!("{name}.rs")];
        let found = tails.iter().filter_map(|tail| self.tails.get(tail)).min();
        found.filter(|_| !name.ends_with(".md")).cloned()
    }
}

impl<'a> Prose<'a> {
    fn of(path: &'a str, text: &str) -> Prose<'a> {
        let mut prose = Prose {
            path,
            text: String::new(),
            begins: Vec::new(),
        };
        for line in text.lines() {
            prose.begins.push(prose.text.len());
            prose.text.push_str(prose.said(line));
            prose.text.push(' ');
        }
        prose
    }

    fn said<'b>(&self, line: &'b str) -> &'b str {
        let line = line.trim();
        if !self.path.ends_with(".rs") {
            return line.trim_start_matches("# ");
        }
        match line
            .find("// ")
            .or_else(|| line.find("//! "))
            .or_else(|| line.find("/// "))
        {
            Some(at) => line[at..].trim_start_matches(['/', '!', ' ']),
            None => "",
        }
    }

    /// Words that may be paths, without web addresses.
    fn tokens(&self) -> impl Iterator<Item = (usize, &str)> {
        let in_path = |c: char| c.is_alphanumeric() || "_./{},-".contains(c);
        let words = self
            .text
            .split(|c: char| c.is_whitespace() || "()<>[]`\"|:;".contains(c));
        let base = self.text.as_ptr() as usize;
        let words = words.map(move |word| (word.as_ptr() as usize - base, word));
        words.filter_map(move |(at, word)| {
            let word = word.trim_end_matches(['.', ',', '/']);
            let before = &self.text[..at];
            let web = before.ends_with(':') && word.starts_with("//");
            (!web && !word.is_empty() && word.chars().all(in_path)).then_some((at, word))
        })
    }

    fn line(&self, at: usize) -> usize {
        self.begins.partition_point(|begin| *begin <= at)
    }
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn alternatives(token: &str) -> Vec<String> {
    let Some((before, rest)) = token.split_once('{') else {
        return vec![token.to_owned()];
    };
    let (inside, after) = rest.split_once('}').unwrap_or((rest, ""));
    let parts = inside.split(',');
    parts.map(|part| format!("{before}{part}{after}")).collect()
}

/// The name at the start of a text.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The heading that follows the name of a document in a citation.
fn section(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches([')', '`']).strip_prefix(", ")?;
    let (quote, rest) = rest.split_at_checked(1)?;
    let ends = matches!(quote, "\"" | "*");
    ends.then(|| rest.split_once(quote).map(|(title, _)| title))?
}

/// A path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

// Checks that this test can fail.

#[test]
fn missing_documents_sections_and_files_are_found() {
    let texts = [
        ("docs/rules.md", "# Rules\n\n## Sizes\n"),
        ("web/src/page.rs", "fn there() {}\nasync fn also<T>() {}"),
    ];
    let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let files = texts.each_ref().map(|(path, _)| Path::new("/r").join(path));
    let repository = Repository::of(Path::new("/r"), &files, &texts);
    let check = |path: &str, text: &str, expected: &[&str]| {
        assert_eq!(repository.offences(path, text), expected, "{text}");
    };
    let code = "web/src/page.rs";
    check(code, "//! docs/rules.md, \"Sizes\", and `page.rs`.", &[]);
    check(code, "let x = \"nothing.md\";", &[]);
    check(
        code,
        "//! §3",
        &["web/src/page.rs:1: cite a section by its heading"],
    );
    let gone = "web/src/page.rs:2: there is no docs/gone.md";
    check(code, "fn f() {}\n/// See docs/gone.md.", &[gone]);
    let title = "web/src/page.rs:1: docs/rules.md has no \"Colours\"";
    check(code, "/// (docs/rules.md,\n/// \"Colours\")", &[title]);
    let parts = "web/src/page.rs:1: there is no src/other.rs";
    check(code, "// `src/{page,other}.rs`", &[parts]);
    let folder = "web/src/page.rs:1: there is no web/src/gone";
    check(code, "// in `web/src/gone`", &[folder]);
    let document = "docs/rules.md";
    check(
        document,
        "`web/src/page.rs::there`, `src/page.rs::also`",
        &[],
    );
    let function = "docs/rules.md:1: web/src/page.rs has no fn ther";
    check(document, "`web/src/page.rs::ther`", &[function]);
    check(
        document,
        "[here](rules.md), *Sizes*; <https://x.org/a/gone.md>",
        &[],
    );
    let title = "docs/rules.md:1: docs/rules.md has no \"Colours\"";
    check(document, "[here](rules.md), *Colours*", &[title]);
    check(document, "[up](../web/src/page.rs)", &[]);
}
