//! Whether the server can be reached.

use leptos::prelude::*;
use presentation::connection::{Connection, is_back};

/// Does something each time when the server answers again, as long as the owner lives: what could
/// not be asked before can be asked now.
pub fn when_back(act: impl Fn() + 'static) {
    let Some(connection) = use_context::<RwSignal<Connection>>() else {
        return;
    };
    Effect::new(move |before: Option<Connection>| {
        let now = connection.get();
        if is_back(before, now) {
            act();
        }
        now
    });
}
