//! Which code belongs to an optimizer, and which code an optimizer only calls.
//!
//! `Optimizer.step(closure)` of PyTorch calls a function of the program that holds a forward and a
//! backward pass (`torch/optim/optimizer.py`). L-BFGS needs that. PyTorch Lightning does it with
//! every optimizer (`optimizer_step` of its precision plugins): in its recordings the whole
//! training step lies inside `step`. What the program makes there is not the optimizer's.
//! Nor is what its hooks make, which the wrapper around `step` calls (`register_step_post_hook`).
//!
//! Frames are passed from the innermost outwards. An optimizer's frame counts unless code that the
//! optimizer calls was passed before it.

use crate::code;

/// The name of the scope that PyTorch opens around each step of an optimizer, up to its class.
const STEP_SCOPE: &str = "Optimizer.step#";

/// Whether a scope is an optimizer's step, as PyTorch marks it.
pub fn is_step_scope(name: &str) -> bool {
    name.starts_with(STEP_SCOPE)
}

/// The scope in which that optimizer clears its gradients: `Optimizer.zero_grad#AdamW.zero_grad`
/// for `Optimizer.step#AdamW.step`.
pub fn clearing_scope(step_scope: &str) -> Option<String> {
    let class = step_scope.strip_prefix(STEP_SCOPE)?.strip_suffix(".step")?;
    Some(format!("Optimizer.zero_grad#{class}.zero_grad"))
}

/// What a frame has to do with an optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `step` of an optimizer of PyTorch: except for PyTorch, it calls only the closure.
    Step,
    /// What PyTorch wraps around each `step` of an optimizer. It calls `step`, also that of an
    /// optimizer that the program wrote, and the hooks that the program registered for it.
    Wrapper,
    /// Other code of an optimizer, of gradient clipping, or of a gradient scaler's step. It may
    /// call `step` of an optimizer that the program wrote.
    Update,
    /// An optimizer is made, or its state is loaded.
    Setup,
}

/// What a Python frame that is no optimizer's says about optimizers further out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Nothing: code of PyTorch, of Python, or code that PyTorch generated.
    Framework,
    /// The program's code, or a library's.
    Program,
    /// The same, of a function `step`: perhaps an optimizer's.
    Step,
    /// A function `closure`.
    Closure,
    /// PyTorch calls it for an operation on a tensor of the program's own class. It and the code
    /// that it calls do the work of whoever asked for that operation.
    Dispatch,
}

/// Which code was passed on the way outwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passed {
    /// None that an optimizer could only have called.
    #[default]
    Nothing,
    /// The program's.
    Program,
    /// The same, and its outermost function so far is called `step`.
    Step,
    /// A function `closure`, or another that an optimizer called.
    Closure,
}

impl Passed {
    /// After one more frame outwards.
    pub fn and(self, caller: Caller) -> Passed {
        match (self, caller) {
            (_, Caller::Dispatch) => Passed::Nothing,
            (_, Caller::Closure) => Passed::Closure,
            (Passed::Closure, _) | (_, Caller::Framework) => self,
            (_, Caller::Program) => Passed::Program,
            (_, Caller::Step) => Passed::Step,
        }
    }

    /// Whether an optimizer's frame, the next one outwards, only called that code. If it did, the
    /// code is a [`Passed::Closure`] for the optimizer's frames that follow.
    pub fn is_called_by(self, part: Part) -> bool {
        match self {
            Passed::Nothing => false,
            Passed::Program => matches!(part, Part::Step | Part::Wrapper),
            Passed::Step => part == Part::Step,
            Passed::Closure => part != Part::Setup,
        }
    }
}

