//! What already differs between two runs besides memory: the reader must know this first.

use super::begin::{self, Begin};
use super::noise;
use super::over::Over;
use super::profile::{DeviceProfile, Profile, SiteProfile};
use super::sites::{Matched, Matching};
use super::stays;
use crate::allocator::conf;
use crate::code;
use crate::site::SiteKey;
use crate::stacks::Frame;
use crate::trace::{StepSource, is_of_engine};
use crate::units::{Bytes, grouped};
use serde::{Deserialize, Serialize};

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

const ABSENT: &str = "not set";

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
    settings(base, new, &mut found);
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

fn settings(base: &Profile, new: &Profile, found: &mut Vec<Condition>) {
    // A file without settings (torch before 2.0, recordings of the bench) says nothing about them.
    if base.settings.is_empty() || new.settings.is_empty() {
        return;
    }
    let value = |profile: &Profile, name: &str| {
        let setting = profile.settings.iter().find(|(key, _)| key == name);
        setting.map_or_else(|| ABSENT.to_owned(), |(_, value)| value.clone())
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in base.settings.iter().chain(&new.settings) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut changes: Vec<Change<'_>> = names
        .into_iter()
        .map(|name| (name, value(base, name), value(new, name)))
        .filter(|(_, before, after)| before != after && !is_only_unknown(before, after))
        .collect();
    // The raw variable says the same as the settings that were parsed from it.
    if changes.iter().any(|(name, ..)| !RAW.contains(name)) {
        changes.retain(|(name, ..)| !RAW.contains(name));
    }
    let is_of_bench = |(name, ..): &Change<'_>| name.starts_with(OF_BENCH);
    let (rows, changes): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_of_bench);
    found.extend(rows.into_iter().map(of_bench));
    let mut told: Vec<&str> = Vec::new();
    for (name, before, after) in &changes {
        let name = in_short(name, &changes);
        if told.contains(&name) {
            continue;
        }
        told.push(name);
        found.push(Condition {
            kind: ConditionKind::Setting,
            name: name.to_owned(),
            base: before.clone(),
            new: after.clone(),
            meaning: match conf::is_without_effect(name) {
                true => "this setting changes nothing of the device's memory",
                false => "allocator settings change reserved and block sizes; compare allocated",
            }
            .to_owned(),
        });
    }
}

/// A setting that differs, with its two values.
type Change<'a> = (&'a str, String, String);

/// Whether one version of PyTorch does not know a setting that the other one leaves off.
fn is_only_unknown(before: &str, after: &str) -> bool {
    const OFF: [&str; 5] = ["false", "False", "-1", "0", ""];
    let is_off = |value: &str| OFF.contains(&value);
    before == ABSENT && is_off(after) || after == ABSENT && is_off(before)
}

/// What the names of all that a row of a bench says of itself begin with.
const OF_BENCH: &str = "tidemark.";

/// Two rows of a bench differ in what the bench was asked to compare; no allocator setting does.
fn of_bench((name, base, new): Change<'_>) -> Condition {
    let name = name.trim_start_matches(OF_BENCH);
    let meaning = match name {
        "patches" => "what the bench compares: the same program with other patches",
        "config" => "another configuration of the bench is another program",
        _ => "the bench ran them in another way",
    };
    let or_none = |value: String| match value.as_str() {
        "" => "none".to_owned(),
        _ => value,
    };
    Condition {
        kind: ConditionKind::Setting,
        name: name.to_owned(),
        base: or_none(base),
        new: or_none(new),
        meaning: meaning.to_owned(),
    }
}

/// The variables that settings come from.
const RAW: [&str; 3] = [
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
];

/// `roundup_power2_divisions` for `roundup_power2_divisions.256`, if it changes in the same way for
/// all sizes.
fn in_short<'a>(name: &'a str, changes: &[Change<'_>]) -> &'a str {
    let Some((family, _)) = name.split_once('.') else {
        return name;
    };
    let of_family = |(other, ..): &&Change<'_>| {
        let other = other.split_once('.');
        other.is_some_and(|(other, _)| other == family)
    };
    let mut members = changes.iter().filter(of_family);
    let values = |(_, before, after): &Change<'_>| (before.clone(), after.clone());
    let first = members.next().map(values);
    match members.all(|member| Some(values(member)) == first) {
        true => family,
        false => name,
    }
}

