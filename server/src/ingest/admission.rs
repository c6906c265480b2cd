//! How many uploads may be announced, under way and being read at a time.

use super::allowance::{Allowance, Allowances};
use super::error::IngestError;
use super::job::Job;
use super::tally::Tally;
use crate::budget::Budget;
use crate::clients::limits::Share;
use crate::clients::quota::Crowd;
use crate::clients::{ClientAddress, ClientLimits, Pace, Quota, Refusal, Slot};
use crate::turns::{Queue, Turns};
use crate::work;
use api::ids::UploadId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When to ask again for an upload that found no place.
const RETRY: Duration = Duration::from_secs(10);

/// Files read at the same time, at most, however many cores there are.
const MOST_READ: usize = 4;

/// Who sends a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A client: its uploads are counted, and it must keep the pace.
    Client(ClientAddress),
    /// This server: the recording of a bench, of which there is one at a time.
    Server,
}

/// Who may come in.
pub struct Admission {
    under_way: Quota,
    announcements: Share,
    patience: Duration,
    /// The least that an upload must bring.
    pub pace: Pace,
    /// The least that it must bring to be read while it arrives.
    pub parse_pace: Pace,
    /// Turns at reading. One core stays for those who look.
    turns: Turns,
    /// What each of them may use.
    allowances: Allowances,
    /// What came of those that came in.
    pub tally: Tally,
}

impl Admission {
    /// These limits, and memory out of this budget.
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

    /// A place for an upload whose body begins.
    ///
    /// # Errors
    /// When there is none.
    pub fn begin(&self, sender: Sender) -> Result<Option<Slot>, Refusal> {
        match sender {
            Sender::Server => Ok(None),
            Sender::Client(who) => self.under_way.take(who).map(Some),
        }
    }

    /// Whether one more upload may be announced. A full list makes room by forgetting the
    /// announcement that has waited longest, if it has had its time.
    ///
    /// # Errors
    /// When there are too many, all of them new.
    pub fn announce(
        &self,
        jobs: &mut HashMap<UploadId, Arc<Job>>,
        who: ClientAddress,
        now: Instant,
    ) -> Result<(), Refusal> {
        jobs.retain(|_, job| !job.is_finished() && !job.is_abandoned(now));
        let Share { each, all } = self.announcements;
        let waiting = |of: Option<ClientAddress>| {
            let waiting = jobs.values().filter(move |job| !job.is_started());
            waiting.filter(move |job| of.is_none() || job.announced_by() == of)
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
        let oldest = waiting(of).min_by_key(|job| job.announced_at());
        let spent = oldest.filter(|job| now.duration_since(job.announced_at()) >= self.patience);
        let Some(id) = spent.map(|job| job.id.clone()) else {
            return Err(Refusal {
                crowd,
                why: format!("{most} announced uploads are waiting for their bytes"),
                retry: self.patience,
            });
        };
        jobs.remove(&id);
        Ok(())
    }

    /// Files that are read, and that wait to be.
    pub fn reading(&self) -> Queue {
        self.turns.queue()
    }

    /// Uploads of clients under way.
    pub fn under_way(&self) -> usize {
        self.under_way.held()
    }

    /// A turn at reading, if there is one now, and what may be used in it.
    pub fn turn_now(&self, job: &Job) -> Option<Allowance> {
        let turn = self.turns.take_now()?;
        Some(self.allowances.begin(turn, job.cancel.clone()))
    }

    /// A turn at reading, and what may be used in it.
    ///
    /// # Errors
    /// When the upload is cancelled meanwhile.
    pub async fn turn(&self, job: &Job) -> Result<Allowance, IngestError> {
        let turn = tokio::select! {
            turn = self.turns.take() => turn,
            () = job.cancel.cancelled() => return Err(IngestError::Cancelled),
        };
        Ok(self.allowances.begin(turn, job.cancel.clone()))
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
        jobs: HashMap<UploadId, Arc<Job>>,
    }

    impl Listed {
        fn new(each: usize, all: usize) -> Listed {
            let limits = ClientLimits {
                announcements: Share { each, all },
                ..ClientLimits::default()
            };
            Listed {
                admission: Admission::new(&limits, &Budget::new(Bytes::mib(64))),
                jobs: HashMap::new(),
            }
        }

        fn announce(&mut self, who: &str, now: Instant) -> Result<UploadId, Crowd> {
            let who = client(who);
            let fits = self.admission.announce(&mut self.jobs, who, now);
            fits.map_err(|refusal| refusal.crowd)?;
            let name = "a".to_owned();
            let job = Job::announced(upload_id(), name, RunSource::Upload, None, (who, now));
            let id = job.id.clone();
            self.jobs.insert(id.clone(), Arc::new(job));
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
        // After a while the oldest gives its place to whoever comes.
        let later = now + ClientLimits::default().announcement_patience;
        list.announce("10.0.0.1", later).unwrap();
        assert!(!list.jobs.contains_key(&first));
        assert_eq!(list.jobs.len(), 3);
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
        assert!(list.jobs.len() <= 256);
    }

    #[test]
    fn an_upload_that_has_begun_is_no_announcement() {
        let mut list = Listed::new(1, 1);
        let now = Instant::now();
        let id = list.announce("10.0.0.1", now).unwrap();
        list.jobs[&id].start();
        assert!(list.announce("10.0.0.1", now).is_ok());
        assert!(list.jobs.contains_key(&id));
    }
}
