//! The form that makes a link, and the link that it made.

use super::preview::Preview;
use super::{forget_draft, store_draft, store_name, stored_draft};
use crate::client;
use crate::components::copy_button::CopyButton;
use crate::components::copy_for_pr::CopyForPr;
use crate::components::focus::rescue;
use crate::components::problem_note::told;
use api::problem::Problem;
use api::routes;
use api::shares::{CreatedShare, NewShare, Redaction, ShareKind, ShareTarget};
use leptos::prelude::*;
use presentation::components::share::{ABOUT_REDACTION, Draft, LIVES, REDACTED};

/// The values of the form. `Copy`.
#[derive(Clone, Copy)]
struct Fields {
    kind: RwSignal<ShareKind>,
    life: RwSignal<usize>,
    redacted: RwSignal<bool>,
    note: RwSignal<String>,
    name: RwSignal<String>,
}

impl Fields {
    /// As they were left in this tab: the dialog may be closed, or the session end, before the link
    /// is made.
    fn opened(name: RwSignal<String>) -> Fields {
        let draft = stored_draft();
        Fields {
            kind: RwSignal::new(draft.kind),
            life: RwSignal::new(draft.life),
            redacted: RwSignal::new(draft.redacted),
            note: RwSignal::new(draft.note),
            name,
        }
    }

    /// Keeps what is filled in, if the form is still there.
    fn keep(self) {
        if let Some(note) = self.note.try_get_untracked() {
            store_draft(&Draft {
                kind: self.kind.get_untracked(),
                life: self.life.get_untracked(),
                redacted: self.redacted.get_untracked(),
                note,
            });
        }
    }

    fn link(self, target: ShareTarget, query: String) -> NewShare {
        let kind = self.kind.get_untracked();
        let redacted = self.redacted.get_untracked() && kind == ShareKind::Capability;
        let life = LIVES.get(self.life.get_untracked()).and_then(|life| life.1);
        NewShare {
            kind,
            target,
            query,
            redaction: if redacted {
                Redaction::Redacted
            } else {
                Redaction::None
            },
            note: self.note.get_untracked(),
            created_by: self.name.get_untracked(),
            expires_in_s: life,
        }
    }
}

/// The request that makes the link. `Copy`.
#[derive(Clone, Copy)]
struct Request {
    busy: RwSignal<bool>,
    problem: RwSignal<Option<Problem>>,
}

impl Request {
    fn send(self, new: NewShare, made: impl FnOnce(CreatedShare) + 'static) {
        // A second press would make a second link, whose address nobody would ever see.
        if self.busy.get_untracked() {
            return;
        }
        self.busy.set(true);
        self.problem.set(None);
        leptos::task::spawn_local(async move {
            match client::send_json(client::Method::Post, routes::SHARES, &new).await {
                Ok(created) => made(created),
                Err(refused) => drop(self.problem.try_set(Some(refused))),
            }
            let _ = self.busy.try_set(false);
        });
    }
}

/// The form; once the link is made, the link in its place.
#[component]
pub fn NewLink(
    target: ShareTarget,
    query: String,
    name: RwSignal<String>,
    changed: RwSignal<u32>,
    made: RwSignal<Option<CreatedShare>>,
) -> impl IntoView {
    let fields = Fields::opened(name);
    on_cleanup(move || {
        if made.try_with_untracked(Option::is_none) == Some(true) {
            fields.keep();
        }
    });
    let request = Request {
        busy: RwSignal::new(false),
        problem: RwSignal::new(None),
    };
    let send = {
        let (target, query) = (target.clone(), query.clone());
        Callback::new(move |()| {
            let new = fields.link(target.clone(), query.clone());
            store_name(&new.created_by);
            // The session may have ended.
            fields.keep();
            request.send(new, move |created| {
                forget_draft();
                let _ = made.try_set(Some(created));
                rescue(".share-made .button");
                let _ = changed.try_update(|n| *n += 1);
            });
        })
    };
    let (query, about) = (Signal::stored(query), Signal::stored(target.clone()));
    move || match made.get() {
        None => {
            let target = target.clone();
            view! { <LinkForm fields=fields target=target request=request send=send/> }.into_any()
        }
        Some(created) => {
            let slug = created
                .url
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();
            let open_to_all = created.share.kind == ShareKind::Capability;
            let block =
                open_to_all.then(|| view! { <CopyForPr target=about query=query link=slug/> });
            let again = move |_| {
                made.set(None);
                rescue("#share-note");
            };
            view! {
                <Made created=created/>
                <div class="share-buttons">
                    {block}
                    <button class="button" on:click=again>"Make another"</button>
                </div>
            }
            .into_any()
        }
    }
}