/// Whether both have as many steps, and of the same numbers.
fn steps(base: &DeviceProfile, new: &DeviceProfile, over: &Over, found: &mut Vec<Condition>) {
    if !over.extra {
        return;
    }
    let is_shifted = over.places[0] != over.places[1];
    let counted = |device: &DeviceProfile, first: u32| match (device.steps.len(), is_shifted) {
        (steps, true) => format!("{steps} from number {first}"),
        (steps, false) => steps.to_string(),
    };
    let whole = "the peaks of whole recordings are compared";
    found.push(Condition {
        kind: ConditionKind::Steps,
        name: "steps".to_owned(),
        base: counted(base, over.places[0]),
        new: counted(new, over.places[1]),
        meaning: match &over.steps {
            Some(_) => format!(
                "peaks are compared over {}; ends are not comparable where something grows",
                over.told()
            ),
            None if over.begin == Begin::Unknown => {
                format!("one recording begins later, at a step that is not known: {whole}")
            }
            None if over.begin == Begin::OneIsFlat => {
                format!("one recording begins later; the steps of one run are all alike: {whole}")
            }
            None if base.wrapped || new.wrapped => {
                format!("a ring that wrapped does not begin with the first step: {whole}")
            }
            None => format!("one recording has no steps: {whole}"),
        },
    });
}

/// Whether one recording begins later in its program than the other.
fn beginning(base: &DeviceProfile, new: &DeviceProfile, over: &Over, found: &mut Vec<Condition>) {
    let Some([before, after]) = begin::starts([base, new]) else {
        return;
    };
    let meaning = match over.begin {
        Begin::Apart([by, after]) => format!(
            "one recording begins {} later: there, the levels of both agree",
            plural_steps(by.max(after))
        ),
        Begin::Unknown => "one recording begins later, at a step that is not known: where memory \
                           grows, levels are not comparable"
            .to_owned(),
        Begin::OneIsFlat => "one recording begins later; the steps of one run are all alike, so \
                             peaks can be compared, and ends cannot"
            .to_owned(),
        Begin::Together => "one recording begins later, or holds other things from before it; \
                            what is from before has no stack"
            .to_owned(),
    };
    found.push(Condition {
        kind: ConditionKind::Steps,
        name: "held when the recording begins".to_owned(),
        base: before.to_string(),
        new: after.to_string(),
        meaning,
    });
}

fn plural_steps(steps: u32) -> String {
    match steps {
        1 => "one step".to_owned(),
        steps => format!("{steps} steps"),
    }
}

/// Differences of two devices.
pub(super) fn of_devices(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
    over: &Over,
) -> Vec<Condition> {
    let mut found = Vec::new();
    program(base, new, matching, &mut found);
    work(base, new, matching, &mut found);
    steps(base, new, over, &mut found);
    beginning(base, new, over, &mut found);
    if base.step_source != new.step_source {
        found.push(Condition {
            kind: ConditionKind::StepSource,
            name: "steps come from".to_owned(),
            base: source(base.step_source).to_owned(),
            new: source(new.step_source).to_owned(),
            meaning: "steps may begin in different places".to_owned(),
        });
    }
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    if base.has_stacks != new.has_stacks {
        found.push(Condition {
            kind: ConditionKind::Stacks,
            name: "stacks recorded".to_owned(),
            base: yes_no(base.has_stacks),
            new: yes_no(new.has_stacks),
            meaning: "stacks cannot be compared; levels can".to_owned(),
        });
    }
    if base.has_native != new.has_native {
        found.push(Condition {
            kind: ConditionKind::Stacks,
            name: "C++ frames recorded".to_owned(),
            base: yes_no(base.has_native),
            new: yes_no(new.has_native),
            meaning: "allocations without Python frames are grouped by size in one run and by C++ \
                      stack in the other: where these do not cancel, they appear as gone and new"
                .to_owned(),
        });
    }
    if base.wrapped != new.wrapped {
        found.push(Condition {
            kind: ConditionKind::Ring,
            name: "ring of events wrapped".to_owned(),
            base: yes_no(base.wrapped),
            new: yes_no(new.wrapped),
            meaning: "what happened before the ring begins is not known: its peak is a lower \
                      bound"
                .to_owned(),
        });
    }
    out_of_memory(base, new, &mut found);
    found
}

fn source(source: StepSource) -> &'static str {
    match source {
        StepSource::Annotations => "annotations",
        StepSource::Inferred => "what repeats",
        StepSource::None => "nothing",
    }
}

fn out_of_memory(base: &DeviceProfile, new: &DeviceProfile, found: &mut Vec<Condition>) {
    if base.oom.is_some() == new.oom.is_some() {
        return;
    }
    let said = |device: &DeviceProfile| match device.oom {
        None => "no".to_owned(),
        Some(oom) => match (oom.step, device.numbering()) {
            (Some(step), Some(numbering)) => format!("in step {}", numbering.first() + step),
            (Some(step), None) if !device.wrapped => format!("in step {step}"),
            _ => format!("at event {}", oom.event.0),
        },
    };
    found.push(Condition {
        kind: ConditionKind::OutOfMemory,
        name: "ran out of memory".to_owned(),
        base: said(base),
        new: said(new),
        meaning: "a run that fails ends early: what it would have needed is not known".to_owned(),
    });
}

