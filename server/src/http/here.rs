//! Finds the project that a request is about, and whether whoever sends it may enter that project.
//!
//! A request names its project ([`HEADER`], [`PARAMETER`]). If it does not, the project is the one
//! that has what the address names, such as a run; else the one that the browser showed last; else
//! the first one that the client may enter. A server with one project skips all of this.
//!
//! Pages for people name the project in their address, and so do their links and forms
//! (`addresses`).

use super::addresses;
use super::audience::{self, Asking};
use super::cookies::cookies;
use super::credentials;
use super::extract::Client;
use crate::app::App;
use crate::problems::Error;
use crate::projects::ProjectError;
use crate::store::is_of_a_project;
use crate::who::access::{Entry, Membership};
use api::people::Scope;
use api::projects::{COOKIE, HEADER, PARAMETER, ProjectName};
use api::routes;
use api::runs::Access;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

/// How many ids of one address are looked for.
const MOST_IDS: usize = 16;

/// The project that the request is about. Handlers that answer with data take this one; only those
/// about the server itself take the state.
#[derive(Clone)]
pub struct Here(pub Arc<App>);

impl FromRequestParts<Arc<App>> for Here {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, main: &Arc<App>) -> Result<Here, Infallible> {
        // The layer sets this for every request that may be about another project.
        let found = parts.extensions.get::<Here>().cloned();
        Ok(found.unwrap_or_else(|| Here(Arc::clone(main))))
    }
}

/// The projects that whoever asks may read, that of the request first: a question of a language
/// model may name a run of any of them.
#[derive(Clone)]
pub struct Readable(pub Vec<Arc<App>>);

impl Readable {
    /// The project of a request, and the others of who sent it.
    fn of(main: &Arc<App>, here: &Arc<App>, entry: &Entry) -> Readable {
        let visible = main.projects.visible(entry).into_iter();
        let others = visible.filter(|membership| {
            let scopes = membership.role.scopes().both(entry.limit);
            membership.project != here.project && scopes.has(Scope::Read)
        });
        let others = others.filter_map(|membership| main.projects.app(main, &membership.project));
        Readable(std::iter::once(Arc::clone(here)).chain(others).collect())
    }
}

/// Which project a request asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// The one that it names.
    named: Option<String>,
    /// Whether it is about the server, and only remembers which project its tab is in.
    is_hint: bool,
    /// The one that the browser showed last.
    last: Option<String>,
    /// Ids in its address.
    ids: Vec<String>,
}

impl Wanted {
    fn of(request: &Request) -> Wanted {
        let header = request.headers().get(HEADER);
        // One that is no text is the name of no project, not a request without one.
        let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let (path, query) = (request.uri().path(), request.uri().query());
        let pairs: Vec<(String, String)> = query
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), decoded(value)))
            .collect();
        let asked = pairs.iter().find(|(name, _)| name == PARAMETER);
        let values = pairs.iter().flat_map(|(_, value)| value.split(','));
        let ids = path
            .split('/')
            .chain(values)
            .filter(|part| is_of_a_project(part));
        let last = cookies(request.headers()).find(|(name, _)| *name == COOKIE);
        Wanted {
            is_hint: header.is_none() && addresses::is_of_the_server(path),
            named: header
                .map(Cow::into_owned)
                .or_else(|| asked.map(|(_, name)| name.clone())),
            last: last.map(|(_, name)| name.to_owned()),
            ids: ids.take(MOST_IDS).map(str::to_owned).collect(),
        }
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Whether an address is never about a project: files of the page, and what is open to everybody.
fn is_of_server(path: &str) -> bool {
    let open = [routes::SERVER, routes::SESSION, routes::OPEN_SHARE];
    open.contains(&path)
        || ["/assets/", "/s/", "/sign-in"]
            .iter()
            .any(|begin| path.starts_with(begin))
        || ["/healthz", "/readyz"].contains(&path)
}

