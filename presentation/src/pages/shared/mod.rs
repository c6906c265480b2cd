//! The page that a link opens.

pub mod banner;
