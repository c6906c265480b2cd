//! Attacks on the searches for loops and for leaks: programs that nobody would write.

use super::{Field, Int, Pickle, Word, Words, begin_alloc, nothing, snapshot, words};
use std::io::{self, Write};

/// A function of one file: its number names it.
#[derive(Clone, Copy)]
struct Call {
    function: usize,
    line: u64,
}

/// Writes events with stacks.
struct Program {
    words: Words,
    name: Word,
    filename: Word,
    line: Word,
    file: Word,
}

impl Program {
    fn new(p: &mut Pickle<'_>) -> io::Result<Program> {
        let words = words(p)?;
        let [name, filename, line, file] = p.words(["name", "filename", "line", "/home/t.py"])?;
        Ok(Program {
            words,
            name,
            filename,
            line,
            file,
        })
    }

    /// An allocation made by these calls, innermost first.
    fn alloc(&self, p: &mut Pickle<'_>, i: usize, size: u64, calls: &[Call]) -> io::Result<()> {
        begin_alloc(p, &self.words, i, size)?;
        p.get(self.words.frames)?;
        p.list(calls.len(), |p, at| {
            p.op(b"}(")?;
            p.get(self.name)?;
            p.text(format!("f{}", calls[at].function).as_bytes())?;
            p.get(self.filename)?;
            p.get(self.file)?;
            p.get(self.line)?;
            p.int(calls[at].line)?;
            p.op(b"u")
        })?;
        p.op(b"u")
    }
}

/// A program whose allocation `i` of `n` is made where `calls` says.
fn program(
    out: &mut dyn Write,
    n: usize,
    mut calls: impl FnMut(usize) -> (u64, Vec<Call>),
) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let program = Program::new(&mut p)?;
    let event = |p: &mut Pickle<'_>, i: usize| {
        let (size, calls) = calls(i);
        program.alloc(p, i, size, &calls)
    };
    snapshot(&mut p, n, event, nothing)
}

/// `n` lines of one function; each runs a little more often than the one before it. So every group
/// of the last lines is a loop inside the loop of the others.
pub fn nested_loops(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let more = |count: &u64| Some(count + (count / 16 + 1).max(2));
    let counts: Vec<u64> = std::iter::successors(Some(2), more).take(n).collect();
    let rounds = counts.last().copied().unwrap_or(0);
    let lines = (0..rounds).flat_map(|round| {
        let first = counts.partition_point(|&count| count <= round);
        first as u64..n as u64
    });
    let lines: Vec<u64> = lines.collect();
    program(out, lines.len(), |i| {
        let line = 1 + lines[i];
        (512, vec![Call { function: 0, line }])
    })
}

/// `n` threads, each with a function of its own.
pub fn roots(out: &mut dyn Write, n: usize) -> io::Result<()> {
    program(out, n, |function| (512, vec![Call { function, line: 1 }]))
}

/// A loop of `n` lines, run twice.
pub fn long_loop(out: &mut dyn Write, n: usize) -> io::Result<()> {
    program(out, 2 * n, |i| {
        let line = 1 + (i % n) as u64;
        (512, vec![Call { function: 0, line }])
    })
}

/// Stacks of `n` calls; each allocates two hundred times as many sizes.
pub fn deep_stacks(out: &mut dyn Write, n: usize) -> io::Result<()> {
    const SIZES: usize = 200;
    let mut p = Pickle::new(out)?;
    let program = Program::new(&mut p)?;
    // The list of calls is made once, below everything.
    let calls: Vec<Call> = (0..n).map(|function| Call { function, line: 7 }).collect();
    p.list(n, |p, at| {
        p.op(b"}(")?;
        p.get(program.name)?;
        p.text(format!("f{}", calls[at].function).as_bytes())?;
        p.get(program.filename)?;
        p.get(program.file)?;
        p.get(program.line)?;
        p.int(calls[at].line)?;
        p.op(b"u")
    })?;
    p.op(b"\x94")?;
    let list = Word(p.remembered);
    p.remembered += 1;
    let w = &program.words;
    let event = |p: &mut Pickle<'_>, i: usize| {
        p.dict(&[
            (w.action, Field::Word(w.alloc)),
            (w.addr, Int((1 << 40) + ((i as u64) << 32))),
            (w.size, Int(512 * (1 + i as u64))),
            (w.time, Int(1 + i as u64)),
            (w.frames, Field::Word(list)),
        ])
    };
    snapshot(&mut p, SIZES * n, event, nothing)
}

/// Six steps of five parts each, in each of which `n` places keep something until the step ends.
pub fn places_within_steps(out: &mut dyn Write, n: usize) -> io::Result<()> {
    const STEPS: usize = 6;
    const PARTS: usize = 5;
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let [stage, name, start, end] = p.words(["stage", "name", "START", "END"])?;
    let time = w.time;
    // A step allocates the blocks of all its parts, then gives all of them back at once.
    let (part, step) = (n, 3 * PARTS * n);
    let event = |p: &mut Pickle<'_>, i: usize| {
        let (which, at) = (i / step, i % step);
        let (what, block) = match at / (PARTS * n) {
            0 => (w.alloc, at),
            _ if at % 2 == PARTS * n % 2 => (w.requested, (at - PARTS * n) / 2),
            _ => (w.completed, (at - PARTS * n) / 2),
        };
        let addr = (1 << 40) + (((which * PARTS * n + block) as u64) << 24);
        let size = 512 * (1 + (block % n) as u64);
        w.event(p, what, addr, size, 1 + i as u64)
    };
    let scopes = STEPS * (1 + PARTS);
    snapshot(&mut p, STEPS * step, event, |p| {
        p.text(b"external_annotations")?;
        p.list(2 * scopes, |p, at| {
            let (scope, begins) = (at / 2, at % 2 == 0);
            let (which, inner) = (scope / (1 + PARTS), scope % (1 + PARTS));
            let (first, len, text) = match inner {
                0 => (0, step, format!("step {which}")),
                inner => ((inner - 1) * part, part, format!("part {inner}")),
            };
            p.op(b"}(")?;
            p.get(stage)?;
            p.get(if begins { start } else { end })?;
            p.get(name)?;
            p.text(text.as_bytes())?;
            p.get(time)?;
            let from = 1 + which * step + first;
            p.int(if begins { from } else { from + len - 1 } as u64)?;
            p.op(b"u")
        })
    })
}
