//! What a group stands for: a stack, a module, a file, a function, a category, a stream, a pool.

use super::{Cell, Tally};
use crate::categories::{Category, Named, is_inferred};
use crate::clip::clipped;
use crate::site::{self, SiteKey};
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks};
use crate::tiles::{self, FROM_BEFORE, frame_label, stack_label};
use crate::trace::{BlockKind, Blocks, DeviceTrace, PoolId, PoolSize};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::str::FromStr;

/// How blocks are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Dimension {
    /// The call shape, which survives edits: equal in any two traces of a program.
    Site,
    /// The recorded stack.
    #[default]
    Stack,
    /// The Python module of the stack's headline frame.
    Module,
    /// Its file.
    File,
    /// Its function.
    Function,
    /// What it is for ([`crate::categories`]): as recorded, else inferred.
    Category,
    /// The stream.
    Stream,
    /// The memory pool.
    Pool,
}

impl Dimension {
    /// All, in the order in which a menu offers them.
    pub const ALL: [Dimension; 8] = [
        Dimension::Stack,
        Dimension::Module,
        Dimension::File,
        Dimension::Function,
        Dimension::Category,
        Dimension::Stream,
        Dimension::Pool,
        Dimension::Site,
    ];

    /// Whether groups are places in the code: blocks without a stack then belong to the place that
    /// is inferred for them.
    pub const fn is_place(self) -> bool {
        !matches!(
            self,
            Dimension::Category | Dimension::Stream | Dimension::Pool
        )
    }

    /// Lower-case name, as in URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Dimension::Site => "site",
            Dimension::Stack => "stack",
            Dimension::Module => "module",
            Dimension::File => "file",
            Dimension::Function => "function",
            Dimension::Category => "category",
            Dimension::Stream => "stream",
            Dimension::Pool => "pool",
        }
    }
}

/// The name is not a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a grouping: use site, stack, module, file, function, category, stream or pool")]
pub struct UnknownDimension;

impl FromStr for Dimension {
    type Err = UnknownDimension;
    fn from_str(name: &str) -> Result<Dimension, UnknownDimension> {
        let found = Dimension::ALL.into_iter().find(|d| d.name() == name);
        found.ok_or(UnknownDimension)
    }
}

/// The name of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name in addresses and filters.
    pub key: String,
    /// The name for people.
    pub text: String,
    /// The stack that holds most of it, to be shown; [`StackIdx::NONE`]: none. Until
    /// [`Grouping::name_by_most`]: the stack it was first met with.
    pub stack: StackIdx,
    /// Whether its name was inferred rather than recorded.
    pub inferred: bool,
}

/// A stack, and whether it was inferred.
type PlaceKey = (StackIdx, bool);

/// What is known of a stack.
struct OfPlace {
    group: u32,
    /// How much of its group it holds: bytes, or any measure that is the same for all.
    weight: u64,
}

/// Puts cells into groups.
pub struct Grouping<'a> {
    by: Dimension,
    blocks: &'a Blocks,
    stacks: &'a Stacks,
    known: FxHashMap<String, u32>,
    /// The groups so far.
    pub labels: Vec<Label>,
    of_stack: FxHashMap<PlaceKey, OfPlace>,
    /// Bytes of the names.
    named: usize,
}

