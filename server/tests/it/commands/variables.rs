//! Variables of the environment are set for many commands: none is in the way of another command.

use super::{fixture, said};
use std::process::{Command, Stdio};

/// What a command says with these variables, and its exit status.
fn with(variables: &[(&str, &str)], args: &[&str]) -> (String, i32) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tidemark"))
        .current_dir(folder.path())
        .envs(variables.iter().copied())
        .args(args)
        .stdin(Stdio::null())
        .output();
    let (_, error, status) = said(&output.expect("the binary was built"));
    (error, status)
}

/// So CI sets a secret that is not there.
#[test]
fn a_variable_that_is_set_to_nothing_is_not_set() {
    let nothing = [
        "TIDEMARK_SERVER",
        "TIDEMARK_TOKEN",
        "TIDEMARK_PROJECT",
        "TIDEMARK_CATEGORIES",
        "TIDEMARK_ALERT",
        "TIDEMARK_OIDC_SECRET",
    ]
    .map(|name| (name, ""));
    let file = fixture("plain_lm.pickle.zst");
    assert_eq!(with(&nothing, &["inspect", &file]), (String::new(), 0));
    let export = ["export", "run_0123456789abcdef", "--format", "pickle"];
    for args in [&["push", &file][..], &export, &["prune", "--keep", "9"]] {
        let args = [args, &["--server", "http://127.0.0.1:9"]].concat();
        let (error, status) = with(&nothing, &args);
        assert_eq!(status, 1, "{args:?}: {error}");
        assert!(error.contains("cannot reach"), "{args:?}: {error}");
    }
}

#[test]
fn what_is_set_for_another_command_does_no_harm() {
    let set = [
        ("TIDEMARK_SERVER", "http://127.0.0.1:9"),
        ("TIDEMARK_TOKEN", "a-token-that-is-long-enough-for-a-test"),
    ];
    // Nobody speaks, so it cannot greet; but it starts.
    let (error, _) = with(&set[1..], &["mcp"]);
    assert!(error.contains("greet the client"), "{error}");
    let run = "run_0123456789abcdef";
    let args = ["export", run, "--format", "pickle", "--data", "nowhere"];
    let (error, _) = with(&set, &args);
    assert!(error.contains("not a data folder"), "{error}");
}
