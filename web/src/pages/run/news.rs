//! Whether an open run is still there, and under which name: when runs change, its page reads this
//! run alone, and not the list.

use super::Loaded;
use crate::client;
use crate::context::expect_context;
use crate::paced::{self, Reads};
use crate::pages::runs_store::RunsStore;
use api::ids::RunId;
use api::problem::ProblemCode;
use api::routes;
use api::runs::RunSummary;
use leptos::prelude::*;
use presentation::pace::{Haste, Reading, Sight};
use std::pin::Pin;

/// What a page knows of its run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    There,
    Failed,
}

/// The run whose page is open.
#[derive(Clone, Copy)]
pub(super) struct OpenRun {
    id: Signal<String>,
    loaded: RwSignal<Loaded>,
    /// Changed, it loads the run anew.
    attempt: RwSignal<u32>,
    store: RunsStore,
}

impl OpenRun {
    /// The run with this id, and what is known of it.
    pub(super) fn new(
        id: Signal<String>,
        loaded: RwSignal<Loaded>,
        attempt: RwSignal<u32>,
    ) -> OpenRun {
        OpenRun {
            id,
            loaded,
            attempt,
            store: expect_context(),
        }
    }

    async fn read_alone(self) -> Reading {
        let Some(Ok(id)) = self.id.try_get_untracked().map(|id| id.parse::<RunId>()) else {
            return Reading::Over;
        };
        let read = client::get_soon::<Vec<RunSummary>>(&routes::run_alone(&id)).await;
        let reading = paced::reading_of(&read);
        let Ok(listed) = read else {
            return reading;
        };
        match (listed.into_iter().next(), self.known(&id)) {
            (Some(run), Some(Known::There)) => self.store.learn(run),
            (Some(_), Some(Known::Failed)) => self.attempt.update(|n| *n += 1),
            (None, Some(Known::There)) => self.leave(&id).await,
            (None, Some(Known::Failed)) | (_, None) => {}
        }
        reading
    }

    /// Says why it is not there any more.
    async fn leave(self, id: &RunId) {
        let answer = client::get_soon::<serde::de::IgnoredAny>(&routes::run(id)).await;
        let gone = answer.err();
        let gone = gone.filter(|problem| problem.code == ProblemCode::NotFound);
        if let Some(problem) = gone.filter(|_| self.known(id) == Some(Known::There)) {
            let _ = self.loaded.try_set(Loaded::Failed(problem));
            self.store.forget(id);
        }
    }

    /// What the page knows of it; `None` if that is on its way, or if the page was left.
    fn known(self, id: &RunId) -> Option<Known> {
        let is_open = self
            .id
            .try_with_untracked(|now| now.as_str() == id.as_str());
        let known = self.loaded.try_with_untracked(|loaded| match loaded {
            Loaded::There(..) => Some(Known::There),
            Loaded::Failed(_) => Some(Known::Failed),
            Loaded::Loading => None,
        });
        known.flatten().filter(|_| is_open == Some(true))
    }
}

impl Reads for OpenRun {
    fn sight(&self) -> Sight {
        paced::in_this_tab()
    }

    fn read_again(&self, _: Haste) -> Pin<Box<dyn Future<Output = Reading>>> {
        Box::pin(self.read_alone())
    }
}
