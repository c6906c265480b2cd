//! Interned strings, frames and stacks.
//!
//! A snapshot repeats a few hundred distinct stacks millions of times. Each is kept once and
//! named by a dense index that is only valid inside the trace that made it.

use crate::code::{self, Native};
use crate::footprint::of_vec;
use crate::naming::Rules;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, OnceLock};

macro_rules! dense_index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into a column.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
pub(crate) use dense_index;

dense_index!(
    /// A string of a [`Strings`] table.
    StrIdx
);
dense_index!(
    /// A frame of a [`Stacks`] table.
    FrameIdx
);
dense_index!(
    /// A stack of a [`Stacks`] table; [`StackIdx::NONE`] is the empty one.
    StackIdx
);

impl StackIdx {
    /// The empty stack: no frames were captured.
    pub const NONE: StackIdx = StackIdx(0);
}

/// A multiply-rotate hasher (the FxHash scheme of rustc), for hashes that are the same on every
/// machine. Whoever writes a file can make them collide, so maps have another one ([`Keyed`]).
#[derive(Default, Clone, Copy)]
pub struct FxHasher(u64);

impl FxHasher {
    fn add(&mut self, word: u64) {
        const K: u64 = 0x517c_c1b7_2722_0a95;
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(K);
    }
}

impl Hasher for FxHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.add(u64::from_le_bytes(
                chunk.try_into().expect("chunks of eight"),
            ));
        }
        for &byte in chunks.remainder() {
            self.add(u64::from(byte));
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.add(u64::from(n));
    }
    fn write_u16(&mut self, n: u16) {
        self.add(u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.add(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }
    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }
    fn finish(&self) -> u64 {
        // hashbrown uses the top seven bits as tag and the low bits as bucket, so the bits must be
        // mixed.
        self.0 ^ (self.0 >> 29)
    }
}

/// The hash of one value; the same on every machine and in every run.
pub(crate) fn fx_hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A hash map keyed by small integers or tuples of them, which may come from a hostile file. Its
/// order differs from process to process, so no answer may depend on it.
pub type FxHashMap<K, V> = HashMap<K, V, Keyed>;
/// The set that goes with it.
pub type FxHashSet<K> = HashSet<K, Keyed>;

/// Makes the hashers of maps. Two numbers that differ from process to process decide which keys
/// collide, so the author of a file cannot know that, and cannot make a map slow.
#[derive(Clone, Copy, Debug)]
pub struct Keyed {
    start: u64,
    factor: u64,
}

impl Default for Keyed {
    fn default() -> Keyed {
        static KEY: OnceLock<Keyed> = OnceLock::new();
        // The standard library's maps take theirs from the same place.
        *KEY.get_or_init(|| {
            let random = RandomState::new();
            Keyed {
                start: random.hash_one(0_u8),
                factor: random.hash_one(1_u8) | 1,
            }
        })
    }
}

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher {
            state: self.start,
            factor: self.factor,
        }
    }
}

/// The hasher of a map: one multiplication for each word, of which both halves are kept. With the
/// lower half alone, words that differ only in their upper bits would collide under any key.
#[derive(Clone, Copy, Debug)]
pub struct KeyedHasher {
    state: u64,
    factor: u64,
}

impl KeyedHasher {
    // A product of 128 bits is long in WebAssembly, and every map would have its own.
    #[cfg_attr(not(target_arch = "wasm32"), inline)]
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn add(&mut self, word: u64) {
        let whole = u128::from(self.state ^ word) * u128::from(self.factor);
        self.state = (whole as u64) ^ (whole >> 64) as u64;
    }
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.add(u64::from_le_bytes(
                chunk.try_into().expect("chunks of eight"),
            ));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            // Texts are followed by a byte that tells where they end.
            self.add(u64::from_le_bytes(last) ^ (rest.len() as u64) << 56);
        }
    }
    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.add(u64::from(n));
    }
    #[inline]
    fn write_u16(&mut self, n: u16) {
        self.add(u64::from(n));
    }
    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.add(u64::from(n));
    }
    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }
    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }
    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

/// Every distinct string once, back to back in one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strings {
    text: String,
    ends: Vec<u32>,
}

impl Strings {
    /// The string.
    pub fn get(&self, idx: StrIdx) -> &str {
        let start = match idx.index() {
            0 => 0,
            i => self.ends[i - 1] as usize,
        };
        &self.text[start..self.ends[idx.index()] as usize]
    }

