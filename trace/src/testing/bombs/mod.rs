//! Hostile files: they ask for far more memory or time than their size. Each is a function that
//! writes it.
//!
//! `n` says how often the expensive part repeats: few times for the daily tests, many times for the
//! attack tests. To add an attack, write it here and list it in [`ALL`].

mod names;
mod programs;

use std::io::{self, Write};

/// One attack.
pub struct Bomb {
    /// What it is.
    pub name: &'static str,
    /// Writes the file, unpacked.
    pub write: fn(&mut dyn Write, usize) -> io::Result<()>,
    /// Repetitions that take a moment.
    pub small: usize,
    /// Repetitions of an attack.
    pub large: usize,
}

const fn bomb(
    name: &'static str,
    write: fn(&mut dyn Write, usize) -> io::Result<()>,
    small: usize,
    large: usize,
) -> Bomb {
    Bomb {
        name,
        write,
        small,
        large,
    }
}

/// All of them.
pub const ALL: &[Bomb] = &[
    bomb("doubled objects", doubled, 100_000, 300_000_000),
    bomb("objects made and dropped", dropped, 100_000, 1 << 30),
    bomb("empty batches", empty_batches, 200_000, 1 << 30),
    bomb("objects on the stack", stacked, 3_000_000, 300_000_000),
    bomb("remembered objects", remembered, 3_000_000, 300_000_000),
    bomb("lists of pairs", lists, 300_000, 50_000_000),
    bomb("JSON dictionaries", json_dicts, 200_000, 30_000_000),
    bomb("JSON spaces", json_spaces, 3_000_000, 1 << 31),
    bomb("distinct strings", strings, 300_000, 60_000_000),
    bomb("long strings", long_strings, 5_000, 500_000),
    bomb("distinct frames", frames, 200_000, 30_000_000),
    bomb("distinct stacks", stacks, 3_000, 60_000),
    bomb("distinct events", distinct_events, 200_000, 20_000_000),
    bomb("allocations and frees", churn, 200_000, 20_000_000),
    bomb("unpredicted addresses", unpredicted, 50_000, 3_000_000),
    bomb("mapped ranges", mapped, 20_000, 1_000_000),
    bomb("pools", pools, 80_000, 3_000_000),
    bomb("failed allocations", ooms, 100_000, 10_000_000),
    bomb("one name of 16 MiB", scopes_share_a_name, 20, 400),
    bomb("scopes of long names", scopes_of_long_names, 2_000, 200_000),
    bomb("steps", steps, 20_000, 3_000_000),
    bomb("scopes that never end", open_scopes, 20_000, 3_000_000),
    bomb("frames that share a name", frames_share_a_name, 60, 1_000),
    bomb("places and steps", places_and_steps, 300, 6_000),
    bomb("devices that share events", shared_events, 128, 128),
    bomb("segments that share blocks", shared_blocks, 500, 500),
    bomb("unknown keys", unknown_keys, 20_000, 3_000_000),
    bomb("settings", settings, 20_000, 3_000_000),
    bomb("enormous sizes", enormous_sizes, 100_000, 3_000_000),
    bomb("loops in loops", programs::nested_loops, 40, 120),
    bomb("functions called once", programs::roots, 20_000, 2_000_000),
    bomb(
        "a loop of many lines",
        programs::long_loop,
        20_000,
        1_000_000,
    ),
    bomb("deep stacks", programs::deep_stacks, 300, 3_000),
    bomb(
        "places within steps",
        programs::places_within_steps,
        2_000,
        60_000,
    ),
    bomb(
        "names that stacks share",
        names::shared_names,
        1_500,
        60_000,
    ),
    bomb(
        "streams that collide",
        names::colliding_streams,
        8_000,
        200_000,
    ),
];

impl Bomb {
    /// The file, unpacked.
    pub fn file(&self, n: usize) -> Vec<u8> {
        let mut file = Vec::new();
        (self.write)(&mut file, n).expect("memory takes it");
        file
    }
}

/// Writes a pickle, opcode by opcode.
struct Pickle<'w> {
    out: &'w mut dyn Write,
    remembered: u32,
}

/// A string that the pickle remembers.
#[derive(Clone, Copy)]
struct Word(u32);

