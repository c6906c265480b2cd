//! Who is signed in: the browsers in which the access token was typed, and how to end that.

use crate::client::{self, Method};
use crate::clock;
use crate::components::dialog::{Closing, Dialog};
use crate::components::icon::{Icon, IconView};
use crate::format::{self, UnixMillis};
use crate::opened_link::OpenedLink;
use api::problem::Problem;
use api::routes;
use api::runs::{Access, ServerInfo, Session, Sessions};
use leptos::prelude::*;
use leptos::task::{spawn_local, spawn_local_scoped_with_cancellation};

/// Whether the dialog is open; in the context of the whole application.
#[derive(Clone, Copy)]
pub struct SessionsOpen(pub RwSignal<bool>);

/// The button in the header. Nothing where no token is needed, or for those who came with a link.
#[component]
pub fn SessionsButton() -> impl IntoView {
    let SessionsOpen(open) = expect_context();
    let OpenedLink(link) = expect_context();
    let access = RwSignal::new(None);
    spawn_local_scoped_with_cancellation(async move {
        // Where the server does not answer, the page says so elsewhere.
        if let Ok(server) = client::get::<ServerInfo>(routes::SERVER).await {
            let _ = access.try_set(Some(server.access));
        }
    });
    let shown = move || access.get() == Some(Access::Granted) && link.with(Option::is_none);
    move || {
        shown().then(|| {
            view! {
                <button
                    class="icon-button"
                    aria-label="Who is signed in"
                    title="Who is signed in"
                    on:click=move |_| open.set(true)
                >
                    <IconView icon=Icon::Person/>
                </button>
            }
        })
    }
}

/// The dialog.
#[component]
pub fn SessionsDialog() -> impl IntoView {
    let SessionsOpen(open) = expect_context();
    let body = move || open.get().then(|| view! { <SignedIn/> });
    view! {
        <Dialog open=open title="Who is signed in" closing=Closing::Free>
            {body}
        </Dialog>
    }
}

/// The list as it is asked for, and what is done to it.
#[derive(Clone, Copy)]
struct List {
    found: RwSignal<Option<Sessions>>,
    problem: RwSignal<Option<Problem>>,
}

impl List {
    fn load(self) {
        spawn_local_scoped_with_cancellation(async move {
            match client::get(routes::SESSIONS).await {
                Ok(sessions) => drop(self.found.try_set(Some(sessions))),
                Err(problem) => drop(self.problem.try_set(Some(problem))),
            }
        });
    }

    /// Ends what the path names; then it is listed anew.
    fn end(self, path: String, then: fn(List)) {
        spawn_local(async move {
            match client::send::<()>(Method::Delete, &path).await {
                Ok(()) => then(self),
                Err(problem) => drop(self.problem.try_set(Some(problem))),
            }
        });
    }

    fn refresh(self) {
        spawn_local(async move {
            if let Ok(sessions) = client::get(routes::SESSIONS).await {
                let _ = self.found.try_set(Some(sessions));
            }
        });
    }

    /// The page starts anew, and asks for the token.
    fn leave(self) {
        let _ = window().location().reload();
    }
}

#[component]
fn SignedIn() -> impl IntoView {
    let list = List {
        found: RwSignal::new(None),
        problem: RwSignal::new(None),
    };
    list.load();
    let rows = move || {
        let sessions = list.found.get()?.sessions.into_iter();
        let rows = sessions.map(|session| view! { <SessionRow session=session list=list/> });
        Some(view! { <ul class="sessions">{rows.collect_view()}</ul> })
    };
    let wrong = move || {
        let wrong = list.found.with(|found| found.as_ref().map(|f| f.wrong))?;
        (wrong > 0).then(|| {
            let times = format::plural(wrong, "wrong token or link");
            let text = format!("{times} since the server was started.");
            view! { <p class="muted">{text}</p> }
        })
    };
    let alone = move || {
        let sessions = list.found.with(|f| f.as_ref().map(|f| f.sessions.len()));
        sessions.is_none_or(|n| n < 2)
    };
    view! {
        <p class="muted">
            "These browsers have the access token typed in. A session ends by itself after seven "
            "days, and all of them end with another token."
        </p>
        <p class="bad-text" role="alert">{move || list.problem.get().map(|p| p.detail)}</p>
        {rows}
        {wrong}
        <div class="sessions-end">
            <button
                class="button"
                disabled=alone
                on:click=move |_| list.end(routes::SESSIONS.to_owned(), List::refresh)
            >
                "Sign out all others"
            </button>
            <button
                class="button primary"
                on:click=move |_| list.end(routes::SESSION.to_owned(), List::leave)
            >
                "Sign out"
            </button>
        </div>
    }
}

#[component]
fn SessionRow(session: Session, list: List) -> impl IntoView {
    let now = clock::now();
    let seen = format::age(UnixMillis(session.seen_ms), now);
    let date = |ms| format::date_time(UnixMillis(ms));
    let about = format!(
        "signed in {} from {} · until {}",
        date(session.created_ms),
        session.address,
        date(session.expires_ms),
    );
    let name = browser(&session.agent);
    let end = match session.current {
        true => view! { <span class="badge">"this browser"</span> }.into_any(),
        false => {
            let path = routes::session(&session.id);
            let label = format!("Sign out {name}, last used {seen}");
            view! {
                <button
                    class="link-button"
                    aria-label=label
                    on:click=move |_| list.end(path.clone(), List::refresh)
                >
                    "Sign out"
                </button>
            }
            .into_any()
        }
    };
    view! {
        <li class="session">
            <div>
                <strong title=session.agent.clone()>{name}</strong>
                <span>{format!("last used {seen}")}</span>
                <span class="muted">{about}</span>
            </div>
            {end}
        </li>
    }
}

/// What a browser is called, from what it calls itself: `Firefox on Linux`.
fn browser(agent: &str) -> String {
    // Each of them also calls itself by the names below its own.
    const BROWSERS: [(&str, &str); 5] = [
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ];
    const SYSTEMS: [(&str, &str); 6] = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS", "macOS"),
        ("Linux", "Linux"),
    ];
    let find = |names: &[(&str, &'static str)]| {
        let found = names.iter().find(|(part, _)| agent.contains(part));
        found.map(|(_, name)| *name)
    };
    match (find(&BROWSERS), find(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, _) if agent.is_empty() => "A program without a name".to_owned(),
        (None, _) => agent.chars().take(40).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_called_by_its_own_name() {
        let check = |agent: &str, expected: &str| assert_eq!(browser(agent), expected);
        let webkit = "AppleWebKit/537.36 (KHTML, like Gecko)";
        check(
            &format!("Mozilla/5.0 (X11; Linux x86_64) {webkit} Chrome/130.0 Safari/537.36"),
            "Chrome on Linux",
        );
        check(
            &format!("Mozilla/5.0 (Windows NT 10.0) {webkit} Chrome/130 Safari/537.36 Edg/130"),
            "Edge on Windows",
        );
        check(
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 14.1; rv:132.0) Gecko/20100101 Firefox/132.0",
            "Firefox on macOS",
        );
        check(
            "Mozilla/5.0 (Linux; Android 14) Chrome/130 Safari/537.36",
            "Chrome on Android",
        );
        check("curl/8.9", "curl/8.9");
        check("", "A program without a name");
    }
}
