//! A server in a process of its own: where it listens, what it logs, and how it ends.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A running server; killed when dropped.
pub struct Serving {
    /// Its process.
    pub child: Child,
    /// Host and port.
    pub address: String,
    log: Arc<Mutex<String>>,
}

/// The command that serves a data folder, at a port that is free.
pub fn serve(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data);
    command
}

impl Serving {
    /// Serves a data folder.
    pub fn start(data: &Path) -> Serving {
        Serving::run(serve(data)).unwrap_or_else(|log| panic!("it does not start: {log}"))
    }

    /// Starts a server with any command. Returns it, or its output if it ended.
    pub fn run(mut command: Command) -> Result<Serving, String> {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let log = Arc::new(Mutex::new(String::new()));
        let mut line = String::new();
        while stderr.read_line(&mut line).expect("it is text") > 0 {
            // The address ends at the end of the line, or at the quote in a line of JSON.
            if let Some((_, address)) = line.split_once("listening on http://") {
                let end = address.find(['"', '\n']).unwrap_or(address.len());
                let address = address[..end].to_owned();
                let said = Arc::clone(&log);
                // A server whose log nobody reads would wait for that.
                std::thread::spawn(move || {
                    for line in stderr.lines().map_while(Result::ok) {
                        let mut said = said.lock().unwrap();
                        said.push_str(&line);
                        said.push('\n');
                    }
                });
                return Ok(Serving {
                    child,
                    address,
                    log,
                });
            }
            log.lock().unwrap().push_str(&line);
            line.clear();
        }
        child.wait().expect("it was started");
        Err(log.lock().unwrap().clone())
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has logged since it listens.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Asks it to stop, and waits until it has stopped.
    pub fn stop(&mut self) {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(asked.expect("there is a command kill").success());
        self.child.wait().expect("it was started");
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.kill();
    }
}
