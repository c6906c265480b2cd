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

/// What was heard of the server: on its stream of events, and in its answers. Each may be lost
/// alone: a proxy may refuse streams only, and a server that hangs keeps its streams open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    stream: Connection,
    answers: Connection,
}

impl Heard {
    /// Nothing is lost.
    pub const ALL: Heard = Heard {
        stream: Connection::There,
        answers: Connection::There,
    };

    /// The stream is lost or there. One that was opened again was answered, too.
    pub fn on_stream(self, now: Connection) -> Heard {
        match now {
            Connection::There => Heard::ALL,
            Connection::Lost => Heard {
                stream: Connection::Lost,
                ..self
            },
        }
    }

    /// An answer did not come in time, or there is one.
    pub fn in_answers(self, now: Connection) -> Heard {
        Heard {
            answers: now,
            ..self
        }
    }

    /// Whether the server can be reached.
    pub fn connection(self) -> Connection {
        match (self.stream, self.answers) {
            (Connection::There, Connection::There) => Connection::There,
            (Connection::Lost, _) | (_, Connection::Lost) => Connection::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_hangs_is_lost_until_it_answers_or_opens_a_stream() {
        let silent = Heard::ALL.in_answers(Connection::Lost);
        assert_eq!(silent.connection(), Connection::Lost);
        let answers = silent.in_answers(Connection::There);
        assert_eq!(answers.connection(), Connection::There);
        let streams = silent.on_stream(Connection::There);
        assert_eq!(streams.connection(), Connection::There);
        // Answers do not bring a stream back that a proxy refuses.
        let deaf = Heard::ALL.on_stream(Connection::Lost);
        let deaf = deaf.in_answers(Connection::There);
        assert_eq!(deaf.connection(), Connection::Lost);
    }

    #[test]
    fn only_a_return_counts() {
        assert!(is_back(Some(Connection::Lost), Connection::There));
        assert!(!is_back(None, Connection::There), "it was never away");
        assert!(!is_back(Some(Connection::There), Connection::There));
        assert!(!is_back(Some(Connection::There), Connection::Lost));
    }
}
