//! Answers as Markdown, for a person or a language model.

use super::alive_tab::moment_of;
use super::words;
use ::timeline::format::{self, count};
use ::timeline::lanes::step_name;
use api::alive::{Alive, Changes, GroupShare, Part};
use api::frames::FrameText;
use api::leaks::{LeakGroup, Leaks, Pattern};
use api::what_if::{Limit, Replayed, WhatIf};
use trace::leaks::alive_when;
use trace::plain::code;
use trace::tiles::with_caller;
use trace::trace::Series;
use trace::units::Bytes;

/// Entries of a list.
const LISTED: usize = 20;

/// A table whose first column is text and whose others are numbers.
fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let rule = format!("|---{}|\n", "|--:".repeat(heads.len() - 1));
    let rows = rows.map(|cells| line(&cells)).collect::<String>();
    format!("{}{rule}{rows}", line(&heads))
}

/// A line that says how many entries a list leaves out.
fn left_out(n: u64, what: &str) -> String {
    match n {
        0 => String::new(),
        n => format!("\nand {} more\n", format::plural(n, what)),
    }
}

fn exact(bytes: Bytes) -> String {
    format::with_exact(bytes.get())
}

fn place(frame: &FrameText) -> String {
    format!("{}:{}", frame.filename, frame.line)
}

/// The verdict and what accumulates, for the run with this name.
pub fn leaks(run: &str, leaks: &Leaks) -> String {
    let mut text = format!(
        "## Leaks of {}\n\n**{}.** {}\n",
        code(run),
        words::headline(leaks),
        words::sentence(&leaks.reason)
    );
    for told in leaks.caveats.iter().chain(&leaks.reserved_growth) {
        text += &format!("* {}\n", words::sentence(told));
    }
    if leaks.groups.is_empty() {
        return text;
    }
    let row = |group: &LeakGroup| {
        let frame = group.alloc_frame.as_ref().or(group.frame.as_ref());
        let at = frame.map_or_else(String::new, |frame| format!(" {}", code(&place(frame))));
        let made_in = made_in(group);
        vec![
            format!(
                "{}{at}{made_in}, {}",
                code(&words::group_name(group)),
                words::pattern(group, &leaks.step)
            ),
            words::rate(group.bytes_per_step, group.slope_error),
            words::amount(group.count_per_step),
            alive_then(group, &leaks.step),
            format!("{} to {}", group.first_number, group.last_number),
        ]
    };
    let step = &leaks.step;
    let a = words::a(step);
    let heads = [
        "group",
        &["bytes ", &a].concat(),
        &["blocks ", &a].concat(),
        "alive",
        &words::several(step),
    ];
    let more = leaks.groups.len().saturating_sub(LISTED) as u64;
    text += "\n";
    text += &table(&heads, leaks.groups.iter().take(LISTED).map(row));
    text + &left_out(more, "group")
}

/// The function that tells a group from others that one line is named for.
fn made_in(group: &LeakGroup) -> String {
    let frame = group.made_in.as_ref();
    frame.map_or_else(String::new, |frame| {
        format!(", in {}", code(&format!("{} {}", frame.name, place(frame))))
    })
}

/// What is alive of a group when its growth is over, and when that was: what grows within steps is
/// given back at their ends, and what leaks may be when the program ends.
fn alive_then(group: &LeakGroup, step: &str) -> String {
    let when = alive_when(group.pattern == Pattern::WithinStep, &words::a(step));
    format!("{} {when}", exact(group.live_bytes))
}

/// What is alive at a moment.
pub fn alive(run: &str, alive: &Alive, events: u32) -> String {
    // A state alone has no other moment.
    let at = match (alive.event, events) {
        (None, 0) => String::new(),
        _ => format!(" {}", moment_of(alive, events)),
    };
    let step = alive.step.as_deref();
    let step = step.map_or_else(String::new, |step| {
        format!(", in {}", code(step_name(step)))
    });
    let total = format!(
        "{} allocated in {}",
        exact(alive.total.bytes),
        format::plural(alive.total.count, "block")
    );
    let groups = alive.groups.iter().take(LISTED).map(|group| {
        let inferred = if group.inferred { " (inferred)" } else { "" };
        vec![
            format!("{}{inferred}", code(&named(group))),
            exact(group.tally.bytes),
            count(group.tally.count),
        ]
    });
    let more = alive.groups.len().saturating_sub(LISTED) as u64 + alive.groups_left_out;
    format!(
        "## What is alive in {}{at}{step}\n\n{total}, by {}.\n\n{}{}",
        code(run),
        alive.by.name(),
        table(&["group", "bytes", "blocks"], groups),
        left_out(more, "group")
    )
}

/// A group with what tells it from others of the same name.
fn named(group: &GroupShare) -> String {
    with_caller(&group.label, &group.caller)
}

