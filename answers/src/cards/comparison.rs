//! The card of a comparison.

use super::{AT_PEAK, CATEGORIES, capital, held_then, sentence};
use crate::benched;
use api::compare::{Comparison, Curves, CurvesWanted};
use api::compare_view::CompareState;
use timeline::card::{self, Card, MAX_SITES, Numbers, PICTURE_SCALE, Row, Theme, Tone};
use timeline::format::plural;
use timeline::overlay::{self, Canvas, Detail, Overlay};
use timeline::scene::Scene;
use trace::categories::Named;
use trace::code::file_name;
use trace::compare::sites::SiteDelta;
use trace::compare::words::{growth_by, growth_told, signed};
use trace::compare::{Change, Difference, Side};
use trace::trace::{Series, SeriesSummary};
use trace::units::Bytes;

/// Parts of the curves: one for every second pixel.
const PARTS: u32 = 500;

/// In a picture lower than this, the lane of differences would take most of the space, pixels.
const LANE_FROM: i32 = 260;

/// Letters of a name before a sentence.
const SHORT_NAME: usize = 28;

/// The content of a comparison's card.
pub struct ComparisonCard {
    card: Card,
    picture: Scene,
    theme: Theme,
}

impl ComparisonCard {
    /// The card of a comparison in a view, with the curves from [`curves_of`].
    pub fn new(
        comparison: &Comparison,
        curves: &Curves,
        view: &CompareState,
        theme: Theme,
    ) -> ComparisonCard {
        let card = card(comparison, view);
        let place = card.numbers.picture();
        let canvas = Canvas {
            width: f64::from(place.width()) / PICTURE_SCALE,
            height: f64::from(place.height()) / PICTURE_SCALE,
            scale: PICTURE_SCALE,
        };
        let runs: Vec<usize> = (0..curves.runs.len()).collect();
        let overlay = Overlay {
            curves,
            window: curves.window,
            align: view.align,
            runs: &runs,
            against: against(comparison, view),
            band: None,
            filled: true,
            detail: match place.height() {
                LANE_FROM.. => Detail::Full,
                _ => Detail::Axes,
            },
            high: None,
        };
        ComparisonCard {
            picture: overlay::scene(&overlay, canvas, &theme.palette()),
            card,
            theme,
        }
    }

    /// The card as a scene.
    pub fn scene(&self) -> Scene {
        card::scene(&self.card, std::slice::from_ref(&self.picture), self.theme)
    }
}

/// The curves for a card.
pub fn curves_of(comparison: &Comparison, view: &CompareState) -> CurvesWanted {
    CurvesWanted {
        align: view.align,
        series: view.series,
        pair: pair(comparison, view) as u32,
        window: view.window,
        parts: PARTS,
    }
}

/// The selected run, by its position among the runs.
fn against(comparison: &Comparison, view: &CompareState) -> usize {
    let others = comparison.against.len().max(1);
    (view.against as usize).clamp(1, others)
}

/// The selected pair of devices, chosen as on the page.
fn pair(comparison: &Comparison, view: &CompareState) -> usize {
    let against = &comparison.against[against(comparison, view) - 1];
    against.pair(view.pair).unwrap_or(0)
}

fn card(comparison: &Comparison, view: &CompareState) -> Card {
    let (at, pair) = (against(comparison, view), pair(comparison, view));
    let differences = comparison.against.iter().map(|one| one.devices.get(pair));
    let differences: Vec<Option<&Difference>> = differences.collect();
    let shown = differences[at - 1];
    let (sites_title, sites) = shown.map(sites).unwrap_or_default();
    let (verdict, tone) = match shown {
        Some(difference) => (word(difference.change), tone(difference.change)),
        None => ("cannot tell", Tone::Unknown),
    };
    let reason = match shown {
        Some(difference) => {
            let others = other_devices(&comparison.against[at - 1].devices, pair);
            format!("{}{others}", difference.headline)
        }
        None => {
            let known = benched::known(&comparison.against[at - 1].gate);
            let known = known.map(|finding| finding.detail.clone());
            let none = "no device in both runs holds memory or events".to_owned();
            known.chain([none]).collect::<Vec<_>>().join("; ")
        }
    };
    let reason = match comparison.runs.len() {
        2 => sentence(&reason),
        _ => format!("{}: {reason}", shortened(&comparison.runs[at].name)),
    };
    Card {
        title: title(comparison),
        subtitle: subtitle(view, shown),
        numbers: numbers(comparison, &differences),
        verdict: capital(verdict),
        tone,
        reason,
        at_peak: shown.map(categories).unwrap_or_default(),
        sites_title,
        sites,
    }
}

