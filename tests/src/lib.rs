//! The base of the end-to-end tests: the real server and a real browser. Each ends when it is
//! dropped.
//!
//! * [`TestServer`] is the `tidemark` binary on a free port with a data folder of its own;
//! * [`StaticSite`] is a plain web server of a folder;
//! * [`Browser`] is Chromium, driven through chromedriver;
//! * [`Firefox`] is Firefox; [`Page`] is what both can do;
//! * [`process`] is what the kernel says of a process's memory.
//!
//! There are no stand-ins here. The tests themselves are in `it/`.

mod browser;
mod cdp;
mod chromedriver;
mod firefox;
pub mod fleet;
mod page;
mod places;
pub mod process;
pub mod recording;
mod static_site;
mod steps;
mod test_server;

pub use browser::{Browser, Theme, Viewport};
pub use firefox::Firefox;
pub use page::Page;
pub use picture::{Band, Picture, TOLERANCE_PPM};
pub use places::{
    local_page, local_page_with, recordings, screenshots_dir, shared_dir, target_dir, tidemark,
    workspace_root,
};
pub use static_site::StaticSite;
pub use test_server::TestServer;
