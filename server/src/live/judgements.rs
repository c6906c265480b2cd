//! What was found in trainings, kept until they report again: pages ask every few seconds.

use super::Warning;
use api::ids::LiveId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many are kept. Beyond that all are forgotten, and found anew when they are asked for.
const MOST: usize = 20_000;

type Found = HashMap<LiveId, (i64, Vec<Warning>)>;

/// What was found in each process, and at which report. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Judgements {
    found: Arc<Mutex<Found>>,
}

impl Judgements {
    /// What is to be said of a process that was heard of then; `judge` finds it if nobody has
    /// asked since.
    ///
    /// # Errors
    /// Those of `judge`.
    pub fn of<E>(
        &self,
        id: &LiveId,
        seen_ms: i64,
        judge: impl FnOnce() -> Result<Vec<Warning>, E>,
    ) -> Result<Vec<Warning>, E> {
        let known = self.lock().get(id).cloned();
        match known {
            Some((at_ms, found)) if at_ms == seen_ms => Ok(found),
            _ => {
                let found = judge()?;
                self.keep(id, seen_ms, found.clone());
                Ok(found)
            }
        }
    }

    /// Keeps what was found in a process with the report of then.
    pub fn keep(&self, id: &LiveId, seen_ms: i64, found: Vec<Warning>) {
        let mut all = self.lock();
        if all.len() >= MOST && !all.contains_key(id) {
            all.clear();
        }
        all.insert(id.clone(), (seen_ms, found));
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        // Each entry is whole, whoever panicked while it held the lock.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::convert::Infallible;

    #[test]
    fn nobody_is_judged_twice_for_one_report() {
        let (judgements, asked) = (Judgements::default(), Cell::new(0));
        let id: LiveId = "live_a".parse().unwrap();
        let ask = |seen_ms: i64| {
            let judge = || {
                asked.set(asked.get() + 1);
                Ok::<_, Infallible>(Vec::new())
            };
            let Ok(found) = judgements.of(&id, seen_ms, judge);
            assert_eq!(found, []);
            asked.get()
        };
        assert_eq!([ask(5), ask(5), ask(6), ask(6)], [1, 1, 2, 2]);
        judgements.keep(&id, 7, Vec::new());
        assert_eq!(ask(7), 2);
    }
}
