//! web
pub mod timeline;
