//! Typed requests to the server: `api::routes` in, a value or a [`Problem`] out.
//!
//! Dropping the future of a request aborts it, so a request started with
//! [`leptos::task::spawn_local_scoped_with_cancellation`] ends with the component that asked.

use crate::clock;
use crate::format::UnixMillis;
use api::ids::ShareId;
use api::page;
use api::problem::{Problem, ProblemCode};
use api::routes;
use presentation::objects;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Request, RequestInit, Response};

thread_local! {
    static LINK: RefCell<Option<ShareId>> = const { RefCell::new(None) };
    static ON_UNAUTHORIZED: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
    static ON_BUSY: RefCell<Option<Tell>> = const { RefCell::new(None) };
    static TOLD_BUSY: Cell<UnixMillis> = const { Cell::new(UnixMillis(0)) };
}

/// A text that is being fetched.
type Text<'a> = Pin<Box<dyn Future<Output = Result<String, Problem>> + 'a>>;

type Tell = Rc<dyn Fn(&Problem)>;

/// How often a request is sent again when the server has no room for it.
const RETRIES: u32 = 4;

/// The types of answers that are accepted, the preferred one first.
const JSON: &str = "application/json, application/problem+json, */*;q=0.5";
const TEXT: &str = "text/markdown, application/problem+json, */*;q=0.5";

/// After this long without an answer a request has failed, like any other problem.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// If many requests wait at once, only one of them shows why.
const TELL_BUSY_EVERY_MS: i64 = 10_000;

/// The effect of a request on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates.
    Post,
    /// Changes.
    Patch,
    /// Deletes.
    Delete,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }
}

/// Sets the reaction when the server asks for a token: the shell opens its dialog.
pub fn on_unauthorized(react: impl Fn() + 'static) {
    ON_UNAUTHORIZED.set(Some(Rc::new(react)));
}

/// Sets the reaction when the server has no room for a request. The request is then sent again.
pub fn on_busy(react: impl Fn(&Problem) + 'static) {
    ON_BUSY.set(Some(Rc::new(react)));
}

/// From now on makes every request with a link; `None`: no longer.
pub fn ask_for_link(link: Option<ShareId>) {
    LINK.set(link);
}

/// The address with the link added, so that the server shows what the link shows.
fn asked(path: &str) -> String {
    LINK.with_borrow(|link| match link {
        Some(link) => routes::for_link(path, link),
        None => path.to_owned(),
    })
}

/// Reads JSON.
///
/// # Errors
/// What the server reports, or [`unreachable`] when there was no answer.
pub async fn get<T: DeserializeOwned>(path: &str) -> Result<T, Problem> {
    read(&answered(Method::Get, path, None).await?)
}

/// Reads JSON as its text, for [`read`].
///
/// # Errors
/// As [`get`].
pub async fn get_json(path: &str) -> Result<String, Problem> {
    answered(Method::Get, path, None).await
}

/// Reads all pages of a list.
///
/// # Errors
/// As [`get`].
pub async fn list<T: DeserializeOwned>(path: &str) -> Result<Vec<T>, Problem> {
    let mut all = Vec::new();
    let mut offset = Some(0);
    while let Some(from) = offset {
        let page: Vec<T> = get(&page::from(path, from)).await?;
        offset = page::next(from, page.len());
        all.extend(page);
    }
    Ok(all)
}

/// Sends a request without a body. An empty answer reads as `()`.
///
/// # Errors
/// As [`get`].
pub async fn send<T: DeserializeOwned>(method: Method, path: &str) -> Result<T, Problem> {
    read(&answered(method, path, None).await?)
}

/// Sends `body` as JSON. An empty answer reads as `()`.
///
/// # Errors
/// As [`get`].
pub async fn send_json<B, T>(method: Method, path: &str, body: &B) -> Result<T, Problem>
where
    B: Serialize,
    T: DeserializeOwned,
{
    let body = serde_json::to_string(body).map_err(|error| not_understood(&error))?;
    read(&answered(method, path, Some(body)).await?)
}

