//! Differences by stack: filtered, searched, sorted. Each row opens both stacks, with links to both
//! timelines.

use super::Focus;
use super::cards::change;
use crate::format;
use api::compare_view::{CompareState, Rows, SiteOrder};
use api::ids::RunId;
use api::routes;
use api::view_state::{Selection, ViewState};
use leptos::prelude::*;
use presentation::letters::lower;
use timeline::order;
use trace::compare::sites::{Matched, SiteChange, SiteDelta, SiteSide};
use trace::units::Bytes;

/// The rows that a state shows, in its order.
fn arranged(sites: &[SiteDelta], state: &CompareState) -> Vec<SiteDelta> {
    let wanted = lower(state.search.trim());
    let mut rows: Vec<SiteDelta> = sites
        .iter()
        .filter(|site| is_in(site.change, state.rows) && matches(site, &wanted))
        .cloned()
        .collect();
    let key = |site: &SiteDelta| match state.order {
        SiteOrder::Largest => site.weight() as f64,
        SiteOrder::Peak => site.peak.unsigned_abs() as f64,
        SiteOrder::AtPeak => site.at_peak.unsigned_abs() as f64,
        SiteOrder::End => site.at_end.unsigned_abs() as f64,
        SiteOrder::Growth => site.growth.abs(),
    };
    order::sort_by(&mut rows, |a, b| key(b).total_cmp(&key(a)));
    rows
}

fn is_in(change: SiteChange, rows: Rows) -> bool {
    match rows {
        Rows::All => true,
        Rows::Grown => change == SiteChange::Grown,
        Rows::Shrunk => change == SiteChange::Shrunk,
        Rows::New => change == SiteChange::New,
        Rows::Gone => change == SiteChange::Gone,
    }
}

fn matches(site: &SiteDelta, wanted: &str) -> bool {
    let sides = site.base.iter().chain(&site.new);
    let mut frames = sides.flat_map(|side| &side.frames);
    wanted.is_empty()
        || frames.any(|frame| {
            lower(&frame.name).contains(wanted) || lower(&frame.filename).contains(wanted)
        })
}

/// The table.
#[component]
pub fn SiteTable(focus: Focus) -> impl IntoView {
    let difference = Memo::new(move |_| focus.difference());
    let rows = Memo::new(move |_| {
        focus.view.state().with(|state| {
            difference.with(|difference| {
                let sites = difference.as_ref().map(|difference| &difference.sites);
                sites.map_or_else(Vec::new, |sites| arranged(sites, state))
            })
        })
    });
    let count = move || {
        difference.with(|difference| {
            difference.as_ref().map_or_else(String::new, |difference| {
                let differ = difference.sites.len() as u64 + u64::from(difference.sites_left_out);
                let same = format::count(u64::from(difference.sites_same));
                match (differ, difference.sites_left_out) {
                    (0, _) => format!("all {same} allocation sites hold the same"),
                    (n, 0) => format!("{} of {same} more the same", format::plural(n, "site")),
                    (n, left) => format!(
                        "{}, the {left} smallest not listed; {same} the same",
                        format::plural(n, "site")
                    ),
                }
            })
        })
    };
    let none = move || rows.with(Vec::is_empty);
    let list = move || {
        let rows = rows.get().into_iter();
        rows.map(|site| view! { <SiteRow focus=focus site=site/> })
            .collect_view()
    };
    view! {
        <section aria-labelledby="sites-title">
            <h2 id="sites-title">"Differences by stack"</h2>
            <p class="muted" role="status">{count}</p>
            <SiteControls focus=focus/>
            <ul class="site-list">{list}</ul>
            <Show when=none>
                <p class="muted">"No difference to list here."</p>
            </Show>
        </section>
    }
}

