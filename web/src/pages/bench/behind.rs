//! The tensors behind a bar of the root-cause chain.

use crate::format;
use crate::questions::answer::{Answer, ask};
use api::bench::{TensorChange, TensorChanges};
use api::ids::BenchRowId;
use api::routes;
use leptos::prelude::*;
use presentation::pages::bench::behind::{basis, sentence};

/// What a patch frees or keeps: the largest part, and behind it the others.
pub fn behind((before, after): (BenchRowId, BenchRowId)) -> AnyView {
    let found = ask::<TensorChanges>(move || Some(routes::bench_row_tensors(&after, &before)));
    let lines = move || {
        let found = found.with(Answer::shown)?;
        let (first, others) = found.changes.split_first()?;
        let item = |change: &TensorChange| {
            let example = format!("such as {}", change.example);
            view! { <li title=example>{sentence(change)}</li> }
        };
        let others = others.iter().map(item).collect_view();
        let more = (found.left_out > 0)
            .then(|| view! { <li>"and "{format::plural(found.left_out, "more kind")}</li> });
        Some(view! {
            <details class="waterfall-behind">
                <summary title=format!("such as {}", first.example)>{sentence(first)}</summary>
                <ul>
                    {others}
                    {more}
                    <li class="muted">{basis(&found)}</li>
                </ul>
            </details>
        })
    };
    lines.into_any()
}
