//! The tooltip: what the event under the pointer did.

use api::timeline::Moment;
use trace::trace::Action;

/// The name of an action.
const fn action_name(action: Action) -> &'static str {
    match action {
        Action::Alloc => "alloc",
        Action::FreeRequested => "free requested",
        Action::FreeCompleted => "free completed",
        Action::SegmentAlloc => "segment alloc",
        Action::SegmentFree => "segment free",
        Action::SegmentMap => "segment map",
        Action::SegmentUnmap => "segment unmap",
        Action::Snapshot => "snapshot",
        Action::Oom => "out of memory",
        Action::Annotate => "annotate",
        Action::Unknown => "unknown action",
    }
}

/// What an event did, in a line.
pub fn moment_text(moment: &Moment) -> String {
    let mut text = action_name(moment.action).to_owned();
    if moment.size.get() > 0 {
        text += &format!(" {}", moment.size);
    }
    if let Some(addr) = moment.addr {
        text += &format!(" at {addr}");
    }
    text
}
