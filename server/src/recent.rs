//! A cache of values that are made once, however many ask for them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Values that are made once, however many ask; the most recently used are kept.
pub struct Recent<K, V> {
    limit: usize,
    kept: Mutex<(u64, HashMap<K, Slot<V>>)>,
}

/// A value, or a place for it while it is being made, and when it was last used.
type Slot<V> = (u64, Arc<OnceCell<Arc<V>>>);

impl<K: Hash + Eq + Copy, V> Recent<K, V> {
    /// Keeps at most `limit` values.
    pub fn new(limit: usize) -> Recent<K, V> {
        Recent {
            limit,
            kept: Mutex::default(),
        }
    }

    /// Forgets all values. Those that are being made are made to their end.
    pub fn forget(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1.retain(|_, (_, cell)| cell.get().is_none());
    }

    /// The place of a value. If it is empty, the caller makes the value.
    pub fn cell(&self, key: K) -> Arc<OnceCell<Arc<V>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (clock, slots) = &mut *kept;
        *clock += 1;
        let slot = slots.entry(key).or_default();
        slot.0 = *clock;
        let cell = Arc::clone(&slot.1);
        if slots.len() > self.limit {
            let oldest = slots.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                slots.remove(&key);
            }
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_least_recently_used_is_made_again() {
        let recent: Recent<u32, u32> = Recent::new(2);
        let mut made = Vec::new();
        for key in [1, 2, 1, 3, 1, 2] {
            recent
                .cell(key)
                .get_or_init(async || {
                    made.push(key);
                    Arc::new(key)
                })
                .await;
        }
        assert_eq!(made, [1, 2, 3, 2]);
        recent.forget();
        let cell = recent.cell(2);
        assert!(cell.get().is_none());
    }
}
