//! Out of memory: when, what was requested, and how often.

use crate::questions::words;
use ::timeline::format::count;
use ::timeline::oom;
use api::runs::DeviceSummary;
use api::timeline::{Marks, OomMark};
use trace::device::DeviceIdx;
use trace::units::Bytes;

/// How many failed allocations are listed one by one.
pub const TOLD: usize = 2;

/// How many failed allocations are told.
pub fn failed(device: &DeviceSummary) -> usize {
    device.oom_events.len().min(TOLD)
}

/// That a device leaks, or the pinned memory of the host: so much a step, or within each step.
pub fn leaks_there(device: DeviceIdx, bytes_per_step: Bytes, step: &str) -> String {
    let place = words::capital(&device.name());
    match bytes_per_step {
        Bytes::ZERO => format!("{place} leaks within each {step}."),
        bytes => format!("{place} leaks {bytes} {}.", words::a(step)),
    }
}

/// When it failed.
pub fn headline(marks: &Marks, oom: &OomMark) -> String {
    let place = oom::place(marks, oom);
    words::capital(format!("out of memory {place}").trim_end())
}

/// What was asked for, and what there was.
pub fn facts(oom: &OomMark) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("asked for", oom.size.to_string()),
        (
            "free on the device",
            match oom.device_free {
                Some(free) => free.to_string(),
                None => "not recorded".to_owned(),
            },
        ),
    ];
    facts.extend(oom::limit(oom).map(|limit| ("limit of the process", limit)));
    facts.extend([
        ("allocated then", oom.allocated.to_string()),
        ("reserved then", oom.reserved.to_string()),
        ("event", count(u64::from(oom.event.0))),
    ]);
    facts
}

/// How many there are besides those listed.
pub fn more(marks: &Marks) -> Option<String> {
    let sent = marks.ooms.len().saturating_sub(TOLD) as u64;
    match sent + marks.ooms_left_out {
        0 => None,
        1 => Some("And 1 time more.".to_owned()),
        more => Some(format!("And {} times more.", count(more))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::phases::Phase;
    use trace::span::Span;
    use trace::trace::Step;
    use trace::units::EventIdx;

    fn marks() -> Marks {
        let oom = |event: u32| OomMark {
            event: EventIdx(event),
            size: Bytes(2048),
            device_free: Some(Bytes(1024)),
            step: None,
            phase: Phase::Backward,
            limit: (event == 4).then_some(Bytes(8192)),
            limit_at_least: (event == 4).then_some(Bytes(6144)),
            allocated: Bytes(4096),
            reserved: Bytes(6144),
            operation: None,
            frame: None,
            held: Vec::new(),
        };
        Marks {
            steps: vec![Step {
                index: 0,
                name: "## step 0 ##".to_owned(),
                events: Span::new(EventIdx(0), EventIdx(10)),
            }],
            annotations: vec![],
            annotations_left_out: 0,
            ooms: [4, 1200, 1300].map(oom).into(),
            ooms_left_out: 1000,
            capacity: Some(Bytes(4096)),
            stays: vec![],
            stays_left_out: 0,
        }
    }

    #[test]
    fn a_failure_says_where_and_what() {
        let marks = marks();
        let heads = marks.ooms.iter().take(2).map(|oom| headline(&marks, oom));
        assert_eq!(
            heads.collect::<Vec<_>>(),
            [
                "Out of memory in step 0, in the backward pass",
                "Out of memory after step 0, in the backward pass"
            ]
        );
        let limit = |oom| {
            let mut facts = facts(oom).into_iter();
            facts.find(|(name, _)| *name == "limit of the process")
        };
        let told = limit(&marks.ooms[0]).map(|(_, limit)| limit);
        assert_eq!(told.as_deref(), Some("between 6.00 KiB and 8.00 KiB"));
        assert_eq!(limit(&marks.ooms[1]), None);
        assert_eq!(more(&marks).as_deref(), Some("And 1,001 times more."));
    }

    #[test]
    fn a_leak_elsewhere_is_counted_by_what_its_steps_are() {
        let told = |step: &str, bytes| leaks_there(DeviceIdx(1), Bytes(bytes), step);
        assert_eq!(told("step", 2048), "Device 1 leaks 2.00 KiB a step.");
        assert_eq!(told("epoch", 2048), "Device 1 leaks 2.00 KiB an epoch.");
        assert_eq!(told("request", 0), "Device 1 leaks within each request.");
        let pinned = leaks_there(DeviceIdx::PINNED, Bytes(2048), "step");
        assert_eq!(pinned, "Pinned host memory leaks 2.00 KiB a step.");
    }

    #[test]
    fn nothing_more_is_nothing() {
        let mut marks = marks();
        marks.ooms_left_out = 0;
        assert_eq!(more(&marks).as_deref(), Some("And 1 time more."));
        marks.ooms.truncate(2);
        assert_eq!(more(&marks), None);
    }
}
