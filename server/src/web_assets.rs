//! The front end's files, embedded by `build.rs`.
//!
//! Without a front end (`SKIP_WEB=1`) there is one file, a page that says so.

/// One embedded file.
#[derive(Debug)]
pub struct Asset {
    /// Path on the server, with the leading slash.
    pub path: &'static str,
    /// Media type, for `Content-Type`.
    pub mime: &'static str,
    /// Whether the path changes with the content, so that browsers may keep it for good.
    pub immutable: bool,
    /// Its content.
    pub bytes: &'static [u8],
    /// The same in Brotli, where that is smaller.
    pub brotli: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/web_assets.rs"));

/// The file at `path`, which starts with a slash.
pub fn get(path: &str) -> Option<&'static Asset> {
    let found = ASSETS.binary_search_by(|asset| asset.path.cmp(path));
    found.ok().map(|index| &ASSETS[index])
}

/// The page, for `/` and for every path that only the front end's router knows.
pub fn index() -> &'static Asset {
    get("/index.html").expect("build.rs always embeds a page")
}

/// The profile that the front end was built with; none when there is no front end.
pub fn profile() -> Option<&'static str> {
    BUILT_WITH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_is_found_by_its_path() {
        for asset in ASSETS {
            assert_eq!(get(asset.path).unwrap().path, asset.path);
        }
        assert!(get("/nothing").is_none());
    }

    #[test]
    fn page_is_complete_and_has_no_inline_code() {
        let page = std::str::from_utf8(index().bytes).unwrap();
        for (at, _) in page.match_indices("=\"/assets/") {
            let path = page[at + 2..].split('"').next().unwrap();
            assert!(get(path).is_some(), "the page names {path}");
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
            assert_ne!(profile(), Some("wasm-dev"));
        }
    }
}
