//! Decides when two allocations are "the same": a key of the stack that survives edits.
//!
//! A patch above a function shifts its line numbers, and a newer PyTorch adds wrappers around a
//! call. So with a key of file names and lines, everything would look new. This key is the *call
//! shape*: the functions of the Python stack with their modules, without lines and without the
//! wrappers of `torch.nn.Module`; recursion counts once. Lines stay in the frames, as a hint for
//! the reader.

use crate::code;
use crate::fingerprint::Fingerprint;
use crate::footprint::{of_map, of_vec};
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks};
use crate::trace::{BlockKind, Blocks};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use std::fmt;
use std::str::FromStr;

pub use crate::code::module;

/// A call shape, or the size of allocations that have no stack. Equal in any two traces of the
/// same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKey {
    /// The functions of the stack.
    Shape(u64),
    /// There is no useful frame: allocations of the same requested size count as one site.
    Size(Bytes),
}

impl SiteKey {
    /// Everything without a stack, for programs whose sizes differ from step to step.
    pub const ANY_SIZE: SiteKey = SiteKey::Size(Bytes::ZERO);

    /// What lists of sites call it: as its text, but `b4096` for a size. Links and stored answers
    /// have it.
    pub fn id(self) -> String {
        match self {
            SiteKey::Shape(_) => self.to_string(),
            SiteKey::Size(bytes) => format!("b{}", bytes.0),
        }
    }

    /// Whether blocks of the site `other` belong to this one.
    pub fn covers(self, other: SiteKey) -> bool {
        self == other || (self == SiteKey::ANY_SIZE && matches!(other, SiteKey::Size(_)))
    }
}

/// `s0123456789abcdef` for a shape, `z4096` for a size; the same form in addresses and in the
/// database.
impl fmt::Display for SiteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteKey::Shape(hash) => write!(f, "s{hash:016x}"),
            SiteKey::Size(size) => write!(f, "z{}", size.0),
        }
    }
}

/// The size that an id of [`SiteKey::id`] is of; `None` of a stack.
pub fn size_of_id(id: &str) -> Option<Bytes> {
    id.strip_prefix('b')?.parse().ok().map(Bytes)
}

/// Some sites, each with something that belongs to it.
#[derive(Clone, Debug)]
pub struct OfSites<T> {
    known: FxHashMap<SiteKey, T>,
}

impl<T: Copy> OfSites<T> {
    /// What belongs to the first of these sites that covers another one.
    pub fn covering(&self, site: SiteKey) -> Option<T> {
        let any_size = || match site {
            SiteKey::Size(_) => self.known.get(&SiteKey::ANY_SIZE),
            SiteKey::Shape(_) => None,
        };
        self.known.get(&site).or_else(any_size).copied()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What belongs to the site of each kind of block, as [`OfSites::covering`] finds it.
    pub fn of_kinds(&self, blocks: &Blocks, stacks: &Stacks) -> Vec<Option<T>> {
        let mut keys = Keys::new(stacks);
        let of_kind = |kind| match self.is_empty() {
            true => None,
            false => self.covering(keys.of(kind)),
        };
        blocks.kinds.iter().map(of_kind).collect()
    }
}

/// Of several for one site, the first counts.
impl<T> FromIterator<(SiteKey, T)> for OfSites<T> {
    fn from_iter<I: IntoIterator<Item = (SiteKey, T)>>(all: I) -> OfSites<T> {
        let mut known = FxHashMap::default();
        for (site, of_site) in all {
            known.entry(site).or_insert(of_site);
        }
        OfSites { known }
    }
}

/// The text is not a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an allocation site: it is `s` and 16 hexadecimal digits, or `z` and a size in bytes")]
pub struct BadSite;

impl FromStr for SiteKey {
    type Err = BadSite;
    fn from_str(text: &str) -> Result<SiteKey, BadSite> {
        match text.split_at_checked(1) {
            Some(("s", hash)) if hash.len() == 16 => {
                u64::from_str_radix(hash, 16).map(SiteKey::Shape).ok()
            }
            Some(("z", size)) => size.parse().map(|n| SiteKey::Size(Bytes(n))).ok(),
            _ => None,
        }
        .ok_or(BadSite)
    }
}

/// The site of each kind of block.
pub struct Sites {
    /// Per kind, the position in `keys`.
    pub of_kind: Vec<u32>,
    /// The distinct sites.
    pub keys: Vec<SiteKey>,
    /// A stack of each.
    pub stacks: Vec<StackIdx>,
}

impl Sites {
    /// The sites of a device's blocks.
    pub fn new(blocks: &Blocks, stacks: &Stacks) -> Sites {
        Watch::undisturbed(|watch| Sites::new_while(blocks, stacks, watch))
    }

