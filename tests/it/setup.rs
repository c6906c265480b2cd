//! `setup.sh` on simulated machines: a script stands in for every program that it calls and records
//! the call.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tests::workspace_root;

/// Real programs that `setup.sh` may use.
const TOOLS: [&str; 10] = [
    "bash", "basename", "cut", "dirname", "env", "find", "head", "readlink", "sed", "sort",
];

/// A simulated machine: a folder that is its whole `PATH`.
struct Machine {
    dir: TempDir,
    env: Vec<(&'static str, &'static str)>,
}

/// The result of a call: whether it succeeded, its output, and the calls that changed the machine.
struct Outcome {
    success: bool,
    output: String,
    calls: Vec<String>,
}

impl Machine {
    /// A Debian machine with a recent Rust from rustup that can compile only for its own system.
    fn debian() -> Self {
        let dir = TempDir::new().unwrap();
        let machine = Self {
            dir,
            env: Vec::new(),
        };
        for tool in TOOLS {
            symlink(find_real(tool), machine.path().join(tool)).unwrap();
        }
        machine.program("id", "echo 0");
        machine.program("cargo", "echo cargo 1.99.0");
        machine.program(
            "rustc",
            "case \"$*\" in *libdir*) echo \"$MACHINE/libdir\";; *) echo \"$MACHINE\";; esac",
        );
        machine.program(
            "rustup",
            "echo \"rustup $*\" >>\"$MACHINE/calls\"; mkdir \"$MACHINE/libdir\"; \
             : >\"$MACHINE/libdir/libcore-0.rlib\"",
        );
        machine.program(
            "dpkg-query",
            "[ -e \"$MACHINE/installed-${!#}\" ] || exit 1; case $* in *Version*) \
             echo \"${DEBIAN_RUST:-1.96.0+dfsg1}\";; *) echo ii;; esac",
        );
        // Installing rust-web-llvm creates a link whose target belongs to another package.
        machine.program(
            "apt-get",
            "echo \"apt-get $*\" >>\"$MACHINE/calls\"; for name; do case $name in \
             rust-web-llvm) ln -s lld-99 \"$MACHINE/rust-lld\";; lld-99) : >\"$MACHINE/lld-99\";; \
             esac; : >\"$MACHINE/installed-$name\"; done",
        );
        for tool in ["mkdir", "ln"] {
            symlink(find_real(tool), machine.path().join(tool)).unwrap();
        }
        machine
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.path().join(name);
        fs::write(&path, format!("#!{}\n{body}\n", find_real("bash"))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn without(self, program: &str) -> Self {
        fs::remove_file(self.path().join(program)).unwrap();
        self
    }

    fn with_env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    /// Sources `setup.sh` and calls one of its functions.
    fn call(&self, function: &str) -> Outcome {
        let _ = fs::remove_file(self.path().join("calls"));
        let script = workspace_root().join("setup.sh");
        let output = Command::new(find_real("bash"))
            .arg("-c")
            .arg(format!(". {}; {function}", script.display()))
            .env_clear()
            .env("PATH", self.path())
            .env("MACHINE", self.path())
            .envs(self.env.iter().copied())
            .output()
            .unwrap();
        let calls = fs::read_to_string(self.path().join("calls")).unwrap_or_default();
        Outcome {
            success: output.status.success(),
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
            calls: calls.lines().map(str::to_owned).collect(),
        }
    }
}

fn find_real(tool: &str) -> String {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(tool))
        .find(|file| file.is_file());
    found.unwrap().to_string_lossy().into_owned()
}

fn installs(outcome: &Outcome) -> Vec<&str> {
    let calls = outcome.calls.iter();
    calls
        .filter_map(|call| call.split_once("--no-install-recommends "))
        .map(|(_, packages)| packages)
        .collect()
}

#[test]
fn rustup_adds_the_target_where_it_may_download() {
    let machine = Machine::debian();
    let outcome = machine.call("need_wasm");
    assert!(outcome.success, "{}", outcome.output);
    assert_eq!(outcome.calls, ["rustup target add wasm32-unknown-unknown"]);
    let again = machine.call("need_wasm");
    assert!(again.success);
    assert!(again.calls.is_empty(), "{:?}", again.calls);
}

#[test]
fn debian_packages_stand_in_where_rustup_may_not_download() {
    let machine = Machine::debian().with_env("RUSTUP_AUTO_INSTALL", "0");
    let outcome = machine.call("need_wasm rust-web-clippy");
    assert!(outcome.success, "{}", outcome.output);
    // `setup.sh` reads the name of the lld package from the link, whose target is missing without
    // it.
    let packages = "rustc-web cargo-web rust-web-src rust-web-llvm rust-web-clippy";
    assert_eq!(installs(&outcome), [packages, "lld-99"]);
    let again = machine.call("need_wasm rust-web-clippy");
    assert!(again.success);
    assert!(again.calls.is_empty(), "{:?}", again.calls);
}

#[test]
fn old_rust_from_debian_is_upgraded() {
    let machine = Machine::debian()
        .with_env("RUSTUP_AUTO_INSTALL", "0")
        .with_env("DEBIAN_RUST", "1.85.0+dfsg3-1~deb12u3");
    let outcome = machine.call("need_wasm");
    assert!(outcome.success, "{}", outcome.output);
    assert_eq!(installs(&outcome).last(), Some(&"rustc-web cargo-web"));
}

#[test]
fn one_sentence_says_what_to_do_where_nothing_can_be_installed() {
    let machine = Machine::debian()
        .with_env("RUSTUP_AUTO_INSTALL", "0")
        .without("apt-get");
    let outcome = machine.call("need_wasm");
    assert!(!outcome.success);
    let error = outcome.output.trim();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("rustup target add wasm32-unknown-unknown"));
}

