//! One run in the list, with rename and delete in place.

use super::focus::{focus_soon, position};
use crate::components::badge::BadgeView;
use crate::components::drafts;
use crate::components::icon::{Icon, IconView};
use crate::components::permits::may_manage;
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::format::{self, UnixMillis};
use crate::pages::compare::pick::PickBox;
use crate::pages::runs_store::{RunsStore, typed_name};
use crate::upload::driver::Uploads;
use api::ids::RunId;
use api::quality::is_least;
use api::routes;
use api::runs::{MAX_NAME, RunSummary};
use leptos::html;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::components::badge::badges;
use presentation::components::labels::label_line;
use presentation::pages::runs::list_state::{Column, events};
use std::time::Duration;
use trace::units::Bytes;
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, KeyboardEvent};

/// What a row needs, in one `Copy` bundle.
#[derive(Clone, Copy)]
struct Row {
    run: Memo<Option<RunSummary>>,
    element: NodeRef<html::Tr>,
    renaming: RwSignal<bool>,
    store: RunsStore,
    toasts: Toasts,
}

impl Row {
    fn with<T: Default>(self, read: impl FnOnce(&RunSummary) -> T) -> T {
        self.run
            .with(|run| run.as_ref().map(read))
            .unwrap_or_default()
    }

    /// Ends the editing and gives the focus back to the row.
    fn return_focus(self) {
        self.renaming.set(false);
        // The link exists again after the effects of this change have run.
        set_timeout(
            move || {
                let row = self.element.try_get_untracked().flatten();
                let link = row.and_then(|row| row.query_selector(".run-link").ok().flatten());
                if let Some(link) = link.and_then(|link| link.dyn_into::<HtmlElement>().ok()) {
                    let _ = link.focus();
                }
            },
            Duration::ZERO,
        );
    }

    fn rename(self, name: &str) {
        // After Enter, leaving the field fires a second time.
        if !self.renaming.get_untracked() {
            return;
        }
        self.renaming.set(false);
        let Some(run) = self.run.get_untracked() else {
            return;
        };
        let name = name.trim();
        match name.is_empty() || name == run.name {
            true => drafts::forget(&typed_name(&run.id)),
            false => self.store.rename(self.toasts, run.id, name.to_owned()),
        }
    }

    /// The key of what is typed for its name.
    fn draft(self) -> String {
        let run = self.run.get_untracked();
        run.map(|run| typed_name(&run.id)).unwrap_or_default()
    }

    fn delete(self) {
        if let Some(run) = self.run.get_untracked() {
            let row = self.element.get_untracked();
            let at = row.and_then(|row| position(&row)).unwrap_or_default();
            self.store.delete(self.toasts, &run);
            focus_soon(at);
        }
    }
}

/// One row.
#[component]
pub fn RunRow(
    /// The run.
    id: RunId,
    /// The largest peak in the list: the length of a full bar.
    largest: Memo<Bytes>,
    /// For the age.
    now: ReadSignal<UnixMillis>,
) -> impl IntoView {
    let store: RunsStore = expect_context();
    let uploads: Uploads = expect_context();
    let looked_up = id.clone();
    let is_typed = may_manage() && drafts::kept(&typed_name(&id)).is_some();
    let row = Row {
        run: Memo::new(move |_| store.run(&looked_up)),
        element: NodeRef::new(),
        renaming: RwSignal::new(is_typed),
        store,
        toasts: expect_context(),
    };
    let fresh = {
        let id = id.clone();
        Memo::new(move |_| uploads.fresh().with(|fresh| fresh.contains(&id)))
    };
    let keys = move |event: KeyboardEvent| {
        if event.key() == "F2" && may_manage() {
            row.renaming.set(true);
        }
    };
    view! {
        <tr role="row" class="run" node_ref=row.element on:keydown=keys>
            {name_cell(row, id, fresh)}
            {peak_cell(row, largest)}
            {number_cells(row)}
            {age_cell(row, now)}
            {action_cell(row)}
        </tr>
    }
}

fn name_cell(row: Row, id: RunId, fresh: Memo<bool>) -> AnyView {
    let name = Signal::derive(move || row.with(|run| run.name.clone()));
    let pick = view! { <PickBox id=id.clone() name=name/> };
    let content = move || match row.renaming.get() {
        true => view! { <NameField row=row/> }.into_any(),
        false => {
            let name = move || row.with(|run| run.name.clone());
            view! {
                <A href=routes::run_page(&id) attr:class="run-link" attr:title=name>{name}</A>
            }
            .into_any()
        }
    };
    let found = Memo::new(move |_| row.with(badges));
    let badges = move || {
        let badges = found.get().into_iter();
        badges
            .map(|badge| view! { <BadgeView badge=badge/> })
            .collect_view()
    };
    let new = move || {
        fresh
            .get()
            .then(|| view! { <span class="badge new">"new"</span> })
    };
    let place = Memo::new(move |_| row.with(|run| run.job.clone()));
    let job = move || {
        place.get().map(|place| {
            let told = place.told();
            view! { <A href=routes::job_page(&place.job) attr:class="run-job">{told}</A> }
        })
    };
    let labels = Memo::new(move |_| row.with(label_line));
    let labels = move || {
        let line = labels.get();
        let shown = !line.is_empty();
        shown.then(|| view! { <p class="run-labels" title=line.clone()>{line.clone()}</p> })
    };
    view! {
        <td role="cell" data-column=Column::Name.key()>
            <div class="run-name">
                {pick} {content} {job} <span class="badges">{new} {badges}</span>
            </div>
            {labels}
        </td>
    }
    .into_any()
}

