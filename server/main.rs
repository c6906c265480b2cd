//! The `tidemark` binary: the library `service`, and the front end that `build.rs` made.

use service::page_files::{Asset, FrontEnd};
use std::process::ExitCode;

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

fn main() -> ExitCode {
    match service::cli::run(FrontEnd(ASSETS)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(text) = error.for_stderr() {
                // It may tell what a stranger's file or another server says.
                service::cli::tell(&format!("tidemark: {text}"));
            }
            ExitCode::from(error.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use service::page_files::Site;

    #[test]
    fn every_asset_is_found_by_its_path() {
        let site = Site::Embedded(FrontEnd(ASSETS));
        for asset in ASSETS {
            assert_eq!(site.get(&asset.path).unwrap().path, asset.path);
        }
        assert!(site.get("/nothing").is_none());
    }

    #[test]
    fn page_is_complete_and_has_no_inline_code() {
        let site = Site::Embedded(FrontEnd(ASSETS));
        let index = site.index();
        let page = std::str::from_utf8(&index.bytes).unwrap();
        for (at, _) in page.match_indices("=\"/assets/") {
            let path = page[at + 2..].split('"').next().unwrap();
            assert!(site.get(path).is_some(), "the page names {path}");
        }
        assert!(!page.contains("<style") && !page.contains(" style="));
        assert_eq!(
            page.matches("<script").count(),
            page.matches("src=").count()
        );
    }

    #[test]
    fn release_binary_has_no_debug_front_end() {
        if !cfg!(debug_assertions) {
            assert_ne!(BUILT_WITH, Some("wasm-dev"));
        }
    }
}
