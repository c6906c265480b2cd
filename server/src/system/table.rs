//! Tables in plain text.

/// A table: the first column is aligned left, the others right.
pub struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table that has only its head.
    pub fn new(head: [&str; N]) -> Table<N> {
        Table {
            rows: vec![head.map(str::to_owned)],
        }
    }

    /// One more row.
    pub fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// The lines of the table with aligned columns, each line after `indent`.
    pub fn print(&self, indent: &str) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        let line = |row: &[String; N]| {
            let mut line = format!("{indent}{:<w$}", row[0], w = widths[0]);
            for column in 1..N {
                line += &format!("  {:>w$}", row[column], w = widths[column]);
            }
            line.trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["", "a", "b", "c", "d"]);
        table.row(["x", "1", "22", "", ""].map(str::to_owned));
        table.row(["long", "333", "4", "", ""].map(str::to_owned));
        assert_eq!(
            table.print(" "),
            "         a   b  c  d\n x       1  22\n long  333   4\n"
        );
    }
}
