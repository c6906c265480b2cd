//! Unpacks gzip and zstd, recognised by their first bytes, while the bytes arrive.
//!
//! The server unpacks with the library of zstd, which is C. This one is Rust alone, so that it runs
//! in a browser.

use crate::problems::{Refused, bad_snapshot};
use flate2::write::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;
use std::io::{Read, Write};

/// The first bytes of a gzip stream (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The first bytes of a zstd frame (RFC 8878).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The first bytes of a frame that a decoder skips, without their lowest four bits.
const SKIPPED: u32 = 0x184d_2a50;
/// The head of such a frame: these bytes, and its length.
const SKIPPED_HEAD: usize = 8;

/// Bytes of a gzip stream that are unpacked at once: gzip expands at most 1032 times.
const GZIP_PIECE: usize = 16 << 10;

/// A block of zstd has at most 128 KiB; heads of frame and block and a checksum come on top.
const ZSTD_BLOCK: usize = (128 << 10) + 64;

/// A frame may refer to so many bytes before. `zstd --long` makes windows of this size.
const ZSTD_WINDOW: u64 = 1 << 27;

/// Unpacks a file.
pub struct Unpack {
    form: Form,
    /// Bytes of the file so far.
    taken: u64,
}

enum Form {
    /// Fewer bytes than tell the form.
    Unknown(Vec<u8>),
    Plain,
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zstd(Box<Zstd>),
}

struct Zstd {
    decoder: FrameDecoder,
    in_frame: bool,
    /// Bytes of frames to skip.
    skip: u64,
    /// Bytes that wait for the rest of their block.
    waiting: Vec<u8>,
    piece: Vec<u8>,
}

/// Whether more bytes will come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    MayCome,
    Never,
}

type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Refused> + 'a;

impl Unpack {
    /// For a file that has not begun.
    pub fn new() -> Unpack {
        Unpack {
            form: Form::Unknown(Vec::new()),
            taken: 0,
        }
    }