#[component]
fn SiteControls(focus: Focus) -> impl IntoView {
    let view = focus.view;
    let state = view.state();
    let filters = Rows::ALL.map(|rows| {
        let name = match rows {
            Rows::All => "All",
            Rows::Grown => "Grown",
            Rows::Shrunk => "Shrunk",
            Rows::New => "New",
            Rows::Gone => "Gone",
        };
        let pressed = move || state.with(|state| state.rows == rows);
        let number = move || {
            focus.difference().map_or(0, |difference| {
                let sites = difference.sites.iter();
                sites.filter(|site| is_in(site.change, rows)).count()
            })
        };
        view! {
            <button
                class="segment"
                class:pressed=pressed
                aria-pressed=move || pressed().to_string()
                on:click=move |_| view.update(|state| state.rows = rows)
            >
                {name} " " <span class="segment-count">{number}</span>
            </button>
        }
    });
    let orders = SiteOrder::ALL.map(|order| {
        let name = match order {
            SiteOrder::Largest => "largest change",
            SiteOrder::Peak => "own peak",
            SiteOrder::AtPeak => "at the run's peak",
            SiteOrder::End => "live at the end",
            SiteOrder::Growth => "growth a step",
        };
        let selected = move || state.with(|state| state.order == order);
        view! { <option value=order.name() selected=selected>{name}</option> }
    });
    let choose_order = move |event: web_sys::Event| {
        let name = event_target_value(&event);
        if let Some(order) = SiteOrder::ALL
            .into_iter()
            .find(|order| order.name() == name)
        {
            view.update(|state| state.order = order);
        }
    };
    view! {
        <div class="site-controls">
            <div class="segmented" role="group" aria-label="Which differences">{filters}</div>
            <label class="control">
                "By"
                <select class="input" on:change=choose_order>{orders}</select>
            </label>
            <input
                class="input site-search"
                type="search"
                placeholder="Function or file"
                aria-label="Search the stacks"
                prop:value=move || state.with(|state| state.search.clone())
                on:input=move |event| view.update(|s| s.search = event_target_value(&event))
            />
        </div>
    }
}

const fn change_word(change: SiteChange) -> (&'static str, &'static str) {
    match change {
        SiteChange::Grown => ("grown", "site-change more"),
        SiteChange::Shrunk => ("shrunk", "site-change less"),
        SiteChange::New => ("new", "site-change more"),
        SiteChange::Gone => ("gone", "site-change less"),
    }
}

#[component]
fn SiteRow(focus: Focus, site: SiteDelta) -> impl IntoView {
    let id = site.id.clone();
    let open = {
        let id = id.clone();
        Memo::new(move |_| {
            let state = focus.view.state();
            state.with(|state| state.selected.as_deref() == Some(id.as_str()))
        })
    };
    let toggle = move |_| {
        let selected = (!open.get_untracked()).then(|| id.clone());
        focus.view.update(|state| state.selected = selected);
    };
    let (word, class) = change_word(site.change);
    let (name, place) = title(&site);
    let inferred = (site.matched == Matched::Inferred).then(|| {
        let about = "The stacks are not equal: matched by what remains of them when renames are \
                     taken into account, and by sizes";
        view! { <span class="badge" title=about>"inferred match"</span> }
    });
    let leaks = site.new.as_ref().is_some_and(|side| side.leaks);
    let leaks = leaks.then(|| view! { <span class="badge caution">"leaks"</span> });
    let level = |side: &Option<SiteSide>, level: fn(&SiteSide) -> Bytes| {
        side.as_ref()
            .map_or_else(|| "–".to_owned(), |side| level(side).to_string())
    };
    let peak = format!(
        "{} → {}",
        level(&site.base, |s| s.peak),
        level(&site.new, |s| s.peak)
    );
    let end = format!(
        "{} → {}",
        level(&site.base, |s| s.at_end),
        level(&site.new, |s| s.at_end)
    );
    let (d_peak, d_end) = (change(site.peak as f64), change(site.at_end as f64));
    let growth = (site.growth.abs() >= 512.0)
        .then(|| view! { <span class="site-growth">{change(site.growth)} " a step"</span> });
    let detail = move || {
        let site = site.clone();
        open.get()
            .then(|| view! { <SiteDetail focus=focus site=site/> })
    };
    view! {
        <li class="site" class:open=move || open.get()>
            <button
                class="site-head"
                aria-expanded=move || open.get().to_string()
                on:click=toggle
            >
                <span class=class>{word}</span>
                <span class="site-name">
                    <strong>{name}</strong>
                    <span class="muted">{place}</span>
                    {inferred} {leaks}
                </span>
                <span class="site-number" title=format!("own peak: {peak}")>
                    <span class="site-label">"peak"</span> {d_peak}
                </span>
                <span class="site-number" title=format!("live at the end: {end}")>
                    <span class="site-label">"end"</span> {d_end}
                </span>
                {growth}
            </button>
            {detail}
        </li>
    }
}

/// Function, and file with line; if there is no stack, the size.
fn title(site: &SiteDelta) -> (String, String) {
    match site.place() {
        Some(place) => {
            let file = place
                .filename
                .rsplit(['/', '\\'])
                .next()
                .unwrap_or_default();
            // If a function has no line, its C++ file says nothing.
            let place_in_file = match place.line {
                0 => String::new(),
                line => format!("{file}:{line}"),
            };
            (place.name.clone(), place_in_file)
        }
        None => {
            let side = site.new.as_ref().or(site.base.as_ref());
            let size = side.map_or(Bytes::ZERO, |side| side.size);
            ("no stack recorded".to_owned(), format!("{size} each"))
        }
    }
}

