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
/// counted after it is stored, so one upload may go beyond the quota by that.
#[derive(Clone, Debug)]
pub struct DiskShare {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    used: AtomicU64,
    quota: AtomicU64,
}

impl Default for DiskShare {
    fn default() -> DiskShare {
        let inner = Inner {
            used: AtomicU64::new(0),
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

    /// Notes what it takes.
    pub fn measured(&self, used: Bytes) {
        self.inner.used.store(used.get(), Ordering::Relaxed);
    }

    /// What it takes.
    pub fn used(&self) -> Bytes {
        Bytes(self.inner.used.load(Ordering::Relaxed))
    }

    /// Whether there is room for so many more bytes of a packed file.
    ///
    /// # Errors
    /// [`IngestError::OverQuota`].
    pub fn check(&self, more: u64) -> Result<(), IngestError> {
        self.room_for(more, Wanted::Packed(Bytes(more)))
    }

    /// Whether there is room for anything; for a file of this size, as it will be sent.
    ///
    /// # Errors
    /// [`IngestError::OverQuota`].
    pub fn check_any(&self, sent: u64) -> Result<(), IngestError> {
        self.room_for(1, Wanted::Sent(Bytes(sent)))
    }

    fn room_for(&self, more: u64, wanted: Wanted) -> Result<(), IngestError> {
        let quota = self.inner.quota.load(Ordering::Relaxed);
        let used = self.used();
        match used.get().saturating_add(more) <= quota {
            true => Ok(()),
            false => Err(IngestError::OverQuota {
                used,
                quota: Bytes(quota),
                wanted,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_share_takes_nothing_more() {
        let share = DiskShare::default();
        share.measured(Bytes::mib(10));
        assert!(share.check(u64::MAX).is_ok(), "there is no limit");
        share.limit(Some(Bytes::mib(12)));
        assert!(share.check(2 << 20).is_ok());
        let refused = share.check((2 << 20) + 1).unwrap_err().to_string();
        assert!(
            refused.contains("10.0 MiB") && refused.contains("12.0 MiB"),
            "{refused}"
        );
        assert!(refused.contains("takes 2.00 MiB more"), "{refused}");
        share.limit(Some(Bytes::mib(10)));
        let full = share.check_any(5 << 20).unwrap_err().to_string();
        assert!(full.contains("no room for this file of 5.00 MiB"), "{full}");
        share.limit(None);
        assert!(share.check(1 << 40).is_ok());
    }
}
