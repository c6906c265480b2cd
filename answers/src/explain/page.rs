//! The explanation as one page of Markdown, for a person or a language model.

use super::ended;
use super::moment::is_much;
use super::words::{called_by, made_in};
use crate::cards::capital;
use crate::cards::markdown::{code, escaped};
use crate::contents::inferred;
use api::explain::{
    Advice, Basis, DeviceExplained, Explanation, Leaks, Moment, OtherDevice, OutOfMemory, PoolRoom,
    Remedy, Room,
};
use api::frames::FrameText;
use api::leaks::{Pattern, Verdict};
use std::fmt::Write;
use timeline::format::{count, plural};
use timeline::oom::words_of;
use trace::device::DeviceIdx;
use trace::known::{Point, Unknown};
use trace::leaks::alive_when;
use trace::phases::Phase;
use trace::steps::recording::Kind;
use trace::trace::{QualityNote, Series, SeriesSummary, StepSource};
use trace::units::{Bytes, EventIdx};

/// An explanation as a page.
pub fn page(explanation: &Explanation) -> String {
    let mut out = format!("# GPU memory of {}\n\n", escaped(&explanation.file));
    out += &ended::told(explanation);
    let Some(device) = &explanation.device else {
        out += "No device holds memory or events.\n";
        return out + &notes(&explanation.notes);
    };
    out += &what_it_is(explanation, device);
    out += &passed_over(device.passed_over);
    if let Some(oom) = &device.out_of_memory {
        out += &failure(oom, &device.unknown);
    }
    let failed = device.out_of_memory.as_ref();
    // If memory ran out at the peak, the peak is described already.
    let is_told = |peak: &&Moment| failed.is_none_or(|oom| peak.allocated > oom.held.allocated);
    if let Some(peak) = device.peak.as_ref().filter(is_told) {
        let is_state = device.unknown.is_of_state();
        let title = match is_state {
            true => "What is held",
            false => "At the peak",
        };
        let about = about(device);
        let held = moment(peak, device.room.as_ref(), &device.unknown, &about);
        let held = match is_state {
            true => held.replacen("Before the first event", "The only state", 1),
            false => held,
        };
        out += &format!("\n## {title}\n\n{held}");
    }
    if let Some(why) = &device.categories_unknown {
        out += &format!("\n{}.\n", capital(why));
    }
    out += &leaks(device.device, &device.leaks, &explanation.other_devices);
    if let Some(room) = device.room.as_ref().filter(|_| failed.is_none()) {
        out += &fragmentation(device, room);
    }
    out += &to_try(&device.to_try);
    out += &others(&explanation.other_devices, &explanation.notes);
    out + &notes(&explanation.notes)
}

/// How much is reserved and not in use where that matters most, and what settings would change.
fn fragmentation(device: &DeviceExplained, room: &Room) -> String {
    let peak = device.peak.as_ref();
    let at = |series: Series, event: EventIdx| {
        let event = count(event.0.into());
        format!("At the peak of *{}* (event {event}), ", series.name())
    };
    let when = || match peak.and_then(|peak| peak.event) {
        Some(event) => at(Series::Allocated, event),
        None if device.unknown.is_of_state() => String::new(),
        None => "Before the first event, ".to_owned(),
    };
    let then = device.room_at_reserved.as_ref();
    let (when, room, reserved) = match then.and_then(|room| Some((room.event?, room))) {
        Some((event, room)) => (at(Series::Reserved, event), room, device.reserved.peak),
        None => (when(), room, peak.map_or(Bytes::ZERO, |peak| peak.reserved)),
    };
    let mut out = format!("\n## Fragmentation\n\n{when}{}", self::room(room, reserved));
    if let Some(settings) = &device.other_settings {
        out += &format!("\n{settings}\n");
    }
    out
}

