//! A loop that keeps the outputs of every step: a leak of one tensor a step.

use api::bench::BenchInput;
use engine::autograd::Tensor;
use engine::memory::Role;
use engine::patches::Patch;
use engine::session::{RunError, Session};
use engine::systems::{Spec, System, assumed};
use engine::tensor::DType::Bfloat16;
use engine::workload::{Workload, offloaded_pass};

/// One linear layer whose outputs are kept.
pub const TOY: &System = &System {
    default_steps: 20,
    ..System::new("toy", "One linear layer; the loop keeps its outputs.", SPEC)
};

const SPEC: &ToySpec = &ToySpec { width: 1024 };

struct ToySpec {
    width: u64,
}

impl Spec for ToySpec {
    fn inputs(&self) -> Vec<BenchInput> {
        vec![assumed("tokens and width", self.width.to_string())]
    }

    fn build(&self, _: &[&'static Patch], s: &mut Session) -> Result<Box<dyn Workload>, RunError> {
        let weight = s.parameter(&[self.width, self.width], Bfloat16)?;
        let kept = Vec::new();
        Ok(Box::new(Toy { weight, kept }))
    }
}

struct Toy {
    weight: Tensor,
    kept: Vec<Tensor>,
}

impl Workload for Toy {
    fn step(&mut self, s: &mut Session) -> Result<(), RunError> {
        offloaded_pass(s, |s| {
            let x = s.empty_as(self.weight.shape(), Bfloat16, Role::Input)?;
            s.initialise(&x)?;
            let out = s.linear(&x, &self.weight)?;
            self.kept.push(out.detach());
            s.sum(&out)
        })?;
        self.weight.set_grad(None);
        Ok(())
    }

    fn visit(&self, visit: &mut dyn FnMut(&str, &Tensor)) {
        visit("weight", &self.weight);
        self.kept.iter().for_each(|out| visit("kept", out));
    }
}
