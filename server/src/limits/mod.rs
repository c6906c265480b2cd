//! How much of the machine work may take, and who waits.
//!
//! `machine` says what there is. `budget` gives permits for memory, `work` threads, `turns` an
//! order; `asking` gives turns at questions, apart for strangers. `answering` does work that
//! somebody waits for, within memory and `processor_time`. `clients` bounds what one client may
//! hold, and `requests` counts what was answered.

pub mod answering;
pub mod asking;
pub mod budget;
pub mod clients;
pub mod machine;
pub mod processor_time;
pub mod requests;
pub mod turns;
pub mod work;
