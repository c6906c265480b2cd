//! Tests of the whole crate on recordings of real programs. They are one binary: each binary would
//! be linked by itself, which takes longer than the tests of most of them.

mod categories;
mod defective;
mod layout;
mod left_out;
mod pinned;
mod plain_and_public;
mod pools;
mod recordings;
mod shared_snapshots;
mod steps_of_programs;
mod what_if;
