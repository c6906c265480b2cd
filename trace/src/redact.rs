//! A trace without what names people, machines and projects: for links that strangers open.
//!
//! Only texts change. Every index keeps its meaning, so that a selection, a band and a leak are
//! the same thing in both; and whatever is derived from a redacted trace (pictures, details,
//! leaks) cannot tell more than the trace does.
//!
//! | text | becomes |
//! |---|---|
//! | file of a frame | what follows `site-packages/` or `lib/pythonX.Y/`, else the file's name |
//! | function of a frame | itself, absolute paths in it cut in the same way |
//! | named scope | `scope 1`, `scope 2` … in the order of their first appearance |
//! | step | `step 0`, `step 1` … |
//! | metadata, compile context | nothing |
//! | allocator setting | its name, without the value |
//! | finding about the data | itself, absolute paths in it cut |

use crate::stacks::{FxHashMap, StrIdx, Strings};
use crate::trace::{DeviceTrace, Trace};
use std::collections::BTreeSet;

/// What stands for the part of a path that was cut.
const CUT: &str = "…/";

/// What stands for the value of a setting.
pub const WITHHELD: &str = "(redacted)";

/// Replaces every text that may name someone or something.
pub fn trace(trace: &mut Trace) {
    let roles = Roles::of(trace);
    let mut strings = Strings::default();
    for (at, role) in roles.0.iter().enumerate() {
        let text = trace.stacks.str(StrIdx(at as u32));
        match role {
            Role::None => strings.push(""),
            Role::Function => strings.push(&words(text)),
            Role::File => strings.push(&path(text)),
        };
    }
    let mut scopes = Scopes::default();
    for device in &mut trace.devices {
        device_texts(device, &mut scopes, &mut strings);
    }
    trace.stacks.strings = strings;
    for (_, value) in &mut trace.format.settings {
        *value = WITHHELD.to_owned();
    }
    for note in &mut trace.quality {
        note.detail = words(&note.detail);
    }
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The file of a frame.
    File,
    /// The function of a frame.
    Function,
    /// A named scope.
    Scope,
    /// The name of a step.
    Step,
    /// Metadata or compile context.
    Metadata,
    /// An allocator setting.
    Setting,
}

/// A text that redaction changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// What it is.
    pub what: What,
    /// As it is.
    pub before: String,
    /// As it will be; empty: not there at all.
    pub after: String,
}

/// Every distinct text that [`trace`] changes, in order.
pub fn changes(trace: &Trace) -> BTreeSet<Change> {
    let text = |string| trace.stacks.str(string);
    let change = |what, before: &str, after: String| {
        let before = before.to_owned();
        (before != after).then_some(Change {
            what,
            before,
            after,
        })
    };
    let mut found = BTreeSet::new();
    for frame in trace.stacks.all_frames() {
        let (file, name) = (text(frame.filename), text(frame.name));
        found.extend(change(What::File, file, path(file)));
        found.extend(change(What::Function, name, words(name)));
    }
    let mut scopes = Scopes::default();
    for device in &trace.devices {
        for scope in &device.annotations {
            let number = scopes.number(scope.name);
            found.extend(change(What::Scope, text(scope.name), scope_name(number)));
        }
        for step in &device.steps {
            found.extend(change(What::Step, &step.name, step_name(step.index)));
        }
        let kinds = device.blocks.kinds.iter();
        let of_blocks = kinds.flat_map(|kind| [kind.compile_context, kind.metadata]);
        let of_events = device.events.others.iter().map(|other| other.metadata);
        for metadata in of_blocks.chain(of_events).flatten() {
            found.extend(change(What::Metadata, text(metadata), String::new()));
        }
    }
    for (name, value) in &trace.format.settings {
        let (before, after) = (format!("{name}: {value}"), format!("{name}: {WITHHELD}"));
        found.extend(change(What::Setting, &before, after));
    }
    found
}

/// What a string of the table is used for. One that is a file and a function is cut as a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    None,
    Function,
    File,
}

struct Roles(Vec<Role>);

impl Roles {
    fn of(trace: &Trace) -> Roles {
        let mut roles = Roles(vec![Role::None; trace.stacks.strings.len()]);
        for frame in trace.stacks.all_frames() {
            roles.add(frame.name, Role::Function);
            roles.add(frame.filename, Role::File);
        }
        roles
    }

    fn add(&mut self, string: StrIdx, role: Role) {
        let known = &mut self.0[string.index()];
        *known = role.max(*known);
    }
}

/// Numbers of scopes from 1, by the string that named them before.
#[derive(Default)]
struct Scopes(FxHashMap<StrIdx, usize>);

impl Scopes {
    fn number(&mut self, name: StrIdx) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(name).or_insert(next)
    }
}

/// What a scope is called.
fn scope_name(number: usize) -> String {
    format!("scope {number}")
}

fn device_texts(device: &mut DeviceTrace, scopes: &mut Scopes, strings: &mut Strings) {
    let mut renamed: FxHashMap<usize, StrIdx> = FxHashMap::default();
    for scope in &mut device.annotations {
        let number = scopes.number(scope.name);
        let name = renamed.entry(number);
        scope.name = *name.or_insert_with(|| strings.push(&scope_name(number)));
    }
    for step in &mut device.steps {
        step.name = step_name(step.index);
    }
    for kind in &mut device.blocks.kinds {
        (kind.compile_context, kind.metadata) = (None, None);
    }
    for other in &mut device.events.others {
        other.metadata = None;
    }
}