/// What a Python frame has to do with an optimizer: PyTorch's own, and those of installed libraries
/// in a folder with such a name. A folder of the program may have any name.
pub fn part(file: &str, name: &str) -> Option<Part> {
    let file = code::slashed(file);
    let scaler = file.ends_with("grad_scaler.py")
        && matches!(
            name,
            "step" | "unscale_" | "_unscale_grads_" | "_maybe_opt_step"
        );
    if scaler || is_clipping(&file) {
        return Some(Part::Update);
    }
    const FOLDERS: [&str; 4] = ["/optim/", "/optimizers/", "/ops/adam/", "/ops/lion/"];
    // Megatron is often run from where its source lies.
    const MEGATRON: [&str; 2] = ["megatron/core/optimizer/", "megatron/optimizer/"];
    const SETUP: [&str; 5] = [
        "__init__",
        "load_state_dict",
        "add_param_group",
        "state_dict",
        "__setstate__",
    ];
    let is_torch = file.contains("torch/optim/");
    let is_library = code::is_installed(&file) && FOLDERS.iter().any(|part| file.contains(part))
        || MEGATRON.iter().any(|part| file.contains(part));
    if is_of_deepspeed(&file) && MASTER_WEIGHTS.contains(&name) {
        return Some(Part::Setup);
    }
    if !(is_torch || is_library)
        || file.ends_with("lr_scheduler.py")
        || file.ends_with("swa_utils.py")
    {
        return None;
    }
    Some(match name {
        _ if SETUP.contains(&name) => Part::Setup,
        "step" if is_torch => Part::Step,
        _ if file.ends_with("torch/optim/optimizer.py") => Part::Wrapper,
        _ => Part::Update,
    })
}

/// Whether a file clips gradients. It keeps nothing, but gives their norm to the program.
pub fn is_clipping(file: &str) -> bool {
    code::slashed(file).ends_with("torch/nn/utils/clip_grad.py")
}

/// Functions of DeepSpeed's optimizers that make 32-bit copies of the weights, or the state.
const MASTER_WEIGHTS: [&str; 3] = [
    "_create_fp32_partitions",
    "initialize_optimizer_states",
    "_initialize_optimizer_states",
];

/// Whether a file is one of DeepSpeed's optimizers that keep 32-bit copies of the weights. They are
/// no optimizers throughout: hooks in the same files collect gradients.
pub fn is_of_deepspeed(file: &str) -> bool {
    const FILES: [&str; 6] = [
        "zero/stage_1_and_2.py",
        "zero/stage3.py",
        "zero/stage2.py",
        "bf16_optimizer.py",
        "fp16/fused_optimizer.py",
        "fp16/unfused_optimizer.py",
    ];
    let tail = file.rfind("deepspeed/runtime/");
    let tail = tail.map(|at| &file[at + "deepspeed/runtime/".len()..]);
    tail.is_some_and(|tail| FILES.contains(&tail))
}

