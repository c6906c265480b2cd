//! The common parts of plain pages, which need no program in the browser: head, header, styles.

use super::addresses::all_in_project;
use super::permits;
use crate::app::App;
use crate::who::access::{Entry, Membership};
use api::people::Scope;
use api::routes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use timeline::format::{UnixMillis, date_time};

/// What a plain page does beyond HTML.
pub const SCRIPT: &str = "/shell.js";

/// The script of plain pages.
pub async fn script() -> Response {
    scripted(include_str!("shell.js"))
}

/// A script that belongs to this version of the server.
pub fn scripted(script: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, script).into_response()
}

/// A page. `entry` is the person who has signed in.
pub fn page(app: &App, entry: Option<&Entry>, title: &str, body: &Markup) -> Response {
    let index = app.config.site.index();
    let index = String::from_utf8_lossy(&index.bytes);
    let asset = |name: &str| asset(&index, name);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) " · Tidemark" }
                @if let Some(icon) = asset("icon.svg") {
                    link rel="icon" type="image/svg+xml" href=(icon);
                }
                @if let Some(theme) = asset("theme.js") { script src=(theme) {} }
                @if let Some(style) = asset("style.css") { link rel="stylesheet" href=(style); }
            }
            // Whose are the forms that are filled in here (`shell.js`).
            body data-who=[entry.map(Entry::name)] {
                a class="skip-link" href="#main" { "Skip to the content" }
                @if let Some(membership) = entry.and_then(|entry| entry.membership.as_ref()) {
                    (bar(membership))
                }
                (header(entry, title, asset("icon.svg")))
                main id="main" class="account" tabindex="-1" {
                    h1 { (title) }
                    (body)
                }
                script src=(SCRIPT) {}
            }
        }
    };
    let html = markup.into_string();
    let html = match entry.and_then(|entry| entry.membership.as_ref()) {
        Some(membership) => all_in_project(&html, &membership.project),
        None => html,
    };
    let kept = [(header::CACHE_CONTROL, "no-store")];
    (kept, axum::response::Html(html)).into_response()
}

/// The address of a file of the front end, read from its page.
fn asset<'a>(index: &'a str, name: &str) -> Option<&'a str> {
    let mut paths = index.split('"').filter(|part| part.starts_with("/assets/"));
    paths.find(|path| path.ends_with(name))
}

fn header(entry: Option<&Entry>, title: &str, icon: Option<&str>) -> Markup {
    let here = |name: &str| (name == title).then_some("page");
    let is_outside = entry.is_some_and(|entry| permits::in_a_project(entry).is_err());
    html! {
        header class="app-header" {
            a href="/" class="wordmark" aria-label="Tidemark: all runs" {
                @if let Some(icon) = icon { img src=(icon) alt="" width="22" height="22"; }
                span { "Tidemark" }
            }
            @if let Some(entry) = entry {
                nav class="app-nav account-nav" aria-label="Pages" {
                    @if !is_outside { (of_a_project(title)) }
                    a href=(routes::ACCOUNT_PAGE) aria-current=[here("Account")] { "Account" }
                    @if entry.membership.is_some() || entry.is_admin() || is_outside {
                        a href=(routes::PROJECTS_PAGE) aria-current=[here("Projects")] {
                            "Projects"
                        }
                    }
                    @if entry.is_admin() {
                        a href=(routes::PEOPLE_PAGE) aria-current=[here("People")] { "People" }
                        a href=(routes::AUDIT_PAGE) aria-current=[here("Audit")] { "Audit" }
                    }
                    a href=(routes::HELP_PAGE) aria-current=[here("Help")] { "Help" }
                }
            }
        }
    }
}

/// Links to the pages that show what is in a project. Whom no project lets in, they would refuse.
fn of_a_project(title: &str) -> Markup {
    let here = |name: &str| (name == title).then_some("page");
    html! {
        a href=(routes::RUNS_PAGE) { "Runs" }
        a href=(routes::COMPARE_PAGE) { "Compare" }
        a href=(routes::BENCH_PAGE) { "Bench" }
        a href=(routes::LIVE_PAGE) aria-current=[here("Live")] { "Live" }
        a href=(routes::JOBS_PAGE) aria-current=[here("Jobs")] { "Jobs" }
        a href=(routes::HISTORY_PAGE) aria-current=[here("History")] { "History" }
        a href=(routes::PULLS_PAGE) aria-current=[here("Pull requests")] {
            "Pull requests"
        }
        a href=(routes::VIEWS_PAGE) aria-current=[here("Views")] { "Views" }
        a href=(routes::CATEGORIES_PAGE) aria-current=[here("Categories")] {
            "Categories"
        }
    }
}

/// The script of the front end's page of one project.
pub const PROJECT_SCRIPT: &str = "/project.js";

