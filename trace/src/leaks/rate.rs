//! How fast several places accumulate together.

use super::report::LeakGroup;
use crate::growth::{Line, settled};

/// With fewer levels a line says too little.
const MIN_LEVELS: usize = 6;

/// Bytes a step that these groups keep, all of them together.
///
/// The rate of a group is that between its own first and last growth. Where the place that keeps
/// a block changes from step to step, as with an offloader whose moves take turns, each place has a
/// rhythm of its own, and the sum of the rates is more than what is kept. Then the line through the
/// sum of their levels is below that sum by more than its error, and is what is told.
pub(super) fn together<'g>(groups: impl Iterator<Item = &'g LeakGroup> + Clone) -> f64 {
    let sum: f64 = groups.clone().map(|group| group.bytes_per_step).sum();
    let n = groups.clone().map(|group| group.per_step.len()).max();
    let latest = groups.clone().map(|group| group.first_step as usize).max();
    let (Some(n), Some(latest)) = (n, latest) else {
        return sum;
    };
    if groups.clone().count() < 2 {
        return sum;
    }
    // From where all of them grow.
    let from = latest.max(settled(n));
    let mut levels = vec![0_u64; n];
    for group in groups.clone() {
        for (level, own) in levels.iter_mut().zip(group.levels()) {
            *level = level.saturating_add(own.0);
        }
    }
    let levels = levels.split_off(from.min(n));
    let line = Line::fit(&levels).filter(|_| levels.len() >= MIN_LEVELS);
    let below = line.and_then(|line| Some((line.slope, line.slope + line.error?)));
    match below {
        Some((slope, highest)) if slope > 0.0 && highest < sum => slope,
        _ => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Pattern;
    use super::*;
    use crate::site::SiteKey;
    use crate::stacks::StackIdx;
    use crate::units::Bytes;

    /// A group that keeps so many bytes in each of these steps.
    fn group(kept: &[u64], bytes_per_step: f64) -> LeakGroup {
        let mut level = 0;
        let levels = kept.iter().map(|bytes| {
            level += bytes;
            Bytes(level)
        });
        let per_step: Vec<Bytes> = levels.collect();
        let grows = |at: &usize| kept[*at] > 0;
        LeakGroup {
            site: SiteKey::Size(Bytes(1)),
            stack: StackIdx::NONE,
            lines: None,
            frame: None,
            frame_inferred: false,
            alloc_frame: None,
            pattern: Pattern::EveryStep,
            scope: None,
            is_state: false,
            count_per_step: 1.0,
            bytes_per_step,
            slope_error: 0.0,
            uneven: false,
            slowed: false,
            cycle: None,
            is_drained: false,
            older: Vec::new(),
            confidence: 1.0,
            first_step: (0..kept.len()).find(grows).unwrap_or(0) as u32,
            last_step: (0..kept.len()).rev().find(grows).unwrap_or(0) as u32,
            live_count: kept.len() as u64,
            given_back: 0,
            all_end: false,
            live_bytes: per_step.last().copied().unwrap_or_default(),
            per_step,
            spared: Vec::new(),
            evidence: Vec::new(),
        }
    }

    #[test]
    fn places_that_take_turns_keep_less_than_the_sum_of_their_rates() {
        let check = |groups: &[LeakGroup], expected: f64| {
            let found = together(groups.iter());
            assert!((found - expected).abs() < 1.0, "{found} for {expected}");
        };
        let steady = group(&[100; 12], 100.0);
        check(std::slice::from_ref(&steady), 100.0);
        // Both keep in each step, or each in its own rhythm.
        check(&[steady.clone(), group(&[50; 12], 50.0)], 150.0);
        let third = [0, 0, 300, 0, 0, 300, 0, 0, 300, 0, 0, 300];
        check(&[steady.clone(), group(&third, 100.0)], 200.0);
        // One begins late.
        let late = [0, 0, 0, 0, 0, 0, 100, 100, 100, 100, 100, 100];
        check(&[steady, group(&late, 100.0)], 200.0);
        // In each step one of them keeps: their rates are those of their own first and last growth.
        let a = [0, 100, 100, 0, 100, 0, 100, 0, 100, 0, 100, 0];
        let b = [0, 0, 0, 100, 0, 100, 0, 100, 0, 100, 0, 100];
        let rate = |kept: &[u64]| {
            let first = kept.iter().position(|&bytes| bytes > 0).unwrap();
            let last = kept.iter().rposition(|&bytes| bytes > 0).unwrap();
            let sum: u64 = kept[first + 1..=last].iter().sum();
            sum as f64 / (last - first) as f64
        };
        let groups = [group(&a, rate(&a)), group(&b, rate(&b))];
        let sum: f64 = groups.iter().map(|group| group.bytes_per_step).sum();
        assert!(sum > 105.0, "{sum}");
        check(&groups, 100.0);
    }
}
