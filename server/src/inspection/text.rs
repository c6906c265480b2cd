//! The facts of a recording as aligned text.

use crate::system::table::Table;
use answers::names::frame_line;
use api::inspect::{Device, Format, Inspection, LeakGroup, Leaks, OutOfMemory, Remedy, StepLevels};
use api::leaks::{Pattern, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use trace::categories::Named;
use trace::device::DeviceIdx;
use trace::known::{NOT_KNOWN, Point, Unknown};
use trace::leaks::alive_when;
use trace::plain::one_line;
use trace::steps::{Word, choices};
use trace::trace::{Series, SeriesSummary, StepSource};
use trace::units::{Bytes, grouped, size};
use trace::what_if::Change;

/// Steps printed at each end of a long list.
const STEPS_SHOWN: usize = 5;

/// One file, for people.
pub fn text(inspection: &Inspection) -> String {
    let mut out = head(inspection);
    for device in inspection.devices.iter().chain(&inspection.pinned) {
        out += &of_device(inspection, device);
    }
    out += &recording(inspection);
    out += &steps(inspection);
    out += &judged(inspection);
    out
}

/// Which file it is.
fn head(inspection: &Inspection) -> String {
    let none = match inspection.devices.is_empty() && inspection.pinned.is_none() {
        true => "\n  no device holds memory or events\n",
        false => "",
    };
    let format = format_line(&inspection.format);
    format!("{}\n  {format}\n{none}", inspection.file)
}

/// What is said of all devices together, without the list of steps.
pub fn of_all(inspection: &Inspection) -> String {
    [head(inspection), recording(inspection), judged(inspection)].concat()
}

/// What is said of one device.
pub fn of_device(inspection: &Inspection, device: &Device) -> String {
    let items = &inspection.steps.items;
    let items = items.iter().map(|step| (step.name.as_str(), step.index));
    let word = match inspection.steps.device == Some(device.device) {
        true => Word::of_names(items),
        false => Word::Step,
    };
    device_table(device, inspection.devices.len() > 1, word)
}

/// Whether it leaks, and what is found about the data.
fn judged(inspection: &Inspection) -> String {
    leaks(&inspection.leaks, inspection.devices.len() > 1) + &quality(inspection)
}

fn format_line(format: &Format) -> String {
    let kind = match format.pickle_protocol {
        Some(protocol) => format!("pickle protocol {protocol}"),
        None => "JSON or HTML".to_owned(),
    };
    match &format.torch_guess {
        _ if format.engine => format!("{kind}, an engine recording"),
        Some(versions) => format!("{kind}, as PyTorch {versions} writes it"),
        None => kind,
    }
}

/// How the sizes of a device's blocks are known.
fn known_by(device: &Device) -> String {
    let fidelity = device.fidelity;
    match fidelity.allocs {
        _ if device.device.is_pinned() => "sizes as recorded".to_owned(),
        _ if device.unknown.has(Series::Reserved, Point::End) => "sizes of tensors".to_owned(),
        0 => "no allocations".to_owned(),
        allocs => format!(
            "{} of {} at the predicted address ({:.2} %)",
            grouped(fidelity.predicted),
            told(allocs, "allocation"),
            fidelity.predicted as f64 / allocs as f64 * 100.0
        ),
    }
}

fn told(n: u64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", grouped(n))
}

fn device_table(device: &Device, several: bool, step: Word) -> String {
    let mut table = Table::new(["", "start", "peak", "at event", "end"]);
    let series = [
        (Series::Requested, &device.requested),
        (Series::Allocated, &device.allocated),
        (Series::Active, &device.active),
        (Series::Reserved, &device.reserved),
    ];
    for (series, summary) in series {
        table.row(series_row(series, summary, &device.unknown));
    }
    format!(
        "\n  {}: {}, {} from before, {}\n  {}\n{}{}{}",
        device.device.name(),
        told(u64::from(device.events), "event"),
        told(u64::from(device.preexisting_blocks), "block"),
        told(device.unmatched_frees, "unmatched free"),
        known_by(device),
        table.print("    "),
        categories("at the peak", &device.categories_at_peak, &device.inferred),
        categories("at the end", &device.categories_at_end, &device.inferred),
    ) + &device
        .categories_unknown
        .as_ref()
        .map_or_else(String::new, |why| format!("    {why}\n"))
        + &device
            .out_of_memory
            .iter()
            .map(|oom| failure(oom, &device.inferred))
            .collect::<String>()
        + &device
            .remedies
            .as_deref()
            .map_or_else(String::new, |found| {
                remedies(found, several.then_some(device.device), step)
            })
}

/// A failed allocation: when, requested, free, limit, where, and what was held.
fn failure(oom: &OutOfMemory, inferred: &BTreeSet<Named>) -> String {
    let at = grouped(u64::from(oom.event.0));
    let step = oom.step_name.as_ref();
    let step = step.map_or_else(String::new, |step| format!(", in {step}"));
    let limit = oom.limit_at_least.zip(oom.limit);
    let limit = limit.map_or_else(String::new, |(least, below)| {
        let limit = size::of_between(least, below);
        format!(", so a limit {limit} on the process refused it")
    });
    let what = match oom.passed_over {
        true => "passed over, since there was no memory,",
        false => "out of memory",
    };
    let free = match oom.free {
        Some(free) => format!("{free} free"),
        None => "not recorded what was free".to_owned(),
    };
    let mut out = format!(
        "  {what} at event {at}{step}: {} asked, {free} on the device{limit}\n    {} \
         allocated, {} reserved",
        oom.asked, oom.allocated, oom.reserved
    );
    if let Some(frame) = &oom.frame {
        let _ = write!(out, "; asked by {}", frame_line(frame));
    }
    out.push('\n');
    out += &categories("held", &oom.held, inferred);
    out
}

/// The single changes that would have got past the first failed allocation; of this device, where
/// the file has several.
fn remedies(remedies: &[Remedy], of: Option<DeviceIdx>, step: Word) -> String {
    let no_leaks = format!("giving back what leaks at the end of each {}", step.one());
    let words = |remedy: &Remedy| {
        let change = match remedy.change.as_str() {
            "no leaks" => no_leaks.as_str(),
            Change::DEFAULTS => "no setting of the allocator, but its defaults",
            setting => setting,
        };
        format!("{change} ({} reserved up to there)", remedy.peak_reserved)
    };
    match remedies.is_empty() {
        true => {
            let of = of.map_or_else(String::new, |device| format!(" --device {device}"));
            format!(
                "    none of the settings tried would have got past it: `tidemark what-if{of}` \
                 tries others\n"
            )
        }
        false => format!(
            "    one change would have got past it: {}; what would have come next was not \
             recorded\n",
            remedies.iter().map(words).collect::<Vec<_>>().join(", or ")
        ),
    }
}

/// `at the peak: activations 3.10 GiB, parameters 1.20 GiB (inferred)`. Where only some of them are
/// inferred, each of those says so.
fn categories(when: &str, shares: &BTreeMap<Named, Bytes>, inferred: &BTreeSet<Named>) -> String {
    let all = shares.keys().all(|category| inferred.contains(category));
    let mut shares: Vec<_> = shares.iter().collect();
    shares.sort_by_key(|&(category, bytes)| (std::cmp::Reverse(*bytes), *category));
    let mark = |is: bool| if is { " (inferred)" } else { "" };
    let parts: Vec<String> = shares
        .into_iter()
        .map(|(category, bytes)| {
            let mark = mark(!all && inferred.contains(category));
            format!("{} {bytes}{mark}", category.label())
        })
        .collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("    {when}: {}{}\n", parts.join(", "), mark(all)),
    }
}