/// How many items of a list are on the stack at once, as in CPython's pickler.
const BATCH: usize = 1000;

impl Pickle<'_> {
    fn new(out: &mut dyn Write) -> io::Result<Pickle<'_>> {
        out.write_all(b"\x80\x04")?;
        Ok(Pickle { out, remembered: 0 })
    }

    fn op(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.op(b"X")?;
        let len = u32::try_from(text.len()).expect("texts of tests are short");
        self.op(&len.to_le_bytes())?;
        self.op(text)
    }

    /// Remembers a string. It stays on the stack, which does no harm.
    fn word(&mut self, text: &[u8]) -> io::Result<Word> {
        self.text(text)?;
        self.op(b"\x94")?;
        self.remembered += 1;
        Ok(Word(self.remembered - 1))
    }

    fn words<const N: usize>(&mut self, texts: [&str; N]) -> io::Result<[Word; N]> {
        let mut words = [Word(0); N];
        for (word, text) in words.iter_mut().zip(texts) {
            *word = self.word(text.as_bytes())?;
        }
        Ok(words)
    }

    fn get(&mut self, Word(index): Word) -> io::Result<()> {
        self.op(b"j")?;
        self.op(&index.to_le_bytes())
    }

    fn int(&mut self, n: u64) -> io::Result<()> {
        self.op(b"\x8a\x09")?;
        self.op(&n.to_le_bytes())?;
        self.op(b"\0")
    }

    /// A list of `n` items.
    fn list(
        &mut self,
        n: usize,
        mut item: impl FnMut(&mut Self, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        self.op(b"]")?;
        for first in (0..n).step_by(BATCH) {
            self.op(b"(")?;
            for at in first..n.min(first + BATCH) {
                item(self, at)?;
            }
            self.op(b"e")?;
        }
        Ok(())
    }

    /// A dictionary of integers and strings.
    fn dict(&mut self, entries: &[(Word, Field)]) -> io::Result<()> {
        self.op(b"}(")?;
        for (key, value) in entries {
            self.get(*key)?;
            match *value {
                Field::Int(n) => self.int(n)?,
                Field::Word(word) => self.get(word)?,
            }
        }
        self.op(b"u")
    }
}

#[derive(Clone, Copy)]
enum Field {
    Int(u64),
    Word(Word),
}

use Field::Int;

/// The words of events.
struct Words {
    action: Word,
    addr: Word,
    size: Word,
    time: Word,
    frames: Word,
    alloc: Word,
    requested: Word,
    completed: Word,
}

/// Begins the dictionary of allocation `i` with all but its stack.
fn begin_alloc(p: &mut Pickle<'_>, w: &Words, i: usize, size: u64) -> io::Result<()> {
    p.op(b"}(")?;
    for (key, value) in [
        (w.action, Field::Word(w.alloc)),
        (w.addr, Int((1 << 40) + ((i as u64) << 21))),
        (w.size, Int(size)),
        (w.time, Int(1 + i as u64)),
    ] {
        p.get(key)?;
        match value {
            Int(n) => p.int(n)?,
            Field::Word(word) => p.get(word)?,
        }
    }
    Ok(())
}

fn words(p: &mut Pickle<'_>) -> io::Result<Words> {
    let [action, addr, size, time] = p.words(["action", "addr", "size", "time_us"])?;
    let [alloc, requested, completed] = p.words(["alloc", "free_requested", "free_completed"])?;
    let [frames] = p.words(["frames"])?;
    Ok(Words {
        action,
        addr,
        size,
        time,
        frames,
        alloc,
        requested,
        completed,
    })
}

impl Words {
    fn event(
        &self,
        p: &mut Pickle<'_>,
        what: Word,
        addr: u64,
        size: u64,
        time: u64,
    ) -> io::Result<()> {
        p.dict(&[
            (self.action, Field::Word(what)),
            (self.addr, Int(addr)),
            (self.size, Int(size)),
            (self.time, Int(time)),
        ])
    }
}

