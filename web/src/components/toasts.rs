//! Short messages at the edge of the page, some with one thing to do about them.

use crate::components::focus::rescue;
use crate::components::icon::{Icon, IconView};
use crate::components::prose::Prose;
use crate::context::expect_context;
use api::problem::Problem;
use leptos::prelude::*;
use presentation::components::problem_note::{behind_colon, sentence};
use std::time::Duration;

/// A message without an action stays this long.
const BRIEF: Duration = Duration::from_secs(6);
/// A message with an action stays this long.
const LONG: Duration = Duration::from_secs(15);

/// The tone of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Something worked as expected.
    Plain,
    /// Something failed.
    Bad,
}

/// What can be done about a message.
#[derive(Clone)]
pub struct ToastAction {
    /// Text of the button.
    pub label: &'static str,
    /// What it does.
    pub act: Callback<()>,
}

#[derive(Clone)]
struct Toast {
    id: u32,
    tone: Tone,
    text: String,
    action: Option<ToastAction>,
}

/// The messages, in the context of the whole application.
#[derive(Clone, Copy)]
pub struct Toasts {
    shown: RwSignal<Vec<Toast>>,
    next_id: StoredValue<u32>,
}

impl Toasts {
    /// None yet.
    pub fn new() -> Toasts {
        Toasts {
            shown: RwSignal::new(Vec::new()),
            next_id: StoredValue::new(0),
        }
    }

    /// Shows a message.
    pub fn show(self, text: String, action: Option<ToastAction>) {
        self.push(Tone::Plain, text, action);
    }

    /// Shows that `what` (a sentence's beginning) failed, and why.
    pub fn fail(self, what: &str, problem: &Problem) {
        let (title, detail) = (behind_colon(&problem.title), sentence(&problem.detail));
        let text = [what, ": ", &title, " ", &detail].concat();
        self.push(Tone::Bad, text, None);
    }

    fn push(self, tone: Tone, text: String, action: Option<ToastAction>) {
        let id = self.next_id.get_value();
        self.next_id.set_value(id.wrapping_add(1));
        let stay = if action.is_some() { LONG } else { BRIEF };
        self.shown.update(|shown| {
            shown.push(Toast {
                id,
                tone,
                text,
                action,
            })
        });
        set_timeout(move || self.dismiss(id), stay);
    }

    fn dismiss(self, id: u32) {
        self.shown
            .update(|shown| shown.retain(|toast| toast.id != id));
    }
}

impl Default for Toasts {
    fn default() -> Toasts {
        Toasts::new()
    }
}

/// Where the messages appear; a live region, so that they are read out.
#[component]
pub fn ToastArea() -> impl IntoView {
    let toasts: Toasts = expect_context();
    view! {
        <div class="toasts" role="status" aria-live="polite">
            <For
                each=move || toasts.shown.get()
                key=|toast| toast.id
                children=move |toast| toast_view(toasts, toast)
            />
        </div>
    }
}

fn toast_view(toasts: Toasts, toast: Toast) -> impl IntoView {
    let id = toast.id;
    let action = toast.action.map(|action| {
        let act = move |_| {
            action.act.run(());
            toasts.dismiss(id);
            rescue("#main");
        };
        view! { <button class="link-button" on:click=act>{action.label}</button> }
    });
    view! {
        <div class="toast" class:bad=toast.tone == Tone::Bad>
            <p><Prose text=toast.text/></p>
            {action}
            <button
                class="icon-button"
                aria-label="Dismiss"
                on:click=move |_| toasts.dismiss(id)
            >
                <IconView icon=Icon::Close/>
            </button>
        </div>
    }
}