    /// Takes bytes of the file and passes the unpacked bytes to `sink`.
    ///
    /// # Errors
    /// When the file is damaged; those of `sink`.
    pub fn push(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Refused> {
        self.taken += bytes.len() as u64;
        let at = self.taken;
        match &mut self.form {
            Form::Unknown(head) => {
                head.extend_from_slice(bytes);
                if head.len() < ZSTD.len() {
                    return Ok(());
                }
                let head = std::mem::take(head);
                self.form = Form::of(&head);
                self.taken = 0;
                self.push(&head, sink)
            }
            Form::Plain => sink(bytes),
            Form::Gzip(decoder) => gunzip(decoder, bytes, at, sink),
            Form::Zstd(zstd) => {
                zstd.waiting.extend_from_slice(bytes);
                zstd.unpack(More::MayCome, at, sink)
            }
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When the file is not complete; those of `sink`.
    pub fn finish(mut self, sink: &mut Sink<'_>) -> Result<(), Refused> {
        match &mut self.form {
            Form::Unknown(head) => sink(head),
            Form::Plain => Ok(()),
            Form::Gzip(decoder) => {
                let ended = decoder.try_finish();
                sink(decoder.get_ref())?;
                ended.map_err(|_| truncated("gzip", self.taken))
            }
            Form::Zstd(zstd) => {
                zstd.unpack(More::Never, self.taken, sink)?;
                match zstd.in_frame || zstd.skip > 0 || !zstd.waiting.is_empty() {
                    true => Err(truncated("zstd", self.taken)),
                    false => Ok(()),
                }
            }
        }
    }
}

impl Form {
    fn of(head: &[u8]) -> Form {
        if head.starts_with(&GZIP) {
            return Form::Gzip(MultiGzDecoder::new(Vec::new()));
        }
        let first = head.first_chunk().map(|first| u32::from_le_bytes(*first));
        // Programs that pack in parallel begin with a frame to skip.
        let is_skipped = first.is_some_and(|first| first & !0xf == SKIPPED);
        if !head.starts_with(&ZSTD) && !is_skipped {
            return Form::Plain;
        }
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW);
        Form::Zstd(Box::new(Zstd {
            decoder,
            in_frame: false,
            skip: 0,
            waiting: Vec::new(),
            piece: vec![0; ZSTD_BLOCK],
        }))
    }
}

fn gunzip(
    decoder: &mut MultiGzDecoder<Vec<u8>>,
    bytes: &[u8],
    at: u64,
    sink: &mut Sink<'_>,
) -> Result<(), Refused> {
    for piece in bytes.chunks(GZIP_PIECE) {
        let written = decoder.write_all(piece);
        written.map_err(|error| damaged("gzip", at, &error.to_string()))?;
        sink(decoder.get_ref())?;
        decoder.get_mut().clear();
    }
    Ok(())
}

impl Zstd {
    fn unpack(&mut self, more: More, at: u64, sink: &mut Sink<'_>) -> Result<(), Refused> {
        let mut from = 0;
        loop {
            let rest = &self.waiting[from..];
            if self.skip > 0 {
                let skipped = self.skip.min(rest.len() as u64);
                self.skip -= skipped;
                from += skipped as usize;
                if self.skip > 0 {
                    break;
                }
                continue;
            }
            // The decoder takes whole blocks only.
            if rest.is_empty() && !self.in_frame || more == More::MayCome && rest.len() < ZSTD_BLOCK
            {
                break;
            }
            if !self.in_frame {
                if let Some(length) = skipped(rest) {
                    self.skip = length;
                    continue;
                }
                let mut head = rest;
                let begun = self.decoder.reset(&mut head);
                begun.map_err(|error| damaged("zstd", at, &error.to_string()))?;
                from += rest.len() - head.len();
                self.in_frame = true;
                continue;
            }
            // It unpacks all that it is given, and holds what the piece does not take.
            let given = &rest[..rest.len().min(ZSTD_BLOCK)];
            let done = self.decoder.decode_from_to(given, &mut self.piece);
            let (read, made) = done.map_err(|_| damaged("zstd", at, BLOCK))?;
            // Before a checksum that is cut, it says that it read more than there is.
            let read = read.min(rest.len());
            from += read;
            sink(&self.piece[..made])?;
            self.hand_on(at, sink)?;
            if self.decoder.is_finished() && self.decoder.can_collect() == 0 {
                self.check(at)?;
                self.in_frame = false;
            } else if read == 0 && made == 0 {
                break;
            }
        }
        self.waiting.drain(..from);
        Ok(())
    }

    /// Passes on what the decoder holds, except what later blocks may refer to.
    fn hand_on(&mut self, at: u64, sink: &mut Sink<'_>) -> Result<(), Refused> {
        while self.decoder.can_collect() > 0 {
            let made = self.decoder.read(&mut self.piece);
            let made = made.map_err(|_| damaged("zstd", at, BLOCK))?;
            if made == 0 {
                break;
            }
            sink(&self.piece[..made])?;
        }
        Ok(())
    }

    /// Whether the frame that has ended gave the bytes that were packed. The decoder computes the
    /// checksum of what it hands on, and does not compare it.
    fn check(&self, at: u64) -> Result<(), Refused> {
        let Some(written) = self.decoder.get_checksum_from_data() else {
            return Ok(());
        };
        match self.decoder.get_calculated_checksum() == Some(written) {
            true => Ok(()),
            false => Err(damaged("zstd", at, "the checksum is of other data")),
        }
    }
}

/// The length of a frame to skip, if one begins here.
fn skipped(bytes: &[u8]) -> Option<u64> {
    let head = bytes.get(..SKIPPED_HEAD)?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let is_skipped = word(0) & !0xf == SKIPPED;
    is_skipped.then(|| u64::from(word(4)) + SKIPPED_HEAD as u64)
}

/// The decoder says more, but for those who wrote it.
const BLOCK: &str = "a block of it cannot be unpacked";

fn damaged(format: &str, offset: u64, detail: &str) -> Refused {
    let detail = format!("the {format} stream is damaged near byte {offset} of the file: {detail}");
    bad_snapshot(&detail, Some(offset))
}

fn truncated(format: &str, offset: u64) -> Refused {
    let detail = format!(
        "the {format} stream does not end where the file does, at byte {offset}: it was truncated \
         while being written or copied, or its end is damaged"
    );
    bad_snapshot(&detail, Some(offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn unpacked(file: &[u8], piece: usize) -> Result<Vec<u8>, Refused> {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        let mut unpack = Unpack::new();
        for piece in file.chunks(piece) {
            unpack.push(piece, &mut sink)?;
        }
        unpack.finish(&mut sink)?;
        Ok(out)
    }

    /// Something that packs, but not to a single block.
    fn text() -> Vec<u8> {
        let mut state = 1u32;
        let words = (0..200_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 12).to_string()
        });
        words.collect::<String>().into_bytes()
    }

    #[test]
    fn every_form_gives_the_bytes_back_in_pieces_of_any_size() {
        let text = text();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::encode_all(&text[..], 3).unwrap();
        let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0], &b"words"[..]].concat();
        let (half, rest) = text.split_at(text.len() / 2);
        let packed = |bytes| zstd::encode_all(bytes, 1).unwrap();
        let frames = [packed(half), skipped, packed(rest)].concat();
        for file in [&text, &gzip, &zstd, &frames] {
            for piece in [777, 1 << 16, file.len()] {
                assert!(unpacked(file, piece).unwrap() == text, "pieces of {piece}");
            }
        }
        assert_eq!(unpacked(b"ab", 1).unwrap(), b"ab");
    }

    #[test]
    fn what_is_cut_or_damaged_is_refused() {
        let text = text();
        let zstd = zstd::encode_all(&text[..], 3).unwrap();
        let refusal = |file: &[u8]| unpacked(file, 5000).unwrap_err().detail;
        assert!(refusal(&zstd[..zstd.len() / 2]).contains("truncated"));
        assert!(refusal(&[&zstd[..], b"more"].concat()).contains("zstd"));
        assert!(refusal(b"\x1f\x8b\x08\x00 not gzip").contains("gzip"));
    }

    /// What does not pack: any bit of it may change, and it can still be unpacked.
    fn noise() -> Vec<u8> {
        let mut state = 1u32;
        let bytes = (0..300_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        bytes.collect()
    }

    /// With a checksum at its end, as the `zstd` command writes it.
    fn checked(text: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_checksum_of_other_data_is_refused() {
        let noise = noise();
        let (half, rest) = noise.split_at(noise.len() / 2);
        let frames = [checked(half), checked(b""), checked(rest)].concat();
        let first = checked(half).len();
        // In a block that is not packed, and in checksums.
        let places = [first / 2, first - 4, first - 1, frames.len() - 1];
        for piece in [777, 1 << 16, frames.len()] {
            assert!(
                unpacked(&frames, piece).unwrap() == noise,
                "pieces of {piece}"
            );
            for place in places {
                let mut broken = frames.clone();
                broken[place] ^= 1;
                let refusal = unpacked(&broken, piece).unwrap_err().detail;
                assert!(refusal.contains("checksum"), "byte {place}: {refusal}");
            }
        }
        let cut = unpacked(&frames[..frames.len() - 2], 777).unwrap_err();
        assert!(cut.detail.contains("truncated"), "{}", cut.detail);
    }
}
