//! What whoever looks at the page may do. The server says it on the page itself.

use leptos::prelude::*;

/// Whether the page says that this is not allowed, as `[data-may-not~=upload]`.
fn says(not: &str) -> bool {
    document()
        .query_selector(not)
        .is_ok_and(|found| found.is_some())
}

/// Whether they may send files.
pub fn may_upload() -> bool {
    !says("[data-may-not~=upload]")
}

/// Whether they may rename and delete runs.
pub fn may_manage() -> bool {
    !says("[data-may-not~=manage]")
}
