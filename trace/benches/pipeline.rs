//! The cost of a trace after replay, with 10k, 100k and 1M blocks (three events each): `cargo bench
//! -p trace --features testing`.

use divan::{Bencher, black_box, counter::ItemsCount};
use trace::pyramid::PyramidBuilder;
use trace::stored::{self, Chunk};
use trace::testing::training_run;
use trace::tiles::{GroupBy, MountainIndex, MountainTile, SeriesTile, TileId};
use trace::trace::Trace;
use trace::units::EventIdx;

const BLOCKS: [u32; 3] = [10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

/// The tile that shows the whole run.
fn whole(trace: &Trace) -> TileId {
    TileId::covering(0, u64::from(trace.devices[0].events.len()))
}

/// A tile in the middle, at the finest level.
fn deep(trace: &Trace) -> TileId {
    TileId {
        level: 0,
        index: trace.devices[0].events.len() / 2 / 1024,
    }
}

fn index(trace: &Trace) -> MountainIndex {
    MountainIndex::new(&trace.devices[0], GroupBy::Stack, &trace.stacks)
}

fn chunks(trace: &Trace) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    stored::encode(trace, &mut |chunk| chunks.push(chunk));
    chunks
}

/// Applies every event and feeds the pyramid: the cost of the four series during replay.
#[divan::bench(args = BLOCKS)]
fn pyramid(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    let device = &trace.devices[0];
    bencher
        .counter(ItemsCount::new(device.events.len()))
        .bench_local(|| {
            let mut levels = device.pyramid.start();
            let mut builder = PyramidBuilder::new(levels);
            for event in (0..device.events.len()).map(EventIdx) {
                let effect = device.effect(event);
                levels.apply(effect);
                builder.push(levels, effect.way());
            }
            builder.finish()
        });
}

#[divan::bench(args = BLOCKS)]
fn series_tile_whole(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    bencher.bench_local(|| trace.devices[0].series_tile(black_box(whole(&trace))));
}

#[divan::bench(args = BLOCKS)]
fn series_tile_deep(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    bencher.bench_local(|| trace.devices[0].series_tile(black_box(deep(&trace))));
}

#[divan::bench(args = BLOCKS)]
fn mountain_index(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    bencher.bench_local(|| index(black_box(&trace)));
}

#[divan::bench(args = BLOCKS)]
fn mountain_tile_whole(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    let index = index(&trace);
    bencher.bench_local(|| trace.devices[0].mountain_tile(black_box(whole(&trace)), &index));
}

#[divan::bench(args = BLOCKS)]
fn mountain_tile_deep(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    let index = index(&trace);
    bencher.bench_local(|| trace.devices[0].mountain_tile(black_box(deep(&trace)), &index));
}

#[divan::bench(args = BLOCKS)]
fn encode_tiles_whole(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    let series = trace.devices[0].series_tile(whole(&trace));
    let mountain = trace.devices[0].mountain_tile(whole(&trace), &index(&trace));
    bencher.bench_local(|| (series.encode(), mountain.encode()));
}

#[divan::bench(args = BLOCKS)]
fn decode_tiles_whole(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    let series = trace.devices[0].series_tile(whole(&trace)).encode();
    let mountain = trace.devices[0].mountain_tile(whole(&trace), &index(&trace));
    let mountain = mountain.encode();
    bencher.bench_local(|| {
        let series = SeriesTile::decode(black_box(&series));
        let mountain = MountainTile::decode(black_box(&mountain));
        (series, mountain)
    });
}

#[divan::bench(args = BLOCKS)]
fn store(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    bencher
        .counter(ItemsCount::new(trace.devices[0].events.len()))
        .bench_local(|| stored::encode(black_box(&trace), &mut |chunk| drop(black_box(chunk))));
}

#[divan::bench(args = BLOCKS)]
fn load(bencher: Bencher, blocks: u32) {
    let trace = training_run(blocks);
    let chunks = chunks(&trace);
    bencher
        .counter(ItemsCount::new(trace.devices[0].events.len()))
        .with_inputs(|| chunks.clone())
        .bench_local_values(stored::decode);
}
