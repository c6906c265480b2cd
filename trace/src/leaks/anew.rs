//! Growth in blocks of one size, each time at another place: code that is made anew again and again
//! has another name each time, and so does what it keeps.

use super::thresholds::MIN_LATE_GROWTHS;
use super::view::View;
use crate::phases::Role;
use crate::stacks::FxHashMap;
use crate::units::Bytes;
use std::collections::BTreeSet;

/// Smaller blocks of one size are many, and not of one kind.
const MUCH: Bytes = Bytes::kib(64);
/// The longest distance between two growths, in mean distances, as with few growths of one place.
const EVEN: f64 = 1.5;
/// Share of what was kept by which the whole level must have risen.
const RISEN: f64 = 0.75;

/// What was kept in a rhythm, each time at a place of its own.
pub(super) struct Anew {
    /// Bytes that are kept each time, on average.
    pub(super) bytes: f64,
    /// How many times.
    pub(super) times: usize,
}

/// What places keep of one size.
#[derive(Default)]
struct OfSize {
    /// The periods that keep some.
    periods: BTreeSet<usize>,
    places: usize,
    bytes: u64,
}

impl Anew {
    /// `None` if there is no such rhythm, or if *allocated* (`levels`, at the ends of the steps)
    /// does not rise with it.
    pub(super) fn of(view: &View<'_>, levels: &[u64]) -> Option<Anew> {
        let n = view.ends.len();
        let mut sizes: FxHashMap<Bytes, OfSize> = FxHashMap::default();
        let sites = view.survey.kept.iter().zip(&view.sites.stacks);
        for (kept, stack) in sites.filter_map(|(kept, stack)| Some((kept.as_deref()?, stack))) {
            // An optimizer makes state when a parameter is used for the first time.
            let role = view.roles.get(*stack);
            if kept.sizes.len() != 1 || matches!(role, Role::Optimizer | Role::OptimizerSetup) {
                continue;
            }
            let Some(&size) = kept.sizes.keys().next().filter(|&&size| size >= MUCH) else {
                continue;
            };
            // First steps differ, and what the last one keeps may be given back in the next one.
            let periods = (1..n.saturating_sub(1)).filter(|&at| kept.survivors[at] > 0);
            let of_size = sizes.entry(size).or_default();
            for period in periods {
                of_size.periods.insert(period);
                of_size.bytes = of_size.bytes.saturating_add(kept.survivors[period]);
            }
            of_size.places += 1;
        }
        let found = sizes
            .values()
            .filter(|own| own.is_rhythm(n) && own.is_level(levels));
        let most = found.max_by_key(|own| (own.bytes, own.periods.len()))?;
        let times = most.periods.len();
        Some(Anew {
            bytes: most.bytes as f64 / times as f64,
            times,
        })
    }
}

impl OfSize {
    /// Whether it comes at even distances, from the first half of `n` periods to the end.
    fn is_rhythm(&self, n: usize) -> bool {
        let times = self.periods.len();
        let (Some(&first), Some(&last)) = (self.periods.first(), self.periods.last()) else {
            return false;
        };
        if times < MIN_LATE_GROWTHS || self.places < times || first * 2 > n {
            return false;
        }
        let mean = (last - first) as f64 / (times - 1) as f64;
        let distances = self.periods.iter().zip(self.periods.iter().skip(1));
        let longest = distances.map(|(a, b)| b - a).max().unwrap_or(0) as f64;
        longest <= EVEN * mean && (n - 1 - last) as f64 <= EVEN * longest
    }

    /// Whether the whole level rises by about as much as is kept.
    fn is_level(&self, levels: &[u64]) -> bool {
        let first = self
            .periods
            .first()
            .and_then(|&first| levels.get(first - 1));
        let risen = first
            .zip(levels.last())
            .map(|(from, to)| to.saturating_sub(*from));
        risen.is_some_and(|risen| risen as f64 >= RISEN * self.bytes as f64)
    }
}
