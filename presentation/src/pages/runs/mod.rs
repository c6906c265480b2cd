//! The list of runs.

pub mod delete;
pub mod list_state;
pub mod table;

#[cfg(test)]
pub(crate) mod example {
    use api::jobs::RunOfJob;
    use api::runs::{RunSource, RunSummary};
    use trace::ranks::Rank;
    use trace::units::Bytes;

    /// A rank of a job; its file has this name.
    pub fn rank_of(job: &str, rank: u32, name: &str) -> RunSummary {
        RunSummary {
            job: Some(RunOfJob {
                job: "job_a".parse().unwrap(),
                name: job.to_owned(),
                rank: Rank(rank),
                older: vec![],
            }),
            ..run(name, 1, 1)
        }
    }

    /// A run with a name, a peak and a time of arrival.
    pub fn run(name: &str, peak: u64, created_ms: i64) -> RunSummary {
        RunSummary {
            pinned: None,
            id: format!("run_{name}")
                .replace([' ', '-', '.'], "")
                .parse()
                .unwrap(),
            name: name.to_owned(),
            source: RunSource::Upload,
            created_ms,
            file_bytes: Bytes(10),
            content_hash: "abc123".to_owned(),
            devices: vec![],
            steps: 0,
            peak_allocated: Bytes(peak),
            quality: vec!["ring_wrapped".to_owned()],
            faults: vec![],
            leaks: None,
            job: None,
            labels: Default::default(),
            uploaded_by: None,
            deleted_ms: None,
        }
    }
}