#[test]
fn users_without_root_and_sudo_are_told_so() {
    let machine = Machine::debian().with_env("RUSTUP_AUTO_INSTALL", "0");
    machine.program("id", "echo 1000");
    let outcome = machine.call("need_wasm");
    assert!(!outcome.success);
    assert!(outcome.calls.is_empty(), "{:?}", outcome.calls);
    assert!(outcome.output.contains("takes root or sudo"));
}

#[test]
fn old_rust_from_rustup_is_updated_by_its_owner() {
    let machine = Machine::debian();
    machine.program("cargo", "echo cargo 1.63.0");
    let outcome = machine.call("need_rust");
    assert!(!outcome.success);
    assert!(outcome.calls.is_empty());
    assert!(outcome.output.contains("rustup update stable"));
}

#[test]
fn missing_rust_comes_from_debian() {
    let machine = Machine::debian().without("rustup").without("cargo");
    machine.program(
        "apt-get",
        "echo \"apt-get $*\" >>\"$MACHINE/calls\"; \
         printf '#!/bin/sh\\necho cargo 1.96.0\\n' >\"$MACHINE/cargo\"; \
         chmod +x \"$MACHINE/cargo\"",
    );
    symlink(find_real("chmod"), machine.path().join("chmod")).unwrap();
    let outcome = machine.call("need_rust");
    assert!(outcome.success, "{}", outcome.output);
    assert_eq!(installs(&outcome)[0], "rustc-web cargo-web");
}

#[test]
fn browsers_and_driver_are_installed_once() {
    let machine = Machine::debian();
    let outcome = machine.call("need_browser");
    assert!(outcome.success, "{}", outcome.output);
    assert_eq!(
        installs(&outcome),
        ["chromium chromium-driver", "firefox-esr"]
    );
    for program in ["chromium", "chromedriver", "firefox-esr"] {
        machine.program(program, "");
    }
    assert!(machine.call("need_browser").calls.is_empty());
}
