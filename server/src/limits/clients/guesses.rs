//! Slows down wrong guesses at a secret: a few at once, then one now and then, per address and in
//! all.
//!
//! A client that has used up its guesses is refused before its secret is checked, so the answer
//! reveals nothing. If guesses come from everywhere, only addresses that showed the right secret
//! before may still try. A client with a session needs no guess, and neither does a token that was
//! right from the same address lately: whoever shares the address could lock it out otherwise.

use super::ClientAddress;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many guesses are free, and how long each further one takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Guesses at once.
    pub burst: u32,
    /// Then one in this time.
    pub every: Duration,
}

/// Guesses of one address.
pub const EACH: Rate = Rate {
    burst: 10,
    every: Duration::from_secs(6),
};

/// Guesses of all addresses together.
pub const ALL: Rate = Rate {
    burst: 100,
    every: Duration::from_millis(600),
};

/// No client is locked out for longer than this, however many guesses were made at once.
const LONGEST: Duration = Duration::from_secs(600);

/// How many addresses are remembered, with wrong and with right secrets.
const REMEMBERED: usize = 10_000;

/// For how long a token that was right passes, whatever its address owes.
const LATELY: Duration = Duration::from_secs(24 * 3600);

/// The log mentions guesses at most this often.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// There were too many guesses: for a while none is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many wrong tokens or links came from {whence}; try again in {} s", seconds(*.wait))]
pub struct Later {
    /// From where.
    pub whence: &'static str,
    /// How long.
    pub wait: Duration,
}

fn seconds(wait: Duration) -> u64 {
    wait.as_millis().div_ceil(1000).max(1) as u64
}

/// Wrong guesses since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Checked and wrong.
    pub wrong: u64,
    /// Not checked.
    pub refused: u64,
}

/// How many guesses each client has made.
pub struct Guesses {
    each: Rate,
    all: Rate,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    of: HashMap<ClientAddress, Debt>,
    all: Debt,
    known: HashSet<ClientAddress>,
    /// Right tokens, and when each was shown last.
    lately: HashMap<(ClientAddress, blake3::Hash), Instant>,
    tally: Tally,
    told: Option<(Instant, Tally)>,
}

/// Every guess adds its time as a debt. A client with more debt than a burst must wait.
#[derive(Clone, Copy, Debug, Default)]
struct Debt(Option<Instant>);

impl Debt {
    fn owed(self, now: Instant) -> Duration {
        self.0
            .map_or(Duration::ZERO, |paid| paid.saturating_duration_since(now))
    }

    fn wait(self, rate: Rate, now: Instant) -> Option<Duration> {
        let credit = rate.every * rate.burst.saturating_sub(1);
        let wait = self.owed(now).checked_sub(credit)?;
        (!wait.is_zero()).then_some(wait)
    }

    fn add(&mut self, rate: Rate, now: Instant) {
        let most = rate.every * rate.burst + LONGEST;
        self.0 = Some(now + (self.owed(now) + rate.every).min(most));
    }
}

impl Default for Guesses {
    fn default() -> Guesses {
        Guesses::new(EACH, ALL)
    }
}

impl Guesses {
    /// With limits for one address and for all.
    pub fn new(each: Rate, all: Rate) -> Guesses {
        Guesses {
            each,
            all,
            state: Mutex::default(),
        }
    }

    /// Whether this client may show a secret now.
    ///
    /// # Errors
    /// When it, or all clients together, showed too many wrong ones.
    pub fn may_try(&self, who: ClientAddress, now: Instant) -> Result<(), Later> {
        let mut state = self.state();
        let of_client = state.of.get(&who).copied().unwrap_or_default();
        let mine = of_client.wait(self.each, now).map(|wait| Later {
            whence: "this address",
            wait,
        });
        let everybodys = state.all.wait(self.all, now).map(|wait| Later {
            whence: "everywhere",
            wait,
        });
        let everybodys = everybodys.filter(|_| !state.known.contains(&who));
        match mine.or(everybodys) {
            Some(later) => {
                state.tally.refused += 1;
                state.tell(who, now);
                Err(later)
            }
            None => Ok(()),
        }
    }

    /// Notes a wrong secret.
    pub fn wrong(&self, who: ClientAddress, now: Instant) {
        let mut state = self.state();
        state.tally.wrong += 1;
        state.all.add(self.all, now);
        if state.of.len() >= REMEMBERED {
            state.of.retain(|_, debt| !debt.owed(now).is_zero());
        }
        // With more guessing clients than that, the limit on all of them still holds.
        if state.of.len() < REMEMBERED || state.of.contains_key(&who) {
            state.of.entry(who).or_default().add(self.each, now);
        }
        state.tell(who, now);
    }

    /// Notes a right secret.
    pub fn right(&self, who: ClientAddress) {
        let mut state = self.state();
        if state.known.len() < REMEMBERED {
            state.known.insert(who);
        }
    }

    /// Notes a right token.
    pub fn right_token(&self, who: ClientAddress, token: blake3::Hash, now: Instant) {
        self.right(who);
        let mut state = self.state();
        if state.lately.len() >= REMEMBERED {
            let is_late = |at: &Instant| now.saturating_duration_since(*at) < LATELY;
            state.lately.retain(|_, at| is_late(at));
        }
        if state.lately.len() < REMEMBERED || state.lately.contains_key(&(who, token)) {
            state.lately.insert((who, token), now);
        }
    }

