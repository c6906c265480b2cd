//! What a project takes on disk, and the most that it may take.

use super::error::{IngestError, Wanted};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace::units::Bytes;

/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// The share of one project. Cloning shares it.
///
/// It counts stored files, as they are packed, and the database. What is derived from a file is
/// counted after it is stored, so the uploads that are under way may go beyond the quota by that.
#[derive(Clone, Debug)]
pub struct DiskShare {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    used: AtomicU64,
    /// Of `used`.
    in_database: AtomicU64,
    /// Of files that were checked and are not counted as stored yet.
    reserved: AtomicU64,
    quota: AtomicU64,
}

/// Room for a file, from the check until it is counted as stored. Without it, files that come at
/// the same time would all find the same room.
#[derive(Debug)]
pub struct Room {
    inner: Arc<Inner>,
    bytes: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.inner.reserved.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl Default for DiskShare {
    fn default() -> DiskShare {
        let inner = Inner {
            used: AtomicU64::new(0),
            in_database: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            quota: AtomicU64::new(UNLIMITED),
        };
        DiskShare {
            inner: Arc::new(inner),
        }
    }
}

impl DiskShare {
    /// Sets the most that it may take, from the next upload on.
    pub fn limit(&self, quota: Option<Bytes>) {
        let quota = quota.map_or(UNLIMITED, Bytes::get);
        self.inner.quota.store(quota, Ordering::Relaxed);
    }

    /// Notes what it takes, and how much of that is the database.
    pub fn measured(&self, used: Bytes, in_database: Bytes) {
        let inner = &*self.inner;
        inner.used.store(used.get(), Ordering::Relaxed);
        inner
            .in_database
            .store(in_database.get(), Ordering::Relaxed);
    }

    /// What it takes.
    pub fn used(&self) -> Bytes {
        Bytes(self.inner.used.load(Ordering::Relaxed))
    }

    /// Takes room for so many more bytes of a packed file.
    ///
    /// # Errors
    /// [`IngestError::OverQuota`].
    pub fn reserve(&self, bytes: u64) -> Result<Room, IngestError> {
        let (acquired, reserved) = (Ordering::AcqRel, &self.inner.reserved);
        let more = |reserved: u64| {
            let after = reserved.saturating_add(bytes);
            self.has_room_for(after).then_some(after)
        };
        match reserved.fetch_update(acquired, Ordering::Acquire, more) {
            Ok(_) => Ok(Room {
                inner: Arc::clone(&self.inner),
                bytes,
            }),
            Err(_) => Err(self.over(Wanted::Packed(Bytes(bytes)))),
        }
    }

    /// Whether there is room for anything; for a file of this size, as it will be sent.
    ///
    /// # Errors
    /// [`IngestError::OverQuota`].
    pub fn check_any(&self, sent: u64) -> Result<(), IngestError> {
        self.check(Wanted::Sent(Bytes(sent)))
    }

    /// Whether there is room for a report of a training, which goes into the database.
    ///
    /// # Errors
    /// [`IngestError::OverQuota`].
    pub fn check_report(&self) -> Result<(), IngestError> {
        self.check(Wanted::Report)
    }

    fn check(&self, wanted: Wanted) -> Result<(), IngestError> {
        let reserved = self.inner.reserved.load(Ordering::Acquire);
        match self.has_room_for(reserved.saturating_add(1)) {
            true => Ok(()),
            false => Err(self.over(wanted)),
        }
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.inner.quota.load(Ordering::Relaxed) != UNLIMITED
    }

    /// Whether there is room for so many bytes besides those that are stored.
    fn has_room_for(&self, bytes: u64) -> bool {
        self.used().get().saturating_add(bytes) <= self.inner.quota.load(Ordering::Relaxed)
    }

    fn over(&self, wanted: Wanted) -> IngestError {
        IngestError::OverQuota {
            used: self.used(),
            in_database: Bytes(self.inner.in_database.load(Ordering::Relaxed)),
            quota: Bytes(self.inner.quota.load(Ordering::Relaxed)),
            reserved: Bytes(self.inner.reserved.load(Ordering::Acquire)),
            wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that arrive at the same time do not all find the same room.
    #[test]
    fn room_is_given_once_until_it_is_counted() {
        let share = DiskShare::default();
        share.limit(Some(Bytes::mib(10)));
        let first = share.reserve(6 << 20).unwrap();
        assert!(share.reserve(6 << 20).is_err());
        let refused = share.reserve(6 << 20).unwrap_err().to_string();
        assert!(
            refused.contains("uploads that are under way take 6.00 MiB")
                && refused.ends_with("send it again when they have ended"),
            "{refused}"
        );
        let second = share.reserve(4 << 20).unwrap();
        assert!(share.check_any(1).is_err());
        share.measured(Bytes::mib(6), Bytes::mib(1));
        drop(first);
        assert!(share.reserve(1).is_err());
        drop(second);
        assert!(share.reserve(4 << 20).is_ok());
    }

    #[test]
    fn a_full_share_takes_nothing_more() {
        let share = DiskShare::default();
        share.measured(Bytes::mib(10), Bytes::mib(7));
        assert!(share.reserve(u64::MAX).is_ok(), "there is no limit");
        share.limit(Some(Bytes::mib(12)));
        assert!(share.reserve(2 << 20).is_ok());
        let refused = share.reserve((2 << 20) + 1).unwrap_err().to_string();
        assert!(
            refused.contains("10.0 MiB") && refused.contains("12.0 MiB"),
            "{refused}"
        );
        assert!(refused.contains("takes 2.00 MiB more"), "{refused}");
        assert!(refused.contains("delete runs"), "{refused}");
        // With few runs, what takes the room may be the reports of trainings.
        assert!(
            refused.contains("7.00 MiB of it in its database, with the reports of trainings")
                && refused.contains("or trainings on the page Live, which makes room at once"),
            "{refused}"
        );
        assert!(!refused.contains("under way"), "{refused}");
        share.limit(Some(Bytes::mib(10)));
        let full = share.check_any(5 << 20).unwrap_err().to_string();
        assert!(full.contains("no room for this file of 5.00 MiB"), "{full}");
        share.limit(None);
        assert!(share.reserve(1 << 40).is_ok());
    }
}
