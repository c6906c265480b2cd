//! The order and filter of the list: the query of its page, and the effect on the runs.
//!
//! `v=1&sort=peak&dir=asc&q=leak&from=51`; defaults are left out, the default list has a clean
//! address.

use crate::components::badge::badges;
use crate::letters::lower;
use crate::query::Query;
use api::jobs::RunOfJob;
use api::query::{decode, encode};
use api::runs::RunSummary;
use api::view_state::BadViewState;
use std::cmp::Ordering;
use timeline::order;
use trace::ranks::names::by_number;

/// The version written.
const VERSION: u32 = 1;

/// So many letters of a hash are meant as its beginning.
const HASH_LETTERS: usize = 4;

/// What asks for the runs of a person, as a key of the API: `by=ada`.
const BY: &str = "by";

/// A column that sorts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// Its name.
    Name,
    /// Peak of allocated.
    Peak,
    /// Number of steps.
    Steps,
    /// Number of events, all devices together.
    Events,
    /// Number of devices.
    Devices,
    /// Bytes of the file.
    Size,
    /// When it arrived.
    #[default]
    Age,
}

impl Column {
    /// All of them, in the order in which the table shows them.
    pub const ALL: [Column; 7] = [
        Column::Name,
        Column::Peak,
        Column::Steps,
        Column::Events,
        Column::Devices,
        Column::Size,
        Column::Age,
    ];

    /// Its head in the table.
    pub const fn title(self) -> &'static str {
        match self {
            Column::Name => "Name",
            Column::Peak => "Peak allocated",
            Column::Steps => "Steps",
            Column::Events => "Events",
            Column::Devices => "Devices",
            Column::Size => "File",
            Column::Age => "Added",
        }
    }

    /// Its name in queries and style sheets.
    pub const fn key(self) -> &'static str {
        match self {
            Column::Name => "name",
            Column::Peak => "peak",
            Column::Steps => "steps",
            Column::Events => "events",
            Column::Devices => "devices",
            Column::Size => "size",
            Column::Age => "age",
        }
    }

    /// The direction of a first click: names from A, numbers from the largest, ages from the
    /// newest.
    pub const fn natural(self) -> Direction {
        match self {
            Column::Name | Column::Age => Direction::Ascending,
            _ => Direction::Descending,
        }
    }
}

/// The direction of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Smallest (youngest, A) first.
    #[default]
    Ascending,
    /// Largest (oldest, Z) first.
    Descending,
}

impl Direction {
    /// Value of `aria-sort`.
    pub const fn aria(self) -> &'static str {
        match self {
            Direction::Ascending => "ascending",
            Direction::Descending => "descending",
        }
    }

    /// Its name in queries.
    pub const fn key(self) -> &'static str {
        match self {
            Direction::Ascending => "asc",
            Direction::Descending => "desc",
        }
    }

    /// The other one.
    pub const fn flipped(self) -> Direction {
        match self {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        }
    }
}

/// How the list is sorted and filtered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListState {
    /// The column that sorts.
    pub sort: Column,
    /// Which end comes first.
    pub direction: Direction,
    /// The typed text; every word must occur. A word such as `config=` also sorts: by the value of
    /// that label first, and by the column among runs with the same value.
    pub filter: String,
    /// How many runs come before the first that is shown: a long list is shown in parts.
    pub skipped: usize,
}

impl ListState {
    /// Filters by another text. What it finds is shown from its beginning.
    pub fn filter_by(&mut self, text: String) {
        self.filter = text;
        self.skipped = 0;
    }

    /// The state after a click on a column's head: first its natural order, then the opposite. The
    /// list is shown from its beginning.
    pub fn clicked(self, column: Column) -> ListState {
        let direction = match self.sort == column {
            true => self.direction.flipped(),
            false => column.natural(),
        };
        ListState {
            sort: column,
            direction,
            skipped: 0,
            ..self
        }
    }

    /// How the values of a column go down the page, if it sorts. The column of ages shows when runs
    /// were added: where the youngest is first, the latest time is.
    pub fn shown(&self, column: Column) -> Option<Direction> {
        let shown = match column {
            Column::Age => self.direction.flipped(),
            _ => self.direction,
        };
        (self.sort == column).then_some(shown)
    }

