//! Which bench the page shows, and how: its query, and the effect on the rows.
//!
//! `v=1&bench=ben_…&sort=peak&dir=asc&q=p3&config=…&status=FAIL+(OOM)&cell=…@trl-1.4`; defaults
//! are left out.

use crate::letters::lower;
use crate::pages::runs::list_state::Direction;
use crate::query::Query;
use api::bench::{Bench, BenchCatalog, BenchPatch, BenchRow, BenchRowState, BenchStatus};
use api::ids::{BenchId, BenchRowId};
use api::query::{decode, encode};
use api::view_state::BadViewState;
use std::cmp::Ordering;
use timeline::order;

/// The version written.
const VERSION: u32 = 1;

/// The order of rows within their configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// The order of the published table.
    #[default]
    Patch,
    /// Peak of allocated memory, computed.
    Peak,
    /// Growth a step, computed.
    Growth,
    /// The verdict.
    Status,
}

impl Column {
    /// All of them.
    pub const ALL: [Column; 4] = [Column::Patch, Column::Peak, Column::Growth, Column::Status];

    /// Its name in queries.
    pub const fn key(self) -> &'static str {
        match self {
            Column::Patch => "patch",
            Column::Peak => "peak",
            Column::Growth => "growth",
            Column::Status => "status",
        }
    }

    const fn natural(self) -> Direction {
        match self {
            Column::Patch | Column::Status => Direction::Ascending,
            Column::Peak | Column::Growth => Direction::Descending,
        }
    }
}

/// The state of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BenchState {
    /// Which bench; without it the newest.
    pub bench: Option<BenchId>,
    /// What rows are sorted by.
    pub sort: Column,
    /// The direction of the order.
    pub direction: Direction,
    /// Words that must occur.
    pub filter: String,
    /// The only configuration to show.
    pub config: Option<String>,
    /// The only status to show.
    pub status: Option<BenchStatus>,
    /// The chosen cell of the offloaders' grid: a configuration `@` an offloader.
    pub cell: Option<String>,
}

/// A configuration's rows, as they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Id of the configuration.
    pub config: String,
    /// Its rows.
    pub rows: Vec<BenchRowId>,
}

impl BenchState {
    /// The state after a click on the head of a column.
    pub fn clicked(&self, column: Column) -> BenchState {
        let direction = match self.sort == column {
            true => self.direction.flipped(),
            false => column.natural(),
        };
        BenchState {
            sort: column,
            direction,
            ..self.clone()
        }
    }

    /// The state without what hides rows.
    pub fn unfiltered(&self) -> BenchState {
        BenchState {
            filter: String::new(),
            config: None,
            status: None,
            ..self.clone()
        }
    }

    /// Says that no row is left, and what they were looked for by.
    pub fn nothing(&self) -> String {
        let config = self.config.as_deref();
        let parts = [
            config,
            self.status.map(BenchStatus::word),
            Some(&self.filter),
        ];
        let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
        let parts: Vec<String> = parts.map(|part| format!("“{part}”")).collect();
        format!("No row of this bench matches {}.", parts.join(" and "))
    }

    /// The rows to show, configuration by configuration, in the order of the bench.
    pub fn arrange(&self, bench: &Bench, catalog: &BenchCatalog) -> Vec<Section> {
        let words: Vec<String> = self.filter.split_whitespace().map(lower).collect();
        let mut sections: Vec<(String, Vec<&BenchRow>)> = Vec::new();
        for row in &bench.rows {
            let wanted = self.config.as_ref().is_none_or(|id| *id == row.config)
                && self.status.is_none_or(|status| row.status == Some(status))
                && words.iter().all(|word| mentions(row, catalog, word));
            if !wanted {
                continue;
            }
            match sections
                .iter_mut()
                .find(|(config, _)| *config == row.config)
            {
                Some((_, rows)) => rows.push(row),
                None => sections.push((row.config.clone(), vec![row])),
            }
        }
        let section = |(config, mut rows): (String, Vec<&BenchRow>)| {
            order::sort_by(&mut rows, |a, b| self.compare(a, b));
            let rows = rows.iter().map(|row| row.id.clone()).collect();
            Section { config, rows }
        };
        sections.into_iter().map(section).collect()
    }

    /// Rows without the value come last in both directions; equal rows keep their order.
    fn compare(&self, a: &BenchRow, b: &BenchRow) -> Ordering {
        let turned = |ordering: Ordering| match self.direction {
            Direction::Ascending => ordering,
            Direction::Descending => ordering.reverse(),
        };
        match self.sort {
            // The sort is stable, so the rows keep the order of the bench, which is that of the
            // table.
            Column::Patch => Ordering::Equal,
            Column::Peak => by(
                a,
                b,
                |row| Some(row.result.as_ref()?.peak_allocated.0 as f64),
                turned,
            ),
            Column::Growth => by(
                a,
                b,
                |row| Some(row.result.as_ref()?.growth_per_step),
                turned,
            ),
            Column::Status => by(a, b, |row| Some(f64::from(row.status? as u8)), turned),
        }
    }
}

