//! The view state: everything that a link to a run page reopens, as its query.
//!
//! Version 1:
//! `v=1&dev=0&from=120.5&to=9000&low=0&high=4096&axis=event&group=stack&show=mountain&sel=b123`.
//! Defaults are left out. A newer version than [`VERSION`] is refused with a clear sentence; every
//! older one is upgraded step by step.

use serde::{Deserialize, Serialize};
use std::fmt;
use trace::tiles::GroupBy;
use trace::trace::BlockIdx;

/// The version written.
pub const VERSION: u32 = 1;

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

/// Everything that a link to a run page reopens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ViewState {
    /// CUDA ordinal; `None`: the device with most events.
    pub device: Option<u32>,
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
}

/// A query that is no view state.
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
        if let Some((from, to)) = self.window {
            // Two digits of an event are far below a pixel; rounding outwards keeps the window.
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
            Some(Selection::Block(block)) => write!(f, "&sel=b{}", block.0),
            Some(Selection::Group(key)) => write!(f, "&sel=g{key}"),
            None => Ok(()),
        }
    }
}

impl ViewState {
    /// Reads a query (without `?`). Unknown keys are ignored; a field that does not parse keeps
    /// its default and is reported beside the state.
    ///
    /// # Errors
    /// [`BadViewState::TooNew`] when the query was written by a newer version.
    pub fn parse(query: &str) -> Result<(ViewState, Vec<BadViewState>), BadViewState> {
        let mut state = ViewState::default();
        let mut problems = Vec::new();
        let (mut from, mut to) = (None, None);
        let (mut low, mut high) = (None, None);
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let understood = match key {
                "v" => match value.parse::<u32>() {
                    Ok(version) if version > VERSION => {
                        return Err(BadViewState::TooNew(version));
                    }
                    parsed => parsed.is_ok().then_some(()).ok_or("v"),
                },
                "dev" => value
                    .parse()
                    .map(|d| state.device = Some(d))
                    .map_err(|_| "dev"),
                "from" => finite(value).map(|x| from = Some(x)).ok_or("from"),
                "to" => finite(value).map(|x| to = Some(x)).ok_or("to"),
                "low" => finite(value).map(|x| low = Some(x)).ok_or("low"),
                "high" => finite(value).map(|x| high = Some(x)).ok_or("high"),
                "axis" => axis(value).map(|a| state.axis = a).ok_or("axis"),
                "group" => value
                    .parse()
                    .map(|g| state.group_by = g)
                    .map_err(|_| "group"),
                "show" => picture(value).map(|p| state.picture = p).ok_or("show"),
                "sel" => selection(value)
                    .map(|s| state.selection = Some(s))
                    .ok_or("sel"),
                _ => Ok(()),
            };
            if let Err(field) = understood {
                problems.push(BadViewState::Field(field));
            }
        }
        match range(from, to) {
            Some(window) => state.window = window,
            None => problems.push(BadViewState::Field("from")),
        }
        match range(low, high) {
            Some(levels) => state.levels = levels,
            None => problems.push(BadViewState::Field("low")),
        }
        Ok((state, problems))
    }
}

/// Both ends in order, or neither; anything else is no range.
fn range(start: Option<f64>, end: Option<f64>) -> Option<Option<(f64, f64)>> {
    match (start, end) {
        (Some(start), Some(end)) if start < end => Some(Some((start, end))),
        (None, None) => Some(None),
        _ => None,
    }
}

fn finite(value: &str) -> Option<f64> {
    value
        .parse()
        .ok()
        .filter(|x: &f64| x.is_finite() && *x >= 0.0)
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
            device: Some(1),
            window: Some((120.5, 9000.25)),
            levels: Some((4096.0, 81_604_378_624.0)),
            axis: Axis::Time,
            group_by: GroupBy::Stream,
            picture: Picture::Lines,
            selection: Some(Selection::Block(BlockIdx(42))),
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
    fn what_is_not_understood_is_reported_and_the_rest_kept() {
        let (state, problems) = ViewState::parse("v=1&dev=2&axis=sideways&new=1").unwrap();
        assert_eq!(state.device, Some(2));
        assert_eq!(problems, vec![BadViewState::Field("axis")]);
        assert_eq!(ViewState::parse("v=99"), Err(BadViewState::TooNew(99)));
    }
}
