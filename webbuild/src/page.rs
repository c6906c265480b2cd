//! The page without a server, as a folder that any web server can serve: the same front end, and a
//! worker beside it that answers what the front end asks (crate `local`, `docs/local.md`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::compile::{self, Profile};
use crate::error::Error;
use crate::progress::Progress;
use crate::site::Site;
use crate::toolchain::Toolchain;
use crate::{Workshop, site};

/// What goes into the head of the page. The first scripts replace the ways in which the page asks a
/// server, so they come before all others. The policy allows requests to this site only, and the
/// page makes none after it is loaded.
const HEAD: &str = "\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; \
img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'\">
    <script src=\"/assets/share.js\"></script>
    <script src=\"/assets/page.js\"></script>
    ";

/// The part of the policy where the server stands to which *Share* may send files. The page reads
/// it there, and `tidemark page --server` changes it there.
const CONNECTS: &str = "connect-src 'self'";

/// A style sheet that comes after the page's own, to leave out what needs a server.
const STYLE: &str = "<link rel=\"stylesheet\" href=\"/assets/local.css\">\n  </head>";

/// Where that goes: after the character set, which must be among the first bytes.
const BEFORE: &str = "<meta name=\"viewport\"";

/// The server to which *Share* may send files: `https://NAME`, or `http://` on this machine, so
/// that a token never crosses a network unencrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareServer(String);

impl ShareServer {
    /// The server at this address, which has no path.
    ///
    /// # Errors
    /// [`Error::NoServer`].
    pub fn new(text: &str) -> Result<Self, Error> {
        let plain = text.strip_suffix('/').unwrap_or(text);
        let is_local = |rest: &str| {
            let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
            ["localhost", "127.0.0.1"].contains(&host)
        };
        // A policy cannot name an IPv6 address.
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte);
        let named = match plain.split_once("://") {
            Some(("https", rest)) => Some(rest),
            Some(("http", rest)) => Some(rest).filter(|rest| is_local(rest)),
            _ => None,
        };
        match named {
            // Nothing else may get into the policy of the page.
            Some(rest) if !rest.is_empty() && rest.bytes().all(is_name) => {
                Ok(Self(plain.to_ascii_lowercase()))
            }
            _ => Err(Error::NoServer(text.to_owned())),
        }
    }
}

/// Builds it, and writes it to a folder. With a server, *Share* sends files there.
///
/// # Errors
/// When something cannot be compiled or written.
pub fn build(
    workshop: &Workshop,
    folder: &Path,
    server: Option<&ShareServer>,
) -> Result<Site, Error> {
    let _lock = workshop.lock()?;
    let progress = Progress::start(&workshop.dir)?;
    let toolchain = Toolchain::find(workshop, &progress)?;
    let web = compile::wasm(workshop, &toolchain, Profile::Release, &progress)?;
    let web = compile::bindgen(workshop, &web, Profile::Release, &progress)?;
    let worker = worker(workshop, &toolchain, &progress)?;
    progress.say("writing the page without a server");
    let site = assembled(workshop, &web, &worker, server)?;
    write(folder, &site)?;
    Ok(site)
}

/// Compiles the worker; returns the folder of its module and glue.
fn worker(
    workshop: &Workshop,
    toolchain: &Toolchain,
    progress: &Progress,
) -> Result<PathBuf, Error> {
    let name = workshop.worker.name();
    progress.say(&format!(
        "compiling the worker, profile {name} (2 minutes when nothing is built yet)"
    ));
    let mut cargo = toolchain.cargo(workshop, "build");
    cargo.args(compile::together(workshop.worker, "local", name));
    cargo.args(["--lib", "--profile", name]);
    progress.run("cargo build -p local", &mut cargo)?;
    let built = workshop.dir.join("wasm32-unknown-unknown").join(name);
    let glue = workshop.dir.join(format!("glue-worker-{name}"));
    compile::glue(&built.join("local.wasm"), &glue, Profile::Release)?;
    Ok(glue)
}

