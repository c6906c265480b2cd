//! What already differs between two runs besides memory: the reader must know this first.

mod settings;
mod steps;
mod workload;

use super::profile::{DeviceProfile, Profile};
use super::same_program::{self, Counts, is_other_program};
use super::shared_steps::SharedSteps;
use super::sites::Matching;
use crate::trace::is_of_engine;
use serde::{Deserialize, Serialize};
pub(super) use workload::resized;

/// What kind of thing differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ConditionKind {
    /// The version of torch.
    Torch,
    /// An allocator setting.
    Setting,
    /// How many devices there are.
    Devices,
    /// How many steps there are.
    Steps,
    /// Where the steps come from.
    StepSource,
    /// What a step asks for in all: another batch, sequence or model.
    Work,
    /// Whether stacks were recorded.
    Stacks,
    /// Whether the ring of events wrapped.
    Ring,
    /// Whether memory ran out.
    OutOfMemory,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Condition {
    /// What kind of thing.
    pub kind: ConditionKind,
    /// Its name: that of a setting, say.
    pub name: String,
    /// In the baseline.
    pub base: String,
    /// In the new run.
    pub new: String,
    /// What it means for the comparison, in one sentence.
    pub meaning: String,
}

/// Differences of the two files.
pub fn of_runs(base: &Profile, new: &Profile) -> Vec<Condition> {
    let mut found = Vec::new();
    let torch = |profile: &Profile| match &profile.torch {
        _ if is_of_engine(&profile.settings) => "engine recording".to_owned(),
        Some(torch) => torch.clone(),
        None => "unknown".to_owned(),
    };
    if !may_be_one(&torch(base), &torch(new)) {
        found.push(Condition {
            kind: ConditionKind::Torch,
            name: "PyTorch".to_owned(),
            base: torch(base),
            new: torch(new),
            meaning: "another version may allocate in other places: differences need not come \
                      from your code"
                .to_owned(),
        });
    }
    found.extend(settings::that_differ(base, new));
    if base.devices.len() != new.devices.len() {
        found.push(Condition {
            kind: ConditionKind::Devices,
            name: "devices".to_owned(),
            base: base.devices.len().to_string(),
            new: new.devices.len().to_string(),
            meaning: "devices are compared in order, those that hold next to nothing last; those \
                      without a counterpart are left out"
                .to_owned(),
        });
    }
    found
}

/// Whether two versions, such as `2.10 to 2.11`, may be one: a file's keys tell a range.
fn may_be_one(base: &str, new: &str) -> bool {
    let range = |torch: &str| {
        let number = |version: &str| version.strip_prefix("2.")?.parse::<u32>().ok();
        let (from, to) = match (torch.split_once(" to "), torch.strip_suffix(" or later")) {
            (Some((from, to)), _) => (number(from)?, number(to)?),
            (None, Some(from)) => (number(from)?, u32::MAX),
            (None, None) => (number(torch)?, number(torch)?),
        };
        Some(from..=to)
    };
    match (range(base), range(new)) {
        (Some(base), Some(new)) => base.start() <= new.end() && new.start() <= base.end(),
        _ => base == new,
    }
}

/// Differences of two devices, in the order in which they are told.
pub(super) fn of_devices(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
    shared: &SharedSteps,
) -> Vec<Condition> {
    let found = [
        program(base, new, matching),
        workload::of_a_step(base, new, matching),
        steps::number(base, new, shared),
        steps::beginning(base, new, shared),
        steps::step_source(base, new),
        stacks(base, new),
        native_frames(base, new),
        ring(base, new),
        steps::out_of_memory(base, new),
    ];
    found.into_iter().flatten().collect()
}

/// Whether they look like runs of two programs.
fn program(base: &DeviceProfile, new: &DeviceProfile, matching: &Matching) -> Option<Condition> {
    let shares = same_program::shares(base, new, matching, Counts::All)?;
    if !is_other_program(base, new, matching) {
        return None;
    }
    let [base, new] = shares.map(|share| format!("{:.0} %", share * 100.0));
    Some(Condition {
        kind: ConditionKind::Work,
        name: "allocated in the same place as in the other run".to_owned(),
        base,
        new,
        meaning: "these look like two programs: levels are not comparable".to_owned(),
    })
}

/// Whether both have stacks.
fn stacks(base: &DeviceProfile, new: &DeviceProfile) -> Option<Condition> {
    (base.has_stacks != new.has_stacks).then(|| Condition {
        kind: ConditionKind::Stacks,
        name: "stacks recorded".to_owned(),
        base: yes_no(base.has_stacks),
        new: yes_no(new.has_stacks),
        meaning: "stacks cannot be compared; levels can".to_owned(),
    })
}

/// Whether the stacks of both have C++ frames.
fn native_frames(base: &DeviceProfile, new: &DeviceProfile) -> Option<Condition> {
    (base.has_native != new.has_native).then(|| Condition {
        kind: ConditionKind::Stacks,
        name: "C++ frames recorded".to_owned(),
        base: yes_no(base.has_native),
        new: yes_no(new.has_native),
        meaning: "allocations without Python frames are grouped by size in one run and by C++ \
                  stack in the other: where these do not cancel, they appear as gone and new"
            .to_owned(),
    })
}

/// Whether the ring of events of both begins with the program.
fn ring(base: &DeviceProfile, new: &DeviceProfile) -> Option<Condition> {
    (base.wrapped != new.wrapped).then(|| Condition {
        kind: ConditionKind::Ring,
        name: "ring of events wrapped".to_owned(),
        base: yes_no(base.wrapped),
        new: yes_no(new.wrapped),
        meaning: "what happened before the ring begins is not known: its peak is a lower bound"
            .to_owned(),
    })
}

fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_versions_that_overlap_are_no_difference() {
        let check = |base, new, expected| {
            assert_eq!(may_be_one(base, new), expected, "{base}, {new}");
            assert_eq!(may_be_one(new, base), expected, "{new}, {base}");
        };
        check("2.9 to 2.12", "2.10 to 2.11", true);
        check("2.8 to 2.9", "2.10 to 2.11", false);
        check("2.1 or later", "2.12", true);
        check("2.12", "2.12", true);
        check("2.12", "2.13", false);
        check("unknown", "2.13", false);
        check("engine recording", "engine recording", true);
    }
}
