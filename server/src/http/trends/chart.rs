//! One number over runs, as a small chart: a dot for each run, with a link to it, and a line at
//! each level.

use maud::{Markup, html};
use std::ops::Range;
use timeline::ticks::{self, Tick};
use trace::compare::told_peak;
use trace::units::Bytes;

/// Size of the picture, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 160.0;
/// Room for dots at the edges, and for the words at the top.
const MARGIN: f64 = 8.0;
const TOP: f64 = 24.0;

/// How far from its middle a dot is met, if there is room. A narrow screen leaves a third of it.
const REACH: f64 = 34.0;

/// One run.
#[derive(Clone, Debug)]
pub struct Dot {
    /// What the run is called.
    pub name: String,
    /// Where it leads.
    pub href: String,
    /// The number.
    pub value: Known,
    /// Whether something is wrong with the run.
    pub bad: bool,
}

/// What is known of a number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The number.
    Exactly(Bytes),
    /// Only that it is no lower: a part of the run was not recorded.
    AtLeast(Bytes),
    /// Nothing.
    Not,
}

impl Known {
    /// How high its dot stands.
    pub fn level(self) -> Option<Bytes> {
        match self {
            Known::Exactly(bytes) | Known::AtLeast(bytes) => Some(bytes),
            Known::Not => None,
        }
    }

    fn words(self) -> String {
        match self {
            Known::Exactly(bytes) => told_peak(bytes, false),
            Known::AtLeast(bytes) => told_peak(bytes, true),
            Known::Not => "cannot tell".to_owned(),
        }
    }
}

/// A level that lasts over some of the runs, by position.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Which runs.
    pub runs: Range<usize>,
    /// Its height.
    pub value: Bytes,
}

/// The position of a value: zero is at the bottom, the highest value is below the words.
fn place(at: usize, of: usize, value: Bytes, highest: Bytes) -> (f64, f64) {
    let share = |part: f64, whole: f64| match whole > 0.0 {
        true => part / whole,
        false => 0.5,
    };
    let x = share(at as f64, of.saturating_sub(1) as f64);
    let y = match highest.0 {
        0 => 0.0,
        most => value.0 as f64 / most as f64,
    };
    let (width, height) = (WIDTH - 2.0 * MARGIN, HEIGHT - TOP - MARGIN);
    (MARGIN + x * width, TOP + (1.0 - y) * height)
}

/// How far from its middle a dot is met: not beyond half the way to its neighbour.
fn reach(n: usize) -> f64 {
    let apart = (WIDTH - 2.0 * MARGIN) / n.saturating_sub(1).max(1) as f64;
    (apart / 2.0).clamp(5.0, REACH)
}

/// Which part of a history is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The newest runs: the last one is how things stand now.
    Newest,
    /// Those before some run.
    Older,
}

/// The chart, with its title.
pub fn chart(title: &str, dots: &[Dot], part: Part, levels: &[Level]) -> Markup {
    let highest = dots.iter().filter_map(|dot| dot.value.level()).max();
    let highest = highest.unwrap_or_default();
    let n = dots.len();
    let rules = rules(highest);
    html! {
        figure class="trend" {
            figcaption {
                strong { (title) }
                span class="muted" { (stands(dots, part)) }
            }
            div class="trend-plot" {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="group"
                    aria-label=(title) {
                    @for (y, _) in &rules {
                        line class="trend-axis" x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                    }
                    @for level in levels {
                        @let (from, y) = place(level.runs.start, n, level.value, highest);
                        @let end = level.runs.end.saturating_sub(1);
                        @let (to, _) = place(end, n, level.value, highest);
                        line class="trend-level" x1=(from) x2=(to) y1=(y) y2=(y) {}
                    }
                    @for (at, dot) in dots.iter().enumerate() {
                        @if let Some(level) = dot.value.level() {
                            @let (x, y) = place(at, n, level, highest);
                            @let words = dot.value.words();
                            a href=(dot.href) aria-label={ (dot.name) ": " (words) } {
                                // The dot is too small to be met by a finger; this is not.
                                circle class="trend-reach" cx=(x) cy=(y) r=(reach(n)) {}
                                // A point with a round pen is as large on every screen; a circle
                                // grows with the picture.
                                path class=(if dot.bad { "trend-dot bad" } else { "trend-dot" })
                                    d={ "M" (x) " " (y) "h0" } {
                                    title { (dot.name) ": " (words) }
                                }
                            }
                        }
                    }
                }
                (labels(&rules))
            }
        }
    }
}

