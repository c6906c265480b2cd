//! Domain errors become problems, and problems responses: the only error status codes there are.

use crate::bench::BenchError;
use crate::blobs::BlobError;
use crate::ingest::IngestError;
use crate::store::StoreError;
use api::problem::{Problem, ProblemCode};
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::error::Error as _;

/// Why a request was not answered as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The upload failed.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The bench was not taken.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The request is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// The body is no JSON of the right shape.
    #[error("{}", .0.body_text())]
    Json(#[from] JsonRejection),
    /// The path has something else where an id or a number belongs.
    #[error("{}", .0.body_text())]
    Path(#[from] PathRejection),
    /// The query is malformed.
    #[error("{}", .0.body_text())]
    Query(#[from] QueryRejection),
    /// There is no such address.
    #[error("there is nothing at {0}")]
    NoRoute(String),
    /// There is no such thing.
    #[error("there is no {0}")]
    NotFound(String),
    /// The address is there, but not for this method.
    #[error("this address does not take {0} requests")]
    Method(String),
    /// A token is needed, or the one sent is wrong.
    #[error(
        "this server needs an access token: send it as `Authorization: Bearer TOKEN`, or type it \
         once in the page"
    )]
    TokenNeeded,
    /// The token typed is wrong.
    #[error("this is not the server's access token")]
    WrongToken,
    /// A browser was sent here by another site.
    #[error("{0}")]
    Foreign(&'static str),
    /// A link asks for more than it opens.
    #[error("{0}")]
    OutOfScope(&'static str),
    /// A link that has ended.
    #[error("{0}")]
    Gone(String),
    /// A defect.
    #[error("a handler panicked")]
    Panicked,
}

/// How a failed upload looks from outside.
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

impl Error {
    fn problem(&self) -> Problem {
        let (status, code, title) = match self {
            Error::Ingest(error) => return describe(error),
            Error::Store(error) => of_store(error),
            Error::Bench(BenchError::Store(error)) => of_store(error),
            Error::Bench(BenchError::Refused(_)) | Error::BadRequest(_) => bad_request(),
            Error::Json(rejection) => (rejection.status(), ProblemCode::BadRequest, "Bad request"),
            Error::Path(rejection) => (rejection.status(), ProblemCode::BadRequest, "Bad request"),
            Error::Query(rejection) => (rejection.status(), ProblemCode::BadRequest, "Bad request"),
            Error::NoRoute(_) | Error::NotFound(_) => not_found(),
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
            Error::Foreign(_) | Error::OutOfScope(_) => {
                (StatusCode::FORBIDDEN, ProblemCode::BadRequest, "Refused")
            }
            Error::Gone(_) => (
                StatusCode::GONE,
                ProblemCode::Gone,
                "This link does not open any more",
            ),
            Error::Panicked => internal(),
        };
        problem(status, code, title, outward(code, self.to_string()), None)
    }
}

type Kind = (StatusCode, ProblemCode, &'static str);

fn bad_request() -> Kind {
    (
        StatusCode::BAD_REQUEST,
        ProblemCode::BadRequest,
        "Bad request",
    )
}

fn not_found() -> Kind {
    (StatusCode::NOT_FOUND, ProblemCode::NotFound, "Not found")
}

fn full() -> Kind {
    let code = ProblemCode::InsufficientStorage;
    (
        StatusCode::INSUFFICIENT_STORAGE,
        code,
        "Not enough disk space",
    )
}

fn internal() -> Kind {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    (status, ProblemCode::Internal, "The server failed")
}

fn of_ingest(error: &IngestError) -> Kind {
    match error {
        IngestError::BadSnapshot { .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            ProblemCode::BadSnapshot,
            "Not a readable snapshot",
        ),
        IngestError::TooLarge { .. } => (
            StatusCode::PAYLOAD_TOO_LARGE,
            ProblemCode::TooLarge,
            "Too large",
        ),
        IngestError::NoSpace { .. } | IngestError::Blob(BlobError::Full) => full(),
        IngestError::Interrupted { .. } | IngestError::ServerStopped => (
            StatusCode::BAD_REQUEST,
            ProblemCode::Interrupted,
            "Interrupted",
        ),
        IngestError::Cancelled => (StatusCode::CONFLICT, ProblemCode::Cancelled, "Cancelled"),
        IngestError::Store(error) => of_store(error),
        IngestError::Blob(_) | IngestError::Panicked(_) => internal(),
    }
}

fn of_store(error: &StoreError) -> Kind {
    match error {
        StoreError::NotFound { .. } => not_found(),
        StoreError::Conflict(_) => (StatusCode::CONFLICT, ProblemCode::Conflict, "Conflict"),
        StoreError::TooNew { .. } => (StatusCode::CONFLICT, ProblemCode::TooNew, "Too new"),
        StoreError::Full => full(),
        _ => internal(),
    }
}

/// What others may know: the inside of a defect stays in the log.
fn outward(code: ProblemCode, detail: String) -> String {
    match code {
        ProblemCode::Internal => "the server's log has the details".to_owned(),
        _ => detail,
    }
}

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
        if problem.code == ProblemCode::Internal {
            let causes = std::iter::successors(self.source(), |&cause| cause.source());
            let causes: Vec<String> = causes.map(ToString::to_string).collect();
            tracing::error!(error = %self, ?causes, "request failed");
        }
        let status = StatusCode::from_u16(problem.status);
        let status = status.expect("made from a status above");
        let mut response = (status, Json(problem)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
