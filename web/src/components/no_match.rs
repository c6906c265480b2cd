//! What a list says that a filter has emptied, and the way back.

use leptos::prelude::*;

/// The sentence, and a button that clears the filter.
pub fn no_match(text: Signal<String>, clear: Callback<()>) -> AnyView {
    view! {
        <p class="no-match muted">
            {text} " "
            <button class="button" on:click=move |_| clear.run(())>"Clear the filter"</button>
        </p>
    }
    .into_any()
}
