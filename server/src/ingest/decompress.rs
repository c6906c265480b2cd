//! gzip and zstd by magic bytes, as a push decoder in front of the snapshot reader.
//!
//! Bytes go in as they arrive; unpacked bytes come out in pieces of bounded size. The total size
//! is limited ([`Decompressor::DEFAULT_LIMIT`]) whatever the ratio: a snapshot of a long run
//! compresses to a hundredth, and a bomb is one only if its content is no snapshot, which the
//! reader finds at its first bytes.

use flate2::write::MultiGzDecoder;
use std::io::Write;
use trace::units::Bytes;
use zstd::stream::raw::{self, DParameter, InBuffer, Operation, OutBuffer};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// gzip expands at most 1032 times: unpacking this much at once makes at most 4 MiB.
const GZIP_PIECE: usize = 4 << 10;

/// zstd unpacks into a buffer of this size.
const ZSTD_PIECE: usize = 128 << 10;

/// Frames that need a larger window are refused: it is memory. 2^27 is what `--long` makes.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Whether a file that begins so is compressed.
pub fn is_compressed(head: &[u8]) -> bool {
    head.starts_with(&GZIP_MAGIC) || head.starts_with(&ZSTD_MAGIC)
}

/// A compressed file that cannot be unpacked. Offsets are bytes of the file as sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The bytes are no such stream.
    #[error("the {format} stream is damaged near byte {offset} of the file: {detail}")]
    Damaged {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// Where.
        offset: u64,
        /// What the decoder says.
        detail: String,
    },
    /// The stream does not end.
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
    /// Byte of the file as sent, where there is one.
    pub fn offset(&self) -> Option<u64> {
        match self {
            DecompressError::Damaged { offset, .. } | DecompressError::Truncated { offset, .. } => {
                Some(*offset)
            }
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
}

enum State {
    /// Fewer than four bytes have come.
    Sniffing(Vec<u8>),
    Plain,
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zstd(Zstd),
}

struct Zstd {
    decoder: raw::Decoder<'static>,
    piece: Vec<u8>,
    in_frame: bool,
}

impl Default for Decompressor {
    fn default() -> Decompressor {
        Decompressor::new(Decompressor::DEFAULT_LIMIT)
    }
}

impl Decompressor {
    /// Unpacked bytes accepted, unless told otherwise.
    pub const DEFAULT_LIMIT: Bytes = Bytes::gib(64);

    /// A decoder that refuses to unpack more than `limit`.
    pub fn new(limit: Bytes) -> Decompressor {
        Decompressor {
            state: State::Sniffing(Vec::new()),
            consumed: 0,
            produced: 0,
            limit,
        }
    }

    /// Bytes of the file taken so far.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Takes bytes of the file and hands what they unpack to `sink`.
    ///
    /// # Errors
    /// When the stream is damaged or too large; `sink` may stop with its own.
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

    /// The file has ended.
    ///
    /// # Errors
    /// When the stream has not; `sink` may stop with its own.
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
                // A trailer that is missing and one that is wrong look the same to the decoder.
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
            // Keep the allocation for the next piece.
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
            let mut output = OutBuffer::around(&mut zstd.piece[..]);
            let hint = zstd.decoder.run(&mut input, &mut output);
            let made = output.pos();
            self.consumed = start + input.pos() as u64;
            let hint = hint.map_err(|error| DecompressError::Damaged {
                format: "zstd",
                offset: start + input.pos() as u64,
                detail: error.to_string(),
            })?;
            zstd.in_frame = hint != 0;
            let (full, piece) = (made == zstd.piece.len(), std::mem::take(&mut zstd.piece));
            let taken = self.produce("zstd", &piece[..made], sink);
            if let State::Zstd(zstd) = &mut self.state {
                zstd.piece = piece;
            }
            taken?;
            // A full buffer may have left unpacked bytes inside the decoder.
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
        if !head.starts_with(&ZSTD_MAGIC) {
            return Ok(State::Plain);
        }
        let decoder = raw::Decoder::new().and_then(|mut decoder| {
            decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
            Ok(decoder)
        });
        let decoder = decoder.map_err(|error| DecompressError::Damaged {
            format: "zstd",
            offset: 0,
            detail: error.to_string(),
        })?;
        let piece = vec![0; ZSTD_PIECE];
        Ok(State::Zstd(Zstd {
            decoder,
            piece,
            in_frame: true,
        }))
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
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
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
        for file in [
            &text,
            &zstd,
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
    fn a_bomb_stops_at_the_limit() {
        let zeros = vec![0; 8 << 20];
        for file in [gzip(&zeros), zstd::encode_all(&zeros[..], 1).unwrap()] {
            let error = unpack_error(&file, usize::MAX, Bytes::mib(1));
            assert!(matches!(error, DecompressError::TooLarge { .. }), "{error}");
        }
    }
}
