//! Whether the server can be reached.

use leptos::prelude::*;

/// Whether the server answers; in the context of the whole application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It does.
    There,
    /// It does not; the page keeps trying.
    Lost,
}

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

fn is_back(before: Option<Connection>, now: Connection) -> bool {
    before == Some(Connection::Lost) && now == Connection::There
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_return_counts() {
        assert!(is_back(Some(Connection::Lost), Connection::There));
        assert!(!is_back(None, Connection::There), "it was never away");
        assert!(!is_back(Some(Connection::There), Connection::There));
        assert!(!is_back(Some(Connection::There), Connection::Lost));
    }
}
