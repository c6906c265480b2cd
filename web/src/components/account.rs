//! The way to the page on which one's tokens are, and who is signed in.

use crate::client;
use crate::components::icon::{Icon, IconView};
use crate::opened_link::OpenedLink;
use api::routes;
use api::runs::{Access, ServerInfo};
use leptos::prelude::*;
use leptos::task::spawn_local_scoped_with_cancellation;

/// The link in the header. Nothing where nobody signs in, or for those who came with a link.
#[component]
pub fn AccountLink() -> impl IntoView {
    let OpenedLink(link) = expect_context();
    let access = RwSignal::new(None);
    spawn_local_scoped_with_cancellation(async move {
        // Where the server does not answer, the page says so elsewhere.
        if let Ok(server) = client::get::<ServerInfo>(routes::SERVER).await {
            let _ = access.try_set(Some(server.access));
        }
    });
    let shown = move || access.get() == Some(Access::Granted) && link.with(Option::is_none);
    move || {
        shown().then(|| {
            view! {
                <a
                    class="icon-button"
                    href=routes::ACCOUNT_PAGE
                    rel="external"
                    aria-label="Account"
                    title="Your tokens, and who is signed in"
                >
                    <IconView icon=Icon::Person/>
                </a>
            }
        })
    }
}