/// The labels of the rules: a picture of its own, in which letters do not grow with the width.
fn labels(rules: &[(f64, String)]) -> Markup {
    html! {
        svg class="trend-ticks" aria-hidden="true" {
            @for (y, label) in rules {
                text x="0" y=(format!("{:.2}%", y / HEIGHT * 100.0)) dy="-3" { (label) }
            }
        }
    }
}

/// The horizontal rules: their height, and the level that they stand for.
fn rules(highest: Bytes) -> Vec<(f64, String)> {
    const MOST: usize = 2;
    let up_to = |most: usize| ticks::bytes(0.0, highest.0 as f64, most);
    // Below 5 GiB, a step of 5 GiB is the next round one.
    let ticks = match up_to(MOST) {
        ticks if ticks.len() > 1 => ticks,
        _ => up_to(MOST + 1),
    };
    let placed = |Tick { at, label }| (place(0, 1, Bytes(at as u64), highest).1, label);
    ticks.into_iter().map(placed).collect()
}

/// How the last run stands, and what the highest value is. If one of the runs may have been higher
/// than is known, so may the highest value.
fn stands(dots: &[Dot], part: Part) -> String {
    let when = match part {
        Part::Newest => "now",
        Part::Older => "last",
    };
    let now = dots.last().map_or(Known::Not, |dot| dot.value).words();
    let is_least = dots
        .iter()
        .any(|dot| matches!(dot.value, Known::AtLeast(_)));
    match dots.iter().filter_map(|dot| dot.value.level()).max() {
        None => now,
        Some(highest) if is_least => format!("{when} {now}, the highest at least {highest}"),
        Some(highest) => format!("{when} {now}, at most {highest}"),
    }
}

