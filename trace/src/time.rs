//! Event times in four bytes each.

use crate::footprint::of_vec;
use crate::units::Micros;

/// A column of times, stored as differences.
///
/// Neighbouring events are microseconds apart, so a difference fits `u32`. A difference that does
/// not (a pause of more than 71 minutes, a clock that jumps back) is kept in a separate list. An
/// anchor every [`ANCHOR_EVERY`] rows makes reading one row cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeColumn {
    deltas: Vec<u32>,
    anchors: Vec<i64>,
    /// Rows whose difference does not fit, by row, ascending.
    wide: Vec<(u32, i64)>,
    last: i64,
}

/// Rows between anchors.
const ANCHOR_EVERY: usize = 256;
/// Marks a row whose difference is in `wide`.
const WIDE: u32 = u32::MAX;

impl FromIterator<Micros> for TimeColumn {
    fn from_iter<T: IntoIterator<Item = Micros>>(times: T) -> TimeColumn {
        let mut column = TimeColumn::default();
        times.into_iter().for_each(|time| column.push(time));
        column
    }
}

impl TimeColumn {
    /// Appends a time.
    #[inline]
    pub fn push(&mut self, time: Micros) {
        let row = self.deltas.len();
        let delta = time.0.wrapping_sub(self.last);
        if row.is_multiple_of(ANCHOR_EVERY) {
            self.anchors.push(time.0);
        }
        match u32::try_from(delta) {
            Ok(small) if small != WIDE => self.deltas.push(small),
            _ => {
                self.deltas.push(WIDE);
                self.wide.push((row as u32, time.0));
            }
        }
        self.last = time.0;
    }

    /// The time of a row.
    pub fn get(&self, row: usize) -> Micros {
        let anchor = row / ANCHOR_EVERY;
        let mut time = self.anchors[anchor];
        for at in anchor * ANCHOR_EVERY + 1..=row {
            time = self.after(time, at);
        }
        Micros(time)
    }

    /// All times in order.
    pub fn iter(&self) -> impl Iterator<Item = Micros> + '_ {
        let mut time = 0;
        (0..self.deltas.len()).map(move |row| {
            time = self.after(time, row);
            Micros(time)
        })
    }

    /// Gives back memory for rows that never came.
    pub fn shrink(&mut self) {
        self.deltas.shrink_to_fit();
        self.anchors.shrink_to_fit();
        self.wide.shrink_to_fit();
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.deltas) + of_vec(&self.anchors) + of_vec(&self.wide)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.deltas.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }

    /// Whether times never decrease. A clock that was set back while it recorded shows here.
    pub fn ascends(&self) -> bool {
        let mut last = Micros(i64::MIN);
        self.iter()
            .all(|time| time >= std::mem::replace(&mut last, time))
    }

    /// The first row whose time is later than `time`, if times never decrease.
    pub fn first_after(&self, time: Micros) -> usize {
        let anchor = self.anchors.partition_point(|&t| t <= time.0);
        let first = anchor.saturating_sub(1) * ANCHOR_EVERY;
        // The time at the next anchor is later, so the search ends there. If times went back and
        // forth, a search beyond it would not be better, and a hostile file could make it look at
        // every row.
        let rows = first..self.len().min(first + ANCHOR_EVERY);
        let end = rows.end;
        let mut at = self.anchors.get(first / ANCHOR_EVERY).copied();
        for row in rows {
            let Some(before) = at else { return row };
            let here = if row == first {
                before
            } else {
                self.after(before, row)
            };
            if here > time.0 {
                return row;
            }
            at = Some(here);
        }
        end
    }

    fn after(&self, time: i64, row: usize) -> i64 {
        match self.deltas[row] {
            WIDE => {
                let at = self.wide.partition_point(|&(r, _)| r < row as u32);
                self.wide[at].1
            }
            // What was pushed may lie at both ends of the numbers, and wrapped around there.
            delta => time.wrapping_add(i64::from(delta)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_back_what_was_pushed(
            times in prop::collection::vec(
                prop_oneof![0..5_000_i64, any::<i64>(), Just(1 << 40)], 0..700,
            ),
        ) {
            let mut column = TimeColumn::default();
            times.iter().for_each(|&t| column.push(Micros(t)));
            prop_assert_eq!(column.iter().map(|t| t.0).collect::<Vec<_>>(), times.clone());
            for (row, &time) in times.iter().enumerate() {
                prop_assert_eq!(column.get(row).0, time);
            }
        }

        #[test]
        fn tells_whether_times_ascend(times in prop::collection::vec(0..9_i64, 0..6)) {
            let column: TimeColumn = times.iter().copied().map(Micros).collect();
            prop_assert_eq!(column.ascends(), times.is_sorted());
        }

        #[test]
        fn finds_the_first_later_row(
            mut times in prop::collection::vec(0..3_000_i64, 0..700), at in 0..3_000_i64,
        ) {
            times.sort_unstable();
            let mut column = TimeColumn::default();
            times.iter().for_each(|&t| column.push(Micros(t)));
            prop_assert_eq!(column.first_after(Micros(at)), times.partition_point(|&t| t <= at));
        }
    }
}
