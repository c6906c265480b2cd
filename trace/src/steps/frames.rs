//! What each frame shows about the program: whether it is in a module, in an optimizer, or loading
//! a model.

use crate::code;
use crate::footprint::{of_map, of_vec};
use crate::optimizer::{self, Caller, Part, Passed};
use crate::site;
use crate::stacks::{Frame, FrameIdx, FxHashMap, StackIdx, Stacks, StrIdx};
use crate::watch::{Stopped, Watch};

/// What an allocation is part of, as far as its own stack shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// The call of a module.
    Forward,
    /// Autograd.
    Backward,
    /// An optimizer's step.
    Optimizer,
    /// A model is made, moved or loaded.
    Setup,
    /// None of these, or nothing shows it.
    #[default]
    Other,
}

/// The surroundings of a function: what it or one of its callers is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// In the call of a module.
    pub in_module: bool,
    /// In an optimizer.
    pub in_optimizer: bool,
    /// In a backward pass that Python code called.
    pub in_backward: bool,
    /// Where a model is made, moved or loaded.
    pub in_setup: bool,
    /// The function itself is PyTorch's or Python's own.
    pub is_framework: bool,
    /// The function is one of torch's containers: it loops over its children.
    pub is_container: bool,
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameInfo {
    /// Function: equal for equal name and file.
    pub function: u32,
    /// Line.
    pub line: u32,
    /// A wrapper of `torch.nn.Module`.
    pub is_module_call: bool,
    /// A module's own `forward`.
    pub is_forward: bool,
    /// A file of PyTorch.
    pub is_torch: bool,
    is_python: bool,
    is_framework: bool,
    is_container: bool,
    work: Work,
    /// Which part of an optimizer it is.
    part: Option<Part>,
    /// What it says about optimizers further out.
    caller: Caller,
}

/// All frames of a recording.
#[derive(Debug)]
pub struct Frames {
    frames: Vec<FrameInfo>,
    /// A frame of each function, for its name and file.
    functions: Vec<Frame>,
}

impl FrameInfo {
    /// Whether the program made this call: wrappers and C++ are left out.
    pub fn is_call(&self) -> bool {
        self.is_python && !self.is_module_call
    }

    /// Autograd's engine, in C++.
    fn is_engine(&self) -> bool {
        !self.is_python && self.work == Work::Backward
    }

    /// Whether it is an optimizer that only calls the code that was passed before it.
    fn is_only_calling(&self, passed: Passed) -> bool {
        self.part.is_some_and(|part| passed.is_called_by(part))
    }
}

impl Place {
    /// Where a function called from here stands.
    pub fn inside(self, frame: &FrameInfo) -> Place {
        // A closure that an optimizer calls (as in Lightning) is not the optimizer's code.
        Place {
            in_module: self.in_module,
            in_optimizer: self.in_optimizer || frame.work == Work::Optimizer,
            in_backward: self.in_backward || frame.work == Work::Backward,
            in_setup: self.in_setup || frame.work == Work::Setup,
            is_framework: frame.is_framework,
            is_container: frame.is_container,
        }
    }
}

impl Frames {
    /// Looks at every function once: names are up to some kilobytes long.
    pub fn new(stacks: &Stacks, watch: Watch<'_>) -> Result<Frames, Stopped> {
        let all = stacks.all_frames();
        let mut known: FxHashMap<(&str, &str), u32> = FxHashMap::default();
        // Whether a frame has a line also matters.
        let mut looked: FxHashMap<(StrIdx, StrIdx, bool), FrameInfo> = FxHashMap::default();
        let mut this = Frames {
            frames: Vec::new(),
            functions: Vec::new(),
        };
        watch.look(size_of_val(all))?;
        this.frames.reserve_exact(all.len());
        for (at, frame) in all.iter().enumerate() {
            watch.at_row(at, || {
                let tables = of_map(&known) + of_map(&looked);
                this.heap_bytes() + of_vec(&this.functions) + 3 * tables
            })?;
            let key = (frame.name, frame.filename, frame.line > 0);
            let info = *looked.entry(key).or_insert_with(|| {
                let named = (stacks.str(frame.name), stacks.str(frame.filename));
                let function = *known.entry(named).or_insert_with(|| {
                    this.functions.push(*frame);
                    (this.functions.len() - 1) as u32
                });
                look(stacks, *frame, function)
            });
            this.frames.push(FrameInfo {
                line: frame.line,
                ..info
            });
        }
        drop((known, looked));
        this.leave_out_what_trains(stacks, watch)?;
        Ok(this)
    }

