//! The names of the profiles, as environment variables give them.
//!
//! `./check` builds this test together with the program `webbuild`. With a test among what is
//! built, cargo chooses the same features for shared crates as it does for all tests later, so they
//! are compiled once.

use webbuild::{Profile, WorkerProfile};

#[test]
fn profile_names() {
    assert_eq!(Profile::from_name(None).unwrap(), Profile::Release);
    assert_eq!(Profile::from_name(Some("")).unwrap(), Profile::Release);
    let dev = Profile::from_name(Some("wasm-dev")).unwrap();
    assert_eq!(dev.name(), "wasm-dev");
    assert!(Profile::from_name(Some("release")).is_err());
}

#[test]
fn profile_names_of_the_worker() {
    let named = |name| WorkerProfile::from_name(name).unwrap();
    assert_eq!(named(None), WorkerProfile::Fast);
    assert_eq!(named(Some("")), WorkerProfile::Fast);
    assert_eq!(named(Some("wasm")).name(), "wasm");
    assert_eq!(named(Some("wasm-local")).name(), "wasm-local");
    assert!(WorkerProfile::from_name(Some("release")).is_err());
}