impl<'a> Grouping<'a> {
    /// Groups of a device.
    pub fn new(device: &'a DeviceTrace, stacks: &'a Stacks, by: Dimension) -> Grouping<'a> {
        Grouping {
            by,
            blocks: &device.blocks,
            stacks,
            known: FxHashMap::default(),
            labels: Vec::new(),
            of_stack: FxHashMap::default(),
            named: 0,
        }
    }

    /// About how many heap bytes it uses.
    pub fn heap_bytes(&self) -> usize {
        // Its place in the map, and among the lines of its group.
        const PER_STACK: usize = 64;
        // The name of a group, its place in the map, and what the allocator rounds up to.
        const PER_GROUP: usize = 192;
        self.named + self.labels.len() * PER_GROUP + self.of_stack.len() * PER_STACK
    }

    /// What the groups stand for.
    pub fn by(&self) -> Dimension {
        self.by
    }

    /// Sums cells up by group, most bytes first; the numbers are positions in `labels`.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn sum(&mut self, cells: &[Cell], watch: Watch<'_>) -> Result<Vec<(u32, Tally)>, Stopped> {
        let mut sums: Vec<Tally> = Vec::new();
        let watch = watch.beside(size_of_val(cells));
        for (row, cell) in cells.iter().enumerate() {
            watch.at_row(row, || self.heap_bytes() + sums.len() * size_of::<Tally>())?;
            let group = self.group_of(cell) as usize;
            sums.resize(sums.len().max(group + 1), Tally::default());
            sums[group].join(cell.tally);
            self.weigh(cell, cell.tally.bytes.0);
        }
        self.name_by_most();
        let sums = sums.into_iter().enumerate().filter(|(_, t)| t.count > 0);
        let mut sums: Vec<(u32, Tally)> = sums.map(|(g, t)| (g as u32, t)).collect();
        sums.sort_by_key(|(group, tally)| (Reverse(tally.bytes), *group));
        Ok(sums)
    }

    /// The group of a cell.
    pub fn group_of(&mut self, cell: &Cell) -> u32 {
        let kind = &self.blocks.kinds[cell.kind.index()];
        let (stack, inferred) = self.place_of(cell);
        let by_stack = self.is_by_stack(cell, stack);
        if by_stack && let Some(known) = self.of_stack.get(&(stack, inferred)) {
            return known.group;
        }
        let label = self.label(cell, kind, stack, inferred);
        let next = self.labels.len() as u32;
        let group = *self.known.entry(label.key.clone()).or_insert(next);
        if group == next {
            self.named += 2 * label.key.len() + label.text.len();
            self.labels.push(label);
        }
        if self.by == Dimension::Category {
            self.labels[group as usize].inferred |= self.is_category_inferred(cell, kind);
        }
        if by_stack {
            let known = OfPlace { group, weight: 0 };
            self.of_stack.insert((stack, inferred), known);
        }
        group
    }

    /// Counts what a cell, whose group is known, holds of its group.
    pub(super) fn weigh(&mut self, cell: &Cell, weight: u64) {
        let place = self.place_of(cell);
        if self.is_by_stack(cell, place.0)
            && let Some(known) = self.of_stack.get_mut(&place)
        {
            known.weight = known.weight.saturating_add(weight);
        }
    }

    /// Who called each of these groups ([`tiles::callers`]). Groups that are no lines of code are
    /// named by what they are.
    pub fn callers(&self, labels: &[&Label]) -> Vec<String> {
        if !matches!(self.by, Dimension::Site | Dimension::Stack) {
            return vec![String::new(); labels.len()];
        }
        let stacks: Vec<StackIdx> = labels.iter().map(|label| label.stack).collect();
        let texts: Vec<&str> = labels.iter().map(|label| &*label.text).collect();
        tiles::callers(self.stacks, &stacks, &texts)
    }

    /// Names each group after the stack that holds most of it. A site may have several lines, which
    /// its name then says.
    pub(super) fn name_by_most(&mut self) {
        if !self.by.is_place() || self.by == Dimension::Stack {
            return;
        }
        let mut most: FxHashMap<u32, (u64, Reverse<StackIdx>)> = FxHashMap::default();
        let mut lines: FxHashMap<u32, HashSet<Frame>> = FxHashMap::default();
        for (&(stack, _), of_place) in &self.of_stack {
            // A stack that holds nothing of what is asked about is not worth a word.
            if of_place.weight == 0 {
                continue;
            }
            let this = (of_place.weight, Reverse(stack));
            let known = most.entry(of_place.group).or_insert(this);
            *known = this.max(*known);
            if self.by == Dimension::Site {
                let line = self.stacks.headline(stack);
                lines.entry(of_place.group).or_default().extend(line);
            }
        }
        for (group, (_, Reverse(stack))) in most {
            let label = &mut self.labels[group as usize];
            label.stack = stack;
            if self.by == Dimension::Site {
                let others = lines.get(&group).map_or(0, HashSet::len);
                label.text = site_text(self.stacks, stack, others.saturating_sub(1));
                if label.inferred {
                    label.text = backward_of(&label.text);
                }
            }
        }
    }

    /// The stack of a cell, and whether it is inferred.
    fn place_of(&self, cell: &Cell) -> PlaceKey {
        match cell.forward {
            StackIdx::NONE => (self.blocks.kinds[cell.kind.index()].alloc_stack, false),
            forward => (forward, true),
        }
    }

    /// Whether the stack alone says which group a cell is in.
    fn is_by_stack(&self, cell: &Cell, stack: StackIdx) -> bool {
        let by_stack =
            self.by.is_place() && (self.by != Dimension::Site || stack != StackIdx::NONE);
        // Blocks from before the recording have no stack. Neither have autograd's blocks, but the
        // two are different groups.
        by_stack && !is_from_before(cell, stack)
    }

    /// That a block is from before the recording is a fact. Other categories are facts only if the
    /// recorder noted them.
    fn is_category_inferred(&self, cell: &Cell, kind: &BlockKind) -> bool {
        let category = cell.category.unwrap_or(Named::Ours(Category::Unknown));
        category != Category::Before && is_inferred(self.stacks, kind, category)
    }

    fn label(&self, cell: &Cell, kind: &BlockKind, stack: StackIdx, inferred: bool) -> Label {
        let (key, text) = match self.by {
            Dimension::Category => {
                let category = cell.category.unwrap_or(Named::Ours(Category::Unknown));
                (category.name().to_owned(), category.label().to_owned())
            }
            Dimension::Stream => stream_label(kind.stream),
            by if by.is_place() && by != Dimension::Site && is_from_before(cell, stack) => {
                ("before".to_owned(), FROM_BEFORE.to_owned())
            }
            Dimension::Pool => pool_label(kind.pool, kind.pool_size),
            Dimension::Site => self.site_label(kind, stack),
            Dimension::Stack => (stack.0.to_string(), stack_label(self.stacks, stack)),
            by => self.frame_label(by, stack),
        };
        let of_place = self.by.is_place();
        match inferred && of_place {
            true => Label {
                key: format!("backward:{key}"),
                text: backward_of(&text),
                stack,
                inferred: true,
            },
            false => Label {
                key,
                text,
                stack: if of_place { stack } else { StackIdx::NONE },
                inferred: false,
            },
        }
    }

    fn site_label(&self, kind: &BlockKind, stack: StackIdx) -> (String, String) {
        let place = BlockKind {
            alloc_stack: stack,
            ..*kind
        };
        let key = site::key(self.stacks, &place);
        let text = match key {
            SiteKey::Shape(_) => site_text(self.stacks, stack, 0),
            SiteKey::Size(size) => no_stack_of(size),
        };
        (key.to_string(), text)
    }

    fn frame_label(&self, by: Dimension, stack: StackIdx) -> (String, String) {
        let Some(frame) = self.stacks.headline(stack) else {
            return ("-".to_owned(), NO_STACK.to_owned());
        };
        let file = self.stacks.str(frame.filename);
        let text = match by {
            Dimension::File => clipped(file, LONGEST_NAME).into_owned(),
            Dimension::Module => clipped(&site::module_name(file), LONGEST_NAME).into_owned(),
            _ => function_label(self.stacks, frame),
        };
        match text.is_empty() {
            // No key may be empty: the empty key stands for all the groups without a band of their
            // own.
            true => ("?".to_owned(), UNKNOWN.to_owned()),
            false => (text.clone(), text),
        }
    }
}

