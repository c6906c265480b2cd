//! The slim bar at the top of every page.

use crate::components::account::AccountLink;
use crate::components::file_picker::FilePicker;
use crate::components::focus;
use crate::components::help::Help;
use crate::components::icon::{Icon, IconView, LogoMark};
use crate::components::token_dialog::TokenNeeded;
use crate::context::expect_context;
use crate::numbers::Shown;
use crate::opened_link::OpenedLink;
use crate::project;
use crate::theme;
use api::routes;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::connection::Connection;
use presentation::theme::Theme;
use trace::units::numbers::Numbers;
use web_sys::MouseEvent;

/// Pages that the server makes, over many runs.
const MORE_PAGES: [(&str, &str); 6] = [
    (routes::LIVE_PAGE, "Live"),
    (routes::JOBS_PAGE, "Jobs"),
    (routes::HISTORY_PAGE, "History"),
    (routes::PULLS_PAGE, "Pull requests"),
    (routes::VIEWS_PAGE, "Views"),
    (routes::CATEGORIES_PAGE, "Categories"),
];

/// Wordmark, pages, upload, numbers, theme, help.
#[component]
pub fn Header() -> impl IntoView {
    let Help(help) = expect_context();
    let link: OpenedLink = expect_context();
    // With a link, people can look but do nothing else.
    let upload = move || {
        let reads_only = link.0.with(Option::is_some);
        (!reads_only).then(|| view! { <FilePicker label="Upload"/> })
    };
    // For people who are not signed in, other pages would only ask for the token.
    let pages = move || {
        (!link.is_all()).then(|| {
            let more = MORE_PAGES.map(|(page, name)| {
                let page = project::page(page);
                view! { <a href=page rel="external">{name}</a> }
            });
            view! {
                <A href=routes::RUNS_PAGE exact=true>"Runs"</A>
                <A href=routes::COMPARE_PAGE>"Compare"</A>
                <A href=routes::BENCH_PAGE>"Bench"</A>
                {more.collect_view()}
            }
        })
    };
    let mark = move || {
        let inside = view! { <LogoMark/> <span>"Tidemark"</span> };
        match link.is_all() {
            true => view! { <span class="wordmark">{inside}</span> }.into_any(),
            false => view! {
                <A href="/" attr:class="wordmark" attr:aria-label="Tidemark: all runs">
                    {inside}
                </A>
            }
            .into_any(),
        }
    };
    // The router takes each click on a link of the site, and would only write the address.
    let skip = |event: MouseEvent| {
        event.prevent_default();
        focus::give("#main");
    };
    view! {
        <header class="app-header">
            <a class="skip-link" href="#main" on:click=skip>"Skip to the content"</a>
            {mark}
            <nav class="app-nav" aria-label="Pages">{pages}</nav>
            <ConnectionChip/>
            <div class="app-header-tools">
                {upload}
                <AccountLink/>
                <NumbersSwitch/>
                <ThemeSwitch/>
                <button
                    class="icon-button"
                    aria-label="Keys and gestures"
                    title="Keys and gestures (?)"
                    on:click=move |_| help.set(true)
                >
                    <span aria-hidden="true">"?"</span>
                </button>
            </div>
        </header>
    }
}

/// Shows when the server does not answer; otherwise it is empty.
#[component]
fn ConnectionChip() -> impl IntoView {
    let connection: RwSignal<Connection> = expect_context();
    let TokenNeeded(token_needed) = expect_context();
    // Without a token the stream is refused; the dialog says so already.
    let text = move || match (connection.get(), token_needed.get()) {
        (Connection::Lost, false) => Some("Server not reachable, trying again…"),
        (Connection::Lost, true) | (Connection::There, _) => None,
    };
    view! {
        <p class="connection-chip" role="status" class:shown=move || text().is_some()>{text}</p>
    }
}

/// All digits of sizes, and times instead of ages. Without it they would be the mouse's alone: a
/// finger and a keyboard see no title.
#[component]
fn NumbersSwitch() -> impl IntoView {
    let numbers: Shown = expect_context();
    let is_exact = move || numbers.0.get() == Numbers::Exact;
    view! {
        <button
            class="icon-button numbers-switch"
            aria-label="Exact sizes and times"
            aria-pressed=move || is_exact().to_string()
            title=move || match is_exact() {
                true => "Sizes and times: exact",
                false => "Sizes and times: rounded",
            }
            on:click=move |_| numbers.switch()
        >
            <span aria-hidden="true">{move || if is_exact() { "=" } else { "≈" }}</span>
        </button>
    }
}

/// One button that cycles through the themes.
#[component]
fn ThemeSwitch() -> impl IntoView {
    let chosen = RwSignal::new(theme::stored());
    let cycle = move |_| {
        chosen.update(|theme| *theme = theme.next());
        theme::store(chosen.get_untracked());
        theme::apply(chosen.get_untracked());
    };
    let icon = move || match chosen.get() {
        Theme::Auto => view! { <IconView icon=Icon::ThemeAuto/> },
        Theme::Light => view! { <IconView icon=Icon::ThemeLight/> },
        Theme::Dark => view! { <IconView icon=Icon::ThemeDark/> },
    };
    let label = move || format!("Theme: {}", chosen.get().name());
    view! {
        <button class="icon-button" aria-label=label title=label on:click=cycle>{icon}</button>
    }
}
