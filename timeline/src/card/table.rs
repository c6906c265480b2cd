//! The runs of a comparison as rows of a table, which is also the legend of the curves below it.

use super::{MARGIN, SIZE, Tone, Writer};
use crate::overlay::run_colour;
use crate::plot::PxRect;
use crate::scene::Anchor;

/// Middle of the line with the titles of the columns.
const HEAD: i32 = 82;

/// Right ends of the columns of numbers: each value is followed by its change.
const VALUES: [i32; 3] = [570, 770, 968];

/// Where names end.
const NAME_END: i32 = VALUES[0] - 120;

/// Space between a value and its change.
const GAP: i32 = 12;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Value and change, three at most.
    pub cells: Vec<(String, String)>,
    /// The result in a word.
    pub word: String,
    /// The tone of that word.
    pub tone: Tone,
}

/// Height of a row and size of its texts. If there are many rows, they are smaller, so that the
/// picture has enough room.
fn measure(rows: usize) -> (i32, f64) {
    match rows {
        0..=4 => (27, 19.0),
        _ => (22, 16.0),
    }
}

/// Middle of a row.
fn middle(row: usize, rows: usize) -> i32 {
    let (height, _) = measure(rows);
    HEAD + 4 + height * (row as i32 + 1)
}

/// Where the last row ends.
pub(super) fn end(rows: usize) -> i32 {
    middle(rows, rows) - measure(rows).0 / 2
}

impl Writer<'_> {
    pub(super) fn table(&mut self, about: &str, columns: &[String], rows: &[Row]) {
        let palette = self.palette;
        self.fitted(
            (MARGIN, HEAD),
            16.0,
            palette.muted,
            about,
            NAME_END - MARGIN,
        );
        for (column, x) in columns.iter().zip(VALUES) {
            self.text((x, HEAD), Anchor::Right, 16.0, palette.muted, column);
        }
        for (at, row) in rows.iter().enumerate() {
            self.row(middle(at, rows.len()), measure(rows.len()).1, at, row);
        }
    }

    fn row(&mut self, y: i32, size: f64, run: usize, row: &Row) {
        let palette = self.palette;
        let swatch = PxRect {
            x0: MARGIN,
            y0: y - 6,
            x1: MARGIN + 12,
            y1: y + 6,
        };
        self.scene.fill(swatch, run_colour(palette, run));
        let x = swatch.x1 + 10;
        self.fitted((x, y), size, palette.text, &row.name, NAME_END - x);
        for ((value, change), x) in row.cells.iter().zip(VALUES) {
            self.text((x, y), Anchor::Right, size, palette.text, value);
            let x = x + GAP;
            self.text((x, y), Anchor::Left, size - 3.0, palette.muted, change);
        }
        let (ink, _) = self.theme.tone(row.tone);
        self.text((SIZE.0 - MARGIN, y), Anchor::Right, size, ink, &row.word);
    }
}
