//! What the program was doing when a stack was recorded, from its frames alone.
//!
//! Frames are checked from the innermost outwards; the first that belongs to a role decides. There
//! are two exceptions. If a module is called below the autograd engine, a checkpoint recomputes its
//! forward pass, and that is part of the backward pass. And the code that an optimizer calls is not
//! the optimizer's (`crate::optimizer`).

use crate::code;
use crate::optimizer::{self, Caller, Part, Passed};
use crate::site;
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks};

/// What a stack was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// Calling a module, or a function of `torch.nn.functional`.
    Forward,
    /// In the autograd engine, or called by it.
    Backward,
    /// In an optimizer's step, in gradient clipping, in a gradient scaler's step.
    Optimizer,
    /// Making an optimizer, or loading its state.
    OptimizerSetup,
    /// Clearing gradients.
    ZeroGrad,
    /// Making, moving or loading a module.
    ModelSetup,
    /// In code of the program's main thread that belongs to no role.
    Program,
    /// In Python code of another thread.
    OtherThread,
    /// In C++ alone, or without any recorded frame.
    Silent,
}

/// What one frame tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Forward,
    Backward,
    /// `torch.autograd.Function`: the code that it calls decides.
    FunctionApply,
    NamedBackward,
    Optimizer(Part),
    ZeroGrad,
    ModelSetup,
    /// Reads what another process has sent.
    Receives,
    /// A Python frame that tells nothing else.
    Python(Caller),
    Nothing,
}

/// The role of every stack of a trace.
pub struct Roles {
    of_stack: Vec<Role>,
    /// Whether any stack has a Python frame.
    pub has_python: bool,
    /// Whether any stack has a frame of the autograd engine in C++.
    pub has_engine: bool,
}

impl Roles {
    /// Checks every frame once and every stack once.
    pub fn of(stacks: &Stacks) -> Roles {
        let says: Vec<Says> = stacks
            .all_frames()
            .iter()
            .map(|&frame| says(stacks, frame))
            .collect();
        let root = main_root(stacks, &says);
        let mut of_stack = Vec::with_capacity(stacks.len());
        for stack in (0..stacks.len() as u32).map(StackIdx) {
            of_stack.push(role(stacks, &says, root, stack));
        }
        let native = |frame: &Frame| {
            frame.line == 0 && stacks.str(frame.name).contains("torch::autograd::Engine")
        };
        Roles {
            of_stack,
            has_python: root.is_some(),
            has_engine: stacks.all_frames().iter().any(native),
        }
    }

    /// The role of a stack.
    pub fn get(&self, stack: StackIdx) -> Role {
        self.of_stack[stack.index()]
    }
}

/// Function and file of a frame, without the line: lines change from call to call.
type Place = (u32, u32);