#[component]
fn SiteDetail(focus: Focus, site: SiteDelta) -> impl IntoView {
    let against = focus.against.get_untracked();
    let side = |run: usize, side: Option<SiteSide>| {
        let name = focus.name(run);
        let body = match side {
            None => view! { <p class="muted">"does not allocate here"</p> }.into_any(),
            Some(side) => view! { <SideDetail focus=focus run=run side=side/> }.into_any(),
        };
        view! {
            <div class="site-side">
                <h3>
                    <span class=format!("run-swatch run-{run}") aria-hidden="true"></span>
                    {name}
                </h3>
                {body}
            </div>
        }
    };
    view! { <div class="site-detail">{side(0, site.base)} {side(against, site.new)}</div> }
}

#[component]
fn SideDetail(focus: Focus, run: usize, side: SiteSide) -> impl IntoView {
    let facts = [
        ("own peak", side.peak.to_string()),
        ("at the run's peak", side.at_peak.to_string()),
        ("live at the end", side.at_end.to_string()),
        ("blocks", format::count(side.count)),
        ("allocated in all", side.made.to_string()),
        ("mostly of", side.size.to_string()),
    ];
    let facts = facts.map(|(name, value)| {
        view! { <div class="fact"><dt>{name}</dt><dd>{value}</dd></div> }
    });
    let page = timeline_of(focus, run, side.stack);
    let link = page.map(|page| {
        view! { <a class="button" href=page>"Show in its timeline"</a> }
    });
    let frames = side.frames.into_iter().map(|frame| {
        let at = match frame.line {
            0 => frame.filename,
            line => format!("{}:{line}", frame.filename),
        };
        view! {
            <li>
                <span class="frame-name">{frame.name}</span> " " <span class="muted">{at}</span>
            </li>
        }
    });
    let frames = frames.collect_view();
    view! {
        <dl class="fact-row">{facts}</dl>
        {link}
        <ol class="site-frames" aria-label="Stack, innermost first">{frames}</ol>
    }
}

/// The page of a run with the band of this stack selected.
fn timeline_of(focus: Focus, run: usize, stack: u32) -> Option<String> {
    let id = focus.page_of(run)?;
    let difference = focus.difference_untracked()?;
    let device = if run == 0 {
        difference.base.device
    } else {
        difference.new.device
    };
    Some(band_page(&id, device, stack))
}

fn band_page(run: &RunId, device: u32, stack: u32) -> String {
    let state = ViewState {
        device: Some(device),
        selection: Some(Selection::Group(stack)),
        ..ViewState::default()
    };
    format!("{}?{state}", routes::run_page(run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::compare::profile::Place;

    fn site(name: &str, change: SiteChange, peak: i64, end: i64) -> SiteDelta {
        let side = SiteSide {
            stack: 3,
            place: None,
            frames: vec![Place {
                name: name.to_owned(),
                filename: "/a/b.py".to_owned(),
                line: 1,
            }],
            count: 1,
            made: Bytes(1),
            peak: Bytes(1),
            at_peak: Bytes(1),
            at_end: Bytes(1),
            growth: 0.0,
            leaks: false,
            size: Bytes(1),
        };
        SiteDelta {
            id: name.to_owned(),
            change,
            matched: Matched::Exactly,
            peak,
            at_peak: 0,
            at_end: end,
            growth: end as f64,
            base: Some(side),
            new: None,
        }
    }

    #[test]
    fn rows_are_filtered_searched_and_sorted() {
        let sites = [
            site("keep", SiteChange::Grown, 5, 0),
            site("forward", SiteChange::Gone, -9, -1),
            site("backward", SiteChange::Gone, -2, -7),
        ];
        let names = |state: &CompareState| -> Vec<String> {
            arranged(&sites, state)
                .into_iter()
                .map(|site| site.id)
                .collect()
        };
        let state = CompareState::default();
        assert_eq!(names(&state), ["forward", "backward", "keep"]);
        let gone = CompareState {
            rows: Rows::Gone,
            order: SiteOrder::End,
            ..state.clone()
        };
        assert_eq!(names(&gone), ["backward", "forward"]);
        let searched = CompareState {
            search: " WARD".to_owned(),
            ..state.clone()
        };
        assert_eq!(names(&searched), ["forward", "backward"]);
        let by_file = CompareState {
            search: "b.py".to_owned(),
            ..state
        };
        assert_eq!(names(&by_file).len(), 3);
    }

    #[test]
    fn a_band_has_an_address() {
        let run = "run_a".parse().unwrap();
        assert_eq!(band_page(&run, 1, 17), "/runs/run_a?v=5&dev=1&sel=g17");
    }
}
