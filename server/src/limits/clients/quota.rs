//! How many of something may exist at a time: for one client, and for all of them.

use super::ClientAddress;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Who has taken too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowd {
    /// The client that is refused.
    Client,
    /// All clients together.
    Everybody,
}

/// Why something cannot start now, and when to ask again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; try again in {} s", .retry.as_secs().max(1))]
pub struct Refusal {
    /// Who has taken too much.
    pub crowd: Crowd,
    /// What is full, as half a sentence.
    pub why: String,
    /// When there may be room again.
    pub retry: Duration,
}

/// Places for one kind of thing. Cloning shares them.
#[derive(Clone)]
pub struct Quota {
    /// What is counted, in the plural: "exports".
    what: &'static str,
    /// Limit for one address. Clients on this machine share the places of all.
    each: usize,
    all: usize,
    retry: Duration,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    all: usize,
    of: HashMap<ClientAddress, usize>,
}

/// A place, held until it is dropped.
pub struct Slot {
    held: Arc<Mutex<Held>>,
    who: ClientAddress,
}

impl Quota {
    /// `all` places, of which one address may hold `each`. A client that finds none free is asked
    /// to come again after `retry`.
    pub fn new(what: &'static str, each: usize, all: usize, retry: Duration) -> Quota {
        Quota {
            what,
            each: each.min(all),
            all,
            retry,
            held: Arc::default(),
        }
    }

    /// A place for this client.
    ///
    /// # Errors
    /// When it holds as many as it may, or all are taken.
    pub fn take(&self, who: ClientAddress) -> Result<Slot, Refusal> {
        let each = match who.is_local() {
            true => self.all,
            false => self.each,
        };
        let mut held = lock(&self.held);
        let of_client = held.of.get(&who).copied().unwrap_or(0);
        if of_client >= each && each < self.all {
            let why = format!("one address may have {each} {} at a time", self.what);
            return Err(self.refuse(Crowd::Client, why));
        }
        if held.all >= self.all {
            let why = format!("all {} places for {} are taken", self.all, self.what);
            return Err(self.refuse(Crowd::Everybody, why));
        }
        held.all += 1;
        *held.of.entry(who).or_insert(0) += 1;
        Ok(Slot {
            held: Arc::clone(&self.held),
            who,
        })
    }

    /// How many places exist.
    pub fn all(&self) -> usize {
        self.all
    }

    /// How many places are taken.
    pub fn held(&self) -> usize {
        lock(&self.held).all
    }

    fn refuse(&self, crowd: Crowd, why: String) -> Refusal {
        Refusal {
            crowd,
            why,
            retry: self.retry,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        held.all -= 1;
        let Some(left) = held.of.get_mut(&self.who) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            held.of.remove(&self.who);
        }
    }
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn client(text: &str) -> ClientAddress {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn one_address_fills_its_share_and_not_the_whole() {
        let quota = Quota::new("exports", 2, 3, Duration::from_secs(7));
        let (rude, honest) = (client("10.0.0.1"), client("10.0.0.2"));
        let first = quota.take(rude).ok();
        let _second = quota.take(rude).unwrap();
        let refusal = quota.take(rude).map(drop).unwrap_err();
        assert_eq!(refusal.crowd, Crowd::Client);
        assert_eq!(
            refusal.to_string(),
            "one address may have 2 exports at a time; try again in 7 s"
        );
        let _third = quota.take(honest).unwrap();
        let refusal = quota.take(honest).map(drop).unwrap_err();
        assert_eq!(refusal.crowd, Crowd::Everybody);
        drop(first);
        assert!(quota.take(honest).is_ok());
    }

    #[test]
    fn this_machine_has_no_share_of_its_own() {
        let quota = Quota::new("exports", 1, 2, Duration::from_secs(1));
        let local = client("::1");
        let places = [quota.take(local), quota.take(local)];
        assert!(places.iter().all(Result::is_ok));
        let refusal = quota.take(local).map(drop).unwrap_err();
        assert_eq!(refusal.crowd, Crowd::Everybody);
    }
}
