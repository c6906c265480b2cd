//! Keeps drawn cards, and limits drawing: a card is drawn once however many ask for it, and cards
//! never take all cores. Runs in words are kept in the same way.

use crate::limits::asking::Asker;
use crate::limits::clients::numbers::Share;
use crate::limits::clients::{ClientAddress, Quota, Refusal};
use crate::limits::work;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// About how many bytes a card needs besides its content.
const OVERHEAD: u64 = 256;

/// About how many cards fit; only the first size of the table depends on it.
const ABOUT: usize = 1024;

/// When to ask again if the shelf is busy.
const RETRY: Duration = Duration::from_secs(2);

/// Drawn cards by their content, and places for drawing more.
pub struct CardShelf {
    drawn: Cache<String, Arc<Vec<u8>>, Bytes>,
    waiting: Quota,
    drawing: Arc<Semaphore>,
}

/// A shelf for the team and one for readers with a link: what strangers ask for keeps nobody of the
/// team waiting.
pub struct Shelves {
    team: CardShelf,
    links: CardShelf,
}

impl Shelves {
    /// Two shelves of half as many bytes; on each, `waiting` limits how many may wait for `what`.
    pub fn new(what: &'static str, waiting: Share, bytes: u64) -> Shelves {
        let [team, links] = [(); 2].map(|()| CardShelf::new(what, waiting, bytes / 2));
        Shelves { team, links }
    }

    /// The shelf for one who asks.
    pub fn of(&self, asker: Asker) -> &CardShelf {
        match asker {
            Asker::Team => &self.team,
            Asker::Link => &self.links,
        }
    }
}

#[derive(Clone)]
struct Bytes;

impl Weighter<String, Arc<Vec<u8>>> for Bytes {
    fn weight(&self, key: &String, card: &Arc<Vec<u8>>) -> u64 {
        OVERHEAD + (key.len() + card.len()) as u64
    }
}

impl CardShelf {
    /// A shelf of `bytes` bytes; `waiting` limits how many may wait for `what`.
    pub fn new(what: &'static str, waiting: Share, bytes: u64) -> CardShelf {
        CardShelf {
            drawn: Cache::with_weighter(ABOUT, bytes, Bytes),
            waiting: waiting.quota(what, RETRY),
            drawing: Arc::new(Semaphore::new(work::cores().div_ceil(2))),
        }
    }

    /// The card with this key: an earlier one, or the one that `draw` draws now.
    ///
    /// # Errors
    /// When too many are waiting, and those of `draw`.
    pub async fn get<E: From<Refusal>>(
        &self,
        key: &str,
        who: ClientAddress,
        draw: impl Future<Output = Result<Vec<u8>, E>>,
    ) -> Result<Arc<Vec<u8>>, E> {
        if let Some(card) = self.drawn.get(key) {
            return Ok(card);
        }
        let _place = self.waiting.take(who)?;
        let drawn = self
            .drawn
            .get_or_insert_async(key, async { self.in_turn(draw).await.map(Arc::new) });
        drawn.await
    }

    /// Draws something that is not kept, such as Markdown around a card.
    ///
    /// # Errors
    /// When too many are waiting, and those of `draw`.
    pub async fn draw<T, E: From<Refusal>>(
        &self,
        who: ClientAddress,
        draw: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let _place = self.waiting.take(who)?;
        self.in_turn(draw).await
    }

    async fn in_turn<T>(&self, draw: impl Future<Output = T>) -> T {
        // The semaphore is never closed.
        let _turn = self.drawing.acquire().await;
        draw.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::clients::quota::Crowd;
    use futures_util::FutureExt;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_card_is_drawn_once_however_many_ask() {
        let shelf = CardShelf::new("cards", Share { each: 99, all: 99 }, 1 << 20);
        let times = AtomicUsize::new(0);
        let ask = || {
            shelf.get("one", ClientAddress::HERE, async {
                times.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok::<_, Refusal>(vec![7])
            })
        };
        let answers = futures_util::future::join_all((0..60).map(|_| ask())).await;
        assert!(answers.into_iter().all(|card| *card.unwrap() == [7]));
        assert_eq!(times.load(Ordering::Relaxed), 1);
        let other = shelf.get("two", ClientAddress::HERE, async {
            Ok::<_, Refusal>(vec![8])
        });
        assert_eq!(*other.await.unwrap(), [8]);
    }

    #[tokio::test]
    async fn what_readers_of_a_link_ask_for_keeps_the_team_waiting_for_nothing() {
        let shelves = Shelves::new("explanations", Share { each: 9, all: 9 }, 1 << 20);
        let links = shelves.of(Asker::Link);
        let slow = || std::future::pending::<Result<Vec<u8>, Refusal>>();
        let keys: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        let mut strangers: Vec<_> = keys
            .iter()
            .map(|key| Box::pin(links.get(key, ClientAddress::HERE, slow())))
            .collect();
        for stranger in &mut strangers {
            assert!(stranger.now_or_never().is_none());
        }
        let team = shelves.of(Asker::Team);
        let quick = async { Ok::<_, Refusal>(vec![7]) };
        let answer = team.get("0", ClientAddress::HERE, quick).now_or_never();
        assert!(answer.is_some_and(|answer| answer.is_ok_and(|card| *card == [7])));
    }

    #[tokio::test]
    async fn only_some_cores_draw_and_only_some_wait() {
        let shelf = CardShelf::new("cards", Share { each: 9, all: 9 }, 1 << 20);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let ask = |n: usize| {
            let (shelf, now, most) = (&shelf, &now, &most);
            async move {
                let key = n.to_string();
                let draw = async {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok::<_, Refusal>(Vec::new())
                };
                shelf.get(&key, ClientAddress::HERE, draw).await
            }
        };
        let answers = futures_util::future::join_all((0..20).map(ask)).await;
        assert_eq!(most.load(Ordering::SeqCst), work::cores().div_ceil(2));
        let refused: Vec<Refusal> = answers.into_iter().filter_map(Result::err).collect();
        assert_eq!(refused.len(), 11);
        assert!(
            refused
                .iter()
                .all(|refusal| refusal.crowd == Crowd::Everybody)
        );
    }
}
