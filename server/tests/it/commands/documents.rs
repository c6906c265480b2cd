//! `--json` of commands that change something or make a file.

use super::{fixture, said, tidemark_in};
use crate::serving::Serving;
use serde_json::Value;
use std::path::Path;

/// The document that a command prints.
fn document(folder: &Path, args: &[&str]) -> Value {
    let (out, error, status) = said(&tidemark_in(folder, args));
    assert_eq!(status, 0, "{args:?}: {error}");
    serde_json::from_str(&out).unwrap_or_else(|why| panic!("{args:?}: {why}: {out}"))
}

#[test]
fn people_and_tokens_are_told_as_documents() {
    let folder = tempfile::tempdir().unwrap();
    let of = |args: &[&str]| document(folder.path(), &[args, &["--json"]].concat());
    let secret = |token: &Value| token.as_str().unwrap().to_owned();
    assert!(secret(&of(&["token"])["token"]).len() > 20);
    let people = |args: &[&str]| of(&[&["people"], args, &["--data", "data"]].concat());
    let added = people(&["add", "ada", "--role", "admin"]);
    assert_eq!(added["person"]["name"], "ada");
    assert!(secret(&added["token"]["secret"]).starts_with("tidemark_"));
    people(&["add", "bo"]);
    assert!(secret(&people(&["token", "bo"])["secret"]).starts_with("tidemark_"));
    assert_eq!(people(&["role", "bo", "reader"])["role"], "reader");
    assert!(people(&["leave", "bo"])["left_ms"].is_i64());
    assert_eq!(people(&["list"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_backup_and_the_way_back_are_told_as_documents() {
    let folder = tempfile::tempdir().unwrap();
    let of = |args: &[&str]| document(folder.path(), &[args, &["--json"]].concat());
    of(&["people", "add", "ada", "--role", "admin", "--data", "data"]);
    let copy = of(&["backup", "copy", "--data", "data"]);
    assert_eq!(
        (&copy["runs"], &copy["copied"]["files"]),
        (&0.into(), &0.into())
    );
    assert!(copy["lacking"].as_array().unwrap().is_empty());
    let back = of(&["restore", "copy", "--data", "back"]);
    assert_eq!((&back["runs"], &back["files"]), (&0.into(), &0.into()));
    let adopted = of(&["doctor", "--data", "back", "--adopt"]);
    let nothing = serde_json::json!({"adopted": [], "refused": []});
    assert_eq!(adopted, nothing);
}

#[test]
fn what_takes_the_disk_is_told_beside_a_server_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let push = ["push", &fixture("plain_lm.pickle.zst"), "--server"];
    let pushed = tidemark_in(folder.path(), &[&push[..], &[&server.url()]].concat());
    assert_eq!(said(&pushed).2, 0, "{}", said(&pushed).1);
    let sizes = ["doctor", "--data", "data", "--sizes"];
    let usage = document(folder.path(), &[&sizes[..], &["--json"]].concat());
    let main = &usage["projects"][0];
    assert_eq!(
        (&main["project"], &main["runs"]),
        (&"main".into(), &1.into())
    );
    for part in ["files", "events", "other"] {
        assert!(main["parts"][part].as_u64().unwrap() > 1000, "{usage}");
    }
    assert_eq!(usage["largest"][0]["name"], "plain_lm.pickle.zst");
    let (out, error, status) = said(&tidemark_in(folder.path(), &sizes));
    assert_eq!((error.as_str(), status), ("", 0));
    for told in ["files as stored", "no rule", "plain_lm.pickle.zst"] {
        assert!(out.contains(told), "{told}: {out}");
    }
    let missing = tidemark_in(folder.path(), &["doctor", "--data", ".", "--sizes"]);
    let (out, error, status) = said(&missing);
    assert_eq!((out.as_str(), status), ("", 2), "{error}");
    assert!(error.contains("there is no database in it"), "{error}");
}

#[test]
fn an_export_is_told_as_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let file = fixture("ddp_rank0.pickle.zst");
    let args = ["export", &file, "--format", "pickle", "--json"];
    let made = document(folder.path(), &args);
    let size = folder
        .path()
        .join("ddp_rank0.pickle")
        .metadata()
        .unwrap()
        .len();
    assert_eq!(
        made,
        serde_json::json!({"file": "ddp_rank0.pickle", "bytes": size})
    );
    // Both would stand on the standard output.
    let both = tidemark_in(folder.path(), &[&args[..], &["-o", "-"]].concat());
    let (out, error, status) = said(&both);
    assert_eq!((out.as_str(), status), ("", 2), "{error}");
}
