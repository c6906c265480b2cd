//! The shell: router, header, and the parts that every page has.

use crate::client;
use crate::components::drop_target::DropTarget;
use crate::components::floating;
use crate::components::focus;
use crate::components::header::Header;
use crate::components::help::{Help, HelpOverlay};
use crate::components::toasts::{ToastArea, Toasts};
use crate::components::token_dialog::{TokenDialog, TokenNeeded};
use crate::components::upload_tray::UploadTray;
use crate::connection::Hearing;
use crate::context::expect_context;
use crate::events;
use crate::numbers::Shown;
use crate::opened_link::OpenedLink;
use crate::pages::bench::BenchPage;
use crate::pages::bench::store::BenchStore;
use crate::pages::compare::ComparePage;
use crate::pages::compare::pick::Picked;
use crate::pages::job::JobPage;
use crate::pages::not_found::NotFoundPage;
use crate::pages::run::RunPage;
use crate::pages::runs::RunsPage;
use crate::pages::runs_store::RunsStore;
use crate::pages::shared::SharedPage;
use crate::questions::answer::AskAgain;
use crate::upload::driver::Uploads;
use api::progress::ServerEvent;
use api::routes;
use leptos::prelude::*;
use leptos_router::components::{Route, Router, Routes};
use leptos_router::hooks::{use_location, use_params_map};
use leptos_router::path;
use presentation::components::problem_note::behind_colon;
use presentation::connection::Connection;
use presentation::events::Notice;

/// The application.
#[component]
pub fn App() -> impl IntoView {
    provide_shared_state();
    floating::close_when_left();
    let numbers: Shown = expect_context();
    // Numbers stand everywhere, so the whole page is built anew; its address says what it shows.
    let pages = move || {
        numbers.write();
        view! {
            <Routes fallback=NotFoundPage>
                <Route path=path!("/") view=RunsPage/>
                <Route path=path!("/runs/:id") view=RunRoute/>
                <Route path=path!("/jobs/:id") view=JobRoute/>
                <Route path=path!("/s/:token") view=SharedPage/>
                <Route path=path!("/bench") view=BenchPage/>
                <Route path=path!("/compare") view=ComparePage/>
            </Routes>
        }
    };
    view! {
        <Router>
            <Header/>
            <main id="main" tabindex="-1">
                {pages}
            </main>
            <FocusFollowsPage/>
            <ListensToServer/>
            <UploadTray/>
        </Router>
        <DropTarget/>
        <ToastArea/>
        <HelpOverlay/>
        <TokenDialog/>
    }
}

#[component]
fn RunRoute() -> impl IntoView {
    anew_for_each_id(|| view! { <RunPage/> }.into_any())
}

#[component]
fn JobRoute() -> impl IntoView {
    anew_for_each_id(|| view! { <JobPage/> }.into_any())
}

/// A page that is built anew for each id, so that nothing of one run or job stays on the page of
/// another, and its view is written to its own address.
fn anew_for_each_id(page: fn() -> AnyView) -> impl IntoView {
    let params = use_params_map();
    let id = Memo::new(move |_| params.with(|params| params.get("id")));
    move || {
        // Not `track`: a memo that nobody reads is never computed, and then never changes.
        id.get();
        page()
    }
}

/// Moves the focus to the content when the page changes, because the link that was clicked is gone.
#[component]
fn FocusFollowsPage() -> impl IntoView {
    let path = use_location().pathname;
    Effect::new(move |before: Option<String>| {
        let now = path.get();
        if before.is_some_and(|before| before != now) {
            focus::give("#main");
        }
        now
    });
}

/// Shared state that every page can use.
fn provide_shared_state() {
    let uploads = Uploads::new();
    let runs = RunsStore::new();
    let benches = BenchStore::new();
    let connection = RwSignal::new(Connection::There);
    let token_needed = TokenNeeded(RwSignal::new(false));
    provide_context(uploads);
    provide_context(runs);
    provide_context(benches);
    provide_context(Picked::new());
    provide_context(connection);
    let hearing = Hearing::new(connection);
    provide_context(hearing);
    provide_context(OpenedLink(RwSignal::new(None)));
    provide_context(AskAgain(RwSignal::new(0)));
    provide_context(token_needed);
    let toasts = Toasts::new();
    provide_context(toasts);
    provide_context(Help(RwSignal::new(false)));
    provide_context(Shown::as_kept());

    // What was sent from here is listed at once; of many files, when the last one has arrived.
    Effect::new(move |before: Option<usize>| {
        let (arrived, is_last) = uploads.arrived();
        if is_last && before.is_some_and(|before| before < arrived) {
            runs.added();
        }
        arrived
    });
    client::on_heard(move |now| hearing.in_answers(now));
    client::on_unauthorized(move || token_needed.0.set(true));
    client::on_busy(move |problem| {
        let text = [&problem.title, ": ", &behind_colon(&problem.detail)].concat();
        toasts.show(text, None);
    });
}

/// Listens to changes on the server, from the first page that was not opened with a link. People
/// with only a link get no notices, and nothing that a link shows changes.
#[component]
fn ListensToServer() -> impl IntoView {
    let path = use_location().pathname;
    let owner = Owner::current();
    Effect::new(move |listening: Option<bool>| {
        let is_link = path.with(|path| path.starts_with(&routes::share_page("")));
        let listening = listening.unwrap_or(false);
        if let Some(owner) = owner.as_ref().filter(|_| !is_link && !listening) {
            // It runs as long as the application, not only until the path changes.
            owner.with(listen);
        }
        listening || !is_link
    });
}

fn listen() {
    let uploads: Uploads = expect_context();
    let runs: RunsStore = expect_context();
    let benches: BenchStore = expect_context();
    let hearing: Hearing = expect_context();
    events::subscribe(move |notice| match notice {
        Notice::Event(ServerEvent::RunsChanged) => {
            runs.changed();
            benches.changed();
        }
        Notice::Event(ServerEvent::Upload { upload, progress }) => {
            uploads.report(&upload, progress)
        }
        Notice::Event(ServerEvent::BenchProgress { row, progress, .. }) => {
            benches.moved_on(row, progress);
        }
        Notice::Event(ServerEvent::BenchChanged { .. }) => benches.changed(),
        Notice::Lost => hearing.on_stream(Connection::Lost),
        Notice::Back | Notice::Event(ServerEvent::Missed) => {
            hearing.on_stream(Connection::There);
            uploads.server_is_back();
            runs.changed();
            benches.changed();
        }
    });
}
