//! No page at this address.

use crate::components::icon::LogoMark;
use leptos::prelude::*;
use leptos_router::components::A;

/// Says so, and leads back.
#[component]
pub fn NotFoundPage() -> impl IntoView {
    document().set_title("Nothing at this address · Tidemark");
    view! {
        <section class="blank-page">
            <LogoMark/>
            <h1>"Nothing at this address"</h1>
            <p class="muted">"The link may be cut off, or from another Tidemark."</p>
            <A href="/" attr:class="button">"All runs"</A>
        </section>
    }
}
