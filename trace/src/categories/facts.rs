//! What a stack says about the blocks that are made, or given back, there.

use crate::code;
use crate::footprint::of_vec;
use crate::optimizer;
use crate::phases::{Role, Roles};
use crate::site;
use crate::stacks::{Frame, StackIdx, Stacks, StrIdx, fx_hash};
use crate::workspaces;
use std::collections::HashSet;

/// What one stack says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fact {
    /// The innermost line of `Module._apply`, which goes through parameters before buffers.
    pub apply_line: Option<u32>,
    /// The block is in a workspace of a library.
    pub workspace: bool,
    /// The block is a bucket of `DistributedDataParallel`, which keeps or collects gradients.
    pub bucket: bool,
    /// Autograd adds a gradient to an existing one here.
    pub accumulates: bool,
    /// Autograd gives back here what a forward pass saved.
    pub saved: bool,
    /// In code whose name says that it is a cache of keys and values.
    pub cache: bool,
    /// Made by the object itself that is a cache of keys and values, as `StaticCache` does.
    pub of_cache: bool,
    /// Made by a program's object that is no module, as far as the recording shows.
    pub of_object: bool,
    /// Such an object whose file has a module's forward pass, which may be its own.
    pub beside_forward: bool,
    /// Made by a program's object itself, which may be a module.
    pub in_init: bool,
    /// A copy of a parameter (`copy.deepcopy` of a module), or one gathered from its shards.
    pub of_parameter: bool,
    /// The line of DeepSpeed's optimizer at which it copies parameters into flat blocks: first the
    /// parameters themselves, later their 32-bit copies.
    pub shard_line: Option<u32>,
    /// The line of Megatron's buffer for parameters and gradients at which it is made: first the
    /// parameters, where an optimizer is distributed, and then the gradients.
    pub buffer_of_gradients: Option<u32>,
    /// Read from a file by `torch.load`.
    pub loads: bool,
    /// In the clipping of gradients, which computes norms and keeps nothing.
    pub clips: bool,
    /// Made by a line of the program: in between, there is only PyTorch, and no optimizer of it or
    /// of a library.
    pub of_program: bool,
    /// Below a call of a module.
    pub calls_module: bool,
    /// In code of `torch.nn`, or copied with its module.
    pub of_module: bool,
    /// The place inside the model: equal wherever the model is called from.
    pub place: u64,
}

/// The facts of every stack of a trace.
pub(super) struct Facts {
    of_stack: Vec<Fact>,
}

impl Facts {
    pub fn of(stacks: &Stacks, roles: &Roles) -> Facts {
        let says: Vec<Says> = stacks
            .all_frames()
            .iter()
            .map(|&f| says(stacks, f))
            .collect();
        let all = || (0..stacks.len() as u32).map(StackIdx);
        let modules: HashSet<StrIdx> = all()
            .filter_map(|stack| makes_module(stacks, &says, stack))
            .collect();
        let called: HashSet<StrIdx> = all().flat_map(|at| called(stacks, &says, at)).collect();
        let of_stack = all().map(|stack| {
            let fact = fact(stacks, &says, roles.get(stack), stack);
            let made_by = maker(stacks, &says, stack);
            let in_init = made_by.is_some() && !fact.of_module;
            let of_object = in_init && made_by.is_some_and(|file| !modules.contains(&file));
            Fact {
                beside_forward: of_object && made_by.is_some_and(|file| called.contains(&file)),
                of_object,
                in_init,
                of_program: is_of_program(stacks, &says, stack),
                ..fact
            }
        });
        Facts {
            of_stack: of_stack.collect(),
        }
    }

    /// Heap bytes that they use.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.of_stack)
    }

    pub fn len(&self) -> usize {
        self.of_stack.len()
    }

    pub fn get(&self, stack: StackIdx) -> &Fact {
        &self.of_stack[stack.index()]
    }
}

/// What one frame says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Workspace,
    Accumulates,
    Saved,
    MakesBuckets,
    ModuleApply,
    ModuleCall,
    OfModule,
    /// A parameter is copied, or gathered.
    OfParameter,
    Cache,
    /// An object that is a cache is made.
    CacheInit,
    Clips,
    /// An optimizer of DeepSpeed is made.
    Shards,
    /// Other code of an optimizer of PyTorch or of a library.
    Optimizer,
    /// An object of the program is made.
    Init,
    /// Python of the framework.
    Framework,
    /// Python of the program.
    Program,
    Nothing,
}

