//! What is alive, what was allocated and freed, and how memory grew.

use crate::decoded::Decoded;
use api::alive::{
    Alive, Changes, GroupShare, Growth, GrowthBand, GrowthMoment, MAX_GROUPS, Part, Tally, TreeNode,
};
use std::sync::Arc;
use timeline::format::plural;
use trace::alive::{self, Cell, Dimension, Grouping, Label, Subject, Tree};
use trace::categories::Categories;
use trace::intervals::LiveIndex;
use trace::site::SiteKey;
use trace::span::Span;
use trace::stacks::StackIdx;
use trace::trace::{DeviceTrace, Series, Trace};
use trace::units::EventIdx;
use trace::watch::{Stopped, Watch};

/// How many bands a growth chart has besides those of leak groups and the band of all others.
const TOP: usize = 11;

/// What is alive at an event. Of a recording without events, `at` is `None`, and what its state
/// holds is alive.
///
/// # Errors
/// [`Stopped`].
pub fn alive(
    decoded: &Decoded,
    device: &DeviceTrace,
    at: Option<EventIdx>,
    by: Dimension,
    watch: Watch<'_>,
) -> Result<Alive, Stopped> {
    let known = Known::of(decoded, device, Some(by));
    let subject = known.subject(&decoded.trace, device);
    let cells = alive::alive(subject, at, watch)?;
    let part = part(subject, &cells, by, MAX_GROUPS, watch)?;
    let tree = Tree::new(device, &decoded.trace.stacks, by, &cells, watch)?;
    Ok(Alive {
        event: at,
        step: at.and_then(|at| step_at(device, at)),
        by,
        total: part.total,
        groups: part.groups,
        groups_left_out: part.left_out,
        tree: tree
            .nodes
            .into_iter()
            .map(|node| TreeNode {
                parent: node.parent,
                key: format!("{:016x}", node.key),
                label: node.label,
                tally: tally(node.tally),
            })
            .collect(),
        tree_left_out: tree.left_out,
    })
}

/// What is alive at an event, by group, the largest first: all of them. `at` is as for [`alive()`].
///
/// # Errors
/// [`Stopped`].
pub fn groups(
    trace: &Trace,
    device: &DeviceTrace,
    at: Option<EventIdx>,
    by: Dimension,
    watch: Watch<'_>,
) -> Result<Vec<GroupShare>, Stopped> {
    let categories = || Arc::new(Categories::of(device, &trace.stacks));
    let known = Known {
        live: Arc::new(LiveIndex::new(&device.blocks)),
        categories: (by == Dimension::Category).then(categories),
    };
    let subject = known.subject(trace, device);
    let cells = alive::alive(subject, at, watch)?;
    Ok(part(subject, &cells, by, usize::MAX, watch)?.groups)
}

/// What was allocated and freed between two events.
///
/// # Errors
/// [`Stopped`].
pub fn changes(
    decoded: &Decoded,
    device: &DeviceTrace,
    events: Span<EventIdx>,
    by: Dimension,
    watch: Watch<'_>,
) -> Result<Changes, Stopped> {
    let known = Known::of(decoded, device, Some(by));
    let subject = known.subject(&decoded.trace, device);
    let allocated = |at| device.levels_at(at).get(Series::Allocated);
    let came = alive::came(subject, events, watch)?;
    let went = alive::went(subject, events, watch)?;
    Ok(Changes {
        from: events.start(),
        to: events.end(),
        by,
        allocated_from: allocated(events.start()),
        allocated_to: allocated(events.end()),
        came: part(subject, &came, by, MAX_GROUPS, watch)?,
        went: part(subject, &went, by, MAX_GROUPS, watch)?,
        passed: tally(alive::passed(subject, events, watch)?),
    })
}

/// What is alive at the end of each step. The sites in `leaking` always get a band.
///
/// # Errors
/// [`Stopped`].
pub fn growth(
    decoded: &Decoded,
    device: &DeviceTrace,
    by: Dimension,
    leaking: &[SiteKey],
    watch: Watch<'_>,
) -> Result<Growth, Stopped> {
    let known = Known::of(decoded, device, Some(by));
    let subject = known.subject(&decoded.trace, device);
    let moments = alive::moments(subject);
    let mut grouping = Grouping::new(device, &decoded.trace.stacks, by);
    let first: Vec<String> = match by {
        Dimension::Site => leaking.iter().take(TOP).map(SiteKey::to_string).collect(),
        _ => Vec::new(),
    };
    let growth = alive::growth(subject, &mut grouping, &moments, (&first, TOP), watch)?;
    let others = growth.others;
    let band = |band: alive::Band| match band.label {
        Some(label) => GrowthBand {
            stack: shown_stack(&label),
            inferred: label.inferred,
            key: label.key,
            label: label.text,
            bytes: band.bytes,
            counts: band.counts,
        },
        None => GrowthBand {
            key: String::new(),
            label: plural(others as u64, "other group"),
            inferred: false,
            stack: None,
            bytes: band.bytes,
            counts: band.counts,
        },
    };
    Ok(Growth {
        by,
        moments: moments
            .iter()
            .map(|&event| GrowthMoment {
                event,
                step: step_at(device, event),
            })
            .collect(),
        bands: growth.bands.into_iter().map(band).collect(),
        others,
    })
}

