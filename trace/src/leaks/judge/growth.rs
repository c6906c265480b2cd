//! Growth that was found at a site, and how it is computed of what shows it.

use super::super::report::{Cycle, Pattern};
use super::super::survivors::Kept;
use super::rhythm::Rhythm;
use super::series::slope_error;

/// Growth that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// How it grows.
    pub pattern: Pattern,
    /// First period that adds to it.
    pub first: usize,
    /// Last period that adds to it.
    pub last: usize,
    /// Bytes added for each period.
    pub bytes_per_period: f64,
    /// Blocks added for each period.
    pub count_per_period: f64,
    /// Bytes added whenever it grows.
    pub bytes_per_growth: f64,
    /// Half of the 95 % interval of the slope, bytes per period.
    pub slope_error: f64,
    /// Whether chance seems to decide when it grows.
    pub uneven: bool,
    /// Whether it grew faster at first: its rate is that of settled periods.
    pub slowed: bool,
    /// How it comes and pauses, if it does so again and again.
    pub cycle: Option<Cycle>,
    /// How often it rises, if it gives back blocks oldest first, but fewer than it adds.
    pub drained: Option<Pattern>,
    /// Per end, bytes from before the recording that are given back later and are subtracted from
    /// its rate; empty if none are.
    pub older: Vec<u64>,
    /// How often it could have grown, given its own rhythm.
    pub chances: usize,
    /// How often it did.
    pub growths: usize,
    /// The growth that makes it more than metrics, where that is only one.
    pub jump: Option<Jump>,
}

/// How much higher a level is at the last end than it was before it began to rise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Risen {
    pub(super) bytes: u64,
    pub(super) blocks: u64,
}

/// One growth that holds most of the bytes, where the others are too small for a leak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The period.
    pub at: usize,
    /// What it added.
    pub bytes: u64,
}

impl Growth {
    /// That of a level which rises in a rhythm until the last end, by so much in all since the end
    /// before its first rise.
    pub(super) fn of_level(pattern: Pattern, rhythm: &Rhythm, risen: Risen, kept: &Kept) -> Growth {
        let span = (kept.live.len() - rhythm.first) as f64;
        let bytes = risen.bytes as f64;
        Growth {
            pattern,
            first: rhythm.first,
            last: rhythm.last,
            bytes_per_period: bytes / span,
            count_per_period: risen.blocks as f64 / span,
            bytes_per_growth: bytes / rhythm.growths as f64,
            slope_error: slope_error(kept, rhythm.first),
            uneven: false,
            slowed: false,
            cycle: None,
            drained: None,
            older: Vec::new(),
            chances: rhythm.chances,
            growths: rhythm.growths,
            jump: None,
        }
    }

    /// That of too few births for a rhythm, which may be the first of many at this distance: each
    /// later one would add what the first did.
    pub(super) fn of_few(births: &[usize], distance: usize, kept: &Kept) -> Option<Growth> {
        let (&first, &last) = births.first().zip(births.last())?;
        let bytes = kept.survivors[first] as f64;
        Some(Growth {
            pattern: Pattern::EveryNth(distance as u32),
            first,
            last,
            bytes_per_period: bytes / distance as f64,
            count_per_period: f64::from(kept.survivor_count[first]) / distance as f64,
            bytes_per_growth: bytes,
            slope_error: slope_error(kept, 0),
            uneven: false,
            slowed: false,
            cycle: None,
            drained: None,
            older: Vec::new(),
            chances: births.len(),
            growths: births.len(),
            jump: None,
        })
    }

    /// The growth without its jump, and the jump as what was kept once so far.
    pub fn apart(self) -> (Growth, Option<Growth>) {
        let Some(Jump { at, bytes }) = self.jump else {
            return (self, None);
        };
        let bytes = bytes as f64;
        let others = self.growths as f64 - 1.0;
        // The first growth is no part of the rate.
        let a_period = match at > self.first {
            true => bytes / (self.last - self.first) as f64,
            false => 0.0,
        };
        let once = Growth {
            first: at,
            last: at,
            bytes_per_growth: bytes,
            chances: 1,
            growths: 1,
            jump: None,
            ..self.clone()
        };
        let rest = Growth {
            bytes_per_period: (self.bytes_per_period - a_period).max(0.0),
            bytes_per_growth: (self.bytes_per_growth * self.growths as f64 - bytes) / others,
            jump: None,
            ..self
        };
        (rest, Some(once))
    }

    /// How likely it is that it grows at the next chance too, by Laplace's rule of succession.
    pub fn confidence(&self) -> f64 {
        (self.growths as f64 + 1.0) / (self.chances as f64 + 2.0)
    }
}