/// The levels between changes. Each change has the run at which it happens, and the levels before
/// and after.
pub fn levels(n: usize, changes: &[(usize, Bytes, Bytes)], flat: Option<Bytes>) -> Vec<Level> {
    let Some(&(first, before, _)) = changes.first() else {
        let flat = flat.filter(|_| n > 1);
        let whole = flat.map(|value| Level { runs: 0..n, value });
        return whole.into_iter().collect();
    };
    let mut found = vec![Level {
        runs: 0..first,
        value: before,
    }];
    for (position, &(at, _, after)) in changes.iter().enumerate() {
        let end = changes.get(position + 1).map_or(n, |next| next.0);
        found.push(Level {
            runs: at..end,
            value: after,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_left_the_highest_is_on_top() {
        let check = |at, of, value, expected: (f64, f64)| {
            assert_eq!(place(at, of, Bytes(value), Bytes(100)), expected);
        };
        check(0, 3, 100, (8.0, 24.0));
        check(2, 3, 0, (992.0, 152.0));
        check(1, 3, 50, (500.0, 88.0));
        check(0, 1, 100, (500.0, 24.0));
        assert_eq!(place(0, 2, Bytes(0), Bytes(0)), (8.0, 152.0));
        assert_eq!([1, 2, 42, 1000].map(reach), [34.0, 34.0, 12.0, 5.0]);
    }

    #[test]
    fn round_levels_have_a_rule_and_a_label() {
        let check = |mib: u64, expected: &[&str]| {
            let highest = Bytes::mib(mib);
            let found: Vec<_> = rules(highest).into_iter().map(|(_, label)| label).collect();
            assert_eq!(found, expected);
        };
        check(0, &["0"]);
        check(1843, &["0", "1 GiB"]);
        check(2048, &["0", "1 GiB", "2 GiB"]);
        check(300, &["0", "200 MiB"]);
        check(3082, &["0", "2 GiB"]);
        check(4229, &["0", "2 GiB", "4 GiB"]);
        check(4782, &["0", "2 GiB", "4 GiB"]);
        check(450, &["0", "200 MiB", "400 MiB"]);
        let heights: Vec<f64> = rules(Bytes::gib(2)).into_iter().map(|(y, _)| y).collect();
        assert_eq!(heights, [152.0, 88.0, 24.0]);
    }

    #[test]
    fn the_newest_run_is_told_as_it_is() {
        let check = |values: &[Known], expected: &str| {
            let dot = |&value: &Known| Dot {
                name: "a".to_owned(),
                href: String::new(),
                value,
                bad: false,
            };
            let dots: Vec<Dot> = values.iter().map(dot).collect();
            assert_eq!(stands(&dots, Part::Newest), expected);
            // Of an older part nobody may think that it is how things stand now.
            let older = stands(&dots, Part::Older);
            assert_eq!(older, expected.replace("now", "last"));
        };
        let exactly = |mib: u64| Known::Exactly(Bytes::mib(mib));
        let at_least = |mib: u64| Known::AtLeast(Bytes::mib(mib));
        check(&[exactly(4), exactly(3)], "now 3.00 MiB, at most 4.00 MiB");
        check(
            &[exactly(4), Known::Not],
            "now cannot tell, at most 4.00 MiB",
        );
        check(&[Known::Not, Known::Not], "cannot tell");
        check(
            &[exactly(4), at_least(3)],
            "now at least 3.00 MiB, the highest at least 4.00 MiB",
        );
        check(
            &[at_least(3), exactly(4)],
            "now 4.00 MiB, the highest at least 4.00 MiB",
        );
    }

    #[test]
    fn a_level_lasts_until_the_next_change() {
        let bytes = |n: u64| Bytes(n);
        let of = |changes: &[(usize, u64, u64)], flat: Option<u64>| {
            let changes: Vec<_> = changes
                .iter()
                .map(|&(at, from, to)| (at, bytes(from), bytes(to)))
                .collect();
            let found = levels(10, &changes, flat.map(bytes)).into_iter();
            found
                .map(|level| (level.runs.start, level.runs.end, level.value.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&[], None), []);
        assert_eq!(of(&[], Some(7)), [(0, 10, 7)]);
        let two = of(&[(3, 7, 9), (8, 9, 4)], None);
        assert_eq!(two, [(0, 3, 7), (3, 8, 9), (8, 10, 4)]);
    }

    #[test]
    fn a_dot_says_that_its_number_is_a_bound() {
        let dot = Dot {
            name: "a".to_owned(),
            href: "/runs/run_a".to_owned(),
            value: Known::AtLeast(Bytes::mib(520)),
            bad: false,
        };
        let text = chart("peak", &[dot], Part::Newest, &[]).into_string();
        assert!(
            text.contains("aria-label=\"a: at least 520 MiB\""),
            "{text}"
        );
        assert!(text.contains("<title>a: at least 520 MiB"), "{text}");
    }

    #[test]
    fn names_are_no_markup() {
        let dot = Dot {
            name: "<script>".to_owned(),
            href: "/runs/run_a".to_owned(),
            value: Known::Exactly(Bytes::gib(2)),
            bad: true,
        };
        let text = chart("peak", &[dot], Part::Newest, &[]).into_string();
        assert!(
            text.contains("&lt;script&gt;: 2.00 GiB") && !text.contains("<script"),
            "{text}"
        );
        assert!(text.contains("trend-dot bad"));
    }
}