fn by(
    a: &BenchRow,
    b: &BenchRow,
    value: impl Fn(&BenchRow) -> Option<f64>,
    turned: impl Fn(Ordering) -> Ordering,
) -> Ordering {
    match (value(a), value(b)) {
        (Some(a), Some(b)) => turned(a.total_cmp(&b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// The patch with this id.
pub fn patch<'c>(catalog: &'c BenchCatalog, id: &str) -> Option<&'c BenchPatch> {
    catalog.patches.iter().find(|patch| patch.id == id)
}

/// The name of a set of patches: `baseline`, `P3 + enter-reset`.
pub fn set_label(catalog: &BenchCatalog, patches: &[String]) -> String {
    let label = |id: &String| patch(catalog, id).map_or(id.clone(), |p| p.label.clone());
    let labels: Vec<String> = patches.iter().map(label).collect();
    match labels.is_empty() {
        true => "baseline".to_owned(),
        false => labels.join(" + "),
    }
}

/// The baseline of a configuration.
pub fn baseline<'b>(bench: &'b Bench, config: &str) -> Option<&'b BenchRow> {
    let found = |row: &&BenchRow| row.config == config && row.patches.is_empty();
    bench.rows.iter().find(found)
}

fn mentions(row: &BenchRow, catalog: &BenchCatalog, word: &str) -> bool {
    let mut texts = vec![row.config.clone(), set_label(catalog, &row.patches)];
    for id in &row.patches {
        texts.push(id.clone());
        if let Some(patch) = patch(catalog, id) {
            texts.push(patch.project.clone());
            texts.extend(patch.pr.clone());
        }
    }
    texts.extend(row.status.map(|status| status.word().to_owned()));
    if let BenchRowState::Failed { reason } = &row.state {
        texts.push(format!("failed {reason}"));
    }
    texts.iter().any(|text| lower(text).contains(word))
}

impl Query for BenchState {
    fn read(query: &str) -> (BenchState, Vec<BadViewState>) {
        let mut state = BenchState::default();
        let mut direction = None;
        let mut notes = Vec::new();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = decode(value);
            match key {
                "bench" => match value.parse() {
                    Ok(id) => state.bench = Some(id),
                    Err(_) => notes.push(BadViewState::Field("bench")),
                },
                "sort" => match Column::ALL.into_iter().find(|column| column.key() == value) {
                    Some(column) => state.sort = column,
                    None => notes.push(BadViewState::Field("sort")),
                },
                "dir" => match value.as_str() {
                    "asc" => direction = Some(Direction::Ascending),
                    "desc" => direction = Some(Direction::Descending),
                    _ => notes.push(BadViewState::Field("dir")),
                },
                "q" => state.filter = value,
                "config" => state.config = Some(value),
                "cell" => state.cell = Some(value),
                "status" => match status_called(&value) {
                    Some(status) => state.status = Some(status),
                    None => notes.push(BadViewState::Field("status")),
                },
                _ => {}
            }
        }
        state.direction = direction.unwrap_or(state.sort.natural());
        (state, notes)
    }

    fn is_left_for(&self, next: &BenchState) -> bool {
        self.bench != next.bench
    }

    fn write(&self) -> String {
        if *self == BenchState::default() {
            return String::new();
        }
        let mut query = format!("v={VERSION}");
        let mut add = |key: &str, value: &str| query += &format!("&{key}={}", encode(value));
        if let Some(bench) = &self.bench {
            add("bench", bench.as_str());
        }
        if self.sort != Column::default() {
            add("sort", self.sort.key());
        }
        if self.direction != self.sort.natural() {
            add("dir", self.direction.key());
        }
        if !self.filter.is_empty() {
            add("q", &self.filter);
        }
        if let Some(config) = &self.config {
            add("config", config);
        }
        if let Some(status) = self.status {
            add("status", status.word());
        }
        if let Some(cell) = &self.cell {
            add("cell", cell);
        }
        query
    }
}

