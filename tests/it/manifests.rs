//! What a manifest leaves out does not exist: `test = false` of a library or program without tests,
//! `doctest = false` of every library. Nextest runs no examples of comments, and to look for them
//! takes `./check` a quarter of a minute, so there are none: a test shows what an example would.

use std::fs;

use tests::workspace_root;

use crate::tidy::sources;

/// A library or program of a package, as its manifest names it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Target {
    name: String,
    /// The file that it begins with, from the package's folder.
    path: String,
    is_lib: bool,
    leaves_out_tests: bool,
    leaves_out_examples: bool,
}

/// The library, which needs no section, and the programs that have one.
fn targets(manifest: &str) -> Vec<Target> {
    let library = Target {
        path: "src/lib.rs".to_owned(),
        is_lib: true,
        ..Target::default()
    };
    let mut targets = match manifest.contains("autolib = false") {
        true => Vec::new(),
        false => vec![library],
    };
    let mut at = None;
    for line in manifest.lines() {
        let text = |key: &str| {
            let value = line.strip_prefix(key)?.strip_prefix(" = \"")?;
            value.strip_suffix('"').map(str::to_owned)
        };
        match line {
            "[lib]" => at = targets.iter().position(|target| target.is_lib),
            "[[bin]]" => {
                targets.push(Target::default());
                at = Some(targets.len() - 1);
            }
            line if line.starts_with('[') => at = None,
            _ => {}
        }
        let Some(target) = at.map(|at| &mut targets[at]) else {
            continue;
        };
        target.name = text("name").unwrap_or_else(|| std::mem::take(&mut target.name));
        target.path = text("path").unwrap_or_else(|| std::mem::take(&mut target.path));
        target.leaves_out_tests |= line == "test = false";
        target.leaves_out_examples |= line == "doctest = false";
    }
    targets
}

impl Target {
    /// Whether a file, from the package's folder, may be part of it.
    fn has(&self, file: &str) -> bool {
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let all = self.is_lib || folder.ends_with(&format!("/{}", self.name));
        let program = self.is_lib && (file.starts_with("src/bin/") || file == "src/main.rs");
        match all {
            true => file.starts_with(folder) && !program,
            false => file == self.path,
        }
    }
}

fn has_tests(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| line.starts_with("#[test]") || line.starts_with("proptest! {"))
}

/// Whether documentation has an example that rustdoc runs.
fn has_examples(text: &str) -> bool {
    let mut inside = false;
    for line in text.lines().map(str::trim_start) {
        let said = line.strip_prefix("//!").or(line.strip_prefix("///"));
        let fence = said.and_then(|said| said.trim_start().strip_prefix("```"));
        let Some(language) = fence else {
            inside &= said.is_some();
            continue;
        };
        let runs = ["", "rust", "no_run", "should_panic", "compile_fail"];
        if !inside && runs.contains(&language.split([',', ' ']).next().unwrap_or("")) {
            return true;
        }
        inside = !inside;
    }
    false
}

#[test]
fn nothing_that_exists_is_left_out() {
    let read = |path: &str| fs::read_to_string(workspace_root().join(path)).expect("it is there");
    let workspace = read("Cargo.toml");
    let members = workspace.lines().find(|line| line.starts_with("members"));
    let members = members.expect("members").split('"').skip(1).step_by(2);
    let sources = sources();
    let mut wrong = Vec::new();
    for member in members {
        let folder = format!("{member}/");
        for target in targets(&read(&format!("{folder}Cargo.toml"))) {
            let files = || {
                let files = sources.iter();
                let files = files.filter_map(|s| Some((s.path.strip_prefix(&folder)?, &s.text)));
                files.filter(|(file, _)| target.has(file))
            };
            assert!(files().next().is_some(), "{member}: {target:?}");
            let tests = files().any(|(_, text)| has_tests(text));
            let examples = files().any(|(_, text)| has_examples(text));
            if target.leaves_out_tests && tests {
                wrong.push(format!("{member}: {} has tests", target.path));
            }
            if target.is_lib && !target.leaves_out_examples {
                wrong.push(format!("{member}: it lacks doctest = false"));
            }
            if examples {
                wrong.push(format!(
                    "{member}: nobody runs its examples; make them tests"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn manifests_are_understood() {
    let check = |manifest: &str, expected: &[(&str, bool, bool)]| {
        let found = targets(manifest);
        let found: Vec<(&str, bool, bool)> = found
            .iter()
            .map(|t| (&t.path[..], t.leaves_out_tests, t.leaves_out_examples))
            .collect();
        assert_eq!(found, expected, "{manifest}");
    };
    check("[package]", &[("src/lib.rs", false, false)]);
    check("[package]\nautolib = false", &[]);
    check(
        "[lib]\npath = \"lib.rs\"\ndoctest = false\n[lints]\ntest = false",
        &[("lib.rs", false, true)],
    );
    check(
        "[[bin]]\nname = \"a\"\npath = \"src/a.rs\"\ntest = false",
        &[("src/lib.rs", false, false), ("src/a.rs", true, false)],
    );
}

#[test]
fn examples_and_tests_are_seen() {
    let check = |text: &str, expected: (bool, bool)| {
        assert_eq!((has_tests(text), has_examples(text)), expected, "{text}");
    };
    check("    #[test]\nfn a() {}", (true, false));
    check("// says `#[test]`", (false, false));
    check("/// ```\n/// a();\n/// ```", (false, true));
    check(
        "    //! ```no_run\n    //! a();\n    //! ```",
        (false, true),
    );
    check("/// ```text\n/// a\n/// ```\nfn a() {}", (false, false));
    check(
        "/// ```json\n/// a\n/// ```\n/// ```\n/// a();\n/// ```",
        (false, true),
    );
}
