//! What must never be lost: the real binary with missing, damaged and full disks, and killed at any
//! moment.

mod backup;
mod blobs;
mod damage;
mod disk;
mod kills;
mod power;
pub mod rig;