/// A site's name: the line that holds most, and how many other lines it has.
fn site_text(stacks: &Stacks, stack: StackIdx, others: usize) -> String {
    let line = stack_label(stacks, stack);
    match others {
        0 => line,
        1 => format!("{line} and 1 other line"),
        n => format!("{line} and {n} other lines"),
    }
}

fn backward_of(place: &str) -> String {
    format!("backward of {place}")
}

/// Whether a cell was there before the recording and has no stack.
fn is_from_before(cell: &Cell, stack: StackIdx) -> bool {
    cell.preexisting && stack == StackIdx::NONE
}

/// Longest name of a group, bytes. There may be as many groups as kinds of blocks.
const LONGEST_NAME: usize = 512;

const NO_STACK: &str = "no stack recorded";
const UNKNOWN: &str = "file unknown";

/// The name for blocks without a stack: their size distinguishes them.
pub(super) fn no_stack_of(size: Bytes) -> String {
    format!("no stack recorded, {size} each")
}

fn function_label(stacks: &Stacks, frame: Frame) -> String {
    let function = Frame { line: 0, ..frame };
    frame_label(stacks, function)
}

fn stream_label(stream: u64) -> (String, String) {
    let text = match stream {
        small @ 0..=2 => format!("stream {small}"),
        handle => format!("stream {handle:#x}"),
    };
    (stream.to_string(), text)
}

fn pool_label(pool: PoolId, size: PoolSize) -> (String, String) {
    let size = match size {
        PoolSize::Small => "small",
        PoolSize::Large => "large",
    };
    match pool {
        PoolId(0, 0) => (size.to_owned(), format!("{size} pool")),
        PoolId(a, b) => (
            format!("{size}-{a}-{b}"),
            format!("private {size} pool ({a}, {b})"),
        ),
    }
}
