//! Unpacks gzip and zstd, recognised by their first bytes: a push decoder in front of the reader.
//!
//! Bytes go in as they arrive; unpacked bytes come out in pieces of limited size. The total size is
//! limited ([`Decompressor::DEFAULT_LIMIT`]). For uploads the ratio is limited too: the cost of
//! reading depends on unpacked bytes, the cost of sending on packed ones.

use crate::system::compression::{GZIP_MAGIC, ZSTD_MAGIC, is_zstd};
use flate2::write::MultiGzDecoder;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use trace::units::Bytes;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

/// gzip expands at most 1032 times, so unpacking this much at once makes at most 4 MiB.
const GZIP_PIECE: usize = 4 << 10;

/// The size of zstd's output buffer.
const ZSTD_PIECE: usize = 128 << 10;

/// Frames that need a larger window are refused, because a window is memory. `--long` makes windows
/// of 2^27.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Why a compressed file cannot be unpacked. Offsets are bytes of the file as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The bytes are not a valid stream.
    #[error("the {format} stream is damaged near byte {offset} of the file: {detail}")]
    Damaged {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// Where.
        offset: u64,
        /// The message of the decoder.
        detail: String,
    },
    /// The stream is not complete.
    #[error(
        "the {format} stream does not end where the file does, at byte {offset}: it was truncated \
         while being written or copied, or its end is damaged"
    )]
    Truncated {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// Length of the file.
        offset: u64,
    },
    /// It unpacks to far more than its size.
    #[error(
        "the {format} stream unpacks to more than {} times its size (at byte {offset} of the \
         file), far more than any snapshot of PyTorch does; if it is one, send it unpacked",
        Decompressor::RATIO
    )]
    TooDense {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// Where.
        offset: u64,
    },
    /// It unpacks to too much.
    #[error("the {format} stream unpacks to more than {limit}, the limit")]
    TooLarge {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// The limit.
        limit: Bytes,
    },
}

impl DecompressError {
    /// The byte in the file as it was sent, if there is one.
    pub fn offset(&self) -> Option<u64> {
        match self {
            DecompressError::Damaged { offset, .. }
            | DecompressError::Truncated { offset, .. }
            | DecompressError::TooDense { offset, .. } => Some(*offset),
            DecompressError::TooLarge { .. } => None,
        }
    }
}

/// The push decoder.
pub struct Decompressor {
    state: State,
    consumed: u64,
    produced: u64,
    limit: Bytes,
    density: Density,
    held: Arc<AtomicUsize>,
}

/// Whether the ratio of unpacked to packed bytes is limited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Density {
    /// Not limited: the bytes were accepted before, or are the user's own.
    Any,
    /// Limited: a stranger sends them.
    Limited,
}

enum State {
    /// Fewer than four bytes have arrived.
    Sniffing(Vec<u8>),
    Plain,
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zstd(Zstd),
}

struct Zstd {
    decoder: DCtx<'static>,
    piece: Vec<u8>,
    in_frame: bool,
}

impl Default for Decompressor {
    fn default() -> Decompressor {
        Decompressor::new(Decompressor::DEFAULT_LIMIT)
    }
}

impl Decompressor {
    /// The default limit of unpacked bytes.
    pub const DEFAULT_LIMIT: Bytes = Bytes::gib(64);

    /// How many times its own size an upload may unpack to, beyond [`Decompressor::ALWAYS`]. The
    /// densest of some eighty snapshots at hand unpacks to 77 times its size.
    pub const RATIO: u64 = 500;

    /// Any upload may unpack to this many bytes.
    pub const ALWAYS: Bytes = Bytes::mib(64);

    /// A decoder that refuses to unpack more than `limit`.
    pub fn new(limit: Bytes) -> Decompressor {
        Decompressor {
            state: State::Sniffing(Vec::new()),
            consumed: 0,
            produced: 0,
            limit,
            density: Density::Any,
            held: Arc::default(),
        }
    }

