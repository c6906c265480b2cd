//! The run in words, to be copied for a person or a language model.

use crate::client;
use crate::components::clipboard;
use crate::components::copy_button::{CopyButton, THANKS};
use crate::components::dialog::{Closing, Dialog};
use crate::components::icon::{Icon, IconView};
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use leptos::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Copying {
    Ready,
    Asking,
    Done,
}

impl Copying {
    fn label(self) -> &'static str {
        match self {
            Copying::Ready => "Copy as Markdown",
            Copying::Asking => "Writing…",
            Copying::Done => "Copied",
        }
    }
}

/// A button that copies the page of Markdown at an address. Some browsers do not allow copying
/// after a wait; then it shows the page instead.
#[component]
pub fn CopyAsMarkdown(
    /// The address of the Markdown; `None` for a run without devices.
    #[prop(into)]
    path: Signal<Option<String>>,
) -> impl IntoView {
    let toasts: Toasts = expect_context();
    let copying = RwSignal::new(Copying::Ready);
    let (page, shown) = (RwSignal::new(String::new()), RwSignal::new(false));
    let copy = move |_| {
        let Some(path) = path.get_untracked() else {
            return;
        };
        // A disabled button would lose the focus.
        if copying.get_untracked() == Copying::Asking {
            return;
        }
        copying.set(Copying::Asking);
        leptos::task::spawn_local(async move {
            let done = match client::get_text(&path).await {
                Ok(markdown) => copied_or_shown(markdown, page, shown).await,
                Err(problem) => {
                    toasts.fail("Nothing was copied", &problem);
                    Copying::Ready
                }
            };
            let _ = copying.try_set(done);
            if done == Copying::Done {
                let ready = move || {
                    let _ = copying.try_set(Copying::Ready);
                };
                set_timeout(ready, THANKS);
            }
        });
    };
    let icon = move || match copying.get() {
        Copying::Done => view! { <IconView icon=Icon::Done/> },
        Copying::Ready | Copying::Asking => view! { <IconView icon=Icon::Copy/> },
    };
    let label = move || copying.get().label();
    let is_busy = move || (copying.get() == Copying::Asking).to_string();
    let title = "What held the memory, what leaks, why it ran out, what would have helped";
    view! {
        <button
            class="button copy-words"
            title=title
            disabled=move || path.with(Option::is_none)
            aria-busy=is_busy
            on:click=copy
        >
            {icon}
            <span aria-live="polite">{label}</span>
        </button>
        <Dialog open=shown title="The run in words" closing=Closing::Free>
            <div class="share-form">
                <textarea
                    class="share-markdown"
                    readonly
                    rows="20"
                    aria-label="Markdown"
                    prop:value=page
                ></textarea>
                <div class="share-buttons">
                    <CopyButton text=page what="the Markdown" is_main=true/>
                </div>
            </div>
        </Dialog>
    }
}

/// Copies the page, or shows it if the browser does not allow copying.
async fn copied_or_shown(
    markdown: String,
    page: RwSignal<String>,
    shown: RwSignal<bool>,
) -> Copying {
    let is_copied = match clipboard::put(&markdown) {
        Some(promise) => JsFuture::from(promise).await.is_ok(),
        None => false,
    };
    if is_copied {
        return Copying::Done;
    }
    // Fails only if the page was left: then both signals are gone too.
    let _ = page.try_set(markdown);
    let _ = shown.try_set(true);
    Copying::Ready
}
