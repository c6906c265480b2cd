//! Kinds of events that a recording leaves out, as `skip_actions` asks for (torch 2.11 and later).
//!
//! Nothing in the file says so. Where no event of a kind is there, others may prove that it
//! happened all the same:
//!
//! * **Allocations.** The driver is asked for a segment only to serve a request, so an allocation
//!   follows it. And an address that is given back twice was handed out in between.
//! * **Frees.** An address that is handed out twice was given back in between.
//! * **Completed frees.** A block that was given back is handed out, or given back, once more.
//!
//! Without proof a kind may be missing because it never happened: nothing was freed in a short
//! recording. Then the file stays as it is.
//!
//! If frees are only requested, they count as completed at once: nearly all are. Without one side
//! of allocations and frees, no level can be followed, and what is left says nothing of when. So
//! events of memory are dropped then, and the file tells the state at its end, as one without
//! history does.
//!
//! `skip_actions` holds for the process, so all devices are looked at together. Events of pinned
//! memory come from another recorder.

use super::quality::note;
use crate::quality_code;
use crate::snapshot::{EventKind, RawEvents, Snapshot};
use crate::stacks::{FxHashMap, FxHashSet};
use crate::trace::{Action, QualityNote};
use crate::watch::{Stopped, Watch};

/// Puts right what the events of devices lack. Returns what is to be said of it.
///
/// # Errors
/// [`Stopped`], when the watch stops it.
pub fn settle(snapshot: &mut Snapshot, watch: Watch<'_>) -> Result<Vec<QualityNote>, Stopped> {
    let mut notes = Vec::new();
    let mut found = Found::of(snapshot);
    // A single event is no history, and without a segment there is no state to be left.
    let is_history = snapshot.devices.iter().any(|d| d.kind.len() > 1);
    if !is_history || found.is_whole() || snapshot.of_profile() || snapshot.segments.is_empty() {
        return Ok(notes);
    }
    let n_events: usize = snapshot.devices.iter().map(|d| d.kind.len()).sum();
    watch.look(n_events * PER_ADDRESS)?;
    if found.has(Action::FreeRequested)
        && !found.has(Action::FreeCompleted)
        && comes_again(snapshot, Action::FreeRequested, &[Action::Alloc])
    {
        complete_at_once(snapshot);
        notes.push(note(
            quality_code::FREES_COMPLETED_AT_ONCE,
            "no event tells when a free was completed: events were left out (skip_actions), so \
             each counts as completed when it was requested",
        ));
        found = Found::of(snapshot);
    }
    let lacking = if found.lacks_allocs(snapshot) {
        "no event tells of an allocation, yet there were some"
    } else if found.lacks_frees(snapshot) {
        "no event tells of a free, yet there were some"
    } else {
        return Ok(notes);
    };
    drop_events_of_memory(snapshot);
    // What was said of them concerns nothing any more.
    notes.clear();
    notes.push(note(
        quality_code::EVENTS_LEFT_OUT,
        format!(
            "{lacking}: events were left out (skip_actions), so only the state at the end is known"
        ),
    ));
    Ok(notes)
}

/// Bytes of an address in a table that grows.
const PER_ADDRESS: usize = 32;

/// The actions that occur in the events of devices.
struct Found(Vec<Action>);

impl Found {
    fn of(snapshot: &Snapshot) -> Found {
        let mut is_used = vec![false; snapshot.kinds.len()];
        for kind in snapshot.devices.iter().flat_map(|device| &device.kind) {
            is_used[*kind as usize] = true;
        }
        let used = snapshot.kinds.iter().zip(is_used).filter(|(_, used)| *used);
        let mut actions = Vec::new();
        for (kind, _) in used {
            if !actions.contains(&kind.action) {
                actions.push(kind.action);
            }
        }
        Found(actions)
    }

    fn has(&self, action: Action) -> bool {
        self.0.contains(&action)
    }

    /// Whether events of all these kinds are there.
    fn is_whole(&self) -> bool {
        self.has(Action::Alloc) && self.has(Action::FreeCompleted)
    }

    fn lacks_allocs(&self, snapshot: &Snapshot) -> bool {
        if self.has(Action::Alloc) {
            return false;
        }
        // Pages that were mapped for a request that failed all the same stay mapped.
        let is_served = self.has(Action::SegmentAlloc)
            || self.has(Action::SegmentMap) && !self.has(Action::Oom);
        is_served || comes_again(snapshot, self.free(), &[])
    }

    fn lacks_frees(&self, snapshot: &Snapshot) -> bool {
        !self.has(Action::FreeRequested)
            && !self.has(Action::FreeCompleted)
            && comes_again(snapshot, Action::Alloc, &[])
    }

    /// The event that every free has here.
    fn free(&self) -> Action {
        match self.has(Action::FreeCompleted) {
            true => Action::FreeCompleted,
            false => Action::FreeRequested,
        }
    }
}

/// Whether an address of an event of this kind comes again: in another one, or later in one of
/// `others`.
fn comes_again(snapshot: &Snapshot, first: Action, others: &[Action]) -> bool {
    let kinds = &snapshot.kinds;
    snapshot.devices.iter().any(|device| {
        let mut seen: FxHashSet<u64> = FxHashSet::default();
        let mut rows = device.kind.iter().zip(device.addr.iter());
        rows.any(|(&kind, addr)| match kinds[kind as usize].action {
            action if action == first => !seen.insert(addr),
            action if others.contains(&action) => seen.contains(&addr),
            _ => false,
        })
    })
}

/// Turns requests to free into completed frees. Kinds are shared with pinned memory, so these get
/// rows of their own.
fn complete_at_once(snapshot: &mut Snapshot) {
    let mut twins: FxHashMap<u32, u32> = FxHashMap::default();
    let kinds = &mut snapshot.kinds;
    let devices = snapshot.devices.iter_mut();
    for kind in devices.flat_map(|device| &mut device.kind) {
        let own = kinds[*kind as usize];
        if own.action != Action::FreeRequested {
            continue;
        }
        *kind = *twins.entry(*kind).or_insert_with(|| {
            kinds.push(EventKind {
                action: Action::FreeCompleted,
                ..own
            });
            (kinds.len() - 1) as u32
        });
    }
}

/// Leaves the events of devices that change no level.
fn drop_events_of_memory(snapshot: &mut Snapshot) {
    let kinds = &snapshot.kinds;
    for device in &mut snapshot.devices {
        let mut left = RawEvents::default();
        let rows = device.kind.iter().zip(device.addr.iter());
        for ((&kind, addr), time) in rows.zip(device.time.iter()) {
            if changes_nothing(kinds[kind as usize].action) {
                left.kind.push(kind);
                left.addr.push(addr);
                left.time.push(time);
            }
        }
        left.shrink();
        *device = left;
    }
}

fn changes_nothing(action: Action) -> bool {
    match action {
        Action::Alloc
        | Action::FreeRequested
        | Action::FreeCompleted
        | Action::SegmentAlloc
        | Action::SegmentFree
        | Action::SegmentMap
        | Action::SegmentUnmap => false,
        Action::Snapshot | Action::Oom | Action::Annotate | Action::Unknown => true,
    }
}
