//! Pinned memory of the host, compared with what the process counted itself
//! (`tests/fixtures/pinned_*.md`).

use crate::recordings::{fixtures, replayed, snapshot};
use trace::device::DeviceIdx;
use trace::leaks::{self, Verdict};
use trace::levels::GivenBack;
use trace::replay;
use trace::steps::choices;
use trace::tiles::{SeriesTile, TileId};
use trace::time::TimeColumn;
use trace::trace::{BlockIdx, DeviceTrace, Series, Trace};
use trace::units::{Bytes, EventIdx, Micros};

fn trace(name: &str) -> Trace {
    replayed(&fixtures().join(format!("{name}.pickle.zst")))
}

fn pinned(trace: &Trace) -> &DeviceTrace {
    trace.pinned.as_ref().expect("pinned memory")
}

/// The levels at the end are those of the process, and the final segments say the same.
#[track_caller]
fn check_end(name: &str, [allocated, active, reserved]: [u64; 3], of_device: u64) -> Trace {
    let trace = trace(name);
    let end = |series: Series| pinned(&trace).summary[series as usize].end;
    assert_eq!(end(Series::Allocated), Bytes(allocated), "{name}");
    assert_eq!(end(Series::Active), Bytes(active), "{name}");
    assert_eq!(end(Series::Requested), Bytes(active), "{name}");
    assert_eq!(end(Series::Reserved), Bytes(reserved), "{name}");
    assert_eq!(trace.devices.len(), 1, "{name}: pinned memory is no device");
    let device = trace.devices[0].summary[Series::Allocated as usize].end;
    assert_eq!(device, Bytes(of_device), "{name}");
    let differs = trace
        .quality
        .iter()
        .filter(|note| note.code == "end_differs");
    assert_eq!(differs.count(), 0, "{name}: {:?}", trace.quality);
    trace
}

#[test]
fn pinned_memory_ends_as_the_process_counted() {
    check_end(
        "pinned_leak",
        [16_777_216, 16_777_216, 51_380_224],
        143_729_152,
    );
}

#[test]
fn events_from_before_the_recording_are_left_out() {
    let trace = check_end(
        "pinned_late",
        [2_097_152, 36_700_160, 54_525_952],
        143_729_152,
    );
    let about: Vec<_> = trace
        .quality
        .iter()
        .filter(|note| note.concerns(DeviceIdx::PINNED))
        .collect();
    let note = about.iter().find(|note| note.code == "host_events_before");
    let note = note.expect("a note");
    assert!(
        note.detail.starts_with("pinned host memory: "),
        "{}",
        note.detail
    );
    assert!(!note.concerns(DeviceIdx(0)), "it is not about a device");
    let double = about.iter().find(|note| note.code == "double_allocs");
    assert_eq!(double, None, "the events that are left fit together");
}

#[test]
fn what_each_step_keeps_pinned_is_a_leak() {
    let trace = trace("pinned_leak");
    let pinned = pinned(&trace);
    assert_eq!(pinned.steps.len(), trace.devices[0].steps.len());
    let report = leaks::find(pinned, &trace.stacks, &trace.quality);
    assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
    let [group] = &report.groups[..] else {
        panic!("one place leaks: {:?}", report.groups);
    };
    let frame = trace.stacks.headline(group.stack).expect("a frame");
    assert!(trace.stacks.str(frame.filename).ends_with("rec.py"));
    // 300,000 floats are 1.2 MB; PyTorch pins the next power of two.
    assert_eq!(group.bytes_per_step.round() as u64, 2 << 20);
}