    /// The runs that the filter finds, in order.
    pub fn arrange<'a>(&self, runs: &'a [RunSummary]) -> Vec<&'a RunSummary> {
        let words: Vec<String> = self.filter.split_whitespace().map(lower).collect();
        // The words of a finding, such as `no leak`, are not looked for one by one: all runs that
        // leak hold `leak`, and many hold `no`. Nor are those of `rank 7 of`.
        let phrase = words.join(" ");
        let is_said = words.len() > 1 && runs.iter().any(|run| shows(run, &phrase));
        let is_sought = |run: &&RunSummary| match is_said {
            true => shows(run, &phrase),
            false => matches(run, &words),
        };
        let label = words.iter().find_map(|word| word.strip_suffix('='));
        let found = runs.iter().filter(is_sought);
        let mut found: Vec<Sorted> = found
            .map(|run| Sorted::new(run, self.sort, label))
            .collect();
        // Rows that are equal are ordered by age, newest first, in every column: rows must not jump
        // on refresh.
        order::sort_by(&mut found, |a, b| {
            let by_column = match self.direction {
                Direction::Ascending => a.compare(self.sort, b),
                Direction::Descending => b.compare(self.sort, a),
            };
            by_number(&a.label, &b.label)
                .then(by_column)
                .then_with(|| a.compare(Column::Age, b))
                .then_with(|| a.run.id.cmp(&b.run.id))
        });
        let mut found: Vec<&RunSummary> = found.into_iter().map(|sorted| sorted.run).collect();
        // One that arrived while the list was read, page by page, is at the end of one page and at
        // the beginning of the next.
        found.dedup_by(|a, b| a.id == b.id);
        found
    }
}

/// A run with the texts that sort it. Case is ignored, and numbers are compared by value: `rank2`
/// comes before `rank10`.
struct Sorted<'a> {
    run: &'a RunSummary,
    label: String,
    name: String,
}

impl<'a> Sorted<'a> {
    fn new(run: &'a RunSummary, column: Column, label: Option<&str>) -> Sorted<'a> {
        Sorted {
            run,
            label: label.map_or_else(String::new, |key| lower(value_of(run, key))),
            name: match column {
                Column::Name => lower(&run.name),
                _ => String::new(),
            },
        }
    }

    fn compare(&self, column: Column, other: &Sorted) -> Ordering {
        let (a, b) = (self.run, other.run);
        match column {
            Column::Name => by_number(&self.name, &other.name),
            Column::Peak => a.peak_allocated.cmp(&b.peak_allocated),
            Column::Steps => a.steps.cmp(&b.steps),
            Column::Events => events(a).cmp(&events(b)),
            Column::Devices => a.devices.len().cmp(&b.devices.len()),
            Column::Size => a.file_bytes.cmp(&b.file_bytes),
            // A small age is a late arrival.
            Column::Age => b.created_ms.cmp(&a.created_ms),
        }
    }
}

/// Events of all devices.
pub fn events(run: &RunSummary) -> u64 {
    run.devices
        .iter()
        .map(|device| u64::from(device.events))
        .sum()
}

/// The value of the label with this key, in any case; without such a label, `by` is who sent it.
fn value_of<'a>(run: &'a RunSummary, key: &str) -> &'a str {
    let mut labels = run.labels.iter();
    let found = labels.find(|(name, _)| name.eq_ignore_ascii_case(key));
    let sender = run.uploaded_by.as_deref().filter(|_| key == BY);
    found.map_or(sender.unwrap_or_default(), |(_, value)| value)
}

/// Whether a word such as `by=ada` (lower case) names who sent a run. The row does not show it, so
/// the name alone finds nothing.
fn is_by(run: &RunSummary, word: &str) -> bool {
    let behind = word.strip_prefix(BY);
    let name = behind.and_then(|rest| rest.strip_prefix('='));
    name.zip(run.uploaded_by.as_deref())
        .is_some_and(|(name, sender)| lower(sender).starts_with(name))
}

/// Whether the row of a run shows a finding, or a place in a job, that begins so (lower case).
fn shows(run: &RunSummary, phrase: &str) -> bool {
    said(run).any(|said| said.starts_with(phrase))
}

