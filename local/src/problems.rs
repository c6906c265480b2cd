//! Refusals, in words that say what to do next. They are those of the server, where it has them.

use answers::cards::NoCard;
use answers::decoded::NoDevice;
use answers::questions::asked::Misasked;
use api::problem::{Problem, ProblemCode};
use trace::clip::clipped;
use trace::steps::choices::UnknownLoop;

/// Longest detail, bytes: it may quote the request.
const LONGEST_DETAIL: usize = 2048;

/// Why there is no answer. Boxed, because answers are mostly given.
pub type Refused = Box<Problem>;

fn problem(status: u16, code: ProblemCode, title: &str, detail: &str) -> Refused {
    Box::new(Problem {
        code,
        status,
        title: title.to_owned(),
        detail: clipped(detail, LONGEST_DETAIL).into_owned(),
        offset: None,
    })
}

/// The request is malformed.
pub fn bad_request(detail: impl AsRef<str>) -> Refused {
    problem(400, ProblemCode::BadRequest, "Bad request", detail.as_ref())
}

/// The document in the body has not the form that is needed.
pub fn unfit_document(detail: impl AsRef<str>) -> Refused {
    problem(422, ProblemCode::BadRequest, "Bad request", detail.as_ref())
}

/// There is no such thing.
pub fn missing(what: impl AsRef<str>) -> Refused {
    let detail = format!("there is no {}", what.as_ref());
    problem(404, ProblemCode::NotFound, "Not found", &detail)
}

/// What is asked for cannot be.
pub fn misasked(why: Misasked) -> Refused {
    match why {
        Misasked::NoEvent { .. } | Misasked::NoBlock { .. } => missing(why.to_string()),
        _ => bad_request(why.to_string()),
    }
}

/// No loop of the recording is called this.
pub fn no_loop(unknown: &UnknownLoop) -> Refused {
    let detail = unknown.to_string();
    problem(404, ProblemCode::NotFound, "Not found", &detail)
}

/// A card was not drawn. Nothing stops one here: there is no limit of time in a tab.
pub fn no_card(why: NoCard) -> Refused {
    let detail = why.to_string();
    problem(404, ProblemCode::NotFound, "Not found", &detail)
}

/// There is nothing at this address.
pub fn no_route(path: &str) -> Refused {
    let detail = format!("there is nothing at {path}");
    problem(404, ProblemCode::NotFound, "Not found", &detail)
}

/// The run was open before the page was loaded again, or in another tab.
pub fn not_open() -> Refused {
    problem(
        404,
        ProblemCode::NotFound,
        "This recording is not open here",
        "This recording was open in one tab only, and nothing is kept of it. Open the same file \
         again, and this address shows the same view.",
    )
}

/// The ranks of a job were open before the page was loaded again.
pub fn job_not_open() -> Refused {
    problem(
        404,
        ProblemCode::NotFound,
        "This job is not open here",
        "Its ranks were open in one tab only, and nothing is kept of them. Open the folder of the \
         ranks again.",
    )
}

/// Something that a single tab cannot do.
pub fn needs_a_server(what: &str, how: &str) -> Refused {
    let detail = format!("{what} This page works without a server, in one tab. {how}");
    problem(409, ProblemCode::Conflict, "This needs a server", &detail)
}

/// The file cannot be read.
pub fn bad_snapshot(detail: &str, offset: Option<u64>) -> Refused {
    let title = "Not a readable snapshot";
    let refused = problem(422, ProblemCode::BadSnapshot, title, detail);
    Box::new(Problem { offset, ..*refused })
}

/// The recordings do not fit into the tab.
pub fn too_much_memory() -> Refused {
    problem(
        413,
        ProblemCode::TooLarge,
        "Takes too much memory",
        "this file and those that are open need more memory than a tab may have. Delete a run from \
         the list or load the page again, and open this file alone; `tidemark serve` reads files \
         of any size",
    )
}

/// The upload was cancelled.
pub fn cancelled() -> Refused {
    problem(
        409,
        ProblemCode::Cancelled,
        "Cancelled",
        "the upload was cancelled",
    )
}

/// The recording has no such device.
pub fn no_device(missing: NoDevice) -> Refused {
    let detail = missing.to_string();
    problem(404, ProblemCode::NotFound, "Not found", &detail)
}