/// The outermost frame of most stacks: the program's main thread.
fn main_root(stacks: &Stacks, says: &[Says]) -> Option<Place> {
    let mut counts: FxHashMap<Place, u32> = FxHashMap::default();
    for stack in (0..stacks.len() as u32).map(StackIdx) {
        if let Some(root) = root(stacks, says, stack) {
            *counts.entry(root).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|&(place, n)| (n, place));
    most.map(|(place, _)| place)
}

fn root(stacks: &Stacks, says: &[Says], stack: StackIdx) -> Option<Place> {
    let mut frames = stacks.frames(stack).iter().rev();
    let outermost = frames.find(|f| says[f.index()] != Says::Nothing)?;
    let frame = stacks.frame(*outermost);
    Some((frame.name.0, frame.filename.0))
}

fn role(stacks: &Stacks, says: &[Says], main: Option<Place>, stack: StackIdx) -> Role {
    let mut called_by = None;
    let mut before = Says::Nothing;
    let mut passed = Passed::default();
    for frame in stacks.frames(stack) {
        let now = says[frame.index()];
        let now = match (now, before) {
            (Says::FunctionApply, Says::NamedBackward) => Says::Backward,
            (now, _) => now,
        };
        // C++ frames stand between Python ones.
        if now != Says::Nothing {
            before = now;
        }
        let role = match now {
            Says::Forward => Role::Forward,
            Says::Backward => Role::Backward,
            Says::Optimizer(part) if passed.is_called_by(part) => {
                passed = Passed::Closure;
                continue;
            }
            Says::Optimizer(Part::Setup) => Role::OptimizerSetup,
            Says::Optimizer(_) => Role::Optimizer,
            Says::ZeroGrad => Role::ZeroGrad,
            Says::ModelSetup => Role::ModelSetup,
            Says::Python(caller) => {
                passed = passed.and(caller);
                continue;
            }
            // What other processes send is data, not a model, though it is read in the same way.
            Says::Receives => {
                called_by = called_by.filter(|role| *role != Role::ModelSetup);
                continue;
            }
            Says::FunctionApply | Says::NamedBackward | Says::Nothing => continue,
        };
        match (called_by, role) {
            (None, Role::Forward | Role::ModelSetup) => called_by = Some(role),
            (None, decided) => return decided,
            (Some(_), Role::Backward) => return Role::Backward,
            // If a module moves weights while it is called, that is part of its call.
            (Some(Role::ModelSetup), Role::Forward) => called_by = Some(Role::Forward),
            (Some(_), Role::Optimizer) => break,
            _ => {}
        }
    }
    if let Some(role) = called_by {
        return role;
    }
    match root(stacks, says, stack) {
        None => Role::Silent,
        own if own == main || is_main(stacks, own) => Role::Program,
        Some(_) => Role::OtherThread,
    }
}

/// The body of a script always runs on the main thread, whichever script it is.
fn is_main(stacks: &Stacks, root: Option<Place>) -> bool {
    root.is_some_and(|(name, _)| stacks.str(crate::stacks::StrIdx(name)) == "<module>")
}

fn says(stacks: &Stacks, frame: Frame) -> Says {
    let name = stacks.str(frame.name);
    if !site::is_python(stacks, frame) {
        let engine = [
            "torch::autograd::Engine",
            "torch::autograd::python::PythonEngine",
        ];
        return match engine.iter().any(|part| name.contains(part)) {
            true => Says::Backward,
            false => Says::Nothing,
        };
    }
    let path = stacks.str(frame.filename);
    let file = code::slashed(path);
    let in_torch = |tail: &str| file.ends_with(tail);
    if name == "zero_grad" {
        return Says::ZeroGrad;
    }
    let autograd = in_torch("torch/_tensor.py") && name == "backward"
        || in_torch("torch/autograd/__init__.py")
            && matches!(name, "backward" | "grad" | "_make_grads")
        || in_torch("torch/autograd/graph.py") && name == "_engine_run_backward"
        || in_torch("torch/utils/checkpoint.py")
            && matches!(name, "recompute_fn" | "unpack_hook" | "backward");
    if autograd {
        return Says::Backward;
    }
    if in_torch("torch/autograd/function.py") && name == "apply" {
        return Says::FunctionApply;
    }
    if let Some(part) = optimizer::part(path, name) {
        return Says::Optimizer(part);
    }
    let plain = Says::Python(optimizer::caller(path, name, frame.line));
    if in_torch("torch/nn/modules/module.py") {
        return module(name).unwrap_or(plain);
    }
    match name {
        _ if in_torch("torch/nn/functional.py") => Says::Forward,
        _ if in_torch("torch/nn/init.py") || in_torch("torch/serialization.py") => Says::ModelSetup,
        "from_pretrained" | "load_state_dict" => Says::ModelSetup,
        _ if site::loads_weights(&file) => Says::ModelSetup,
        // Accelerate's, for a model on several devices.
        "load_checkpoint_and_dispatch" | "dispatch_model" | "set_module_tensor_to_device" => {
            Says::ModelSetup
        }
        "_tensor_to_object" if in_torch("torch/distributed/distributed_c10d.py") => Says::Receives,
        _ if site::shards_module(stacks, frame) => Says::ModelSetup,
        // A data class has one without a file. What it holds is data, not a model.
        "__init__" if file == "<string>" => plain,
        "__init__" if !file.contains("/torch/") || file.contains("/torch/nn/") => Says::ModelSetup,
        "backward" | "vjp" => Says::NamedBackward,
        _ if site::is_forward(stacks, frame) => Says::Forward,
        _ => plain,
    }
}

/// Frames of `torch.nn.Module` itself.
fn module(name: &str) -> Option<Says> {
    const SETUP: [&str; 14] = [
        "to",
        "_apply",
        "cuda",
        "cpu",
        "convert",
        "float",
        "half",
        "double",
        "bfloat16",
        "type",
        "to_empty",
        "load_state_dict",
        "_load_from_state_dict",
        "__init__",
    ];
    match name {
        "_call_impl" | "_wrapped_call_impl" | "_slow_forward" => Some(Says::Forward),
        _ if SETUP.contains(&name) => Some(Says::ModelSetup),
        _ => None,
    }
}
