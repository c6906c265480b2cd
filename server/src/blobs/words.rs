//! Explains errors of a blob store to people who run the server.

use std::error::Error;
use std::io::ErrorKind;

/// S3's codes for refused access. An error of a listing has only this text.
const KEPT_OUT: [&str; 3] = [
    "AccessDenied",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
];

/// A sentence that says what to check.
pub(super) fn of(error: &object_store::Error) -> String {
    use object_store::Error::{PermissionDenied, Unauthenticated};
    let text = error.to_string();
    let is_kept_out = matches!(error, Unauthenticated { .. } | PermissionDenied { .. });
    if is_kept_out || KEPT_OUT.iter().any(|code| text.contains(code)) {
        return "the blob store does not let this server in: check AWS_ACCESS_KEY_ID, \
                AWS_SECRET_ACCESS_KEY and what they may do"
            .to_owned();
    }
    if text.contains("NoSuchBucket") {
        return "the blob store has no such bucket: make it, or check --blobs".to_owned();
    }
    match unreachable(error) {
        Some(why) => format!(
            "the blob store cannot be reached ({why}): check that it runs, its address \
             (AWS_ENDPOINT) and the network"
        ),
        None => format!("the blob store failed: {text}"),
    }
}

/// The last cause of an error of the connection.
fn unreachable(error: &object_store::Error) -> Option<String> {
    let mut cause: &(dyn Error + 'static) = error;
    let mut is_away = is_of_the_way(cause);
    while let Some(source) = cause.source() {
        cause = source;
        is_away |= is_of_the_way(cause);
    }
    is_away.then(|| cause.to_string())
}

fn is_of_the_way(cause: &(dyn Error + 'static)) -> bool {
    let kinds = [
        ErrorKind::ConnectionRefused,
        ErrorKind::ConnectionReset,
        ErrorKind::ConnectionAborted,
        ErrorKind::HostUnreachable,
        ErrorKind::NetworkUnreachable,
        ErrorKind::TimedOut,
    ];
    let io = cause.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| kinds.contains(&io.kind())) || is_of_the_client(cause)
}

/// Whether the client itself failed to connect, for example because of an unknown name.
#[cfg(feature = "s3")]
fn is_of_the_client(cause: &(dyn Error + 'static)) -> bool {
    use object_store::client::{HttpError, HttpErrorKind};
    let kind = cause.downcast_ref::<HttpError>().map(HttpError::kind);
    matches!(kind, Some(HttpErrorKind::Connect | HttpErrorKind::Timeout))
}

#[cfg(not(feature = "s3"))]
fn is_of_the_client(_: &(dyn Error + 'static)) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::Error as Store;

    #[test]
    fn an_error_says_what_to_look_at() {
        let check = |error: Store, expected: &str| {
            let said = of(&error);
            assert!(said.contains(expected), "{said}");
        };
        let io = |kind| -> Box<dyn Error + Send + Sync> { std::io::Error::from(kind).into() };
        let generic = |source| Store::Generic {
            store: "S3",
            source,
        };
        let path = || "team/owner".to_owned();
        check(generic(io(ErrorKind::ConnectionRefused)), "AWS_ENDPOINT");
        check(generic(io(ErrorKind::TimedOut)), "AWS_ENDPOINT");
        check(generic(io(ErrorKind::Other)), "the blob store failed: ");
        let denied = Store::PermissionDenied {
            path: path(),
            source: io(ErrorKind::Other),
        };
        check(denied, "AWS_SECRET_ACCESS_KEY");
        let source = "Code: NoSuchBucket".into();
        let gone = Store::NotFound {
            path: path(),
            source,
        };
        check(gone, "no such bucket");
        check(
            generic("<Code>NoSuchBucket</Code>".into()),
            "no such bucket",
        );
        check(
            generic("<Code>AccessDenied</Code>".into()),
            "AWS_ACCESS_KEY_ID",
        );
    }
}