fn assembled(
    workshop: &Workshop,
    web: &Path,
    worker: &Path,
    server: Option<&ShareServer>,
) -> Result<Site, Error> {
    let mut assets = site::sources(&workshop.workspace.join("web"), web)?;
    site::collect(worker, "", &mut assets)?;
    site::collect(&workshop.workspace.join("local/page"), "", &mut assets)?;
    let path = workshop.workspace.join("web/index.html");
    let page = fs::read_to_string(&path).map_err(Error::io(&path))?;
    Ok(Site::plain(&changed(&page, server), assets))
}

/// The page with what makes it work without a server.
fn changed(page: &str, server: Option<&ShareServer>) -> String {
    let head = match server {
        Some(ShareServer(server)) => HEAD.replacen(CONNECTS, &format!("{CONNECTS} {server}"), 1),
        None => HEAD.to_owned(),
    };
    let page = page.replacen(BEFORE, &format!("{head}{BEFORE}"), 1);
    page.replacen("</head>", STYLE, 1)
}

/// Writes the files. Static hosts show `404.html` for addresses that they do not know, such as that
/// of a run; the page reads its address and shows the run.
fn write(folder: &Path, site: &Site) -> Result<(), Error> {
    for file in &site.files {
        let name = file.path.trim_start_matches('/');
        let also = (name == "index.html").then_some("404.html");
        for name in [Some(name), also].into_iter().flatten() {
            let path = folder.join(name);
            // Somebody may be loading the same build.
            if fs::read(&path).is_ok_and(|there| there == file.bytes) {
                continue;
            }
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(Error::io(parent))?;
            fs::write(&path, &file.bytes).map_err(Error::io(&path))?;
        }
    }
    site::remove_earlier(folder, site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_the_worker_before_it_starts() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let page = fs::read_to_string(root.join("web/index.html")).unwrap();
        let server = ShareServer::new("https://tidemark.example").unwrap();
        let asks_one = changed(&page, Some(&server));
        assert!(asks_one.contains("connect-src 'self' https://tidemark.example; font-src"));
        let page = changed(&page, None);
        assert!(page.contains("connect-src 'self'; font-src"));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(at("charset") < at("Content-Security-Policy"));
        assert!(at("/assets/share.js") < at("/assets/page.js"));
        assert!(at("/assets/page.js") < at("/assets/boot.js"));
        assert!(at("/assets/style.css") < at("/assets/local.css"));
    }

    #[test]
    fn a_server_is_an_origin_to_which_a_token_travels_encrypted() {
        let check = |text: &str, expected: Option<&str>| {
            let server = ShareServer::new(text).ok().map(|server| server.0);
            assert_eq!(server.as_deref(), expected, "{text}");
        };
        let named = "https://tidemark.example:8443";
        check("https://Tidemark.example:8443/", Some(named));
        check("http://127.0.0.1:7878", Some("http://127.0.0.1:7878"));
        check("http://localhost", Some("http://localhost"));
        for wrong in [
            "http://tidemark.example",
            "http://[::1]:7878",
            "http://localhost.evil.example",
            "https://tidemark.example/path",
            "https://tidemark.example; script-src *",
            "https://tidemark.example\" onload=\"x",
            "https://*",
            "https://",
            "tidemark.example",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn an_unknown_address_shows_the_page_too() {
        let folder = std::env::temp_dir().join(format!("page-{}", std::process::id()));
        let assets = vec![("page.js".to_owned(), b"1".to_vec())];
        let site = Site::plain("<script src=\"/assets/page.js\"></script>", assets);
        write(&folder, &site).unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(read("index.html"), read("404.html"));
        let asset = site.files[0].path.trim_start_matches('/');
        assert!(read("index.html").contains(asset));
        assert_eq!(read(asset), "1");
        fs::remove_dir_all(&folder).unwrap();
    }
}
