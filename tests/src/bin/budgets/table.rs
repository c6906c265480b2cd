//! The table in Markdown, with the figures in one column.

use std::fmt;

/// Rows of measured values.
pub struct Table {
    raw_bytes: u64,
    rows: Vec<[String; 3]>,
}

const MB: f64 = 1e6;
const KB: f64 = 1e3;

impl Table {
    /// A table about a snapshot of `raw_bytes`.
    pub fn new(raw_bytes: u64) -> Table {
        Table {
            raw_bytes,
            rows: Vec::new(),
        }
    }

    fn row(&mut self, what: &str, budget: &str, measured: String) {
        eprintln!("{what}: {measured}");
        self.rows
            .push([what.to_owned(), budget.to_owned(), measured]);
    }

    /// Seconds of the baseline divided by our seconds.
    pub fn ratio(&mut self, what: &str, budget: &str, baseline: f64, ours: f64) {
        let ratio = baseline / ours;
        self.row(
            what,
            budget,
            format!("**{ratio:.1}×** ({ours:.2} s against {baseline:.1} s)"),
        );
    }

    /// Memory.
    pub fn bytes(&mut self, what: &str, budget: &str, bytes: u64) {
        self.row(what, budget, format!("{:.0} MB", bytes as f64 / MB));
    }

    /// Wall time.
    pub fn seconds(&mut self, what: &str, budget: &str, seconds: f64) {
        self.row(what, budget, format!("{seconds:.2} s"));
    }

    /// The time of a frame.
    pub fn milliseconds(&mut self, what: &str, budget: &str, ms: f64) {
        self.row(what, budget, format!("{ms:.1} ms"));
    }

    /// Transferred bytes.
    pub fn kilobytes(&mut self, what: &str, budget: &str, bytes: f64) {
        self.row(what, budget, format!("{:.0} KB", bytes / KB));
    }

    /// Stored bytes, as a share of the snapshot.
    pub fn share(&mut self, what: &str, budget: &str, bytes: u64) {
        let share = bytes as f64 * 100.0 / self.raw_bytes as f64;
        self.row(
            what,
            budget,
            format!("{share:.1} % ({:.1} MB)", bytes as f64 / MB),
        );
    }

    /// A number of things.
    pub fn count(&mut self, what: &str, n: usize) {
        self.row(what, "", n.to_string());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | budget | measured |\n|---|---|---|")?;
        for [what, budget, measured] in &self.rows {
            writeln!(f, "| {what} | {budget} | {measured} |")?;
        }
        Ok(())
    }
}