#[component]
fn LinkForm(
    fields: Fields,
    target: ShareTarget,
    request: Request,
    send: Callback<()>,
) -> impl IntoView {
    let capability = move || fields.kind.get() == ShareKind::Capability;
    let lives = LIVES.iter().enumerate().map(|(at, (name, _))| {
        // Another link of this dialog keeps what was chosen for the last one.
        let chosen = at == fields.life.get_untracked();
        view! { <option value=at.to_string() prop:selected=chosen>{*name}</option> }
    });
    let lives = lives.collect_view();
    let choose_life = move |event| {
        if let Ok(at) = event_target_value(&event).parse() {
            fields.life.set(at);
        }
    };
    let submit = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        send.run(());
    };
    let redaction = move || {
        let target = target.clone();
        capability().then(|| view! { <RedactionField redacted=fields.redacted target=target/> })
    };
    view! {
        <form class="share-form" on:submit=submit>
            <KindField kind=fields.kind/>
            <div class="share-field">
                <label for="share-life">"It ends"</label>
                <select id="share-life" class="input" on:change=choose_life>{lives}</select>
            </div>
            {redaction}
            <div class="share-field">
                <label for="share-note">"Note"</label>
                <input
                    id="share-note"
                    class="input"
                    maxlength=NewShare::MAX_TEXT
                    placeholder="What it is for; shown with the link"
                    bind:value=fields.note
                />
            </div>
            <div class="share-field">
                <label for="share-name">"Your name"</label>
                <input
                    id="share-name"
                    class="input"
                    maxlength=NewShare::MAX_TEXT
                    placeholder="Whom to ask; shown with the link"
                    bind:value=fields.name
                />
            </div>
            <p class="bad-text" role="alert">{move || request.problem.get().map(told)}</p>
            <div class="share-buttons">
                <button
                    class="button primary"
                    type="submit"
                    aria-busy=move || request.busy.get().to_string()
                >
                    "Make the link"
                </button>
            </div>
        </form>
    }
}

#[component]
fn KindField(kind: RwSignal<ShareKind>) -> impl IntoView {
    let kinds = [
        (
            ShareKind::Team,
            "Team link",
            "Short. It opens for people who can open the other pages here, and for nobody else.",
        ),
        (
            ShareKind::Capability,
            "Link without login",
            "Whoever has it can look at this view's runs, and at nothing else, until it ends or \
             you revoke it.",
        ),
    ];
    let options = kinds.map(|(value, name, about)| {
        view! {
            <label class="share-kind">
                <input
                    type="radio"
                    name="share-kind"
                    prop:checked=move || kind.get() == value
                    on:change=move |_| kind.set(value)
                />
                <span><strong>{name}</strong><span class="muted">{about}</span></span>
            </label>
        }
    });
    view! { <fieldset class="share-kinds"><legend>"Who can open it"</legend>{options}</fieldset> }
}

#[component]
fn RedactionField(redacted: RwSignal<bool>, target: ShareTarget) -> impl IntoView {
    let about = move || {
        redacted
            .get()
            .then(|| view! { <p class="muted">{ABOUT_REDACTION}</p> })
    };
    let preview = move || {
        let runs = target.runs().to_vec();
        redacted.get().then(|| view! { <Preview runs=runs/> })
    };
    view! {
        <label class="share-check">
            <input
                type="checkbox"
                prop:checked=redacted
                on:change=move |event| redacted.set(event_target_checked(&event))
            />
            "With " {REDACTED}
        </label>
        {about}
        {preview}
    }
}

/// The link, to be copied.
#[component]
fn Made(created: CreatedShare) -> impl IntoView {
    let about = match created.share.kind {
        ShareKind::Team => "The link is ready.",
        ShareKind::Capability => "The link is ready. Copy it now: it cannot be shown again.",
    };
    let url = created.url.clone();
    view! {
        <div class="share-made" role="status">
            <p>{about}</p>
            <div class="share-link">
                <input
                    class="input"
                    readonly
                    aria-label="The link"
                    prop:value=created.url
                    on:focus=move |event| select(&event)
                />
                <CopyButton text=Signal::stored(url) what="the link" is_main=true/>
            </div>
        </div>
    }
}

/// Selects all of a field, so that it can be copied by hand.
fn select(event: &web_sys::FocusEvent) {
    event_target::<web_sys::HtmlInputElement>(event).select();
}
