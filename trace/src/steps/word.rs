//! Names for the iterations of a loop.

/// What one iteration of a loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A step of training.
    Step,
    /// A pass over the data.
    Epoch,
    /// A part of a step, whose gradients accumulate.
    MicroBatch,
    /// A request to a server.
    Request,
    /// A token that is generated.
    Token,
    /// A step of a diffusion model.
    DenoisingStep,
    /// A layer of a model.
    Layer,
    /// A parameter in an optimizer.
    Parameter,
    /// No word for it is known.
    Iteration,
}

impl Word {
    /// The plural, as the name of a level.
    pub const fn many(self) -> &'static str {
        match self {
            Word::Step => "steps",
            Word::Epoch => "epochs",
            Word::MicroBatch => "micro-batches",
            Word::Request => "requests",
            Word::Token => "tokens",
            Word::DenoisingStep => "denoising steps",
            Word::Layer => "layers",
            Word::Parameter => "parameters",
            Word::Iteration => "iterations",
        }
    }

    /// The singular, as the name of a step if these are the device's steps.
    pub const fn one(self) -> &'static str {
        match self {
            Word::Step | Word::Iteration => "step",
            Word::Epoch => "epoch",
            Word::MicroBatch => "micro-batch",
            Word::Request => "request",
            Word::Token => "token",
            Word::DenoisingStep => "denoising step",
            Word::Layer => "layer",
            Word::Parameter => "parameter",
        }
    }

    /// The name of the `index`th one: `request 3`.
    pub fn nth(self, index: u32) -> String {
        format!("{} {index}", self.one())
    }

    /// Whether a name is the one that [`Word::nth`] gives to the step with that index.
    pub fn named(name: &str, index: u32) -> bool {
        const ALL: [Word; 9] = [
            Word::Step,
            Word::Epoch,
            Word::MicroBatch,
            Word::Request,
            Word::Token,
            Word::DenoisingStep,
            Word::Layer,
            Word::Parameter,
            Word::Iteration,
        ];
        ALL.iter().any(|word| word.nth(index) == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_called_by_what_it_is() {
        let check = |word: Word, expected: &str| {
            assert_eq!(word.nth(3), expected);
            assert!(Word::named(expected, 3));
            assert!(!Word::named(expected, 4));
        };
        check(Word::Step, "step 3");
        check(Word::Iteration, "step 3");
        check(Word::Request, "request 3");
        check(Word::DenoisingStep, "denoising step 3");
        assert!(!Word::named("our secret request 3", 3));
    }
}
