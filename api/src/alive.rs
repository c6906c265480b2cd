//! What is alive at a moment, what was allocated and freed between two moments, how memory grew,
//! and single allocations.

use crate::frames::ForwardOp;
use crate::leaks::step;
use crate::query::{decode, encode};
use serde::{Deserialize, Serialize};
use trace::alive::Dimension;
use trace::site::SiteKey;
use trace::units::{Bytes, EventIdx};

/// Version of these answers; part of their entity tags.
pub const VERSION: u32 = 16;

/// The largest number of groups in an answer; the others are only counted.
pub const MAX_GROUPS: usize = 500;

/// The largest number of allocations on a page.
pub const MAX_PAGE: usize = 500;

/// How many blocks, and their sizes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tally {
    /// Blocks.
    pub count: u64,
    /// Σ block sizes.
    pub bytes: Bytes,
}

/// A group's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupShare {
    /// Names it among the groups of the same run and grouping.
    pub key: String,
    /// For people.
    pub label: String,
    /// The program's call, where several groups have one label, or where the label is a line of a
    /// framework: `forward model.py:80`. Else empty.
    pub caller: String,
    /// Whether its name was inferred rather than recorded.
    pub inferred: bool,
    /// Its stack, where it has one.
    pub stack: Option<u32>,
    /// Its blocks.
    pub tally: Tally,
}

/// A node of the treemap and the flame graph; its parent comes before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TreeNode {
    /// Position of its parent; absent for the root.
    pub parent: Option<u32>,
    /// Names its path, hexadecimal: equal wherever the path is.
    pub key: String,
    /// What it is.
    pub label: String,
    /// All blocks below it.
    pub tally: Tally,
}

/// What is alive at an event: sums to *allocated* after it. A recording of a state alone has no
/// event; then it is what the state holds, with the blocks that wait for another stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Alive {
    /// The event; absent where the recording has none.
    pub event: Option<EventIdx>,
    /// The step it lies in.
    pub step: Option<String>,
    /// What the groups stand for.
    pub by: Dimension,
    /// All of it.
    pub total: Tally,
    /// The groups, most bytes first.
    pub groups: Vec<GroupShare>,
    /// Groups that were not sent.
    pub groups_left_out: u64,
    /// The groups as a tree, with the stacks below them.
    pub tree: Vec<TreeNode>,
    /// Nodes that were too small to be sent.
    pub tree_left_out: u64,
}

/// What was allocated and freed between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changes {
    /// The first moment.
    pub from: EventIdx,
    /// The second one.
    pub to: EventIdx,
    /// What the groups stand for.
    pub by: Dimension,
    /// *Allocated* at the first moment.
    pub allocated_from: Bytes,
    /// *Allocated* at the second one.
    pub allocated_to: Bytes,
    /// Alive at the second moment and not at the first.
    pub came: Part,
    /// Alive at the first moment and not at the second.
    pub went: Part,
    /// Allocated after the first moment and given back before the second.
    pub passed: Tally,
}

/// Groups of blocks that were allocated, or freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Part {
    /// All of it.
    pub total: Tally,
    /// The groups, most bytes first.
    pub groups: Vec<GroupShare>,
    /// Groups that were not sent.
    pub left_out: u64,
}

/// A moment of a growth chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GrowthMoment {
    /// The event.
    pub event: EventIdx,
    /// The step that ends there; absent where there are no steps.
    pub step: Option<String>,
}

/// A group over the moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GrowthBand {
    /// Names it; empty for all other groups together.
    pub key: String,
    /// For people. A backward allocation without a Python stack is called by the forward operation
    /// that it belongs to.
    pub label: String,
    /// Whether its name was inferred rather than recorded.
    pub inferred: bool,
    /// Its stack, where it has one.
    pub stack: Option<u32>,
    /// Bytes alive at each moment.
    pub bytes: Vec<u64>,
    /// Blocks alive at each moment.
    pub counts: Vec<u64>,
}

