//! An answer of the server: on its way, there, or refused; asked again when the question changes.

use crate::client;
use api::problem::Problem;
use leptos::prelude::*;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// An answer.
pub enum Answer<T> {
    /// Nothing was asked.
    Unasked,
    /// On its way, and what the question before it was answered with.
    Waiting(Option<Arc<T>>),
    /// There.
    There(Arc<T>),
    /// Refused.
    Failed(Problem),
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Answer<T> {
        match self {
            Answer::Unasked => Answer::Unasked,
            Answer::Waiting(before) => Answer::Waiting(before.clone()),
            Answer::There(value) => Answer::There(Arc::clone(value)),
            Answer::Failed(problem) => Answer::Failed(problem.clone()),
        }
    }
}

impl<T> Answer<T> {
    /// What there is to be shown: the answer, or the one before it while it is on its way.
    pub fn shown(&self) -> Option<Arc<T>> {
        match self {
            Answer::There(value) => Some(Arc::clone(value)),
            Answer::Waiting(before) => before.clone(),
            Answer::Unasked | Answer::Failed(_) => None,
        }
    }

    /// Whether it is on its way.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Answer::Waiting(_))
    }
}

/// Asks for `path`, and when the answer is there for what it is by then: as often as answers come,
/// for a path that changes faster.
pub fn follow<T: DeserializeOwned + Send + Sync + 'static>(
    path: impl Fn() -> String + Send + Sync + 'static,
) -> RwSignal<Answer<T>> {
    let answer = RwSignal::new(Answer::Unasked);
    let path = Memo::new(move |_| path());
    let (asking, asked) = (RwSignal::new(false), StoredValue::new(String::new()));
    Effect::new(move |_| {
        let path = path.get();
        if asking.get() || asked.with_value(|asked| *asked == path) {
            return;
        }
        asked.set_value(path.clone());
        asking.set(true);
        answer.update(|answer| *answer = Answer::Waiting(answer.shown()));
        leptos::task::spawn_local(async move {
            let got = match client::get::<T>(&path).await {
                Ok(value) => Answer::There(Arc::new(value)),
                Err(problem) => Answer::Failed(problem),
            };
            // The page may have been left.
            let _ = answer.try_set(got);
            let _ = asking.try_set(false);
        });
    });
    answer
}

/// Asks for `path`, again whenever it changes; the question before it is aborted.
pub fn ask<T: DeserializeOwned + Send + Sync + 'static>(
    path: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> RwSignal<Answer<T>> {
    let answer = RwSignal::new(Answer::Unasked);
    let path = Memo::new(move |_| path());
    Effect::new(move |_| {
        let Some(path) = path.get() else {
            return answer.set(Answer::Unasked);
        };
        answer.update(|answer| *answer = Answer::Waiting(answer.shown()));
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            let got = match client::get::<T>(&path).await {
                Ok(value) => Answer::There(Arc::new(value)),
                Err(problem) => Answer::Failed(problem),
            };
            // The page may have been left.
            let _ = answer.try_set(got);
        });
    });
    answer
}
