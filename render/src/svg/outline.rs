//! Outlines around sets of pixels.

use super::cover::Cover;

/// An area between two edges; each edge is a line of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Its left end.
    pub x0: i32,
    /// Each step of the upper edge: where it ends, and its height.
    pub upper: Vec<(i32, i32)>,
    /// The same for the lower edge.
    pub lower: Vec<(i32, i32)>,
}

/// How far an area may reach under the shapes that hide it. So no gap shows between the two when
/// the picture is scaled.
const UNDER: i32 = 2;

/// Outlines of a set of pixels. They may include `hidden` pixels, so that edges have fewer steps.
pub fn outlines(cover: &Cover, hidden: &Cover) -> Vec<Outline> {
    let mut done = Vec::new();
    let mut open: Vec<Area> = Vec::new();
    let columns = cover.columns();
    for x in columns.clone() {
        let mut going_on = Vec::new();
        for (top, bottom) in cover.stretches(x) {
            let away = |(_, area): &(usize, &Area)| area.away(top, bottom);
            let beside = open.iter().enumerate().min_by_key(away);
            let mut area = match beside.map(|(at, _)| at) {
                Some(at) => open.remove(at),
                None => Area::new(x),
            };
            area.last = (top, bottom);
            area.upper.push(x, (highest(hidden, x, top), top));
            area.lower.push(x, (bottom, lowest(hidden, x, bottom)));
            going_on.push(area);
        }
        let ended = std::mem::replace(&mut open, going_on).into_iter();
        done.extend(ended.map(|area| area.end(x)));
    }
    done.extend(open.into_iter().map(|area| area.end(columns.end)));
    done
}

fn highest(hidden: &Cover, x: i32, top: i32) -> i32 {
    let ends = (0..=top).rev().find(|y| !hidden.has(x, y - 1));
    ends.unwrap_or(top)
}

fn lowest(hidden: &Cover, x: i32, bottom: i32) -> i32 {
    let ends = (bottom..).find(|y| !hidden.has(x, *y));
    ends.unwrap_or(bottom)
}

/// An outline under construction.
struct Area {
    x0: i32,
    /// Top and bottom in its last column.
    last: (i32, i32),
    upper: Edge,
    lower: Edge,
}

impl Area {
    fn new(x0: i32) -> Area {
        Area {
            x0,
            last: (0, 0),
            upper: Edge::default(),
            lower: Edge::default(),
        }
    }

    /// The distance between a stretch of the next column and the last one; they need not touch.
    fn away(&self, top: i32, bottom: i32) -> i32 {
        (self.last.0 - bottom).max(top - self.last.1)
    }

    fn end(self, x1: i32) -> Outline {
        Outline {
            x0: self.x0,
            upper: self
                .upper
                .end(x1, |(free, needed)| free.max(needed - UNDER)),
            lower: self
                .lower
                .end(x1, |(needed, free)| free.min(needed + UNDER)),
        }
    }
}

/// An edge that may lie anywhere between two heights in each column. It goes straight on as long as
/// it can.
#[derive(Default)]
struct Edge {
    /// Where each step ends, and the heights between which it may lie.
    steps: Vec<(i32, (i32, i32))>,
    now: Option<(i32, i32)>,
}

impl Edge {
    fn push(&mut self, x: i32, (low, high): (i32, i32)) {
        let now = self.now.get_or_insert((low, high));
        let both = (now.0.max(low), now.1.min(high));
        if both.0 <= both.1 {
            *now = both;
        } else {
            self.steps.push((x, *now));
            *now = (low, high);
        }
    }

    fn end(mut self, x1: i32, height: impl Fn((i32, i32)) -> i32) -> Vec<(i32, i32)> {
        self.steps.extend(self.now.map(|now| (x1, now)));
        let steps = self.steps.into_iter();
        steps.map(|(x, between)| (x, height(between))).collect()
    }
}