fn series_row(series: Series, summary: &SeriesSummary, unknown: &Unknown) -> [String; 5] {
    let at = match summary.peak_event {
        _ if unknown.has(series, Point::Peak) => "–".to_owned(),
        Some(event) => grouped(u64::from(event.0)),
        None => "start".to_owned(),
    };
    [
        series.name().to_owned(),
        unknown.told(series, Point::Start, summary.start),
        unknown.told(series, Point::Peak, summary.peak),
        at,
        unknown.told(series, Point::End, summary.end),
    ]
}

/// What it holds, and the loops that can be chosen as steps.
fn recording(inspection: &Inspection) -> String {
    let mut out = String::new();
    if let Some(recording) = &inspection.recording {
        let of = of_several(inspection);
        out += &format!("\n  holds{of}: {}\n", recording.sentence);
    }
    if !inspection.steps.levels.is_empty() {
        let levels = choices::in_words(&inspection.steps.levels);
        out += &format!("  can be taken for steps: {levels}\n");
    }
    out
}

/// Which device steps and sentence are about, where there are others.
fn of_several(inspection: &Inspection) -> String {
    let devices = inspection.devices.iter().map(|device| device.device);
    let main = inspection.steps.device;
    let others: Vec<String> = devices
        .filter(|device| Some(*device) != main)
        .map(|device| device.to_string())
        .collect();
    match (main, &others[..]) {
        (None, _) | (_, []) => String::new(),
        (Some(main), [other]) => {
            format!(" (of device {main}, the main one; the other is device {other})")
        }
        (Some(main), others) => format!(
            " (of device {main}, the main one; the others are devices {})",
            others.join(", ")
        ),
    }
}

