//! Differences by stack: filtered, searched, sorted. Each row opens both stacks, with links to both
//! timelines.

use super::Focus;
use crate::components::no_match::no_match;
use crate::format;
use crate::url_state::UrlState;
use api::compare_view::{CompareState, Rows, SiteOrder};
use leptos::prelude::*;
use presentation::components::sites::Compared;
use presentation::pages::compare::cards::change;
use presentation::pages::compare::sites::{apart, arranged, band_page, change_word, is_in, title};
use trace::compare::sites::{Matched, SiteDelta, SiteSide};
use trace::units::Bytes;

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
                let compared = Compared {
                    listed: difference.sites.len() as u64,
                    left_out: u64::from(difference.sites_left_out),
                    same: u64::from(difference.sites_same),
                };
                compared.in_words("")
            })
        })
    };
    let none = move || rows.with(Vec::is_empty);
    let untold = move || {
        let told = difference.with(|difference| {
            let compared = difference.as_ref();
            compared.map_or_else(Vec::new, |compared| compared.told_rest())
        });
        told.into_iter()
            .map(|text| view! { <p class="muted">{text}</p> })
            .collect_view()
    };
    let view = focus.view;
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
                {move || nothing(view)}
            </Show>
            {untold}
        </section>
    }
}

/// Nothing differs, or nothing that is looked for does.
fn nothing(view: UrlState<CompareState>) -> AnyView {
    if view
        .state()
        .with(|s| s.rows == Rows::All && s.search.is_empty())
    {
        return view! { <p class="muted">"No difference to list here."</p> }.into_any();
    }
    let clear = move |()| view.update(|s| (s.rows, s.search) = (Rows::All, String::new()));
    no_match(
        "No difference matches the filter.".into(),
        Callback::new(clear),
    )
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
        view! { <option value=order.name() prop:selected=selected>{name}</option> }
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
    let apart = focus
        .difference_untracked()
        .and_then(|of| apart(&site, &of.sites));
    let inferred = (site.matched == Matched::Inferred)
        .then(|| view! { <span class="badge">"inferred match"</span> });
    let leaks = site.new.as_ref().is_some_and(|side| side.leaks);
    let leaks = leaks.then(|| view! { <span class="badge caution">"leaks"</span> });
    let from_to = |level: fn(&SiteSide) -> Bytes| {
        let told = |side: &Option<SiteSide>| {
            let level = side.as_ref().map(|side| level(side).to_string());
            level.unwrap_or_else(|| "–".to_owned())
        };
        format!("{} → {}", told(&site.base), told(&site.new))
    };
    let (peak, end) = (from_to(|side| side.peak), from_to(|side| side.at_end));
    let (d_peak, d_end) = (change(site.peak as f64), change(site.at_end as f64));
    let of_the_peaks = of_the_peaks(&site);
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
                    {apart.map(|text| view! { <span class="muted">{text}</span> })}
                    {inferred} {leaks}
                </span>
                <span class="site-number" title=format!("own peak: {peak}")>
                    <span class="site-label">"peak"</span> {d_peak}
                </span>
                <span class="site-number" title=format!("live at the end: {end}")>
                    <span class="site-label">"end"</span> {d_end}
                </span>
                {of_the_peaks} {growth}
            </button>
            {detail}
        </li>
    }
}

/// What the site holds at the peaks of the runs, where nothing else of it differs.
fn of_the_peaks(site: &SiteDelta) -> Option<impl IntoView + use<>> {
    let held = |side: &Option<SiteSide>| {
        let held = side.as_ref().map(|side| side.at_peak.to_string());
        held.unwrap_or_else(|| "–".to_owned())
    };
    let held = format!("{} → {}", held(&site.base), held(&site.new));
    let by = change(site.at_peak as f64);
    site.is_of_the_peaks().then(|| {
        view! {
            <span class="site-number of-the-peaks" title=format!("at the run's peak: {held}")>
                <span class="site-label">"at the run's peak"</span> {by}
            </span>
        }
    })
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
    let inferred = (site.matched == Matched::Inferred).then(|| {
        view! {
            <p class="muted">
                "The stacks are not equal: matched by what remains of them when renames are taken \
                 into account, and by sizes."
            </p>
        }
    });
    view! {
        {inferred}
        <div class="site-detail">{side(0, site.base)} {side(against, site.new)}</div>
    }
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
        let name = ["Show in its timeline: ", &focus.name(run)].concat();
        view! { <a class="button" href=page aria-label=name>"Show in its timeline"</a> }
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
