//! A server that cannot start.

use super::{said, tidemark_in};
use std::net::TcpListener;

#[test]
fn an_address_in_use_is_told_and_leaves_nothing_behind() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let args = ["serve", "--listen", &address, "--data", "data"];
    let (_, error, status) = said(&tidemark_in(folder.path(), &args));
    assert_eq!(status, 1, "{error}");
    let expected = format!("cannot listen on {address}");
    assert!(error.contains(&expected), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(!folder.path().join("data").exists());
}