    /// A decoder for a stranger's upload, whose ratio is limited too.
    pub fn of_upload() -> Decompressor {
        Decompressor {
            density: Density::Limited,
            ..Decompressor::default()
        }
    }

    /// The same for bytes that can only be gzip.
    pub fn of_gzip() -> Decompressor {
        Decompressor {
            state: State::Gzip(MultiGzDecoder::new(Vec::new())),
            ..Decompressor::of_upload()
        }
    }

    /// Bytes of memory that unpacking holds, for the reader of the unpacked bytes: a few bytes can
    /// ask for a window of 128 MiB.
    pub fn held(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.held)
    }

    /// Takes bytes of the file and passes the unpacked bytes to `sink`.
    ///
    /// # Errors
    /// When the stream is damaged or too large, or when `sink` stops with an error of its own.
    pub fn push<E: From<DecompressError>>(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.state {
            State::Sniffing(head) => {
                head.extend_from_slice(bytes);
                if head.len() < ZSTD_MAGIC.len() {
                    return Ok(());
                }
                let head = std::mem::take(head);
                self.state = State::of(&head)?;
                self.push(&head, sink)
            }
            State::Plain => {
                self.consumed += bytes.len() as u64;
                sink(bytes)
            }
            State::Gzip(_) => bytes
                .chunks(GZIP_PIECE)
                .try_for_each(|piece| self.push_gzip(piece, sink)),
            State::Zstd(_) => self.push_zstd(bytes, sink),
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When the stream is not complete, or when `sink` stops with an error of its own.
    pub fn finish<E: From<DecompressError>>(
        &mut self,
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let offset = self.consumed;
        match &mut self.state {
            State::Sniffing(head) => sink(head),
            State::Plain => Ok(()),
            State::Gzip(decoder) => {
                let ended = decoder.try_finish();
                let rest = std::mem::take(decoder.get_mut());
                self.produce("gzip", &rest, sink)?;
                // For the decoder, a missing trailer and a wrong one look the same.
                ended.map_err(|_| {
                    DecompressError::Truncated {
                        format: "gzip",
                        offset,
                    }
                    .into()
                })
            }
            State::Zstd(zstd) if zstd.in_frame => Err(DecompressError::Truncated {
                format: "zstd",
                offset,
            }
            .into()),
            State::Zstd(_) => Ok(()),
        }
    }

    fn push_gzip<E: From<DecompressError>>(
        &mut self,
        mut bytes: &[u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let State::Gzip(decoder) = &mut self.state else {
                return Ok(());
            };
            let taken = decoder
                .write(bytes)
                .map_err(|error| gzip_error(&error, self.consumed))?;
            let unpacked = std::mem::take(decoder.get_mut());
            self.consumed += taken as u64;
            self.produce("gzip", &unpacked, sink)?;
            if taken == 0 {
                let detail = "there are bytes after its end".to_owned();
                let offset = self.consumed;
                return Err(DecompressError::Damaged {
                    format: "gzip",
                    offset,
                    detail,
                }
                .into());
            }
            // Keeps the allocation for the next piece.
            if let State::Gzip(decoder) = &mut self.state {
                let mut unpacked = unpacked;
                unpacked.clear();
                *decoder.get_mut() = unpacked;
            }
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    fn push_zstd<E: From<DecompressError>>(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut input = InBuffer::around(bytes);
        let start = self.consumed;
        loop {
            let State::Zstd(zstd) = &mut self.state else {
                return Ok(());
            };
            let before = input.pos();
            let mut output = OutBuffer::around(&mut zstd.piece[..]);
            let hint = zstd.decoder.decompress_stream(&mut output, &mut input);
            let made = output.pos();
            self.consumed = start + input.pos() as u64;
            let hint = hint.map_err(|code| zstd_error(code, start + input.pos() as u64))?;
            self.held.store(zstd.decoder.sizeof(), Ordering::Relaxed);
            // After the end of a frame, the hint is about the next frame, and none may follow.
            if hint == 0 || made > 0 || input.pos() > before {
                zstd.in_frame = hint != 0;
            }
            let (full, piece) = (made == zstd.piece.len(), std::mem::take(&mut zstd.piece));
            let taken = self.produce("zstd", &piece[..made], sink);
            if let State::Zstd(zstd) = &mut self.state {
                zstd.piece = piece;
            }
            taken?;
            // If the buffer is full, there may still be unpacked bytes inside the decoder.
            if input.pos() == bytes.len() && !full {
                return Ok(());
            }
        }
    }

    fn produce<E: From<DecompressError>>(
        &mut self,
        format: &'static str,
        unpacked: &[u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.produced += unpacked.len() as u64;
        if self.produced > self.limit.get() {
            let limit = self.limit;
            return Err(DecompressError::TooLarge { format, limit }.into());
        }
        let dense = Decompressor::ALWAYS.get() + self.consumed.saturating_mul(Decompressor::RATIO);
        if self.density == Density::Limited && self.produced > dense {
            let offset = self.consumed;
            return Err(DecompressError::TooDense { format, offset }.into());
        }
        if unpacked.is_empty() {
            Ok(())
        } else {
            sink(unpacked)
        }
    }
}

impl State {
    fn of(head: &[u8]) -> Result<State, DecompressError> {
        if head.starts_with(&GZIP_MAGIC) {
            return Ok(State::Gzip(MultiGzDecoder::new(Vec::new())));
        }
        if !is_zstd(head) {
            return Ok(State::Plain);
        }
        let mut decoder = DCtx::create();
        decoder
            .init()
            .and_then(|_| decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)))
            .map_err(|code| zstd_error(code, 0))?;
        let piece = vec![0; ZSTD_PIECE];
        Ok(State::Zstd(Zstd {
            decoder,
            piece,
            in_frame: true,
        }))
    }
}

fn zstd_error(code: usize, offset: u64) -> DecompressError {
    DecompressError::Damaged {
        format: "zstd",
        offset,
        detail: get_error_name(code).to_owned(),
    }
}

fn gzip_error(error: &std::io::Error, offset: u64) -> DecompressError {
    DecompressError::Damaged {
        format: "gzip",
        offset,
        detail: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Vec<u8> {
        (0..200_000_u32)
            .flat_map(|n| (n / 7).to_le_bytes())
            .collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_window_is_told_before_it_is_filled() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&[7; 1 << 20]).unwrap();
        encoder.write_all(&text()).unwrap();
        let file = encoder.finish().unwrap();
        let mut decompressor = Decompressor::default();
        let held = decompressor.held();
        let mut first = None;
        let mut sink = |_: &[u8]| {
            first.get_or_insert(held.load(Ordering::Relaxed));
            Ok::<(), DecompressError>(())
        };
        decompressor.push(&file, &mut sink).unwrap();
        assert!(first.is_some_and(|held| held > 128 << 20), "{first:?}");
    }

    fn unpack_error(file: &[u8], pieces: usize, limit: Bytes) -> DecompressError {
        let unpacked = unpack(file, pieces, limit).map(|all| all.len());
        unpacked.expect_err("the file is not whole")
    }

    fn unpack(file: &[u8], pieces: usize, limit: Bytes) -> Result<Vec<u8>, DecompressError> {
        let mut decompressor = Decompressor::new(limit);
        let mut all = Vec::new();
        let mut sink = |bytes: &[u8]| {
            all.extend_from_slice(bytes);
            Ok::<(), DecompressError>(())
        };
        for piece in file.chunks(pieces) {
            decompressor.push(piece, &mut sink)?;
        }
        decompressor.finish(&mut sink)?;
        Ok(all)
    }

    #[test]
    fn every_format_reads_back_in_pieces_of_any_size() {
        let text = text();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        let two_members = [gzip(&text[..1000]), gzip(&text[1000..])].concat();
        let two_frames = [
            zstd::encode_all(&text[..1000], 1).unwrap(),
            zstd::encode_all(&text[1000..], 1).unwrap(),
        ];
        // As programs write them that pack in parallel.
        let skipped = |first: u8| [&[first, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let [one, two] = &two_frames;
        let with_skipped = [&skipped(0x50), one, &skipped(0x5f), two, &skipped(0x5a)];
        for file in [
            &text,
            &zstd,
            &with_skipped.map(Vec::as_slice).concat(),
            &gzip(&text),
            &two_members,
            &two_frames.concat(),
        ] {
            for pieces in [1, 7, 4096, usize::MAX] {
                let unpacked = unpack(file, pieces, Decompressor::DEFAULT_LIMIT);
                assert!(
                    unpacked.unwrap() == text,
                    "{} bytes by {pieces}",
                    file.len()
                );
            }
        }
    }

    #[test]
    fn a_short_file_is_passed_on_as_it_is() {
        for file in [&b""[..], b"a", b"abc", &GZIP_MAGIC] {
            assert_eq!(unpack(file, 1, Bytes(9)).unwrap(), file);
        }
    }

    #[test]
    fn a_truncated_stream_says_where_it_ends() {
        let text = text();
        let whole = [
            ("gzip", gzip(&text)),
            ("zstd", zstd::encode_all(&text[..], 1).unwrap()),
        ];
        for (format, file) in whole {
            for cut in [5, file.len() / 2, file.len() - 1] {
                let error = unpack_error(&file[..cut], 100, Decompressor::DEFAULT_LIMIT);
                let offset = cut as u64;
                assert_eq!(error, DecompressError::Truncated { format, offset });
            }
        }
    }

    #[test]
    fn a_damaged_stream_says_where() {
        let text = text();
        let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        zstd.include_checksum(true).unwrap();
        zstd.write_all(&text).unwrap();
        for mut file in [gzip(&text), zstd.finish().unwrap()] {
            let at = file.len() / 2;
            file[at..at + 64].fill(0xff);
            let error = unpack_error(&file, 4096, Decompressor::DEFAULT_LIMIT);
            assert!(error.offset() >= Some(at as u64), "{error}");
        }
    }

    #[test]
    fn a_stream_of_whole_blocks_is_whole() {
        for blocks in 1..4 {
            let text = vec![7; blocks * ZSTD_PIECE];
            let file = zstd::encode_all(&text[..], 1).unwrap();
            for pieces in [1, file.len() - 1, usize::MAX] {
                let unpacked = unpack(&file, pieces, Decompressor::DEFAULT_LIMIT);
                assert!(unpacked.unwrap() == text, "{blocks} blocks by {pieces}");
            }
            let cut = unpack_error(&file[..file.len() - 1], 1, Decompressor::DEFAULT_LIMIT);
            assert!(matches!(cut, DecompressError::Truncated { .. }), "{cut}");
        }
    }

    #[test]
    fn an_upload_may_not_be_far_denser_than_any_snapshot() {
        let zeros = vec![0; 160 << 20];
        let send = |file: &[u8]| {
            let mut decompressor = Decompressor::of_upload();
            let mut sink = |_: &[u8]| Ok::<(), DecompressError>(());
            let sent = decompressor.push(file, &mut sink);
            sent.and_then(|()| decompressor.finish(&mut sink))
        };
        for file in [gzip(&zeros), zstd::encode_all(&zeros[..], 1).unwrap()] {
            let dense = zeros.len() / file.len();
            assert!(dense as u64 > Decompressor::RATIO, "{dense}");
            let error = send(&file).unwrap_err();
            assert!(matches!(error, DecompressError::TooDense { .. }), "{error}");
            let unpacked = unpack(&file, usize::MAX, Bytes::mib(160)).unwrap();
            assert_eq!(unpacked.len(), zeros.len());
        }
        // A small upload may have any ratio.
        assert!(send(&zstd::encode_all(&zeros[..60 << 20], 1).unwrap()).is_ok());
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let zeros = vec![0; 8 << 20];
        for file in [gzip(&zeros), zstd::encode_all(&zeros[..], 1).unwrap()] {
            let error = unpack_error(&file, usize::MAX, Bytes::mib(1));
            assert!(matches!(error, DecompressError::TooLarge { .. }), "{error}");
        }
    }
}
