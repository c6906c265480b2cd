//! The file may arrive in any pieces.

use super::layouts::{dialects, snapshot};
use super::pickle_writer::{json, pickle};
use crate::reader::{Limits, ReadError, Reader, read};
use crate::snapshot::Snapshot;
use proptest::prelude::*;

/// Reads `bytes` in pieces that end at `cuts`.
pub fn read_in_pieces(bytes: &[u8], cuts: &[usize]) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new(Limits::default());
    let mut at = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        let cut = cut.clamp(at, bytes.len());
        reader.push(&bytes[at..cut])?;
        at = cut;
    }
    reader.finish()
}

/// The same program in every dialect.
fn files() -> Vec<Vec<u8>> {
    let programs = [snapshot(0), snapshot(15)];
    let pickles = programs
        .iter()
        .flat_map(|program| dialects().into_iter().map(|d| pickle(program, d)));
    pickles
        .chain(programs.iter().map(|program| json(program).into_bytes()))
        .collect()
}

#[test]
fn byte_by_byte_is_the_same_as_at_once() {
    for file in files() {
        let every: Vec<usize> = (0..file.len()).collect();
        let expected = read(&file, Limits::default());
        assert!(expected.is_ok(), "{expected:?}");
        assert_eq!(read_in_pieces(&file, &every), expected);
    }
}

#[test]
fn every_single_cut_is_the_same_as_at_once() {
    for file in files() {
        let expected = read(&file, Limits::default());
        for cut in 0..file.len() {
            assert_eq!(read_in_pieces(&file, &[cut]), expected, "cut at {cut}");
        }
    }
}

#[test]
fn a_file_cut_off_anywhere_says_so() {
    for file in files() {
        for len in 1..file.len() {
            let error = read(&file[..len], Limits::default()).unwrap_err();
            assert_eq!(error.offset, len as u64);
            let text = error.to_string();
            assert!(text.contains(&format!("ends at byte {len} ")), "{text}");
        }
    }
}

proptest! {
    #[test]
    fn any_cuts_are_the_same_as_at_once(
        which in any::<prop::sample::Index>(),
        mut cuts in prop::collection::vec(0..4000_usize, 0..40),
    ) {
        let files = files();
        let file = which.get(&files);
        cuts.sort_unstable();
        prop_assert_eq!(read_in_pieces(file, &cuts), read(file, Limits::default()));
    }

    #[test]
    fn damage_gives_the_same_answer_in_any_pieces(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        mut cuts in prop::collection::vec(0..4000_usize, 0..40),
    ) {
        let mut files = files();
        let chosen = which.index(files.len());
        let file = &mut files[chosen];
        for (at, byte) in damage {
            *at.get_mut(file) = byte;
        }
        cuts.sort_unstable();
        prop_assert_eq!(read_in_pieces(file, &cuts), read(file, Limits::default()));
    }
}
