//! Half-open intervals.

use crate::units::EventIdx;
use serde::{Deserialize, Serialize};

/// `[start, end)` with `start <= end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(T, T)", into = "(T, T)")]
#[serde(bound(
    serialize = "T: Serialize + Copy",
    deserialize = "T: Deserialize<'de> + Ord + Copy"
))]
pub struct Span<T: Copy> {
    start: T,
    end: T,
}

/// An interval that ends before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the interval ends before it starts")]
pub struct Backwards;

impl<T: Copy + Ord> Span<T> {
    /// `[start, end)`.
    ///
    /// # Panics
    /// When `end < start`: the caller has mixed up its arguments.
    pub fn new(start: T, end: T) -> Span<T> {
        assert!(start <= end, "a span's end must not lie before its start");
        Span { start, end }
    }

    /// The first position inside.
    pub fn start(self) -> T {
        self.start
    }

    /// The first position after it.
    pub fn end(self) -> T {
        self.end
    }

    /// Whether nothing is inside.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether `at` is inside.
    pub fn contains(self, at: T) -> bool {
        self.start <= at && at < self.end
    }

    /// Whether the two share a position.
    pub fn overlaps(self, other: Span<T>) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }
}

impl Span<EventIdx> {
    /// How many events are inside.
    pub fn len(self) -> u32 {
        self.end.0 - self.start.0
    }
}

impl<T: Copy + Ord> TryFrom<(T, T)> for Span<T> {
    type Error = Backwards;
    fn try_from((start, end): (T, T)) -> Result<Span<T>, Backwards> {
        if start <= end {
            Ok(Span { start, end })
        } else {
            Err(Backwards)
        }
    }
}

impl<T: Copy> From<Span<T>> for (T, T) {
    fn from(span: Span<T>) -> (T, T) {
        (span.start, span.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_outside() {
        let span = Span::new(2, 5);
        assert!(span.contains(2) && span.contains(4) && !span.contains(5));
        assert!(span.overlaps(Span::new(4, 9)) && !span.overlaps(Span::new(5, 9)));
        assert!(span.overlaps(Span::new(4, 9)));
        assert!(!span.overlaps(Span::new(5, 9)));
        assert!(Span::new(3, 3).is_empty());
        let events = |start, end| Span::new(EventIdx(start), EventIdx(end));
        assert_eq!(events(2, 5).len(), 3);
        assert_eq!(events(3, 3).len(), 0);
    }
}
