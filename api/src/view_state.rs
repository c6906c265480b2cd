//! The view state: everything that a link to a run page reopens, as its query.
//!
//! Version 1, the timeline:
//! `v=1&dev=0&from=120.5&to=9000&low=0&high=4096&axis=event&group=stack&show=mountain&sel=b123`.
//! Version 2 adds the questions in the tabs below it:
//! `tab=alive&at=5000&vs=9000&by=module&chart=flame&root=00ff00ff00ff00ff`, and the keys of an
//! [`AllocationFilter`], of which `site` is also the selected leak group. Version 3 adds what the
//! bands of the growth chart stand for, and the group selected in it:
//! `grow=module&of=module:train`. Version 4 adds the loop whose iterations are the steps:
//! `steps=train.main`. Version 5 adds the conditions of a what-if question:
//! `alloc_conf=max_split_size_mb%3A128`, `limit=24GiB`, `without_leaks=true`,
//! `gone=s00ff00ff00ff00ff`. Instead of an event, `at` may say `start`: before the first one.
//!
//! Defaults are left out. A newer version than [`VERSION`] is refused with a clear sentence; every
//! older one is upgraded step by step.

use crate::alive::AllocationFilter;
use crate::decimal::decimal;
use crate::query::{decode, encode};
use crate::what_if::Conditions;
use serde::{Deserialize, Serialize};
use std::fmt;
use trace::alive::Dimension;
use trace::device::DeviceIdx;
use trace::tiles::GroupBy;
use trace::trace::BlockIdx;
use trace::units::EventIdx;

/// The moment before the first event.
const START: &str = "start";

/// The version written.
pub const VERSION: u32 = 5;

/// The keys of version 1; it ignored all others.
const KEYS_OF_1: [&str; 10] = [
    "v", "dev", "from", "to", "low", "high", "axis", "group", "show", "sel",
];

/// What later versions added, each with its keys; the versions before it ignored them.
const ADDED: [(u32, &[&str]); 3] = [
    (3, &["grow", "of"]),
    (4, &["steps"]),
    (5, &["alloc_conf", "limit", "without_leaks", "gone"]),
];

/// A longer key of a loop is not accepted.
const MAX_LEVEL: usize = 256;

/// What is shown below the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tab {
    /// Nothing: the picture takes the whole page.
    #[default]
    Timeline,
    /// The verdict, and what accumulates.
    Leaks,
    /// What is alive at a moment, and what was allocated and freed between two.
    Alive,
    /// Single allocations, filtered.
    Allocations,
    /// Where memory lies at a moment.
    Map,
    /// Why memory ran out, and the requests under other conditions.
    WhatIf,
}

impl Tab {
    /// All, in their order on the page.
    pub const ALL: [Tab; 6] = [
        Tab::Timeline,
        Tab::Leaks,
        Tab::Alive,
        Tab::Allocations,
        Tab::Map,
        Tab::WhatIf,
    ];

    /// The name in a link.
    pub const fn name(self) -> &'static str {
        match self {
            Tab::Timeline => "timeline",
            Tab::Leaks => "leaks",
            Tab::Alive => "alive",
            Tab::Allocations => "allocations",
            Tab::Map => "map",
            Tab::WhatIf => "what-if",
        }
    }
}

/// How a tree of what is alive is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Chart {
    /// Boxes in boxes.
    #[default]
    Treemap,
    /// Callers above callees.
    Flame,
}

/// What the horizontal axis measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Axis {
    /// Event index.
    #[default]
    Event,
    /// Time.
    Time,
}

/// Which picture is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Picture {
    /// Live allocations, stacked, under the lines.
    #[default]
    Mountain,
    /// The four series alone.
    Lines,
}

/// What is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Selection {
    /// A block.
    Block(BlockIdx),
    /// A band: the group's key.
    Group(u32),
}

/// A moment that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum When {
    /// Before the first event.
    Start,
    /// After an event.
    After(EventIdx),
}

impl When {
    /// The event, or the first one, for what can be told of events only.
    pub const fn nearest(self) -> EventIdx {
        match self {
            When::Start => EventIdx(0),
            When::After(event) => event,
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Start => f.write_str(START),
            When::After(event) => write!(f, "{event}"),
        }
    }
}

