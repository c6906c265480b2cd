//! Addresses on a page of a project. They name the project, so that a tab stays in it, whatever
//! other tabs show meanwhile.

use api::projects::{ProjectName, in_project_between};
use api::routes;

/// Pages without a program that show what is in a project.
const OF_A_PROJECT: [&str; 7] = [
    routes::HELP_PAGE,
    routes::JOBS_PAGE,
    routes::HISTORY_PAGE,
    routes::PULLS_PAGE,
    routes::VIEWS_PAGE,
    routes::CATEGORIES_PAGE,
    routes::LIVE_PAGE,
];

/// Pages about the server itself.
const OF_THE_SERVER: [&str; 5] = [
    routes::ACCOUNT_PAGE,
    routes::PEOPLE_PAGE,
    routes::AUDIT_PAGE,
    routes::PROJECTS_PAGE,
    routes::USAGE_PAGE,
];

/// Whether a plain page at this address shows what is in a project.
pub fn is_of_a_project(path: &str) -> bool {
    let is_labels = path.starts_with("/runs/") && path.ends_with("/labels");
    let is_live = path.starts_with("/live/") && path.split('/').count() == 3;
    OF_A_PROJECT.contains(&path) || is_labels || is_live
}

/// Whether a page is about the server itself. It only remembers which project its tab is in.
pub fn is_of_the_server(path: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or_default();
    OF_THE_SERVER.iter().any(|page| page[1..] == *first)
}

/// Whether an address needs a token, or a link that opens it.
pub fn is_guarded(path: &str) -> bool {
    let public = [routes::SERVER, routes::SESSION, routes::OPEN_SHARE];
    let is_closed = path.starts_with("/api/") || path == routes::METRICS;
    is_closed && !public.contains(&path)
}

/// An address of this server with the project in its query. Others stay as they are: those of
/// files, those that name a project already, and those that enter one.
pub fn in_project(address: &str, project: &ProjectName) -> String {
    with_project(address, project, "&")
}

fn with_project(address: &str, project: &ProjectName, and: &str) -> String {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let is_page = path.starts_with('/') && !path.starts_with("//");
    let elsewhere = ["/api/", "/assets/", "/p/", "/s/", "/sign-"];
    let is_file = [".svg", ".js", ".css"]
        .iter()
        .any(|end| path.ends_with(end));
    if !is_page || is_file || elsewhere.iter().any(|begin| path.starts_with(begin)) {
        return address.to_owned();
    }
    in_project_between(address, project, and)
}

/// The page with the project in all its links and forms. One pass: a history has thousands of
/// links.
pub fn all_in_project(html: &str, project: &ProjectName) -> String {
    const ATTRIBUTES: [&str; 2] = [" href", " action"];
    let mut written = String::with_capacity(html.len());
    let mut done = 0;
    // In texts and in values a quotation mark is escaped, so that these are attributes.
    for (at, equals) in html.match_indices("=\"") {
        let is_address = ATTRIBUTES.iter().any(|name| html[..at].ends_with(name));
        if at < done || !is_address {
            continue;
        }
        let begin = at + equals.len();
        let end = html[begin..].find('"');
        let end = end.map_or(html.len(), |length| begin + length);
        written.push_str(&html[done..begin]);
        written.push_str(&with_project(&html[begin..end], project, "&amp;"));
        done = end;
    }
    written.push_str(&html[done..]);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_project() {
        let check = |address: &str, expected: &str| {
            assert_eq!(in_project(address, &"vision".parse().unwrap()), expected);
        };
        check("/", "/?project=vision");
        check("/jobs", "/jobs?project=vision");
        check(
            "/history?label=a%3Db",
            "/history?label=a%3Db&project=vision",
        );
        check("/runs/run_a?v=1#x", "/runs/run_a?v=1&project=vision#x");
        check("/views?project=main", "/views?project=main");
        check(
            "/views?path=%2Fx%3Fproject%3Da",
            "/views?path=%2Fx%3Fproject%3Da&project=vision",
        );
        for same in [
            "/p/main/",
            "/assets/0/style.css",
            "/views/view_a/badge.svg",
            "/live.js",
            "/shell.js",
            "/sign-out",
            "//elsewhere.example/",
            "https://elsewhere.example/",
            "#main",
        ] {
            check(same, same);
        }
    }

    #[test]
    fn all_links_and_forms_of_a_page_name_it() {
        let page = r#"<a href="/jobs">href=&quot;/jobs&quot;</a>
<a class="x" href="/a?b=c&amp;d=e">
<form method="post" action="/views"></form><link href="/assets/a.css">"#;
        let expected = r#"<a href="/jobs?project=vision">href=&quot;/jobs&quot;</a>
<a class="x" href="/a?b=c&amp;d=e&amp;project=vision">
<form method="post" action="/views?project=vision"></form><link href="/assets/a.css">"#;
        assert_eq!(all_in_project(page, &"vision".parse().unwrap()), expected);
    }

    #[test]
    fn pages_are_of_a_project_or_of_the_server() {
        for path in ["/jobs", "/history", "/live/live_a", "/runs/run_a/labels"] {
            assert!(is_of_a_project(path) && !is_of_the_server(path), "{path}");
        }
        let of_the_server = [
            "/account",
            "/people/per_a",
            "/projects/a/plan",
            "/audit",
            "/usage",
        ];
        for path in of_the_server {
            assert!(!is_of_a_project(path) && is_of_the_server(path), "{path}");
        }
        for path in [
            "/",
            "/jobs/job_a",
            "/runs/run_a",
            "/peoplex",
            "/live/live_a/capture",
            "/live/live_a/delete",
        ] {
            assert!(!is_of_a_project(path) && !is_of_the_server(path), "{path}");
        }
    }
}
