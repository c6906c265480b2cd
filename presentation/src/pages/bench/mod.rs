//! The bench: what can be run, and what the matrix, the chain and the frontier say.

pub mod behind;
pub mod bench_state;
pub mod chain;
pub mod explain;
pub mod figures;
pub mod history;
pub mod markdown;
pub mod numbers;
pub mod plot;
pub mod selection;
pub mod spark;