/// Everything that a link to a run page reopens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ViewState {
    /// CUDA ordinal; `None`: the main device of the run (`RunSummary::main_device`).
    pub device: Option<DeviceIdx>,
    /// The key of the loop whose iterations are the steps; `None`: the one that is found.
    pub steps: Option<String>,
    /// First and last visible event, fractional; `None`: all.
    pub window: Option<(f64, f64)>,
    /// Lowest and highest visible level, bytes; `None`: from zero to what the trace needs.
    pub levels: Option<(f64, f64)>,
    /// Horizontal axis.
    pub axis: Axis,
    /// What a band stands for.
    pub group_by: GroupBy,
    /// Which picture.
    pub picture: Picture,
    /// What is selected.
    pub selection: Option<Selection>,
    /// What is shown below the picture.
    pub tab: Tab,
    /// The moment that is asked about; `None`: the last event.
    pub at: Option<When>,
    /// A moment to compare it with.
    pub compared_with: Option<EventIdx>,
    /// What the groups of what is alive stand for.
    pub by: Dimension,
    /// How they are drawn.
    pub chart: Chart,
    /// Key of the node that fills the drawing; `None`: all of it.
    pub root: Option<u64>,
    /// What the bands of the growth chart stand for; `None`: call shapes.
    pub growth_by: Option<Dimension>,
    /// Which allocations are listed. Its `site` is the selected leak group, its `of` the selected
    /// band of another grouping.
    pub filter: AllocationFilter,
    /// The conditions of a what-if question.
    pub what_if: Conditions,
}

/// The query is not a view state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadViewState {
    /// Written by a newer version.
    #[error("this link was made by a newer Tidemark (view version {0}); update the server")]
    TooNew(u32),
    /// A field does not parse.
    #[error("the link's `{0}` is not understood; the rest of the view is shown")]
    Field(&'static str),
}

/// The query, without `?`; empty for the default view.
impl fmt::Display for ViewState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v={VERSION}")?;
        if let Some(device) = self.device {
            write!(f, "&dev={device}")?;
        }
        if let Some(level) = &self.steps {
            write!(f, "&steps={}", encode(level))?;
        }
        if let Some((from, to)) = self.window {
            // Two decimals of an event are finer than a pixel; rounding outwards keeps the window.
            let (from, to) = ((from * 100.0).floor() / 100.0, (to * 100.0).ceil() / 100.0);
            write!(f, "&from={from}&to={to}")?;
        }
        if let Some((low, high)) = self.levels {
            write!(f, "&low={}&high={}", low.floor(), high.ceil())?;
        }
        if self.axis == Axis::Time {
            f.write_str("&axis=time")?;
        }
        if self.group_by != GroupBy::default() {
            write!(f, "&group={}", self.group_by.name())?;
        }
        if self.picture == Picture::Lines {
            f.write_str("&show=lines")?;
        }
        match self.selection {
            Some(Selection::Block(block)) => write!(f, "&sel=b{}", block.0)?,
            Some(Selection::Group(key)) => write!(f, "&sel=g{key}")?,
            None => {}
        }
        self.fmt_questions(f)
    }
}

impl ViewState {
    /// What versions 2 and 3 added.
    fn fmt_questions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tab != Tab::default() {
            write!(f, "&tab={}", self.tab.name())?;
        }
        if let Some(at) = self.at {
            write!(f, "&at={at}")?;
        }
        if let Some(other) = self.compared_with {
            write!(f, "&vs={other}")?;
        }
        if self.by != Dimension::default() {
            write!(f, "&by={}", self.by.name())?;
        }
        if self.chart == Chart::Flame {
            f.write_str("&chart=flame")?;
        }
        if let Some(root) = self.root {
            write!(f, "&root={root:016x}")?;
        }
        if let Some(by) = self.growth_by {
            write!(f, "&grow={}", by.name())?;
        }
        f.write_str(&self.filter.query())?;
        f.write_str(&self.what_if.query())
    }
}

