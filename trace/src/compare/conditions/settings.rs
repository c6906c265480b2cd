//! Settings that differ: of the allocator, and what a row of a bench says of itself.

use super::super::profile::Profile;
use super::{Condition, ConditionKind};
use crate::allocator::conf;

const ABSENT: &str = "not set";

/// The settings of two files that differ.
pub(super) fn that_differ(base: &Profile, new: &Profile) -> Vec<Condition> {
    // A file without settings (torch before 2.0, recordings of the bench) says nothing about them.
    if base.settings.is_empty() || new.settings.is_empty() {
        return Vec::new();
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
    let mut found: Vec<Condition> = rows.into_iter().map(of_bench).collect();
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
    found
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
