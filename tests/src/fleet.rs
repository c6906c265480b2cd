//! A dashboard with many runs, labelled as CI labels them.

use crate::{TestServer, recording};
use api::labels::{ChangeLabels, Labels};
use api::routes;
use api::runs::FinishedUpload;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Clients that upload at the same time.
pub const SENDERS: usize = 4;
/// Branches, in turn.
pub const BRANCHES: usize = 20;
/// Configurations of each branch, in turn.
pub const CONFIGS: usize = 5;

/// The labels of the n-th run.
pub fn labels(n: usize) -> Labels {
    let labels = [
        ("branch", format!("branch-{}", n % BRANCHES)),
        ("commit", format!("{n:040x}")),
        ("config", format!("config-{}", n / BRANCHES % CONFIGS)),
    ];
    let labels = labels.into_iter();
    labels.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Uploads and labels so many runs.
pub fn fill(server: &TestServer, runs: usize) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                let agent = ureq::Agent::new_with_defaults();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= runs {
                        return;
                    }
                    upload(&agent, server, n);
                }
            });
        }
    });
}

fn upload(agent: &ureq::Agent, server: &TestServer, n: usize) {
    let to = server.url(&routes::upload_named(&format!("recording-{n}.json")));
    let sent = agent.put(to).send(recording::of(n).as_slice());
    let mut sent = sent.expect("it is kept");
    let answer = sent.body_mut().read_to_vec().expect("a whole answer");
    let made: FinishedUpload = serde_json::from_slice(&answer).expect("a run");
    let labels = labels(n).into_iter();
    let change = ChangeLabels {
        labels: labels.map(|(key, value)| (key, Some(value))).collect(),
    };
    let to = server.url(&routes::run_labels(&made.run.id));
    let change = serde_json::to_vec(&change).expect("texts are plain data");
    let patch = agent.patch(to).header("content-type", "application/json");
    patch.send(change.as_slice()).expect("labels are kept");
}
