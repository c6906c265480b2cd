//! Whether the server can be reached.

use leptos::prelude::*;
use presentation::connection::{Connection, Heard, is_back};

/// What was heard of the server; in the context of the whole application, as is the signal that
/// tells it to the pages.
#[derive(Clone, Copy)]
pub struct Hearing {
    heard: StoredValue<Heard>,
    told: RwSignal<Connection>,
}

impl Hearing {
    /// Nothing is lost. Changes are told by the signal.
    pub fn new(told: RwSignal<Connection>) -> Hearing {
        Hearing {
            heard: StoredValue::new(Heard::ALL),
            told,
        }
    }

    /// The stream of events is lost, or there.
    pub fn on_stream(self, now: Connection) {
        self.hear(self.heard.get_value().on_stream(now));
    }

    /// An answer did not come in time, or there is one.
    pub fn in_answers(self, now: Connection) {
        self.hear(self.heard.get_value().in_answers(now));
    }

    fn hear(self, heard: Heard) {
        self.heard.set_value(heard);
        let now = heard.connection();
        if self.told.get_untracked() != now {
            self.told.set(now);
        }
    }
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
