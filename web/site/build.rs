//! Builds the front end and embeds it. `SKIP_WEB=1` leaves it out; `WEB_PROFILE=wasm-dev` builds it
//! quickly, for debug builds only. How, and with which compiler: the `webbuild` crate.

use std::path::PathBuf;
use std::{env, process};

use webbuild::{Error, Profile, Workshop, embed, target_dir};

/// Where this depends on the environment, so that cargo asks again when it changes.
const VARIABLES: [&str; 2] = ["SKIP_WEB", "WEB_PROFILE"];

fn main() {
    if let Err(error) = build() {
        eprintln!("\ncannot build the front end: {error}\n");
        process::exit(1);
    }
}

fn build() -> Result<(), Error> {
    for variable in VARIABLES {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let out_dir = PathBuf::from(given_by_cargo("OUT_DIR"));
    if env::var_os("SKIP_WEB").is_some_and(|value| value == "1") {
        return embed::write_without_front_end(&out_dir);
    }
    let profile = Profile::from_name(env::var("WEB_PROFILE").ok().as_deref())?;
    if profile == Profile::Dev && given_by_cargo("PROFILE") == "release" {
        return Err(Error::DebugFrontEndInRelease);
    }
    let workshop = Workshop::new(&target_dir(&out_dir))?;
    for input in workshop.inputs() {
        println!("cargo:rerun-if-changed={}", input.display());
    }
    let site = workshop.build(profile)?;
    embed::write(&out_dir, &site, profile)
}

fn given_by_cargo(variable: &str) -> String {
    env::var(variable).expect("cargo sets this for build scripts")
}