/// What became of the other devices, where they are not the same: `; device 1: worse`.
fn other_devices(devices: &[Difference], shown: usize) -> String {
    let others = devices.iter().enumerate().filter(|(at, other)| {
        *at != shown && !matches!(other.change, Change::None | Change::Moved)
    });
    others
        .map(|(_, other)| {
            let name = other.new.device.name();
            format!("; {name}: {}", word(other.change))
        })
        .collect()
}

/// How the composition of the peaks differs: `activations −7.00 GiB`.
pub fn categories(difference: &Difference) -> String {
    let mut changes = difference.category_changes();
    changes.retain(|(_, bytes)| bytes.unsigned_abs() > difference.tolerance.get());
    changes.truncate(CATEGORIES);
    let told: Vec<Named> = changes.iter().map(|(category, _)| *category).collect();
    let inferred = difference.inferred_in(&told).mark();
    let changes = changes.into_iter();
    held_then(
        &format!("{AT_PEAK}{inferred}"),
        changes.map(|(category, bytes)| (category, signed(bytes as f64))),
    )
}

fn title(comparison: &Comparison) -> String {
    let base = &comparison.runs[0].name;
    match &comparison.runs[1..] {
        [new] => format!("{base} → {}", new.name),
        others => format!("{base} → {} others", others.len()),
    }
}

