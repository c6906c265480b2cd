//! Details of one block or one moment, for hovering and selecting.

use crate::decoded::Decoded;
use crate::names::{forward_op, frame_text};
use api::frames::FrameText;
use api::timeline::{BlockDetail, Moment};
use timeline::format::plural;
use trace::clip::CUT;
use trace::levels::GivenBack;
use trace::stacks::{StackIdx, Stacks};
use trace::trace::{Action, BlockIdx, DeviceTrace, NO_TARGET, Step};
use trace::units::{Bytes, DeviceAddr, EventIdx, Micros};

/// How many frames of a stack are shown, the innermost. Python's own limit is a thousand.
pub const MAX_FRAMES: usize = 1200;

/// Everything about one block; `None` when there is no such block.
pub fn block(decoded: &Decoded, device: &DeviceTrace, block: BlockIdx) -> Option<BlockDetail> {
    let (blocks, stacks) = (&device.blocks, &decoded.trace.stacks);
    let at = block.index();
    let alloc = *blocks.alloc.get(at)?;
    let kind = blocks.kind(block);
    let seen_allocated = block.0 >= blocks.n_preexisting;
    let alloc = seen_allocated.then(|| timed(device, alloc));
    let given_back = device.given_back(block);
    let mut notes = Vec::new();
    for (name, value) in [
        ("compile_context", kind.compile_context),
        ("metadata", kind.metadata),
    ] {
        notes.extend(value.map(|text| (name.to_owned(), stacks.str(text).to_owned())));
    }
    Some(BlockDetail {
        block: block.0,
        addr: blocks.addr[at],
        requested: kind.requested,
        size: kind.size,
        origin: blocks.origin(block, device.events.len()),
        alloc,
        free_requested: given_back.event().map(|event| timed(device, event.0)),
        freed_before: given_back == GivenBack::Before,
        free_completed: happened(device, blocks.free_completed[at]),
        step: alloc.and_then(|(event, _)| step_at(device, event)),
        stream: kind.stream,
        pool: kind.pool,
        pool_size: kind.pool_size,
        notes,
        alloc_stack: frames(stacks, kind.alloc_stack),
        free_stack: frames(stacks, kind.free_stack),
        forward: trace::forward::of_block(device, stacks, block).map(|f| forward_op(stacks, &f)),
        tensor: None,
    })
}

/// One event and the levels after it; `None` when there is no such event.
pub fn moment(device: &DeviceTrace, event: EventIdx) -> Option<Moment> {
    let events = &device.events;
    let action = *events.action.get(event.index())?;
    let target = events.target[event.index()];
    let (addr, size, block) = concerned(device, action, target);
    Some(Moment {
        event,
        action,
        time: events.time.get(event.index()),
        addr,
        size,
        block,
        levels: device.levels_at(event),
        step: step_at(device, event),
    })
}

/// Address, size and block of an event.
fn concerned(
    device: &DeviceTrace,
    action: Action,
    target: u32,
) -> (Option<DeviceAddr>, Bytes, Option<u32>) {
    let (blocks, events) = (&device.blocks, &device.events);
    if target == NO_TARGET {
        return (None, Bytes::ZERO, None);
    }
    match action {
        Action::Alloc | Action::FreeRequested | Action::FreeCompleted => {
            let block = BlockIdx(target);
            let addr = blocks.addr[block.index()];
            (Some(addr), blocks.kind(block).size, Some(target))
        }
        Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap => {
            let segment = events.segments[target as usize];
            (Some(segment.addr), segment.size, None)
        }
        Action::Oom => (None, events.others[target as usize].size, None),
        Action::Snapshot | Action::Annotate | Action::Unknown => {
            let other = events.others[target as usize];
            (Some(DeviceAddr(other.addr_or_free)), other.size, None)
        }
    }
}

fn timed(device: &DeviceTrace, event: u32) -> (EventIdx, Micros) {
    (EventIdx(event), device.events.time.get(event as usize))
}

/// An event index; `None` if it means "never".
fn happened(device: &DeviceTrace, event: u32) -> Option<(EventIdx, Micros)> {
    (event < device.events.len()).then(|| timed(device, event))
}

fn step_at(device: &DeviceTrace, event: EventIdx) -> Option<String> {
    let after = device
        .steps
        .partition_point(|step: &Step| step.events.start() <= event);
    let step = device.steps.get(after.checked_sub(1)?)?;
    step.events.contains(event).then(|| step.name.clone())
}

fn frames(stacks: &Stacks, stack: StackIdx) -> Vec<FrameText> {
    let all = stacks.frames(stack);
    let shown = all.iter().take(MAX_FRAMES);
    let mut frames: Vec<FrameText> = shown
        .map(|&frame| frame_text(stacks, stacks.frame(frame)))
        .collect();
    let left_out = all.len() - frames.len();
    if left_out > 0 {
        frames.push(FrameText {
            name: format!("{CUT} and {} further out", plural(left_out as u64, "frame")),
            filename: String::new(),
            line: 0,
        });
    }
    frames
}
