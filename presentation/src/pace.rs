//! When something is read again that changes on the server: as soon as somebody needs it, and
//! never so often that many open tabs keep the server from its work.
//!
//! A change by others is read after a pause that grows with the time that the last reading took,
//! and only while somebody looks. A part of the pause is left to chance: all tabs hear of a change
//! in the same moment. What somebody did here is read at once. There is never more than one
//! reading.

use ::timeline::format::UnixMillis;
use std::time::Duration;

/// A pause is so many times the last reading: so a tab reads a tenth of the time at most.
const TIMES: u32 = 10;

/// The shortest and the longest pause, without what is left to chance.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// How long the server may let a reading wait that is done at a pace and in rounds
/// (`server/src/run_lists.rs`). In that time it works for nobody.
const ROUND: Duration = Duration::from_secs(2);

/// The pause after a reading to which the server said nothing. The reading itself took a minute of
/// waiting, so even many tabs ask a server that hangs only now and then.
const AFTER_SILENCE: Duration = Duration::from_secs(5);

/// The part of a pause that chance adds at most.
const BY_CHANCE: f64 = 0.5;

/// How soon a reading is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// Somebody else changed something.
    AtAPace,
    /// Who looks changed something, or has just come.
    AtOnce,
}

/// Who would see what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Somebody sees it.
    Shown,
    /// Nobody does: the tab is hidden, or shows another page.
    Away,
    /// A half of a change is done here, so nothing may be read before its end.
    Held,
}

/// How a reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Somehow: with an answer, a refusal, or without a connection. When the connection is there
    /// again, the stream of events says so.
    Over,
    /// The server said nothing for [so long](crate::response::SOON) that it was given up.
    Silent,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// To read, in such a haste, and to say when that [ended](Pace::ended).
    Now(Haste),
    /// To ask again after this time, and to say that it [is over](Pace::rang).
    In(Duration),
}

/// What is known about the readings of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// A reading that is wanted and has not begun: what is shown is old.
    wanted: Option<Haste>,
    /// When the reading began that is under way, and in which haste.
    began: Option<(UnixMillis, Haste)>,
    /// How long a reading at a pace may only wait.
    round: Duration,
    /// The pause after the last reading.
    pause: Duration,
    /// When that was found. A clock that shows an earlier time was set back.
    found: UnixMillis,
    /// When the next reading may begin that is not wanted at once.
    from: UnixMillis,
    /// Whether somebody waits for that.
    waits: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            wanted: None,
            began: None,
            round: Duration::ZERO,
            pause: SHORTEST,
            found: UnixMillis(0),
            from: UnixMillis(0),
            waits: false,
        }
    }
}

impl Pace {
    /// Of what many tabs read together, in rounds.
    pub fn in_rounds() -> Pace {
        Pace {
            round: ROUND,
            ..Pace::default()
        }
    }

    /// A reading is wanted. `chance` is a random number from 0 to 1.
    pub fn want(&mut self, haste: Haste, now: UnixMillis, chance: f64) {
        if self.wanted.is_none() && self.began.is_none() {
            let earliest = match now < self.found {
                true => now,
                false => self.from,
            };
            self.found = now;
            self.from = earliest.max(after(now, self.by_chance(chance)));
        }
        self.wanted = match (self.wanted, haste) {
            (Some(Haste::AtOnce), _) | (_, Haste::AtOnce) => Some(Haste::AtOnce),
            (None | Some(Haste::AtAPace), Haste::AtAPace) => Some(Haste::AtAPace),
        };
    }

    /// What is to be done now. After [`Due::Now`], the reading has begun.
    pub fn due(&mut self, now: UnixMillis, sight: Sight) -> Due {
        let haste = match (self.wanted, sight) {
            _ if self.began.is_some() => return Due::Nothing,
            (Some(haste), Sight::Shown) => haste,
            (Some(Haste::AtOnce), Sight::Away) => Haste::AtOnce,
            (None, _) | (_, Sight::Away | Sight::Held) => return Due::Nothing,
        };
        let wait = match haste {
            Haste::AtAPace if now >= self.found => self.from.since(now),
            Haste::AtAPace | Haste::AtOnce => Duration::ZERO,
        };
        if wait.is_zero() {
            self.wanted = None;
            self.began = Some((now, haste));
            return Due::Now(haste);
        }
        match std::mem::replace(&mut self.waits, true) {
            true => Due::Nothing,
            false => Due::In(wait),
        }
    }