fn shortened(name: &str) -> String {
    match name.chars().count() > SHORT_NAME {
        true => name.chars().take(SHORT_NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// A description of the curves.
fn subtitle(view: &CompareState, shown: Option<&Difference>) -> String {
    let mut parts = vec![
        format!("curves: {}", view.series.name()),
        format!("by {}", view.align.name()),
    ];
    parts.extend(shown.map(|difference| format!("device {}", difference.new.device)));
    parts.join(" · ")
}

fn numbers(comparison: &Comparison, differences: &[Option<&Difference>]) -> Numbers {
    let columns = ["peak allocated", "allocated at the end", "growth a step"];
    let base = differences.iter().flatten().next().map(|difference| {
        let levels = difference.series(Series::Allocated).base;
        cells(&difference.base, levels, None)
    });
    let mut rows = vec![Row {
        name: comparison.runs[0].name.clone(),
        cells: base.unwrap_or_default(),
        word: "baseline".to_owned(),
        tone: Tone::Plain,
    }];
    for (run, difference) in comparison.runs[1..].iter().zip(differences) {
        let (word, tone) = match difference {
            Some(difference) => (short(difference.change), tone(difference.change)),
            None => ("no device", Tone::Unknown),
        };
        rows.push(Row {
            name: run.name.clone(),
            cells: difference.map(changes).unwrap_or_default(),
            word: word.to_owned(),
            tone,
        });
    }
    Numbers::Runs(columns.map(str::to_owned).into(), rows)
}

/// The numbers of a run, and their differences from the baseline's.
fn changes(difference: &Difference) -> Vec<(String, String)> {
    let levels = difference.series(Series::Allocated);
    let (before, after) = (difference.base.growth, difference.new.growth);
    let growth = before.zip(after);
    let growth = growth.and_then(|(before, after)| growth_by(before, after));
    let mut by = [levels.peak as f64, levels.end as f64, growth.unwrap_or(0.0)].map(change);
    // There is no room to say by how much at most.
    if difference.bounded_change(Series::Allocated).is_some() {
        "not known".clone_into(&mut by[0]);
    }
    cells(&difference.new, levels.new, Some(by))
}

fn cells(side: &Side, levels: SeriesSummary, by: Option<[String; 3]>) -> Vec<(String, String)> {
    let growth = side.growth.map_or_else(|| "–".to_owned(), growth_told);
    let least = if side.is_least() { "≥ " } else { "" };
    let peak = format!("{least}{}", levels.peak);
    let values = [peak, levels.end.to_string(), growth];
    values.into_iter().zip(by.unwrap_or_default()).collect()
}

fn change(by: f64) -> String {
    match by.abs() < 0.5 {
        true => String::new(),
        false => signed(by),
    }
}

/// The word for a change.
pub fn word(change: Change) -> &'static str {
    match change {
        Change::None => "same",
        Change::Moved => "same peak",
        Change::Better => "better",
        Change::Worse => "worse",
        Change::Mixed => "better and worse",
        // As the gate says it.
        Change::NotComparable => "cannot tell",
    }
}

/// The same for little space.
fn short(change: Change) -> &'static str {
    match change {
        Change::Moved => "same peak",
        Change::Mixed => "mixed",
        Change::None | Change::Better | Change::Worse | Change::NotComparable => word(change),
    }
}

fn tone(change: Change) -> Tone {
    match change {
        Change::None | Change::Moved => Tone::Plain,
        Change::Better => Tone::Good,
        Change::Worse => Tone::Bad,
        Change::Mixed | Change::NotComparable => Tone::Unknown,
    }
}

/// The sites whose peak grew most; if none grew, those that shrank most.
fn sites(difference: &Difference) -> (String, Vec<(String, String)>) {
    let largest = |sign: i64| {
        let mut sites: Vec<(i64, &SiteDelta)> = difference
            .sites
            .iter()
            .map(|site| (site.by() * sign, site))
            .filter(|(by, _)| *by > 0)
            .collect();
        sites.sort_by_key(|(by, _)| std::cmp::Reverse(*by));
        sites.truncate(MAX_SITES);
        let lines = sites.into_iter();
        lines
            .map(|(by, site)| {
                let place = place_among(site, &difference.sites);
                (signed((by * sign) as f64), place)
            })
            .collect::<Vec<_>>()
    };
    let (grown, shrunk) = (largest(1), largest(-1));
    match (grown.is_empty(), shrunk.is_empty()) {
        (false, _) => ("What grew most".to_owned(), grown),
        (true, false) => ("Nothing grew; what shrank most".to_owned(), shrunk),
        (true, true) => {
            let sites = plural(u64::from(difference.sites_same), "allocation site");
            (format!("No difference by stack: {sites} in both"), shrunk)
        }
    }
}

/// The place of a site, in one line. Where others of these are called so, too, it also names the
/// call that tells it apart.
pub fn place_among(site: &SiteDelta, sites: &[SiteDelta]) -> String {
    let apart = site.apart(sites);
    let apart = apart.map_or_else(String::new, |apart| format!(" {}", apart.told()));
    place(site) + &apart
}

/// The place of a site, in one line.
fn place(site: &SiteDelta) -> String {
    match site.place() {
        // For C++, only the name is useful.
        Some(place) if place.line == 0 => place.name.clone(),
        Some(place) => {
            let file = file_name(&place.filename);
            format!("{} ({file}:{})", place.name, place.line)
        }
        None => {
            let size = site.told().map_or(Bytes::ZERO, |side| side.size);
            format!("no stack, {size} each")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::compare::Against;
    use trace::compare::gate::Limits;
    use trace::compare::profile::Profile;

    #[test]
    fn a_peak_that_is_a_bound_is_told_as_one() {
        let run = |mib: u64| {
            let text = format!("a alloc {mib}MiB at f m.py:1\nb alloc 512B at f m.py:1");
            Profile::of(&trace::testing::trace(&text))
        };
        let mut against = Against::of(&run(100), &run(400), &Limits::default());
        let mut check = |wrapped: bool, expected: [&str; 2]| {
            let difference = &mut against.devices[0];
            difference.new.wrapped = wrapped;
            let (peak, change) = changes(difference).remove(0);
            assert_eq!([peak, change], expected);
        };
        check(false, ["400 MiB", "+300 MiB"]);
        check(true, ["≥ 400 MiB", "not known"]);
    }
}
