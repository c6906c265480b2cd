//! The view state of the compare page: its query.
//!
//! Version 1: `v=1&runs=run_a,run_b&pair=0&align=step&from=1.5&to=4&series=allocated&sel=s01ab`.
//! The first run is the baseline. Defaults are left out. A newer version than [`VERSION`] is
//! refused with a clear sentence; older ones are upgraded one version at a time by [`UPGRADES`].

use crate::compare::{RUNS, listed};
use crate::decimal::decimal;
use crate::ids::RunId;
use crate::query::{decode, encode};
use crate::view_state::BadViewState;
use serde::{Deserialize, Serialize};
use std::fmt;
use trace::compare::curves::Align;
use trace::trace::Series;

/// The version written.
pub const VERSION: u32 = 1;

/// Upgrades queries: the function at position `n` takes a query of version `n + 1` to the next
/// version. A query without a version is of version 1.
pub const UPGRADES: [fn(&str) -> String; 0] = [];

/// Which rows the table of differences shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rows {
    /// All.
    #[default]
    All,
    /// Those that grew.
    Grown,
    /// Those that shrank.
    Shrunk,
    /// Those that only the new run has.
    New,
    /// Those that only the baseline has.
    Gone,
}

impl Rows {
    /// All, in the order in which they are offered.
    pub const ALL: [Rows; 5] = [Rows::All, Rows::Grown, Rows::Shrunk, Rows::New, Rows::Gone];

    /// Lower-case name, as in URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Rows::All => "all",
            Rows::Grown => "grown",
            Rows::Shrunk => "shrunk",
            Rows::New => "new",
            Rows::Gone => "gone",
        }
    }
}

/// The order of the table of differences, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SiteOrder {
    /// By the larger of the differences of peak and end.
    #[default]
    Largest,
    /// By the difference of the site's own peaks.
    Peak,
    /// By the difference of what is live at the two runs' peaks.
    AtPeak,
    /// By the difference of what is live at the end.
    End,
    /// By the difference of growth per step.
    Growth,
}

impl SiteOrder {
    /// All, in the order in which they are offered.
    pub const ALL: [SiteOrder; 5] = [
        SiteOrder::Largest,
        SiteOrder::Peak,
        SiteOrder::AtPeak,
        SiteOrder::End,
        SiteOrder::Growth,
    ];

    /// Lower-case name, as in URLs.
    pub const fn name(self) -> &'static str {
        match self {
            SiteOrder::Largest => "largest",
            SiteOrder::Peak => "peak",
            SiteOrder::AtPeak => "at-peak",
            SiteOrder::End => "end",
            SiteOrder::Growth => "growth",
        }
    }
}

/// Everything that a link to the compare page reopens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareState {
    /// The runs; the first is the baseline. With fewer than two, the page asks for more.
    pub runs: Vec<RunId>,
    /// Which pair of devices, by position; `None`: the one with the largest difference.
    pub pair: Option<u32>,
    /// Which run is compared with the baseline, by position among the runs.
    pub against: u32,
    /// How the runs are aligned.
    pub align: Align,
    /// First and last visible place of the axis; `None`: all.
    pub window: Option<(f64, f64)>,
    /// Which series is drawn.
    pub series: Series,
    /// Which rows of the table of differences are shown.
    pub rows: Rows,
    /// The order of these rows.
    pub order: SiteOrder,
    /// The searched text.
    pub search: String,
    /// The selected row.
    pub selected: Option<String>,
}

impl Default for CompareState {
    fn default() -> CompareState {
        CompareState {
            runs: Vec::new(),
            pair: None,
            against: 1,
            align: Align::Step,
            window: None,
            series: Series::Allocated,
            rows: Rows::All,
            order: SiteOrder::Largest,
            search: String::new(),
            selected: None,
        }
    }
}

/// The query, without `?`.
impl fmt::Display for CompareState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v={VERSION}&runs={}", listed(&self.runs))?;
        if let Some(pair) = self.pair {
            write!(f, "&pair={pair}")?;
        }
        if self.against != 1 {
            write!(f, "&new={}", self.against)?;
        }
        if self.align != Align::default() {
            write!(f, "&align={}", self.align.name())?;
        }
        if let Some((from, to)) = self.window {
            write!(f, "&from={}&to={}", rounded(from), rounded(to))?;
        }
        if self.series != Series::Allocated {
            write!(f, "&series={}", self.series.name())?;
        }
        if self.rows != Rows::All {
            write!(f, "&rows={}", self.rows.name())?;
        }
        if self.order != SiteOrder::default() {
            write!(f, "&sort={}", self.order.name())?;
        }
        if !self.search.is_empty() {
            write!(f, "&q={}", encode(&self.search))?;
        }
        match &self.selected {
            Some(selected) => write!(f, "&sel={}", encode(selected)),
            None => Ok(()),
        }
    }
}