/// A snapshot whose events are `n` times what `event` writes, with more keys of the top level.
fn snapshot(
    p: &mut Pickle<'_>,
    n: usize,
    event: impl FnMut(&mut Pickle<'_>, usize) -> io::Result<()>,
    more: impl FnOnce(&mut Pickle<'_>) -> io::Result<()>,
) -> io::Result<()> {
    p.op(b"}(")?;
    p.text(b"segments")?;
    p.op(b"]")?;
    p.text(b"device_traces")?;
    p.op(b"](")?;
    p.list(n, event)?;
    p.op(b"e")?;
    more(p)?;
    p.op(b"u.")
}

fn nothing(_: &mut Pickle<'_>) -> io::Result<()> {
    Ok(())
}

/// The same bytes again and again.
fn repeat(out: &mut dyn Write, bytes: &[u8], n: usize) -> io::Result<()> {
    let many = bytes.repeat(4096);
    for _ in 0..n / 4096 {
        out.write_all(&many)?;
    }
    out.write_all(&bytes.repeat(n % 4096))
}

fn doubled(out: &mut dyn Write, n: usize) -> io::Result<()> {
    out.write_all(b"\x80\x04N")?;
    repeat(out, b"2", n)
}

fn dropped(out: &mut dyn Write, n: usize) -> io::Result<()> {
    out.write_all(b"\x80\x04")?;
    repeat(out, b"N0", n)
}

fn empty_batches(out: &mut dyn Write, n: usize) -> io::Result<()> {
    out.write_all(b"\x80\x04]")?;
    repeat(out, b"(e", n)
}

fn stacked(out: &mut dyn Write, n: usize) -> io::Result<()> {
    out.write_all(b"\x80\x04")?;
    repeat(out, b"N", n)
}

fn remembered(out: &mut dyn Write, n: usize) -> io::Result<()> {
    out.write_all(b"\x80\x04N")?;
    repeat(out, b"\x94", n)
}

fn lists(out: &mut dyn Write, n: usize) -> io::Result<()> {
    out.write_all(b"\x80\x04](")?;
    repeat(out, b"](K\x01K\x02K\x03e", n)?;
    out.write_all(b"e.")
}

fn json_dicts(out: &mut dyn Write, n: usize) -> io::Result<()> {
    out.write_all(b"{\"other\":[")?;
    repeat(out, b"{\"a\":1},", n)?;
    out.write_all(b"1]}")
}

fn json_spaces(out: &mut dyn Write, n: usize) -> io::Result<()> {
    out.write_all(b"{")?;
    repeat(out, b" ", n)?;
    out.write_all(b"}")
}

fn strings(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    (0..n).try_for_each(|i| p.text(&(i as u64).to_le_bytes()))
}

fn long_strings(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let mut text = vec![b'x'; 4000];
    (0..n).try_for_each(|i| {
        text[..8].copy_from_slice(format!("{i:08}").as_bytes());
        p.text(&text)
    })
}

fn frames(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let [name, filename, line, f] = p.words(["name", "filename", "line", "f"])?;
    (0..n).try_for_each(|i| {
        let file = Field::Word(f);
        p.dict(&[(name, file), (filename, file), (line, Int(i as u64))])
    })
}

/// Each stack is the one before plus one frame: naively, time and memory grow with the square.
fn stacks(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let [name, filename, f] = p.words(["name", "filename", "f"])?;
    p.dict(&[(name, Field::Word(f)), (filename, Field::Word(f))])?;
    p.op(b"\x94]")?;
    repeat(p.out, b"h\x03a", n)
}

fn distinct_events(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let event = |p: &mut Pickle<'_>, i: usize| {
        let i = i as u64;
        w.event(p, w.alloc, i << 20, i + 1, i)
    };
    snapshot(&mut p, n, event, nothing)
}

/// Their sum has more bytes than 64 bits can count.
fn enormous_sizes(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let event = |p: &mut Pickle<'_>, i: usize| {
        let i = i as u64;
        w.event(p, w.alloc, i << 20, 1 << 48, i)
    };
    snapshot(&mut p, n, event, nothing)
}

fn churn(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let event = |p: &mut Pickle<'_>, i: usize| {
        let what = [w.alloc, w.requested, w.completed][i % 3];
        let at = i as u64 / 3;
        w.event(p, what, (1 << 40) + (at << 10), 512, i as u64)
    };
    snapshot(&mut p, n * 3, event, nothing)
}

