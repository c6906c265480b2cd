//! Who asks, and how much one client may take, so that clients that are slow, greedy or guessing
//! only hurt themselves.
//!
//! `address` finds the client of a request. `quota` limits how many things it may hold at a time,
//! `pace` how slow it may be, `guesses` how often it may show a wrong secret. `numbers` has every
//! number.

pub mod address;
pub mod guesses;
pub mod numbers;
pub mod pace;
pub mod quota;

pub use address::{ClientAddress, Peer, Proxies};
pub use guesses::{Guesses, Later};
pub use numbers::ClientLimits;
pub use pace::Pace;
pub use quota::{Quota, Refusal, Slot};