/// The data for questions about a device.
pub(super) struct Known {
    live: Arc<LiveIndex>,
    categories: Option<Arc<Categories>>,
}

impl Known {
    /// The data that a grouping needs.
    pub(super) fn of(decoded: &Decoded, device: &DeviceTrace, by: Option<Dimension>) -> Known {
        Known {
            live: decoded.live_index(device),
            categories: (by == Some(Dimension::Category)).then(|| decoded.categories(device)),
        }
    }

    /// The subject for questions about the device.
    pub(super) fn subject<'a>(&'a self, trace: &'a Trace, device: &'a DeviceTrace) -> Subject<'a> {
        Subject {
            device,
            stacks: &trace.stacks,
            live: &self.live,
            categories: self.categories.as_deref(),
        }
    }
}

/// The step that an event lies in.
pub(super) fn step_at(device: &DeviceTrace, event: EventIdx) -> Option<String> {
    let after = device
        .steps
        .partition_point(|step| step.events.start() <= event);
    let step = device.steps.get(after.checked_sub(1)?)?;
    step.events.contains(event).then(|| step.name.clone())
}

fn part(
    subject: Subject<'_>,
    cells: &[Cell],
    by: Dimension,
    most: usize,
    watch: Watch<'_>,
) -> Result<Part, Stopped> {
    let mut grouping = Grouping::new(subject.device, subject.stacks, by);
    let sums = grouping.sum(cells, watch)?;
    let mut total = alive::Tally::default();
    sums.iter().for_each(|(_, t)| total.join(*t));
    let listed = sums.iter().take(most);
    let labels: Vec<&Label> = (listed.clone())
        .map(|(group, _)| &grouping.labels[*group as usize])
        .collect();
    let callers = grouping.callers(&labels);
    let groups = listed
        .zip(labels)
        .zip(callers)
        .map(|((&(_, sum), label), caller)| GroupShare {
            key: label.key.clone(),
            label: label.text.clone(),
            caller,
            inferred: label.inferred,
            stack: shown_stack(label),
            tally: tally(sum),
        });
    Ok(Part {
        total: tally(total),
        groups: groups.collect(),
        left_out: sums.len().saturating_sub(most) as u64,
    })
}

fn shown_stack(label: &Label) -> Option<u32> {
    (label.stack != StackIdx::NONE).then_some(label.stack.0)
}

pub(super) fn tally(tally: alive::Tally) -> Tally {
    Tally {
        count: tally.count,
        bytes: tally.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stacks::Frame;
    use trace::testing::{TraceBuilder, block_of};
    use trace::trace::BlockKind;
    use trace::units::Bytes;

    #[test]
    fn groups_of_one_line_are_told_by_who_called_it() {
        let mut builder = TraceBuilder::default();
        for line in [20, 21] {
            let alloc_stack = builder.stack("norm", "/srv/app/net.py", line);
            builder.alloc(BlockKind {
                alloc_stack,
                ..block_of(Bytes::mib(u64::from(line)))
            });
        }
        let mut trace = builder.finish();
        let name = trace.stacks.strings.push("norm");
        let filename = trace.stacks.strings.push("/srv/app/net.py");
        let line = Frame {
            name,
            filename,
            line: 6,
        };
        let line = trace.stacks.push_frame(line);
        for kind in &mut trace.devices[0].blocks.kinds {
            let caller = trace.stacks.frames(kind.alloc_stack)[0];
            kind.alloc_stack = trace.stacks.push_stack(&[line, caller]);
        }
        let decoded = Decoded::new(trace, ());
        let device = &decoded.trace.devices[0];
        let told = |by: Dimension| {
            let at = Some(EventIdx(1));
            let alive = alive(&decoded, device, at, by, Watch::nobody()).unwrap();
            let named = |group: GroupShare| (group.label, group.caller);
            alive.groups.into_iter().map(named).collect::<Vec<_>>()
        };
        let named = |(label, caller): (&str, &str)| (label.to_owned(), caller.to_owned());
        let both = [
            ("norm net.py:6", "norm net.py:21"),
            ("norm net.py:6", "norm net.py:20"),
        ];
        assert_eq!(told(Dimension::Stack), both.map(named));
        // The only site of its name, at a line of the program itself.
        let site = [("norm net.py:6", "")];
        assert_eq!(told(Dimension::Site), site.map(named));
        assert_eq!(told(Dimension::Function), [named(("norm net.py", ""))]);
    }
}
