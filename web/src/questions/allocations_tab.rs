//! Search: allocations by function, file, size, age, stream, pool, step and moment.

use super::Asker;
use super::allocation_list::AllocationList;
use super::filter_box::FilterBox;
use super::honesty::Honesty;
use leptos::prelude::*;

/// The tab.
#[component]
pub fn AllocationsTab(asker: Asker) -> impl IntoView {
    let filter = asker.memo(|state| Some(state.filter.clone()));
    let step = RwSignal::new("step".to_owned());
    view! {
        <div class="questions-head">
            <h2>"Allocations"</h2>
            <Honesty asker=asker/>
        </div>
        <FilterBox asker=asker step=step/>
        <AllocationList
            asker=asker
            filter=filter.into()
            nothing="No allocation is like this: loosen or clear the filter."
            step=step
        />
    }
}
