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
    let is_at_itself = move |event: &web_sys::Event| {
        let dialog = element.get_untracked();
        event.target().as_ref() == dialog.as_deref().map(AsRef::<web_sys::EventTarget>::as_ref)
    };
    // The browser reports later that it has closed the dialog. A key pressed in between finds it
    // closed already.
    let cancel = move |event: web_sys::Event| match closing {
        Closing::Never => event.prevent_default(),
        // A file picker inside of it that is left says so by an event of the same name.
        Closing::Free if is_at_itself(&event) => open.set(false),
        Closing::Free => {}
    };
    // It may have been opened again in the meantime.
    let closed = move |_| {
        let is_open = element.get_untracked().is_some_and(|dialog| dialog.open());
        if !is_open {
            open.set(false);
        }
    };
    // The backdrop belongs to the dialog element itself; its content does not. Who selects a text
    // and lets go beside the dialog clicks on the dialog, too, but has not pressed there.
    let pressed_beside = StoredValue::new(false);
    let press = move |event: web_sys::PointerEvent| {
        pressed_beside.set_value(is_at_itself(&event));
    };
    let beside = move |event: web_sys::MouseEvent| {
        if closing == Closing::Free && pressed_beside.get_value() && is_at_itself(&event) {
            open.set(false);
        }
    };
    view! {
        <dialog
            class="dialog"
            node_ref=element
            aria-label=title
            on:cancel=cancel
            on:close=closed
            on:pointerdown=press
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
