//! What the application shares with all of its components.

use leptos::prelude::use_context;

/// A value that the application has provided. Leptos' own function of this name also names the type
/// and the place where it is missing, which made the front end larger by a kilobyte.
///
/// # Panics
/// Never: `app` provides all of them.
pub fn expect_context<T: Clone + 'static>() -> T {
    use_context().expect("the application provides it")
}
