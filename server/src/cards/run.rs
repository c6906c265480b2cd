//! The card of a run.

use super::sentence;
use crate::pictures::{Decoded, marks};
use crate::store::{RunRow, StoreResult};
use crate::texts::Texts;
use api::shares::nameless;
use api::view_state::ViewState;
use std::sync::Arc;
use timeline::card::{self, Card, MAX_SITES, Numbers, PICTURE_SCALE, Theme, Tone};
use timeline::format::{count, plural, short_count};
use timeline::model::{Model, TileRequest};
use timeline::plot::PxRect;
use timeline::scene::Scene;
use trace::leaks::{self, LeakGroup, LeakReport, Verdict};
use trace::stacks::{Frame, Stacks};
use trace::trace::{DeviceTrace, Series, StepSource};
use trace::units::Bytes;

/// What a card of a run is made of.
pub struct RunCard {
    /// The texts.
    pub card: Card,
    /// Peak and end of allocated and reserved.
    pub levels: [(Series, Bytes, Bytes); 2],
    /// Growth per step, in words.
    pub growth: String,
    pictures: Vec<Scene>,
    theme: Theme,
}

impl RunCard {
    /// The card of a run as seen in a view. Takes as long as a look for leaks.
    ///
    /// # Errors
    /// When the run has no such device.
    pub fn new(
        row: &RunRow,
        decoded: &Decoded,
        view: &ViewState,
        texts: Texts,
        theme: Theme,
    ) -> StoreResult<RunCard> {
        let device = chosen(row, decoded, view)?;
        let report = leaks::find(device, &decoded.trace.stacks, &decoded.trace.quality);
        let levels = [Series::Allocated, Series::Reserved].map(|series| {
            let summary = device.summary[series as usize];
            (series, summary.peak, summary.end)
        });
        let growth = growth(&report);
        let numbers = numbers(&levels, &growth);
        let mut model = model(decoded, device, view, theme, numbers.picture());
        let pictures = vec![model.base_scene(), model.overlay_scene()];
        let title = match texts {
            Texts::All => row.name.clone(),
            Texts::Redacted(_) => nameless(&row.id),
        };
        let (sites_title, sites) = sites(&report, &model, &decoded.trace.stacks);
        let (verdict, tone) = verdict(&report);
        let card = Card {
            title,
            subtitle: subtitle(row, device),
            numbers,
            verdict,
            tone,
            reason: sentence(&report.reason),
            sites_title,
            sites,
        };
        Ok(RunCard {
            card,
            levels,
            growth,
            pictures,
            theme,
        })
    }

    /// The card as a scene.
    pub fn scene(&self) -> Scene {
        card::scene(&self.card, &self.pictures, self.theme)
    }
}

/// The device that a view is about: the one it names, else the one with most events.
fn chosen<'d>(
    row: &RunRow,
    decoded: &'d Decoded,
    view: &ViewState,
) -> StoreResult<&'d DeviceTrace> {
    let named = view
        .device
        .filter(|d| row.devices.iter().any(|f| f.device == *d));
    let busiest = row.devices.iter().rev().max_by_key(|facts| facts.events);
    let device = named.or(busiest.map(|facts| facts.device));
    decoded.device(device.unwrap_or_default())
}

/// The page's model, with every tile that the view needs.
fn model(
    decoded: &Decoded,
    device: &DeviceTrace,
    view: &ViewState,
    theme: Theme,
    place: PxRect,
) -> Model {
    let peak = device.summary[Series::Reserved as usize].peak;
    let mut model = Model::new(device.events.len(), peak, view);
    model.set_palette(theme.palette());
    model.set_marks(Arc::new(marks(device, &decoded.trace.stacks)));
    let css = |pixels: i32| f64::from(pixels) / PICTURE_SCALE;
    model.resize(css(place.width()), css(place.height()), PICTURE_SCALE);
    while model.is_waiting() {
        let requests = model.take_requests(0.0);
        if requests.is_empty() {
            break;
        }
        for request in requests {
            match request {
                TileRequest::Series(id) => model.series_arrived(device.series_tile(id)),
                TileRequest::Mountain(group_by, id) => {
                    let index = decoded.mountain_index(device, group_by);
                    model.mountain_arrived(device.mountain_tile(id, &index));
                }
            }
        }
    }
    model
}

