//! The fields of an allocation filter. A typed text goes to the address when the field is left.

use super::Asker;
use api::alive::{AllocationFilter, Sort};
use leptos::prelude::*;
use presentation::questions::filter_box::{Field, ranges};
use std::collections::BTreeMap;

/// What was typed where it is no value, and why not, by the position of the field.
type Wrong = RwSignal<BTreeMap<usize, (String, String)>>;

/// The fields.
#[component]
pub fn FilterBox(
    asker: Asker,
    /// What one of the run's steps is called.
    step: RwSignal<String>,
) -> impl IntoView {
    let filter = asker.memo(|state| state.filter.clone());
    let change = move |change: &dyn Fn(&mut AllocationFilter)| {
        asker.view.update(|state| change(&mut state.filter));
    };
    let wrong: Wrong = RwSignal::new(BTreeMap::new());
    let fields = ranges().into_iter().map(|range| {
        let ends = range.into_iter();
        let ends = ends.map(|(at, field)| text_field(asker, filter, wrong, at, field, step));
        view! { <div class="filter-range">{ends.collect_view()}</div> }
    });
    let fields = fields.collect_view();
    let n_set = move || filter.with(AllocationFilter::n_set);
    let group = move || {
        let group = filter.with(|f| f.site.clone().or_else(|| f.of.clone()))?;
        let any_group = move |_| {
            change(&|filter| (filter.site, filter.of) = (None, None));
        };
        Some(view! {
            <button class="button" title=group on:click=any_group>
                "One group only ✕"
            </button>
        })
    };
    view! {
        <form class="filter" on:submit=|event| event.prevent_default()>
            {fields}
            <Choices asker=asker filter=filter/>
            {group}
            <button
                type="button"
                class="button"
                disabled=move || n_set() == 0 && wrong.with(BTreeMap::is_empty)
                on:click=move |_| {
                    wrong.update(BTreeMap::clear);
                    change(&|filter| *filter = AllocationFilter::default());
                }
            >
                "Clear the filter"
            </button>
        </form>
    }
}

/// A field to type into. Where the text is no value, it stays, and the field says what it wants.
fn text_field(
    asker: Asker,
    filter: Memo<AllocationFilter>,
    wrong: Wrong,
    at: usize,
    field: &'static Field,
    step: RwSignal<String>,
) -> impl IntoView {
    let write = move |filter: &mut AllocationFilter, text: &str| {
        let steps = asker.steps;
        steps.with_untracked(|steps| field.write(filter, text, steps.as_ref()))
    };
    let read = move || {
        let steps = asker.steps;
        steps.with(|steps| filter.with(|filter| field.read(filter, steps.as_ref())))
    };
    let set = move |event| {
        let text = event_target_value(&event);
        // First, because the field shows this text where it is no value.
        let said = write(&mut AllocationFilter::default(), &text);
        wrong.update(|wrong| {
            wrong.remove(&at);
            wrong.extend(said.err().map(|why| (at, (text.clone(), why))));
        });
        asker.view.update(|state| {
            // What it says is told already.
            let _ = write(&mut state.filter, &text);
        });
    };
    let why = Memo::new(move |_| wrong.with(|wrong| wrong.get(&at).map(|(_, why)| why.clone())));
    let typed = move || wrong.with(|wrong| wrong.get(&at).map(|(text, _)| text.clone()));
    let id = format!("filter-wrong-{at}");
    view! {
        <label class="filter-field">
            <span>{move || step.with(|step| field.called(step))}</span>
            <input
                class=field.class()
                placeholder=field.hint
                aria-invalid=move || why.with(Option::is_some).then_some("true")
                aria-describedby=id.clone()
                prop:value=move || typed().unwrap_or_else(read)
                on:change=set
            />
            <small class="field-problem" id=id role="alert">{why}</small>
        </label>
    }
}

/// The fields with a few values to choose from.
#[component]
fn Choices(asker: Asker, filter: Memo<AllocationFilter>) -> impl IntoView {
    let pools = [("", "any"), ("small", "small"), ("large", "large")].map(|(value, name)| {
        let selected = move || filter.with(|f| f.pool.as_deref().unwrap_or("") == value);
        view! { <option value=value prop:selected=selected>{name}</option> }
    });
    let sorts = Sort::ALL.map(|sort| {
        let selected = move || filter.with(|f| f.sort == sort);
        let text = format!("{} first", sort.name());
        view! { <option value=sort.name() prop:selected=selected>{text}</option> }
    });
    let set_pool = move |event| {
        let pool = Some(event_target_value(&event)).filter(|pool| !pool.is_empty());
        asker.view.update(|state| state.filter.pool = pool);
    };
    let set_sort = move |event| {
        let name = event_target_value(&event);
        let sort = Sort::ALL.into_iter().find(|sort| sort.name() == name);
        asker
            .view
            .update(|state| state.filter.sort = sort.unwrap_or_default());
    };
    view! {
        <label class="filter-field">
            <span>"Pool"</span>
            <select class="input" on:change=set_pool>{pools}</select>
        </label>
        <label class="filter-field">
            <span>"Order"</span>
            <select class="input" on:change=set_sort>{sorts}</select>
        </label>
    }
}
