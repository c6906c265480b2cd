//! The front end as a set of files: named by content, and compressed once, here.
//!
//! Everything except the page lies under `/assets/HASH/`, where HASH is the hash of all files. So
//! files find each other by relative paths that need no rewriting, a browser may keep them for
//! ever, and a page never mixes two builds.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use brotli::enc::BrotliEncoderParams;

use crate::compile::Profile;
use crate::error::Error;
use crate::progress::Progress;

/// The page.
const PAGE: &str = "/index.html";

/// How the page names an asset before its final path is known.
const ASSETS: &str = "\"/assets/";

/// Brotli's best quality and its largest ordinary window: the cost is paid once per build. With
/// blocks of 256 KiB the program is 1 KB smaller than with those of 512 KiB.
const BROTLI_QUALITY: i32 = 11;
const BROTLI_WINDOW_BITS: i32 = 24;
const BROTLI_BLOCK_BITS: i32 = 18;

/// Names of files, and their content.
pub type Assets = Vec<(String, Vec<u8>)>;

/// One file of the front end.
#[derive(Debug)]
pub struct SiteFile {
    /// Its path on the server, with the leading slash.
    pub path: String,
    /// Its media type.
    pub mime: &'static str,
    /// Whether the path changes with the content.
    pub immutable: bool,
    /// Its content.
    pub bytes: Vec<u8>,
    /// The content in Brotli, if that is smaller.
    pub brotli: Option<Vec<u8>>,
}

/// How files are packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// With Brotli. The packed files are kept in this folder, so that a second cargo that embeds
    /// the same files need not pack them again.
    Brotli(PathBuf),
}

/// All of it, sorted by path.
#[derive(Debug)]
pub struct Site {
    /// Its files.
    pub files: Vec<SiteFile>,
}

impl Site {
    /// Puts together the sources in `web` and the compiled files in `glue`.
    pub fn assemble(
        web: &Path,
        glue: &Path,
        packing: &Packing,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let read = |name: &str| {
            let path = web.join(name);
            fs::read(&path).map_err(Error::io(&path))
        };
        let mut assets = sources(web, glue)?;
        let page = String::from_utf8_lossy(&read("index.html")?).into_owned();
        if *packing != Packing::None {
            progress.say("compressing");
            for (name, bytes) in &mut assets {
                if let Some(short) = minified(name, bytes) {
                    *bytes = short.into_bytes();
                }
            }
        }
        Ok(Self::of(&page, assets, packing))
    }

    /// The page and its assets as they are, for hosts that pack files themselves.
    pub fn plain(page: &str, assets: Assets) -> Self {
        Self::of(page, assets, &Packing::None)
    }

    /// The same, but the page loads itself again when there is a new build.
    pub fn reloading(mut self) -> Self {
        let script = "/reload.js".to_owned();
        let tag = format!("<script type=\"module\" src=\"{script}\"></script></head>");
        for file in self.files.iter_mut().filter(|file| file.path == PAGE) {
            let page = String::from_utf8_lossy(&file.bytes).replacen("</head>", &tag, 1);
            file.bytes = page.into_bytes();
        }
        let bytes = include_bytes!("reload.js").to_vec();
        self.files
            .push(SiteFile::new(script, bytes, false, &Packing::None));
        self
    }

    fn of(page: &str, mut assets: Assets, packing: &Packing) -> Self {
        assets.sort();
        let mut hasher = DefaultHasher::new();
        assets.hash(&mut hasher);
        let hash = format!("{:016x}", hasher.finish());
        let page = page.replace(ASSETS, &format!("{ASSETS}{hash}/"));
        let mut files: Vec<SiteFile> = assets
            .into_iter()
            .map(|(name, bytes)| {
                SiteFile::new(format!("/assets/{hash}/{name}"), bytes, true, packing)
            })
            .collect();
        files.push(SiteFile::new(
            PAGE.to_owned(),
            page.into_bytes(),
            false,
            packing,
        ));
        Self { files }
    }

    /// What a first visit transfers, in bytes: all files, compressed if that is smaller.
    pub fn transfer_bytes(&self) -> usize {
        self.files.iter().map(SiteFile::transfer_bytes).sum()
    }
}

