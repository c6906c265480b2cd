//! What is never lost: the real binary against missing, damaged and full disks, and kills.

mod backup;
mod blobs;
mod damage;
mod disk;
mod kills;
mod power;
mod rig;