    /// The same, with a `watch` that may stop it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn new_while(blocks: &Blocks, stacks: &Stacks, watch: Watch<'_>) -> Result<Sites, Stopped> {
        let mut known: FxHashMap<SiteKey, u32> = FxHashMap::default();
        let mut keys_of = Keys::new(stacks);
        let mut keys = Vec::new();
        let mut stack_of = Vec::new();
        let mut of_kind = Vec::with_capacity(blocks.kinds.len());
        for (at, kind) in blocks.kinds.iter().enumerate() {
            watch.at_row(at, || {
                let tables = 2 * (of_map(&known) + of_map(&keys_of.shapes));
                tables + of_vec(&keys) + of_vec(&stack_of) + of_vec(&of_kind)
            })?;
            let key = keys_of.of(kind);
            let index = *known.entry(key).or_insert_with(|| {
                keys.push(key);
                stack_of.push(kind.alloc_stack);
                (keys.len() - 1) as u32
            });
            of_kind.push(index);
        }
        Ok(Sites {
            of_kind,
            keys,
            stacks: stack_of,
        })
    }

    /// Heap bytes that they use.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.of_kind) + of_vec(&self.keys) + of_vec(&self.stacks)
    }

    /// All kinds without a stack as one site, of any size; `None` if all kinds have a stack. Kinds
    /// with a stack are one site too, and that site must not be judged.
    pub fn stackless(&self) -> Option<Sites> {
        let has_none = |site: &u32| matches!(self.keys[*site as usize], SiteKey::Size(_));
        let of_kind = self.of_kind.iter();
        let of_kind: Vec<u32> = of_kind.map(|s| u32::from(!has_none(s))).collect();
        let keys = vec![SiteKey::ANY_SIZE, SiteKey::Shape(0)];
        of_kind.contains(&0).then_some(Sites {
            of_kind,
            keys,
            stacks: vec![StackIdx::NONE; 2],
        })
    }
}

/// The key of one block's site.
pub fn key(stacks: &Stacks, kind: &BlockKind) -> SiteKey {
    Keys::new(stacks).of(kind)
}

/// Finds the keys of many kinds of blocks. Very many may have the same deep stack: it is read once.
pub struct Keys<'a> {
    stacks: &'a Stacks,
    shapes: FxHashMap<StackIdx, Option<u64>>,
}