/// The status with this word.
pub fn status_called(word: &str) -> Option<BenchStatus> {
    BenchStatus::ALL
        .into_iter()
        .find(|status| status.word() == word)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::explain::tests::row;
    use super::*;
    use api::bench::{BenchLimits, DeviceKind};
    use trace::units::Bytes;

    /// Some patches.
    pub fn catalog() -> BenchCatalog {
        let patch = |id: &str, label: &str, project: &str| BenchPatch {
            id: id.to_owned(),
            label: label.to_owned(),
            project: project.to_owned(),
            pr: None,
            url: None,
            about: String::new(),
            hypothesis: None,
        };
        BenchCatalog {
            configs: vec![],
            patches: vec![patch("p3-exit", "P3", "TRL"), patch("ctx", "ctx", "TE")],
            devices: vec![],
            limits: BenchLimits {
                rows: 0,
                steps: 0,
                recorded_steps: 0,
                most_recorded_steps: 0,
                seconds: 0,
                memory: Bytes::ZERO,
            },
        }
    }

    fn bench() -> Bench {
        let mut other = row(&["ctx"], BenchStatus::RootCauseFix, 9_000_000_000, 0.0);
        other.config = "te".to_owned();
        let mut queued = row(
            &["p3-exit", "ctx"],
            BenchStatus::Baseline,
            2_000_000_000,
            0.0,
        );
        queued.result = None;
        Bench {
            id: "ben_1".parse().unwrap(),
            created_ms: 0,
            device: DeviceKind::Sim,
            steps: None,
            capacity: None,
            recorded_steps: 12,
            rows: vec![
                row(&[], BenchStatus::Baseline, 21_000_000_000, 100e6),
                queued,
                row(
                    &["p3-exit"],
                    BenchStatus::RootCauseFix,
                    14_000_000_000,
                    33e6,
                ),
                other,
            ],
        }
    }

    fn shown(state: &BenchState) -> Vec<(String, Vec<String>)> {
        let bench = bench();
        let label = |id: &BenchRowId| {
            let row = bench.rows.iter().find(|row| row.id == *id).unwrap();
            set_label(&catalog(), &row.patches)
        };
        let sections = state.arrange(&bench, &catalog()).into_iter();
        sections
            .map(|section| (section.config, section.rows.iter().map(label).collect()))
            .collect()
    }

    #[test]
    fn a_state_survives_its_query() {
        let state = BenchState {
            bench: Some("ben_7Kq".parse().unwrap()),
            sort: Column::Peak,
            direction: Direction::Ascending,
            filter: "p3 & co".to_owned(),
            config: Some("vl-qwen3.5-9b".to_owned()),
            status: Some(BenchStatus::OutOfMemory),
            cell: Some("vl-qwen3.5-9b@trl-1.4".to_owned()),
        };
        assert_eq!(BenchState::read(&state.write()), (state, vec![]));
        assert_eq!(BenchState::default().write(), "");
        let (state, notes) = BenchState::read("bench=x&sort=up&status=FINE");
        assert_eq!(notes, ["bench", "sort", "status"].map(BadViewState::Field));
        assert_eq!(state, BenchState::default());
    }

    #[test]
    fn rows_keep_to_their_configuration_and_unfinished_ones_come_last() {
        let all = shown(&BenchState::default());
        let labels = ["baseline", "P3 + ctx", "P3"].map(str::to_owned).to_vec();
        assert_eq!(all[0], ("vl".to_owned(), labels));
        assert_eq!(all[1], ("te".to_owned(), vec!["ctx".to_owned()]));
        let by_peak = BenchState::default().clicked(Column::Peak);
        assert_eq!(shown(&by_peak)[0].1, ["baseline", "P3", "P3 + ctx"]);
        let up = by_peak.clicked(Column::Peak);
        assert_eq!(shown(&up)[0].1, ["P3", "baseline", "P3 + ctx"]);
    }

    #[test]
    fn filters_must_all_hold() {
        let check = |change: &dyn Fn(&mut BenchState), expected: &[&str]| {
            let mut state = BenchState::default();
            change(&mut state);
            let rows: Vec<String> = shown(&state).into_iter().flat_map(|s| s.1).collect();
            assert_eq!(rows, expected);
        };
        check(&|s| s.filter = "trl p3".to_owned(), &["P3 + ctx", "P3"]);
        check(&|s| s.config = Some("te".to_owned()), &["ctx"]);
        check(
            &|s| s.status = Some(BenchStatus::RootCauseFix),
            &["P3", "ctx"],
        );
        check(&|s| s.filter = "root vl".to_owned(), &["P3"]);
        check(&|s| s.filter = "nothing".to_owned(), &[]);
    }

    #[test]
    fn filters_that_leave_nothing_are_named_and_can_be_cleared() {
        let by_peak = BenchState::default().clicked(Column::Peak);
        let state = BenchState {
            config: Some("zzz".to_owned()),
            filter: "p3".to_owned(),
            ..by_peak.clone()
        };
        assert_eq!(
            state.nothing(),
            "No row of this bench matches “zzz” and “p3”."
        );
        assert_eq!(state.unfiltered(), by_peak);
    }
}