/// What a Python frame that is no optimizer's says about optimizers further out.
pub fn caller(file: &str, name: &str, line: u32) -> Caller {
    match name {
        "__torch_dispatch__" | "__torch_function__" => Caller::Dispatch,
        _ if code::is_framework(file, line) || code::is_generated(file) => Caller::Framework,
        "closure" => Caller::Closure,
        "step" => Caller::Step,
        _ => Caller::Program,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::program::{ADAM, MODULE, Program};
    use crate::phases::{Role, Roles};

    const WRAPPER: &str = "wrapper /v/site-packages/torch/optim/optimizer.py:533";

    #[test]
    fn scopes_of_pytorch() {
        let step = "Optimizer.step#AdamW.step";
        let clears = "Optimizer.zero_grad#AdamW.zero_grad";
        assert!(is_step_scope(step) && !is_step_scope(clears));
        assert_eq!(clearing_scope(step).as_deref(), Some(clears));
        assert_eq!(clearing_scope(clears), None);
    }

    #[test]
    fn parts() {
        let check = |place: &str, expected: Option<Part>| {
            let (name, file) = place.split_once(' ').unwrap();
            assert_eq!(part(file, name), expected, "{place}");
        };
        check(
            "step /v/site-packages/torch/optim/adam.py",
            Some(Part::Step),
        );
        check(
            "step C:\\v\\site-packages\\torch\\optim\\adam.py",
            Some(Part::Step),
        );
        check("step /src/pytorch/torch/optim/adam.py", Some(Part::Step));
        check(
            "adamw /v/site-packages/torch/optim/adam.py",
            Some(Part::Update),
        );
        check(
            "wrapper /v/site-packages/torch/optim/optimizer.py",
            Some(Part::Wrapper),
        );
        check(
            "__init__ /v/site-packages/torch/optim/adam.py",
            Some(Part::Setup),
        );
        check("step /v/site-packages/torch/optim/lr_scheduler.py", None);
        check(
            "step /v/site-packages/bitsandbytes/optim/optimizer.py",
            Some(Part::Update),
        );
        check(
            "step /v/dist-packages/apex/optimizers/fused_adam.py",
            Some(Part::Update),
        );
        check(
            "step /v/site-packages/torch/amp/grad_scaler.py",
            Some(Part::Update),
        );
        check("scale /v/site-packages/torch/amp/grad_scaler.py", None);
        // The project's own folder may be called so.
        check("train /home/me/optim/train.py", None);
    }

    /// Whether a stack, outermost first, is part of an optimizer's step.
    fn check(frames: &[&str], expected: bool) {
        let mut program = Program::default();
        let stack = program.stack(frames);
        let trace = program.finish();
        let role = Roles::of(&trace.stacks).get(stack);
        assert_eq!(role == Role::Optimizer, expected, "{frames:?}");
    }

    #[test]
    fn what_an_optimizer_calls_is_not_its_update() {
        let step = format!("step {ADAM}:227");
        let adam = ["<module> train.py:5", WRAPPER, &step];
        let inside = |more: &[&str], expected| check(&[&adam[..], more].concat(), expected);
        inside(&[], true);
        inside(&["aten::empty"], true);
        inside(
            &["_init_group /v/site-packages/torch/optim/adam.py:170"],
            true,
        );
        // As in Lightning.
        let module = format!("_call_impl {MODULE}:1");
        let closure = [
            "_wrap_closure /v/site-packages/pytorch_lightning/plugins/precision/precision.py:109",
            "decorate_context /v/site-packages/torch/utils/_contextlib.py:124",
            "closure /v/site-packages/pytorch_lightning/loops/optimization/automatic.py:131",
            "training_step train.py:9",
        ];
        inside(&closure, false);
        inside(&[&closure[..], &[&module]].concat(), false);
        // The closure may have any name.
        inside(&["evaluate train.py:9"], false);
        // Compiled with the rest of the step.
        inside(&["call /tmp/torchinductor_me/ab/cab.py:9"], true);
        inside(&["forward <eval_with_key>.3:9"], true);
        // The state of a parameter of the program's own class.
        inside(
            &[
                "__torch_dispatch__ /v/site-packages/torchao/dtypes/tensor.py:9",
                "zeros_like /v/site-packages/torchao/dtypes/tensor.py:20",
            ],
            true,
        );
    }

    /// Hooks that the program registered for an optimizer's steps.
    #[test]
    fn what_a_hook_makes_is_not_the_optimizers() {
        let check_in = |more: &[&str], expected| {
            check(
                &[&["<module> train.py:5", WRAPPER], more].concat(),
                expected,
            );
        };
        check_in(&["remember train.py:20"], false);
        check_in(&["remember train.py:20", "step log.py:3"], false);
        let context = "decorate_context /v/site-packages/torch/utils/_contextlib.py:124";
        check_in(&[context, "remember train.py:20"], false);
        check_in(&[context, "step lion.py:20", "remember train.py:30"], true);
        let grad = "_use_grad /v/site-packages/torch/optim/optimizer.py:70";
        check_in(&[grad, "step lion.py:20"], true);
        // Libraries call their own code.
        let fused = "step /v/site-packages/apex/optimizers/fused_adam.py:9";
        check_in(&[fused, "__call__ /v/site-packages/apex/apply.py:9"], true);
    }

    #[test]
    fn an_optimizer_that_the_program_wrote() {
        let own = ["<module> train.py:5", WRAPPER, "step lion.py:20"];
        check(&own, true);
        check(&[&own[..], &["momentum lion.py:40"]].concat(), true);
        check(
            &[&own[..], &["closure train.py:9", "keep train.py:30"]].concat(),
            false,
        );
    }
}
