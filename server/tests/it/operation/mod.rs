//! What people who run the server rely on: its log, the refusal of a second server, upgrades, S3.

mod logs;
mod servers;
mod upgrade;
