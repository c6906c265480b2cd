//! A plain static web server, which keeps a list of what was asked of it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// The server of one folder; its thread ends with the test program.
pub struct StaticSite {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl StaticSite {
    /// Serves a folder as hosts of static pages do: `404.html` for what is not there.
    pub fn of(folder: &Path) -> StaticSite {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (folder, list) = (folder.to_owned(), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (folder, list) = (folder.clone(), Arc::clone(&list));
                // A browser that goes away ends the connection, which is no failure.
                thread::spawn(move || drop(answer(stream, &folder, &list)));
            }
        });
        StaticSite { address, asked }
    }

    /// The address of `path`, which starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The first lines of all requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no thread panics").clone()
    }
}

fn answer(mut stream: TcpStream, folder: &Path, asked: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    head.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        head.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    std::io::copy(&mut head.take(length), &mut std::io::sink())?;
    let first = first.trim().to_owned();
    let path = first.split(' ').nth(1).unwrap_or("/").to_owned();
    asked.lock().expect("no thread panics").push(first);
    let (status, file) = found(folder, &path);
    let bytes = fs::read(&file)?;
    let kind = match file.extension().and_then(|name| name.to_str()) {
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("svg") => "image/svg+xml",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    };
    let length = bytes.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&bytes)
}

fn found(folder: &Path, path: &str) -> (&'static str, PathBuf) {
    let path = path.split('?').next().unwrap_or_default();
    let name = match path.trim_start_matches('/') {
        "" => "index.html",
        name => name,
    };
    let file = folder.join(name);
    match file.is_file() && !name.contains("..") {
        true => ("200 OK", file),
        false => ("404 Not Found", folder.join("404.html")),
    }
}
