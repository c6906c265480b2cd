//! The front end's files: from the binary, or from a folder during work on the page.
//!
//! The binary passes its files in (`server/main.rs`), so that this library can be compiled before
//! they exist.

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
    /// Whether the path changes with the content, so that browsers may keep it for ever.
    pub immutable: bool,
    /// Its content.
    pub bytes: Cow<'static, [u8]>,
    /// The content in Brotli, if that is smaller.
    pub brotli: Option<&'static [u8]>,
}

/// The page of a program without a front end. It must not look like a page that failed to load.
const NO_FRONT_END: &str = include_str!("page_files/no_front_end.html");

/// The files in a program, sorted by their paths; empty if it was built without a front end.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrontEnd(pub &'static [Asset]);

/// Where the files come from.
#[derive(Clone, Debug)]
pub enum Site {
    /// This program.
    Embedded(FrontEnd),
    /// A folder that `webbuild watch` writes. It is read at each request.
    Folder(PathBuf),
}

/// The list of a folder's files, one per line: media type, tab, path.
const LIST: &str = "files.txt";

impl Site {
    /// The file at `path`, which starts with a slash.
    pub fn get(&self, path: &str) -> Option<Asset> {
        match self {
            Site::Embedded(FrontEnd(assets)) => {
                let found = assets.binary_search_by(|asset| asset.path.as_ref().cmp(path));
                found.ok().map(|index| assets[index].clone())
            }
            Site::Folder(folder) => {
                // Only listed files are opened: a path from outside is never used as a file path.
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

    /// The page, for `/` and for every path that only the front end's router knows. Without a front
    /// end, a page that says so.
    pub fn index(&self) -> Asset {
        self.get(INDEX).unwrap_or_else(|| Asset {
            path: Cow::Borrowed(INDEX),
            mime: Cow::Borrowed("text/html; charset=utf-8"),
            immutable: false,
            bytes: Cow::Borrowed(NO_FRONT_END.as_bytes()),
            brotli: None,
        })
    }
}

const INDEX: &str = "/index.html";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_serves_what_it_lists_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("site-{}", std::process::id()));
        fs::create_dir_all(folder.join("assets")).unwrap();
        let site = Site::Folder(folder.clone());
        assert_eq!(site.index().bytes, NO_FRONT_END.as_bytes());
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
