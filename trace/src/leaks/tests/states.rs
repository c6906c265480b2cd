//! Optimizer state: of models that leak, and of optimizers that are made anew.

use super::edges::of_ring;
use super::*;

const ADAM: [&str; 2] = ["step /v/site-packages/torch/optim/adam.py", "step train.py"];
/// Another line of the same function.
const SQUARES: [&str; 2] = [
    "step /v/site-packages/torch/optim/adam.py:182",
    "step train.py",
];
const WEIGHTS: [&str; 2] = [
    "_apply /v/site-packages/torch/nn/modules/module.py",
    "keep train.py",
];

/// A search keeps its models, each trained for four steps, and their optimizers.
#[test]
fn the_state_of_models_that_leak_is_a_part_of_the_leak() {
    let search = |made: fn(u32) -> bool, state: u64| {
        Program::run(28, move |p, step| {
            if step % 4 == 0 {
                p.alloc(&WEIGHTS, 3 << 20);
            }
            if made(step) {
                p.alloc(&ADAM, state);
            }
        })
    };
    // In the step that makes the model, or in the next one.
    for made in [|step| step % 4 == 0, |step| step % 4 == 1] {
        let (report, stacks) = search(made, 6 << 20).report();
        assert_eq!(report.verdict, Verdict::Leak, "{}", report.reason);
        let expected = "2.25 MiB a step accumulate over 28 steps (once in 4 steps) and are never";
        assert!(report.reason.starts_with(expected), "{}", report.reason);
        // The weights say why it stays.
        let made_in = report.groups.iter().map(|group| {
            let frame = group.alloc_frame.expect("a frame");
            (group.is_state, stacks.str(frame.filename).to_owned())
        });
        let made_in: Vec<(bool, String)> = made_in.collect();
        let of = |is_state, file: &str| (is_state, file.to_owned());
        let state = "/v/site-packages/torch/optim/adam.py";
        assert_eq!(made_in.len(), 2, "{made_in:?}");
        assert!(!made_in[0].0);
        assert_eq!(made_in[1], of(true, state));
    }
    // Another optimizer's, and more than these weights need.
    for (made, state) in [
        ((|step| step % 4 == 2) as fn(u32) -> bool, 6 << 20),
        (|step| step % 4 == 0, 60 << 20),
    ] {
        let (report, _) = search(made, state).report();
        assert_eq!(report.groups.len(), 1, "{}", report.reason);
        let told = "are optimizer state, made anew each time";
        assert!(report.reason.ends_with(told), "{}", report.reason);
    }
}

/// What a ring shows of a program that makes an optimizer anew now and then.
struct Anew {
    /// The steps in which it does.
    steps: &'static [u32],
    /// How many of its two parameters have state from then on.
    parameters: usize,
    /// Whether optimizers step in the other steps.
    steps_before: bool,
    /// Whether the old one is given back.
    is_replaced: bool,
}

impl Anew {
    fn program(&self) -> Program {
        const SIZES: [u64; 2] = [2 << 20, 1 << 20];
        let mut program = Program::default();
        let before = [SIZES, SIZES].concat().into_iter();
        let before = before.map(|size| program.builder.preexisting(block_of(Bytes(size))));
        let mut old: Vec<BlockIdx> = before.collect();
        for step in 0..10 {
            let start = program.n_events;
            let saved = program.alloc(&["forward model.py", "step train.py"], 8 << 20);
            let gradients = SIZES.map(|size| program.alloc(&BACKWARD, size));
            program.free(saved);
            if self.steps.contains(&step) {
                let lines = [ADAM, SQUARES];
                let made = lines.iter().flat_map(|line| {
                    let sizes = SIZES[..self.parameters].iter();
                    sizes.map(|&size| (*line, size)).collect::<Vec<_>>()
                });
                let made: Vec<(_, u64)> = made.collect();
                let new = made.iter().map(|(line, size)| program.alloc(line, *size));
                let new: Vec<BlockIdx> = new.collect();
                let older = std::mem::replace(&mut old, new).into_iter();
                older
                    .filter(|_| self.is_replaced)
                    .for_each(|block| program.free(block));
            }
            if self.steps_before || step >= self.steps[0] {
                let update = program.alloc(&ADAM, 64 << 10);
                program.free(update);
            }
            gradients.into_iter().for_each(|block| program.free(block));
            program.scope(format!("step {step}"), start, 0);
        }
        program
    }

    fn verdict(&self) -> (Verdict, String) {
        of_ring(self.program())
    }
}

#[test]
fn an_optimizer_that_is_made_anew_while_the_old_one_is_kept_is_not_called_clean() {
    let kept = |steps| Anew {
        steps,
        parameters: 2,
        steps_before: true,
        is_replaced: false,
    };
    let (verdict, reason) = kept(&[2, 6]).verdict();
    assert_eq!(verdict, Verdict::CannotTell, "{reason}");
    let expected = "6.00 MiB of optimizer state were made at step 2 and again at step 6, for \
                    parameters that were trained before";
    assert!(reason.starts_with(expected), "{reason}");
    let (verdict, reason) = kept(&[6]).verdict();
    assert_eq!(verdict, Verdict::CannotTell, "{reason}");
    // Another one is overdue.
    assert_eq!(kept(&[1]).verdict().0, Verdict::Clean);
    let check = |anew: Anew| {
        let (verdict, reason) = anew.verdict();
        assert_eq!(verdict, Verdict::Clean, "{reason}");
    };
    // The new one takes the place of the old one.
    check(Anew {
        is_replaced: true,
        ..kept(&[2, 6])
    });
    // A layer that is trained later.
    check(Anew {
        parameters: 1,
        ..kept(&[2, 6])
    });
    // No optimizer had stepped before.
    check(Anew {
        steps_before: false,
        ..kept(&[6])
    });
}

/// Members of an ensemble, each trained for eight steps. Every program makes its first one.
#[test]
fn two_models_after_the_first_are_too_few() {
    let members = |n: u32| {
        Program::run(8 * n, |p, step| {
            if step % 8 == 0 {
                p.alloc(&WEIGHTS, 3 << 20);
            }
        })
    };
    members(3).is(Verdict::CannotTell);
    members(4).is(Verdict::Leak);
}
