//! Pages of the list of runs, packed once for all who look at them. Open pages ask for the same
//! ones after each change, and to make one takes a tenth of a second. If runs change faster than
//! that, no two would share an answer; so those who can wait ask in rounds.

use crate::identity;
use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// About how many bytes an answer needs besides its content.
const OVERHEAD: u64 = 256;

/// About how many answers fit; only the first size of the table depends on it.
const ABOUT: usize = 32;

/// How often an answer is made at most for those who can wait.
const ROUND: Duration = Duration::from_secs(2);

/// Packed answers, by what was asked and the revision of the runs.
pub struct RunLists {
    packed: Cache<String, Bytes, Weight>,
    /// The last round of each question, as long as it keeps others waiting.
    rounds: Mutex<HashMap<String, Round>>,
    /// Another text each time that the server starts: then revisions begin anew.
    opened: String,
}

/// All who ask in a round get the answer of one revision.
#[derive(Clone, Copy)]
struct Round {
    began: Instant,
    revision: u64,
}

/// Which part of a list somebody asks for who reads it in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first one.
    First,
    /// Another one, of the same round or a later one.
    Later,
}

#[derive(Clone)]
struct Weight;

impl Weighter<String, Bytes> for Weight {
    fn weight(&self, key: &String, packed: &Bytes) -> u64 {
        OVERHEAD + (key.len() + packed.len()) as u64
    }
}

impl RunLists {
    /// Room for answers of so many bytes.
    pub fn new(bytes: u64) -> RunLists {
        RunLists {
            packed: Cache::with_weighter(ABOUT, bytes, Weight),
            rounds: Mutex::default(),
            opened: identity::opening_id(),
        }
    }

    /// The entity tag of the answer to this question at this revision.
    pub fn tag(&self, revision: u64, asked: &str) -> String {
        let asked = blake3::hash(asked.as_bytes()).to_hex();
        format!("\"{}-{revision}-{asked}\"", self.opened)
    }

    /// The revision with which to answer this question to somebody who can wait: not older than the
    /// time at which they asked for its first part.
    pub async fn round(&self, asked: &str, part: Part, revision: impl Fn() -> u64) -> u64 {
        let since = match part {
            Part::First => Some(Instant::now()),
            Part::Later => None,
        };
        loop {
            match self.join(asked, since, &revision) {
                Ok(revision) => return revision,
                Err(next) => sleep_until(next).await,
            }
        }
    }

    /// The revision of a round that began since then, or when to ask again.
    fn join(
        &self,
        asked: &str,
        since: Option<Instant>,
        revision: &impl Fn() -> u64,
    ) -> Result<u64, Instant> {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        // In this order: the revision of a round is not older than its beginning.
        let (now, revision) = (Instant::now(), revision());
        let lasts = |round: &Round| now < round.began + ROUND;
        if let Some(round) = rounds.get(asked).filter(|round| lasts(round)) {
            let may_join = since.is_none_or(|since| round.began > since);
            return match may_join || round.revision == revision {
                true => Ok(round.revision),
                false => Err(round.began + ROUND),
            };
        }
        rounds.retain(|_, round| lasts(round));
        let began = now;
        rounds.insert(asked.to_owned(), Round { began, revision });
        Ok(revision)
    }

    /// The answer with this key: an earlier one, or the one that `pack` packs now, once for all who
    /// ask meanwhile.
    ///
    /// # Errors
    /// Those of `pack`.
    pub async fn get<E>(
        &self,
        key: &str,
        pack: impl Future<Output = Result<Bytes, E>>,
    ) -> Result<Bytes, E> {
        self.packed.get_or_insert_async(key, pack).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn an_answer_is_packed_once_however_many_ask() {
        let (lists, times) = (RunLists::new(1 << 20), AtomicUsize::new(0));
        let ask = |key: &'static str| {
            lists.get(key, async {
                times.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(Bytes::from_static(key.as_bytes()))
            })
        };
        let answers = futures_util::future::join_all((0..20).map(|_| ask("a"))).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap() == "a"));
        assert_eq!(times.load(Ordering::Relaxed), 1);
        assert_eq!(ask("b").await.unwrap(), "b");
    }

    #[tokio::test(start_paused = true)]
    async fn however_fast_runs_change_those_who_can_wait_share_their_answers() {
        let lists = RunLists::new(1 << 20);
        let (start, changes) = (Instant::now(), AtomicUsize::new(7));
        // Each look finds another revision.
        let look = || changes.fetch_add(1, Ordering::SeqCst) as u64;
        let ask = |asked: &'static str| lists.round(asked, Part::First, look);
        let first = ask("a").await;
        assert_eq!(lists.round("a", Part::Later, look).await, first);
        assert_eq!((first, start.elapsed()), (7, Duration::ZERO));
        let before = changes.load(Ordering::SeqCst) as u64;
        let others = futures_util::future::join_all((0..20).map(|_| ask("a"))).await;
        assert_eq!(start.elapsed().as_secs(), 2);
        assert!(others.iter().all(|other| *other == others[0]), "{others:?}");
        assert!(others[0] >= before, "{others:?}");
        ask("b").await;
        assert_eq!(start.elapsed().as_secs(), 2, "it is another question");
        tokio::time::advance(ROUND).await;
        ask("a").await;
        assert_eq!(start.elapsed().as_secs(), 4, "nobody asked for a while");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_while_nothing_changes() {
        let (lists, start) = (RunLists::new(1 << 20), Instant::now());
        for _ in 0..5 {
            assert_eq!(lists.round("a", Part::First, || 3).await, 3);
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[test]
    fn a_tag_is_of_one_question_one_revision_and_one_start() {
        let (one, other) = (RunLists::new(1), RunLists::new(1));
        let tags = [
            one.tag(1, "a"),
            one.tag(2, "a"),
            one.tag(1, "b"),
            other.tag(1, "a"),
        ];
        let different: std::collections::BTreeSet<_> = tags.iter().collect();
        assert_eq!(different.len(), tags.len(), "{tags:?}");
    }
}