/// What the row of a run says beside its name, in lower case: its findings, and which rank of which
/// job it is.
fn said(run: &RunSummary) -> impl Iterator<Item = String> {
    let badges = badges(run).into_iter().map(|badge| badge.label);
    let place = run.job.as_ref().map(RunOfJob::told);
    badges.chain(place).map(|said| lower(&said))
}

/// Whether every word (lower case) occurs in the run's data. Of an id and a hash only the beginning
/// counts: any three letters are somewhere in such noise.
fn matches(run: &RunSummary, words: &[String]) -> bool {
    if words.is_empty() {
        return true;
    }
    let name = lower(&run.name);
    let labels = run.labels.iter();
    let labels: Vec<String> = labels
        .map(|(key, value)| lower(&format!("{key}={value}")))
        .collect();
    let occurs = |word: &String| {
        name.contains(word)
            || word.starts_with("run_") && lower(run.id.as_str()).starts_with(word.as_str())
            || word.len() >= HASH_LETTERS && run.content_hash.starts_with(word.as_str())
            || said(run).any(|said| said.contains(word))
            || labels.iter().any(|label| label.contains(word))
            || is_by(run, word)
    };
    words.iter().all(occurs)
}

impl Query for ListState {
    fn read(query: &str) -> (ListState, Vec<BadViewState>) {
        let mut state = ListState::default();
        let mut direction = None;
        let mut notes = Vec::new();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "sort" => match Column::ALL.into_iter().find(|column| column.key() == value) {
                    Some(column) => state.sort = column,
                    None => notes.push(BadViewState::Field("sort")),
                },
                "dir" => match value {
                    "asc" => direction = Some(Direction::Ascending),
                    "desc" => direction = Some(Direction::Descending),
                    _ => notes.push(BadViewState::Field("dir")),
                },
                "q" => state.filter = decode(value),
                "from" => match value
                    .parse::<usize>()
                    .ok()
                    .and_then(|from| from.checked_sub(1))
                {
                    Some(skipped) => state.skipped = skipped,
                    None => notes.push(BadViewState::Field("from")),
                },
                _ => {}
            }
        }
        state.direction = direction.unwrap_or(state.sort.natural());
        (state, notes)
    }

    fn write(&self) -> String {
        if *self == ListState::default() {
            return String::new();
        }
        let mut query = format!("v={VERSION}");
        if self.sort != Column::default() {
            query += &format!("&sort={}", self.sort.key());
        }
        if self.direction != self.sort.natural() {
            query += &format!("&dir={}", self.direction.key());
        }
        if !self.filter.is_empty() {
            query += &format!("&q={}", encode(&self.filter));
        }
        if self.skipped > 0 {
            query += &format!("&from={}", self.skipped + 1);
        }
        query
    }

    /// Another part of the same list is like another page.
    fn is_left_for(&self, next: &ListState) -> bool {
        let part = ListState {
            skipped: next.skipped,
            ..self.clone()
        };
        self.skipped != next.skipped && part == *next
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{rank_of, run};
    use super::*;
    use api::bench::Fault;
    use api::leaks::{LeakSummary, Verdict};
    use trace::device::DeviceIdx;
    use trace::steps::recording::Kind;
    use trace::units::Bytes;

    fn names(state: &ListState, runs: &[RunSummary]) -> Vec<String> {
        let found = state.arrange(runs).into_iter();
        found.map(|run| run.name.clone()).collect()
    }

    /// A run is found by every word that its row shows, and by no other.
    #[test]
    fn findings_are_found_as_they_are_shown() {
        let leaks = |verdict, bytes_per_step| LeakSummary {
            device: DeviceIdx(0),
            recording: Kind::Loop,
            step: "step".to_owned(),
            verdict,
            reason: String::new(),
            bytes_per_step: Bytes(bytes_per_step),
        };
        let judged = |name: &str, leaks| RunSummary {
            leaks: Some(leaks),
            ..run(name, 1, 1)
        };
        let runs = [
            judged("leak-two", leaks(Verdict::Leak, 1 << 20)),
            judged("fine", leaks(Verdict::Clean, 0)),
            judged("open", leaks(Verdict::CannotTell, 0)),
            RunSummary {
                faults: vec![Fault::Corruption],
                ..run("raced", 1, 1)
            },
        ];
        let found = |filter: &str| {
            let filter = filter.to_owned();
            let state = ListState {
                filter,
                ..ListState::default()
            };
            names(&state, &runs)
        };
        for run in &runs {
            for badge in badges(run) {
                let found = found(&badge.label);
                assert!(found.contains(&run.name), "{}: {found:?}", badge.label);
            }
        }
        assert_eq!(found("No leak"), ["fine"]);
        assert_eq!(found("leaks"), ["leak-two"]);
        assert_eq!(found("cannot tell"), ["open"]);
        assert_eq!(found("two leaks"), ["leak-two"], "words of the name, too");
        assert_eq!(found("corrupted data"), ["raced"]);
        assert_eq!(found("history cut").len(), 4);
        assert_eq!(found("ring"), [""; 0], "no row shows this word");
    }

    #[test]
    fn the_runs_of_a_person_are_found_as_over_the_api() {
        let sent = |name: &str, by: Option<&str>| RunSummary {
            uploaded_by: by.map(str::to_owned),
            ..run(name, 1, 1)
        };
        let runs = [
            sent("first", Some("Bo")),
            sent("bobbin", None),
            sent("second", Some("ada")),
        ];
        let check = |filter: &str, expected: &[&str]| {
            let state = ListState {
                filter: filter.to_owned(),
                ..ListState::default()
            };
            assert_eq!(names(&state, &runs), expected, "{filter}");
        };
        check("by=bo", &["first"]);
        check("BY=A second", &["second"]);
        check("by=bo second", &[]);
        check("by=eve", &[]);
        check("bo", &["bobbin"]);
        check("by=", &["second", "first"]);
    }

    #[test]
    fn a_state_survives_its_query() {
        let check = |sort, direction, filter: &str| {
            let state = ListState {
                sort,
                direction,
                filter: filter.to_owned(),
                skipped: filter.len() * 100,
            };
            assert_eq!(ListState::read(&state.write()), (state, vec![]));
        };
        for column in Column::ALL {
            check(column, Direction::Ascending, "");
            check(column, Direction::Descending, "leak & grow=100% größe+1");
        }
        assert_eq!(ListState::default().write(), "");
    }

    #[test]
    fn a_rank_is_found_by_its_job() {
        let runs = [
            rank_of("Pretrain-3", 7, "a"),
            rank_of("Pretrain-3", 17, "b"),
            rank_of("other", 7, "c"),
            run("d", 1, 1),
        ];
        let check = |filter: &str, expected: &[&str]| {
            let filter = filter.to_owned();
            let state = ListState {
                filter,
                ..ListState::default()
            };
            assert_eq!(names(&state, &runs), expected, "{}", state.filter);
        };
        check("pretrain-3", &["a", "b"]);
        check("rank 7 of", &["a", "c"]);
        check("Rank 7 of pre", &["a"]);
        check("other", &["c"]);
    }

    #[test]
    fn what_is_not_understood_keeps_its_default() {
        let (state, notes) = ListState::read("sort=colour&dir=up&q=%zz%4&from=0&new=1");
        assert_eq!(notes, ["sort", "dir", "from"].map(BadViewState::Field));
        assert_eq!(
            state,
            ListState {
                filter: "%zz%4".to_owned(),
                ..ListState::default()
            }
        );
    }

    #[test]
    fn the_newest_comes_first_until_a_column_is_clicked() {
        let runs = [run("a", 5, 1), run("B", 9, 3), run("c", 7, 2)];
        let state = ListState::default();
        assert_eq!(names(&state, &runs), ["B", "c", "a"]);
        let by_peak = state.clicked(Column::Peak);
        assert_eq!(names(&by_peak, &runs), ["B", "c", "a"]);
        let smallest_first = by_peak.clicked(Column::Peak);
        assert_eq!(names(&smallest_first, &runs), ["a", "c", "B"]);
        let by_name = smallest_first.clicked(Column::Name);
        assert_eq!(names(&by_name, &runs), ["a", "B", "c"]);
    }

    #[test]
    fn an_arrow_says_how_the_shown_values_go() {
        let down = Some(Direction::Descending);
        let state = ListState::default();
        assert_eq!(state.shown(Column::Age), down, "the newest is on top");
        assert_eq!(state.shown(Column::Peak), None);
        let oldest_first = state.clicked(Column::Age);
        assert_eq!(oldest_first.shown(Column::Age), Some(Direction::Ascending));
        let by_peak = oldest_first.clicked(Column::Peak);
        assert_eq!(by_peak.shown(Column::Peak), down, "the largest is on top");
        let by_name = by_peak.clicked(Column::Name);
        assert_eq!(by_name.shown(Column::Name), Some(Direction::Ascending));
    }

    #[test]
    fn another_order_or_filter_shows_the_list_from_its_beginning() {
        let far = ListState {
            skipped: 300,
            ..ListState::default()
        };
        assert_eq!(far.clone().clicked(Column::Name).skipped, 0);
        let mut filtered = far.clone();
        filtered.filter_by("leak".to_owned());
        assert_eq!((filtered.filter.as_str(), filtered.skipped), ("leak", 0));
        let first = ListState::default();
        assert!(far.is_left_for(&first), "back leads to the part before");
        assert!(!far.is_left_for(&filtered), "and does not undo a letter");
    }

    #[test]
    fn a_run_that_was_read_twice_is_listed_once() {
        let runs = [run("a", 1, 2), run("b", 1, 1), run("b", 1, 1)];
        assert_eq!(names(&ListState::default(), &runs), ["a", "b"]);
    }

    #[test]
    fn equal_values_stay_newest_first_in_both_directions() {
        let runs = [run("old", 5, 1), run("new", 5, 2)];
        let down = ListState::default().clicked(Column::Peak);
        assert_eq!(names(&down, &runs), ["new", "old"]);
        assert_eq!(names(&down.clicked(Column::Peak), &runs), ["new", "old"]);
    }

    #[test]
    fn numbers_in_names_sort_by_value() {
        let compare = |a: &str, b: &str| {
            let mut runs = [run("a", 0, 0), run("b", 0, 0)];
            runs[0].name = a.to_owned();
            runs[1].name = b.to_owned();
            let [a, b] = [&runs[0], &runs[1]].map(|run| Sorted::new(run, Column::Name, None));
            a.compare(Column::Name, &b)
        };
        let check = |a, b, expected| assert_eq!(compare(a, b), expected, "{a} {b}");
        check("rank2", "rank10", Ordering::Less);
        check("Rank2", "rank2", Ordering::Equal);
        check("rank02", "rank2", Ordering::Equal);
        check("rank", "rank0", Ordering::Less);
        check("a1b2", "a1b10", Ordering::Less);
        check("ä", "z", Ordering::Greater);
    }

    #[test]
    fn a_label_sorts_its_runs_and_the_column_sorts_within() {
        let mut runs = [
            run("a", 1, 1),
            run("b", 3, 2),
            run("c", 2, 3),
            run("d", 9, 4),
        ];
        for (run, ranks) in runs.iter_mut().zip(["10", "2", "2"]) {
            run.labels.extend([("Ranks".to_owned(), ranks.to_owned())]);
        }
        let mut state = ListState {
            filter: "ranks=".to_owned(),
            ..ListState::default()
        };
        assert_eq!(names(&state, &runs), ["c", "b", "a"]);
        state = state.clicked(Column::Peak);
        assert_eq!(names(&state, &runs), ["b", "c", "a"]);
    }

    #[test]
    fn every_word_must_occur_somewhere() {
        let mut runs = [run("vl before", 1, 1), run("vl after", 1, 2)];
        let branch = ("branch".to_owned(), "Fix/leak".to_owned());
        runs[1].labels.extend([branch]);
        let check = |filter: &str, expected: &[&str]| {
            let state = ListState {
                filter: filter.to_owned(),
                ..ListState::default()
            };
            assert_eq!(names(&state, &runs), expected, "{filter}");
        };
        check("VL", &["vl after", "vl before"]);
        check("  before vl ", &["vl before"]);
        check("cut before", &["vl before"]);
        check("abc1", &["vl after", "vl before"]);
        check("bc1", &[]);
        check("ab", &[]);
        check("run_vlb", &["vl before"]);
        check("vlb", &[]);
        check("branch=fix vl", &["vl after"]);
        check("Leak", &["vl after"]);
    }
}