fn says(stacks: &Stacks, frame: Frame) -> Says {
    let name = stacks.str(frame.name);
    if !site::is_python(stacks, frame) {
        return if workspaces::is_frame(stacks, frame) {
            Says::Workspace
        } else if name.contains("torch::autograd::AccumulateGrad") {
            Says::Accumulates
        } else if name.contains("torch::autograd::SavedVariable") {
            Says::Saved
        } else {
            Says::Nothing
        };
    }
    let file = code::slashed(stacks.str(frame.filename));
    match name {
        "_apply" if file.ends_with("torch/nn/modules/module.py") => Says::ModuleApply,
        // Its C++ makes buckets for the first step, and others once it knows the order.
        "_ddp_init_helper" | "_pre_forward" | "forward"
            if file.ends_with("torch/nn/parallel/distributed.py") =>
        {
            Says::MakesBuckets
        }
        _ if file.ends_with("torch/nn/utils/clip_grad.py") => Says::Clips,
        _ if site::is_module_call(stacks, frame) => Says::ModuleCall,
        "__deepcopy__" if file.ends_with("torch/nn/parameter.py") => Says::OfParameter,
        // FSDP2 gathers a weight for the time in which it is used.
        "alloc_storage" if file.ends_with("/_fsdp_param.py") => Says::OfParameter,
        // FSDP1, the weights of a unit.
        "_alloc_padded_unsharded_flat_param" if file.ends_with("/_flat_param.py") => {
            Says::OfParameter
        }
        "deepcopy" | "from_pretrained" | "set_module_tensor_to_device" => Says::OfModule,
        _ if site::loads_weights(&file) => Says::OfModule,
        _ if site::shards_module(stacks, frame) => Says::OfModule,
        _ if file.contains("torch/nn/modules/") || file.ends_with("torch/nn/init.py") => {
            Says::OfModule
        }
        "__init__" if is_cache_file(code::file_name(&file)) => Says::CacheInit,
        _ if is_cache(name) || is_cache(site::module(&file)) => Says::Cache,
        "__init__" if optimizer::is_of_deepspeed(&file) => Says::Shards,
        _ if optimizer::part(&file, name).is_some() => Says::Optimizer,
        "__init__" if !code::is_installed(&file) && !site::is_framework(stacks, frame) => {
            Says::Init
        }
        _ if site::is_framework(stacks, frame) => Says::Framework,
        _ if COMPREHENSIONS.contains(&name) => Says::Nothing,
        _ => Says::Program,
    }
}

/// What Python calls a part of a function that has a frame of its own: up to Python 3.11 all of
/// these, later the last one only. Whose part it is, the frame around it says.
const COMPREHENSIONS: [&str; 4] = ["<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"];

/// Files that hold nothing but caches of keys and values.
fn is_cache_file(name: &str) -> bool {
    const FILES: [&str; 4] = [
        "cache_utils.py",
        "kv_cache.py",
        "kvcache.py",
        "paged_cache.py",
    ];
    FILES.contains(&name)
}

/// The file whose object is made by a stack: its innermost frame outside of frameworks.
fn maker(stacks: &Stacks, says: &[Says], stack: StackIdx) -> Option<StrIdx> {
    let quiet = |says: Says| matches!(says, Says::Framework | Says::Nothing);
    let mut frames = stacks.frames(stack).iter();
    let frame = frames.find(|frame| !quiet(says[frame.index()]))?;
    (says[frame.index()] == Says::Init).then(|| stacks.frame(*frame).filename)
}

/// Whether a stack's innermost frame outside of frameworks is the program's own.
fn is_of_program(stacks: &Stacks, says: &[Says], stack: StackIdx) -> bool {
    let quiet = |says: Says| matches!(says, Says::Framework | Says::Nothing);
    let mut frames = stacks.frames(stack).iter();
    let frame = frames.find(|frame| !quiet(says[frame.index()]));
    frame.is_some_and(|frame| {
        let file = stacks.str(stacks.frame(*frame).filename);
        says[frame.index()] == Says::Program && !code::is_installed(&code::slashed(file))
    })
}

