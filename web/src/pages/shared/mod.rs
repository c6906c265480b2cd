//! The page behind a shared link: exactly the view for which it was made.
//!
//! The address stays that of the link, with the view as its query. So reloading and copying it work
//! as on other pages. Every request names the link, so the person who made the link sees here the
//! same as its readers.

mod banner;

use crate::client;
use crate::clock::sleep;
use crate::components::problem_note::ProblemNote;
use crate::context::expect_context;
use crate::opened_link::OpenedLink;
use crate::pages::compare::ComparePage;
use crate::pages::run::RunOf;
use api::problem::Problem;
use api::routes;
use api::shares::{OpenShare, Share, ShareTarget};
use banner::LinkBanner;
use leptos::prelude::*;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_location, use_navigate, use_params_map};
use presentation::response::is_no_answer;
use std::time::Duration;

/// How often a server that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(3);

/// The link: being opened, open, or refused.
#[derive(Clone)]
enum Opening {
    Loading,
    Open(Share),
    Refused(Problem),
}

/// The page of a link.
#[component]
pub fn SharedPage() -> impl IntoView {
    let OpenedLink(link) = expect_context();
    let params = use_params_map();
    let token = Memo::new(move |_| params.with(|p| p.get("token").unwrap_or_default()));
    let opening = RwSignal::new(Opening::Loading);
    let attempt = RwSignal::new(0_u32);
    Effect::new(move |_| {
        attempt.track();
        close(link);
        opening.set(Opening::Loading);
        open(token.get(), link, opening);
    });
    on_cleanup(move || close(link));
    let retry = Callback::new(move |()| attempt.update(|n| *n += 1));
    move || match opening.get() {
        Opening::Loading => view! { <Waiting/> }.into_any(),
        Opening::Refused(problem) => view! { <Refused problem=problem retry=retry/> }.into_any(),
        Opening::Open(share) => view! { <Opened share=share/> }.into_any(),
    }
}

fn close(link: RwSignal<Option<Share>>) {
    client::ask_for_link(None);
    let _ = link.try_set(None);
}

fn open(token: String, link: RwSignal<Option<Share>>, opening: RwSignal<Opening>) {
    leptos::task::spawn_local_scoped_with_cancellation(async move {
        let body = OpenShare { token };
        let mut is_told = false;
        loop {
            let method = client::Method::Post;
            let answer = client::send_json::<_, Share>(method, routes::OPEN_SHARE, &body).await;
            let is_away = answer.as_ref().is_err_and(is_no_answer);
            if !(is_away && is_told) {
                let _ = opening.try_set(match answer {
                    Ok(share) => {
                        client::ask_for_link(Some(share.id.clone()));
                        let _ = link.try_set(Some(share.clone()));
                        Opening::Open(share)
                    }
                    Err(problem) => Opening::Refused(problem),
                });
            }
            if !is_away {
                return;
            }
            // Readers of a link get no notice when the server is back.
            is_told = true;
            sleep(AGAIN).await;
        }
    });
}

#[component]
fn Waiting() -> impl IntoView {
    view! {
        <div class="run-page" aria-busy="true">
            <p class="visually-hidden">"Opening the link"</p>
            <div class="skeleton-head run-skeleton-title"></div>
            <div class="skeleton-row run-skeleton-picture"></div>
        </div>
    }
}

/// A link that does not open: the server says who ended it, when, and what it showed.
#[component]
fn Refused(problem: Problem, retry: Callback<()>) -> impl IntoView {
    document().set_title("Link · Tidemark");
    view! {
        <div class="run-page link-refused">
            <h1 class="visually-hidden">"Link"</h1>
            <ProblemNote problem=problem retry=retry/>
        </div>
    }
}

/// The view of an open link. An address without a query is as it was shared. It first gets the
/// link's own query, so that the page finds its view in the usual place.
#[component]
fn Opened(share: Share) -> impl IntoView {
    let location = use_location();
    let (path, search) = (location.pathname, location.search);
    let wanted = share.query.clone();
    let bare = search.with_untracked(String::is_empty) && !wanted.is_empty();
    if bare {
        let options = NavigateOptions {
            replace: true,
            scroll: false,
            ..NavigateOptions::default()
        };
        let address = format!("{}?{wanted}", path.get_untracked());
        use_navigate()(&address, options);
    }
    let ready = Memo::new(move |_| !bare || search.with(|query| !query.is_empty()));
    let target = share.target.clone();
    let content = move || {
        ready.get().then(|| match &target {
            ShareTarget::Run { run } => {
                view! { <RunOf id=Signal::stored(run.to_string())/> }.into_any()
            }
            ShareTarget::Comparison { .. } => view! { <ComparePage/> }.into_any(),
        })
    };
    view! {
        <LinkBanner share=share/>
        {content}
    }
}