/// Bytes requested in each settled whole step.
pub(super) fn settled_work(device: &DeviceProfile) -> Vec<u64> {
    settled_steps(device).map(|step| step.work.0).collect()
}

/// The settled whole steps.
pub(super) fn settled_steps(
    device: &DeviceProfile,
) -> impl Iterator<Item = &super::profile::StepProfile> {
    let whole = device.whole_steps as usize;
    device.steps[crate::growth::settled(whole)..whole].iter()
}

/// By how much the work of a step differs: the means of both runs. `None` if it does not.
fn work_of_steps([base, new]: [&DeviceProfile; 2]) -> Option<[f64; 2]> {
    let (before, after) = (settled_work(base), settled_work(new));
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let ((mean_b, sd_b), (mean_n, sd_n)) = (noise::spread(&before), noise::spread(&after));
    // Two standard errors of the difference: steps of varying length are not another workload.
    let error =
        2.0 * (sd_b.powi(2) / before.len() as f64 + sd_n.powi(2) / after.len() as f64).sqrt();
    let tolerance = (noise::WORK_SHARE * mean_b.max(mean_n)).max(error);
    let differs = (mean_n - mean_b).abs() > tolerance && mean_b > 0.0;
    differs.then_some([mean_b, mean_n])
}

/// How many times as large most tensors are, where steps do other work because of that.
pub(super) fn resized(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
) -> Option<String> {
    work_of_steps([base, new])?;
    match Sizes::of(base, new, matching) {
        Sizes::Times(factor) => Some(times(factor)),
        Sizes::Same | Sizes::Unknown => None,
    }
}

fn work(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
    found: &mut Vec<Condition>,
) {
    let Some([mean_b, mean_n]) = work_of_steps([base, new]) else {
        return;
    };
    let factor = mean_n / mean_b;
    let meaning = match Sizes::of(base, new, matching) {
        Sizes::Times(factor) => format!(
            "most tensors are {} as large: another batch, sequence, data type or model, so levels \
             are not comparable one to one",
            times(factor)
        ),
        Sizes::Same => {
            "the same tensors, but more or fewer of them: other work in each step".to_owned()
        }
        Sizes::Unknown => "other work in each step; too few of the tensors are made in the same \
                           place in both to say which"
            .to_owned(),
    };
    found.push(Condition {
        kind: ConditionKind::Work,
        name: format!("requested a step ({})", times(factor)),
        base: Bytes(mean_b as u64).to_string(),
        new: Bytes(mean_n as u64).to_string(),
        meaning,
    });
}

/// `1.50 times`, or `1/337` where that would read as next to nothing; without a number where the
/// factor is nothing, or not finite.
fn times(factor: f64) -> String {
    let parts = factor.recip().round();
    match factor {
        factor if !factor.is_finite() => "many times".to_owned(),
        factor if factor < 0.01 && parts <= MOST_PARTS => format!("1/{}", grouped(parts as u64)),
        factor if factor < 0.01 => "next to nothing".to_owned(),
        factor => format!("{factor:.2} times"),
    }
}

/// A smaller part is told without a number.
const MOST_PARTS: f64 = 1e6;

/// How large the tensors are that both runs make in the same place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sizes {
    Same,
    /// Most bytes are of tensors so many times as large.
    Times(f64),
    /// Too few are made in the same place.
    Unknown,
}

/// Of so large a share of the bytes of each run, both must be known to be made in the same place to
/// say something of the tensors.
const MOST: f64 = 0.5;

impl Sizes {
    fn of(base: &DeviceProfile, new: &DeviceProfile, matching: &Matching) -> Sizes {
        if shares(base, new, matching).is_none_or(|shares| shares.iter().any(|&s| s < MOST)) {
            return Sizes::Unknown;
        }
        let mut ratios: Vec<(f64, u64)> = Vec::new();
        for &(b, n, matched) in &matching.pairs {
            let (b, n) = (&base.sites[b], &new.sites[n]);
            if matched == Matched::Exactly
                && has_stack(b)
                && let (Some((old, _)), Some((size, _))) = (b.sizes.first(), n.sizes.first())
                // Of no bytes, nothing is so many times as large.
                && *old > Bytes::ZERO
            {
                ratios.push((size.0 as f64 / old.0 as f64, b.made.0));
            }
        }
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: u64 = ratios.iter().map(|(_, weight)| weight).sum();
        let mut seen = 0;
        let median = ratios.iter().find(|(_, weight)| {
            seen += weight;
            seen * 2 >= total
        });
        match median {
            None => Sizes::Unknown,
            Some((factor, _)) if (factor - 1.0).abs() > noise::WORK_SHARE => Sizes::Times(*factor),
            Some(_) => Sizes::Same,
        }
    }
}

