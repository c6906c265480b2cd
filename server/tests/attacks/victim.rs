//! The server under attack.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A running server; killed when dropped.
pub struct Victim {
    child: Child,
    address: String,
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
        let (child, address) = spawn(&data, memory_mib);
        Victim {
            child,
            address,
            data,
            memory_mib,
        }
    }

    /// Kills the server and starts it again on the same data.
    pub fn restart(&mut self) {
        self.kill();
        let (child, address) = spawn(&self.data, self.memory_mib);
        (self.child, self.address) = (child, address);
    }

    /// The most memory that the process has ever had.
    pub fn high_water_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
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
        let (host, length) = (&self.address, json.len());
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
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.expect("there is `kill`").success());
        self.child.wait().expect("it is our child");
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).expect("the server listens")
    }

    fn head(&self, stream: &mut TcpStream, method: &str, path: &str, length: usize) {
        let host = &self.address;
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

    fn kill(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
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

fn spawn(data: &TempDir, memory_mib: u64) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidemark"))
        .args(["serve", "--listen", "127.0.0.1:0", "--repack-level", "0"])
        .args(["--memory", &format!("{memory_mib}MiB"), "--data"])
        .arg(data.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let address = lines.find_map(|line| {
        let line = line.expect("the server says where it listens");
        line.strip_prefix("listening on http://").map(str::to_owned)
    });
    // Reads to the end, because a full pipe would stop the server.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address.expect("the server says where it listens"))
}
