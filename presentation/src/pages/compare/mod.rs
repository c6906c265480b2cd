//! Two to eight runs on one axis, and what differs.

pub mod cards;
pub mod categories;
pub mod head;
pub mod pick;
pub mod picture;
pub mod sites;
pub mod steps;
