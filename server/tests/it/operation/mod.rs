//! What people who run the server rely on: its log, the refusal of a second server, upgrades, S3.

mod logs;
#[allow(
    dead_code,
    reason = "these tests need less of it than those of `durable`"
)]
#[path = "../durable/rig.rs"]
mod rig;
mod servers;
#[allow(dead_code, reason = "each of these binaries needs a part of it")]
#[path = "../serving/mod.rs"]
mod serving;
mod upgrade;