impl ViewState {
    /// The same view without parts that may show a name: the searched text, and keys that are made
    /// of names.
    pub fn without_names(mut self) -> ViewState {
        self.root = None;
        // The key of a loop is a file and a function.
        self.steps = None;
        self.filter = self.filter.without_names();
        // The key of a call site is made of its functions.
        self.what_if.gone = None;
        self
    }

    /// Reads a query (without `?`). Unknown keys are ignored. A field that cannot be read keeps its
    /// default and is reported beside the state.
    ///
    /// # Errors
    /// [`BadViewState::TooNew`] when the query was written by a newer version.
    pub fn parse(query: &str) -> Result<(ViewState, Vec<BadViewState>), BadViewState> {
        let pairs = || query.split('&').filter_map(|pair| pair.split_once('='));
        let stated = pairs().find(|(key, _)| *key == "v").map(|(_, value)| value);
        // A query without a version was written by hand: it counts as the newest.
        let version = match stated.map(str::parse::<u32>) {
            Some(Ok(version)) if version > VERSION => return Err(BadViewState::TooNew(version)),
            Some(Ok(version)) => version,
            _ => VERSION,
        };
        let mut reading = Reading::default();
        if stated.is_some_and(|text| text.parse::<u32>().is_err()) {
            reading.problems.push(BadViewState::Field("v"));
        }
        for (key, value) in pairs().filter(|(key, _)| is_known(version, key)) {
            if let Err(field) = reading.take(key, value) {
                reading.problems.push(BadViewState::Field(field));
            }
        }
        Ok(reading.finish())
    }
}

/// The upgrade from older versions: a key that the older version ignored is still ignored, even if
/// it has a meaning now.
fn is_known(version: u32, key: &str) -> bool {
    let is_newer = |(since, keys): &(u32, &[&str])| *since > version && keys.contains(&key);
    let is_of_1 = KEYS_OF_1.contains(&key);
    (is_of_1 || version > 1) && !ADDED.iter().any(is_newer)
}

/// A query that is being read.
#[derive(Default)]
struct Reading {
    state: ViewState,
    problems: Vec<BadViewState>,
    window: Ends,
    levels: Ends,
}

/// The ends of a range, as far as they were read.
type Ends = (Option<f64>, Option<f64>);

impl Reading {
    /// Takes a pair; `Err` with its key if the value is not understood.
    fn take(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        let state = &mut self.state;
        match key {
            "dev" => set(&mut state.device, value.parse().ok().map(Some), "dev"),
            "steps" => set(&mut state.steps, level(value).map(Some), "steps"),
            "from" => set(&mut self.window.0, finite(value).map(Some), "from"),
            "to" => set(&mut self.window.1, finite(value).map(Some), "to"),
            "low" => set(&mut self.levels.0, finite(value).map(Some), "low"),
            "high" => set(&mut self.levels.1, finite(value).map(Some), "high"),
            "axis" => set(&mut state.axis, axis(value), "axis"),
            "group" => set(&mut state.group_by, value.parse().ok(), "group"),
            "show" => set(&mut state.picture, picture(value), "show"),
            "sel" => set(&mut state.selection, selection(value).map(Some), "sel"),
            "tab" => {
                let found = Tab::ALL.into_iter().find(|tab| tab.name() == value);
                set(&mut state.tab, found, "tab")
            }
            "at" => set(&mut state.at, when(value).map(Some), "at"),
            "vs" => set(&mut state.compared_with, event(value).map(Some), "vs"),
            "by" => set(&mut state.by, value.parse().ok(), "by"),
            "grow" => set(&mut state.growth_by, value.parse().ok().map(Some), "grow"),
            "chart" => set(&mut state.chart, chart(value), "chart"),
            "root" => {
                let key = u64::from_str_radix(value, 16).ok();
                set(&mut state.root, key.map(Some), "root")
            }
            key => match (
                state.filter.take(key, value),
                state.what_if.take(key, value),
            ) {
                (Some(false), _) => Err("filter"),
                (_, Some(false)) => Err("what if"),
                _ => Ok(()),
            },
        }
    }

    fn finish(mut self) -> (ViewState, Vec<BadViewState>) {
        self.state.window = self.ends(self.window, ["from", "to"]);
        self.state.levels = self.ends(self.levels, ["low", "high"]);
        (self.state, self.problems)
    }

