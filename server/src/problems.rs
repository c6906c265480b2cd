//! Turns domain errors into problems, and problems into responses. All error statuses come from
//! here.

use crate::bench::BenchError;
use crate::blobs::BlobError;
use crate::ingest::IngestError;
use crate::limits::answering::{ANSWER_TIME, NoAnswer, Refused};
use crate::limits::budget::NoMemory;
use crate::limits::clients::quota::Crowd;
use crate::limits::clients::{Later, Refusal};
use crate::projects::ProjectError;
use crate::store::StoreError;
use crate::who::oidc::OidcError;
use crate::who::people::PeopleError;
use answers::cards::NoCard;
use answers::decoded::NoDevice;
use answers::malformed::in_words;
use answers::questions::asked::Misasked;
use answers::run_names::BadName;
use api::ids::RunId;
use api::people::{Scope, Scopes};
use api::problem::{Problem, ProblemCode};
use api::projects::ProjectName;
use axum::Json;
use axum::extract::rejection::{FormRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::error::Error as _;
use std::time::Duration;
use trace::clip::clipped;
use trace::watch::Stopped;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The upload failed.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The blob store failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The bench was not accepted.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The request is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// No run may have this name.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The body is not JSON of the right form.
    #[error("{}", in_words(&.0.body_text()))]
    Json(#[from] JsonRejection),
    /// The fields are not those of the form.
    #[error("{}", in_words(&.0.body_text()))]
    Form(#[from] FormRejection),
    /// A part of the path is not the expected id or number.
    #[error("{}", in_words(&.0.body_text()))]
    Path(#[from] PathRejection),
    /// The query is malformed.
    #[error("{}", in_words(&.0.body_text()))]
    Query(#[from] QueryRejection),
    /// There is no such address.
    #[error("there is nothing at {0}")]
    NoRoute(String),
    /// There is no such thing.
    #[error("there is no {0}")]
    NotFound(String),
    /// The address exists, but not for this method.
    #[error("this address does not take {0} requests")]
    Method(String),
    /// A token is needed, or the one sent is wrong.
    #[error(
        "this server needs an access token: send it as `Authorization: Bearer TOKEN`, or type it \
         once in the page"
    )]
    TokenNeeded,
    /// The token in the form is wrong.
    #[error("this is not a token of this server, or it has ended")]
    WrongToken,
    /// The client showed too many wrong secrets.
    #[error(transparent)]
    Guesses(#[from] Later),
    /// Too many at the same time.
    #[error(transparent)]
    Busy(#[from] Refusal),
    /// The body does not arrive.
    #[error("the request's body was not there within {} s; send it again", .0.as_secs_f64())]
    SlowBody(Duration),
    /// A browser was sent here by another site.
    #[error("{0}")]
    Foreign(&'static str),
    /// The token does not allow it.
    #[error("this takes a token that may `{needed}`; this one may: {}", words(*.has))]
    Scope {
        /// The scope that is needed.
        needed: Scope,
        /// The scopes of the token.
        has: Scopes,
    },
    /// Only admins may.
    #[error("only an admin may do this")]
    NotAdmin,
    /// A guest whom no project lets in.
    #[error("you are in no project yet: ask an admin of this server, or of a project, to add you")]
    NoProject,
    /// A token of one project, which does not let its person in.
    #[error(
        "this token opens only the project {0}, and that one is closed, is not there any more, or \
         does not let you in"
    )]
    TokenShut(ProjectName),
    /// The change of people is refused.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// The project cannot be entered, or changed.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// A provider did not sign somebody in.
    #[error(transparent)]
    Oidc(#[from] OidcError),
    /// A link asks for more than it opens.
    #[error("{0}")]
    OutOfScope(&'static str),
    /// A link that has ended.
    #[error("{0}")]
    Gone(String),
    /// The answer takes too much, or nobody waits for it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A defect.
    #[error("a handler panicked")]
    Panicked,
}

/// Work that its watch stopped. Whoever watches knows why, and says that instead.
impl From<Stopped> for Error {
    fn from(_: Stopped) -> Error {
        Error::Refused(Refused::TooLong(ANSWER_TIME))
    }
}

impl From<NoAnswer> for Error {
    fn from(why: NoAnswer) -> Error {
        match why {
            NoAnswer::Refused(refused) => Error::Refused(refused),
            NoAnswer::Panicked => Error::Panicked,
        }
    }
}

impl From<NoDevice> for Error {
    fn from(missing: NoDevice) -> Error {
        Error::Store(missing.into())
    }
}

impl From<Misasked> for Error {
    fn from(why: Misasked) -> Error {
        match why {
            Misasked::NoEvent { .. } | Misasked::NoBlock { .. } => Error::NotFound(why.to_string()),
            _ => Error::BadRequest(why.to_string()),
        }
    }
}

impl From<NoCard> for Error {
    fn from(why: NoCard) -> Error {
        match why {
            NoCard::NoDevice(missing) => missing.into(),
            NoCard::Stopped(stopped) => stopped.into(),
        }
    }
}

/// Describes a failed upload for clients.
pub fn describe(error: &IngestError) -> Problem {
    let (status, code, title) = of_ingest(error);
    let offset = match error {
        IngestError::BadSnapshot { offset, .. } => *offset,
        _ => None,
    };
    problem(
        status,
        code,
        title,
        outward(code, error.to_string()),
        offset,
    )
}

/// Scopes in a sentence.
fn words(scopes: Scopes) -> String {
    match scopes {
        Scopes::NONE => "nothing".to_owned(),
        some => some.to_string(),
    }
}

impl Error {
    /// What whoever has only a link is told instead.
    pub fn for_link(self) -> Error {
        match self {
            Error::Store(StoreError::Deleted { id, .. }) => Deleted(id).for_link(),
            error => error,
        }
    }

    /// The status of a page that shows this error.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.problem().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The problem for clients.
    pub fn problem(&self) -> Problem {
        let (status, code, title) = match self {
            Error::Ingest(error) => return describe(error),
            Error::Store(error) => of_store(error),
            Error::Blob(error) => of_blob(error),
            Error::Bench(BenchError::Store(error)) => of_store(error),
            Error::People(PeopleError::Store(error))
            | Error::Project(ProjectError::Store(error)) => of_store(error),
            Error::Bench(BenchError::Refused(_))
            | Error::People(PeopleError::Refused(_))
            | Error::Project(ProjectError::Refused(_))
            | Error::Name(_)
            | Error::BadRequest(_) => bad_request(),
            Error::Bench(BenchError::Busy(refusal)) | Error::Busy(refusal) => {
                of_crowd(refusal.crowd)
            }
            Error::Guesses(_) => of_crowd(Crowd::Client),
            Error::SlowBody(_) => too_slow(),
            Error::Json(rejection) => (rejection.status(), ProblemCode::BadRequest, "Bad request"),
            Error::Form(rejection) => (rejection.status(), ProblemCode::BadRequest, "Bad request"),
            Error::Path(rejection) => (rejection.status(), ProblemCode::BadRequest, "Bad request"),
            Error::Query(rejection) => (rejection.status(), ProblemCode::BadRequest, "Bad request"),
            Error::NoRoute(_) | Error::NotFound(_) | Error::Project(ProjectError::Unknown(_)) => {
                not_found()
            }
            Error::Project(ProjectError::Exists(_)) => {
                (StatusCode::CONFLICT, ProblemCode::Conflict, "Conflict")
            }
            Error::Project(ProjectError::CannotOpen(_) | ProjectError::Broken(_)) => (
                StatusCode::SERVICE_UNAVAILABLE,
                ProblemCode::Unavailable,
                "The project cannot be opened",
            ),
            Error::Method(_) => (
                StatusCode::METHOD_NOT_ALLOWED,
                ProblemCode::BadRequest,
                "Method not allowed",
            ),
            Error::TokenNeeded | Error::WrongToken => (
                StatusCode::UNAUTHORIZED,
                ProblemCode::Unauthorized,
                "Access token needed",
            ),
            Error::Foreign(_) | Error::OutOfScope(_) => forbidden("Refused"),
            Error::Scope { .. } | Error::NotAdmin | Error::Project(ProjectError::NotAdmin(_)) => {
                forbidden("Not allowed")
            }
            Error::NoProject => forbidden("No project yet"),
            Error::TokenShut(_) => forbidden("This token opens nothing now"),
            Error::Oidc(error) => of_sign_in(error),
            Error::Gone(_) => (
                StatusCode::GONE,
                ProblemCode::Gone,
                "This link does not open any more",
            ),
            Error::Refused(refused) => of_answer(refused),
            Error::Panicked => internal(),
        };
        let detail = match self {
            // Only admins of the server are told why, or nobody.
            Error::Project(ProjectError::CannotOpen(_) | ProjectError::Broken(_)) => {
                clipped(&self.to_string(), LONGEST_DETAIL).into_owned()
            }
            _ => outward(code, self.to_string()),
        };
        problem(status, code, title, detail, None)
    }

    /// Gives an answer that tells of this error its status, and says when to try again, and how to
    /// come in.
    pub fn mark(&self, response: &mut Response) {
        let status = self.status();
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if let Some(retry) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(retry)));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
    }

    /// When to ask again.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Guesses(later) => Some(later.wait),
            Error::Busy(refusal)
            | Error::Bench(BenchError::Busy(refusal))
            | Error::Ingest(IngestError::Busy(refusal)) => Some(refusal.retry),
            Error::Ingest(IngestError::NoMemory(error))
            | Error::Ingest(IngestError::Store(StoreError::NoMemory(error)))
            | Error::Bench(BenchError::Store(StoreError::NoMemory(error)))
            | Error::Refused(Refused::NoMemory(error))
            | Error::Store(StoreError::Refused(Refused::NoMemory(error)))
            | Error::Store(StoreError::NoMemory(error)) => error.retry(),
            _ => None,
        }
    }
}

/// The meaning of an error status in the API's document.
pub fn meaning(status: &str) -> Option<&'static str> {
    let status = StatusCode::from_bytes(status.as_bytes()).ok()?;
    Some(match status {
        StatusCode::BAD_REQUEST => "The request is malformed. `detail` says where.",
        StatusCode::UNAUTHORIZED => "The token or the link's secret is wrong.",
        StatusCode::FORBIDDEN => {
            "The token or the link is not good for this, the person is no admin, or another site \
             asks."
        }
        StatusCode::NOT_FOUND => "There is no such thing.",
        StatusCode::REQUEST_TIMEOUT => "The body did not arrive in time.",
        StatusCode::CONFLICT => "It is in a state that does not allow this.",
        StatusCode::GONE => "The link has ended.",
        StatusCode::PAYLOAD_TOO_LARGE => {
            "Larger than the server's limit, or it takes more memory or time than there is."
        }
        StatusCode::UNPROCESSABLE_ENTITY => {
            "Not a snapshot that can be read. `offset` is the byte where reading stopped."
        }
        StatusCode::TOO_MANY_REQUESTS => "Too much from this client. `Retry-After` says when.",
        StatusCode::SERVICE_UNAVAILABLE => {
            "The server is busy, and `Retry-After` says when; or it cannot do this now, and \
             `detail` says why."
        }
        StatusCode::INSUFFICIENT_STORAGE => {
            "There is not enough disk space, or the project is over its quota."
        }
        _ => return None,
    })
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    seconds.max(1)
}

