//! A modal dialog: the browser's own, which traps the focus and closes on Escape.

use crate::components::icon::{Icon, IconView};
use leptos::html;
use leptos::prelude::*;

/// Whether the dialog has a button that closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// By a button, by Escape, or by a click outside of it.
    Free,
    /// It stays open until its purpose is fulfilled.
    Never,
}

/// Shows `children` above the page while `open`.
#[component]
pub fn Dialog(
    /// Whether it is open; set to false when the user closes it.
    open: RwSignal<bool>,
    /// Its title.
    #[prop(into)]
    title: String,
    /// How it closes.
    closing: Closing,
    children: Children,
) -> impl IntoView {
    let element = NodeRef::<html::Dialog>::new();
    Effect::new(move |_| {
        let Some(dialog) = element.get() else { return };
        match (open.get(), dialog.open()) {
            // Fails only when it is open already, or detached.
            (true, false) => drop(dialog.show_modal()),
            (false, true) => dialog.close(),
            _ => {}
        }
    });
    let cancel = move |event: web_sys::Event| {
        if closing == Closing::Never {
            event.prevent_default();
        }
    };
    let beside = move |event: web_sys::MouseEvent| {
        // The backdrop belongs to the dialog element itself; its content does not.
        let on_backdrop = event.target().as_ref()
            == element
                .get()
                .as_deref()
                .map(AsRef::<web_sys::EventTarget>::as_ref);
        if closing == Closing::Free && on_backdrop {
            open.set(false);
        }
    };
    let label = title.clone();
    view! {
        <dialog
            class="dialog"
            node_ref=element
            aria-label=label
            on:cancel=cancel
            on:close=move |_| open.set(false)
            on:click=beside
        >
            <div class="dialog-body">
                <header class="dialog-head">
                    <h2>{title}</h2>
                    {(closing == Closing::Free).then(|| close_button(open))}
                </header>
                {children()}
            </div>
        </dialog>
    }
}

fn close_button(open: RwSignal<bool>) -> impl IntoView {
    view! {
        <button class="icon-button" aria-label="Close" on:click=move |_| open.set(false)>
            <IconView icon=Icon::Close/>
        </button>
    }
}
