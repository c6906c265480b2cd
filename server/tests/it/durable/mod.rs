//! What must never be lost: the real binary with missing, damaged and full disks, and killed at any
//! moment.

mod backup;
mod blobs;
mod damage;
mod disk;
mod kills;
mod power;
mod rig;
#[allow(dead_code, reason = "each of these binaries needs a part of it")]
#[path = "../serving/mod.rs"]
mod serving;