fn steps(inspection: &Inspection) -> String {
    let steps = &inspection.steps;
    let source = match steps.source {
        StepSource::Annotations => "from annotations",
        StepSource::Inferred => "inferred from the repeating allocations",
        StepSource::None => return "\n  steps: none found\n".to_owned(),
    };
    let n_steps = steps.items.len();
    let names = steps
        .items
        .iter()
        .map(|step| (step.name.as_str(), step.index));
    let word = Word::of_names(names);
    let mut table = Table::new([
        word.one(),
        "events",
        "allocated peak",
        "allocated end",
        "reserved end",
    ]);
    let mut devices = inspection.devices.iter().chain(&inspection.pinned);
    let of_them = devices.find(|device| Some(device.device) == steps.device);
    let unknown = of_them.map_or_else(Unknown::default, |device| device.unknown.clone());
    for (at, step) in steps.items.iter().enumerate() {
        if n_steps <= 2 * STEPS_SHOWN + 1 || at < STEPS_SHOWN || at >= n_steps - STEPS_SHOWN {
            table.row(step_row(step, &unknown));
        } else if at == STEPS_SHOWN {
            let left_out = n_steps - 2 * STEPS_SHOWN;
            table.row([
                format!("… {left_out} more"),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ]);
        }
    }
    let device = steps.device.unwrap_or_default();
    format!(
        "\n  {} on device {device}, {source}\n{}",
        word.counted(n_steps),
        table.print("    ")
    )
}

fn step_row(step: &StepLevels, unknown: &Unknown) -> [String; 5] {
    let reserved = match unknown.hides_reserved() {
        true => NOT_KNOWN.to_owned(),
        false => step.reserved_end.to_string(),
    };
    [
        one_line(&step.name).into_owned(),
        format!(
            "{}–{}",
            grouped(u64::from(step.first_event.0)),
            grouped(u64::from(step.end_event.0))
        ),
        step.told_peak(),
        step.allocated_end.to_string(),
        reserved,
    ]
}

/// The verdict and the groups, those of the device that it is about first.
fn leaks(leaks: &Leaks, several: bool) -> String {
    let verdict = match leaks.verdict {
        Verdict::Leak => "leaks",
        Verdict::Clean => "no leak",
        Verdict::CannotTell => "leaks: cannot tell",
    };
    // The reason of a leak names the device, except the first one.
    let at = match (leaks.verdict, leaks.device) {
        (Verdict::Leak, Some(DeviceIdx(1..))) | (_, None) => String::new(),
        (_, Some(device)) if several => format!(" ({})", device.name()),
        _ => String::new(),
    };
    let mut out = format!("\n  {verdict}{at}: {}\n", leaks.reason);
    if let Some(growth) = &leaks.reserved_growth {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {growth}");
    }
    let mut groups: Vec<&LeakGroup> = leaks.groups.iter().collect();
    groups.sort_by_key(|group| Some(group.device) != leaks.device);
    for group in groups {
        let bytes = Bytes(group.bytes_per_step.max(0.0) as u64);
        let elsewhere = Some(group.device) != leaks.device;
        let place = match several || elsewhere || group.device.is_pinned() {
            true => format!(" ({})", group.device.name()),
            false => String::new(),
        };
        let when = alive_when(group.pattern == Pattern::WithinStep, &group.counted_by);
        let made_in = group.made_in.as_ref();
        let made_in = made_in.map_or_else(String::new, |f| format!(", in {}", frame_line(f)));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "    {bytes} {}, {} live {when}: {}{made_in}{place}",
            group.counted_by,
            group.live_bytes,
            frame_line(&group.frame),
        );
    }
    out
}

