//! Names for the iterations of a loop.

use crate::trace::Step;

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
    /// What the steps of a diffusion model lead to.
    Image,
    /// A layer of a model.
    Layer,
    /// A parameter in an optimizer.
    Parameter,
    /// No word for it is known.
    Iteration,
}

impl Word {
    const ALL: [Word; 10] = [
        Word::Step,
        Word::Epoch,
        Word::MicroBatch,
        Word::Request,
        Word::Token,
        Word::DenoisingStep,
        Word::Image,
        Word::Layer,
        Word::Parameter,
        Word::Iteration,
    ];

    /// The plural, as the name of a level.
    pub const fn many(self) -> &'static str {
        match self {
            Word::Step => "steps",
            Word::Epoch => "epochs",
            Word::MicroBatch => "micro-batches",
            Word::Request => "requests",
            Word::Token => "tokens",
            Word::DenoisingStep => "denoising steps",
            Word::Image => "images",
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
            Word::Image => "image",
            Word::Layer => "layer",
            Word::Parameter => "parameter",
        }
    }

    /// The name of the `index`th one: `request 3`.
    pub fn nth(self, index: u32) -> String {
        format!("{} {index}", self.one())
    }

    /// One of them, with its article: `a request`, `an epoch`.
    pub fn a(self) -> String {
        match self {
            Word::Epoch | Word::Image => format!("an {}", self.one()),
            _ => format!("a {}", self.one()),
        }
    }

    /// The word whose singular is this; steps, where no word has it.
    pub fn called(one: &str) -> Word {
        let found = Word::ALL.into_iter().find(|word| word.one() == one);
        found.unwrap_or(Word::Step)
    }

    /// What a device's steps are, as their names say. Names that a program gave them say nothing:
    /// those are steps.
    pub fn of(steps: &[Step]) -> Word {
        Word::of_names(steps.iter().map(|step| (step.name.as_str(), step.index)))
    }

    /// The same, from the name and the index of each step.
    pub fn of_names<'s>(mut steps: impl DoubleEndedIterator<Item = (&'s str, u32)>) -> Word {
        let Some(first) = steps.next() else {
            return Word::Step;
        };
        let ends = [first, steps.next_back().unwrap_or(first)];
        let found = Word::ALL.into_iter().find(|word| {
            let is_named = |(name, index): &(&str, u32)| *name == word.nth(*index);
            ends.iter().all(is_named)
        });
        found.unwrap_or(Word::Step)
    }

    /// So many of them: `1 request`, `12 requests`.
    pub fn counted(self, n: usize) -> String {
        match n {
            1 => format!("1 {}", self.one()),
            n => format!("{n} {}", self.many()),
        }
    }

    /// Whether a name is the one that [`Word::nth`] gives to the step with that index.
    pub fn named(name: &str, index: u32) -> bool {
        Word::ALL.iter().any(|word| word.nth(index) == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Span;
    use crate::units::EventIdx;

    #[test]
    fn steps_are_what_their_names_say() {
        let steps = |names: &[&str]| -> Vec<Step> {
            let step = |(index, name): (u32, &&str)| Step {
                index,
                name: (*name).to_owned(),
                events: Span::new(EventIdx(index), EventIdx(index + 1)),
            };
            (0..).zip(names).map(step).collect()
        };
        let check = |names: &[&str], expected: &str| {
            assert_eq!(Word::of(&steps(names)).a(), expected, "{names:?}");
        };
        check(&[], "a step");
        check(&["step 0", "step 1"], "a step");
        check(&["request 0", "request 1"], "a request");
        check(&["epoch 0"], "an epoch");
        check(&["image 0", "image 1"], "an image");
        check(
            &["denoising step 0", "denoising step 1"],
            "a denoising step",
        );
        check(&["ProfilerStep#7", "ProfilerStep#8"], "a step");
        check(&["request 0", "warm-up"], "a step");
    }

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

    #[test]
    fn a_word_is_found_by_its_singular() {
        for word in Word::ALL {
            assert_eq!(Word::called(word.one()).one(), word.one());
        }
        assert_eq!(Word::called("our secret"), Word::Step);
    }
}