/// The text of an answer. The future is boxed, so that the code of a request exists once and not
/// for each type that is read.
fn answered(method: Method, path: &str, body: Option<String>) -> Text<'_> {
    Box::pin(async move {
        let response = exchange(method, path, body, JSON).await?;
        text_of(&response.response).await
    })
}

/// Reads a text.
///
/// # Errors
/// As [`get`].
pub async fn get_text(path: &str) -> Result<String, Problem> {
    let response = exchange(Method::Get, path, None, TEXT).await?;
    text_of(&response.response).await
}

/// Reads a binary answer, such as a tile.
///
/// # Errors
/// As [`get`].
pub async fn get_bytes(path: &str) -> Result<Vec<u8>, Problem> {
    let response = exchange(Method::Get, path, None, JSON).await?;
    let buffer = response
        .response
        .array_buffer()
        .map_err(|_| unreachable())?;
    let buffer = JsFuture::from(buffer).await.map_err(|_| unreachable())?;
    Ok(js_sys::Uint8Array::new(&buffer).to_vec())
}

/// The problem in an answer that is not a success. Uploads use it too, although they are sent
/// elsewhere.
pub fn problem_in(status: u16, body: &str) -> Problem {
    if let Ok(problem) = objects::read::<Problem>(body) {
        return problem;
    }
    let (code, title) = match status {
        401 | 403 => (ProblemCode::Unauthorized, "An access token is needed"),
        404 => (ProblemCode::NotFound, "Not found"),
        413 => (ProblemCode::TooLarge, "Too large"),
        429 => (ProblemCode::TooMany, "Too much at a time"),
        503 => (ProblemCode::Busy, "The server is busy"),
        400..=499 => (ProblemCode::BadRequest, "The server refused the request"),
        _ => (ProblemCode::Internal, "The server failed"),
    };
    Problem {
        code,
        status,
        title: title.to_owned(),
        detail: format!("Something between this page and Tidemark answered with status {status}."),
        offset: None,
    }
}

/// The problem for no answer at all.
pub fn unreachable() -> Problem {
    Problem {
        code: ProblemCode::Interrupted,
        status: 0,
        title: "The server does not answer".to_owned(),
        detail: "Check that `tidemark` is still running and that this machine reaches it, \
                 then try again."
            .to_owned(),
        offset: None,
    }
}

/// Whether a problem is that there was no answer at all.
pub fn is_no_answer(problem: &Problem) -> bool {
    problem.status == 0 && problem.code == ProblemCode::Interrupted
}

/// Tells the shell that a token is needed, if `problem` says so.
pub fn notice(problem: &Problem) {
    if problem.code == ProblemCode::Unauthorized
        && let Some(react) = ON_UNAUTHORIZED.with_borrow(Clone::clone)
    {
        react();
    }
}

/// An answer that is being read; reading can be aborted.
struct Exchange {
    response: Response,
    _abort: AbortOnDrop,
}

struct AbortOnDrop(AbortController);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        // Does nothing once the answer has been read.
        self.0.abort();
    }
}

/// Shows that a request waits, and why.
pub fn busy(problem: &Problem) {
    let now = clock::now();
    if now.0 - TOLD_BUSY.get().0 < TELL_BUSY_EVERY_MS {
        return;
    }
    TOLD_BUSY.set(now);
    if let Some(react) = ON_BUSY.with_borrow(Clone::clone) {
        react(problem);
    }
}

/// How long to wait before a refused request is sent again, given its `Retry-After`.
pub fn worth_waiting(problem: &Problem, retry_after: Option<&str>) -> Option<Duration> {
    let refused = matches!(problem.status, 429 | 503);
    let seconds = retry_after?.trim().parse().ok()?;
    let wait = Duration::from_secs(seconds);
    (refused && wait <= LONGEST_WAIT).then_some(wait)
}

