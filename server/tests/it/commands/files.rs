//! Which files commands write, and what they say of files that they cannot read.

use super::{fixture, said, tidemark_in};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

fn unpacked(name: &str) -> Vec<u8> {
    let packed = fs::read(fixture(name)).expect("the fixture is there");
    zstd::decode_all(&packed[..]).expect("it is whole")
}

#[test]
fn an_export_overwrites_neither_its_input_nor_a_file_that_nobody_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pickle = unpacked("plain_lm.pickle.zst");
    fs::write(at("snapshot.pickle"), &pickle).unwrap();
    fs::copy(fixture("plain_lm.pickle.zst"), at("packed.pickle.zst")).unwrap();
    let check = |args: &[&str], expected: Result<&str, &str>| {
        let args = [&["export"], args].concat();
        let (_, error, status) = said(&tidemark_in(folder.path(), &args));
        match expected {
            Ok(file) => {
                assert_eq!((status, error), (0, format!("wrote {file}\n")), "{args:?}");
                assert!(at(file).metadata().unwrap().len() > 1000);
            }
            Err(says) => {
                assert_eq!(status, 2, "{args:?}: {error}");
                assert!(
                    error.contains(says) && error.contains("--output"),
                    "{error}"
                );
            }
        }
        assert!(
            fs::read(at("snapshot.pickle")).unwrap() == pickle,
            "{args:?}"
        );
    };
    let as_pickle = ["snapshot.pickle", "--format", "pickle"];
    check(&as_pickle, Err("what is read"));
    check(
        &[&as_pickle[..], &["-o", "./snapshot.pickle"]].concat(),
        Err("what is read"),
    );
    check(
        &[&as_pickle[..], &["-o", "copy.pickle"]].concat(),
        Ok("copy.pickle"),
    );
    let packed = ["packed.pickle.zst", "--format", "pickle"];
    check(&packed, Ok("packed.pickle"));
    check(&packed, Err("already"));
    check(
        &[&packed[..], &["-o", "packed.pickle"]].concat(),
        Ok("packed.pickle"),
    );
    for format in ["parquet", "perfetto"] {
        let args = ["snapshot.pickle", "--format", format];
        let file = match format {
            "parquet" => "snapshot.parquet",
            _ => "snapshot.perfetto.json",
        };
        check(&args, Ok(file));
        check(&args, Err("already"));
    }
    assert!(fs::read(at("packed.pickle")).unwrap() == pickle);
}

#[test]
fn a_folder_in_place_of_a_file_is_called_one() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = fixture("plain_lm.pickle.zst");
    fs::create_dir(folder.path().join("adir")).unwrap();
    let check = |args: &[&str]| {
        let (out, error, status) = said(&tidemark_in(folder.path(), args));
        assert_eq!((out.as_str(), status), ("", 2), "{args:?}: {error}");
        let says = ["adir: it is a folder", "Is a directory"];
        assert!(
            says.iter().any(|says| error.contains(says)),
            "{args:?}: {error}"
        );
        assert!(error.contains("adir"), "{args:?}: {error}");
    };
    check(&["inspect", "adir"]);
    check(&["explain", "adir"]);
    check(&["compare", &snapshot, "adir"]);
    check(&["gate", "adir", &snapshot]);
    check(&["what-if", "adir"]);
    check(&["categories", "adir", &snapshot]);
    check(&["inspect", "--categories", "adir", &snapshot]);
    check(&["replay", "adir"]);
    check(&["push", "adir", &snapshot, "--compare"]);
    for format in ["pickle", "parquet", "perfetto"] {
        check(&["export", "adir", "--format", format]);
    }
    let left = fs::read_dir(folder.path()).unwrap();
    assert_eq!(left.count(), 1, "nothing was written");
}

#[test]
fn one_bad_file_does_not_keep_the_others_from_being_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (snapshot, bad) = (fixture("plain_lm.pickle.zst"), "bad.pickle");
    fs::write(folder.path().join(bad), "no snapshot").unwrap();
    let check = |args: &[&str], compares: bool, named: &[&str]| {
        let args = [&["compare"], args].concat();
        let (out, error, status) = said(&tidemark_in(folder.path(), &args));
        assert_eq!(status, 2, "{args:?}: {error}");
        assert_eq!(!out.is_empty(), compares, "{args:?}: {out}");
        let is_named = |name: &&str| error.contains(&format!("{name}: "));
        assert!(named.iter().all(is_named), "{args:?}: {error}");
    };
    let gone = "gone.pickle";
    check(&[&snapshot, bad, &snapshot], true, &[bad]);
    check(&[&snapshot, gone, bad, &snapshot], true, &[gone, bad]);
    check(&["--json", &snapshot, gone, &snapshot], true, &[gone]);
    check(&[&snapshot, bad], false, &[bad]);
    check(&[&snapshot, gone], false, &[gone]);
    check(&[bad, &snapshot], false, &[bad]);
}

/// As in `tidemark inspect … 2>&1 | head`: the exit status still says what was wrong.
#[test]
fn a_person_who_stops_listening_changes_no_exit_status() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command.args(["inspect", "-"]).stdin(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"no snapshot")
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn a_file_where_a_command_is_expected_is_told_as_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.pickle"), b"any").unwrap();
    fs::create_dir(folder.path().join("ranks_of_a_job")).unwrap();
    let check = |args: &[&str], expected: &str| {
        let (_, error, status) = said(&tidemark_in(folder.path(), args));
        assert!(error.contains(expected), "{error}");
        assert_eq!(status, 2);
    };
    check(&["a.pickle"], "tidemark inspect a.pickle");
    check(&["ranks_of_a_job"], "tidemark ranks ranks_of_a_job");
    check(&["nothing"], "unrecognized subcommand");
    let negative = ["gate", "a", "b", "--max-peak-growth", "-1%"];
    check(&negative, "expected a percentage");
}