/// The answer on a connection that is refused.
pub fn refused_connection(refusal: &Refusal) -> String {
    let (status, code, title) = of_crowd(refusal.crowd);
    let problem = problem(status, code, title, refusal.to_string(), None);
    let body = serde_json::to_string(&problem).expect("problems are plain data");
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nretry-after: {}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        seconds(refusal.retry),
        body.len()
    )
}

/// Marks the answer to a browser that used a name of this server that the server does not know:
/// the address under which it answers.
#[derive(Clone, Debug)]
pub struct Elsewhere(pub String);

/// Marks the answer to somebody whom no project lets in.
#[derive(Clone, Copy, Debug)]
pub struct NoProject;

/// Marks the answer about a run that is deleted.
#[derive(Clone, Debug)]
pub struct Deleted(pub RunId);

impl Deleted {
    /// The same for whoever has only a link. They cannot restore it, and are not told when somebody
    /// deleted it.
    pub fn for_link(&self) -> Error {
        Error::NotFound(format!("run {}: it was deleted", self.0))
    }
}

/// Marks the answer to a browser that another site sent here. Whoever asks may do it from here.
#[derive(Clone, Copy, Debug)]
pub struct Foreign;

type Kind = (StatusCode, ProblemCode, &'static str);

fn bad_request() -> Kind {
    (
        StatusCode::BAD_REQUEST,
        ProblemCode::BadRequest,
        "Bad request",
    )
}

/// Whoever asks may not, by whatever rule: the status and the code always go together.
fn forbidden(title: &'static str) -> Kind {
    (StatusCode::FORBIDDEN, ProblemCode::Forbidden, title)
}

fn not_found() -> Kind {
    (StatusCode::NOT_FOUND, ProblemCode::NotFound, "Not found")
}

fn of_crowd(crowd: Crowd) -> Kind {
    match crowd {
        Crowd::Client => (
            StatusCode::TOO_MANY_REQUESTS,
            ProblemCode::TooMany,
            "Too much at a time",
        ),
        Crowd::Everybody => (
            StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::Busy,
            "The server is busy",
        ),
    }
}

fn too_slow() -> Kind {
    let status = StatusCode::REQUEST_TIMEOUT;
    (status, ProblemCode::TooSlow, "Too slow")
}

fn too_long() -> Kind {
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    (status, ProblemCode::TooLarge, "Takes too long")
}

fn full() -> Kind {
    let code = ProblemCode::InsufficientStorage;
    (
        StatusCode::INSUFFICIENT_STORAGE,
        code,
        "Not enough disk space",
    )
}

fn over_quota() -> Kind {
    let (status, code, _) = full();
    (status, code, "Over the project's quota")
}

fn of_sign_in(error: &OidcError) -> Kind {
    match error {
        OidcError::Provider { .. } => (
            StatusCode::BAD_GATEWAY,
            ProblemCode::Unauthorized,
            "The provider cannot sign you in now",
        ),
        OidcError::NotSignedIn { .. } => (
            StatusCode::UNAUTHORIZED,
            ProblemCode::Unauthorized,
            "Not signed in",
        ),
        OidcError::NotAllowed { .. } => forbidden("Not allowed"),
        OidcError::Busy => of_crowd(Crowd::Everybody),
    }
}

fn internal() -> Kind {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    (status, ProblemCode::Internal, "The server failed")
}

fn cancelled() -> Kind {
    (StatusCode::CONFLICT, ProblemCode::Cancelled, "Cancelled")
}

fn of_ingest(error: &IngestError) -> Kind {
    match error {
        IngestError::BadSnapshot { .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            ProblemCode::BadSnapshot,
            "Not a readable snapshot",
        ),
        IngestError::NoMemory(error) => of_memory(error),
        IngestError::TooMuchWork { .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            ProblemCode::BadSnapshot,
            "Takes too long",
        ),
        IngestError::TooLarge { .. } => (
            StatusCode::PAYLOAD_TOO_LARGE,
            ProblemCode::TooLarge,
            "Too large",
        ),
        IngestError::NoSpace { .. } => full(),
        IngestError::OverQuota { .. } => over_quota(),
        IngestError::Longer { .. } => (
            StatusCode::BAD_REQUEST,
            ProblemCode::BadRequest,
            "Longer than announced",
        ),
        IngestError::Interrupted { .. } | IngestError::ServerStopped => (
            StatusCode::BAD_REQUEST,
            ProblemCode::Interrupted,
            "Interrupted",
        ),
        IngestError::TooSlow(_) => too_slow(),
        IngestError::Busy(refusal) => of_crowd(refusal.crowd),
        IngestError::AccessEnded => (
            StatusCode::UNAUTHORIZED,
            ProblemCode::Unauthorized,
            "Access ended",
        ),
        IngestError::Cancelled => cancelled(),
        IngestError::Store(error) => of_store(error),
        // A loop of restarts is not the fault of the request, and another try would not help.
        IngestError::GivenUp { .. } => (
            StatusCode::INTERNAL_SERVER_ERROR,
            ProblemCode::Damaged,
            "Given up",
        ),
        IngestError::Blob(error) => of_blob(error),
        IngestError::Panicked(_) => internal(),
    }
}

fn of_blob(error: &BlobError) -> Kind {
    match error {
        BlobError::Full => full(),
        BlobError::Damaged(_) | BlobError::Missing(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            ProblemCode::Damaged,
            "The stored file is damaged",
        ),
        _ => internal(),
    }
}

fn unavailable() -> Kind {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        ProblemCode::Unavailable,
        "The server cannot do that now",
    )
}