fn quality(inspection: &Inspection) -> String {
    if inspection.quality.is_empty() {
        return "\n  quality: nothing to remark\n".to_owned();
    }
    let mut out = "\n  quality\n".to_owned();
    for note in &inspection.quality {
        out += &format!("    {}: {}\n", note.code, note.detail);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::categories::Category;
    use trace::units::EventIdx;

    #[test]
    fn the_engine_is_no_torch() {
        let line = |engine: bool| {
            format_line(&Format {
                pickle_protocol: Some(4),
                torch_guess: Some("2.14 or later".to_owned()),
                engine,
            })
        };
        assert_eq!(
            line(false),
            "pickle protocol 4, as PyTorch 2.14 or later writes it"
        );
        assert_eq!(line(true), "pickle protocol 4, an engine recording");
    }

    /// In a state without history only the end is known.
    #[test]
    fn a_level_that_is_not_known_is_told_as_that() {
        let note = trace::trace::QualityNote {
            code: "state_only".to_owned(),
            detail: String::new(),
        };
        let level = Bytes::mib(2);
        let summary = SeriesSummary {
            start: level,
            peak: level,
            peak_event: None,
            end: level,
        };
        let row = |notes: &[_]| {
            series_row(
                Series::Allocated,
                &summary,
                &Unknown::of(DeviceIdx(0), notes),
            )
            .join(" ")
        };
        assert_eq!(row(&[note]), "allocated unknown ≥ 2.00 MiB – 2.00 MiB");
        assert_eq!(row(&[]), "allocated 2.00 MiB 2.00 MiB start 2.00 MiB");
    }

    /// A ring begins within the step.
    #[test]
    fn the_peak_of_a_step_without_its_beginning_is_told_as_a_bound() {
        let row = |is_cut: bool| {
            let step = StepLevels {
                index: 5,
                name: "step 5".to_owned(),
                first_event: EventIdx(0),
                end_event: EventIdx(94),
                allocated_end: Bytes::mib(7),
                allocated_peak: Bytes::mib(923),
                reserved_end: Bytes::mib(950),
                requested_end: Bytes::mib(7),
                is_cut,
            };
            step_row(&step, &Unknown::default()).join(" ")
        };
        assert_eq!(row(false), "step 5 0–94 923 MiB 7.00 MiB 950 MiB");
        assert_eq!(row(true), "step 5 0–94 ≥ 923 MiB 7.00 MiB 950 MiB");
    }

    /// A group of another device than the headline's says so, and comes later.
    #[test]
    fn leaks_stand_under_the_device_that_they_are_of() {
        let group = |device: DeviceIdx| {
            serde_json::from_value::<LeakGroup>(serde_json::json!({
                "device": device, "bytes_per_step": 1024.0, "counted_by": "a step",
                "count_per_step": 1.0, "live_bytes": 4096, "confidence": 1.0, "site": "",
                "frame": {"name": "f", "filename": "a.py", "line": 1},
                "pattern": "every_step", "every": 1, "slope_error": 0.0, "first_step": 0,
                "last_step": 3, "live_count": 4, "frame_inferred": false, "forward": null
            }))
            .unwrap()
        };
        let check = |headline: u32, of: &[u32], several: bool, expected: &[&str]| {
            let found = Leaks {
                device: Some(DeviceIdx(headline)),
                verdict: Verdict::Leak,
                reason: "why".to_owned(),
                bytes_per_step: 0.0,
                reserved_growth: None,
                groups: of.iter().map(|&device| group(DeviceIdx(device))).collect(),
            };
            let text = leaks(&found, several);
            let lines: Vec<&str> = text.lines().skip(1).collect();
            let ends: Vec<&str> = lines[1..]
                .iter()
                .map(|line| line.split_once("a.py:1").unwrap().1)
                .collect();
            assert_eq!([&lines[..1], &ends[..]].concat(), expected, "{text}");
        };
        let (device, pinned) = (" (device 0)", " (pinned host memory)");
        check(
            DeviceIdx::PINNED.0,
            &[0, DeviceIdx::PINNED.0],
            false,
            &["  leaks: why", pinned, device],
        );
        check(
            0,
            &[0, DeviceIdx::PINNED.0],
            false,
            &["  leaks: why", "", pinned],
        );
        check(0, &[0], false, &["  leaks: why", ""]);
        check(
            0,
            &[1, 0],
            true,
            &["  leaks (device 0): why", device, " (device 1)"],
        );
    }

    /// Where there are several devices, a verdict is that of one of them.
    #[test]
    fn every_verdict_names_its_device_where_there_are_several() {
        let check = |verdict: Verdict, device: DeviceIdx, several: bool, expected: &str| {
            let found = Leaks {
                device: Some(device),
                verdict,
                reason: "why".to_owned(),
                bytes_per_step: 0.0,
                reserved_growth: None,
                groups: Vec::new(),
            };
            assert_eq!(leaks(&found, several).trim(), expected);
        };
        check(
            Verdict::CannotTell,
            DeviceIdx(1),
            true,
            "leaks: cannot tell (device 1): why",
        );
        check(
            Verdict::CannotTell,
            DeviceIdx(0),
            true,
            "leaks: cannot tell (device 0): why",
        );
        check(
            Verdict::CannotTell,
            DeviceIdx(1),
            false,
            "leaks: cannot tell: why",
        );
        check(
            Verdict::Clean,
            DeviceIdx(0),
            true,
            "no leak (device 0): why",
        );
        // The reason names it.
        check(Verdict::Leak, DeviceIdx(1), true, "leaks: why");
    }

    /// What is told of a leak in a group with these fields of its own.
    fn told(own: serde_json::Value) -> String {
        let mut group = serde_json::json!({
            "device": 0, "bytes_per_step": 1024.0, "counted_by": "a step",
            "count_per_step": 1.0, "live_bytes": 4096, "confidence": 1.0, "site": "",
            "frame": {"name": "f", "filename": "a.py", "line": 1},
            "pattern": "every_step", "every": 1, "slope_error": 0.0, "first_step": 0,
            "last_step": 3, "live_count": 4, "frame_inferred": false, "forward": null
        });
        for (field, value) in own.as_object().expect("fields") {
            group[field] = value.clone();
        }
        let found = Leaks {
            device: Some(DeviceIdx(0)),
            verdict: Verdict::Leak,
            reason: "why".to_owned(),
            bytes_per_step: 0.0,
            reserved_growth: None,
            groups: vec![serde_json::from_value(group).expect("a group")],
        };
        leaks(&found, false)
    }

    #[test]
    fn leaks_of_one_line_are_told_by_what_makes_them() {
        let function = serde_json::json!({"name": "g", "filename": "b.py", "line": 2});
        let apart = told(serde_json::json!({ "made_in": function }));
        assert!(apart.ends_with("step: f a.py:1, in g b.py:2\n"), "{apart}");
        let alone = told(serde_json::json!({ "made_in": null }));
        assert!(alone.ends_with("step: f a.py:1\n"), "{alone}");
    }

    #[test]
    fn what_is_alive_of_a_leak_is_told_with_its_moment() {
        let check = |pattern: &str, counted_by: &str, expected: &str| {
            let own = serde_json::json!({ "pattern": pattern, "counted_by": counted_by });
            let text = told(own);
            assert!(text.contains(expected), "{text}");
        };
        check(
            "within_step",
            "a part of a request",
            "4.00 KiB live after the last part: f",
        );
        check(
            "every_step",
            "a request",
            "4.00 KiB live at the end of the last whole request: f",
        );
    }

    /// A ring that wrapped begins with another step than the first.
    #[test]
    fn a_failure_is_in_the_step_that_the_table_shows() {
        let oom = OutOfMemory {
            event: trace::units::EventIdx(35_049),
            step: Some(11),
            step_name: Some("step 21".to_owned()),
            asked: Bytes::mib(8),
            free: Some(Bytes::gib(9)),
            limit: Some(Bytes::gib(3)),
            limit_at_least: Some(Bytes::gib(2)),
            allocated: Bytes::gib(1),
            reserved: Bytes::gib(2),
            frame: None,
            held: BTreeMap::new(),
            passed_over: false,
        };
        let told = failure(&oom, &BTreeSet::new());
        let asked = ", in step 21: 8.00 MiB asked, 9.00 GiB free on the device, so";
        assert!(told.contains(asked), "{told}");
        let limit = ", so a limit between 2.00 GiB and 3.00 GiB on the process refused it";
        assert!(told.contains(limit), "{told}");
        let silent = OutOfMemory {
            free: None,
            limit: None,
            ..oom
        };
        let told = failure(&silent, &BTreeSet::new());
        let asked = "8.00 MiB asked, not recorded what was free on the device\n";
        assert!(told.contains(asked), "{told}");
    }

    #[test]
    fn only_what_is_inferred_is_said_to_be() {
        let (ours, own) = (
            Named::Ours(Category::Activation),
            Named::Own("attention".parse().unwrap()),
        );
        let shares = [(ours, Bytes::mib(3)), (own, Bytes::mib(1))].into();
        let check = |inferred: &[Named], expected: &str| {
            let inferred = inferred.iter().copied().collect();
            assert_eq!(categories("held", &shares, &inferred), expected);
        };
        let of = "    held: activations 3.00 MiB";
        check(
            &[ours, own],
            &format!("{of}, attention 1.00 MiB (inferred)\n"),
        );
        check(&[ours], &format!("{of} (inferred), attention 1.00 MiB\n"));
        check(&[], &format!("{of}, attention 1.00 MiB\n"));
        assert_eq!(categories("held", &BTreeMap::new(), &BTreeSet::new()), "");
    }
}
