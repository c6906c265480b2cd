//! The facts about an allocation or a group, for the panel beside the picture.

use crate::components::frames::short_path;
use ::timeline::facts::GroupFacts;
use ::timeline::format::{self, count};
use ::timeline::{lanes, ticks};
use api::timeline::{BlockDetail, TensorDetail};
use trace::code::is_framework;
use trace::tiles::with_caller;
use trace::trace::{Origin, PoolId, PoolSize};
use trace::units::{EventIdx, Micros};

/// A name and a value.
pub type Fact = (String, String);

/// The facts about a block, in the order in which people ask for them. `since_start` gives the time
/// of an event position since the start of the trace, microseconds.
pub fn block_facts(detail: &BlockDetail, since_start: impl Fn(f64) -> Option<f64>) -> Vec<Fact> {
    let mut facts = Vec::new();
    if detail.requested != detail.size {
        let waste = detail.size.saturating_sub(detail.requested);
        let text = format!("{} ({waste} of rounding)", detail.requested);
        facts.push(("requested".to_owned(), text));
    }
    facts.extend(detail.tensor.iter().flat_map(tensor_facts));
    facts.extend(life_facts(detail, since_start));
    facts.extend(place_facts(detail));
    facts
}

/// A block in a sentence, for people who hear the page: its size, where its program allocated it,
/// and its life.
pub fn told(detail: &BlockDetail) -> String {
    let mut stack = detail.alloc_stack.iter();
    let own = stack.find(|frame| !is_framework(&frame.filename, frame.line));
    let place = own.map_or_else(String::new, |frame| {
        format!(
            ", {} {}:{}",
            frame.name,
            short_path(&frame.filename),
            frame.line
        )
    });
    let life = life_facts(detail, |_| None).into_iter().take(2);
    let life: String = life
        .map(|(name, value)| format!(", {name}: {value}"))
        .collect();
    format!("{}{place}{life}", detail.size)
}

/// A group in a sentence, in the same way.
pub fn group_told(facts: &GroupFacts) -> String {
    let GroupFacts {
        label,
        caller,
        blocks,
        peak,
        ..
    } = facts;
    let name = with_caller(label, caller);
    let blocks = format::plural(*blocks, "block");
    format!("{name}: {blocks} in this window, {peak} at its highest")
}

/// What the engine knows about a tensor.
fn tensor_facts(tensor: &TensorDetail) -> Vec<Fact> {
    let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    let shape = match (&tensor.dtype, shape.is_empty()) {
        (Some(dtype), true) => format!("a number, {dtype}"),
        (Some(dtype), false) => format!("{}, {dtype}", shape.join(" × ")),
        (None, _) => "no tensor".to_owned(),
    };
    let freed = || "nothing: it was freed".to_owned();
    let facts = [
        ("tensor", tensor.name.clone()),
        ("kept by", tensor.owner.clone().unwrap_or_else(freed)),
        ("shape", shape),
        ("role", tensor.role.replace('_', " ")),
        ("made by", tensor.op.clone()),
        ("module", tensor.module.clone()),
    ];
    let told = facts.into_iter().filter(|(_, value)| !value.is_empty());
    told.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// When it was allocated and freed.
fn life_facts(detail: &BlockDetail, since_start: impl Fn(f64) -> Option<f64>) -> Vec<Fact> {
    let when = |(event, _): (EventIdx, Micros)| {
        let time = since_start(f64::from(event.0)).map(|t| ticks::duration(t, 1e3));
        let event = count(u64::from(event.0));
        match time {
            Some(time) => format!("event {event}, {time}"),
            None => format!("event {event}"),
        }
    };
    let between = |(from, t0): (EventIdx, Micros), (to, t1): (EventIdx, Micros)| {
        let events = format::plural(u64::from(to.0 - from.0), "event");
        format!("{events}, {}", ticks::span((t1.0 - t0.0) as f64))
    };
    let before = || "before the trace began".to_owned();
    let freed = match (detail.free_requested, detail.origin) {
        (Some(free), _) => when(free),
        (None, _) if detail.freed_before => {
            "before the trace began, while other streams used it".to_owned()
        }
        (None, Origin::Preexisting) => "not in this trace: there before and after".to_owned(),
        (None, _) => "not in this trace: live at its end".to_owned(),
    };
    let mut facts = vec![
        (
            "allocated".to_owned(),
            detail.alloc.map_or_else(before, when),
        ),
        ("freed".to_owned(), freed),
    ];
    if let (Some(from), Some(to)) = (detail.alloc, detail.free_requested) {
        facts.push(("lived".to_owned(), between(from, to)));
    }
    if let (Some(from), Some(to)) = (detail.free_requested, detail.free_completed)
        && to.0.0 > from.0.0 + 1
    {
        facts.push(("pending".to_owned(), between(from, to)));
    }
    facts
}

/// Where it lies, and what the trace says about it.
fn place_facts(detail: &BlockDetail) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
    if let Some(step) = &detail.step {
        add("step", lanes::step_name(step).to_owned());
    }
    let stream = match detail.stream {
        0 => "default".to_owned(),
        stream => format!("{stream:#x}"),
    };
    add("stream", stream);
    let size = match detail.pool_size {
        PoolSize::Small => "small",
        PoolSize::Large => "large",
    };
    let pool = match detail.pool {
        PoolId(0, 0) => size.to_owned(),
        PoolId::GONE => format!("{size}, private, given up later"),
        PoolId(a, b) => format!("{size}, private ({a}, {b})"),
    };
    add("pool", pool);
    add("address", detail.addr.to_string());
    if let Some(forward) = &detail.forward {
        let on = forward.evidence.replace('_', " ");
        add(
            "backward of",
            format!("{} (inferred from {on})", forward.label),
        );
    }
    for (name, value) in &detail.notes {
        add(name, value.clone());
    }
    facts
}