/// What was recorded, and how reliable it is.
fn what_it_is(explanation: &Explanation, device: &DeviceExplained) -> String {
    let torch = explanation.torch.as_ref();
    let torch = torch.map_or_else(String::new, |torch| {
        format!(" of PyTorch {}", escaped(torch))
    });
    let is_loop = device.recording.kind == Kind::Loop;
    let steps = match device.step_source {
        _ if !is_loop => "",
        StepSource::Annotations => " (from annotations)",
        StepSource::Inferred => " (inferred from what repeats, counted from 0)",
        StepSource::None => "",
    };
    let fidelity = device.fidelity;
    let known = match device.device {
        DeviceIdx::PINNED => "Sizes are those of the recorded blocks.".to_owned(),
        _ if fidelity.allocs == 0 => String::new(),
        _ => format!(
            "The allocator's rules give {} of {} recorded addresses.",
            count(fidelity.predicted),
            count(fidelity.allocs)
        ),
    };
    let is_known = !device.unknown.has(Series::Reserved, Point::Peak);
    let limit = explanation.limit.filter(|_| is_known);
    let limit = limit.map_or_else(String::new, |limit| {
        let left = limit.saturating_sub(device.reserved.peak);
        format!(
            "\nThe limit of the process was {limit}, as the question says; *reserved* peaks {left} \
             below it.\n"
        )
    });
    let known = match known.is_empty() {
        true => known,
        false => format!(" {known}"),
    };
    let told = |series, summary: &SeriesSummary| {
        let levels = [
            (Point::Start, summary.start),
            (Point::Peak, summary.peak),
            (Point::End, summary.end),
        ];
        levels.map(|(point, level)| device.unknown.told(series, point, level))
    };
    let allocated = told(Series::Allocated, &device.allocated).join(" | ");
    let reserved = told(Series::Reserved, &device.reserved).join(" | ");
    format!(
        "A recording{torch}, {}: {}{steps}, {}.{known}\n\n\
         | | start | peak | end |\n|---|--:|--:|--:|\n\
         | allocated | {allocated} |\n| reserved | {reserved} |\n{limit}",
        device.device.name(),
        escaped(&device.recording.sentence),
        plural(device.events.into(), "event"),
    )
}

/// Requests that failed and ended nothing.
fn passed_over(requests: u64) -> String {
    match requests {
        0 => String::new(),
        n => format!(
            "\n{} for memory failed, and the program went on as if nothing had happened, as cuDNN \
             does where it looks for an algorithm that needs less. That is not counted as running \
             out of memory.\n",
            plural(n, "request")
        ),
    }
}

fn failure(oom: &OutOfMemory, unknown: &Unknown) -> String {
    let mut out = format!(
        "\n## Out of memory\n\n**Why.** {}\n\n**What would have helped.** {}\n",
        oom.why, oom.what_would_have_helped
    );
    if !oom.remedies.is_empty() {
        out += "\n| change | reserved up to there | below the limit | |\n|---|--:|--:|---|\n";
    }
    for remedy in &oom.remedies {
        out += &remedy_row(remedy);
    }
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "\n### What was held then\n\n{}",
        moment(&oom.held, oom.room.as_ref(), unknown, "")
    );
    if let Some(room) = &oom.room {
        let _ = write!(
            out,
            "\n### How it lay\n\nWith the cache emptied, {}",
            self::room(room, oom.held.reserved)
        );
    }
    if oom.later_failures > 0 {
        let _ = writeln!(
            out,
            "\n{} failed later; only the first is explained.",
            plural(oom.later_failures, "more allocation")
        );
    }
    out
}

fn remedy_row(remedy: &Remedy) -> String {
    format!(
        "| {} | {} | {} | {} |\n",
        code(&remedy.change),
        remedy.peak_reserved,
        remedy.left,
        basis(remedy.basis)
    )
}

const fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Computed => "computed",
        Basis::Estimated => "estimated",
        Basis::NotComputed => "not computed",
    }
}

/// What was held: by category, then by place.
fn moment(moment: &Moment, room: Option<&Room>, unknown: &Unknown, about: &str) -> String {
    let event = moment.event;
    let event = event.map_or_else(
        || "Before the first event".to_owned(),
        |e| format!("Event {}", count(e.0.into())),
    );
    let step = moment.step.as_ref();
    let step = step.map_or_else(String::new, |step| format!(", in {}", escaped(step)));
    let when = format!("{event}{step}{}{}", phase(moment.phase), scope(moment));
    let reserved = match unknown.hides_reserved() {
        true => String::new(),
        false => format!(", {} reserved", moment.reserved),
    };
    let mut out = format!(
        "{when}: {} allocated{reserved}.{}{about}\n\n| what for{} | bytes | share |\n\
         |---|--:|--:|\n",
        moment.allocated,
        waiting(moment, room),
        inferred(&moment.categories)
    );
    for share in &moment.categories {
        let percent = 100.0 * share.bytes.0 as f64 / moment.allocated.0.max(1) as f64;
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "| {} | {} | {percent:.0} % |",
            share.category.label(),
            share.bytes
        );
    }
    out += "\n| asked for by | bytes | blocks |\n|---|--:|--:|\n";
    for place in &moment.places {
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            code(&place.place),
            place.bytes,
            place.count
        );
    }
    if moment.places_left_out > 0 {
        let more = plural(moment.places_left_out, "more place");
        let _ = writeln!(out, "| … {more} | | |");
    }
    out
}

/// What is special about the peak; each sentence after a space.
fn about(device: &DeviceExplained) -> String {
    let unlike = device.unlike.iter().map(|unlike| &unlike.sentence);
    let outlived = device.outlived.iter().map(|outlived| &outlived.sentence);
    let sentences = unlike.chain(outlived);
    sentences.map(|sentence| format!(" {sentence}")).collect()
}

