//! Copies a text to the clipboard, and confirms it.

use crate::components::clipboard;
use crate::components::icon::{Icon, IconView};
use leptos::prelude::*;
use std::time::Duration;
use wasm_bindgen_futures::JsFuture;

/// How long the button shows that it copied.
pub const THANKS: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    NotYet,
    Yes,
    /// No clipboard: the page is neither on localhost nor on HTTPS.
    Refused,
}

/// A button that copies `text`.
#[component]
pub fn CopyButton(
    /// What to copy.
    #[prop(into)]
    text: Signal<String>,
    /// Name of what is copied, for the button's name: "Copy {what}".
    what: &'static str,
    /// What the button shows.
    #[prop(default = "Copy")]
    label: &'static str,
    /// Whether copying is what the dialog is for.
    #[prop(optional)]
    is_main: bool,
) -> impl IntoView {
    let copied = RwSignal::new(Copied::NotYet);
    let copy = move |_| {
        // This must happen within the click: some browsers refuse it later.
        let promise = clipboard::put(&text.get_untracked());
        leptos::task::spawn_local(async move {
            let is_there = match promise {
                Some(promise) => JsFuture::from(promise).await.is_ok(),
                None => false,
            };
            let _ = copied.try_set(match is_there {
                true => Copied::Yes,
                false => Copied::Refused,
            });
            set_timeout(
                move || {
                    let _ = copied.try_set(Copied::NotYet);
                },
                THANKS,
            );
        });
    };
    let icon = move || match copied.get() {
        Copied::Yes => view! { <IconView icon=Icon::Done/> },
        Copied::NotYet | Copied::Refused => view! { <IconView icon=Icon::Copy/> },
    };
    let shown = move || match copied.get() {
        Copied::NotYet => label,
        Copied::Yes => "Copied",
        Copied::Refused => "Select and copy it",
    };
    // A button's name should begin with its visible text.
    let name = match label {
        "Copy" => format!("Copy {what}"),
        label => format!("{label}: {what}"),
    };
    let class = match is_main {
        true => "button primary",
        false => "copy-button",
    };
    view! {
        <button class=class aria-label=name on:click=copy>
            {icon}
            <span aria-live="polite">{shown}</span>
        </button>
    }
}
