//! Ids that two forward passes had (docs/offloader-rules.md, "Entering and leaving").
//!
//! Where entering sets the ids back, the ids of a forward pass whose backward pass has not come
//! name the tensors of the next one. A tape does not say to which forward pass a backward pass
//! belongs.

use crate::offload::{ContainerSizes, TensorId};

/// The ids of forward passes that were entered over.
#[derive(Debug, Default)]
pub struct Reuse {
    /// The highest id of a forward pass that lost its entries before anything was unpacked.
    lost: u64,
    /// Whether something was unpacked, or the step ended, since the context was entered.
    is_over: bool,
    /// How many restores were of ids that such a pass had too.
    restores: u64,
}

impl Reuse {
    /// The context was entered.
    pub fn entered(&mut self, before: ContainerSizes, after: ContainerSizes) {
        if self.is_over {
            self.lost = 0;
        } else if before.tracker > 0 && after.tensor_id < before.tensor_id {
            self.lost = self.lost.max(before.tensor_id);
        }
        self.is_over = false;
    }

    /// A step begins or ends, so no backward pass of the one before comes.
    pub fn step(&mut self) {
        self.is_over = true;
        self.lost = 0;
    }

    /// Something was unpacked.
    pub fn unpacked(&mut self, id: TensorId) {
        self.is_over = true;
        self.restores += u64::from(id.0 <= self.lost);
    }

    /// How many restores were of ids that two forward passes had.
    pub fn restores(&self) -> u64 {
        self.restores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `eN` enters while the tracker has entries and the last id is N, `uN` unpacks id N,
    /// `s0` begins a step.
    #[test]
    fn ids_of_a_forward_pass_that_was_entered_over_are_counted() {
        let check = |script: &str, expected: u64| {
            let mut reuse = Reuse::default();
            for call in script.split_whitespace() {
                let number: u64 = call[1..].parse().unwrap();
                match &call[..1] {
                    "e" => {
                        let before = ContainerSizes {
                            tracker: number,
                            tensor_id: number,
                            ..ContainerSizes::default()
                        };
                        reuse.entered(before, ContainerSizes::default());
                    }
                    "s" => reuse.step(),
                    _ => reuse.unpacked(TensorId(number)),
                }
            }
            assert_eq!(reuse.restores(), expected, "{script}");
        };
        check("e0 u5 u4", 0);
        check("e0 e3 u3 u2 u4", 2);
        // What one backward pass leaves is stale.
        check("e0 u5 e4 u4", 0);
        check("e0 e3 e2 e0 u3", 1);
        check("e0 e3 u3 e3 u3", 1);
        // An exception ended the forward pass, or the backward pass before it unpacked anything.
        check("e0 s0 e3 u3", 0);
        check("e0 e3 s0 u3", 0);
    }
}