/// The name while it is edited. Enter and leaving save, Escape does not. What the server did not
/// take, because the session has ended, is there again after signing in.
#[component]
fn NameField(row: Row) -> impl IntoView {
    let input = NodeRef::<html::Input>::new();
    Effect::new(move |_| {
        if let Some(input) = input.get() {
            let name = || row.run.get_untracked().map(|run| run.name);
            let name = drafts::kept(&row.draft()).or_else(name);
            input.set_value(&name.unwrap_or_default());
            // Fails only for a field that has left the page.
            let _ = input.focus();
            input.select();
        }
    });
    // Removing a field takes its focus away, and by then the reference to it is gone.
    let value = move || {
        let input = input.try_get_untracked().flatten();
        input.map(|input| input.value()).unwrap_or_default()
    };
    let keys = move |event: KeyboardEvent| {
        event.stop_propagation();
        match event.key().as_str() {
            "Enter" => {
                row.rename(&value());
                row.return_focus();
            }
            "Escape" => {
                drafts::forget(&row.draft());
                row.return_focus();
            }
            _ => {}
        }
    };
    view! {
        <input
            class="input run-name-field"
            aria-label="New name"
            maxlength=MAX_NAME
            node_ref=input
            on:keydown=keys
            on:input=move |_| drafts::keep(&row.draft(), &value())
            on:blur=move |_| row.rename(&value())
        />
    }
}

/// The peak with a bar, whose length is its share of the largest peak in the list.
fn peak_cell(row: Row, largest: Memo<Bytes>) -> AnyView {
    let peak = Memo::new(move |_| row.with(|run| run.peak_allocated));
    let width = move || format!("{}%", format::percent(peak.get().0, largest.get().0.max(1)));
    let exact = move || {
        let least = if row.with(|run| is_least(&run.quality)) {
            "at least "
        } else {
            ""
        };
        format!("{least}{}", format::exact_bytes(peak.get().0))
    };
    view! {
        <td role="cell" data-column=Column::Peak.key() data-label=Column::Peak.title()>
            <div class="peak" title=exact>
                <span class="peak-track" aria-hidden="true">
                    <span class="peak-fill" style:width=width></span>
                </span>
                <span class="num">{move || row.with(RunSummary::peak_in_short)}</span>
            </div>
        </td>
    }
    .into_any()
}

/// A cell with a number as it is read, and exactly as its title.
fn number_cell(
    column: Column,
    text: impl Fn() -> String + Send + 'static,
    exact: Option<Memo<String>>,
) -> AnyView {
    let (key, label) = (column.key(), column.title());
    view! {
        <td role="cell" class="num" data-column=key data-label=label title=exact>{text}</td>
    }
    .into_any()
}

fn number_cells(row: Row) -> AnyView {
    let steps = move || match row.with(|run| run.steps) {
        0 => "–".to_owned(),
        steps => format::count(u64::from(steps)),
    };
    let n_events = Memo::new(move |_| row.with(events));
    let all_events = Memo::new(move |_| format::count(n_events.get()));
    let size = Memo::new(move |_| row.with(|run| run.file_bytes));
    let exact_size = Memo::new(move |_| format::exact_bytes(size.get().0));
    [
        number_cell(Column::Steps, steps, None),
        number_cell(
            Column::Events,
            move || format::short_count(n_events.get()),
            Some(all_events),
        ),
        number_cell(Column::Devices, move || row.with(devices_text), None),
        number_cell(
            Column::Size,
            move || size.get().to_string(),
            Some(exact_size),
        ),
    ]
    .into_any()
}

/// `cuda:0`, or how many.
fn devices_text(run: &RunSummary) -> String {
    match run.devices.as_slice() {
        [] => "–".to_owned(),
        [only] => format!("cuda:{}", only.device),
        several => format!("{} devices", several.len()),
    }
}

fn age_cell(row: Row, now: ReadSignal<UnixMillis>) -> AnyView {
    let created = Memo::new(move |_| UnixMillis(row.with(|run| run.created_ms)));
    let at = Memo::new(move |_| format::date_time(created.get()));
    let age = move || format::age(created.get(), now.get());
    number_cell(Column::Age, age, Some(at))
}

fn action_cell(row: Row) -> AnyView {
    let named =
        move |verb: &'static str| move || format!("{verb} {}", row.with(|r| r.name.clone()));
    view! {
        <td role="cell" data-column="actions">
            <div class="row-actions">
                <button
                    class="icon-button"
                    title="Rename (F2)"
                    aria-label=named("Rename")
                    on:click=move |_| row.renaming.set(true)
                >
                    <IconView icon=Icon::Rename/>
                </button>
                <button
                    class="icon-button"
                    title="Delete (Del)"
                    aria-label=named("Delete")
                    on:click=move |_| row.delete()
                >
                    <IconView icon=Icon::Delete/>
                </button>
            </div>
        </td>
    }
    .into_any()
}
