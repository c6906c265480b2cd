//! Memory that no pair of devices covers: devices that only the new run has, and the pinned memory
//! of the host.

use super::{Finding, Weight};
use crate::compare::LeakChange;
use crate::compare::pairs::Pairs;
use crate::compare::profile::{DeviceProfile, Profile};
use crate::compare::rates::{self, Counted, Rates};
use crate::device::DeviceIdx;
use crate::leaks::Verdict;
use crate::units::Bytes;

/// What is found there.
pub(super) fn findings(base: &Profile, new: &Profile) -> Vec<Finding> {
    let unpaired = Pairs::of(&base.devices, &new.devices).only_new;
    let unpaired = unpaired.into_iter();
    let mut found: Vec<Finding> = unpaired.flat_map(unpaired_device).collect();
    if let Some(new) = &new.pinned {
        found.extend(pinned(base.pinned.as_ref(), new));
    }
    found
}

fn unpaired_device(device: &DeviceProfile) -> Vec<Finding> {
    let name = device.device.name();
    let mut found = Vec::new();
    if device.oom.is_some() {
        let detail = format!("{name}, which the baseline does not have, runs out of memory");
        found.push(finding(Weight::Fail, "out_of_memory", detail));
    }
    match device.leaks.verdict {
        Verdict::Clean => {}
        Verdict::Leak => {
            let leak = told(device);
            let detail = format!("{name}, which the baseline does not have, leaks {leak}");
            found.push(finding(Weight::Fail, "leak", detail));
        }
        Verdict::CannotTell => {
            let detail = format!("{name} has no counterpart in the baseline and is not judged");
            found.push(finding(Weight::Note, "devices", detail));
        }
    }
    found
}

fn pinned(base: Option<&DeviceProfile>, new: &DeviceProfile) -> Vec<Finding> {
    if new.leaks.verdict != Verdict::Leak {
        return Vec::new();
    }
    let (name, leak) = (DeviceIdx::PINNED.name(), told(new));
    let (weight, detail) = match base {
        Some(base) if base.leaks.verdict == Verdict::Clean => (
            Weight::Fail,
            format!("{name} leaks, and does not in the baseline: {leak}"),
        ),
        Some(base) if base.leaks.verdict == Verdict::Leak => {
            let kinds = Counted::ALL.into_iter();
            let found = kinds.filter_map(|counted| pinned_in_both([base, new], counted));
            return found.collect();
        }
        _ => (
            Weight::Unknown,
            format!("{name} leaks {leak}; whether it does in the baseline is not known"),
        ),
    };
    vec![finding(weight, "leak", detail)]
}

/// Leaks of one kind, where both runs leak.
fn pinned_in_both(sides: [&DeviceProfile; 2], counted: Counted) -> Option<Finding> {
    let name = DeviceIdx::PINNED.name();
    let [base, new] = sides.map(|side| &side.leaks.rates);
    let [before, leak] = sides.map(|side| told_of(side, counted));
    let (weight, detail) = match Rates::change_of(counted, base, new) {
        LeakChange::NeverLeaked | LeakChange::CannotTell => return None,
        LeakChange::Fixed => (Weight::Note, format!("{name} no longer leaks {before}")),
        LeakChange::Appeared => (
            Weight::Fail,
            format!("{name} has a leak that the baseline does not have: {leak}"),
        ),
        LeakChange::Faster => (
            Weight::Fail,
            format!("{name} leaks faster: {before} → {leak}"),
        ),
        LeakChange::Slower | LeakChange::Same => (
            Weight::Warn,
            format!("{name} leaks in both runs: {leak}: not made by this change"),
        ),
    };
    Some(finding(weight, "leak", detail))
}

/// `2.00 MiB a step in save`.
fn told(device: &DeviceProfile) -> String {
    told_of(device, device.leaks.rates.told())
}

/// The same of the leaks of one kind; where it is not all of them, `, 1.00 MiB of them in save`.
fn told_of(device: &DeviceProfile, counted: Counted) -> String {
    let leaks = &device.leaks;
    let rate = Bytes(leaks.rates.of(counted).bytes.round() as u64);
    let unit = counted.unit();
    let first = leaks.first(counted);
    let place = first.and_then(|group| group.place);
    let name = place.map(|frame| device.names.place(frame).name);
    let (Some(first), Some(name)) = (first, name.filter(|name| !name.is_empty())) else {
        return format!("{rate} {unit}");
    };
    match rates::part(first.bytes_per_step, leaks.rates.of(counted).bytes) {
        Some(part) => format!("{rate} {unit}, {part} of them in {name}"),
        None => format!("{rate} {unit} in {name}"),
    }
}

fn finding(weight: Weight, code: &str, detail: String) -> Finding {
    Finding {
        weight,
        code: code.to_owned(),
        detail,
    }
}