/// Allocations in one large segment, where no rule would put them.
fn unpredicted(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let [segment] = p.words(["segment_alloc"])?;
    let event = |p: &mut Pickle<'_>, i: usize| match i {
        0 => w.event(p, segment, 1 << 40, 1 << 45, 0),
        // From the top downwards, with gaps, so that every free block is looked at.
        i => w.event(
            p,
            w.alloc,
            (1 << 40) + ((n - i) as u64 * (4 << 20)),
            1 << 21,
            i as u64,
        ),
    };
    snapshot(&mut p, n, event, nothing)
}

fn mapped(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let [map] = p.words(["segment_map"])?;
    let event = |p: &mut Pickle<'_>, i: usize| {
        w.event(
            p,
            map,
            (1 << 40) + (i as u64) * (4 << 20),
            2 << 20,
            i as u64,
        )
    };
    snapshot(&mut p, n, event, nothing)
}

fn pools(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let [pool, segment] = p.words(["pool_id", "segment_alloc"])?;
    let event = |p: &mut Pickle<'_>, i: usize| {
        let (what, at) = match i % 2 {
            0 => (segment, i as u64),
            _ => (w.alloc, i as u64 - 1),
        };
        p.op(b"}(")?;
        p.get(w.action)?;
        p.get(what)?;
        p.get(w.addr)?;
        p.int((1 << 40) + (at << 21))?;
        p.get(w.size)?;
        p.int(2 << 20)?;
        p.get(pool)?;
        p.int(i as u64 / 2)?;
        p.int(1)?;
        p.op(b"\x86u")
    };
    snapshot(&mut p, n, event, nothing)
}

fn ooms(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let [oom] = p.words(["oom"])?;
    let event = |p: &mut Pickle<'_>, i: usize| w.event(p, oom, i as u64, 1 << 30, i as u64);
    snapshot(&mut p, n, event, nothing)
}

/// Scopes one after the other, `per` events each; `name` writes the name of one.
fn scopes(
    p: &mut Pickle<'_>,
    n: usize,
    ends: bool,
    mut name: impl FnMut(&mut Pickle<'_>, usize) -> io::Result<()>,
) -> io::Result<()> {
    const PER: usize = 4;
    let w = words(p)?;
    let [stage, name_key, start, end] = p.words(["stage", "name", "START", "END"])?;
    let event = |p: &mut Pickle<'_>, i: usize| {
        let what = [w.alloc, w.requested, w.completed, w.alloc][i % 4];
        w.event(
            p,
            what,
            (1 << 40) + ((i as u64 / 4) << 21),
            1 << 20,
            10 + i as u64,
        )
    };
    let time = w.time;
    let mut scope = |p: &mut Pickle<'_>, at: usize| {
        let begins = !ends || at.is_multiple_of(2);
        let which = if ends { at / 2 } else { at };
        p.op(b"}(")?;
        p.get(stage)?;
        p.get(if begins { start } else { end })?;
        p.get(name_key)?;
        name(p, which)?;
        p.get(time)?;
        p.int(10 + (which * PER) as u64 + if begins { 0 } else { PER as u64 - 1 })?;
        p.op(b"u")
    };
    let n_marks = if ends { 2 * n } else { n };
    snapshot(p, n * PER, event, |p| {
        p.text(b"external_annotations")?;
        p.list(n_marks, &mut scope)
    })
}

fn scopes_share_a_name(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let name = p.word(&vec![b'x'; 16 << 20])?;
    scopes(&mut p, n, true, |p, _| p.get(name))
}

fn scopes_of_long_names(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let tail = "x".repeat(4000);
    scopes(&mut p, n, true, |p, i| {
        p.text(format!("step {i} {tail}").as_bytes())
    })
}

fn steps(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    scopes(&mut p, n, true, |p, i| {
        p.text(format!("step {i}").as_bytes())
    })
}

fn open_scopes(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    scopes(&mut p, n, false, |p, i| {
        p.text(format!("scope {i}").as_bytes())
    })
}

