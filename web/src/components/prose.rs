//! A sentence with its code set as code.

use leptos::prelude::*;
use presentation::components::prose::{Piece, pieces};

/// The sentence, with its code set as code.
#[component]
pub fn Prose(#[prop(into)] text: String) -> impl IntoView {
    let view = |piece: &Piece<'_>| match *piece {
        Piece::Words(words) => words.to_owned().into_any(),
        Piece::Name(name) => view! { <em>{name.to_owned()}</em> }.into_any(),
        Piece::Code(code) => view! { <code>{code.to_owned()}</code> }.into_any(),
    };
    pieces(&text).iter().map(view).collect_view()
}
