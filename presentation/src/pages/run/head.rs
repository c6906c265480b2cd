//! The head of a run's page: findings, facts about a device, and the choice of another one.

use crate::components::badge::{Badge, badge};
use ::timeline::format::count;
use ::timeline::ticks;
use api::alive::AllocationFilter;
use api::runs::DeviceSummary;
use api::view_state::ViewState;
use trace::trace::{QualityNote, Series, StepSource};

/// The findings by their badges: several devices may have the same one, each with its detail.
pub fn merged<'a>(notes: impl Iterator<Item = &'a QualityNote>) -> Vec<(Badge, String)> {
    let mut merged: Vec<(Badge, String)> = Vec::new();
    for note in notes {
        let badge = badge(&note.code);
        match merged
            .iter_mut()
            .find(|(other, _)| other.label == badge.label)
        {
            Some((_, detail)) if detail.contains(&note.detail) => {}
            Some((_, detail)) => {
                detail.push(' ');
                detail.push_str(&note.detail);
            }
            None => merged.push((badge, note.detail.clone())),
        }
    }
    merged
}

/// The facts about a device.
pub fn device_facts(device: &DeviceSummary) -> Vec<(&'static str, String)> {
    let peak = |series: Series| device.series[series as usize].peak.to_string();
    let mut facts = vec![
        ("peak allocated", peak(Series::Allocated)),
        ("peak reserved", peak(Series::Reserved)),
        ("events", count(u64::from(device.events))),
        ("allocations", count(u64::from(device.blocks))),
    ];
    if let Some((first, last)) = device.time {
        facts.push(("lasts", ticks::span((last - first) as f64)));
    }
    match device.step_source {
        StepSource::None => {}
        StepSource::Annotations => facts.push(("steps", count(u64::from(device.steps)))),
        StepSource::Inferred => {
            facts.push(("steps, inferred", count(u64::from(device.steps))));
        }
    }
    facts
}

/// Selects another device, which has other events and other blocks.
pub fn choose_device(state: &mut ViewState, device: u32) {
    *state = ViewState {
        device: Some(device),
        steps: None,
        window: None,
        levels: None,
        selection: None,
        at: None,
        compared_with: None,
        root: None,
        filter: AllocationFilter::default(),
        ..state.clone()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_about_two_devices_has_one_badge() {
        let note = |code: &str, detail: &str| QualityNote {
            code: code.into(),
            detail: detail.to_owned(),
        };
        let notes = [
            note("no_stacks", "Device 0: none."),
            note("late_start", "Late."),
            note("no_stacks", "Device 1: none."),
            note("no_stacks", "Device 1: none."),
        ];
        let merged = merged(notes.iter());
        let details: Vec<&str> = merged.iter().map(|(_, detail)| detail.as_str()).collect();
        assert_eq!(details, ["Device 0: none. Device 1: none.", "Late."]);
    }
}