fn has_stack(site: &SiteProfile) -> bool {
    matches!(site.key, SiteKey::Shape(_))
}

/// Whether a site has a Python frame. Its key is then of those alone.
fn has_python(device: &DeviceProfile, site: &SiteProfile) -> bool {
    let is_python = |frame: &Frame| code::is_python(device.names.filename(*frame), frame.line);
    site.frames.iter().any(is_python)
}

/// Of what each run allocates with a stack, the share of the bytes at sites that the other one has,
/// too. `None` where stacks do not say: a run has none. If only one has C++ frames, what has no
/// Python frame has a stack in that one alone, and does not count.
fn shares(base: &DeviceProfile, new: &DeviceProfile, matching: &Matching) -> Option<[f64; 2]> {
    shares_of(base, new, matching, Counts::All)
}

/// Which sites with a stack count.
#[derive(Clone, Copy, PartialEq)]
enum Counts {
    All,
    /// Those that a function of the program itself calls.
    Own,
}

fn shares_of(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
    counts: Counts,
) -> Option<[f64; 2]> {
    let only_python = base.has_native != new.has_native || counts == Counts::Own;
    let made = |device: &DeviceProfile, site: &SiteProfile| {
        let is_own = counts == Counts::All || site.own.is_some();
        let counts = is_own && has_stack(site) && (!only_python || has_python(device, site));
        if counts { site.made.0 as f64 } else { 0.0 }
    };
    let total = |device: &DeviceProfile| {
        let sites = device.sites.iter();
        sites.map(|site| made(device, site)).sum::<f64>()
    };
    let (all_base, all_new) = (total(base), total(new));
    let pairs = matching.pairs.iter();
    let (both_base, both_new) = pairs.fold((0.0, 0.0), |(of_base, of_new), &(b, n, _)| {
        let (b, n) = (made(base, &base.sites[b]), made(new, &new.sites[n]));
        (of_base + b, of_new + n)
    });
    (all_base > 0.0 && all_new > 0.0).then(|| [both_base / all_base, both_new / all_new])
}

/// Where the product of the two shares is less than this, the runs are of two programs. Framework
/// code such as an optimizer may be common to both, and be half of one of them. Recordings of one
/// program that was changed have 98 % of their bytes in common, or more, in all pairs at hand.
const OTHER_PROGRAM: f64 = 0.1;

/// If so much of what stays between the steps of one run stays in the other one too, and at least
/// so much the other way round, they are of one program, whatever compiled its code. One of them
/// may leak, or have no optimizer state.
const SAME_STAYS: f64 = 0.95;
const SAME_STAYS_LEAST: f64 = 0.5;

/// If less stays in both, and the product of the shares of what the program's own functions
/// allocate is less than the second, they are of two programs: the framework and the optimizer are
/// common, and nothing else.
const OTHER_STAYS: f64 = 0.75;
const OWN_CODE: f64 = 0.6;

/// Whether they look like runs of two programs.
pub(super) fn is_other_program(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
) -> bool {
    let stays = stays::shares(&base.stays, &new.stays);
    let [least, most] = stays.map_or([0.0; 2], |[a, b]| [a.min(b), a.max(b)]);
    if most >= SAME_STAYS && least >= SAME_STAYS_LEAST {
        return false;
    }
    let both = |counts: Counts| {
        let shares = shares_of(base, new, matching, counts);
        shares.map(|[base, new]| base * new)
    };
    let hardly = both(Counts::All).is_some_and(|both| both < OTHER_PROGRAM);
    let own = both(Counts::Own).is_some_and(|both| both < OWN_CODE);
    hardly || stays.is_some() && most < OTHER_STAYS && own
}

fn program(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
    found: &mut Vec<Condition>,
) {
    let Some(shares) = shares(base, new, matching) else {
        return;
    };
    if !is_other_program(base, new, matching) {
        return;
    }
    let [base, new] = shares.map(|share| format!("{:.0} %", share * 100.0));
    found.push(Condition {
        kind: ConditionKind::Work,
        name: "allocated in the same place as in the other run".to_owned(),
        base,
        new,
        meaning: "these look like two programs: levels are not comparable".to_owned(),
    });
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

    #[test]
    fn a_factor_is_told_in_words_where_it_is_no_number() {
        let check = |factor: f64, expected: &str| assert_eq!(times(factor), expected);
        check(1.5, "1.50 times");
        check(0.01, "0.01 times");
        check(0.005, "1/200");
        check(3.83 / 1290.0, "1/337");
        check(1e-4, "1/10,000");
        check(1e-9, "next to nothing");
        check(0.0, "next to nothing");
        check(f64::INFINITY, "many times");
        check(f64::NAN, "many times");
    }
}
