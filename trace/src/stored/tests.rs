//! Encoding and decoding a trace, and damage in between.

use super::*;
use crate::span::Span;
use crate::stacks::StrIdx;
use crate::testing::{self, arbitrary};
use crate::trace::{
    Annotation, DeviceTrace, FormatInfo, PoolId, PoolSize, QualityNote, SegmentBefore, Step,
    StepSource,
};
use crate::units::{Bytes, DeviceAddr, EventIdx};
use proptest::prelude::*;

fn chunks_of(trace: &Trace) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    encode(trace, &mut |chunk| chunks.push(chunk));
    chunks
}

fn assert_equal(a: &Trace, b: &Trace) {
    assert_eq!(a.format, b.format);
    assert_eq!(a.stacks, b.stacks);
    assert_eq!(a.quality, b.quality);
    assert_eq!(a.devices.len(), b.devices.len());
    for (a, b) in a.devices.iter().zip(&b.devices) {
        assert_eq!(a.device, b.device);
        assert_eq!(a.blocks, b.blocks);
        assert_eq!(a.events, b.events);
        assert_eq!(a.pyramid, b.pyramid);
        assert_eq!(a.summary, b.summary);
        assert_eq!(a.fidelity, b.fidelity);
        assert_eq!(a.unmatched_frees, b.unmatched_frees);
        assert_eq!((a.step_source, &a.steps), (b.step_source, &b.steps));
        assert_eq!(a.annotations, b.annotations);
    }
}

/// Adds what the test builder does not make.
fn dressed(mut trace: Trace) -> Trace {
    let name: StrIdx = trace.stacks.strings.push("Optimizer.step#AdamW.step");
    let n_events = trace.devices[0].events.len();
    let events = Span::new(EventIdx(n_events / 3), EventIdx(n_events / 2));
    trace.format = FormatInfo {
        pickle_protocol: Some(4),
        torch_guess: Some("2.10 to 2.11".to_owned()),
        settings: vec![("expandable_segments".to_owned(), "False".to_owned())],
    };
    trace.quality.push(QualityNote {
        code: "ring_wrapped".to_owned(),
        detail: "The ring wrapped.".to_owned(),
    });
    let device = &mut trace.devices[0];
    device.step_source = StepSource::Annotations;
    device.steps.push(Step {
        index: 0,
        name: "step 0".to_owned(),
        events,
    });
    device.annotations.push(Annotation {
        name,
        events,
        depth: 3,
    });
    trace.devices.push(DeviceTrace {
        device: DeviceIdx(3),
        ..DeviceTrace::default()
    });
    trace
}

/// Uses every index that could cause a panic if it were wrong.
fn use_everything(trace: &Trace) {
    use crate::tiles::{GroupBy, MountainIndex, TileId};
    for device in &trace.devices {
        let index = MountainIndex::new(device, GroupBy::Stack, &trace.stacks);
        for level in [0, 4, 9] {
            let id = TileId { level, index: 0 };
            device.series_tile(id);
            device.mountain_tile(id, &index);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn traces_survive_the_journey(trace in arbitrary::traces(800), reversed: bool) {
        let trace = dressed(trace);
        let mut chunks = chunks_of(&trace);
        if reversed {
            chunks.reverse();
        }
        assert_equal(&decode(chunks).unwrap(), &trace);
    }

    #[test]
    fn damaged_chunks_are_a_trace_or_an_error(
        which: prop::sample::Index,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let trace = dressed(testing::training_run(900));
        let mut chunks = chunks_of(&trace);
        let at = which.index(chunks.len());
        let bytes = &mut chunks[at].bytes;
        for (at, value) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(trace) = decode(chunks) {
            use_everything(&trace);
        }
    }
}

#[test]
fn long_columns_are_cut_into_chunks() {
    let trace = dressed(testing::training_run(150_000));
    let chunks = chunks_of(&trace);
    let of = |column| chunks.iter().filter(|c| c.column == column).count();
    assert_eq!(of(Column::BlockAlloc), 3);
    assert_eq!(of(Column::Head), 1);
    assert_equal(&decode(chunks).unwrap(), &trace);
}

/// The predictor's hash is part of the format too: an innocent change there would make stored
/// traces unreadable, or worse, wrong.
#[test]
fn the_format_does_not_change_unnoticed() {
    let mut chunks = chunks_of(&dressed(testing::training_run(2_000)));
    chunks.retain(|chunk| chunk.column != Column::Head);
    let digest = chunks
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, chunk| {
            chunk.bytes.iter().fold(hash, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        });
    assert_eq!(
        (VERSION, digest),
        (1, 6_841_954_253_811_126_451),
        "the stored format changed: raise VERSION and keep reading the old one"
    );
}

#[test]
fn segments_from_before_survive_the_journey_and_may_be_absent() {
    let segment = |addr, pool_size, expandable| SegmentBefore {
        addr: DeviceAddr(addr),
        size: Bytes::mib(20),
        stream: 7,
        pool: PoolId(0, 3),
        pool_size,
        expandable,
    };
    let mut trace = testing::training_run(100);
    trace.devices[0].segments_before = vec![
        segment(0x7f00_0000_0000, PoolSize::Small, false),
        segment(0x7f00_0200_0000, PoolSize::Large, true),
    ];
    let mut chunks = chunks_of(&trace);
    let read = decode(chunks.clone()).unwrap();
    let (read, written) = (&read.devices[0], &trace.devices[0]);
    assert_eq!(read.segments_before, written.segments_before);
    // Older versions stored none.
    chunks.retain(|chunk| chunk.column != Column::SegmentsBefore);
    let older = decode(chunks).unwrap();
    assert!(older.devices[0].segments_before.is_empty());
}

#[test]
fn pools_of_failed_requests_survive_the_journey() {
    let mut trace = testing::training_run(100);
    trace.devices[0].events.failed_in = vec![(3, PoolId(0, 3))];
    let read = decode(chunks_of(&trace)).unwrap();
    let events = &read.devices[0].events;
    assert_eq!(
        (events.failed_in(3), events.failed_in(4)),
        (PoolId(0, 3), PoolId(0, 0))
    );
}

#[test]
fn a_missing_chunk_is_named() {
    let mut chunks = chunks_of(&testing::training_run(150_000));
    chunks.retain(|c| (c.column, c.seq) != (Column::BlockAlloc, 1));
    let error = decode(chunks).unwrap_err();
    assert_eq!(error.to_string(), "chunk 1 of block_alloc is missing");
    assert_eq!(
        decode([]).unwrap_err().to_string(),
        "chunk 0 of head is missing"
    );
}

#[test]
fn a_newer_version_is_refused() {
    let mut chunks = chunks_of(&testing::training_run(100));
    chunks[0].bytes = br#"{"version": 7, "surprise": true}"#.to_vec();
    assert_eq!(decode(chunks).unwrap_err(), StoredError::Version(7));
}

#[test]
fn column_numbers_are_unique() {
    for column in Column::ALL {
        assert_eq!(Column::from_id(column.id()), Some(column));
    }
    assert_eq!(Column::from_id(4), None);
}
