//! Attacks on answers: a few kilobytes that stand for very much text, and streams that share a
//! place in a map.

use super::{Field, Int, Pickle, Word, begin_alloc, nothing, snapshot, words};
use std::io::{self, Write};

/// Frames that all stacks share.
const SHARED: usize = 47;

/// `n` stacks, each with a frame of its own and the same others, whose names have 4 KB. Each
/// allocation stays, so all of them are told apart in every answer.
pub fn shared_names(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let [name, filename, line] = p.words(["name", "filename", "line"])?;
    let file = p.word(format!("/{}.py", "f".repeat(4000)).as_bytes())?;
    let mut shared = Vec::new();
    for at in 0..SHARED {
        let long = p.word(format!("{}{at}", "n".repeat(4000)).as_bytes())?;
        p.dict(&[
            (name, Field::Word(long)),
            (filename, Field::Word(file)),
            (line, Int(at as u64 + 1)),
        ])?;
        shared.push(remembered(&mut p)?);
    }
    let event = |p: &mut Pickle<'_>, i: usize| {
        begin_alloc(p, &w, i, 1 << 20)?;
        p.get(w.frames)?;
        p.op(b"](}(")?;
        p.get(name)?;
        p.text(format!("own{i}").as_bytes())?;
        p.get(filename)?;
        p.get(file)?;
        p.get(line)?;
        p.int(1)?;
        p.op(b"u")?;
        for &frame in &shared {
            p.get(frame)?;
        }
        p.op(b"eu")
    };
    snapshot(&mut p, n, event, nothing)
}

/// Remembers what is on the stack.
fn remembered(p: &mut Pickle<'_>) -> io::Result<Word> {
    p.op(b"\x94")?;
    p.remembered += 1;
    Ok(Word(p.remembered - 1))
}

/// `n` streams whose numbers share a place in a map that hashes without a key.
pub fn colliding_streams(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let [stream] = p.words(["stream"])?;
    let event = |p: &mut Pickle<'_>, i: usize| {
        p.dict(&[
            (w.action, Field::Word(w.alloc)),
            (w.addr, Int((1 << 40) + ((i as u64) << 21))),
            (w.size, Int(1 << 20)),
            (w.time, Int(1 + i as u64)),
            (stream, Int(colliding(i as u64))),
        ])
    };
    snapshot(&mut p, n, event, nothing)
}

/// Undoes the last steps of FxHash, so that only bits 24 to 56 of the hashes differ.
fn colliding(i: u64) -> u64 {
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    let wanted = ((i + 1) << 24) & ((1 << 57) - 1) | 5;
    let mixed = (0..3).fold(wanted, |mixed, _| wanted ^ (mixed >> 29));
    // Newton's iteration for 1 / FACTOR, modulo 2^64.
    let step = |x: u64, _| x.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(x)));
    mixed.wrapping_mul((0..6).fold(FACTOR, step)) & (u64::MAX >> 1)
}
