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
use leptos::prelude::{TimeoutHandle, set_timeout_with_handle};
use presentation::connection::Connection;
use presentation::response::{
    SOON, not_understood, problem_in, read, silence, unreachable, worth_waiting,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Request, RequestInit, Response};

thread_local! {
    static LINK: RefCell<Option<ShareId>> = const { RefCell::new(None) };
    static ON_UNAUTHORIZED: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
    static ON_BUSY: RefCell<Option<Tell>> = const { RefCell::new(None) };
    static TOLD_BUSY: Cell<UnixMillis> = const { Cell::new(UnixMillis(0)) };
    static ON_HEARD: RefCell<Option<Heard>> = const { RefCell::new(None) };
}

/// A text that is being fetched.
type Text<'a> = Pin<Box<dyn Future<Output = Result<String, Problem>> + 'a>>;

type Tell = Rc<dyn Fn(&Problem)>;

type Heard = Rc<dyn Fn(Connection)>;

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// As long as it takes: some questions take minutes.
    Endless,
    /// Only so long that the server [has it at hand](SOON).
    Short,
}

/// How often a request is sent again when the server has no room for it.
const RETRIES: u32 = 4;

/// The types of answers that are accepted, the preferred one first.
const JSON: &str = "application/json, application/problem+json, */*;q=0.5";
const TEXT: &str = "text/markdown, application/problem+json, */*;q=0.5";

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

/// Sets the reaction when an answer comes, and when one did not come in time.
pub fn on_heard(react: impl Fn(Connection) + 'static) {
    ON_HEARD.set(Some(Rc::new(react)));
}

fn heard(now: Connection) {
    if let Some(react) = ON_HEARD.with_borrow(Clone::clone) {
        react(now);
    }
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
    read(&answered(Method::Get, path, None, Patience::Endless).await?)
}

/// Reads JSON that the server has at hand, such as a page of a list. If that does not come
/// [soon](SOON), it is given up, so that it can be asked again.
///
/// # Errors
/// As [`get`], and [`silence`].
pub async fn get_soon<T: DeserializeOwned>(path: &str) -> Result<T, Problem> {
    read(&answered(Method::Get, path, None, Patience::Short).await?)
}

/// Reads JSON as its text, for [`read`].
///
/// # Errors
/// As [`get`].
pub async fn get_json(path: &str) -> Result<String, Problem> {
    answered(Method::Get, path, None, Patience::Endless).await
}

/// Reads all pages of a list.
///
/// # Errors
/// As [`get_soon`].
pub async fn list<T: DeserializeOwned>(path: &str) -> Result<Vec<T>, Problem> {
    let mut all = Vec::new();
    let mut offset = Some(0);
    while let Some(from) = offset {
        let page: Vec<T> = get_soon(&page::from(path, from)).await?;
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
    read(&answered(method, path, None, Patience::Endless).await?)
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
    read(&answered(method, path, Some(body), Patience::Endless).await?)
}

/// The text of an answer. The future is boxed, so that the code of a request exists once and not
/// for each type that is read.
fn answered(method: Method, path: &str, body: Option<String>, patience: Patience) -> Text<'_> {
    Box::pin(async move {
        let answer = exchange((method, path), body, JSON, patience).await?;
        answer.text().await
    })
}

/// Reads a text.
///
/// # Errors
/// As [`get`].
pub async fn get_text(path: &str) -> Result<String, Problem> {
    let answer = exchange((Method::Get, path), None, TEXT, Patience::Endless).await?;
    answer.text().await
}

/// Reads a binary answer, such as a tile.
///
/// # Errors
/// As [`get`].
pub async fn get_bytes(path: &str) -> Result<Vec<u8>, Problem> {
    let answer = exchange((Method::Get, path), None, JSON, Patience::Endless).await?;
    let buffer = answer.response.array_buffer().map_err(|_| unreachable())?;
    let buffer = JsFuture::from(buffer).await.map_err(|_| unreachable())?;
    Ok(js_sys::Uint8Array::new(&buffer).to_vec())
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
    wait: Wait,
}

impl Exchange {
    async fn text(&self) -> Result<String, Problem> {
        let Ok(text) = self.response.text() else {
            return Err(unreachable());
        };
        let text = JsFuture::from(text).await;
        let text = text.map_err(|_| self.wait.why_ended())?;
        Ok(text.as_string().unwrap_or_default())
    }
}

/// The wait for an answer. Dropped, it ends the request.
struct Wait {
    abort: AbortController,
    /// What ends the wait if nothing comes.
    alarm: Option<TimeoutHandle>,
}

impl Wait {
    fn begin(patience: Patience) -> Result<Wait, Problem> {
        let abort = AbortController::new().map_err(|_| unreachable())?;
        let late = abort.clone();
        let alarm = match patience {
            Patience::Endless => None,
            Patience::Short => set_timeout_with_handle(move || late.abort(), SOON).ok(),
        };
        Ok(Wait { abort, alarm })
    }

    /// Why there is no answer.
    fn why_ended(&self) -> Problem {
        if !self.abort.signal().aborted() {
            return unreachable();
        }
        heard(Connection::Lost);
        silence()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm {
            alarm.clear();
        }
        // Does nothing once the answer has been read.
        self.abort.abort();
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

/// Waits for one answer. If the server had no room for a request, it has not done it, so the
/// request is sent again.
async fn exchange(
    asked: (Method, &str),
    json: Option<String>,
    accept: &str,
    patience: Patience,
) -> Result<Exchange, Problem> {
    for attempt in 0.. {
        let wait = Wait::begin(patience)?;
        let request = request(asked, json.as_ref(), accept, &wait.abort);
        let request = request.map_err(|_| unreachable())?;
        let answer = JsFuture::from(leptos::prelude::window().fetch_with_request(&request)).await;
        let response: Response = answer
            .and_then(JsCast::dyn_into)
            .map_err(|_| wait.why_ended())?;
        let exchange = Exchange { response, wait };
        if exchange.response.ok() {
            heard(Connection::There);
            return Ok(exchange);
        }
        let problem = problem_in(exchange.response.status(), &exchange.text().await?);
        heard(Connection::There);
        let retry_after = exchange.response.headers().get("Retry-After");
        let retry_after = retry_after.ok().flatten();
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