fn of_answer(refused: &Refused) -> Kind {
    match refused {
        Refused::NoMemory(error) => of_memory(error),
        Refused::TooLong(_) => too_long(),
        // The client has gone, so nobody reads this; and it is no defect for the log.
        Refused::NobodyWaits => cancelled(),
    }
}

fn of_memory(error: &NoMemory) -> Kind {
    match error {
        NoMemory::TooMuch { .. } | NoMemory::Window { .. } => (
            StatusCode::PAYLOAD_TOO_LARGE,
            ProblemCode::TooLarge,
            "Takes too much memory",
        ),
        NoMemory::Busy { .. } => of_crowd(Crowd::Everybody),
    }
}

fn of_store(error: &StoreError) -> Kind {
    match error {
        StoreError::NotFound { .. } | StoreError::Deleted { .. } | StoreError::UnknownLoop(_) => {
            not_found()
        }
        StoreError::Conflict(_) => (StatusCode::CONFLICT, ProblemCode::Conflict, "Conflict"),
        StoreError::TooNew { .. } => (StatusCode::CONFLICT, ProblemCode::TooNew, "Too new"),
        StoreError::Full => full(),
        StoreError::Packing(_) | StoreError::Undecodable(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::Damaged,
            "The stored run is damaged",
        ),
        StoreError::ReadOnly(_) | StoreError::Damaged { .. } => unavailable(),
        StoreError::NoMemory(error) => of_memory(error),
        StoreError::Refused(refused) => of_answer(refused),
        _ => internal(),
    }
}

