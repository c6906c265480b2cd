//! What is alive at a moment, and what was allocated and freed between two.

use super::answer::{Answer, ask, refused};
use super::box_chart::BoxChart;
use super::dimension_choice::DimensionChoice;
use super::honesty::Honesty;
use super::{Asker, INFERRED, inferred_badge, inferred_note};
use crate::components::copy_button::CopyButton;
use crate::format::{self, count};
use api::alive::{Alive, Changes, GroupShare, Part};
use api::routes;
use api::runs::DeviceSummary;
use api::view_state::{Chart, Selection, ViewState, When};
use leptos::prelude::*;
use presentation::questions::alive_tab::{came_and_went, event_of, summary};
use presentation::questions::markdown;
use presentation::questions::picture::middle;
use std::sync::Arc;
use trace::trace::Series;
use trace::units::{Bytes, EventIdx};

/// How many groups are listed.
const LISTED: usize = 100;

/// The tab.
#[component]
pub fn AliveTab(asker: Asker) -> impl IntoView {
    let last = asker.last_event();
    let has_events = asker.has_events();
    let at = asker.memo(move |state| match state.at {
        Some(When::Start) if has_events => When::Start,
        at => When::After(at.map_or(last, When::nearest).min(last)),
    });
    let other = asker.memo(move |state| state.compared_with.map(|other| other.min(last)));
    let by = asker.memo(|state| state.by);
    let alive = ask::<Alive>(move || {
        Some(asker.path(|s| match at.get() {
            When::Start => routes::alive_at_start(&s.run, s.device, by.get()),
            When::After(at) => routes::alive(&s.run, s.device, asker.moment(at), by.get()),
        }))
    });
    let changes = ask::<Changes>(move || {
        // Of what changes, the server tells between events only.
        let When::After(at) = at.get() else {
            return None;
        };
        let (at, other) = (asker.moment(at)?, other.get()?);
        let between = (at.min(other), at.max(other));
        Some(asker.path(|s| routes::changes(&s.run, s.device, between, by.get())))
    });
    let content = move || {
        if let Answer::Failed(problem) = alive.get() {
            return refused(problem);
        }
        match alive.with(Answer::shown) {
            None => view! { <div class="skeleton-row growth-skeleton"></div> }.into_any(),
            Some(alive) => moment(asker, alive),
        }
    };
    let compared = move || {
        if let Answer::Failed(problem) = changes.get() {
            return Some(refused(problem));
        }
        changes
            .with(Answer::shown)
            .map(|changes| between(asker, &changes))
    };
    let busy = move || {
        let waiting = alive.with(Answer::is_waiting) || changes.with(Answer::is_waiting);
        waiting.to_string()
    };
    let words = Signal::derive(move || {
        let name = asker.run_name();
        let moment = alive.with(Answer::shown);
        let moment = moment.map(|alive| markdown::alive(&name, &alive, asker.n_events()));
        let between = changes.with(Answer::shown);
        let between = between.map(|changes| markdown::changes(&name, &changes));
        let parts = [moment, between].into_iter().flatten();
        parts.collect::<Vec<_>>().join("\n")
    });
    view! {
        <div class="questions-head">
            <h2>"What is alive"</h2>
            <CopyButton text=words what="what is alive" label="Copy as Markdown"/>
            <Honesty asker=asker/>
        </div>
        <Moments asker=asker/>
        <div class="alive-view" aria-busy=busy>
            {compared}
            {content}
        </div>
    }
}

