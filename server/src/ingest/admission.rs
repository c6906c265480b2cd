//! Limits how many uploads may be announced, running and read at the same time.

use super::allowance::{Allowance, Allowances};
use super::error::IngestError;
use super::sender::Sender;
use super::tally::Tally;
use super::upload::Upload;
use crate::limits::budget::Budget;
use crate::limits::clients::numbers::Share;
use crate::limits::clients::quota::Crowd;
use crate::limits::clients::{ClientAddress, ClientLimits, Pace, Quota, Refusal, Slot};
use crate::limits::turns::{Queue, Turns};
use crate::limits::work;
use api::ids::UploadId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When to ask again after all places were taken.
const RETRY: Duration = Duration::from_secs(10);

/// The largest number of files that are read at the same time, however many cores there are.
const MOST_READ: usize = 4;

/// Decides which uploads may come in.
pub struct Admission {
    under_way: Quota,
    announcements: Share,
    patience: Duration,
    /// The slowest pace allowed for an upload.
    pub pace: Pace,
    /// The slowest pace at which an upload is read while it arrives.
    pub parse_pace: Pace,
    /// Turns at reading. One core stays free for people who look at pages.
    turns: Turns,
    /// The limits for each of them.
    allowances: Allowances,
    /// Counts of finished uploads, by result.
    pub tally: Tally,
}

impl Admission {
    /// With these limits, and memory from this budget.
    pub fn new(limits: &ClientLimits, budget: &Budget) -> Admission {
        let turns = work::cores().saturating_sub(1).clamp(1, MOST_READ);
        Admission {
            under_way: limits.uploads.quota("uploads", RETRY),
            announcements: limits.announcements,
            patience: limits.announcement_patience,
            pace: limits.pace,
            parse_pace: limits.parse_pace,
            turns: Turns::new(turns),
            tally: Tally::default(),
            allowances: Allowances::new(budget.clone()),
        }
    }

    /// A place for an upload whose body begins to arrive.
    ///
    /// # Errors
    /// When all places are taken.
    pub fn begin(&self, sender: &Sender) -> Result<Option<Slot>, Refusal> {
        match sender {
            Sender::Server => Ok(None),
            Sender::Client { address, .. } => self.under_way.take(*address).map(Some),
        }
    }

    /// Whether one more upload may be announced. If the list is full, the announcement that has
    /// waited longest is dropped, once it has waited long enough.
    ///
    /// # Errors
    /// When there are too many, all of them new.
    pub fn announce(
        &self,
        known: &mut HashMap<UploadId, Arc<Upload>>,
        who: ClientAddress,
        now: Instant,
    ) -> Result<(), Refusal> {
        known.retain(|_, upload| !upload.is_finished() && !upload.is_abandoned(now));
        let Share { each, all } = self.announcements;
        let waiting = |of: Option<ClientAddress>| {
            let waiting = known.values().filter(move |upload| !upload.is_started());
            waiting.filter(move |upload| of.is_none() || upload.announced_by() == of)
        };
        let crowd = match (waiting(Some(who)).count(), waiting(None).count()) {
            (of_client, _) if of_client >= each && !who.is_local() => Crowd::Client,
            (_, of_all) if of_all >= all => Crowd::Everybody,
            _ => return Ok(()),
        };
        let (of, most) = match crowd {
            Crowd::Client => (Some(who), each),
            Crowd::Everybody => (None, all),
        };
        let oldest = waiting(of).min_by_key(|upload| upload.announced_at());
        let spent =
            oldest.filter(|upload| now.duration_since(upload.announced_at()) >= self.patience);
        let Some(id) = spent.map(|upload| upload.id.clone()) else {
            return Err(Refusal {
                crowd,
                why: format!("{most} announced uploads are waiting for their bytes"),
                retry: self.patience,
            });
        };
        known.remove(&id);
        Ok(())
    }

    /// Files that are being read, and files that wait for it.
    pub fn reading(&self) -> Queue {
        self.turns.queue()
    }

    /// Uploads of clients under way.
    pub fn under_way(&self) -> usize {
        self.under_way.held()
    }

    /// A turn at reading, if one is free now, with its allowance.
    pub fn turn_now(&self, upload: &Upload) -> Option<Allowance> {
        let turn = self.turns.take_now()?;
        Some(self.allowances.begin(turn, upload.cancel.clone()))
    }

    /// Waits for a turn at reading, and returns it with its allowance.
    ///
    /// # Errors
    /// When the upload is cancelled in the meantime.
    pub async fn turn(&self, upload: &Upload) -> Result<Allowance, IngestError> {
        let turn = tokio::select! {
            turn = self.turns.take() => turn,
            () = upload.cancel.cancelled() => return Err(IngestError::Cancelled),
        };
        Ok(self.allowances.begin(turn, upload.cancel.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::upload_id;
    use api::runs::RunSource;
    use std::net::IpAddr;
    use trace::units::Bytes;

    fn client(text: &str) -> ClientAddress {
        text.parse::<IpAddr>().unwrap().into()
    }

    struct Listed {
        admission: Admission,
        known: HashMap<UploadId, Arc<Upload>>,
    }

    impl Listed {
        fn new(each: usize, all: usize) -> Listed {
            let limits = ClientLimits {
                announcements: Share { each, all },
                ..ClientLimits::default()
            };
            Listed {
                admission: Admission::new(&limits, &Budget::new(Bytes::mib(64))),
                known: HashMap::new(),
            }
        }

        fn announce(&mut self, who: &str, now: Instant) -> Result<UploadId, Crowd> {
            let who = client(who);
            let fits = self.admission.announce(&mut self.known, who, now);
            fits.map_err(|refusal| refusal.crowd)?;
            let name = "a".to_owned();
            let upload = Upload::announced(upload_id(), name, RunSource::Upload, None, who, now);
            let id = upload.id.clone();
            self.known.insert(id.clone(), Arc::new(upload));
            Ok(id)
        }
    }

    #[test]
    fn announcements_without_bodies_are_few_and_short_lived() {
        let mut list = Listed::new(2, 3);
        let now = Instant::now();
        let first = list.announce("10.0.0.1", now).unwrap();
        let now = now + Duration::from_millis(1);
        list.announce("10.0.0.1", now).unwrap();
        assert_eq!(list.announce("10.0.0.1", now), Err(Crowd::Client));
        list.announce("10.0.0.2", now).unwrap();
        assert_eq!(list.announce("10.0.0.2", now), Err(Crowd::Everybody));
        // After a while, the oldest announcement gives its place to a new one.
        let later = now + ClientLimits::default().announcement_patience;
        list.announce("10.0.0.1", later).unwrap();
        assert!(!list.known.contains_key(&first));
        assert_eq!(list.known.len(), 3);
    }

    #[test]
    fn twenty_thousand_announcements_leave_a_short_list() {
        let mut list = Listed::new(32, 256);
        let began = Instant::now();
        let accepted = (0..20_000).filter(|n| {
            let now = began + Duration::from_millis(*n);
            list.announce("127.0.0.1", now).is_ok()
        });
        let accepted = accepted.count();
        assert!((256..=20_000 - 9_000).contains(&accepted), "{accepted}");
        assert!(list.known.len() <= 256);
    }

    #[test]
    fn an_upload_that_has_begun_is_no_announcement() {
        let mut list = Listed::new(1, 1);
        let now = Instant::now();
        let id = list.announce("10.0.0.1", now).unwrap();
        list.known[&id].start();
        assert!(list.announce("10.0.0.1", now).is_ok());
        assert!(list.known.contains_key(&id));
    }
}