    /// A function that is called `forward` and runs a backward pass or an optimizer is no module's.
    fn leave_out_what_trains(&mut self, stacks: &Stacks, watch: Watch<'_>) -> Result<(), Stopped> {
        let mut trains = vec![false; self.functions.len()];
        let mut around = Vec::new();
        for stack in 0..stacks.len() {
            watch.at_row(stack, || self.heap_bytes() + of_vec(&trains))?;
            around.clear();
            for &frame in stacks.frames(StackIdx(stack as u32)).iter().rev() {
                let info = self.of(frame);
                if info.is_forward {
                    around.push(info.function);
                }
                if matches!(info.work, Work::Backward | Work::Optimizer) {
                    around.iter().for_each(|&at| trains[at as usize] = true);
                }
            }
        }
        for frame in &mut self.frames {
            frame.is_forward &= !trains[frame.function as usize];
        }
        Ok(())
    }

    /// Heap bytes that they use.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.frames) + of_vec(&self.functions)
    }

    /// What is known about a frame.
    pub fn of(&self, frame: FrameIdx) -> &FrameInfo {
        &self.frames[frame.index()]
    }

    /// A frame of a function; its line may be any.
    pub fn function(&self, function: u32) -> Frame {
        self.functions[function as usize]
    }

    /// Whether a stack has a Python frame.
    pub fn has_python(&self, stacks: &Stacks, stack: StackIdx) -> bool {
        let mut frames = stacks.frames(stack).iter();
        frames.any(|&f| self.of(f).is_python)
    }

    /// Whether a stack is one of autograd's threads: what such a thread runs is the backward pass,
    /// also where it calls the program's hooks, as offloaders that bring back saved tensors do.
    pub fn is_of_autograd(&self, stacks: &Stacks, stack: StackIdx) -> bool {
        let outermost_first = stacks.frames(stack).iter().rev().map(|&f| self.of(f));
        let mut known = outermost_first.filter(|f| f.is_engine() || f.is_call());
        known.next().is_some_and(|f| f.is_engine() || f.is_torch)
    }

    /// What an allocation is part of. The innermost frame that shows it decides, so that a forward
    /// pass in an optimizer's closure is a forward pass.
    pub fn work(&self, stacks: &Stacks, stack: StackIdx) -> Work {
        let frames = stacks.frames(stack);
        if self.is_of_autograd(stacks, stack) {
            return Work::Backward;
        }
        let mut found = Work::Other;
        let mut passed = Passed::default();
        for info in frames.iter().map(|&f| self.of(f)) {
            match (info.is_module_call || info.is_forward, info.work) {
                (true, _) => return Work::Forward,
                (false, Work::Other) if info.is_python => passed = passed.and(info.caller),
                (false, Work::Other) => {}
                (false, Work::Optimizer) if info.is_only_calling(passed) => {
                    passed = Passed::Closure;
                }
                // If an object is made in a forward pass, that is part of the forward pass.
                (false, Work::Setup) => found = Work::Setup,
                (false, work) => return work,
            }
        }
        found
    }
}

fn look(stacks: &Stacks, frame: Frame, function: u32) -> FrameInfo {
    let name = stacks.str(frame.name);
    let file: &str = &code::slashed(stacks.str(frame.filename));
    let module = site::module(file);
    let is_torch = module.starts_with("torch/") && module.len() < file.len();
    FrameInfo {
        function,
        line: frame.line,
        is_module_call: site::is_module_call(stacks, frame),
        is_forward: site::is_forward(stacks, frame),
        is_torch,
        is_python: site::is_python(stacks, frame),
        is_framework: site::is_framework(stacks, frame) || is_loop_of_a_kernel(file),
        is_container: module == "torch/nn/modules/container.py",
        work: work(name, file, is_torch),
        part: optimizer::part(file, name),
        caller: optimizer::caller(file, name, frame.line),
    }
}

/// Notebook kernels and servers call the program's code again and again; their loops are not the
/// program's.
fn is_loop_of_a_kernel(file: &str) -> bool {
    const PARTS: [&str; 4] = [
        "/IPython/",
        "/ipykernel/",
        "/tornado/",
        "/ipykernel_launcher.py",
    ];
    PARTS.iter().any(|part| file.contains(part))
}

/// What a function is part of, judged by its name and file.
fn work(name: &str, file: &str, is_torch: bool) -> Work {
    const SETUP: [&str; 12] = [
        "__init__",
        "load_state_dict",
        "_load_from_state_dict",
        "from_pretrained",
        "_load_pretrained_model",
        "load_checkpoint",
        "load_model",
        "load_weights",
        "init_weights",
        "_init_weights",
        "reset_parameters",
        "_apply",
    ];
    const BACKWARD: [&str; 4] = ["backward", "_engine_run_backward", "_make_grads", "grad"];
    if name.contains("torch::autograd::Engine") {
        return Work::Backward;
    }
    if !file.ends_with(".py") && !file.starts_with('<') {
        return Work::Other;
    }
    let in_file = |part: &str| file.contains(part);
    match name {
        // Of a `GradScaler`, too, without its `scale`, which each micro-batch calls.
        _ if optimizer::part(file, name).is_some() => Work::Optimizer,
        _ if is_torch && BACKWARD.contains(&name) && !in_file("/nn/") => Work::Backward,
        _ if SETUP.contains(&name) => Work::Setup,
        _ => Work::Other,
    }
}
