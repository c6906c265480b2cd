//! Growth that was faster in the first steps.

use super::super::survivors::Kept;
use crate::growth::{Line, settled};

/// With fewer growths in settled periods, a line says too little.
const MIN_GROWTHS: usize = 5;

/// A rate that is higher than this share of the mean is the mean.
const SAME: f64 = 0.99;

/// How fast a site grows since the settled step, where it grew faster before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slower {
    /// Bytes a period.
    pub(super) bytes: f64,
    /// Blocks a period.
    pub(super) count: f64,
    /// Half of the 95 % interval of `bytes`.
    pub(super) error: f64,
}

impl Slower {
    /// Of a site that grew in these periods, by `mean` bytes a period, and whose survivors are sure
    /// until the period `end`. `None` unless the line through what settled periods have kept is
    /// below the mean by more than its error, and by more than chance makes of amounts that differ.
    pub(super) fn of(births: &[usize], end: usize, mean: f64, kept: &Kept) -> Option<Slower> {
        let from = settled(kept.live.len()).max(*births.first()?);
        let births = &births[births.partition_point(|&p| p < from)..];
        if births.len() < MIN_GROWTHS {
            return None;
        }
        let amounts: Vec<f64> = births.iter().map(|&p| kept.survivors[p] as f64).collect();
        let mut sum = 0.0_f64;
        let points = births.iter().zip(&amounts).map(|(&p, bytes)| {
            sum += bytes;
            (p as f64, sum)
        });
        let points: Vec<(f64, f64)> = points.collect();
        let line = Line::through(&points)?;
        let span = (births[births.len() - 1] - births[0]) as f64;
        let error = line.error?.max(luck(&amounts) / span);
        if line.slope + error >= SAME * mean {
            return None;
        }
        let mut level = 0_u64;
        let levels = kept.survivors[from..end].iter().map(|bytes| {
            level += bytes;
            level
        });
        // With the quiet periods at the end, as the level of several sites together has them.
        let bytes = Line::fit(&levels.collect::<Vec<u64>>())?.slope;
        let count = births[1..]
            .iter()
            .map(|&p| f64::from(kept.survivor_count[p]));
        (0.0 < bytes && bytes < mean).then(|| Slower {
            bytes,
            count: count.sum::<f64>() / span,
            error,
        })
    }
}

/// Two standard deviations of the sum of so many amounts, if chance makes each of them. How much
/// neighbours differ shows that, also where amounts become smaller and smaller.
fn luck(amounts: &[f64]) -> f64 {
    let squares = amounts.windows(2).map(|pair| (pair[1] - pair[0]).powi(2));
    let pairs = amounts.len().saturating_sub(1).max(1) as f64;
    let variance = squares.sum::<f64>() / (2.0 * pairs);
    2.0 * (variance * pairs).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slower(amounts: &[u64]) -> Option<f64> {
        let kept = Kept::of_survivors(amounts);
        let births: Vec<usize> = (0..amounts.len()).filter(|&p| amounts[p] > 0).collect();
        let after = amounts[births[0] + 1..].iter().sum::<u64>() as f64;
        let mean = after / (births[births.len() - 1] - births[0]) as f64;
        Slower::of(&births, amounts.len(), mean, &kept).map(|slower| slower.bytes.round())
    }

    #[test]
    fn what_the_first_steps_kept_more_of_is_not_in_the_rate() {
        let more_at_first = |distance: usize| -> Vec<u64> {
            let later = |step| 200 * u64::from(step % distance == 0);
            let kept = |step| if step < 5 { 1000 } else { later(step) };
            (0..20).map(kept).collect()
        };
        assert_eq!(slower(&more_at_first(1)), Some(200.0));
        let half = slower(&more_at_first(2)).unwrap();
        assert!((half - 100.0).abs() < 5.0, "{half}");
        // Too few growths follow.
        assert_eq!(slower(&more_at_first(4)), None);
        // Always the same, once in three steps, or faster in the end.
        assert_eq!(slower(&[200; 20]), None);
        let third: Vec<u64> = (0..30).map(|step| 300 * u64::from(step % 3 == 0)).collect();
        assert_eq!(slower(&third), None);
        assert_eq!(slower(&(1..=20).collect::<Vec<u64>>()), None);
        // Amounts that differ by chance have a mean.
        let any = [
            300, 100, 500, 200, 400, 100, 300, 200, 500, 100, 400, 200, 100, 300,
        ];
        assert_eq!(slower(&any), None);
    }
}
