//! Forms that make a token are good for one time each.

use crate::app::App;
use crate::identity::form_number;
use serde::Deserialize;

/// Which form was sent.
#[derive(Deserialize)]
pub struct Sent {
    form: Option<String>,
}

impl Sent {
    /// Whether it was sent before, as by a page that is loaded again.
    pub fn is_again(&self, app: &App) -> bool {
        let number = self.form.as_deref();
        number.is_some_and(|number| !app.gate.forms.is_first(number))
    }

    /// It was refused, and may be corrected.
    pub fn give_back(&self, app: &App) {
        if let Some(number) = &self.form {
            app.gate.forms.give_back(number);
        }
    }
}

/// What is said of a form that was sent before.
pub const AGAIN: &str = "This was sent before, and a token was made and shown then. Nothing was \
                         done now; send it from here to make another one.";

/// Where a form is sent to that is good for one time.
pub fn good_once(path: &str) -> String {
    format!("{path}?form={}", form_number())
}