/// What was allocated and what was freed between two moments.
pub fn changes(run: &str, changes: &Changes) -> String {
    let part = |title: &str, part: &Part| {
        let groups = part.groups.iter().take(LISTED).map(|group| {
            vec![
                code(&named(group)),
                exact(group.tally.bytes),
                count(group.tally.count),
            ]
        });
        let more = part.groups.len().saturating_sub(LISTED) as u64 + part.left_out;
        let table = match part.groups.is_empty() {
            true => "Nothing.\n".to_owned(),
            false => table(&["group", "bytes", "blocks"], groups),
        };
        format!(
            "\n### {title}: {} in {}\n\n{table}{}",
            exact(part.total.bytes),
            format::plural(part.total.count, "block"),
            left_out(more, "group")
        )
    };
    format!(
        "## {} from event {} to event {}\n\n{} to {} allocated; {} came and went in between \
         ({}).\n{}{}",
        code(run),
        count(u64::from(changes.from.0)),
        count(u64::from(changes.to.0)),
        exact(changes.allocated_from),
        exact(changes.allocated_to),
        format::plural(changes.passed.count, "block"),
        changes.passed.bytes,
        part("Came", &changes.came),
        part("Went", &changes.went),
    )
}

/// What would happen under the conditions of this query.
pub fn what_if(run: &str, asked: &str, answer: &WhatIf) -> String {
    let recorded = &answer.recorded;
    let none = || "–".to_owned();
    let failed = |place: &Option<String>| place.clone().unwrap_or_else(none);
    let column = |of: &Replayed| {
        [
            of.limit.map_or_else(none, exact),
            exact(of.peak_allocated),
            exact(of.peak_reserved) + &of.range_in_words(|bytes| bytes.to_string()),
            count(of.retries),
            failed(&of.oom_place),
        ]
    };
    let limit = recorded.limit;
    let was = [
        limit.map_or_else(none, Limit::in_words),
        recorded.told_peak(Series::Allocated, exact(recorded.peak_allocated)),
        recorded.told_peak(Series::Reserved, exact(recorded.peak_reserved)),
        none(),
        failed(&recorded.oom_place),
    ];
    let mut heads = vec!["", "recorded", "what if"];
    let mut columns = vec![was, column(&answer.what_if)];
    if let Some(second) = &answer.at_recorded_limit {
        heads.push("at the recorded limit");
        columns.push(column(second));
    }
    let names = [
        "limit",
        "allocated, peak",
        "reserved, peak",
        "retries",
        "out of memory",
    ];
    let rows = names.iter().enumerate().map(|(at, name)| {
        let cells = columns.iter().map(|column| column[at].clone());
        std::iter::once((*name).to_owned()).chain(cells).collect()
    });
    format!(
        "## What if: {} with {}\n\n{} {}\n\n{}",
        code(run),
        code(asked),
        answer.sentence,
        answer.trust,
        table(&heads, rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::alive::Tally;
    use trace::alive::Dimension;
    use trace::units::EventIdx;

    fn tally(count: u64, bytes: u64) -> Tally {
        Tally {
            count,
            bytes: Bytes(bytes),
        }
    }

    #[test]
    fn what_is_alive_of_a_leak_is_told_with_its_moment() {
        let check = |pattern: Pattern, expected: &str| {
            let group = LeakGroup {
                pattern,
                ..words::tests::group()
            };
            assert_eq!(alive_then(&group, "request"), expected);
        };
        check(
            Pattern::EveryNth,
            "20.0 KiB (20,480 B) at the end of the last whole request",
        );
        check(
            Pattern::WithinStep,
            "20.0 KiB (20,480 B) after the last part",
        );
    }

    #[test]
    fn groups_of_one_line_are_told_by_what_makes_them() {
        let mut group = words::tests::group();
        assert_eq!(made_in(&group), "");
        group.made_in = Some(FrameText {
            name: "gelu".to_owned(),
            filename: "layers.py".to_owned(),
            line: 7,
        });
        assert_eq!(made_in(&group), ", in `gelu layers.py:7`");
    }

    #[test]
    fn what_is_alive_is_a_table_that_names_cannot_break() {
        let group = |label: &str, bytes| GroupShare {
            key: "k".to_owned(),
            label: label.to_owned(),
            caller: String::new(),
            inferred: false,
            stack: None,
            tally: tally(2, bytes),
        };
        let called = GroupShare {
            caller: "step t.py:9".to_owned(),
            ..group("c", 1024)
        };
        let answer = Alive {
            event: Some(EventIdx(1234)),
            step: Some("step 3".to_owned()),
            by: Dimension::Stack,
            total: tally(3, 3072),
            groups: vec![group("a|b", 2048), called],
            groups_left_out: 1,
            tree: Vec::new(),
            tree_left_out: 0,
        };
        let expected = "## What is alive in `run` after event 1,234, in `step 3`\n\n\
            3.00 KiB (3,072 B) allocated in 3 blocks, by stack.\n\n\
            | group | bytes | blocks |\n|---|--:|--:|\n\
            | `a¦b` | 2.00 KiB (2,048 B) | 2 |\n| `c ← step t.py:9` | 1.00 KiB (1,024 B) | 2 |\n\n\
            and 1 group more\n";
        assert_eq!(alive("run", &answer, 2000), expected);
        let begins = |events| {
            let answer = Alive {
                event: None,
                step: None,
                ..answer.clone()
            };
            let page = alive("run", &answer, events);
            page.lines().next().unwrap_or_default().to_owned()
        };
        let start = "## What is alive in `run` before the first event";
        assert_eq!(begins(2000), start);
        assert_eq!(begins(0), "## What is alive in `run`");
    }
}
