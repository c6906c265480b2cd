//! Readings at a [`Pace`], by the browser's clock.

use crate::clock;
use api::problem::Problem;
use leptos::prelude::*;
use presentation::pace::{Due, Haste, Pace, Reading, Sight};
use presentation::response::is_silence;
use std::pin::Pin;
use std::rc::Rc;

/// What is read again when the server says that something changed.
pub trait Reads {
    /// Who would see it now.
    fn sight(&self) -> Sight;

    /// Reads it. This must end at some time, whatever the server does: until then nothing else is
    /// read. The future is boxed, so that the code of a pace exists once.
    fn read_again(&self, haste: Haste) -> Pin<Box<dyn Future<Output = Reading>>>;
}

/// How a reading ended that got this answer.
pub fn reading_of<T>(answer: &Result<T, Problem>) -> Reading {
    match answer {
        Err(problem) if is_silence(problem) => Reading::Silent,
        Ok(_) | Err(_) => Reading::Over,
    }
}

/// Whether the browser shows this tab: for a page that shows something, as long as it is open.
pub fn in_this_tab() -> Sight {
    match document().hidden() {
        true => Sight::Away,
        false => Sight::Shown,
    }
}

/// When something is read again. It ends with its owner.
#[derive(Clone, Copy)]
pub struct Paced(StoredValue<Pace>);

impl Paced {
    /// Nothing was read yet.
    pub fn new() -> Paced {
        Paced(StoredValue::new(Pace::default()))
    }

    /// The same of what many tabs read together ([`Pace::in_rounds`]).
    pub fn in_rounds() -> Paced {
        Paced(StoredValue::new(Pace::in_rounds()))
    }

    /// Reads it, or marks it as old until somebody sees it: then this must be asked again.
    pub fn ask(self, haste: Haste, what: Rc<dyn Reads>) {
        let (now, chance) = (clock::now(), js_sys::Math::random());
        let wanted = self
            .0
            .try_update_value(|pace| pace.want(haste, now, chance));
        if wanted.is_some() {
            self.go_on(what);
        }
    }

    fn go_on(self, what: Rc<dyn Reads>) {
        let (now, sight) = (clock::now(), what.sight());
        // `None`: the page that wanted it was left.
        match self.0.try_update_value(|pace| pace.due(now, sight)) {
            None | Some(Due::Nothing) => {}
            Some(Due::Now(haste)) => leptos::task::spawn_local(async move {
                let reading = what.read_again(haste).await;
                let (now, chance) = (clock::now(), js_sys::Math::random());
                let ended = self.0.try_update_value(|pace| match reading {
                    Reading::Over => pace.ended(now, chance),
                    Reading::Silent => pace.unanswered(now, chance),
                });
                if ended.is_some() {
                    self.go_on(what);
                }
            }),
            Some(Due::In(wait)) => set_timeout(
                move || {
                    if self.0.try_update_value(Pace::rang).is_some() {
                        self.go_on(what);
                    }
                },
                wait,
            ),
        }
    }
}

impl Default for Paced {
    fn default() -> Paced {
        Paced::new()
    }
}
