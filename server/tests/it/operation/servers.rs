//! One data folder, one server: a second server is refused with an explanation and does no harm.

use crate::durable::rig::{SNAPSHOTS, Server, files_in};

#[test]
fn a_second_server_on_the_same_store_is_refused_with_words() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let first = Server::start(&data);
    first.upload("0.pickle", SNAPSHOTS[0]);
    let before = files_in(&data.join("blobs"));
    let said = Server::with(&data, &[]).map(drop).unwrap_err();
    let place = data.to_str().unwrap();
    assert!(
        said.contains(place) && said.contains("in use by another tidemark"),
        "{said}"
    );
    assert!(said.contains("--data"), "it says what to do: {said}");
    // The first server goes on as before.
    first.upload("1.pickle", SNAPSHOTS[1]);
    assert_eq!(first.runs().len(), 2);
    assert!(before.iter().all(|file| file.exists()));
    first.kill();
    // Not even `kill -9` leaves a lock behind.
    assert_eq!(Server::start(&data).runs().len(), 2);
}
