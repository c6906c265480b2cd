//! Who may sign in: the commands that need a data folder, and a server's token.

use super::{said, tidemark_in};
use crate::serving::Serving;
use std::process::Command;

#[test]
fn a_data_folder_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let check = |args: &[&str], says: &str| {
        for (data, why) in [("typo", says), ("empty", says)] {
            let args = [args, &["--data", data]].concat();
            let (out, error, status) = said(&tidemark_in(folder.path(), &args));
            assert_ne!(status, 0, "{args:?}");
            assert_eq!(out, "", "{args:?}");
            assert!(
                error.contains(data) && error.contains(why),
                "{args:?}: {error}"
            );
            assert!(!folder.path().join("typo").exists(), "{args:?}");
            let made = std::fs::read_dir(folder.path().join("empty")).unwrap();
            assert_eq!(made.count(), 0, "{args:?}");
        }
    };
    check(&["people", "list"], "there is no");
    check(&["people", "token", "ada"], "there is no");
    check(&["people", "role", "ada", "admin"], "there is no");
    check(&["people", "leave", "ada"], "there is no");
    check(&["backup", "copy"], "there is no database");
    check(
        &["export", "run_7Kq", "--format", "pickle"],
        "not a data folder",
    );
    let missing = tidemark_in(folder.path(), &["doctor", "--data", "typo"]);
    assert_eq!(said(&missing).2, 2);
    // The first person can be added before the server starts.
    let add = ["people", "add", "ada", "--role", "admin", "--data", "new"];
    let (out, error, status) = said(&tidemark_in(folder.path(), &add));
    assert_eq!((status, error.as_str()), (0, "new: a new data folder\n"));
    assert!(!out.is_empty());
    let (out, _, status) = said(&tidemark_in(
        folder.path(),
        &["people", "list", "--data", "new"],
    ));
    assert_eq!(status, 0);
    assert!(out.contains("ada"), "{out}");
}

#[test]
fn a_wrong_token_does_not_read_like_a_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    let add = ["people", "add", "ada", "--role", "admin", "--data", "data"];
    let (right, _, _) = said(&tidemark_in(folder.path(), &add));
    let server = Serving::start(&folder.path().join("data"));
    std::fs::write(folder.path().join("x.pickle"), "").unwrap();
    let check = |command: &[&str], token: Option<&str>, says: &str| {
        let mut asked = Command::new(env!("CARGO_BIN_EXE_tidemark"));
        asked.args(command).args(["--server", &server.url()]);
        asked
            .current_dir(folder.path())
            .env_remove("TIDEMARK_TOKEN");
        if let Some(token) = token {
            asked.env("TIDEMARK_TOKEN", token);
        }
        let (_, error, status) = said(&asked.output().unwrap());
        match says {
            "" => assert_eq!((status, error.as_str()), (0, "")),
            says => {
                assert_eq!(status, 1, "{error}");
                assert!(
                    error.contains(says) && error.contains("TIDEMARK_TOKEN"),
                    "{error}"
                );
            }
        }
    };
    let (needs, wrong) = ("needs an access token", "does not know this access token");
    for command in [
        &["push", "x.pickle"][..],
        &["history"],
        &["prune", "--keep", "1"],
        &["tables", "fleet"],
        &["export", "run_7Kq", "--format", "pickle"],
    ] {
        check(command, None, needs);
        check(command, Some(""), needs);
        check(command, Some("wrong"), wrong);
    }
    check(&["history"], Some(right.trim()), "");
}