    /// Notes a wrong token, which may have been right until now.
    pub fn wrong_token(&self, who: ClientAddress, token: blake3::Hash, now: Instant) {
        self.state().lately.remove(&(who, token));
        self.wrong(who, now);
    }

    /// Whether this token was right lately, when this address showed it.
    pub fn was_right(&self, who: ClientAddress, token: blake3::Hash, now: Instant) -> bool {
        let at = self.state().lately.get(&(who, token)).copied();
        at.is_some_and(|at| now.saturating_duration_since(at) < LATELY)
    }

    /// How many there were since the start.
    pub fn tally(&self) -> Tally {
        self.state().tally
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes one line to the log for all guesses of a while; it never contains a guess.
    fn tell(&mut self, last: ClientAddress, now: Instant) {
        let since = match self.told {
            Some((at, _)) if now.saturating_duration_since(at) < TELL_EVERY => return,
            Some((_, tally)) => tally,
            None => Tally::default(),
        };
        let (wrong, refused) = (
            self.tally.wrong - since.wrong,
            self.tally.refused - since.refused,
        );
        let Tally {
            wrong: wrong_in_all,
            refused: refused_in_all,
        } = self.tally;
        tracing::warn!(
            %last, wrong, refused, wrong_in_all, refused_in_all,
            "wrong tokens, links or sessions"
        );
        self.told = Some((now, self.tally));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn client(last: u32) -> ClientAddress {
        IpAddr::V4(Ipv4Addr::from((10 << 24) + last)).into()
    }

    /// How many guesses are checked in a time, with one every `step`.
    fn looked_at(guesses: &Guesses, who: impl Fn(u64) -> ClientAddress, seconds: u64) -> usize {
        let (start, step) = (Instant::now(), 10);
        let tries = (0..seconds * 1000 / step).filter(|n| {
            let now = start + Duration::from_millis(n * step);
            let may = guesses.may_try(who(*n), now).is_ok();
            if may {
                guesses.wrong(who(*n), now);
            }
            may
        });
        tries.count()
    }

    #[test]
    fn one_address_has_a_few_guesses_and_then_ten_a_minute() {
        let guesses = Guesses::default();
        assert_eq!(looked_at(&guesses, |_| client(1), 60), 10 + 9);
        assert_eq!(guesses.tally().wrong, 19);
        assert_eq!(guesses.tally().refused, 6000 - 19);
    }

    #[test]
    fn many_addresses_have_a_hundred_and_then_a_hundred_a_minute() {
        let guesses = Guesses::default();
        let spread = |n: u64| client(n as u32 % 500);
        assert_eq!(looked_at(&guesses, spread, 60), 100 + 99);
    }

    #[test]
    fn whoever_was_right_before_is_not_kept_out_by_others() {
        let guesses = Guesses::default();
        let (honest, stranger, now) = (client(7), client(8), Instant::now());
        guesses.right(honest);
        for n in 0..200 {
            guesses.wrong(client(1000 + n), now);
        }
        assert_eq!(guesses.may_try(honest, now), Ok(()));
        let later = guesses.may_try(stranger, now).unwrap_err();
        assert_eq!(later.whence, "everywhere");
        assert!(later.wait <= LONGEST + ALL.every, "{:?}", later.wait);
        // Its own mistakes still count.
        for _ in 0..EACH.burst {
            guesses.wrong(honest, now);
        }
        let later = guesses.may_try(honest, now).unwrap_err();
        assert_eq!(later.wait, EACH.every);
        assert_eq!(guesses.may_try(honest, now + EACH.every), Ok(()));
    }

    #[test]
    fn a_token_that_was_right_here_lately_needs_no_guess() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        let [token, other] = ["right", "other"].map(|text| blake3::hash(text.as_bytes()));
        guesses.right_token(client(1), token, now);
        assert!(!guesses.was_right(client(2), token, now));
        assert!(!guesses.was_right(client(1), other, now));
        assert!(guesses.was_right(client(1), token, now + LATELY / 2));
        assert!(!guesses.was_right(client(1), token, now + LATELY));
        guesses.wrong_token(client(1), token, now);
        assert!(!guesses.was_right(client(1), token, now), "it has ended");
        for n in 0..REMEMBERED as u32 + 100 {
            guesses.right_token(client(n), token, now);
        }
        assert_eq!(guesses.state().lately.len(), REMEMBERED);
    }

    #[test]
    fn guesses_sent_at_once_are_paid_for_afterwards() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        // All of them were let through before the first was found wrong.
        for _ in 0..1000 {
            guesses.wrong(client(1), now);
        }
        let later = guesses.may_try(client(1), now).unwrap_err();
        assert!(later.wait >= LONGEST, "{:?}", later.wait);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for n in 0..REMEMBERED as u32 + 100 {
            guesses.wrong(client(n), now);
        }
        assert_eq!(guesses.state().of.len(), REMEMBERED);
        guesses.wrong(client(u32::MAX >> 8), now + LONGEST);
        assert_eq!(guesses.state().of.len(), 1);
    }
}