impl<'a> Keys<'a> {
    /// Of blocks with these stacks.
    pub fn new(stacks: &'a Stacks) -> Keys<'a> {
        Keys {
            stacks,
            shapes: FxHashMap::default(),
        }
    }

    /// As [`key`].
    pub fn of(&mut self, kind: &BlockKind) -> SiteKey {
        let (stacks, stack) = (self.stacks, kind.alloc_stack);
        let shape = self.shapes.entry(stack);
        match *shape.or_insert_with(|| shape_of(stacks, stack)) {
            Some(shape) => SiteKey::Shape(shape),
            None => SiteKey::Size(kind.requested),
        }
    }
}

/// The call shape of a stack as a hash; `None` if there is no useful frame.
fn shape_of(stacks: &Stacks, stack: StackIdx) -> Option<u64> {
    hash_of(&functions(stacks, stack))
}

/// The hash of functions with their modules; `None` without any.
fn hash_of(functions: &[(&str, &str)]) -> Option<u64> {
    let mut hash = (!functions.is_empty()).then_some(0_u64)?;
    let mut last = None;
    for &(file, name) in functions {
        if last != Some((file, name)) {
            hash = Fingerprint::default()
                .number(hash)
                .text(&code::slashed(file))
                .text(name)
                .key();
            last = Some((file, name));
        }
    }
    Some(hash)
}

/// The key of a site with this stack that is equal in all ranks of a job. Inductor calls its files
/// by what is in them, and that names the rank's device: so all its files count as one. This key
/// may be that of several sites, one for each graph.
pub fn key_in_ranks(stacks: &Stacks, stack: StackIdx, key: SiteKey) -> SiteKey {
    const GENERATED: &str = "<inductor>";
    let SiteKey::Shape(_) = key else { return key };
    let frames = counted(stacks, stack);
    let is_generated = |frame: &Frame| code::is_of_inductor(stacks.str(frame.filename));
    if !frames.iter().any(is_generated) {
        return key;
    }
    let named = frames.iter().map(|frame| match is_generated(frame) {
        true => (GENERATED, stacks.str(frame.name)),
        false => named(stacks, *frame),
    });
    hash_of(&named.collect::<Vec<_>>()).map_or(key, SiteKey::Shape)
}

/// Module and function of each frame that counts, innermost first. These are the Python frames. If
/// there are none (autograd's threads with C++ stacks), they are the C++ frames that are not
/// plumbing.
pub(crate) fn functions(stacks: &Stacks, stack: StackIdx) -> Vec<(&str, &str)> {
    let frames = counted(stacks, stack).into_iter();
    frames.map(|frame| named(stacks, frame)).collect()
}

/// The frames that count, innermost first.
fn counted(stacks: &Stacks, stack: StackIdx) -> Vec<Frame> {
    let frames = || stacks.frames(stack).iter().map(|&idx| stacks.frame(idx));
    let python: Vec<_> = frames()
        .filter(|f| is_python(stacks, *f) && !is_module_call(stacks, *f))
        .collect();
    if !python.is_empty() {
        return python;
    }
    let native = frames().filter(|f| !stacks.is_plumbing(*f));
    native.filter(|f| !stacks.str(f.name).is_empty()).collect()
}

/// Module and function. All cells of a notebook are one module, since the same cell has another
/// name each time that it runs.
fn named(stacks: &Stacks, frame: Frame) -> (&str, &str) {
    let file = stacks.str(frame.filename);
    let module = match code::is_cell(file) {
        true => "<cell>",
        false => module(file),
    };
    (module, stacks.str(frame.name))
}

/// `transformers.models.qwen3.modeling_qwen3` of an installed file, `train` of another.
pub(crate) fn module_name(file: &str) -> String {
    let tail = code::slashed(module(file));
    let tail = tail.strip_suffix(".py").unwrap_or(&tail);
    let tail = tail.strip_suffix("/__init__").unwrap_or(tail);
    tail.replace('/', ".")
}

/// Whether a file of Transformers puts weights on the device. Since its version 5, threads do that,
/// so that `from_pretrained` is not on their stacks.
pub(crate) fn loads_weights(file: &str) -> bool {
    file.ends_with("transformers/core_model_loading.py")
}

/// Whether a frame is Python: a `.py` file, or code from a notebook, `exec` or `torch.fx`.
pub fn is_python(stacks: &Stacks, frame: Frame) -> bool {
    code::is_python(stacks.str(frame.filename), frame.line)
}

/// Whether a stack has a Python frame: those of autograd's threads have none.
pub fn has_python(stacks: &Stacks, stack: StackIdx) -> bool {
    let mut frames = stacks.frames(stack).iter();
    frames.any(|&f| is_python(stacks, stacks.frame(f)))
}

/// Whether a stack has a Python frame of the program itself: those of autograd's threads have none,
/// and those of some decompositions only the framework's.
pub fn is_of_the_program(stacks: &Stacks, stack: StackIdx) -> bool {
    let mut frames = stacks.frames(stack).iter().map(|&f| stacks.frame(f));
    frames.any(|frame| is_python(stacks, frame) && !is_framework(stacks, frame))
}

/// `torch.nn.Module`'s own frames around each `forward`. They depend on the version, and on whether
/// hooks are registered.
pub fn is_module_call(stacks: &Stacks, frame: Frame) -> bool {
    const WRAPPERS: [&str; 4] = ["_call_impl", "_wrapped_call_impl", "inner", "__call__"];
    WRAPPERS.contains(&stacks.str(frame.name))
        && code::slashed(stacks.str(frame.filename)).ends_with("torch/nn/modules/module.py")
}

/// Functions of `torch.distributed` that replace the weights of a module by this process's shards:
/// FSDP2, and tensor parallelism. `distribute_tensor` alone is none: it also splits data.
pub(crate) fn shards_module(stacks: &Stacks, frame: Frame) -> bool {
    const NAMES: [&str; 3] = ["fully_shard", "parallelize_module", "distribute_module"];
    NAMES.contains(&stacks.str(frame.name))
        && code::slashed(stacks.str(frame.filename)).contains("torch/distributed/")
}

/// The program's `forward`: a module's, also where it is called without PyTorch's wrappers
/// (`model.forward(x)`). Compiled graphs call their code so, too, whatever they compute.
pub(crate) fn is_forward(stacks: &Stacks, frame: Frame) -> bool {
    stacks.str(frame.name) == "forward"
        && !stacks.str(frame.filename).starts_with("<eval_with_key>")
        && is_python(stacks, frame)
        && !is_framework(stacks, frame)
}

/// Whether a frame belongs to the framework; see [`code::is_framework`].
pub fn is_framework(stacks: &Stacks, frame: Frame) -> bool {
    code::is_framework(stacks.str(frame.filename), frame.line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TraceBuilder, block_of};

    #[test]
    fn an_id_tells_a_size_from_a_stack() {
        let check = |key: SiteKey, id: &str, size: Option<Bytes>| {
            assert_eq!((&*key.id(), size_of_id(&key.id())), (id, size));
        };
        check(SiteKey::Size(Bytes(4096)), "b4096", Some(Bytes(4096)));
        check(SiteKey::Shape(0xb), "s000000000000000b", None);
    }

    #[test]
    fn modules_do_not_depend_on_the_install_path() {
        let check = |path: &str, expected: &str| assert_eq!(module(path), expected);
        check(
            "/opt/v/lib/python3.12/site-packages/torch/nn/functional.py",
            "torch/nn/functional.py",
        );
        check("/home/me/train.py", "train.py");
        check("C:\\me\\train.py", "train.py");
        check(
            r"C:\v\Lib\site-packages\torch\nn\functional.py",
            r"torch\nn\functional.py",
        );
        check(
            "/site-packages/x/site-packages-old/train.py",
            "x/site-packages-old/train.py",
        );
        check("??", "??");
    }

    #[test]
    fn a_shifted_line_is_the_same_site_and_another_function_is_not() {
        let mut builder = TraceBuilder::default();
        let mut kind = |name: &str, file: &str, line| BlockKind {
            alloc_stack: builder.stack(name, file, line),
            ..block_of(Bytes(8))
        };
        let before = kind("keep", "/a/train.py", 10);
        let after = kind("keep", "/b/train.py", 12);
        let other = kind("drop", "/a/train.py", 10);
        let stepped = kind("<module>", "<ipython-input-7-ab12>", 2);
        let again = kind("<module>", "<ipython-input-9-ab12>", 2);
        let stacks = &builder.stacks;
        assert_eq!(key(stacks, &before), key(stacks, &after));
        assert_ne!(key(stacks, &before), key(stacks, &other));
        let cells = [stepped, again].map(|kind| key(stacks, &kind));
        assert_eq!(
            cells[0], cells[1],
            "a cell that runs again is the same place"
        );
        assert_eq!(
            key(stacks, &block_of(Bytes(8))),
            SiteKey::Size(Bytes(8)),
            "without a stack the size must do"
        );
    }
}
