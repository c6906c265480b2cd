//! What went wrong in a run of a bench: no memory shows it, so it stands above all.

use api::runs::RunDetail;
use leptos::prelude::*;
use presentation::pages::run::row::{beginning, faults};
use std::sync::Arc;

/// A paragraph for each thing that went wrong.
#[component]
pub fn RowFaults(run: Arc<RunDetail>) -> impl IntoView {
    let told = faults(&run).into_iter().map(|(label, how)| {
        view! {
            <p class="failures">
                <strong>{beginning(label)}</strong>
                " "
                {how}
            </p>
        }
    });
    told.collect_view()
}