    /// Appends without looking for an equal string.
    pub fn push(&mut self, text: &str) -> StrIdx {
        let idx = StrIdx(u32::try_from(self.ends.len()).expect("fewer than 2^32 strings"));
        self.text.push_str(text);
        self.ends
            .push(u32::try_from(self.text.len()).expect("the reader limits text to 4 GiB"));
        idx
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        self.text.capacity() + of_vec(&self.ends)
    }

    /// Bytes of text in all.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }
}

/// One frame: function, file, line; as the file has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Function name.
    pub name: StrIdx,
    /// File name: an absolute path for Python, often `??` or empty for C++.
    pub filename: StrIdx,
    /// Line, 0 when unknown.
    pub line: u32,
}

/// Every distinct frame and stack once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    /// The strings that frames point into.
    pub strings: Strings,
    frames: Vec<Frame>,
    /// Frame indexes of all stacks, innermost first, back to back.
    members: Vec<FrameIdx>,
    ends: Vec<u32>,
    /// What the reader's team calls blocks by where they were made. Not part of a recording.
    #[serde(skip)]
    pub own: Option<Arc<Rules>>,
}

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks {
            strings: Strings::default(),
            frames: Vec::new(),
            members: Vec::new(),
            ends: vec![0],
            own: None,
        }
    }
}

impl Stacks {
    /// The frames of a stack, innermost first.
    pub fn frames(&self, stack: StackIdx) -> &[FrameIdx] {
        let start = match stack.index() {
            0 => 0,
            i => self.ends[i - 1] as usize,
        };
        &self.members[start..self.ends[stack.index()] as usize]
    }

    /// A frame's fields.
    pub fn frame(&self, idx: FrameIdx) -> Frame {
        self.frames[idx.index()]
    }

    /// Every distinct frame.
    pub fn all_frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Every distinct frame, so that redaction can change it.
    pub(crate) fn all_frames_mut(&mut self) -> &mut [Frame] {
        &mut self.frames
    }

    /// A string of the table.
    pub fn str(&self, idx: StrIdx) -> &str {
        self.strings.get(idx)
    }

    /// Number of stacks, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Always false: the empty stack is always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Number of distinct frames.
    pub fn n_frames(&self) -> usize {
        self.frames.len()
    }

    /// Frames of all stacks together.
    pub fn n_members(&self) -> usize {
        self.members.len()
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        self.strings.heap_bytes()
            + of_vec(&self.frames)
            + of_vec(&self.members)
            + of_vec(&self.ends)
    }

    /// Adds a frame without looking for an equal one.
    pub fn push_frame(&mut self, frame: Frame) -> FrameIdx {
        let idx = FrameIdx(u32::try_from(self.frames.len()).expect("fewer than 2^32 frames"));
        self.frames.push(frame);
        idx
    }

    /// Adds a stack without looking for an equal one.
    pub fn push_stack(&mut self, frames: &[FrameIdx]) -> StackIdx {
        let idx = StackIdx(u32::try_from(self.ends.len()).expect("fewer than 2^32 stacks"));
        self.members.extend_from_slice(frames);
        let end = u32::try_from(self.members.len()).expect("the reader limits stack members");
        self.ends.push(end);
        idx
    }

    /// The innermost frame that a person would recognise: the first Python frame. Without one, the
    /// first operation among the C++ frames (`at::native::…`, `…Backward0::apply`); then the first
    /// frame that is not plumbing; then the first frame of all. `None` for the empty stack. The
    /// frame of the allocator or of the dispatcher is taken only if there is no other.
    pub fn headline(&self, stack: StackIdx) -> Option<Frame> {
        let frames = self.frames(stack);
        let frame = |idx: &FrameIdx| self.frame(*idx);
        let python = frames
            .iter()
            .map(frame)
            .find(|f| self.str(f.filename).ends_with(".py") && f.line > 0);
        let native = |wanted: Native| {
            let mut frames = frames.iter().map(frame);
            frames.find(|f| !self.is_plumbing(*f) && code::native(self.str(f.name)) == wanted)
        };
        python
            .or_else(|| native(Native::Operation))
            .or_else(|| native(Native::Other))
            .or_else(|| native(Native::Machinery))
            .or_else(|| frames.first().map(frame))
    }

