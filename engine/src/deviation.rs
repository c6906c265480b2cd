//! Rules that are broken on purpose: docs/offloader-rules.md, "Negative controls".
//!
//! If a rule is broken and all tests still pass, the tests do not check that rule. Each deviation
//! switches off one rule; only tests ask for one. The code for it is only compiled with the feature
//! `deviations`, which the engine's own tests turn on.

/// One broken rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// `AccumulateGrad` takes over every first gradient, even when others refer to it.
    StealAlways,
    /// The de-duplication map is emptied whenever the context is entered.
    ResetMapEveryStep,
    /// Tensors of earlier nodes are dropped at the unpack instead of after the node.
    FreePreviousEarly,
    /// The de-duplication key is only the address.
    KeyWithoutDtype,
    /// A checkpoint saves only its inputs.
    SkipDummy,
    /// Segments are as large as the request, not 2 or 20 MiB.
    ExactFitSegments,
    /// A free block serves any stream.
    IgnoreStream,
}

impl Deviation {
    /// Whether this rule is the one that is broken.
    pub(crate) fn is(self, broken: Option<Deviation>) -> bool {
        cfg!(feature = "deviations") && broken == Some(self)
    }
}
