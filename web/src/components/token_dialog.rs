//! Asks for the access token, once: the server answers with a cookie.

use crate::client;
use crate::components::dialog::{Closing, Dialog};
use crate::components::prose::Prose;
use crate::context::expect_context;
use crate::upload::driver::Uploads;
use api::problem::{Problem, ProblemCode};
use api::routes;
use api::runs::OpenSession;
use leptos::prelude::*;
use presentation::components::problem_note::sentence;

/// Whether the dialog is open; in the context of the whole application.
#[derive(Clone, Copy)]
pub struct TokenNeeded(pub RwSignal<bool>);

/// The text for a user whose token was refused.
fn refusal(problem: &Problem) -> String {
    match problem.code {
        ProblemCode::Unauthorized => "This is not the token. Check for missing characters.".into(),
        _ => [&sentence(&problem.title), " ", &sentence(&problem.detail)].concat(),
    }
}

/// The address of this page, to come back to.
fn here() -> String {
    let place = window().location();
    // Both are always there.
    place.pathname().unwrap_or_default() + &place.search().unwrap_or_default()
}

/// Whether something is being filled in that is not in the address.
fn is_filling_in() -> bool {
    let found = document().query_selector(".share-form, .chooser");
    matches!(found, Ok(Some(_)))
}

/// The dialog. The page loads again with the session: its state is in the address. But it would
/// lose files that wait to be sent, and what is being filled in: with such it stays, and sends the
/// files.
#[component]
pub fn TokenDialog() -> impl IntoView {
    let TokenNeeded(open) = expect_context();
    let uploads: Uploads = expect_context();
    let token = RwSignal::new(String::new());
    let refused = RwSignal::new(None::<String>);
    let send = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        leptos::task::spawn_local(async move {
            let session = OpenSession {
                token: token.get_untracked().trim().to_owned(),
            };
            match client::send_json::<_, ()>(client::Method::Post, routes::SESSION, &session).await
            {
                Ok(()) if uploads.let_in() || is_filling_in() => {
                    open.set(false);
                    token.set(String::new());
                    refused.set(None);
                }
                Ok(()) => drop(window().location().reload()),
                Err(problem) => refused.set(Some(refusal(&problem))),
            }
        });
    };
    view! {
        <Dialog open=open title="This Tidemark is not public" closing=Closing::Never>
            <form class="token-form" on:submit=send>
                <p class="muted">
                    "Type your token, also when your session has ended: after seven days, or "
                    "because somebody ended it. This browser remembers the session, not the token."
                </p>
                <label for="token">"Your token"</label>
                <input
                    id="token"
                    class="input"
                    type="password"
                    autocomplete="current-password"
                    required
                    aria-describedby="token-refused"
                    bind:value=token
                />
                <p id="token-refused" class="bad-text" role="alert">
                    {move || refused.get().map(|text| view! { <Prose text=text/> })}
                </p>
                <button class="button primary" type="submit">"Open"</button>
                <a href=move || routes::sign_in_page(&here()) rel="external">
                    "Other ways to sign in"
                </a>
            </form>
        </Dialog>
    }
}
