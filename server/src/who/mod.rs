//! Who comes in, and as whom (`SECURITY.md`, `docs/people.md`).
//!
//! `server_token` and `people` with their tokens are what somebody shows; `sessions` remember a
//! browser that has shown one; `oidc` lets a provider say who it is; `host_names` tells whether a
//! browser asks this server at all. `access` puts this together: what a request may do.

pub mod access;
pub mod host_names;
pub mod oidc;
pub mod people;
pub mod server_token;
pub mod sessions;
pub mod used_forms;
