//! What patches are applied to.

use std::fmt;

use crate::offload::{Changes, Release};
use crate::session::Around;

/// The code before any patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Base {
    /// The offloader of a TRL release.
    Release(Release),
    /// The same workload without an offloader: what checkpointing alone leaves.
    NoOffloading,
    /// `torch.autograd.graph.save_on_cpu(pin_memory=True)`.
    SaveOnCpu,
    /// The inputs of checkpointed blocks on the host, as Unsloth and axolotl have it.
    HiddenStates,
    /// A program that has no offloader; its name.
    Program(&'static str),
}

impl Base {
    /// The offloaders that can be chosen: what is known of each release, then the others.
    pub fn choices() -> impl Iterator<Item = Base> {
        let others = [Base::SaveOnCpu, Base::HiddenStates, Base::NoOffloading];
        Release::ALL.map(Base::Release).into_iter().chain(others)
    }

    /// The base called so: a TRL release such as `trl-1.14`, `save_on_cpu`, `hidden-states` or
    /// `none`.
    pub fn from_label(label: &str) -> Option<Base> {
        match label {
            "none" => Some(Base::NoOffloading),
            "save_on_cpu" => Some(Base::SaveOnCpu),
            "hidden-states" => Some(Base::HiddenStates),
            _ => Release::from_label(label).map(Base::Release),
        }
    }

    /// The offloader's changes; `None` where there is no offloader.
    pub fn changes(self) -> Option<Changes> {
        match self {
            Base::Release(release) => Some(release.changes()),
            _ => None,
        }
    }

    /// What stands around the steps.
    pub(super) fn around(self) -> Around {
        match self {
            Base::Release(_) => Around::Trl,
            Base::SaveOnCpu => Around::SaveOnCpu,
            Base::HiddenStates => Around::HiddenStates,
            Base::NoOffloading | Base::Program(_) => Around::Nothing,
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Base::Release(release) => f.write_str(release.label()),
            Base::NoOffloading => f.write_str("none"),
            Base::SaveOnCpu => f.write_str("save_on_cpu"),
            Base::HiddenStates => f.write_str("hidden-states"),
            Base::Program(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_back() {
        for base in Base::choices() {
            assert_eq!(Base::from_label(&base.to_string()), Some(base));
        }
        assert_eq!(Base::from_label("v0"), None);
    }
}