/// The file of a program's object that makes a module of PyTorch: it is a module itself, or holds
/// some.
fn makes_module(stacks: &Stacks, says: &[Says], stack: StackIdx) -> Option<StrIdx> {
    let quiet = |says: Says| {
        let copies = says == Says::OfParameter;
        copies || matches!(says, Says::Framework | Says::Nothing | Says::OfModule)
    };
    let frames = stacks.frames(stack);
    let at = frames
        .iter()
        .position(|frame| !quiet(says[frame.index()]))?;
    let made = frames[..at]
        .iter()
        .any(|f| says[f.index()] == Says::OfModule);
    let is_init = says[frames[at].index()] == Says::Init;
    (made && is_init).then(|| stacks.frame(frames[at]).filename)
}

/// The files of the program whose functions calls of modules run: a module's `forward`.
fn called(stacks: &Stacks, says: &[Says], stack: StackIdx) -> impl Iterator<Item = StrIdx> {
    let frames = stacks.frames(stack).iter();
    let python = frames.filter(|frame| says[frame.index()] != Says::Nothing);
    let outer = python.clone().skip(1);
    python.zip(outer).filter_map(|(frame, by)| {
        let is_run = says[frame.index()] == Says::Program && says[by.index()] == Says::ModuleCall;
        is_run.then(|| stacks.frame(*frame).filename)
    })
}

/// Names that people give to caches of keys and values.
fn is_cache(name: &str) -> bool {
    const NAMES: [&str; 5] = [
        "kv_cache",
        "kvcache",
        "past_key_value",
        "cache_utils",
        "paged_cache",
    ];
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|part| name.contains(part))
}

fn fact(stacks: &Stacks, says: &[Says], role: Role, stack: StackIdx) -> Fact {
    let mut fact = Fact::default();
    let frames = stacks.frames(stack);
    let mut inner = false;
    let mut any_python = false;
    for frame in frames {
        match says[frame.index()] {
            Says::Workspace => fact.workspace = true,
            Says::Accumulates => fact.accumulates = true,
            Says::Saved => fact.saved = true,
            Says::MakesBuckets => fact.bucket |= !any_python,
            Says::ModuleApply => {
                fact.of_module = true;
                // A module that overrides `_apply` may make anything there; it counts as
                // parameters.
                let line = if inner { stacks.frame(*frame).line } else { 0 };
                fact.apply_line.get_or_insert(line);
            }
            Says::ModuleCall => fact.calls_module = true,
            Says::OfModule => fact.of_module = true,
            Says::OfParameter => {
                fact.of_parameter = true;
                fact.of_module = true;
            }
            Says::Cache => fact.cache = true,
            Says::CacheInit => {
                fact.of_cache |= !fact.of_module;
                fact.cache = true;
            }
            Says::Clips => fact.clips = true,
            Says::Shards => {
                fact.shard_line.get_or_insert(stacks.frame(*frame).line);
            }
            Says::Optimizer | Says::Framework | Says::Program | Says::Init | Says::Nothing => {}
        }
        let frame = stacks.frame(*frame);
        if site::is_python(stacks, frame) {
            any_python = true;
            let file = code::slashed(stacks.str(frame.filename));
            inner = file.ends_with("torch/nn/modules/module.py");
            fact.loads |= file.ends_with("torch/serialization.py");
            if stacks.str(frame.name) == "__init__" && file.ends_with("/param_and_grad_buffer.py") {
                fact.buffer_of_gradients.get_or_insert(frame.line);
            }
        }
    }
    fact.cache &= matches!(role, Role::Forward | Role::Program | Role::ModelSetup);
    fact.place = place(stacks, says, stack);
    fact
}

/// The frames that say where in the model a stack is: all frames up to the outermost call of a
/// module. Outside of a module, all frames up to the innermost one of the program. Without Python
/// frames, all.
fn place(stacks: &Stacks, says: &[Says], stack: StackIdx) -> u64 {
    let frames = stacks.frames(stack);
    let python = |says: Says| !matches!(says, Says::Nothing | Says::Workspace | Says::Saved);
    let outermost = frames
        .iter()
        .rposition(|f| says[f.index()] == Says::ModuleCall);
    let own = |says: Says| matches!(says, Says::Program | Says::Init | Says::Shards);
    let program = || frames.iter().position(|f| own(says[f.index()]));
    let until = outermost.or_else(program).map_or(frames.len(), |at| at + 1);
    let any_python = frames.iter().any(|f| python(says[f.index()]));
    let mut hash = 0;
    for frame in &frames[..until] {
        if !any_python || python(says[frame.index()]) {
            hash = fx_hash(&(hash, frame.0));
        }
    }
    hash
}