/// The text for clients; details of a defect stay in the log.
fn outward(code: ProblemCode, detail: String) -> String {
    match code {
        ProblemCode::Internal => "the server's log has the details".to_owned(),
        // The path of the folder and SQLite's message are only for the operator.
        ProblemCode::Unavailable => {
            "the server's data cannot be changed now: the disk can only be read, or was full when \
             the server started, or the database is damaged. What is there can be read as far as \
             it is whole. The server's log says what to do; after that it must be restarted"
                .to_owned()
        }
        // The text may quote the request.
        _ => clipped(&detail, LONGEST_DETAIL).into_owned(),
    }
}

/// Longest detail, bytes.
const LONGEST_DETAIL: usize = 2048;

fn problem(
    status: StatusCode,
    code: ProblemCode,
    title: &str,
    detail: String,
    offset: Option<u64>,
) -> Problem {
    let title = title.to_owned();
    Problem {
        code,
        status: status.as_u16(),
        title,
        detail,
        offset,
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let problem = self.problem();
        if matches!(problem.code, ProblemCode::Internal | ProblemCode::Damaged) {
            let causes = std::iter::successors(self.source(), |&cause| cause.source());
            let causes: Vec<String> = causes.map(ToString::to_string).collect();
            tracing::error!(error = %self, ?causes, "request failed");
        }
        let status = StatusCode::from_u16(problem.status);
        let status = status.expect("made from a status above");
        let mut response = (status, Json(&problem)).into_response();
        // For a page that shows it.
        response.extensions_mut().insert(problem);
        let is_shut = matches!(self, Error::Project(ProjectError::Broken(_)));
        if is_shut || matches!(self, Error::NoProject | Error::TokenShut(_)) {
            response.extensions_mut().insert(NoProject);
        }
        if let Error::Store(StoreError::Deleted { id, .. }) = &self {
            response.extensions_mut().insert(Deleted(id.clone()));
        }
        if matches!(self, Error::Foreign(_)) {
            response.extensions_mut().insert(Foreign);
        }
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        self.mark(&mut response);
        response
    }
}