/// What is alive at the end of each step, by group: sums to *allocated*.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Growth {
    /// What the bands stand for.
    pub by: Dimension,
    /// The last event of each step; without steps, evenly spaced events.
    pub moments: Vec<GrowthMoment>,
    /// The groups that change most, and last all other groups together.
    pub bands: Vec<GrowthBand>,
    /// Groups that share the last band.
    pub others: u64,
}

/// One allocation in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AllocationRow {
    /// Its index.
    pub block: u32,
    /// Bytes of the block.
    pub size: Bytes,
    /// Requested bytes.
    pub requested: Bytes,
    /// The event that allocated it; absent when before the trace.
    pub alloc: Option<EventIdx>,
    /// The event at which the program gave it back; absent when not in the trace.
    pub freed: Option<EventIdx>,
    /// Whether the program had given it back before the trace began, while other streams used it.
    #[serde(default)]
    pub freed_before: bool,
    /// The step it was allocated in.
    pub step: Option<String>,
    /// Ends of steps that it has outlived.
    pub age: u32,
    /// Raw stream handle.
    pub stream: u64,
    /// Where it was allocated, in one line.
    pub label: String,
    /// The forward operation of a backward allocation, inferred.
    pub forward: Option<ForwardOp>,
}

/// A page of allocations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AllocationPage {
    /// All that was found.
    pub total: Tally,
    /// How many come before this page.
    pub offset: u64,
    /// This page.
    pub items: Vec<AllocationRow>,
    /// What one of the device's steps is called: `step`, or `token`, `request` and so on.
    #[serde(default = "step")]
    pub step: String,
}

/// In which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// By allocation.
    #[default]
    Oldest,
    /// By allocation, the last first.
    Newest,
    /// By size.
    Largest,
}

impl Sort {
    /// All, in the order of the menu.
    pub const ALL: [Sort; 3] = [Sort::Oldest, Sort::Newest, Sort::Largest];

    /// The name in addresses.
    pub const fn name(self) -> &'static str {
        match self {
            Sort::Oldest => "oldest",
            Sort::Newest => "newest",
            Sort::Largest => "largest",
        }
    }
}

/// `small`, `large`, `0-1`, `small-0-1`.
fn is_pool(text: &str) -> bool {
    let number = |part: &str| part.parse::<u64>().is_ok();
    let mut parts = text.split('-');
    parts.all(|part| matches!(part, "small" | "large") || number(part))
}

/// Which allocations to list; the default lists all. A part of a query, of the API's as of a
/// link's: the keys are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct AllocationFilter {
    /// Of any frame, part of the function or the path, `file:line`, or `function file:line`; or
    /// part of what the stack is called. In any case.
    #[serde(default)]
    pub q: String,
    /// The call shape, as in leak groups.
    pub site: Option<String>,
    /// The group: what groups stand for, a colon, and the group's key as in what is alive and in
    /// growth: `module:torch.nn.modules.linear`, `stream:0`.
    pub of: Option<String>,
    /// Block sizes from here, bytes.
    pub min: Option<u64>,
    /// Block sizes up to here, bytes.
    pub max: Option<u64>,
    /// Least number of ends of steps outlived.
    pub older: Option<u32>,
    /// Greatest number of ends of steps outlived.
    pub younger: Option<u32>,
    /// Raw stream handle.
    pub stream: Option<u64>,
    /// `small`, `large`, or a private pool as `owner-user`.
    pub pool: Option<String>,
    /// Position of the first step in which it may have been allocated: 0 is the device's first
    /// step, whatever number the program gave it.
    pub born: Option<u32>,
    /// Position of the last step in which it may have been allocated.
    pub until: Option<u32>,
    /// An event at which it is alive; one after the last is refused.
    pub alive: Option<u32>,
    /// The order.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub sort: Sort,
}

