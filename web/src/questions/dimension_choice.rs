//! The choice of what groups stand for.

use super::Asker;
use api::view_state::ViewState;
use leptos::prelude::*;
use trace::alive::Dimension;

/// A menu of all dimensions.
#[component]
pub fn DimensionChoice(
    asker: Asker,
    /// Reads the dimension of a view.
    chosen: fn(&ViewState) -> Dimension,
    /// Sets the dimension of a view.
    choose: fn(&mut ViewState, Dimension),
) -> impl IntoView {
    let current = asker.memo(chosen);
    let options = Dimension::ALL.map(|by| {
        let selected = move || current.get() == by;
        view! { <option value=by.name() prop:selected=selected>{by.name()}</option> }
    });
    let change = move |event| {
        if let Ok(by) = event_target_value(&event).parse::<Dimension>() {
            asker.view.update(|state| choose(state, by));
        }
    };
    view! {
        <label class="control">
            "Group by"
            <select class="input" on:change=change>{options}</select>
        </label>
    }
}
