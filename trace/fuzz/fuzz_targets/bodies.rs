//! Any body is either a request or an error. A request that is written is read back unchanged.
#![no_main]

use api::bench::StartBench;
use api::compare::RecordComparison;
use api::runs::{AnnounceUpload, OpenSession, RenameRun};
use api::shares::{NewShare, OpenShare};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn check<T: Serialize + DeserializeOwned>(body: &[u8]) {
    let Ok(request) = serde_json::from_slice::<T>(body) else {
        return;
    };
    let written = serde_json::to_value(&request).expect("requests are plain data");
    let again: T = serde_json::from_value(written.clone()).expect("what was written is read");
    assert_eq!(serde_json::to_value(&again).expect("requests are plain data"), written);
}

fuzz_target!(|body: &[u8]| {
    check::<AnnounceUpload>(body);
    check::<NewShare>(body);
    check::<OpenSession>(body);
    check::<OpenShare>(body);
    check::<RecordComparison>(body);
    check::<RenameRun>(body);
    check::<StartBench>(body);
});
