//! The server under attack.

use crate::serving::{Serving, serve};
use std::io::{Read, Write};
use std::net::TcpStream;
use tempfile::TempDir;

/// A running server; killed when dropped.
pub struct Victim {
    serving: Serving,
    data: TempDir,
    memory_mib: u64,
}

/// An answer of the server.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        let start = &self.body[..self.body.len().min(1000)];
        String::from_utf8_lossy(start).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }
}

impl Victim {
    pub fn start(memory_mib: u64) -> Victim {
        let data = TempDir::new().expect("a temporary folder");
        let serving = spawn(&data, memory_mib);
        Victim {
            serving,
            data,
            memory_mib,
        }
    }

    /// Kills the server and starts it again on the same data.
    pub fn restart(&mut self) {
        // Before the next one begins, because a data folder has one server.
        self.serving.kill();
        self.serving = spawn(&self.data, self.memory_mib);
    }

    /// The most memory that the process has ever had.
    pub fn high_water_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.serving.child.id()));
        let status = status.expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kib: u64 = kib
            .and_then(|kib| kib.trim().parse().ok())
            .expect("a number");
        kib / 1024
    }

    pub fn get(&self, path: &str) -> Answer {
        let mut stream = self.connect();
        self.head(&mut stream, "GET", path, 0);
        self.read_answer(stream)
    }

    /// Reads at most so many bytes of an answer, and hangs up. Returns how many came.
    pub fn begin_get(&self, path: &str, most: usize) -> u64 {
        let mut stream = self.connect();
        self.head(&mut stream, "GET", path, 0);
        let read = std::io::copy(&mut stream.take(most as u64), &mut std::io::sink());
        read.unwrap_or(0)
    }

    pub fn delete(&self, path: &str) -> Answer {
        let mut stream = self.connect();
        self.head(&mut stream, "DELETE", path, 0);
        self.read_answer(stream)
    }

    pub fn post(&self, path: &str, json: &str) -> Answer {
        let mut stream = self.connect();
        let (host, length) = (&self.serving.address, json.len());
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{json}"
        )
        .expect("the server reads");
        self.read_answer(stream)
    }

    pub fn put(&self, path: &str, body: &[u8]) -> Answer {
        self.read_answer(self.begin_put(path, body))
    }

    /// Sends a body and does not wait for the answer.
    pub fn begin_put(&self, path: &str, body: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        self.head(&mut stream, "PUT", path, body.len());
        // The server may refuse the upload and close the connection before all is sent.
        let _ = stream.write_all(body);
        stream
    }

    /// Asks the server to stop and waits until it has stopped.
    pub fn terminate(&mut self) {
        self.serving.stop();
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.serving.address).expect("the server listens")
    }

    fn head(&self, stream: &mut TcpStream, method: &str, path: &str, length: usize) {
        let host = &self.serving.address;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n"
        )
        .expect("the server reads");
    }

    /// Reads the answer.
    pub fn read_answer(&self, mut stream: TcpStream) -> Answer {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .expect("a head");
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let mut body = answer.split_off(end + 4);
        if head
            .to_ascii_lowercase()
            .contains("transfer-encoding: chunked")
        {
            body = unchunked(&body);
        }
        Answer {
            status: status.unwrap_or_else(|| panic!("{head}")),
            body,
        }
    }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|w| w == b"\r\n") {
        let length = String::from_utf8_lossy(&body[..end]).into_owned();
        let length = usize::from_str_radix(&length, 16).expect("a length");
        let start = end + 2;
        whole.extend_from_slice(&body[start..start + length]);
        body = &body[(start + length + 2).min(body.len())..];
    }
    whole
}

fn spawn(data: &TempDir, memory_mib: u64) -> Serving {
    let mut command = serve(data.path());
    command
        .args(["--repack-level", "0"])
        .args(["--memory", &format!("{memory_mib}MiB")]);
    Serving::run(command).expect("the server says where it listens")
}