/// The facts about a group in the window.
pub fn group_facts(facts: &GroupFacts) -> Vec<Fact> {
    let mut rows = vec![(
        "blocks".to_owned(),
        format!("{} live in this window", count(facts.blocks)),
    )];
    if let Some(event) = facts.peak_event {
        rows.push((
            "peak at".to_owned(),
            format!("event {}", count(u64::from(event.0))),
        ));
    }
    rows.push((
        "counted over".to_owned(),
        format!(
            "events {} – {}",
            count(facts.events.0),
            count(facts.events.1.saturating_sub(1))
        ),
    ));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::frames::FrameText;
    use trace::units::{Bytes, DeviceAddr};

    fn detail() -> BlockDetail {
        BlockDetail {
            block: 7,
            addr: DeviceAddr(0x7f00_0000),
            requested: Bytes(1000),
            size: Bytes(1024),
            origin: Origin::Allocated,
            alloc: Some((EventIdx(10), Micros(1_000_000))),
            free_requested: Some((EventIdx(40), Micros(1_002_500))),
            freed_before: false,
            free_completed: Some((EventIdx(41), Micros(1_002_500))),
            step: Some("step 3".to_owned()),
            stream: 0,
            pool: PoolId(0, 0),
            pool_size: PoolSize::Small,
            notes: vec![],
            alloc_stack: vec![],
            free_stack: vec![],
            forward: None,
            tensor: None,
        }
    }

    fn value(facts: &[(String, String)], name: &str) -> Option<String> {
        facts.iter().find(|f| f.0 == name).map(|f| f.1.clone())
    }

    #[test]
    fn a_life_is_told_in_events_and_time() {
        let facts = block_facts(&detail(), |event| Some(event * 100.0));
        assert_eq!(
            value(&facts, "lived").as_deref(),
            Some("30 events, 2.50 ms")
        );
        assert_eq!(
            value(&facts, "allocated").as_deref(),
            Some("event 10, 1 ms")
        );
        assert_eq!(
            value(&facts, "requested").as_deref(),
            Some("1000 B (24 B of rounding)")
        );
        assert_eq!(
            value(&facts, "pending"),
            None,
            "completed at the next event"
        );
    }

    #[test]
    fn a_block_is_told_in_a_sentence() {
        let frame = |name: &str, filename: &str, line| FrameText {
            name: name.to_owned(),
            filename: filename.to_owned(),
            line,
        };
        let mut block = detail();
        let life = ", allocated: event 10, freed: event 40";
        assert_eq!(told(&block), format!("1.00 KiB{life}"));
        block.alloc_stack = vec![
            frame(
                "linear",
                "/usr/lib/python3/site-packages/torch/nn/functional.py",
                1,
            ),
            frame("step", "/srv/job/train/gen.py", 113),
        ];
        let expected = format!("1.00 KiB, step train/gen.py:113{life}");
        assert_eq!(told(&block), expected);
    }

    #[test]
    fn a_group_is_told_in_a_sentence() {
        let facts = GroupFacts {
            label: "forward gen.py:98".to_owned(),
            caller: String::new(),
            events: (0, 100),
            blocks: 1200,
            peak: Bytes::gib(2),
            peak_event: None,
            member: None,
        };
        let expected = "forward gen.py:98: 1,200 blocks in this window, 2.00 GiB at its highest";
        assert_eq!(group_told(&facts), expected);
    }

    #[test]
    fn what_the_trace_does_not_show_is_said() {
        let mut old = detail();
        (old.origin, old.alloc) = (Origin::Preexisting, None);
        (old.free_requested, old.free_completed) = (None, None);
        let facts = block_facts(&old, |_| None);
        assert_eq!(
            value(&facts, "allocated").as_deref(),
            Some("before the trace began")
        );
        assert!(
            value(&facts, "freed")
                .unwrap()
                .starts_with("not in this trace")
        );
        assert_eq!(value(&facts, "lived"), None);
        old.freed_before = true;
        for completed in [None, Some((EventIdx(41), Micros(1_002_500)))] {
            old.free_completed = completed;
            let facts = block_facts(&old, |_| None);
            let freed = value(&facts, "freed").unwrap();
            assert!(freed.starts_with("before the trace began"), "{freed}");
        }
    }

    #[test]
    fn a_tensor_of_the_engine_says_who_keeps_it() {
        let mut kept = detail();
        kept.tensor = Some(TensorDetail {
            name: "vision.3: output".to_owned(),
            op: String::new(),
            module: "vision.3".to_owned(),
            shape: vec![1, 1024, 1152],
            dtype: Some("bfloat16".to_owned()),
            role: "restored".to_owned(),
            made_step: Some(4),
            owner: Some("held by bwd_tensor_stash[1663] since step 4".to_owned()),
        });
        let facts = block_facts(&kept, |_| None);
        assert_eq!(
            value(&facts, "kept by").as_deref(),
            Some("held by bwd_tensor_stash[1663] since step 4")
        );
        assert_eq!(
            value(&facts, "shape").as_deref(),
            Some("1 × 1024 × 1152, bfloat16")
        );
        assert_eq!(value(&facts, "made by"), None, "the program did");
        assert_eq!(value(&block_facts(&detail(), |_| None), "tensor"), None);
    }
}
