//! *Allocated* of the ranks on one scale. If there are few ranks, each has a small picture. If
//! there are many, there is one band for all of them, and any single rank can be drawn over it.

use crate::client;
use crate::components::focus::show;
use crate::format;
use crate::timeline::picture::{UNMEASURED, paint_when_changed};
use crate::url_state::UrlState;
use ::timeline::colours::Palette;
use ::timeline::overlay::{self, Detail, Overlay};
use api::compare;
use api::jobs::{JobDetail, RankCurve};
use api::problem::Problem;
use api::routes;
use leptos::html;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::components::problem_note::behind_colon;
use presentation::pages::job::curves::{
    band, baseline, by_oddness, highest, line, median, median_for, oddest_first, of_which,
    pictured, rank_of, reach, why,
};
use presentation::pages::job::job_state::JobState;
use std::sync::Arc;
use trace::compare::curves::Align;
use trace::ranks::Rank;
use trace::trace::StepSource;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement, KeyboardEvent};

/// The largest number of cells in the strip; if there are more ranks, the oddest ones.
const MOST_CELLS: usize = 512;

/// The pictures.
#[component]
pub fn Curves(job: Arc<JobDetail>, view: UrlState<JobState>) -> impl IntoView {
    let axis = match job
        .ranks
        .iter()
        .any(|r| r.row.step_source != StepSource::None)
    {
        true => "Allocated over steps",
        false => "Allocated over the recording; no rank has steps",
    };
    match job.ranks.len() > JobDetail::MAX_CURVES {
        true => view! { <Many job=job axis=axis view=view/> }.into_any(),
        false => view! { <Few job=job axis=axis/> }.into_any(),
    }
}

#[component]
fn Few(job: Arc<JobDetail>, axis: &'static str) -> impl IntoView {
    let high = highest(&job);
    let grey = baseline(&job);
    let pictures = job.curves.iter().filter_map(|curve| {
        let rank = rank_of(&job, curve.rank)?;
        let shown = Signal::stored(Arc::new(pictured(
            &job,
            vec![median_for(&job, rank), reach(curve)],
        )));
        let (page, name) = (routes::run_page(&rank.run), format!("Rank {}", curve.rank));
        let why = why(rank);
        let odd = !why.is_empty();
        let badge = odd.then(|| view! { <span class="badge caution">"odd"</span> });
        let text = match odd {
            true => why,
            false => rank.row.peaks(),
        };
        let picture = view! {
            <A href=page attr:class="multiple">
                <span class="multiple-name">{name} {badge}</span>
                <Plot curves=shown detail=Detail::Small high=high/>
                <span class="job-why">{text}</span>
            </A>
        };
        Some(picture.into_any())
    });
    let pictures = pictures.collect_view();
    view! {
        <section aria-labelledby="job-curves-title">
            <h2 id="job-curves-title">"Rank by rank"</h2>
            <p class="muted">
                {format!("{axis}, all on one scale. The line is the most of each moment, and what \
                          is shaded below it reaches down to the least. The grey line is \
                          {grey}.")}
            </p>
            <div class="multiples">{pictures}</div>
        </section>
    }
}

/// The line of the chosen rank.
#[derive(Clone)]
enum Line {
    Waiting,
    There(RankCurve),
    Failed(Problem),
}

impl Line {
    /// What to say while it is not drawn.
    fn note(&self) -> Option<String> {
        match self {
            Line::Waiting => Some(" Its line is being fetched.".to_owned()),
            Line::There(_) => None,
            Line::Failed(problem) => Some(format!(
                " Its line cannot be drawn: {} Choose it again to try again.",
                behind_colon(&problem.title)
            )),
        }
    }
}

#[component]
fn Many(job: Arc<JobDetail>, axis: &'static str, view: UrlState<JobState>) -> impl IntoView {
    let state = view.state();
    let chosen = RwSignal::new(state.with_untracked(|state| state.drawn(&by_oddness(&job))));
    let choose = Callback::new(move |rank| {
        // Also for the rank that is chosen already: its line may not have come.
        chosen.set(rank);
        view.update(|state| state.rank = Some(rank));
        show(".job-band");
    });
    let curve = RwSignal::new(Line::Waiting);
    let asked = Arc::clone(&job);
    Effect::new(move |_| {
        let rank = chosen.get();
        let known = asked.curves.iter().find(|curve| curve.rank == rank);
        if let Some(known) = known {
            return curve.set(Line::There(known.clone()));
        }
        // The line of another rank must not stay under the name of this one.
        curve.set(Line::Waiting);
        let route = routes::job_curve(&asked.job.id, rank);
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            let line = client::get::<RankCurve>(&route).await;
            let _ = curve.try_set(line.map_or_else(Line::Failed, Line::There));
        });
    });
    let pictured_job = Arc::clone(&job);
    let shown = Signal::derive(move || {
        let mut runs = vec![median(&pictured_job)];
        curve.with(|curve| match curve {
            Line::There(curve) => runs.push(line(curve)),
            Line::Waiting | Line::Failed(_) => {}
        });
        runs.push(band(&pictured_job));
        Arc::new(pictured(&pictured_job, runs))
    });
    let (high, which) = (highest(&job), of_which(&job));
    let told = Arc::clone(&job);
    let about = move || {
        let rank = rank_of(&told, chosen.get())?;
        let why = match why(rank) {
            none if none.is_empty() => "not odd".to_owned(),
            why => why,
        };
        Some(view! {
            <p class="job-chosen" role="status">
                <A href=routes::run_page(&rank.run)>{format!("Rank {}", rank.row.rank)}</A>
                {format!(" {}: {why}.", rank.row.peaks())}
                {move || curve.with(Line::note)}
            </p>
        })
    };
    view! {
        <section aria-labelledby="job-curves-title">
            <h2 id="job-curves-title">"All ranks"</h2>
            <p class="muted">
                {format!("{axis}: the most of each moment. Shaded is what lies between the lowest \
                          and the highest rank, grey is the median{which}, and the line is \
                          the rank that is chosen below.")}
            </p>
            <div class="job-band">
                <Plot curves=shown detail=Detail::Axes high=high band=true/>
            </div>
            {about}
            <Strip job=job chosen=chosen choose=choose/>
        </section>
    }
}