    /// The range between two ends. Where one of them was not understood, that has been said.
    fn ends(&mut self, ends: Ends, keys: [&'static str; 2]) -> Option<(f64, f64)> {
        let read = range(ends);
        let keys = keys.map(BadViewState::Field);
        if read.is_none() && !keys.iter().any(|key| self.problems.contains(key)) {
            let [first, _] = keys;
            self.problems.push(first);
        }
        read.flatten()
    }
}

/// Sets a field to the value that was read. If it was not understood, the field stays as it is.
fn set<T>(field: &mut T, read: Option<T>, key: &'static str) -> Result<(), &'static str> {
    *field = read.ok_or(key)?;
    Ok(())
}

/// Both ends in order, or neither; everything else is not a range.
fn range(ends: Ends) -> Option<Option<(f64, f64)>> {
    match ends {
        (Some(start), Some(end)) if start < end => Some(Some((start, end))),
        (None, None) => Some(None),
        _ => None,
    }
}

fn finite(value: &str) -> Option<f64> {
    decimal(value).filter(|x| *x >= 0.0)
}

fn axis(value: &str) -> Option<Axis> {
    match value {
        "event" => Some(Axis::Event),
        "time" => Some(Axis::Time),
        _ => None,
    }
}

fn picture(value: &str) -> Option<Picture> {
    match value {
        "mountain" => Some(Picture::Mountain),
        "lines" => Some(Picture::Lines),
        _ => None,
    }
}

fn chart(value: &str) -> Option<Chart> {
    match value {
        "treemap" => Some(Chart::Treemap),
        "flame" => Some(Chart::Flame),
        _ => None,
    }
}

fn level(value: &str) -> Option<String> {
    let level = decode(value);
    (!level.is_empty() && level.len() <= MAX_LEVEL).then_some(level)
}

fn when(value: &str) -> Option<When> {
    match value {
        START => Some(When::Start),
        _ => event(value).map(When::After),
    }
}

fn event(value: &str) -> Option<EventIdx> {
    value.parse().ok().map(EventIdx)
}

fn selection(value: &str) -> Option<Selection> {
    match value.split_at_checked(1)? {
        ("b", block) => Some(Selection::Block(BlockIdx(block.parse().ok()?))),
        ("g", key) => Some(Selection::Group(key.parse().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_survives_its_query() {
        let state = ViewState {
            device: Some(DeviceIdx(1)),
            steps: Some("train & more.main-2".to_owned()),
            window: Some((120.5, 9000.25)),
            levels: Some((4096.0, 81_604_378_624.0)),
            axis: Axis::Time,
            group_by: GroupBy::Stream,
            picture: Picture::Lines,
            selection: Some(Selection::Block(BlockIdx(42))),
            tab: Tab::Alive,
            at: Some(When::After(EventIdx(5000))),
            compared_with: Some(EventIdx(9000)),
            by: Dimension::Module,
            chart: Chart::Flame,
            root: Some(0x00ff_00ff_1234_5678),
            growth_by: Some(Dimension::Pool),
            filter: AllocationFilter {
                q: "unpack & stash".to_owned(),
                site: Some("s0123456789abcdef".to_owned()),
                of: Some("pool:small-0-1".to_owned()),
                min: Some(1 << 20),
                ..AllocationFilter::default()
            },
            what_if: Conditions {
                alloc_conf: Some("max_split_size_mb:128,expandable_segments:True".to_owned()),
                limit: Some("24 GiB".to_owned()),
                without_leaks: true,
                gone: Some("s0123456789abcdef,z4096".to_owned()),
            },
        };
        assert_eq!(ViewState::parse(&state.to_string()), Ok((state, vec![])));
        let default = ViewState::default();
        assert_eq!(ViewState::parse(""), Ok((default.clone(), vec![])));
        assert_eq!(
            ViewState::parse(&default.to_string()),
            Ok((default, vec![]))
        );
    }

    #[test]
    fn the_moment_before_the_first_event_has_a_word() {
        let state = ViewState {
            tab: Tab::Alive,
            at: Some(When::Start),
            ..ViewState::default()
        };
        assert_eq!(state.to_string(), "v=5&tab=alive&at=start");
        assert_eq!(ViewState::parse(&state.to_string()), Ok((state, vec![])));
        let (state, problems) = ViewState::parse("at=begin&vs=start").unwrap();
        assert_eq!((state.at, state.compared_with), (None, None));
        assert_eq!(problems, ["at", "vs"].map(BadViewState::Field));
    }

    #[test]
    fn what_is_not_understood_is_reported_and_the_rest_kept() {
        let (state, problems) = ViewState::parse("v=1&dev=2&axis=sideways&new=1").unwrap();
        assert_eq!(state.device, Some(DeviceIdx(2)));
        assert_eq!(problems, vec![BadViewState::Field("axis")]);
        assert_eq!(ViewState::parse("v=99"), Err(BadViewState::TooNew(99)));
        let (state, problems) = ViewState::parse("tab=leaks&min=much&root=zz").unwrap();
        assert_eq!(state.tab, Tab::Leaks);
        let fields = ["filter", "root"].map(BadViewState::Field);
        assert_eq!(problems, fields);
        let check = |query: &str, fields: &[&'static str]| {
            let (state, problems) = ViewState::parse(query).unwrap();
            let fields: Vec<_> = fields.iter().copied().map(BadViewState::Field).collect();
            assert_eq!((state.window, problems), (None, fields), "{query}");
        };
        check("from=NaN&to=3", &["from"]);
        check("from=1&to=x", &["to"]);
        check("from=x&axis=x&to=3", &["from", "axis"]);
        check("from=3&to=1", &["from"]);
    }

    #[test]
    fn links_of_version_1_open_what_they_did() {
        let check = |link: &str, expected: ViewState| {
            assert_eq!(ViewState::parse(link), Ok((expected, vec![])), "{link}");
        };
        check(
            "v=1&dev=1&from=120.5&to=9000&low=0&high=4096&axis=time&group=stream&show=lines\
             &sel=b42",
            ViewState {
                device: Some(DeviceIdx(1)),
                window: Some((120.5, 9000.0)),
                levels: Some((0.0, 4096.0)),
                axis: Axis::Time,
                group_by: GroupBy::Stream,
                picture: Picture::Lines,
                selection: Some(Selection::Block(BlockIdx(42))),
                ..ViewState::default()
            },
        );
        check(
            "v=1&sel=g7",
            ViewState {
                selection: Some(Selection::Group(7)),
                ..ViewState::default()
            },
        );
        check("v=1", ViewState::default());
        // An old version ignored unknown keys, and they stay ignored even if they have a meaning
        // now.
        check(
            "v=1&tab=leaks&at=5&q=x&utm_source=mail",
            ViewState::default(),
        );
    }

    #[test]
    fn links_of_version_4_ignore_what_version_5_added() {
        let (state, problems) = ViewState::parse("v=4&tab=leaks&limit=9&gone=x").unwrap();
        assert_eq!(
            (state.tab, state.what_if),
            (Tab::Leaks, Conditions::default())
        );
        assert_eq!(problems, []);
        let (_, problems) = ViewState::parse("v=5&without_leaks=perhaps").unwrap();
        assert_eq!(problems, [BadViewState::Field("what if")]);
    }

    #[test]
    fn links_of_version_2_open_what_they_did() {
        let expected = ViewState {
            tab: Tab::Leaks,
            by: Dimension::Module,
            filter: AllocationFilter {
                site: Some("z4096".to_owned()),
                ..AllocationFilter::default()
            },
            ..ViewState::default()
        };
        let link = "v=2&tab=leaks&by=module&site=z4096";
        assert_eq!(ViewState::parse(link), Ok((expected.clone(), vec![])));
        let ignored = format!("{link}&grow=file&of=file:a.py&steps=a.b");
        assert_eq!(ViewState::parse(&ignored), Ok((expected, vec![])));
    }

    #[test]
    fn links_of_version_3_open_what_they_did() {
        let expected = ViewState {
            growth_by: Some(Dimension::Module),
            ..ViewState::default()
        };
        let link = "v=3&grow=module&steps=train.main";
        assert_eq!(ViewState::parse(link), Ok((expected, vec![])));
    }
}
