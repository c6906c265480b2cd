//! The front end's files: those that `build.rs` embedded, or those in a folder while someone works
//! on the page.
//!
//! A crate of its own, without dependencies, so that the front end is compiled beside the rest of
//! the server and not after it. Without a front end (`SKIP_WEB=1`) there is one file, a page that
//! says so.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;

/// One file.
#[derive(Clone, Debug)]
pub struct Asset {
    /// Path on the server, with the leading slash.
    pub path: Cow<'static, str>,
    /// Media type, for `Content-Type`.
    pub mime: Cow<'static, str>,
    /// Whether the path changes with the content, so that browsers may keep it for good.
    pub immutable: bool,
    /// Its content.
    pub bytes: Cow<'static, [u8]>,
    /// The same in Brotli, where that is smaller.
    pub brotli: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Where the files come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Site {
    /// This program.
    #[default]
    Embedded,
    /// A folder that `webbuild watch` writes. It is read at each request.
    Folder(PathBuf),
}

/// The list of a folder's files: a line each, media type, tab, path.
const LIST: &str = "files.txt";

impl Site {
    /// The file at `path`, which starts with a slash.
    pub fn get(&self, path: &str) -> Option<Asset> {
        match self {
            Site::Embedded => {
                let found = ASSETS.binary_search_by(|asset| asset.path.as_ref().cmp(path));
                found.ok().map(|index| ASSETS[index].clone())
            }
            Site::Folder(folder) => {
                // Only what is listed is opened: a path from outside never becomes one of ours.
                let list = fs::read_to_string(folder.join(LIST)).ok()?;
                let mut files = list.lines().filter_map(|line| line.split_once('\t'));
                let (mime, path) = files.find(|(_, listed)| *listed == path)?;
                let bytes = fs::read(folder.join(path.trim_start_matches('/'))).ok()?;
                Some(Asset {
                    path: Cow::Owned(path.to_owned()),
                    mime: Cow::Owned(mime.to_owned()),
                    immutable: false,
                    bytes: Cow::Owned(bytes),
                    brotli: None,
                })
            }
        }
    }

    /// The page, for `/` and for every path that only the front end's router knows. The embedded
    /// one, while the folder has none.
    pub fn index(&self) -> Asset {
        let page = self.get("/index.html");
        page.or_else(|| Site::Embedded.get("/index.html"))
            .expect("build.rs always embeds a page")
    }
}

/// The profile that the embedded front end was built with; none where there is none.
pub fn profile() -> Option<&'static str> {
    BUILT_WITH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_is_found_by_its_path() {
        for asset in ASSETS {
            assert_eq!(Site::Embedded.get(&asset.path).unwrap().path, asset.path);
        }
        assert!(Site::Embedded.get("/nothing").is_none());
    }

    #[test]
    fn page_is_complete_and_has_no_inline_code() {
        let index = Site::Embedded.index();
        let page = std::str::from_utf8(&index.bytes).unwrap();
        for (at, _) in page.match_indices("=\"/assets/") {
            let path = page[at + 2..].split('"').next().unwrap();
            assert!(Site::Embedded.get(path).is_some(), "the page names {path}");
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

    #[test]
    fn a_folder_serves_what_it_lists_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("site-{}", std::process::id()));
        fs::create_dir_all(folder.join("assets")).unwrap();
        let site = Site::Folder(folder.clone());
        let embedded = Site::Embedded.index();
        assert_eq!(site.index().bytes, embedded.bytes, "nothing is built yet");
        fs::write(folder.join("index.html"), "the page").unwrap();
        fs::write(folder.join("assets/a.js"), "1").unwrap();
        fs::write(folder.join("secret"), "2").unwrap();
        fs::write(
            folder.join(LIST),
            "text/html\t/index.html\ntext/javascript\t/assets/a.js\n",
        )
        .unwrap();
        assert_eq!(site.index().bytes.as_ref(), b"the page");
        assert_eq!(site.get("/assets/a.js").unwrap().mime, "text/javascript");
        for path in ["/secret", "/assets/../secret", "/../secret", "/nothing"] {
            assert!(site.get(path).is_none(), "{path}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