/// What the devices do has its order; what is pinned has only its times.
#[test]
fn a_clock_that_is_set_back_makes_no_leak_clean() {
    for (at, back) in [(30, 30), (50, 10), (50, 25), (70, 10)] {
        let mut snapshot = snapshot(&fixtures().join("pinned_leak.pickle.zst"));
        let times = &snapshot.devices[0].time;
        let (first, last) = (times.get(0), times.get(times.len() - 1));
        let part = |percent: i64| (last.0 - first.0) * percent / 100;
        let set_back = |times: &TimeColumn| {
            let late = |time: Micros| time.0 > first.0 + part(at);
            let times = times.iter();
            times
                .map(|time| {
                    if late(time) {
                        Micros(time.0 - part(back))
                    } else {
                        time
                    }
                })
                .collect()
        };
        let columns = [set_back(times), set_back(&snapshot.host.time)];
        [snapshot.devices[0].time, snapshot.host.time] = columns;
        let trace = replay::run(snapshot);
        let report = leaks::find(pinned(&trace), &trace.stacks, &trace.quality);
        assert_ne!(
            report.verdict,
            Verdict::Clean,
            "{at} % {back} %: {}",
            report.reason
        );
        // Nor does the verdict on the device say so.
        let beside = leaks::find(&trace.devices[0], &trace.stacks, &trace.quality);
        assert!(says_so(&beside.caveats), "{:?}", beside.caveats);
    }
    let trace = trace("pinned_leak");
    let beside = leaks::find(&trace.devices[0], &trace.stacks, &trace.quality);
    assert!(!says_so(&beside.caveats), "{:?}", beside.caveats);
}

/// Whether it is said that leaks in pinned memory are not looked for.
fn says_so(caveats: &[String]) -> bool {
    caveats
        .iter()
        .any(|caveat| caveat.starts_with("pinned host memory: the clock was set back"))
}

#[test]
fn pinned_memory_follows_its_devices_to_other_steps() {
    let mut trace = trace("pinned_leak");
    let levels = choices::of_device(&trace.devices[0], &trace.stacks);
    let other = levels
        .iter()
        .find(|level| !level.chosen)
        .expect("another loop");
    choices::recut_all(&mut trace, &other.key).expect("a loop of the device");
    assert_eq!(trace.devices[0].steps.len(), other.count as usize);
    assert_eq!(pinned(&trace).steps.len(), other.count as usize);
}

/// What is never given back is what is in use at the end.
#[test]
fn a_stay_is_as_long_as_its_block_is_in_use_and_lies_on_the_axis_of_the_device() {
    let trace = trace("pinned_leak");
    let device = &trace.devices[0];
    let stays: Vec<_> = trace.host_stays(device).collect();
    let pinned = pinned(&trace);
    let kept = stays.iter().filter(|stay| stay.until.is_none());
    let kept: Vec<Bytes> = kept.map(|stay| stay.bytes).collect();
    assert_eq!(kept, vec![Bytes::mib(2); device.steps.len()]);
    let at_the_end = pinned.summary[Series::Allocated as usize].end;
    assert_eq!(kept.into_iter().sum::<Bytes>(), at_the_end);
    let at = |event: EventIdx| device.events.time.get(event.index());
    let first = at(EventIdx(0));
    let blocks = &pinned.blocks;
    let time = |event: u32| pinned.events.time.get(event as usize);
    // What was given back before the recording lies beside nothing.
    let is_beside = |block: &usize| match pinned.given_back(BlockIdx(*block as u32)) {
        GivenBack::Before => false,
        GivenBack::At(event) => time(event.0) >= first,
        GivenBack::Never => true,
    };
    let beside: Vec<usize> = (0..blocks.len()).filter(is_beside).collect();
    assert!(beside.len() < blocks.len(), "the recording has such blocks");
    assert_eq!(stays.len(), beside.len());
    let taken = beside.iter().map(|&block| {
        let seen = block >= blocks.n_preexisting as usize;
        seen.then(|| time(blocks.alloc[block]))
    });
    for (time, stay) in taken.zip(&stays) {
        let Some(from) = stay.from else {
            assert!(time.is_none_or(|time| time < first), "{stay:?}");
            continue;
        };
        let time = time.expect("it was taken in the recording");
        assert!(stay.until.is_none_or(|until| from <= until), "{stay:?}");
        let next = EventIdx(from.0 + 1);
        let is_last = next.0 >= device.events.len() || at(next) > time;
        assert!(is_last && at(from) <= time, "{stay:?}");
    }
    assert_eq!(
        trace.host_stays(pinned).next(),
        None,
        "it is not beside itself"
    );
}