/// Waits for one answer. If the server had no room for a request, it has not done it, so the
/// request is sent again.
async fn exchange(
    method: Method,
    path: &str,
    json: Option<String>,
    accept: &str,
) -> Result<Exchange, Problem> {
    for attempt in 0.. {
        let abort = AbortOnDrop(AbortController::new().map_err(|_| unreachable())?);
        let request = request((method, path), json.as_ref(), accept, &abort.0);
        let request = request.map_err(|_| unreachable())?;
        let answer = JsFuture::from(leptos::prelude::window().fetch_with_request(&request)).await;
        let response: Response = answer
            .and_then(JsCast::dyn_into)
            .map_err(|_| unreachable())?;
        if response.ok() {
            return Ok(Exchange {
                response,
                _abort: abort,
            });
        }
        let problem = problem_in(response.status(), &text_of(&response).await?);
        let retry_after = response.headers().get("Retry-After").ok().flatten();
        match worth_waiting(&problem, retry_after.as_deref()) {
            Some(wait) if attempt < RETRIES => {
                busy(&problem);
                clock::sleep(wait).await;
            }
            _ => {
                notice(&problem);
                return Err(problem);
            }
        }
    }
    Err(unreachable())
}

fn request(
    (method, path): (Method, &str),
    json: Option<&String>,
    accept: &str,
    abort: &AbortController,
) -> Result<Request, JsValue> {
    let init = RequestInit::new();
    init.set_method(method.name());
    init.set_signal(Some(&abort.signal()));
    if let Some(json) = json {
        init.set_body(&JsValue::from_str(json));
    }
    let request = Request::new_with_str_and_init(&asked(path), &init)?;
    let headers = request.headers();
    headers.set("Accept", accept)?;
    if json.is_some() {
        headers.set("Content-Type", "application/json")?;
    }
    Ok(request)
}

async fn text_of(response: &Response) -> Result<String, Problem> {
    let text = response.text().map_err(|_| unreachable())?;
    let text = JsFuture::from(text).await.map_err(|_| unreachable())?;
    Ok(text.as_string().unwrap_or_default())
}

/// The value in an answer's text.
///
/// # Errors
/// [`not_understood`].
pub fn read<T: DeserializeOwned>(body: &str) -> Result<T, Problem> {
    // 204 No Content has no body; `null` is read as `()`.
    let body = if body.is_empty() { "null" } else { body };
    objects::read(body).map_err(|error| not_understood(&error))
}

/// The problem for an answer that this page cannot read.
pub fn not_understood(error: &dyn std::fmt::Display) -> Problem {
    Problem {
        code: ProblemCode::TooNew,
        status: 200,
        title: "The answer is not understood".to_owned(),
        detail: format!(
            "This page and the server are of different versions; reload the page. ({error})"
        ),
        offset: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_is_taken_as_it_is() {
        let sent = Problem {
            code: ProblemCode::BadSnapshot,
            status: 422,
            title: "Not a snapshot".to_owned(),
            detail: "Byte 17 is not an opcode.".to_owned(),
            offset: Some(17),
        };
        let body = serde_json::to_string(&sent).unwrap();
        assert_eq!(problem_in(422, &body), sent);
    }

    #[test]
    fn any_other_answer_becomes_a_problem_by_its_status() {
        let check = |status, code| assert_eq!(problem_in(status, "<html>").code, code);
        check(401, ProblemCode::Unauthorized);
        check(404, ProblemCode::NotFound);
        check(413, ProblemCode::TooLarge);
        check(418, ProblemCode::BadRequest);
        check(502, ProblemCode::Internal);
        check(429, ProblemCode::TooMany);
        check(503, ProblemCode::Busy);
    }

    #[test]
    fn only_a_refusal_for_a_short_while_is_worth_waiting() {
        let check = |status, retry: Option<&str>, seconds: Option<u64>| {
            let wait = worth_waiting(&problem_in(status, ""), retry);
            assert_eq!(wait, seconds.map(Duration::from_secs), "{status} {retry:?}");
        };
        check(429, Some("2"), Some(2));
        check(503, Some(" 15"), Some(15));
        check(503, Some("16"), None);
        check(503, None, None);
        check(503, Some("Sun, 22 Nov 2026 03:00:00 GMT"), None);
        check(500, Some("1"), None);
    }

    #[test]
    fn an_empty_answer_reads_as_unit_and_nothing_else() {
        assert_eq!(read::<()>(""), Ok(()));
        assert_eq!(read::<u32>("7"), Ok(7));
        assert_eq!(read::<u32>("").unwrap_err().code, ProblemCode::TooNew);
    }
}
