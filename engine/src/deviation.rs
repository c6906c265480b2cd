//! Rules broken on purpose: docs/offloader-rules.md, "Negative controls".
//!
//! A test suite that stays green when a rule is broken does not test the rule. Each deviation
//! switches one rule off; nothing but tests asks for one. Only the feature `deviations`, which the
//! engine's own tests turn on, compiles the branches.

/// One broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// `AccumulateGrad` takes over every first gradient, even when others refer to it.
    StealAlways,
    /// The de-duplication map is emptied whenever the context is entered.
    ResetMapEveryStep,
    /// Tensors of earlier nodes are dropped at the unpack, not after the node.
    FreePreviousEarly,
    /// The de-duplication key is the address alone.
    KeyWithoutDtype,
    /// A checkpoint saves its inputs only.
    SkipDummy,
    /// Segments are as large as the request, not 2 or 20 MiB.
    ExactFitSegments,
    /// A free block serves any stream.
    IgnoreStream,
}

impl Deviation {
    /// Whether this rule is the broken one.
    pub(crate) fn is(self, broken: Option<Deviation>) -> bool {
        cfg!(feature = "deviations") && broken == Some(self)
    }
}
