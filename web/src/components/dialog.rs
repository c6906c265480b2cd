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

/// Shows `children` above the page while `open`. They are built when it opens for the first time:
/// most dialogs of a page never do.
#[component]
pub fn Dialog(
    /// Whether it is open; set to false when the user closes it.
    open: RwSignal<bool>,
    /// Its title.
    title: &'static str,
    /// How it closes.
    closing: Closing,
    children: Children,
) -> impl IntoView {
    // It never becomes false again, so the children are taken once.
    let wanted = Memo::new(move |before| before == Some(&true) || open.get());
    let mut children = Some(children);
    move || {
        let children = wanted.get().then(|| children.take()).flatten()?;
        Some(element(open, title, closing, children()))
    }
}

fn element(
    open: RwSignal<bool>,
    title: &'static str,
    closing: Closing,
    content: AnyView,
) -> AnyView {
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
    view! {
        <dialog
            class="dialog"
            node_ref=element
            aria-label=title
            on:cancel=cancel
            on:close=move |_| open.set(false)
            on:click=beside
        >
            <div class="dialog-body">
                <header class="dialog-head">
                    <h2>{title}</h2>
                    {(closing == Closing::Free).then(|| close_button(open))}
                </header>
                {content}
            </div>
        </dialog>
    }
    .into_any()
}

fn close_button(open: RwSignal<bool>) -> impl IntoView {
    view! {
        <button class="icon-button" aria-label="Close" on:click=move |_| open.set(false)>
            <IconView icon=Icon::Close/>
        </button>
    }
}
