//! Unpacks a body that was packed only for its way here (`Content-Encoding: gzip`). What is hashed,
//! stored and read is the file as it was, so the run has the id that it has everywhere.

use super::decompress::{DecompressError, Decompressor};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};

/// Packed bytes that are unpacked at once: at most 264 KiB come out of them.
const PIECE: usize = 256;

/// About this much is handed on at a time.
const ENOUGH: usize = 64 << 10;

/// Why a body ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The connection ended, or the packed stream did before its end: a proxy may end a body well
    /// that it did not get whole.
    Cut,
    /// What came cannot be unpacked. Sent again, it would be the same.
    Damaged(DecompressError),
}

/// A body that is being unpacked.
struct Packed<S> {
    body: S,
    unpack: Decompressor,
    /// Bytes that arrived and were not unpacked yet.
    waiting: Bytes,
    ended: bool,
}

/// The bytes inside of a body that is packed with gzip. Little is unpacked ahead of the reader, and
/// no more than of any packed file ([`Decompressor::RATIO`]).
pub fn unpacked<E: Send + 'static>(
    body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<Bytes, Broken>> + Send + Unpin + 'static {
    let packed = Packed {
        body,
        unpack: Decompressor::of_gzip(),
        waiting: Bytes::new(),
        ended: false,
    };
    Box::pin(stream::try_unfold(packed, |mut packed| async move {
        let piece = packed.next().await?;
        Ok(piece.map(|piece| (piece, packed)))
    }))
}

impl From<DecompressError> for Broken {
    fn from(error: DecompressError) -> Broken {
        match error {
            DecompressError::Truncated { .. } => Broken::Cut,
            error => Broken::Damaged(error),
        }
    }
}

impl<E, S: Stream<Item = Result<Bytes, E>> + Unpin> Packed<S> {
    /// The next unpacked bytes; `None` after the last.
    async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        while !self.ended {
            let piece = self.piece()?;
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
            match self.body.next().await {
                Some(arrived) => self.waiting = arrived.map_err(|_| Broken::Cut)?,
                None => {
                    self.ended = true;
                    let rest = self.rest()?;
                    return Ok(Some(rest.into()).filter(|rest: &Bytes| !rest.is_empty()));
                }
            }
        }
        Ok(None)
    }

    /// Unpacks some of what waits.
    fn piece(&mut self) -> Result<Vec<u8>, DecompressError> {
        let mut made = Vec::new();
        while made.len() < ENOUGH && !self.waiting.is_empty() {
            let piece = self.waiting.split_to(PIECE.min(self.waiting.len()));
            self.unpack.push(&piece, &mut collect(&mut made))?;
        }
        Ok(made)
    }

    fn rest(&mut self) -> Result<Vec<u8>, DecompressError> {
        let mut made = Vec::new();
        self.unpack.finish(&mut collect(&mut made))?;
        Ok(made)
    }
}

fn collect(into: &mut Vec<u8>) -> impl FnMut(&[u8]) -> Result<(), DecompressError> {
    |bytes| {
        into.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    /// The pieces that come out of a body that arrives in pieces of this size.
    async fn pieces(body: &[u8], size: usize) -> Result<Vec<Bytes>, Broken> {
        let body: Vec<_> = body.chunks(size).map(Bytes::copy_from_slice).collect();
        let body = stream::iter(body.into_iter().map(Ok::<_, ()>));
        let mut out = Vec::new();
        let mut unpacked = unpacked(body);
        while let Some(piece) = unpacked.next().await {
            out.push(piece?);
        }
        Ok(out)
    }

    #[tokio::test]
    async fn the_file_comes_out_in_small_pieces_however_it_arrives() {
        let file: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        for size in [1 << 10, 1 << 18] {
            let pieces = pieces(&gzip(&file), size).await.unwrap();
            let longest = pieces.iter().map(Bytes::len).max();
            assert!(
                longest.is_some_and(|n| n <= ENOUGH + 1032 * PIECE),
                "{longest:?}"
            );
            assert!(pieces.concat() == file, "pieces of {size}");
        }
        assert_eq!(pieces(&gzip(b""), 7).await, Ok(Vec::new()));
    }

    #[tokio::test]
    async fn what_is_cut_or_no_gzip_or_a_bomb_ends_the_body() {
        let packed = gzip(&[7; 1000]);
        let cut = &packed[..packed.len() - 3];
        let told = async |body: &[u8], size| match pieces(body, size).await {
            Err(Broken::Damaged(error)) => error.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(told(cut, 9).await, "Err(Cut)");
        assert_eq!(told(b"", 9).await, "Err(Cut)");
        let pickle = told(b"a pickle, which is no gzip stream", 9).await;
        assert!(pickle.contains("gzip stream is damaged"), "{pickle}");
        let bomb = gzip(&vec![0; 200 << 20]);
        assert!(told(&bomb, 1 << 16).await.contains("unpacks to more than"));
        // Not what came is to blame, but that no more came.
        let body = stream::iter([Err::<Bytes, _>("reset")]);
        assert_eq!(unpacked(body).next().await, Some(Err(Broken::Cut)));
    }
}
