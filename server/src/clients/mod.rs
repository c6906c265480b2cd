//! Who asks, and how much one of them may take, so that slow, rude and guessing clients hurt
//! only themselves.
//!
//! `address` says which client a request belongs to, `quota` how many things it may hold at a
//! time, `pace` how slow it may be, `guesses` how often it may be wrong about a secret. `limits`
//! states every number.

pub mod address;
pub mod guesses;
pub mod limits;
pub mod pace;
pub mod quota;

pub use address::{ClientAddress, Peer, Proxies};
pub use guesses::{Guesses, Later};
pub use limits::ClientLimits;
pub use pace::Pace;
pub use quota::{Quota, Refusal, Slot};
