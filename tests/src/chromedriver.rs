//! The chromedriver process: how it starts and ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::places;

/// How long Chromium may take to close its windows before it is killed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// How often chromedriver is started. It may end before it has a port: it takes a free port of
/// IPv4, then the port with the same number of IPv6, and ends if another process has that one.
const STARTS: usize = 5;

/// A chromedriver on its own port. When it is dropped, the process and its browsers end, even if
/// the test panicked. A process that stayed would hold the test's output open, and whoever reads
/// that would wait forever.
pub(crate) struct Chromedriver {
    child: Child,
    port: u16,
}

impl Chromedriver {
    pub fn start() -> Self {
        let mut said = String::new();
        for _ in 0..STARTS {
            match Self::try_start() {
                Ok(started) => return started,
                Err(words) => said = words,
            }
        }
        panic!(
            "chromedriver ended {STARTS} times before it had a port; the last time it said:\n{said}"
        );
    }

    /// Fails with what chromedriver said, if it ends before it has a port.
    fn try_start() -> Result<Self, String> {
        let mut child = Command::new(places::program("CHROMEDRIVER", &["chromedriver"]))
            .arg("--port=0")
            .env("FONTCONFIG_FILE", places::fonts_conf())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let mut said = String::new();
        for line in lines.by_ref() {
            if let Some(port) = port_in(&line) {
                // Reads on, because a full pipe would block chromedriver.
                thread::spawn(move || lines.for_each(drop));
                return Ok(Self { child, port });
            }
            said += &line;
            said.push('\n');
        }
        let _ = child.wait();
        Err(said)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Asks chromedriver to close its browsers and itself.
    fn ask_to_stop(&self) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(SHUTDOWN_TIMEOUT))?;
        write!(
            stream,
            "GET /shutdown HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        )?;
        stream.read_to_end(&mut Vec::new())?;
        Ok(())
    }
}

impl Drop for Chromedriver {
    fn drop(&mut self) {
        let asked = Instant::now();
        if self.ask_to_stop().is_ok() {
            while asked.elapsed() < SHUTDOWN_TIMEOUT {
                if let Ok(Some(_)) = self.child.try_wait() {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port in the line that chromedriver prints when it is ready.
fn port_in(line: &str) -> Option<u16> {
    let (_, port) = line.split_once("successfully on port ")?;
    port.trim_end_matches('.').parse().ok()
}
