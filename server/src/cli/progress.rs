//! How far the reading of a large file is, on stderr.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::time::{Duration, Instant};
use trace::units::Bytes;

/// How often the line is updated.
const TICK: Duration = Duration::from_millis(100);

/// What is done before anybody would wonder needs no line.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A file that shows on stderr how much of it was read, if a person is watching. When it is
/// dropped, the line goes.
pub struct Shown {
    file: File,
    /// Bytes; `None` if nobody knows.
    size: Option<u64>,
    read: u64,
    /// What is said of the work that follows when all was read.
    after: &'static str,
    began: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl Shown {
    /// A file of `size` bytes, if they are known. When all of it was read, the line ends with
    /// `after`.
    pub fn new(file: File, size: Option<u64>, after: &'static str) -> Shown {
        Shown {
            file,
            size,
            read: 0,
            after,
            began: Instant::now(),
            shown: None,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    fn show(&mut self) {
        let is_early = self.began.elapsed() < AT_ONCE;
        if !self.terminal || is_early || self.shown.is_some_and(|at| at.elapsed() < TICK) {
            return;
        }
        self.shown = Some(Instant::now());
        let line = line(self.read, self.size, self.began.elapsed(), self.after);
        // A failed progress line is not an error.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if self.shown.is_some() {
            // A failed progress line is not an error.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Read for Shown {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read += read as u64;
        self.show();
        Ok(read)
    }
}

fn line(read: u64, size: Option<u64>, elapsed: Duration, after: &str) -> String {
    const WIDTH: usize = 30;
    let rate = Bytes((read as f64 / elapsed.as_secs_f64().max(0.001)) as u64);
    let Some(size) = size else {
        return format!("{} so far, {rate}/s", Bytes(read));
    };
    let share = match size {
        0 => 1.0,
        _ => (read as f64 / size as f64).min(1.0),
    };
    let filled = (share * WIDTH as f64) as usize;
    format!(
        "[{}{}] {:3.0} % of {}, {rate}/s{}",
        "█".repeat(filled),
        "·".repeat(WIDTH - filled),
        share * 100.0,
        Bytes(size),
        if read >= size { after } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_share_size_and_rate() {
        let of = |read| {
            line(
                read,
                Some(1 << 30),
                Duration::from_secs(2),
                ", the server is storing it",
            )
        };
        let half = of(512 << 20);
        assert!(half.contains(" 50 % of 1.00 GiB, 256 MiB/s"), "{half}");
        assert!(!half.contains("storing"), "{half}");
        let all = of(1 << 30);
        assert!(all.ends_with("the server is storing it"), "{all}");
        let pipe = line(512 << 20, None, Duration::from_secs(2), "");
        assert_eq!(pipe, "512 MiB so far, 256 MiB/s");
    }
}
