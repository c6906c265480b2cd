//! What became of each place that leaks, where both runs leak.

use super::rates::Counted;
use super::{Difference, LeakPlace, Leaks};
use crate::leaks::{MIN_BYTES, Verdict};
use crate::units::Bytes;

/// What became of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaks in the baseline only.
    Gone,
    /// It leaks in both.
    Still,
    /// It leaks in the new run only.
    New,
}

impl Fate {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Gone => "gone",
            Fate::Still => "still",
            Fate::New => "new",
        }
    }
}

/// Places listed.
const MOST: usize = 10;

impl LeakPlace {
    /// How fast it leaks and where: `24.0 MiB a step in save (train.py:7)`.
    pub fn told(&self) -> String {
        let rate = Bytes(self.rate.round() as u64);
        format!("{rate} {}{}", self.counted().unit(), self.within())
    }
}

/// One line a place, `gone: 24.0 MiB a step in save (train.py:7)`; none if each run leaks at one
/// place at most, or not both leak.
pub fn lines(difference: &Difference) -> Vec<String> {
    let (base, new) = (&difference.base.leaks, &difference.new.leaks);
    let both = [base, new].map(|leaks| leaks.verdict) == [Verdict::Leak; 2];
    if !both || base.places.len().max(new.places.len()) < 2 {
        return Vec::new();
    }
    let told = |fate: Fate, place: &LeakPlace| format!("{}: {}", fate.word(), place.told());
    let gone = base.places.iter().filter(|place| !place.in_both);
    let gone = gone.map(|place| told(Fate::Gone, place));
    let there = new.places.iter().map(|place| match place.in_both {
        true => told(Fate::Still, place),
        false => told(Fate::New, place),
    });
    let mut lines: Vec<String> = gone.chain(there).collect();
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if more > 0 {
        lines.push(format!("… {more} more"));
    }
    lines
}

/// Some places of one kind together: `24.0 MiB a step in save (train.py:7) and 2 more places`.
/// `None` if that is less than any leak.
pub(super) fn together<'p>(
    places: impl Iterator<Item = &'p LeakPlace> + Clone,
    counted: Counted,
) -> Option<String> {
    let places = places.filter(move |place| place.counted() == counted);
    let rate: f64 = places.clone().map(|place| place.rate).sum();
    let first = places.clone().next()?;
    let more = match places.count() - 1 {
        0 => String::new(),
        1 => " and one more place".to_owned(),
        more => format!(" and {more} more places"),
    };
    let rate = (rate >= MIN_BYTES.0 as f64).then(|| Bytes(rate.round() as u64))?;
    Some(format!("{rate} {}{}{more}", counted.unit(), first.within()))
}

/// Of two runs that leak: what is gone, and what is left. `None` where nothing is gone.
pub(super) fn half_gone(base: &Leaks, new: &Leaks) -> Option<String> {
    let is_gone = |place: &&LeakPlace| !place.in_both;
    let of_kind = |counted| together(base.places.iter().filter(is_gone), counted);
    let gone: Vec<String> = Counted::ALL.into_iter().filter_map(of_kind).collect();
    let still = |counted| together(new.places.iter().filter(|place| place.in_both), counted);
    let still: Vec<String> = Counted::ALL.into_iter().filter_map(still).collect();
    match (gone.is_empty(), still.is_empty()) {
        (true, _) => None,
        (false, true) => Some(format!("no longer leaking {}", gone.join(" and "))),
        (false, false) => Some(format!(
            "no longer leaking {}, still leaking {}",
            gone.join(" and "),
            still.join(" and ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::profile::Place;
    use crate::compare::rates::Rate;

    fn leaks(places: &[(&str, u64, bool)]) -> Leaks {
        let place = |&(name, mib, in_both): &(&str, u64, bool)| LeakPlace {
            id: name.to_owned(),
            place: Place {
                name: name.to_owned(),
                filename: "/a/train.py".to_owned(),
                line: 7,
            },
            caller: None,
            rate: Bytes::mib(mib).0 as f64,
            within_step: false,
            in_both,
            known: true,
        };
        Leaks {
            verdict: Verdict::Leak,
            reason: String::new(),
            rate: places
                .iter()
                .map(|place| Bytes::mib(place.1).0 as f64)
                .sum(),
            error: 0.0,
            within_steps: Rate::default(),
            places: places.iter().map(place).collect(),
        }
    }

    #[test]
    fn of_several_leaks_it_is_told_which_is_gone() {
        let check =
            |base: &[(&str, u64, bool)], new: &[(&str, u64, bool)], expected: Option<&str>| {
                let told = half_gone(&leaks(base), &leaks(new));
                assert_eq!(told.as_deref(), expected, "{base:?} {new:?}");
            };
        let both = [("add", 32, true), ("forward", 24, false)];
        check(
            &both,
            &[("add", 32, true)],
            Some(
                "no longer leaking 24.0 MiB a step in forward (train.py:7), still leaking 32.0 MiB \
                 a step in add (train.py:7)",
            ),
        );
        check(&[("add", 32, true)], &[("add", 32, true)], None);
        check(
            &[("add", 32, false), ("forward", 24, false)],
            &[],
            Some("no longer leaking 56.0 MiB a step in add (train.py:7) and one more place"),
        );
        // A place in a package does not say what of the program leaks.
        let mut called = leaks(&[("forward", 24, false)]);
        let place = called.places[0].place.clone();
        called.places[0].caller = Some(Place {
            name: "main".to_owned(),
            ..place
        });
        let told = "24.0 MiB a step in forward (train.py:7) called by main (train.py:7)";
        assert_eq!(called.places[0].told(), told);
        // The rate of two places is of neither.
        assert_eq!(leaks(&both).told_where(), "56.0 MiB a step in 2 places");
        // Something else grows, too.
        let grows_more = |places: &[(&str, u64, bool)]| Leaks {
            rate: Bytes::mib(60).0 as f64,
            ..leaks(places)
        };
        let told = "60.0 MiB a step, 32.0 MiB of them in add (train.py:7)";
        assert_eq!(grows_more(&both[..1]).told_where(), told);
        let told = "60.0 MiB a step, 56.0 MiB of them in 2 places";
        assert_eq!(grows_more(&both).told_where(), told);
    }
}