impl AllocationFilter {
    /// The fields that are set, as `&key=value`.
    pub fn query(&self) -> String {
        let mut out = String::new();
        let mut text = |key: &str, value: &str| out += &format!("&{key}={}", encode(value));
        if !self.q.is_empty() {
            text("q", &self.q);
        }
        self.site.iter().for_each(|site| text("site", site));
        self.of.iter().for_each(|group| text("of", group));
        self.pool.iter().for_each(|pool| text("pool", pool));
        if self.sort != Sort::default() {
            text("sort", self.sort.name());
        }
        let numbers = [
            ("min", self.min),
            ("max", self.max),
            ("older", self.older.map(u64::from)),
            ("younger", self.younger.map(u64::from)),
            ("stream", self.stream),
            ("born", self.born.map(u64::from)),
            ("until", self.until.map(u64::from)),
            ("alive", self.alive.map(u64::from)),
        ];
        for (key, value) in numbers {
            value.iter().for_each(|n| text(key, &n.to_string()));
        }
        out
    }

    /// The same filter without parts that may show a name: the searched text, and keys that are
    /// made of names. Sizes, streams and pools are numbers and stay.
    pub fn without_names(mut self) -> AllocationFilter {
        self.q.clear();
        self.site = self.site.filter(|site| {
            let parsed = site.parse();
            matches!(parsed, Ok(SiteKey::Size(_)))
        });
        self.of = self.of.filter(|group| match group.split_once(':') {
            Some(("stream", stream)) => stream.parse::<u64>().is_ok(),
            Some(("pool", pool)) => is_pool(pool),
            _ => false,
        });
        self.pool = self.pool.filter(|pool| is_pool(pool));
        self
    }

    /// Takes a pair of a query. `None` if the key does not belong to this filter; otherwise whether
    /// the value was understood.
    pub fn take(&mut self, key: &str, value: &str) -> Option<bool> {
        fn number<T: std::str::FromStr>(value: &str, field: &mut Option<T>) -> bool {
            let parsed = value.parse().ok();
            let understood = parsed.is_some();
            *field = parsed;
            understood
        }
        fn word(value: &str, field: &mut Option<String>) -> bool {
            *field = Some(decode(value)).filter(|word| !word.is_empty());
            true
        }
        let understood = match key {
            "q" => {
                self.q = decode(value);
                true
            }
            "site" => word(value, &mut self.site),
            "of" => word(value, &mut self.of),
            "pool" => word(value, &mut self.pool),
            "sort" => {
                let found = Sort::ALL.into_iter().find(|sort| sort.name() == value);
                self.sort = found.unwrap_or_default();
                found.is_some()
            }
            "min" => number(value, &mut self.min),
            "max" => number(value, &mut self.max),
            "older" => number(value, &mut self.older),
            "younger" => number(value, &mut self.younger),
            "stream" => number(value, &mut self.stream),
            "born" => number(value, &mut self.born),
            "until" => number(value, &mut self.until),
            "alive" => number(value, &mut self.alive),
            _ => return None,
        };
        Some(understood)
    }

    /// How many of its fields are set, not counting the order.
    pub fn n_set(&self) -> usize {
        let numbers = [
            self.min.is_some(),
            self.max.is_some(),
            self.older.is_some(),
            self.younger.is_some(),
            self.stream.is_some(),
            self.pool.is_some(),
            self.born.is_some(),
            self.until.is_some(),
            self.alive.is_some(),
            self.site.is_some(),
            self.of.is_some(),
            !self.q.is_empty(),
        ];
        numbers.into_iter().filter(|&set| set).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_its_query() {
        let filter = AllocationFilter {
            q: "forward & back".to_owned(),
            site: Some("s00ff00ff00ff00ff".to_owned()),
            of: Some("module:torch.nn".to_owned()),
            min: Some(1 << 20),
            max: None,
            older: Some(2),
            younger: Some(7),
            stream: Some(0x7f00_1234),
            pool: Some("1-2".to_owned()),
            born: Some(3),
            until: Some(9),
            alive: Some(4242),
            sort: Sort::Largest,
        };
        let mut read = AllocationFilter::default();
        for (key, value) in filter.query().split('&').filter_map(|p| p.split_once('=')) {
            assert_eq!(read.take(key, value), Some(true), "{key}");
        }
        assert_eq!(read, filter);
        assert_eq!(read.n_set(), 11);
        assert_eq!(AllocationFilter::default().query(), "");
        assert_eq!(read.take("min", "much"), Some(false));
        assert_eq!(read.take("zoom", "1"), None);
    }
}