/// The fields for the moments.
#[component]
fn Moments(asker: Asker) -> impl IntoView {
    let last = asker.last_event();
    let state = asker.view.state();
    let wrong = RwSignal::new(None::<&'static str>);
    let update = move |change: &dyn Fn(&mut ViewState)| {
        wrong.set(None);
        asker.view.update(|state| change(state));
    };
    let field = move |of: fn(&ViewState) -> Option<When>| move || typeable(state.with(of), last);
    let set_at = typed(asker, wrong, |state, at| state.at = at.map(When::After));
    let set_other = typed(asker, wrong, |state, other| state.compared_with = other);
    let here = move |_| update(&|state| state.at = Some(When::After(middle(state, last))));
    let compare = move |_| {
        update(&|state| {
            if state.at == Some(When::Start) {
                state.at = None;
            }
            state.compared_with = match state.compared_with {
                Some(_) => None,
                None => Some(middle(state, last)),
            };
        });
    };
    let comparing = move || state.with(|s| s.compared_with.is_some());
    if !asker.has_events() {
        return view! {
            <div class="controls" role="toolbar" aria-label="Drawing">
                <Drawing asker=asker/>
            </div>
        }
        .into_any();
    }
    view! {
        <div class="controls" role="toolbar" aria-label="Moments">
            <label class="control">
                "After event"
                <input
                    class="input event-field"
                    inputmode="numeric"
                    prop:value=field(|s| s.at)
                    on:change=set_at
                />
            </label>
            <button class="button" title="The event in the middle of the picture" on:click=here>
                "Middle of the picture"
            </button>
            {start_button(asker, wrong)}
            <Show when=comparing>
                <label class="control">
                    "compared with event"
                    <input
                        class="input event-field"
                        inputmode="numeric"
                        prop:value=field(|s| s.compared_with.map(When::After))
                        on:change=set_other
                    />
                </label>
            </Show>
            <button class="button" on:click=compare aria-pressed=move || comparing().to_string()>
                {move || if comparing() { "One moment only" } else { "Compare two moments" }}
            </button>
            <Drawing asker=asker/>
        </div>
        <p class="field-problem" role="alert">{wrong}</p>
    }
    .into_any()
}

/// What stands in the field of a moment; `last` where none is chosen.
fn typeable(at: Option<When>, last: EventIdx) -> String {
    match at {
        // No event stands for it; the button says that it is shown.
        Some(When::Start) => String::new(),
        Some(When::After(event)) => event.0.to_string(),
        None => last.0.to_string(),
    }
}

/// The button that shows what the recording began with, if it began with something. Pressed again,
/// it shows the end.
fn start_button(asker: Asker, wrong: RwSignal<Option<&'static str>>) -> Option<AnyView> {
    let allocated = |device: &DeviceSummary| device.series[Series::Allocated as usize].start;
    if asker.device.with_value(allocated) == Bytes::ZERO {
        return None;
    }
    let is_shown = asker.memo(|state| state.at == Some(When::Start));
    let show = move |_| {
        wrong.set(None);
        let at = (!is_shown.get_untracked()).then_some(When::Start);
        asker.view.update(|state| {
            state.at = at;
            state.compared_with = None;
        });
    };
    let button = view! {
        <button
            class="button"
            title="What was allocated when the recording began"
            aria-pressed=move || is_shown.get().to_string()
            on:click=show
        >
            "Before the first event"
        </button>
    };
    Some(button.into_any())
}

/// Takes the event that is typed in a field. A text that is none stays there, and what is wrong is
/// said.
fn typed(
    asker: Asker,
    wrong: RwSignal<Option<&'static str>>,
    take: fn(&mut ViewState, Option<EventIdx>),
) -> impl Fn(web_sys::Event) + Copy {
    move |event| {
        let typed = event_of(&event_target_value(&event), asker.last_event());
        wrong.set(typed.err());
        if let Ok(event) = typed {
            asker.view.update(|state| take(state, event));
        }
    }
}

/// How what is alive is grouped and drawn.
#[component]
fn Drawing(asker: Asker) -> impl IntoView {
    let state = asker.view.state();
    let flame = move || state.with(|s| s.chart == Chart::Flame);
    let draw = move |chart: Chart| move |_| asker.view.update(|state| state.chart = chart);
    view! {
        <DimensionChoice
            asker=asker
            chosen=|state| state.by
            choose=|state, by| {
                state.by = by;
                state.root = None;
            }
        />
        <div class="control segmented" role="group" aria-label="Drawn as">
            <button
                class="segment"
                class:pressed=move || !flame()
                aria-pressed=move || (!flame()).to_string()
                on:click=draw(Chart::Treemap)
            >
                "Treemap"
            </button>
            <button
                class="segment"
                class:pressed=flame
                aria-pressed=move || flame().to_string()
                on:click=draw(Chart::Flame)
            >
                "Flame graph"
            </button>
        </div>
    }
}

fn moment(asker: Asker, alive: Arc<Alive>) -> AnyView {
    let summary = summary(&alive, asker.n_events());
    let groups = groups(asker, &alive.groups, alive.groups_left_out);
    if alive.total.count == 0 {
        return view! { <p class="muted questions-empty">{summary}</p> }.into_any();
    }
    view! {
        <p class="alive-summary">{summary}</p>
        <BoxChart asker=asker alive=alive/>
        {groups}
    }
    .into_any()
}

/// A table of groups; a click shows a stack in the picture.
fn groups(asker: Asker, groups: &[GroupShare], left_out: u64) -> AnyView {
    let hidden = left_out + groups.len().saturating_sub(LISTED) as u64;
    let listed = groups.iter().take(LISTED);
    let note = inferred_note(listed.clone().any(|group| group.inferred), INFERRED);
    let rows = listed.map(|group| {
        let stack = group.stack;
        let exact = format::exact_bytes(group.tally.bytes.get());
        let name = match stack {
            Some(_) => view! {
                <button
                    class="link-button"
                    title="Highlight it in the picture"
                    on:click=move |_| asker.select_stack(stack)
                >
                    {group.label.clone()}
                </button>
            }
            .into_any(),
            None => group.label.clone().into_any(),
        };
        let selected = asker
            .memo(move |state| stack.is_some() && state.selection == stack.map(Selection::Group));
        let inferred = inferred_badge(group.inferred);
        let caller = (!group.caller.is_empty()).then(
            || view! { <span class="group-caller">{format!("from {}", group.caller)}</span> },
        );
        view! {
            <tr class:selected=selected>
                <th scope="row">{name} {inferred} {caller}</th>
                <td class="num" title=exact>{group.tally.bytes.to_string()}</td>
                <td class="num">{count(group.tally.count)}</td>
            </tr>
        }
    });
    let rows = rows.collect_view();
    let more = (hidden > 0).then(|| {
        view! { <p class="muted">{format!("and {} smaller", format::plural(hidden, "group"))}</p> }
    });
    view! {
        <div class="table-frame">
            <table class="share-table">
                <thead>
                    <tr>
                        <th scope="col">"Group"</th>
                        <th scope="col" class="num">"Size"</th>
                        <th scope="col" class="num">"Blocks"</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
        {more}
        {note}
    }
    .into_any()
}

/// What was allocated and what was freed.
fn between(asker: Asker, changes: &Changes) -> AnyView {
    let summary = came_and_went(changes);
    let part = |title: &str, part: &Part| {
        let head = format!(
            "{title}: {} in {}",
            part.total.bytes,
            format::plural(part.total.count, "block")
        );
        let body = match part.groups.is_empty() {
            true => view! { <p class="muted questions-empty">"Nothing."</p> }.into_any(),
            false => groups(asker, &part.groups, part.left_out),
        };
        view! { <section><h3>{head}</h3>{body}</section> }
    };
    view! {
        <p class="alive-summary">{summary}</p>
        <div class="came-and-went">
            {part("Came", &changes.came)}
            {part("Went", &changes.went)}
        </div>
    }
    .into_any()
}