/// A cell for each rank, the oddest first, as high as its peak.
#[component]
fn Strip(job: Arc<JobDetail>, chosen: RwSignal<Rank>, choose: Callback<Rank>) -> impl IntoView {
    let ranks = oddest_first(&job);
    let more = ranks.len().saturating_sub(MOST_CELLS);
    let largest = job.allocated.map_or(1, |spread| spread.max.0.max(1));
    let first = chosen.get_untracked();
    let shown = ranks.into_iter().enumerate();
    // The rank that the address names is there in any case.
    let shown = shown.filter(|(at, one)| *at < MOST_CELLS || one.row.rank == first);
    let cells = shown.map(|(_, one)| {
        let rank = one.row.rank;
        let odd = !one.row.odd.is_empty();
        let peak = one.row.peak_allocated;
        let label = match odd {
            true => format!("Rank {rank}, odd: {}", why(one)),
            false => format!("Rank {rank}, peak {}", one.row.peak()),
        };
        let share = format::percent(peak.0, largest);
        let height = format!("calc((100% - var(--number-h)) * {share} / 100)");
        let pressed = move || chosen.get() == rank;
        view! {
            <li>
                <button
                    class="rank-cell"
                    class:odd=odd
                    class:pressed=pressed
                    aria-pressed=move || pressed().to_string()
                    tabindex=move || if pressed() { "0" } else { "-1" }
                    aria-label=label.clone()
                    title=label
                    on:click=move |_| choose.run(rank)
                >
                    <span class="rank-level" style:height=height></span>
                    <span class="rank-number">{rank.0}</span>
                </button>
            </li>
        }
    });
    let cells = cells.collect_view();
    let more = (more > 0).then(|| {
        let text = format!(
            "and {} that are less odd",
            format::plural(more as u64, "rank")
        );
        view! { <p class="muted">{text}</p> }
    });
    view! {
        <div role="group" aria-label="Ranks, the oddest first; arrow keys move among them">
            <ul class="rank-strip" on:keydown=move |event| move_focus(&event)>
                {cells}
            </ul>
        </div>
        {more}
    }
}

/// The Tab key stops once for all cells, because there may be hundreds. Arrow keys move among them.
fn move_focus(event: &KeyboardEvent) {
    let Some(item) = document()
        .active_element()
        .and_then(|cell| cell.parent_element())
    else {
        return;
    };
    let found = match event.key().as_str() {
        "ArrowRight" => item.next_element_sibling(),
        "ArrowLeft" => item.previous_element_sibling(),
        "ArrowDown" => in_column(&item, Element::next_element_sibling),
        "ArrowUp" => in_column(&item, Element::previous_element_sibling),
        _ => return,
    };
    event.prevent_default();
    let cell = found.and_then(|item| item.first_element_child());
    if let Some(cell) = cell.and_then(|cell| cell.dyn_into::<HtmlElement>().ok()) {
        // Fails only for an element that has left the page.
        let _ = cell.focus();
    }
}

/// The cell above or below.
fn in_column(item: &Element, step: fn(&Element) -> Option<Element>) -> Option<Element> {
    let left = |item: &Element| item.get_bounding_client_rect().left();
    let mut found = step(item)?;
    while left(&found) != left(item) {
        found = step(&found)?;
    }
    Some(found)
}

/// A picture of curves without a pointer.
#[component]
fn Plot(
    #[prop(into)] curves: Signal<Arc<compare::Curves>>,
    detail: Detail,
    high: u64,
    /// Whether the last curve is the range of all ranks.
    #[prop(optional)]
    band: bool,
) -> impl IntoView {
    let (element, holder) = (NodeRef::<html::Canvas>::new(), NodeRef::<html::Div>::new());
    let size = RwSignal::new(UNMEASURED);
    let scene = move |size, palette: &Palette| {
        let curves = curves.get();
        let runs: Vec<usize> = (0..curves.runs.len()).collect();
        let overlay = Overlay {
            curves: &curves,
            window: curves.whole,
            align: Align::Step,
            runs: &runs,
            against: runs.len().saturating_sub(1),
            band: band.then(|| runs.len().saturating_sub(1)),
            filled: false,
            detail,
            high: Some(high),
        };
        Some(overlay::scene(&overlay, size, palette))
    };
    paint_when_changed((element, holder), size, Box::new(scene));
    view! {
        <div class="job-plot" node_ref=holder>
            <canvas node_ref=element aria-hidden="true"></canvas>
        </div>
    }
}