    /// The time of [`Due::In`] is over.
    pub fn rang(&mut self) {
        self.waits = false;
    }

    /// The reading ended, whatever came of it. `chance` is a random number from 0 to 1.
    pub fn ended(&mut self, now: UnixMillis, chance: f64) {
        let took = self.began.take().map(|(began, haste)| match haste {
            Haste::AtAPace => now.since(began).saturating_sub(self.round),
            Haste::AtOnce => now.since(began),
        });
        let took = took.unwrap_or(Duration::ZERO);
        self.pause = pause_after(took);
        self.found = now;
        self.from = after(now, self.pause + self.by_chance(chance));
    }

    /// The reading was given up, because the server said nothing: it is wanted again.
    pub fn unanswered(&mut self, now: UnixMillis, chance: f64) {
        self.began = None;
        self.pause = AFTER_SILENCE;
        self.found = now;
        self.from = after(now, self.pause + self.by_chance(chance));
        self.wanted.get_or_insert(Haste::AtAPace);
    }

    fn by_chance(&self, chance: f64) -> Duration {
        self.pause.mul_f64(BY_CHANCE * chance.clamp(0.0, 1.0))
    }
}

/// The pause after a reading that took so long, without what is left to chance.
pub fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(TIMES).clamp(SHORTEST, LONGEST)
}