impl SiteFile {
    fn new(path: String, bytes: Vec<u8>, immutable: bool, packing: &Packing) -> Self {
        let compressed = packing.packed(&bytes);
        Self {
            mime: mime(&path),
            path,
            immutable,
            brotli: compressed.filter(|compressed| compressed.len() < bytes.len()),
            bytes,
        }
    }

    /// Size on the wire, in bytes.
    pub fn transfer_bytes(&self) -> usize {
        self.brotli.as_ref().unwrap_or(&self.bytes).len()
    }
}

/// The assets of the front end: its sources in `web`, and the compiled files in `glue`.
pub(crate) fn sources(web: &Path, glue: &Path) -> Result<Assets, Error> {
    let mut assets = Vec::new();
    collect(glue, "", &mut assets)?;
    collect(&web.join("static"), "", &mut assets)?;
    let boot = web.join("boot.js");
    let bytes = fs::read(&boot).map_err(Error::io(&boot))?;
    assets.push(("boot.js".to_owned(), bytes));
    assets.push(("style.css".to_owned(), joined_styles(&web.join("style"))?));
    Ok(assets)
}

/// Every file under `dir`, by its path from there. A folder that does not exist has no files.
pub(crate) fn collect(dir: &Path, prefix: &str, into: &mut Assets) -> Result<(), Error> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir).map_err(Error::io(dir))? {
        let path = entry.map_err(Error::io(dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            collect(&path, &format!("{name}/"), into)?;
        } else {
            into.push((name, fs::read(&path).map_err(Error::io(&path))?));
        }
    }
    Ok(())
}

