//! A minimal HTTP client for measuring: one connection that stays open, with nothing in between.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A connection.
pub struct Connection {
    host: String,
    stream: BufReader<TcpStream>,
}

/// An answer, read to its end.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Connection {
    /// Connects to `http://HOST:PORT`.
    pub fn to(url: &str) -> Connection {
        let host = url
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        let stream = TcpStream::connect(&host).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        Connection {
            host,
            stream: BufReader::new(stream),
        }
    }

    /// Reads an address.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send("GET", path, &[])
    }

    /// Sends a request with a body.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn send(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\naccept-encoding: zstd\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        self.read()
    }

    fn read(&mut self) -> io::Result<Answer> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|text| text.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("no answer"))?;
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Answer { status, body })
    }
}