/// The part of the program's work, if it is one that has a name.
fn phase(phase: Phase) -> String {
    match words_of(phase) {
        Some(words) => format!(", {words}"),
        None => String::new(),
    }
}

fn scope(moment: &Moment) -> String {
    let scope = moment.scope.as_ref();
    scope.map_or_else(String::new, |scope| format!(", in {}", code(scope)))
}

/// What was given back and waits for other streams: it is in use, and not allocated.
fn waiting(moment: &Moment, room: Option<&Room>) -> String {
    let is_then = |room: &&Room| moment.event == room.event;
    let used = |room: &Room| moment.reserved.saturating_sub(room.free);
    let waits = room.filter(is_then).map_or(Bytes::ZERO, |room| {
        used(room).saturating_sub(moment.allocated)
    });
    match is_much(waits, moment.reserved) {
        true => format!(
            " {waits} more had been given back, but waited for other streams that used them \
             (`record_stream`)."
        ),
        false => String::new(),
    }
}

/// That another device leaks, and where.
fn leaks_there(other: &OtherDevice) -> Option<String> {
    let is_leak = other.verdict == Verdict::Leak;
    let rate = is_leak.then(|| other.trouble.as_deref().unwrap_or("leaks"))?;
    let name = capital(&other.device.name());
    Some(match &other.leaking_place {
        Some(place) => format!(" **{name} {rate}**, at {}.", code(place)),
        None => format!(" **{name} {rate}.**"),
    })
}

fn leaks(device: DeviceIdx, leaks: &Leaks, others: &[OtherDevice]) -> String {
    let verdict = match leaks.verdict {
        Verdict::Leak => "Yes",
        Verdict::Clean => "No",
        Verdict::CannotTell => "Cannot tell",
    };
    let elsewhere: String = others.iter().filter_map(leaks_there).collect();
    let own = format!("**{verdict}.** {}.", capital(&prose(&leaks.reason)));
    let mut out = match (leaks.verdict, elsewhere.is_empty()) {
        (Verdict::Clean | Verdict::CannotTell, false) => {
            let here = capital(&device.name());
            format!("\n## Does it leak?\n\n**Yes, elsewhere.**{elsewhere} {here}: {own}")
        }
        _ => format!("\n## Does it leak?\n\n{own}"),
    };
    for told in leaks.caveats.iter().chain(&leaks.reserved_growth) {
        out += &format!(" {}.", capital(&prose(told)));
    }
    if leaks.verdict == Verdict::Leak {
        out += &elsewhere;
    }
    out += match leaks.groups.is_empty() {
        true => "\n",
        false => "\n\n",
    };
    for group in &leaks.groups {
        let unit = &group.counted_by;
        let when = alive_when(group.pattern == Pattern::WithinStep, unit);
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "* {} {unit}{}, {} {when}: {}{}{}",
            rate(group.bytes_per_step),
            group.requested_per_step.map_or_else(String::new, |asked| {
                format!(" ({} requested)", rate(asked))
            }),
            group.live_bytes,
            code(&group.place),
            called_by(group),
            made_in(group)
        );
        if let Some(forward) = &group.forward {
            let _ = write!(out, ", backward of {} (inferred)", code(forward));
        }
        out.push('\n');
        out += &stack(&group.stack);
    }
    if leaks.groups_left_out > 0 {
        let more = plural(leaks.groups_left_out, "more place");
        let _ = writeln!(out, "* … {more}");
    }
    out
}

fn rate(bytes: f64) -> Bytes {
    Bytes(bytes.max(0.0).round() as u64)
}

/// One of our own sentences, with names of a recording in it; code is marked.
fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let part = |(at, part): (usize, &str)| match at % 2 {
        0 => escaped(part),
        _ => code(part),
    };
    parts.map(part).collect()
}

/// Frames, innermost first.
fn stack(frames: &[FrameText]) -> String {
    let frame = |frame: &FrameText| {
        let text = format!("{} {}:{}", frame.name, frame.filename, frame.line);
        format!("  * {}\n", code(&text))
    };
    frames.iter().map(frame).collect()
}