fn after(moment: UnixMillis, time: Duration) -> UnixMillis {
    let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    UnixMillis(moment.0.saturating_add(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_000_000;
    const PACED: Due = Due::Now(Haste::AtAPace);
    const AT_ONCE: Due = Due::Now(Haste::AtOnce);

    fn at(ms: i64) -> UnixMillis {
        UnixMillis(START + ms)
    }

    fn wait(ms: u64) -> Due {
        Due::In(Duration::from_millis(ms))
    }

    /// A reading from `0` that took so long.
    fn after_one(took: i64) -> Pace {
        let mut pace = Pace::default();
        pace.want(Haste::AtOnce, at(0), 0.0);
        assert_eq!(pace.due(at(0), Sight::Shown), AT_ONCE);
        pace.ended(at(took), 0.0);
        pace
    }

    #[test]
    fn the_pause_grows_with_the_time_that_a_reading_takes() {
        let check = |took: i64, pause: u64| {
            let mut pace = after_one(took);
            pace.want(Haste::AtAPace, at(took), 0.0);
            assert_eq!(pace.due(at(took), Sight::Shown), wait(pause), "{took}");
            pace.rang();
            let later = at(took + pause as i64);
            assert_eq!(pace.due(later, Sight::Shown), PACED, "{took}");
        };
        check(0, 500);
        check(20, 500);
        check(100, 1_000);
        check(2_000, 20_000);
        check(60_000, 30_000);
    }

    #[test]
    fn however_many_changes_come_there_is_one_reading_at_a_time_and_one_alarm() {
        let mut pace = after_one(100);
        let (mut readings, mut alarms) = (0, 0);
        for ms in 100..4_000 {
            pace.want(Haste::AtAPace, at(ms), 0.0);
            match pace.due(at(ms), Sight::Shown) {
                Due::Nothing => {}
                Due::Now(_) => readings += 1,
                Due::In(_) => alarms += 1,
            }
        }
        // The first one never ends.
        assert_eq!((readings, alarms), (1, 1));
        pace.ended(at(4_000), 0.0);
        assert_eq!(
            pace.due(at(4_000), Sight::Shown),
            Due::Nothing,
            "an alarm is set"
        );
        pace.rang();
        let Due::In(rest) = pace.due(at(4_000), Sight::Shown) else {
            panic!("what came meanwhile is read later")
        };
        assert!(rest >= Duration::from_secs(25), "{rest:?}");
    }

    #[test]
    fn a_reading_that_got_no_answer_is_done_again_without_anybody_asking() {
        let mut pace = Pace::default();
        pace.want(Haste::AtOnce, at(0), 0.0);
        assert_eq!(pace.due(at(0), Sight::Shown), AT_ONCE);
        pace.unanswered(at(60_000), 0.0);
        assert_eq!(pace.due(at(60_000), Sight::Shown), wait(5_000));
        pace.rang();
        assert_eq!(pace.due(at(65_000), Sight::Shown), PACED);
        // Who looks need not wait for that; where nobody does, nothing is read.
        pace.unanswered(at(125_000), 0.0);
        assert_eq!(pace.due(at(140_000), Sight::Away), Due::Nothing);
        pace.want(Haste::AtOnce, at(125_001), 0.0);
        assert_eq!(pace.due(at(125_001), Sight::Shown), AT_ONCE);
        pace.ended(at(125_100), 0.0);
        assert_eq!(pace.due(at(200_000), Sight::Shown), Due::Nothing);
    }

    #[test]
    fn what_a_reading_waits_for_others_makes_no_pause_longer() {
        let check = |mut pace: Pace, took: i64, pause: u64| {
            pace.want(Haste::AtAPace, at(0), 0.0);
            assert_eq!(pace.due(at(0), Sight::Shown), PACED);
            pace.ended(at(took), 0.0);
            pace.want(Haste::AtAPace, at(took), 0.0);
            assert_eq!(pace.due(at(took), Sight::Shown), wait(pause), "{took}");
        };
        check(Pace::in_rounds(), 2_020, 500);
        check(Pace::in_rounds(), 2_300, 3_000);
        check(Pace::default(), 2_300, 23_000);
    }

    #[test]
    fn what_nobody_sees_is_only_marked_as_old() {
        let mut pace = after_one(100);
        pace.want(Haste::AtAPace, at(50_000), 0.0);
        assert_eq!(pace.due(at(50_000), Sight::Away), Due::Nothing);
        assert_eq!(pace.due(at(90_000), Sight::Away), Due::Nothing);
        assert_eq!(pace.due(at(90_000), Sight::Shown), PACED);
        pace.ended(at(90_100), 0.0);
        assert_eq!(
            pace.due(at(99_000), Sight::Shown),
            Due::Nothing,
            "it is read"
        );
    }

    #[test]
    fn what_somebody_did_here_is_read_at_once_and_after_what_is_being_read() {
        let mut pace = after_one(3_000);
        pace.want(Haste::AtAPace, at(3_001), 1.0);
        assert!(matches!(pace.due(at(3_001), Sight::Shown), Due::In(_)));
        pace.want(Haste::AtOnce, at(3_002), 1.0);
        assert_eq!(pace.due(at(3_002), Sight::Held), Due::Nothing);
        assert_eq!(pace.due(at(3_003), Sight::Away), AT_ONCE);
        // It may have read what was there before.
        pace.want(Haste::AtOnce, at(3_004), 1.0);
        pace.want(Haste::AtAPace, at(3_005), 1.0);
        assert_eq!(pace.due(at(3_005), Sight::Shown), Due::Nothing);
        pace.ended(at(3_100), 1.0);
        assert_eq!(pace.due(at(3_100), Sight::Shown), AT_ONCE);
    }

    #[test]
    fn tabs_that_hear_of_a_change_together_read_at_different_times() {
        let first = |chance: f64| {
            let mut pace = after_one(1_000);
            pace.want(Haste::AtAPace, at(60_000), chance);
            pace.due(at(60_000), Sight::Shown)
        };
        assert_eq!(first(0.0), PACED);
        assert_eq!([first(0.2), first(1.0)], [wait(1_000), wait(5_000)]);
        let mut pace = Pace::default();
        pace.want(Haste::AtOnce, at(0), 0.0);
        pace.due(at(0), Sight::Shown);
        pace.want(Haste::AtAPace, at(10), 0.0);
        pace.ended(at(1_000), 1.0);
        assert_eq!(pace.due(at(1_000), Sight::Shown), wait(15_000));
    }

    #[test]
    fn a_clock_that_is_set_back_stops_nothing() {
        let mut pace = after_one(1_000);
        pace.want(Haste::AtAPace, at(1_000), 0.0);
        assert_eq!(pace.due(at(-900_000), Sight::Shown), PACED);
        pace.ended(at(0), 0.0);
        pace.want(Haste::AtAPace, at(-900_000), 0.0);
        assert_eq!(pace.due(at(-900_000), Sight::Shown), PACED);
    }
}