/// The line in each bucket, by the obvious way: each event of the host, in order of time.
fn obvious(trace: &Trace, id: TileId) -> Vec<(Bytes, Bytes)> {
    let (device, pinned) = (&trace.devices[0], pinned(trace));
    let n = device.events.len();
    let time = |event: u32| device.events.time.get(event as usize);
    let buckets = (0..id.buckets(n)).map(|bucket| {
        let first = id.first_event() as u32 + (bucket << id.level);
        let next = first + (1 << id.level);
        let happened = |event: &u32| {
            let at = pinned.events.time.get(*event as usize);
            at >= time(first) && (next >= n || at < time(next))
        };
        let all = 0..pinned.events.len();
        let before = all
            .clone()
            .rfind(|e| pinned.events.time.get(*e as usize) < time(first));
        let start = pinned.levels_before(EventIdx(before.map_or(0, |event| event + 1)));
        let levels = all
            .filter(happened)
            .map(|event| pinned.levels_at(EventIdx(event)));
        let levels = levels
            .chain([start])
            .map(|levels| levels.get(Series::Allocated));
        let levels: Vec<Bytes> = levels.collect();
        let (low, high) = (levels.iter().min(), levels.iter().max());
        (*low.expect("the start"), *high.expect("the start"))
    });
    buckets.collect()
}

#[test]
fn the_line_beside_a_device_has_what_happened_in_the_time_of_each_bucket() {
    for name in ["pinned_leak", "pinned_late"] {
        let trace = trace(name);
        for (level, index) in [(0, 0), (0, 1), (3, 0), (6, 0)] {
            let id = TileId { level, index };
            let tile = trace.series_tile(&trace.devices[0], id);
            let line = &tile.pinned.as_ref().expect("a line").line;
            let line: Vec<_> = line.iter().map(|extent| (extent.min, extent.max)).collect();
            assert_eq!(line, obvious(&trace, id), "{name} {id:?}");
            assert_eq!(
                SeriesTile::decode(&tile.encode()),
                Ok(tile),
                "{name} {id:?}"
            );
        }
        let beside_itself = trace.series_tile(pinned(&trace), TileId { level: 0, index: 0 });
        assert_eq!(beside_itself.pinned, None);
    }
}

#[test]
fn pinned_memory_is_stored_with_the_trace() {
    let trace = trace("pinned_leak");
    let mut chunks = Vec::new();
    trace::stored::encode(&trace, &mut |chunk| chunks.push(chunk));
    let back = trace::stored::decode(chunks).expect("what was stored is read");
    let (before, after) = (pinned(&trace), pinned(&back));
    assert_eq!(after.blocks, before.blocks);
    assert_eq!(after.events, before.events);
    assert_eq!(after.summary, before.summary);
    assert_eq!(after.steps, before.steps);
}

#[test]
fn redaction_reaches_pinned_memory() {
    let mut trace = trace("pinned_late");
    trace::redact::trace(&mut trace, trace::redact::Key::new([7; 16]));
    let first = trace.devices[0].events.time.get(0);
    assert!(first.0 < 1_000_000, "time is counted from the start");
    assert!(pinned(&trace).events.time.get(0).0 < 10_000_000);
    let stacks = &trace.stacks;
    let mut files = stacks
        .all_frames()
        .iter()
        .map(|frame| stacks.str(frame.filename));
    assert!(
        files.all(|file| !file.contains("rec.py")),
        "no name of the program is left"
    );
    let notes: Vec<&str> = trace.quality.iter().map(|note| &*note.detail).collect();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("PyTorch does not clear them")),
        "{notes:?}"
    );
}
