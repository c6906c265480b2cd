//! The link to the page with the user's tokens, which also shows who is signed in. From there lead
//! the links to people, projects and help, also where nobody signs in.

use crate::client;
use crate::components::icon::{Icon, IconView};
use crate::context::expect_context;
use crate::opened_link::OpenedLink;
use crate::project;
use api::routes;
use api::runs::{Access, ServerInfo};
use leptos::prelude::*;
use leptos::task::spawn_local_scoped_with_cancellation;

/// The link in the header. Empty until a token is typed where one is needed, and if the page was
/// opened with a link.
#[component]
pub fn AccountLink() -> impl IntoView {
    let OpenedLink(link) = expect_context();
    let access = RwSignal::new(None);
    spawn_local_scoped_with_cancellation(async move {
        // If the server does not answer, another part of the page says so.
        if let Ok(server) = client::get::<ServerInfo>(routes::SERVER).await {
            let _ = access.try_set(Some(server.access));
        }
    });
    let may_read = move || matches!(access.get(), Some(Access::Granted | Access::Open));
    let shown = move || may_read() && link.with(Option::is_none);
    move || {
        shown().then(|| {
            view! {
                <a
                    class="icon-button"
                    href=project::page(routes::ACCOUNT_PAGE)
                    rel="external"
                    aria-label="Account"
                    title="Account, people, projects, help"
                >
                    <IconView icon=Icon::Person/>
                </a>
            }
        })
    }
}
