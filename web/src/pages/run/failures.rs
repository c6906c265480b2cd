//! Out of memory, in words: where, what was asked for, what was free.

use crate::format::count;
use crate::timeline::Handle;
use crate::timeline::lanes::{step_at, step_name};
use api::timeline::{Marks, OomMark};
use leptos::prelude::*;

/// Failed allocations that are told one by one.
const TOLD: usize = 2;

/// What could not be had; nothing where nothing failed.
#[component]
pub fn Failures(handle: Handle) -> impl IntoView {
    move || {
        let said = handle.marks.with(|marks| marks.as_deref().map(said))?;
        let lines = said.into_iter().map(|line| view! { <p>{line}</p> });
        let lines = lines.collect_view();
        Some(view! { <div class="run-failures" role="status">{lines}</div> })
    }
}

fn said(marks: &Marks) -> Vec<String> {
    let mut said: Vec<String> = marks
        .ooms
        .iter()
        .take(TOLD)
        .map(|oom| one(marks, oom))
        .collect();
    if let Some(more @ 1..) = marks.ooms.len().checked_sub(TOLD) {
        let times = if more == 1 { "time" } else { "times" };
        said.push(format!("And {} {times} more.", count(more as u64)));
    }
    said
}

fn one(marks: &Marks, oom: &OomMark) -> String {
    let event = count(u64::from(oom.event.0));
    let place = match step_at(&marks.steps, oom.event) {
        Some(step) => format!("in {}, at event {event}", step_name(&step.name)),
        None => format!("at event {event}"),
    };
    format!(
        "Out of memory {place}: {} were asked for, the driver had {} free.",
        oom.size, oom.device_free
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::span::Span;
    use trace::trace::Step;
    use trace::units::{Bytes, EventIdx};

    #[test]
    fn a_failure_says_where_and_what() {
        // Whatever else a newer server says of it.
        let oom = |event: u32| -> OomMark {
            serde_json::from_value(serde_json::json!({
                "event": event, "size": 2048, "device_free": 1024, "step": null, "limit": null,
                "allocated": 0, "reserved": 0, "frame": null, "held": [],
            }))
            .unwrap()
        };
        let marks = Marks {
            steps: vec![Step {
                index: 0,
                name: "## step 0 ##".to_owned(),
                events: Span::new(EventIdx(0), EventIdx(10)),
            }],
            annotations: vec![],
            annotations_left_out: 0,
            ooms: [4, 1200, 1300].map(oom).into(),
            capacity: Some(Bytes(4096)),
        };
        assert_eq!(
            said(&marks),
            [
                "Out of memory in step 0, at event 4: 2.00 KiB were asked for, the driver had \
                 1.00 KiB free.",
                "Out of memory at event 1,200: 2.00 KiB were asked for, the driver had 1.00 KiB \
                 free.",
                "And 1 time more.",
            ]
        );
    }
}