/// What a step is called.
pub fn step_name(index: u32) -> String {
    format!("step {index}")
}

/// A file without the folders that say whose machine it is on.
pub fn path(file: &str) -> String {
    if !is_absolute(file) {
        return file.to_owned();
    }
    for marker in ["site-packages/", "dist-packages/"] {
        if let Some(at) = file.rfind(marker) {
            return format!("{CUT}{}", &file[at..]);
        }
    }
    match standard_library(file) {
        Some(rest) => format!("{CUT}{rest}"),
        None => format!("{CUT}{}", base_name(file)),
    }
}

/// A text with every absolute path in it cut.
pub fn words(text: &str) -> String {
    let is_edge = |c: char| c.is_whitespace() || "'\"`()[]{}<>,;=".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_edge).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        out.push_str(&path(word));
        let edge = after.chars().next().map_or(0, char::len_utf8);
        out.push_str(&after[..edge]);
        rest = &after[edge..];
    }
    out
}

/// Unix, home, parent and Windows paths; what is relative to nothing tells nothing.
fn is_absolute(text: &str) -> bool {
    let letter_and_colon = |text: &str| {
        let mut chars = text.chars();
        let drive = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
        drive && chars.next() == Some(':') && matches!(chars.next(), Some('\\' | '/'))
    };
    text.starts_with('/') && text.len() > 1
        || text.starts_with('~') && text.contains('/')
        || text.starts_with("../")
        || text.starts_with("..\\")
        || text.starts_with("\\\\")
        || text.starts_with("file:")
        || letter_and_colon(text)
}

fn base_name(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// What follows `lib/` of a Python installation: `python3.12/json/decoder.py`.
fn standard_library(file: &str) -> Option<&str> {
    let (_, rest) = file.rsplit_once("/lib/")?;
    let version = rest.strip_prefix("python")?;
    version
        .starts_with(|c: char| c.is_ascii_digit())
        .then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Span;
    use crate::trace::{Annotation, QualityNote, Step};
    use crate::units::EventIdx;

    #[test]
    fn paths_lose_what_is_before_the_package_or_the_file() {
        let check = |file: &str, expected: &str| assert_eq!(path(file), expected);
        check("/home/alice/secret/train.py", "…/train.py");
        check(
            "/home/alice/.venv/lib/python3.12/site-packages/torch/nn/x.py",
            "…/site-packages/torch/nn/x.py",
        );
        check("/usr/lib/python3.12/runpy.py", "…/python3.12/runpy.py");
        check(r"C:\Users\bob\train.py", "…/train.py");
        check("~/train.py", "…/train.py");
        check("../alice/train.py", "…/train.py");
        check("<frozen runpy>", "<frozen runpy>");
        check("??", "??");
        check("", "");
        check("src/model.py", "src/model.py");
    }

    #[test]
    fn absolute_paths_inside_a_text_are_cut() {
        assert_eq!(
            words("graph break in '/home/alice/a b.py' (line 3), see /srv/x/y.py: 7 / 9"),
            "graph break in '…/a b.py' (line 3), see …/y.py: 7 / 9"
        );
        assert_eq!(words("forward"), "forward");
    }

    fn secret() -> Trace {
        let mut trace = crate::testing::trace(
            "a alloc 2MiB at forward /home/alice/apollo/train.py:12
             b alloc 2MiB at /home/alice/x.so /home/alice/apollo/train.py:13
             a free",
        );
        let mut name = |text: &str| trace.stacks.strings.push(text);
        let (metadata, scope) = (name("alice: apollo"), name("apollo forward"));
        let device = &mut trace.devices[0];
        device.blocks.kinds[0].metadata = Some(metadata);
        device.blocks.kinds[1].compile_context = Some(metadata);
        let events = Span::new(EventIdx(0), EventIdx(2));
        device.annotations.push(Annotation {
            name: scope,
            events,
            depth: 0,
        });
        device.steps.push(Step {
            index: 3,
            name: "apollo 3".to_owned(),
            events,
        });
        let setting = ("conf".to_owned(), "s3://apollo".to_owned());
        trace.format.settings.push(setting);
        let detail = "no stacks in /home/alice/apollo/run.py".to_owned();
        let code = "no_stacks".to_owned();
        trace.quality.push(QualityNote { code, detail });
        trace
    }

    #[test]
    fn nothing_of_a_person_is_left_and_every_index_keeps_its_meaning() {
        let mut secret = secret();
        let before = secret.clone();
        let told: BTreeSet<What> = changes(&secret).iter().map(|c| c.what).collect();
        let all = [
            What::File,
            What::Function,
            What::Scope,
            What::Step,
            What::Metadata,
            What::Setting,
        ];
        assert_eq!(told, BTreeSet::from(all));
        trace(&mut secret);
        let text = format!("{secret:?}").to_lowercase();
        for word in ["alice", "/home", "s3://", "apollo"] {
            assert!(!text.contains(word), "{word} is left");
        }
        assert!(text.contains("forward") && text.contains("train.py"));
        assert_eq!(secret.devices[0].blocks.addr, before.devices[0].blocks.addr);
        assert_eq!(secret.stacks.len(), before.stacks.len());
    }
}