/// Four digits of a step are finer than a pixel.
fn rounded(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

impl CompareState {
    /// The same view without parts that may show a name: the searched text, and the selected row,
    /// whose key is made of names.
    pub fn without_names(mut self) -> CompareState {
        self.search.clear();
        self.selected = None;
        self
    }

    /// Reads a query (without `?`). Unknown keys are ignored. A field that cannot be read keeps its
    /// default and is reported beside the state.
    ///
    /// # Errors
    /// [`BadViewState::TooNew`] when the query was written by a newer version.
    pub fn parse(query: &str) -> Result<(CompareState, Vec<BadViewState>), BadViewState> {
        let query = upgraded(query)?;
        let mut state = CompareState::default();
        let mut problems = Vec::new();
        let (mut from, mut to) = (None, None);
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = decode(value);
            let understood = match key {
                "runs" => runs(&value).map(|r| state.runs = r).ok_or("runs"),
                "pair" => number(&value).map(|p| state.pair = Some(p)).ok_or("pair"),
                "new" => number(&value).map(|n| state.against = n).ok_or("new"),
                "align" => named(&value, Align::ALL, Align::name)
                    .map(|a| state.align = a)
                    .ok_or("align"),
                "from" => decimal(&value).map(|x| from = Some(x)).ok_or("from"),
                "to" => decimal(&value).map(|x| to = Some(x)).ok_or("to"),
                "series" => named(&value, Series::ALL, Series::name)
                    .map(|s| state.series = s)
                    .ok_or("series"),
                "rows" => named(&value, Rows::ALL, Rows::name)
                    .map(|r| state.rows = r)
                    .ok_or("rows"),
                "sort" => named(&value, SiteOrder::ALL, SiteOrder::name)
                    .map(|o| state.order = o)
                    .ok_or("sort"),
                "q" => {
                    state.search = value;
                    Ok(())
                }
                "sel" => {
                    state.selected = Some(value).filter(|id| !id.is_empty());
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(field) = understood {
                problems.push(BadViewState::Field(field));
            }
        }
        state.window = from.zip(to).filter(|(from, to)| from < to);
        // Position 0 is the baseline itself.
        state.against = state.against.clamp(1, (state.runs.len().max(2) - 1) as u32);
        Ok((state, problems))
    }
}

/// The query in the form of this version.
fn upgraded(query: &str) -> Result<String, BadViewState> {
    let version = query.split('&').find_map(|pair| pair.strip_prefix("v="));
    let version = version
        .and_then(|v| v.parse::<u32>().ok())
        .unwrap_or(1)
        .max(1);
    if version > VERSION {
        return Err(BadViewState::TooNew(version));
    }
    let steps = UPGRADES.iter().skip(version as usize - 1);
    Ok(steps.fold(query.to_owned(), |query, upgrade| upgrade(&query)))
}

fn runs(text: &str) -> Option<Vec<RunId>> {
    let ids = text.split(',').filter(|id| !id.is_empty());
    let ids: Option<Vec<RunId>> = ids.map(|id| id.parse().ok()).collect();
    ids.filter(|ids| ids.len() <= *RUNS.end())
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

fn named<T: Copy>(
    text: &str,
    all: impl IntoIterator<Item = T>,
    name: fn(T) -> &'static str,
) -> Option<T> {
    all.into_iter().find(|&item| name(item) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> CompareState {
        CompareState {
            runs: ["run_a", "run_b", "run_c"]
                .map(|id| id.parse().unwrap())
                .to_vec(),
            pair: Some(1),
            against: 2,
            align: Align::Time,
            window: Some((-0.5, 12.25)),
            series: Series::Reserved,
            rows: Rows::Gone,
            order: SiteOrder::Growth,
            search: "keep & hold 100% ünï".to_owned(),
            selected: Some("s00ff".to_owned()),
        }
    }

    #[test]
    fn a_link_reopens_exactly_this_view() {
        for state in [full(), CompareState::default()] {
            let (read, problems) = CompareState::parse(&state.to_string()).unwrap();
            assert_eq!(problems, []);
            assert_eq!(read, state);
        }
    }

    /// Links that were once written must always open: add lines here, never change them.
    #[test]
    fn links_of_every_version_open() {
        let v1 = "v=1&runs=run_a,run_b,run_c&pair=1&new=2&align=time&from=-0.5&to=12.25\
                  &series=reserved&rows=gone&sort=growth\
                  &q=keep%20%26%20hold%20100%25%20%C3%BCn%C3%AF\
                  &sel=s00ff";
        assert_eq!(CompareState::parse(v1), Ok((full(), vec![])));
        assert_eq!(
            UPGRADES.len() as u32,
            VERSION - 1,
            "one step for each older version"
        );
    }

    #[test]
    fn what_is_not_understood_is_said_and_the_rest_is_shown() {
        let query = "runs=run_a,run_b&align=sideways&from=nan&to=3&rows=some&pair=-1&new=9";
        let (state, problems) = CompareState::parse(query).unwrap();
        let expected = CompareState {
            runs: full().runs[..2].to_vec(),
            ..Default::default()
        };
        assert_eq!(state, expected);
        let fields = ["align", "from", "rows", "pair"].map(BadViewState::Field);
        assert_eq!(problems, fields);
        assert_eq!(
            CompareState::parse("v=99&runs=run_a"),
            Err(BadViewState::TooNew(99))
        );
        let (state, problems) = CompareState::parse("runs=../etc,run_b&q=%zz%").unwrap();
        assert_eq!((state.runs.len(), &state.search[..]), (0, "%zz%"));
        assert_eq!(problems, [BadViewState::Field("runs")]);
    }
}