    /// Frames that say nothing about the program. The list is that of MemoryViz
    /// (`torch/cuda/_memory_viz.py`), which users know.
    pub fn is_plumbing(&self, frame: Frame) -> bool {
        const NAMES: [&str; 8] = [
            "unwind::unwind",
            "CapturedTraceback::gather",
            "gather_with_cpp",
            "_start",
            "__libc_start_main",
            "PyEval_",
            "PyObject_",
            "PyFunction_",
        ];
        const FILES: [&str; 10] = [
            "core/boxing",
            "/Register",
            "/Redispatch",
            "pythonrun.c",
            "Modules/main.c",
            "Objects/call.c",
            "Objects/methodobject.c",
            "pycore_ceval.h",
            "ceval.c",
            "cpython/abstract.h",
        ];
        let (name, file) = (
            self.str(frame.name),
            code::slashed(self.str(frame.filename)),
        );
        NAMES.iter().any(|part| name.contains(part)) || FILES.iter().any(|part| file.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these keys share the bits by which a map of 2^16 places chooses one.
    fn most_in_one_place(keys: impl Iterator<Item = u64>) -> usize {
        let mut places: HashMap<u64, usize> = HashMap::new();
        let hasher = Keyed::default();
        for key in keys {
            *places.entry(hasher.hash_one(key) & 0xffff).or_default() += 1;
        }
        places.into_values().max().unwrap_or(0)
    }

    #[test]
    fn no_file_can_make_its_keys_collide() {
        const N: u64 = 1 << 14;
        // Those that collide in the hasher of stored values: the inverse of its last two steps.
        let collide = |i: u64| {
            let wanted = (i << 24) & ((1 << 57) - 1) | 5;
            let mut mixed = wanted;
            for _ in 0..3 {
                mixed = wanted ^ (mixed >> 29);
            }
            // 1 / 0x517cc1b727220a95, modulo 2^64.
            mixed.wrapping_mul(inverse(0x517c_c1b7_2722_0a95))
        };
        assert_eq!(fx_hash(&collide(1)) & 0xff_ffff, 5);
        assert_eq!(fx_hash(&collide(7)) & 0xff_ffff, 5);
        let families: [&dyn Fn(u64) -> u64; 6] = [
            &|i| i,
            &|i| i << 10,
            &|i| i << 32,
            &|i| i << 49,
            &|i| i.rotate_left(49) ^ i,
            &collide,
        ];
        for (at, family) in families.iter().enumerate() {
            let most = most_in_one_place((0..N).map(family));
            assert!(most < 16, "family {at}: {most} in one place");
        }
    }

    /// Newton's iteration.
    fn inverse(odd: u64) -> u64 {
        let step = |x: u64, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        (0..6).fold(odd, step)
    }

    #[test]
    fn the_headline_is_the_first_python_frame() {
        let mut stacks = Stacks::default();
        let mut frame = |name: &str, file: &str, line| {
            let (name, filename) = (stacks.strings.push(name), stacks.strings.push(file));
            stacks.push_frame(Frame {
                name,
                filename,
                line,
            })
        };
        let gather = frame("torch::CapturedTraceback::gather()", "??", 0);
        let native = frame("at::native::addmm_out", "??", 0);
        let malloc = frame(
            "c10::cuda::CUDACachingAllocator::Native::malloc(void**)",
            "??",
            0,
        );
        let op = frame("at::_ops::addmm::call(at::Tensor const&)", "??", 0);
        let node = frame(
            "torch::autograd::generated::AddmmBackward0::apply()",
            "??",
            0,
        );
        let python = frame("forward", "/srv/model.py", 12);
        let check = |stacks: &mut Stacks, frames: &[FrameIdx], expected: Option<FrameIdx>| {
            let stack = stacks.push_stack(frames);
            assert_eq!(stacks.headline(stack), expected.map(|f| stacks.frame(f)));
        };
        check(&mut stacks, &[gather, native, python], Some(python));
        check(&mut stacks, &[gather, native], Some(native));
        check(&mut stacks, &[gather, malloc, native, op, node], Some(op));
        check(&mut stacks, &[gather, malloc, native, node], Some(node));
        check(&mut stacks, &[gather, malloc], Some(malloc));
        check(&mut stacks, &[gather], Some(gather));
        assert_eq!(stacks.headline(StackIdx::NONE), None);
    }
}