/// The front end's page. If the server has several projects, it says which one this is, and its
/// requests name it. What whoever looks at it may not do, it does not offer (`shell.css`), and says
/// so.
pub fn page_for(index: &str, membership: Option<&Membership>, may_not: &[Scope]) -> String {
    let script = membership.map(|membership| {
        html! { script src=(PROJECT_SCRIPT) data-project=(membership.project) {} }
    });
    let script = script.unwrap_or_default().into_string();
    let index = index.replacen("</head>", &format!("{script}\n</head>"), 1);
    let names: Vec<&str> = may_not.iter().map(|scope| scope.name()).collect();
    let above = html! {
        @if let Some(membership) = membership { (bar(membership)) }
        @if let Some(first) = may_not.first() {
            p class="project-bar" {
                @match first {
                    Scope::Manage => "You may look at runs and send some here, but not change or \
                        share them.",
                    _ => "You may look at runs here, but not send, change or share any.",
                }
                " An admin can give you more."
            }
        }
    };
    let body = match names.is_empty() {
        true => "<body>".to_owned(),
        false => format!("<body data-may-not=\"{}\">", names.join(" ")),
    };
    index.replacen("<body>", &format!("{body}\n{}", above.into_string()), 1)
}

/// Says which project a page is of.
fn bar(membership: &Membership) -> Markup {
    html! {
        nav class="project-bar" aria-label="Project" {
            a href=(routes::PROJECTS_PAGE) { "Project: " strong { (membership.project) } }
        }
    }
}

/// A day and a time, in UTC.
pub fn date(ms: i64) -> String {
    date_time(UnixMillis(ms))
}

/// Lines to be copied.
pub fn command(lines: &str) -> Markup {
    html! { div class="recipe" { pre tabindex="0" { code { (lines) } } } }
}

/// An error of a form, shown above it.
pub fn problem(why: &str) -> Markup {
    html! { p class="bad-text" role="alert" { (with_code(&sentence(why))) } }
}

/// A text with what stands between backticks as code: reasons are written for Markdown.
pub fn with_code(reason: &str) -> Markup {
    let parts: Vec<&str> = reason.split('`').collect();
    // A backtick without a partner stands for itself.
    let (paired, rest) = parts.split_at(parts.len() - usize::from(parts.len().is_multiple_of(2)));
    html! {
        @for (at, part) in paired.iter().enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
        @for part in rest { "`" (part) }
    }
}

/// The detail of a problem as a sentence of a page: on a command line it follows a colon, so it
/// begins small and has no full stop. A word that is written small begins as it is.
fn sentence(why: &str) -> String {
    let first = why.split_whitespace().next().unwrap_or_default();
    let is_word = first
        .chars()
        .all(|c| c.is_lowercase() || matches!(c, ',' | ':' | '\''));
    let mut rest = why.chars();
    let mut told = String::with_capacity(why.len() + 1);
    match rest.next().filter(|_| is_word) {
        Some(letter) => {
            told.extend(letter.to_uppercase());
            told.push_str(rest.as_str());
        }
        None => told.push_str(why),
    }
    if !why.is_empty() && !why.ends_with(['.', '!', '?', '…']) {
        told.push('.');
    }
    told
}

/// The name of a browser, from its user agent: `Firefox on Linux`.
pub fn browser(agent: &str) -> String {
    // The user agent of each of them also contains names further down in this list.
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
    fn the_page_s_own_styles_are_found() {
        let index = r#"<link rel="stylesheet" href="/assets/0123/style.css"><script src="/x">"#;
        assert_eq!(asset(index, "style.css"), Some("/assets/0123/style.css"));
        assert_eq!(asset(index, "theme.js"), None);
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        let check = |reason: &str, expected: &str| {
            assert_eq!(with_code(reason).into_string(), expected);
        };
        check("plain & short", "plain &amp; short");
        check(
            "grows in `f<T>`, and `g`",
            "grows in <code>f&lt;T&gt;</code>, and <code>g</code>",
        );
        check("one ` alone", "one ` alone");
        check("`a` and ` alone", "<code>a</code> and ` alone");
        check("", "");
    }

    #[test]
    fn what_is_wrong_is_a_sentence() {
        let check = |why: &str, expected: &str| assert_eq!(sentence(why), expected);
        check("only an admin may do this", "Only an admin may do this.");
        check("run run_a: it was deleted", "Run run_a: it was deleted.");
        check("A sentence.", "A sentence.");
        check(
            "who has left gets no tokens!",
            "Who has left gets no tokens!",
        );
        check(
            "max_split_size_mb: too small",
            "max_split_size_mb: too small.",
        );
        check("http://a.example: no", "http://a.example: no.");
        check("", "");
    }

    #[test]
    fn a_page_says_what_cannot_be_done_there() {
        const INDEX: &str = "<head></head><body>in it</body>";
        let check = |may_not: &[Scope], expected: &[&str]| {
            let page = page_for(INDEX, None, may_not);
            for part in expected {
                assert!(page.contains(part), "{page}");
            }
            page
        };
        let all = check(&[], &["<body>", "in it</body>"]);
        assert!(!all.contains("may"), "{all}");
        let reader = "<body data-may-not=\"upload manage\">";
        check(
            &[Scope::Upload, Scope::Manage],
            &[reader, "not send, change or share any"],
        );
        let sender = "<body data-may-not=\"manage\">";
        check(&[Scope::Manage], &[sender, "not change or share them"]);
    }

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
