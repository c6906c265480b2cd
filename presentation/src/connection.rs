//! Whether the server can be reached.

/// Whether the server answers; in the context of the whole application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It does.
    There,
    /// It does not; the page keeps trying.
    Lost,
}

/// Whether the server answers again, after it did not.
pub fn is_back(before: Option<Connection>, now: Connection) -> bool {
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
