//! The cells of the tables.

use crate::format;
use leptos::prelude::*;
use trace::units::Bytes;

/// A number; on a phone its label is in front of it.
pub fn number(label: &'static str, text: String, title: Option<String>) -> AnyView {
    view! { <td class="num" data-label=label title=title>{text}</td> }.into_any()
}

/// A size; pointing at it shows the exact value.
pub fn size(label: &'static str, bytes: Bytes) -> AnyView {
    number(label, bytes.to_string(), Some(format::exact_bytes(bytes.0)))
}

/// A cell with text.
pub fn words(text: String) -> AnyView {
    view! { <td class="job-why">{text}</td> }.into_any()
}

/// A row.
pub fn row(head: AnyView, cells: Vec<AnyView>) -> AnyView {
    view! { <tr><th scope="row">{head}</th> {cells}</tr> }.into_any()
}

/// A table; heads of numbers begin with `#`.
pub fn table(label: &'static str, heads: &'static [&'static str], rows: Vec<AnyView>) -> AnyView {
    let heads = heads.iter().map(|head| {
        let text = head.trim_start_matches('#');
        view! { <th scope="col" class:num=text != *head>{text}</th> }.into_any()
    });
    let heads: Vec<AnyView> = heads.collect();
    view! {
        <div class="table-frame stacked" tabindex="0" role="region" aria-label=label>
            <table>
                <thead><tr>{heads}</tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
    .into_any()
}

/// A button that shows more.
pub fn more(text: String, act: impl Fn() + 'static) -> AnyView {
    view! { <button class="button" on:click=move |_| act()>{text}</button> }.into_any()
}