/// How much is reserved but not in use, and where, as the end of a sentence, or as a sentence.
fn room(room: &Room, reserved: Bytes) -> String {
    let between = |split: Bytes, kept: Bytes| split.saturating_sub(kept);
    let has_kept = room.kept > Bytes::ZERO;
    let kept = match has_kept {
        true => format!(
            ", {} in whole segments of private pools (of CUDA graphs, for example), which stay \
             reserved as long as the pool is in use",
            room.kept
        ),
        false => String::new(),
    };
    let [head, line] = match has_kept {
        true => [" kept by its pool |", "--:|"],
        false => ["", ""],
    };
    let more = |kept: Bytes| match has_kept {
        true => format!(" {kept} |"),
        false => String::new(),
    };
    let mut out = format!(
        "{} are reserved and not in use: {} in whole segments, {} between blocks in use{kept}. The \
         largest free range is {}.\n\n\
         | pool | reserved | not in use | between blocks |{head} largest free range |\n\
         |---|--:|--:|--:|{line}--:|\n",
        room.free,
        room.cached,
        between(room.split, room.kept),
        room.largest_gap
    );
    for pool in &room.pools {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |{} {} |",
            pool.name,
            pool.reserved,
            pool.free,
            between(pool.split, pool.kept),
            more(pool.kept),
            pool.largest_gap
        );
    }
    let sum = |of: fn(&PoolRoom) -> Bytes| room.pools.iter().map(of).sum::<Bytes>();
    let rest = reserved.saturating_sub(sum(|pool| pool.reserved));
    if rest > Bytes::ZERO {
        let of_rest = |all: Bytes, of: fn(&PoolRoom) -> Bytes| all.saturating_sub(sum(of));
        let kept = of_rest(room.kept, |pool| pool.kept);
        let _ = writeln!(
            out,
            "| … more pools | {rest} | {} | {} |{} |",
            of_rest(room.free, |pool| pool.free),
            between(of_rest(room.split, |pool| pool.split), kept),
            more(kept)
        );
    }
    if !room.pins.is_empty() {
        out += "\nSegments less than half of which is in use, by the place that holds most of \
                it:\n\n| place | segments | in use | not in use |\n|---|--:|--:|--:|\n";
    }
    for pin in &room.pins {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            code(&pin.place),
            pin.segments,
            pin.used,
            pin.free
        );
    }
    out
}

fn to_try(advice: &[Advice]) -> String {
    if advice.is_empty() {
        return String::new();
    }
    let line = |(at, advice): (usize, &Advice)| {
        format!(
            "{}. {} ({})\n",
            at + 1,
            advice.sentence,
            basis(advice.basis)
        )
    };
    let lines: String = advice.iter().enumerate().map(line).collect();
    format!("\n## What to try\n\n{lines}")
}

fn others(devices: &[OtherDevice], notes: &[QualityNote]) -> String {
    if devices.is_empty() {
        return String::new();
    }
    let mut out = "\n## Other devices\n\n| device | events | peak allocated | peak reserved | \
                   |\n|---|--:|--:|--:|---|\n"
        .to_owned();
    for device in devices {
        let trouble = device.trouble.as_deref().unwrap_or_default();
        let unknown = Unknown::of(device.device, notes);
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {trouble} |",
            match device.device {
                DeviceIdx::PINNED => DeviceIdx::PINNED.name(),
                ordinal => ordinal.to_string(),
            },
            device.events,
            unknown.told(Series::Allocated, Point::Peak, device.peak_allocated),
            unknown.told(Series::Reserved, Point::Peak, device.peak_reserved)
        );
    }
    out
}

fn notes(notes: &[QualityNote]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let line = |note: &QualityNote| format!("* {}\n", capital(&prose(note.sentence())));
    let lines: String = notes.iter().map(line).collect();
    format!("\n## What limits this\n\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of a CUDA graph that lives, with nothing in it.
    #[test]
    fn free_segments_that_a_graph_keeps_do_not_lie_between_blocks() {
        let mib = Bytes::mib;
        let check = |kept: u64, expected: &[&str]| {
            let pool = PoolRoom {
                name: "private large pool (1, 0)".to_owned(),
                reserved: mib(96),
                free: mib(70),
                split: mib(70),
                kept: mib(kept),
                largest_gap: mib(64),
            };
            let room = Room {
                event: None,
                free: mib(200),
                cached: mib(30),
                split: mib(170),
                kept: mib(kept),
                largest_gap: mib(64),
                pools: vec![pool],
                pins: Vec::new(),
            };
            let told = super::room(&room, mib(300));
            for text in expected {
                assert!(told.contains(text), "{told}");
            }
        };
        check(
            0,
            &[
                "30.0 MiB in whole segments, 170 MiB between blocks in use. The",
                "| between blocks | largest free range |\n|---|--:|--:|--:|--:|\n",
                "| 96.0 MiB | 70.0 MiB | 70.0 MiB | 64.0 MiB |",
                "| … more pools | 204 MiB | 130 MiB | 100 MiB | |",
            ],
        );
        check(
            64,
            &[
                "106 MiB between blocks in use, 64.0 MiB in whole segments of private pools",
                "| between blocks | kept by its pool | largest free range |\n\
                 |---|--:|--:|--:|--:|--:|\n",
                "| 96.0 MiB | 70.0 MiB | 6.00 MiB | 64.0 MiB | 64.0 MiB |",
                "| … more pools | 204 MiB | 130 MiB | 100 MiB | 0 B | |",
            ],
        );
    }
}
