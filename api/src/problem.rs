//! `application/problem+json` (RFC 9457), with a code that programs can match on.

use serde::{Deserialize, Serialize};

/// What went wrong, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The request itself is malformed.
    BadRequest,
    /// A token is needed, or the one sent is wrong.
    Unauthorized,
    /// The token or the link is not good for this, the person is no admin, or another site asks.
    /// Every answer with status 403 has this code.
    Forbidden,
    /// Nothing there, or nothing there any more.
    NotFound,
    /// A link that was revoked or has expired: `detail` says by whom and when.
    Gone,
    /// The state does not allow it (finished, cancelled, already there).
    Conflict,
    /// Larger than the configured limit.
    TooLarge,
    /// The disk could not hold it.
    InsufficientStorage,
    /// The file is not a snapshot, or a broken or hostile one; `offset` says where.
    BadSnapshot,
    /// The connection ended before the announced end of the body.
    Interrupted,
    /// The user cancelled it.
    Cancelled,
    /// This client has asked for too much at a time; the header `Retry-After` says when to ask
    /// again.
    TooMany,
    /// All clients together have; `Retry-After` says when to ask again.
    Busy,
    /// The client sent too little in too much time.
    TooSlow,
    /// A format or link from a newer version.
    TooNew,
    /// A stored file is not what was uploaded, or is gone; `tidemark doctor` has the details.
    Damaged,
    /// The server cannot do that now; the log has the details.
    Unavailable,
    /// A defect of the server; the log has the details.
    Internal,
}

/// What went wrong, where, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// For programs.
    pub code: ProblemCode,
    /// The HTTP status this came with.
    pub status: u16,
    /// One short line.
    pub title: String,
    /// What happened, where, and what to do next.
    pub detail: String,
    /// Byte offset in the uploaded (decompressed) file, for `bad_snapshot`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offset: Option<u64>,
}
