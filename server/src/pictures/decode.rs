//! From the chunks of the store to a trace, on two threads.

use crate::store::{PackedChunk, StoreError, StoreResult};
use std::{panic, thread};
use trace::stored::{Apart, Chunk, Column, Rest, memory_needed};
use trace::trace::Trace;
use trace::units::Bytes;

/// The most bytes that [`decode`] holds: the chunks, and what is made of them.
pub fn needs(chunks: &[PackedChunk]) -> StoreResult<Bytes> {
    let sizes = chunks
        .iter()
        .map(|chunk| (chunk.column(), chunk.unpacked_len()));
    let unpacked: usize = sizes.clone().map(|(_, bytes)| bytes).sum();
    let made = memory_needed(&head(chunks)?, sizes);
    Ok(Bytes((unpacked + made) as u64))
}

/// Unpacks and decodes.
///
/// # Errors
/// When a chunk is missing or damaged, or was written by a newer version.
pub fn decode(chunks: Vec<PackedChunk>) -> StoreResult<Trace> {
    let head = head(&chunks)?;
    let (apart, rest): (Vec<_>, Vec<_>) = chunks.into_iter().partition(|c| c.column().is_apart());
    let decode_apart = || {
        let apart = Apart::decode(&head, unpacked(apart)?);
        apart.map_err(StoreError::Undecodable)
    };
    let (apart, rest) = thread::scope(|scope| {
        let apart = scope.spawn(decode_apart);
        let rest = unpacked(rest).map(Rest::decode);
        let apart = apart.join();
        (apart.unwrap_or_else(|why| panic::resume_unwind(why)), rest)
    });
    let rest = rest?.map_err(StoreError::Undecodable)?;
    Ok(rest.with(apart?))
}

fn unpacked(chunks: Vec<PackedChunk>) -> StoreResult<Vec<Chunk>> {
    // Each packed chunk is freed when its bytes are unpacked.
    chunks.into_iter().map(|chunk| chunk.unpack()).collect()
}

/// The bytes of the head; none if it is missing, which decoding tells.
fn head(chunks: &[PackedChunk]) -> StoreResult<Vec<u8>> {
    let head = chunks.iter().find(|chunk| chunk.column() == Column::Head);
    head.map_or(Ok(Vec::new()), |chunk| Ok(chunk.unpack()?.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::stored::encode;
    use trace::testing::training_run;

    fn packed(trace: &Trace) -> Vec<PackedChunk> {
        let mut chunks = Vec::new();
        encode(trace, &mut |chunk| {
            chunks.push(PackedChunk::pack(&chunk).unwrap())
        });
        chunks
    }

    #[test]
    fn two_threads_decode_what_one_does() {
        let trace = training_run(3000);
        let decoded = decode(packed(&trace)).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{trace:?}"));
    }

    #[test]
    fn a_missing_chunk_is_told_and_nothing_panics() {
        let chunks = packed(&training_run(3000));
        let mut told = 0;
        for without in 0..chunks.len() {
            let mut chunks = chunks.clone();
            let column = chunks.remove(without).column();
            needs(&chunks).unwrap();
            match decode(chunks) {
                Err(StoreError::Undecodable(_)) => told += 1,
                // Nothing says how many rows these have.
                Ok(_) => assert!(
                    [
                        Column::Events,
                        Column::Segments,
                        Column::SegmentsBefore,
                        Column::Others,
                        Column::Annotations,
                    ]
                    .contains(&column),
                    "{column:?}"
                ),
                Err(other) => panic!("{column:?}: {other}"),
            }
        }
        assert!(told > 10, "{told}");
    }
}