fn subtitle(row: &RunRow, device: &DeviceTrace) -> String {
    let mut parts = vec![format!("device {}", device.device)];
    let steps = plural(device.steps.len() as u64, "step");
    match device.step_source {
        StepSource::None => {}
        StepSource::Annotations => parts.push(steps),
        StepSource::Inferred => parts.push(format!("{steps}, inferred")),
    }
    let events = u64::from(device.events.len());
    parts.push(format!("{} events", short_count(events)));
    parts.extend(
        row.torch_guess
            .as_ref()
            .map(|torch| format!("torch {torch}")),
    );
    parts.join(" · ")
}

fn growth(report: &LeakReport) -> String {
    match report.verdict {
        Verdict::Leak => amount(report.bytes_per_step),
        Verdict::Clean => "none".to_owned(),
        Verdict::CannotTell => "cannot tell".to_owned(),
    }
}

fn numbers(levels: &[(Series, Bytes, Bytes); 2], growth: &str) -> Numbers {
    let [(_, allocated, end), (_, reserved, _)] = levels;
    let numbers = [
        ("peak allocated", allocated.to_string()),
        ("peak reserved", reserved.to_string()),
        ("allocated at the end", end.to_string()),
        ("growth per step", growth.to_owned()),
    ];
    Numbers::Headline(numbers.map(|(name, value)| (name.to_owned(), value)).into())
}

fn verdict(report: &LeakReport) -> (String, Tone) {
    match report.verdict {
        Verdict::Leak => ("Leak".to_owned(), Tone::Bad),
        Verdict::Clean => ("No leak".to_owned(), Tone::Good),
        Verdict::CannotTell => ("Cannot tell".to_owned(), Tone::Unknown),
    }
}

/// `+8.00 MiB`.
fn amount(bytes: f64) -> String {
    format!("+{}", Bytes(bytes.max(0.0).round() as u64))
}

/// What accumulates; where nothing does, what the memory consists of where most is allocated.
fn sites(report: &LeakReport, model: &Model, stacks: &Stacks) -> (String, Vec<(String, String)>) {
    if report.verdict == Verdict::Leak {
        let groups = report.groups.iter().take(MAX_SITES);
        let sites = groups.map(|group| leaking(group, stacks)).collect();
        return ("What accumulates".to_owned(), sites);
    }
    let Some(composition) = model.composition() else {
        return (String::new(), Vec::new());
    };
    let mut groups = composition.groups;
    groups.sort_by_key(|group| std::cmp::Reverse(group.bytes));
    groups.truncate(MAX_SITES);
    let sites = groups
        .into_iter()
        .map(|group| (group.bytes.to_string(), group.label));
    let at = count(u64::from(composition.event.0));
    let title = format!("The largest of {} at event {at}", composition.total);
    (title, sites.collect())
}

fn leaking(group: &LeakGroup, stacks: &Stacks) -> (String, String) {
    let frame = group.frame.or(group.alloc_frame);
    let place = frame.map_or_else(|| "no stack recorded".to_owned(), |f| place(f, stacks));
    (format!("{} a step", amount(group.bytes_per_step)), place)
}

/// Function and line, the file without most of its folders.
fn place(frame: Frame, stacks: &Stacks) -> String {
    let file = stacks.str(frame.filename);
    let kept = file.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    let name = stacks.str(frame.name);
    match (file, frame.line) {
        ("" | "??", _) => name.to_owned(),
        (_, 0) => format!("{name} · {}", &file[kept..]),
        (_, line) => format!("{name} · {}:{line}", &file[kept..]),
    }
}
