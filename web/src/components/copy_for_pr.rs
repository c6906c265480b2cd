//! The Markdown block of a run or a comparison, ready for a pull request.

use crate::client;
use crate::components::copy_button::CopyButton;
use crate::components::dialog::{Closing, Dialog};
use crate::components::icon::{Icon, IconView};
use crate::components::prose::Prose;
use api::routes;
use api::runs::ServerInfo;
use api::shares::ShareTarget;
use leptos::prelude::*;
use presentation::components::copy_for_pr::hint;
use presentation::components::problem_note::sentence;

/// A button that opens the block.
#[component]
pub fn CopyForPr(
    /// The run or comparison.
    target: Signal<ShareTarget>,
    /// The view that the link in the block opens.
    query: Signal<String>,
    /// The last part of a link's address: the block then leads there.
    #[prop(optional, into)]
    link: Option<String>,
) -> impl IntoView {
    let open = RwSignal::new(false);
    let content = move || {
        open.get().then(|| {
            let (target, query) = (target.get_untracked(), query.get_untracked());
            view! { <Block target=target query=query link=link.clone()/> }
        })
    };
    view! {
        <button class="button" on:click=move |_| open.set(true)>
            <IconView icon=Icon::Copy/>
            "Copy for PR"
        </button>
        <Dialog open=open title="For the pull request" closing=Closing::Free>
            {content}
        </Dialog>
    }
}

#[component]
fn Block(target: ShareTarget, query: String, link: Option<String>) -> impl IntoView {
    let names = RwSignal::new(true);
    let text = RwSignal::new(String::new());
    let problem = RwSignal::new(None::<String>);
    let unfolds = link.is_some();
    Effect::new(move |_| {
        let (link, names) = (link.as_deref(), names.get());
        // The block that was asked for before may have names that this one must not have.
        text.set(String::new());
        problem.set(None);
        let path = match &target {
            ShareTarget::Run { run } => routes::card_markdown(run, &query, link, names),
            ShareTarget::Comparison { .. } => routes::compare_markdown(&query, link, names),
        };
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            match client::get_text(&path).await {
                Ok(markdown) => drop(text.try_set(markdown)),
                Err(failed) => drop(problem.try_set(Some(failed.detail))),
            }
        });
    });
    let access = RwSignal::new(None);
    leptos::task::spawn_local_scoped_with_cancellation(async move {
        // If the server does not answer, there is no Markdown either, and a line that says so.
        if let Ok(server) = client::get::<ServerInfo>(routes::SERVER).await {
            let _ = access.try_set(Some(server.access));
        }
    });
    let hint = move || {
        let hint = text
            .with(|text| hint(text, access.get()))
            .filter(|_| !unfolds)?;
        Some(view! { <p class="muted share-hint">{hint}</p> })
    };
    let told = move || {
        let problem = problem.get();
        problem.map(|problem: String| view! { <Prose text=sentence(&problem)/> })
    };
    view! {
        <div class="share-form">
            <label class="share-check">
                <input
                    type="checkbox"
                    prop:checked=move || !names.get()
                    on:change=move |event| names.set(!event_target_checked(&event))
                />
                "Numbers only: no names, no places, no picture"
            </label>
            <textarea
                class="share-markdown"
                readonly
                rows="12"
                aria-label="Markdown"
                prop:value=text
            ></textarea>
            <p class="bad-text" role="alert">{told}</p>
            {hint}
            <div class="share-buttons">
                <CopyButton text=text what="the Markdown" is_main=true/>
            </div>
        </div>
    }
}
