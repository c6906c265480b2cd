//! A chain of checkpointed blocks with inputs of one size, so that each address is soon used again.

use std::rc::Rc;

use api::bench::BenchInput;

use super::{Base, Spec, System, assumed};
use crate::autograd::{Region, Tensor};
use crate::device::StreamId;
use crate::memory::Role;
use crate::offload::{Changes, OffloadConfig, Release, Runtime};
use crate::patches::Patch;
use crate::session::{RunError, Session};
use crate::tensor::DType;
use crate::workload::{Workload, offloaded_pass};
use trace::units::Bytes;

const BF16: DType = DType::Bfloat16;

pub(super) const SPEC: &ReuseSpec = &ReuseSpec {
    blocks: 32,
    tokens: 512,
    width: 4096,
    stream: RunsOn::Default,
};

impl System {
    /// Activations of one size, one after another.
    pub const REUSE: &'static System = &System {
        base: Base::Release(Release::TRL_1_5),
        applies: |patch| patch == Patch::RELEASE_DEDUPE_KEY,
        ..System::new(
            "dedupe-reuse",
            "Activations of one size, one after another: an address that comes back passes for \
             the same tensor.",
            SPEC,
        )
    };
}

/// The numbers of the chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReuseSpec {
    pub blocks: u64,
    pub tokens: u64,
    pub width: u64,
    pub stream: RunsOn,
}

/// The stream that both passes run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunsOn {
    /// The device's default stream.
    Default,
    /// The program's own stream. It waits for the default stream before each step, and the default
    /// stream waits for it after the step.
    OwnStream,
}

impl ReuseSpec {
    /// Size of one activation.
    fn activation(&self) -> Bytes {
        BF16.size() * (self.tokens * self.width)
    }
}

impl Spec for ReuseSpec {
    fn inputs(&self) -> Vec<BenchInput> {
        let (blocks, mib) = (self.blocks, self.activation().0 >> 20);
        let stash = OffloadConfig::new(Changes::NONE).max_fwd_stash_size;
        vec![
            assumed(
                "activations",
                format!("{blocks} of {mib} MiB, each dead once it has been saved"),
            ),
            assumed("forward stash", stash.to_string()),
            assumed(
                "runs on",
                match self.stream {
                    RunsOn::Default => "the default stream",
                    RunsOn::OwnStream => "a stream of its own",
                },
            ),
        ]
    }

    fn build(&self, _: &[&'static Patch], s: &mut Session) -> Result<Box<dyn Workload>, RunError> {
        let stream = match self.stream {
            RunsOn::Default => StreamId::DEFAULT,
            RunsOn::OwnStream => s.accelerator.new_stream()?,
        };
        Ok(Box::new(Reuse {
            spec: *self,
            weight: s.parameter(&[self.width, self.width], BF16)?,
            stream,
        }))
    }
}

/// The chain.
struct Reuse {
    spec: ReuseSpec,
    weight: Tensor,
    stream: StreamId,
}

impl Reuse {
    fn forward(&self, s: &mut Session) -> Result<Tensor, RunError> {
        let shape = [1, self.spec.tokens, self.spec.width];
        let input = s.empty_as(&shape, BF16, Role::Input)?;
        s.initialise(&input)?;
        let mut x = s.leaf_over(&input);
        drop(input);
        for _ in 0..self.spec.blocks {
            let weight = self.weight.clone();
            let region: Region = Rc::new(move |s: &mut Session, inputs: &[Tensor]| {
                let inner = s.linear(&inputs[0], &weight)?;
                let active = s.gelu(&inner)?;
                drop(inner);
                s.add(&inputs[0], &active)
            });
            x = s.checkpoint(region, std::slice::from_ref(&x))?;
        }
        s.sum(&x)
    }
}

impl Workload for Reuse {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        if self.stream == StreamId::DEFAULT {
            offloaded_pass(s, |s| self.forward(s))?;
        } else {
            s.accelerator.wait_stream(self.stream, StreamId::DEFAULT)?;
            let before = s.accelerator.set_stream(self.stream);
            let outcome = offloaded_pass(s, |s| self.forward(s));
            s.accelerator.set_stream(before);
            s.accelerator.wait_stream(before, self.stream)?;
            outcome?;
        }
        self.weight.set_grad(None);
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        visit("weight", &self.weight);
    }

    fn shows_all(&self) -> bool {
        true
    }
}

/// Checks that the numbers of a chain are used.
#[cfg(test)]
#[track_caller]
pub(super) fn check_shown(spec: &ReuseSpec) {
    super::shown::is_computed_with(
        spec,
        &[
            (&["activations"], |s| s.blocks += 1),
            (&["activations"], |s| s.tokens *= 2),
            (&["activations"], |s| s.width *= 2),
        ],
    );
}