/// Removes the assets of earlier builds from a folder.
pub(crate) fn remove_earlier(folder: &Path, site: &Site) -> Result<(), Error> {
    let assets = folder.join("assets");
    for entry in fs::read_dir(&assets).map_err(Error::io(&assets))?.flatten() {
        let name = format!("/assets/{}/", entry.file_name().to_string_lossy());
        if !site.files.iter().any(|file| file.path.starts_with(&name)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// The style sheets one after the other, in the order of their names.
fn joined_styles(dir: &Path) -> Result<Vec<u8>, Error> {
    let mut sheets = Vec::new();
    collect(dir, "", &mut sheets)?;
    sheets.retain(|(name, _)| name.ends_with(".css"));
    sheets.sort();
    Ok(sheets
        .into_iter()
        .flat_map(|(_, mut text)| {
            text.push(b'\n');
            text
        })
        .collect())
}

/// A style sheet or a script without comments and spaces; `None` for other files, and for what the
/// library cannot read.
fn minified(name: &str, bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    match name.rsplit_once('.')?.1 {
        "css" => Some(minifier::css::minify(text).ok()?.to_string()),
        "js" => Some(minifier::js::minify(text).ok()?.to_string()),
        _ => None,
    }
}

fn mime(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

impl Packing {
    /// The packing for a profile; packed files are kept in a folder of the workshop.
    pub fn of(profile: Profile, workshop: &Path) -> Self {
        match profile {
            Profile::Release => Self::Brotli(workshop.join("packed")),
            // Compressing the files takes longer than loading them from this machine.
            Profile::Dev => Self::None,
        }
    }

    fn packed(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let Self::Brotli(folder) = self else {
            return None;
        };
        let mut hasher = DefaultHasher::new();
        (bytes, BROTLI_QUALITY, BROTLI_WINDOW_BITS, BROTLI_BLOCK_BITS).hash(&mut hasher);
        let kept = folder.join(format!("{:016x}-{}.br", hasher.finish(), bytes.len()));
        if let Ok(packed) = fs::read(&kept) {
            return Some(packed);
        }
        let packed = brotli(bytes);
        // The file is written whole or not at all. If it cannot be kept, it is packed again next
        // time.
        let half = kept.with_extension("half");
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&half, &packed));
        let _ = written.and_then(|()| fs::rename(&half, &kept));
        Some(packed)
    }
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let params = BrotliEncoderParams {
        quality: BROTLI_QUALITY,
        lgwin: BROTLI_WINDOW_BITS,
        lgblock: BROTLI_BLOCK_BITS,
        size_hint: bytes.len(),
        ..BrotliEncoderParams::default()
    };
    let mut packed = Vec::new();
    brotli::BrotliCompress(&mut &bytes[..], &mut packed, &params)
        .expect("reading and writing memory cannot fail");
    packed
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// In a folder of this process.
    fn packing() -> Packing {
        let name = format!("webbuild-packed-{}", std::process::id());
        Packing::Brotli(std::env::temp_dir().join(name))
    }

    fn site(script: &str) -> Site {
        let page = "<script type=module src=\"/assets/boot.js\"></script>";
        let assets = vec![
            ("web.js".to_owned(), script.as_bytes().to_vec()),
            (
                "boot.js".to_owned(),
                b"import init from './web.js'".to_vec(),
            ),
        ];
        Site::of(page, assets, &packing())
    }

    #[test]
    fn scripts_and_styles_lose_comments_and_spaces_only() {
        let css = b"/* why */\na > b {\n  width: calc(100% - 2px);\n}\n";
        let css = minified("a.css", css).unwrap();
        assert_eq!(css.trim(), "a>b{width:calc(100% - 2px);}");
        let js = b"// why\nconst a = `x  ${1 + 2}`;\nexport { a };\n";
        let js = minified("a.js", js).unwrap();
        assert!(js.contains("`x  ${1 + 2}`") && !js.contains("why"), "{js}");
        assert_eq!(minified("a.wasm", b"\0asm"), None);
    }

    #[test]
    fn page_names_the_assets_where_they_are() {
        let site = site("export default 1");
        let page = site.files.last().unwrap();
        assert_eq!(page.path, "/index.html");
        assert!(!page.immutable);
        let boot = &site.files[0];
        assert!(boot.immutable && boot.path.ends_with("/boot.js"));
        let text = String::from_utf8(page.bytes.clone()).unwrap();
        assert!(text.contains(&format!("src=\"{}\"", boot.path)), "{text}");
    }

    #[test]
    fn a_page_under_work_looks_for_the_next_build() {
        let reloading = Site::of("<head></head>", Vec::new(), &Packing::None).reloading();
        let page = &reloading.files[0];
        let text = String::from_utf8(page.bytes.clone()).unwrap();
        assert!(text.contains("src=\"/reload.js\""), "{text}");
        assert_eq!(reloading.files[1].path, "/reload.js");
        assert!(page.brotli.is_none());
    }

    #[test]
    fn equal_content_has_equal_paths_and_other_content_other_paths() {
        assert_eq!(site("a").files[0].path, site("a").files[0].path);
        assert_ne!(site("a").files[0].path, site("b").files[0].path);
    }

    #[test]
    fn brotli_gives_the_bytes_back_and_is_left_out_where_it_is_larger() {
        let site = site(&"long text ".repeat(1000));
        let script = site.files.iter().find(|f| f.path.ends_with("web.js"));
        let script = script.unwrap();
        let mut back = Vec::new();
        brotli::Decompressor::new(&script.brotli.as_ref().unwrap()[..], 4096)
            .read_to_end(&mut back)
            .unwrap();
        assert_eq!(back, script.bytes);
        let tiny = SiteFile::new("/x".to_owned(), vec![7], true, &packing());
        assert!(tiny.brotli.is_none());
    }

    #[test]
    fn what_was_packed_is_not_packed_again() {
        let bytes = b"so many words ".repeat(100);
        let first = packing().packed(&bytes).unwrap();
        let Packing::Brotli(folder) = packing() else {
            unreachable!("this packing keeps what it packs");
        };
        let kept = fs::read_dir(&folder).unwrap().flatten();
        let mut kept = kept.map(|entry| entry.path());
        let of_these = kept.find(|path| fs::read(path).unwrap() == first).unwrap();
        fs::write(&of_these, b"kept").unwrap();
        assert_eq!(packing().packed(&bytes).unwrap(), b"kept");
        fs::remove_dir_all(&folder).unwrap();
    }
}
