//! Turns at questions about recordings. A question takes memory for as long as it is answered, so
//! it waits for its turn before it takes any: otherwise those that wait would hold all memory.
//!
//! Readers with a link have places of their own and half of the turns, so that strangers cannot
//! make the team wait for more than the question that is being answered.

use crate::limits::clients::numbers::{ClientLimits, Share};
use crate::limits::clients::{ClientAddress, Quota, Refusal, Slot};
use crate::limits::turns::{self, Queue, Turns};
use crate::limits::work;
use std::time::Duration;

/// When to ask again if there is no place.
const RETRY: Duration = Duration::from_secs(2);

/// Who asks a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Somebody who came in.
    Team,
    /// Somebody who has only a link.
    Link,
}

/// The turns of a server. Cloning shares them.
#[derive(Clone)]
pub struct Asking {
    team: Quota,
    links: Quota,
    turns: Turns,
    turns_of_links: Turns,
}

/// A turn, and a place for one who waits; both are held until this is dropped.
pub struct Turn {
    _place: Slot,
    _of_links: Option<turns::Turn>,
    _turn: turns::Turn,
}

impl Asking {
    /// Turns with these limits for who waits.
    pub fn new(limits: &ClientLimits) -> Asking {
        let quota = |share: Share| share.quota("questions", RETRY);
        Asking {
            team: quota(limits.questions),
            links: quota(limits.questions_of_links),
            turns: Turns::new(work::cores()),
            turns_of_links: Turns::new(work::cores().div_ceil(2)),
        }
    }

    /// A turn, after those who asked before. Who holds one must not ask for another.
    ///
    /// # Errors
    /// When too many wait.
    pub async fn turn(&self, asker: Asker, who: ClientAddress) -> Result<Turn, Refusal> {
        let (place, of_links) = match asker {
            Asker::Team => (self.team.take(who)?, None),
            Asker::Link => {
                let place = self.links.take(who)?;
                (place, Some(self.turns_of_links.take().await))
            }
        };
        Ok(Turn {
            _place: place,
            _of_links: of_links,
            _turn: self.turns.take().await,
        })
    }

    /// How many are answered, and how many wait.
    pub fn queue(&self) -> Queue {
        let (all, links) = (self.turns.queue(), self.turns_of_links.queue());
        Queue {
            waiting: all.waiting + links.waiting,
            ..all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::clients::quota::Crowd;
    use futures_util::FutureExt;
    use std::net::IpAddr;

    #[tokio::test]
    async fn strangers_do_not_take_the_turns_of_the_team() {
        let limits = ClientLimits {
            questions_of_links: Share { each: 3, all: 9 },
            ..ClientLimits::default()
        };
        let mut asking = Asking::new(&limits);
        asking.turns = Turns::new(2);
        asking.turns_of_links = Turns::new(1);
        let client = |ip: &str| ClientAddress::from(ip.parse::<IpAddr>().unwrap());
        let (rude, other) = (client("10.0.0.1"), client("10.0.0.2"));
        let first = asking.turn(Asker::Link, rude).await.unwrap();
        let mut waiting: Vec<_> = (0..2)
            .map(|_| Box::pin(asking.turn(Asker::Link, rude)))
            .collect();
        for turn in &mut waiting {
            assert!(turn.now_or_never().is_none());
        }
        let refused = asking.turn(Asker::Link, rude).await.map(drop).unwrap_err();
        assert_eq!(refused.crowd, Crowd::Client);
        let team = asking.turn(Asker::Team, rude).now_or_never();
        assert!(team.is_some_and(|turn| turn.is_ok()), "the team goes on");
        assert_eq!((asking.queue().taken, asking.queue().waiting), (1, 2));
        drop(first);
        assert!((&mut waiting[0]).now_or_never().is_some());
        assert!(asking.turn(Asker::Link, other).now_or_never().is_none());
    }
}