/// Finds the project, and notes it together with who asks.
pub async fn find(
    State(main): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Error> {
    if is_of_server(request.uri().path()) {
        return Ok(next.run(request).await);
    }
    let client = Client::of(request.extensions());
    let is_api = addresses::is_guarded(request.uri().path());
    let (asking, wanted) = (Asking::of(&request), Wanted::of(&request));
    let (is_named, at) = (wanted.named.is_some(), request.uri().clone());
    let is_shown = !is_named && shows_a_project(&request);
    let entry = match credentials::entry(&main, request.headers(), client).await {
        Ok(entry) => entry,
        Err(error) if is_api => return Err(error),
        // The page itself explains why the API refuses.
        Err(_) => return Ok(next.run(request).await),
    };
    let (app, entry) = match entry.access {
        Access::TokenNeeded => (of_link(&main, &asking).await, entry),
        // Whoever may not enter the project of a link can still open the link.
        _ if is_link_of_others(&main, &entry, &asking).await => {
            (of_link(&main, &asking).await, Entry::STRANGER)
        }
        Access::Open | Access::Granted => match choose(&main, entry, wanted).await {
            Ok(found) => found,
            Err(error) if is_api => return Err(error),
            Err(error) => return Ok(super::projects::refusal(&main, &error)),
        },
    };
    let project = entry
        .membership
        .as_ref()
        .map(|membership| membership.project.clone());
    if let Some(project) = project.as_ref().filter(|_| is_shown) {
        let to = at.path_and_query().map_or("/", |at| at.as_str());
        return Ok(Redirect::to(&addresses::in_project(to, project)).into_response());
    }
    if at.path() == routes::MCP {
        let readable = Readable::of(&main, &app, &entry);
        request.extensions_mut().insert(readable);
    }
    request.extensions_mut().insert(Here(app));
    request.extensions_mut().insert(entry);
    let response = next.run(request).await;
    Ok(match project.filter(|_| is_named && !is_api) {
        Some(project) => stays_in(response, &project),
        None => response,
    })
}

/// Whether a browser asks for a page that shows what is in a project. Then its address must say
/// which one: the page may be loaded again when another tab shows another project.
fn shows_a_project(request: &Request) -> bool {
    let accepts = request.headers().get(header::ACCEPT);
    let is_browser = accepts.is_some_and(|kinds| kinds.as_bytes().starts_with(b"text/html"));
    is_browser
        && *request.method() == Method::GET
        && addresses::is_of_a_project(request.uri().path())
}

/// Where a form leads, in the project that the form was about.
fn stays_in(mut response: Response, project: &ProjectName) -> Response {
    let to = response.headers().get(header::LOCATION);
    let to = to.and_then(|to| to.to_str().ok());
    let to = to.map(|to| HeaderValue::from_str(&addresses::in_project(to, project)));
    if let Some(Ok(to)) = to {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// The project that a request of somebody who came in is about, and what they may do there.
async fn choose(main: &Arc<App>, entry: Entry, wanted: Wanted) -> Result<(Arc<App>, Entry), Error> {
    let projects = &main.projects;
    if !projects.are_several() && wanted.named.is_none() {
        let entry = match projects.role(&entry, &ProjectName::main()) {
            Some(_) => entry,
            None => entry.outside(),
        };
        return Ok((Arc::clone(main), entry));
    }
    let mut visible = projects.visible(&entry);
    let at = |name: &str| {
        visible
            .iter()
            .position(|membership| membership.project.as_str() == name)
    };
    if let Some(named) = &wanted.named {
        match at(named) {
            Some(at) => return entered(main, entry, visible.swap_remove(at)),
            None if wanted.is_hint => {}
            None => return Err(projects.refusal(&entry, named).into()),
        }
    }
    // The project that the browser showed last is asked first.
    if let Some(last) = wanted.last.as_deref().and_then(at) {
        visible[..=last].rotate_right(1);
    }
    for membership in &visible {
        let app = projects.app(main, &membership.project);
        if let Some(app) = app
            && holds_any(&app, &wanted.ids).await?
        {
            return entered(main, entry, membership.clone());
        }
    }
    match visible.into_iter().next() {
        Some(membership) => entered(main, entry, membership),
        // Somebody without any project can still look after their own tokens.
        None => {
            let shut = projects.shut_for(&entry);
            let entry = entry.outside();
            Ok((Arc::clone(main), Entry { shut, ..entry }))
        }
    }
}

fn entered(
    main: &Arc<App>,
    entry: Entry,
    membership: Membership,
) -> Result<(Arc<App>, Entry), Error> {
    let app = main.projects.app(main, &membership.project);
    let app = app.ok_or_else(|| ProjectError::Unknown(membership.project.to_string()))?;
    let entry = match main.projects.are_several() {
        true => entry.at(membership),
        false => entry,
    };
    Ok((app, entry))
}

async fn holds_any(app: &App, ids: &[String]) -> Result<bool, Error> {
    if ids.is_empty() {
        return Ok(false);
    }
    // An upload is not in the database before its bytes come.
    let is_announced = |id: &String| id.parse().is_ok_and(|id| app.uploads.get(&id).is_some());
    if ids.iter().any(is_announced) {
        return Ok(true);
    }
    let ids = ids.to_owned();
    let read = app.store.read(move |reader| {
        for id in &ids {
            if reader.holds(id)? {
                return Ok(true);
            }
        }
        Ok(false)
    });
    Ok(read.await?)
}

/// The project of a link that lets a request in which shows nothing else. If none does, the first
/// project says why not.
async fn of_link(main: &Arc<App>, asking: &Asking) -> Arc<App> {
    let main_only = || Arc::clone(main);
    if !main.projects.are_several() {
        return main_only();
    }
    let mut ids = asking.links();
    ids.truncate(MOST_IDS);
    for app in main.projects.all_open(main) {
        if holds_any(&app, &ids).await.unwrap_or(false)
            && audience::would_admit(&app, asking.clone()).await
        {
            return app;
        }
    }
    main_only()
}

/// Whether a request names a link of a project that whoever sends it may not enter.
async fn is_link_of_others(main: &Arc<App>, entry: &Entry, asking: &Asking) -> bool {
    if asking.named().is_none() {
        return false;
    }
    let of = of_link(main, asking).await;
    main.projects.role(entry, &of.project).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn a_request_says_which_project_it_is_about() {
        let check = |address: &str, header: Option<&[u8]>, expected: Wanted| {
            let request = Request::builder()
                .uri(address)
                .header("cookie", "tidemark_project=old");
            let request = match header {
                Some(name) => request.header(HEADER, name),
                None => request,
            };
            let wanted = Wanted::of(&request.body(Body::empty()).unwrap());
            let last = Some("old".to_owned());
            assert_eq!(wanted, Wanted { last, ..expected }, "{address}");
        };
        let text = |text: &str| Some(text.to_owned());
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        check("/api/runs", None, Wanted::default());
        let named = Wanted {
            named: text("a"),
            ..Wanted::default()
        };
        check("/api/runs", Some(b"a"), named);
        let named = Wanted {
            named: text("vi\u{fffd}ion"),
            ..Wanted::default()
        };
        check("/api/runs", Some(b"vi\xffion"), named);
        let named = Wanted {
            named: text("b"),
            ..Wanted::default()
        };
        check("/api/events?project=b", None, named);
        let with = |found: &[&str]| Wanted {
            ids: ids(found),
            ..Wanted::default()
        };
        check("/api/runs/run_a/devices/0/marks", None, with(&["run_a"]));
        check(
            "/compare?runs=run_a%2Crun_b",
            None,
            with(&["run_a", "run_b"]),
        );
        check("/api/people/per_a", None, Wanted::default());
    }
}
