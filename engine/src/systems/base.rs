//! What patches are applied to.

use std::fmt;

use crate::offload::{Changes, Release};
use crate::patches::{Effect, Patch};
use crate::session::{Around, HostKey, Limits, ModuleOffload};

/// The code before any patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Base {
    /// The offloader of a TRL release.
    Release(&'static Release),
    /// The same workload without an offloader: only checkpoints save memory.
    NoOffloading,
    /// `torch.autograd.graph.save_on_cpu(pin_memory=True)`.
    SaveOnCpu,
    /// The inputs of checkpointed blocks on the host, as in Unsloth and axolotl.
    HiddenStates,
    /// Megatron-LM's fine-grained activation offloading.
    MegatronLm,
    /// ms-swift's offloader of FSDP layers, before #10157.
    MsSwift,
    /// A program without an offloader; this is its name.
    Program(&'static str),
}

impl Base {
    /// The offloaders that can be chosen for every system with an offloader: the known releases,
    /// and then the others.
    pub fn choices() -> impl Iterator<Item = Base> {
        let others = [
            Base::SaveOnCpu,
            Base::HiddenStates,
            Base::MegatronLm,
            Base::NoOffloading,
        ];
        Release::ALL.map(Base::Release).into_iter().chain(others)
    }

    /// The base with this name: one of [`Base::choices`], ms-swift's, or any TRL release such as
    /// `trl-1.16`.
    pub fn from_label(label: &str) -> Option<Base> {
        let mut known = Base::choices().chain([Base::MsSwift]);
        let choice = known.find(|base| base.label() == label);
        choice.or_else(|| Release::from_label(label).map(Base::Release))
    }

    /// Its name for users.
    pub fn label(self) -> &'static str {
        self.words().0
    }

    /// What is new in this base, or what it is.
    pub fn about(self) -> &'static str {
        self.words().1
    }

    /// Its name, and what it is.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Base::Release(release) => (release.label, release.about),
            Base::SaveOnCpu => (
                "save_on_cpu",
                "torch.autograd.graph, pinned: everything saved, one stream",
            ),
            Base::HiddenStates => (
                "hidden-states",
                "Unsloth, axolotl: inputs of checkpointed blocks only",
            ),
            Base::MegatronLm => (
                "megatron-lm",
                "a fraction of named modules, copied out and back module by module",
            ),
            Base::MsSwift => (
                "ms-swift",
                "FSDP layers; tensors that begin at one place share a host copy",
            ),
            Base::NoOffloading => ("none", "checkpointing alone"),
            Base::Program(name) => (name, name),
        }
    }

    /// The changes of the offloader; `None` if there is no offloader.
    pub fn changes(self) -> Option<Changes> {
        match self {
            Base::Release(release) => Some(release.changes()),
            _ => None,
        }
    }

    /// Why a patch cannot be tried on this base: it is in it already, or the offloader that it
    /// changes is not there. A row with it could only say that nothing changes.
    pub fn refuses(self, patch: &Patch) -> Option<String> {
        let lacks = |offloader: &str| {
            Some(format!(
                "`{}` changes {offloader}, which is not part of {self}",
                patch.id
            ))
        };
        match (patch.effect, self) {
            (Effect::Offloader(change), Base::Release(release)) => {
                let is_in = release.changes().has(change);
                is_in.then(|| format!("`{}` is in {self} already", patch.id))
            }
            (Effect::StaysOnDevice { .. }, Base::Release(_)) | (Effect::HostKey, Base::MsSwift) => {
                None
            }
            (Effect::Offloader(_) | Effect::StaysOnDevice { .. }, _) => lacks("TRL's offloader"),
            (Effect::HostKey, _) => lacks("ms-swift's offloader"),
            (Effect::Program | Effect::Nothing { .. }, _) => None,
        }
    }

    /// What is around the steps.
    pub(crate) fn around(self) -> Around {
        match self {
            Base::Release(_) => Around::Trl,
            Base::SaveOnCpu => Around::SaveOnCpu,
            Base::HiddenStates => Around::HiddenStates,
            Base::MegatronLm => Around::Modules(ModuleOffload::Megatron(Limits::NONE)),
            Base::MsSwift => Around::Modules(ModuleOffload::MsSwift(HostKey::Start)),
            Base::NoOffloading | Base::Program(_) => Around::Nothing,
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
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

    #[test]
    fn a_patch_is_refused_where_it_can_change_nothing() {
        let check = |base: &str, patch: &str, expected: Option<&str>| {
            let base = Base::from_label(base).unwrap();
            let why = base.refuses(Patch::from_id(patch).unwrap());
            assert_eq!(why.as_deref(), expected, "{base} {patch}");
        };
        check("trl-0.29", "p3", None);
        check("trl-0.29", "p5", None);
        let is_in = "`p3-exit-sync-and-clear` is in trl-1.14 already";
        check("trl-1.14", "p3", Some(is_in));
        check("trl-1.14", "p1", None);
        let lacks = "`p4-pack-contiguous` changes TRL's offloader, which is not part of none";
        check("none", "p4", Some(lacks));
        let lacks =
            "`p5-torch-memory-fix` changes TRL's offloader, which is not part of save_on_cpu";
        check("save_on_cpu", "p5", Some(lacks));
        check("ms-swift", "distinguish-views", None);
        let lacks =
            "`distinguish-views` changes ms-swift's offloader, which is not part of trl-0.29";
        check("trl-0.29", "distinguish-views", Some(lacks));
    }

    /// So the API, which has no choice of a base, needs no question but this one.
    #[test]
    fn every_system_can_try_its_own_patches() {
        for system in crate::systems::System::ALL {
            for patch in system.applicable() {
                assert_eq!(system.base.refuses(patch), None, "{system:?}");
            }
        }
    }
}