/// `n` frames of one name of 10 MB, each on its own stack.
fn frames_share_a_name(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let [name, filename, line] = p.words(["name", "filename", "line"])?;
    let long = p.word(&vec![b'x'; 10 << 20])?;
    let event = |p: &mut Pickle<'_>, i: usize| {
        p.op(b"}(")?;
        p.get(w.action)?;
        p.get(w.alloc)?;
        p.get(w.addr)?;
        p.int((1 << 40) + ((i as u64) << 21))?;
        p.get(w.size)?;
        p.int(1 << 20)?;
        p.get(w.time)?;
        p.int(1 + i as u64)?;
        p.get(w.frames)?;
        p.op(b"](")?;
        p.op(b"}(")?;
        p.get(name)?;
        p.get(long)?;
        p.get(filename)?;
        p.get(long)?;
        p.get(line)?;
        p.int(i as u64 + 1)?;
        p.op(b"ueu")
    };
    snapshot(&mut p, n, event, nothing)
}

/// `n` steps, in each of which `n` places keep something.
fn places_and_steps(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let [stage, name, start, end] = p.words(["stage", "name", "START", "END"])?;
    let per = n.min(400);
    let event = |p: &mut Pickle<'_>, i: usize| {
        let size = 512 * (1 + (i % per) as u64 * 7 + (i / per) as u64);
        w.event(
            p,
            w.alloc,
            (1 << 40) + ((i as u64) << 24),
            size,
            1 + i as u64,
        )
    };
    let time = w.time;
    snapshot(&mut p, n * per, event, |p| {
        p.text(b"external_annotations")?;
        p.list(2 * n, |p, at| {
            p.op(b"}(")?;
            p.get(stage)?;
            p.get(if at % 2 == 0 { start } else { end })?;
            p.get(name)?;
            p.text(format!("step {}", at / 2).as_bytes())?;
            p.get(time)?;
            let first = 1 + at as u64 / 2 * per as u64;
            p.int(first + (at as u64 % 2) * (per as u64 - 1))?;
            p.op(b"u")
        })
    })
}

fn shared_events(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    p.op(b"}(")?;
    p.text(b"device_traces")?;
    p.op(b"](")?;
    p.list(100_000, |p, i| {
        w.event(p, w.alloc, i as u64 + 1, 512, i as u64)
    })?;
    repeat(p.out, b"2", n - 1)?;
    p.op(b"eu.")
}

fn shared_blocks(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let [address, total, blocks] = p.words(["address", "total_size", "blocks"])?;
    let [state, size, active] = p.words(["state", "size", "active_allocated"])?;
    // The list of blocks is made once, below everything, and duplicated for each segment.
    p.list(100_000, |p, i| {
        p.dict(&[
            (state, Field::Word(active)),
            (size, Int(512)),
            (address, Int(i as u64 * 512)),
        ])
    })?;
    p.op(b"\x94")?;
    let list = Word(p.remembered);
    p.op(b"}(")?;
    p.text(b"segments")?;
    p.list(n, |p, i| {
        p.op(b"}(")?;
        p.get(total)?;
        p.int(512 * 100_000)?;
        p.get(address)?;
        p.int((i as u64) << 30)?;
        p.get(blocks)?;
        p.get(list)?;
        p.op(b"u")
    })?;
    p.op(b"u.")
}

fn unknown_keys(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let event = |p: &mut Pickle<'_>, i: usize| w.event(p, w.alloc, i as u64 + 1, 512, 1 + i as u64);
    snapshot(&mut p, 2, event, |p| {
        (0..n).try_for_each(|i| {
            p.text(format!("a key of some later version, number {i}").as_bytes())?;
            p.op(b"N")
        })
    })
}

fn settings(out: &mut dyn Write, n: usize) -> io::Result<()> {
    let mut p = Pickle::new(out)?;
    let w = words(&mut p)?;
    let event = |p: &mut Pickle<'_>, i: usize| w.event(p, w.alloc, i as u64 + 1, 512, 1 + i as u64);
    let long = "x".repeat(2000);
    snapshot(&mut p, 2, event, |p| {
        p.text(b"allocator_settings")?;
        p.op(b"}(")?;
        for i in 0..n {
            p.text(format!("{i} {long}").as_bytes())?;
            p.text(long.as_bytes())?;
        }
        p.op(b"u")
    })
}
