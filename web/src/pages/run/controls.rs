//! The controls over a run's picture.

use crate::components::keys::{is_shortcut, on_key};
use crate::timeline::Handle;
use crate::url_state::UrlState;
use api::view_state::{Axis, Picture, ViewState};
use leptos::prelude::*;
use presentation::pages::run::controls::{
    CategoriesFrom, draw, group_name, next_group, other_axis, other_picture, regroup,
};
use trace::tiles::GroupBy;

/// What the picture shows: bands or lines, what bands stand for, the axis, and the zoom.
#[component]
pub fn Controls(
    handle: Handle,
    view: UrlState<ViewState>,
    categories: Memo<CategoriesFrom>,
) -> impl IntoView {
    let state = view.state();
    on_key(move |event| {
        if !is_shortcut(event) {
            return;
        }
        match event.key().as_str() {
            "m" => view.update(|state| draw(state, other_picture(state.picture))),
            "g" => view.update(|state| regroup(state, next_group(state.group_by))),
            "t" => view.update(|state| state.axis = other_axis(state.axis)),
            _ => {}
        }
    });
    let groups = GroupBy::ALL.map(|group| {
        let selected = move || state.with(|s| s.group_by == group);
        let name = move || group_name(group, categories.get());
        view! { <option value=group.name() prop:selected=selected>{name}</option> }
    });
    let choose_group = move |event| {
        if let Ok(group) = event_target_value(&event).parse() {
            view.update(|state| regroup(state, group));
        }
    };
    let lines = move || state.with(|s| s.picture == Picture::Lines);
    view! {
        <div class="controls" role="toolbar" aria-label="View">
            <Segmented
                label="Picture"
                options=[("Mountain", Picture::Mountain), ("Lines", Picture::Lines)]
                chosen=Signal::derive(move || state.with(|s| s.picture))
                choose=Callback::new(move |picture| view.update(|s| draw(s, picture)))
            />
            <label class="control">
                "Group by"
                <select class="input" on:change=choose_group disabled=lines>{groups}</select>
            </label>
            <Segmented
                label="Axis"
                options=[("Events", Axis::Event), ("Time", Axis::Time)]
                chosen=Signal::derive(move || state.with(|s| s.axis))
                choose=Callback::new(move |axis| view.update(|s| s.axis = axis))
            />
            <ZoomButtons handle=handle/>
        </div>
    }
}

#[component]
fn ZoomButtons(handle: Handle) -> impl IntoView {
    use ::timeline::model::Motion;
    use ::timeline::viewport::Action;
    let act = move |action: Action| {
        handle.with(|driver| driver.act(action, Motion::Eased));
    };
    let zoom = move |factor: f64| act(Action::ZoomX { x: 0.5, factor });
    view! {
        <div class="control zoom-buttons">
            <button
                class="button"
                title="Zoom out (S)"
                aria-label="Zoom out"
                on:click=move |_| zoom(0.5)
            >
                "−"
            </button>
            <button
                class="button"
                title="Zoom in (W)"
                aria-label="Zoom in"
                on:click=move |_| zoom(2.0)
            >
                "+"
            </button>
            <button
                class="button"
                title="Zoom vertically to what changes in view (V)"
                on:click=move |_| { handle.with(|driver| driver.fit_levels()); }
            >
                "Fit height"
            </button>
            <button class="button" title="Show everything (F)" on:click=move |_| act(Action::Fit)>
                "Fit all"
            </button>
        </div>
    }
}

/// Two buttons; one of them is pressed.
#[component]
fn Segmented<T>(
    label: &'static str,
    options: [(&'static str, T); 2],
    chosen: Signal<T>,
    choose: Callback<T>,
) -> impl IntoView
where
    T: Copy + PartialEq + Send + Sync + 'static,
{
    let buttons = options.map(|(name, value)| {
        let pressed = move || chosen.get() == value;
        view! {
            <button
                class="segment"
                class:pressed=pressed
                aria-pressed=move || pressed().to_string()
                on:click=move |_| choose.run(value)
            >
                {name}
            </button>
        }
    });
    view! { <div class="control segmented" role="group" aria-label=label>{buttons}</div> }
}
