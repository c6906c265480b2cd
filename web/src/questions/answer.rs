//! An answer of the server: being fetched, there, or refused. It is fetched again when the question
//! changes.

use crate::client;
use crate::components::problem_note::ProblemNote;
use crate::connection::when_back;
use crate::context::expect_context;
use api::problem::Problem;
use leptos::prelude::*;
use presentation::response;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// An answer.
pub enum Answer<T> {
    /// Nothing was asked.
    Unasked,
    /// Being fetched; with the answer to the question before, if there was one.
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
    /// What to show: the answer, or the earlier one while the new one is being fetched.
    pub fn shown(&self) -> Option<Arc<T>> {
        match self {
            Answer::There(value) => Some(Arc::clone(value)),
            Answer::Waiting(before) => before.clone(),
            Answer::Unasked | Answer::Failed(_) => None,
        }
    }

    /// Whether it is being fetched.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Answer::Waiting(_))
    }
}

/// What to do with an answer's text when it comes.
type Take = Box<dyn Fn(Result<String, Problem>) + Send + Sync>;

/// An answer, and the function that sets it.
fn answer_of<T: DeserializeOwned + Send + Sync + 'static>() -> (RwSignal<Answer<T>>, Take) {
    let answer = RwSignal::new(Answer::Unasked);
    let take = move |text: Result<String, Problem>| {
        let read = text.and_then(|text| response::read::<T>(&text));
        // The page may have been left.
        let _ = answer.try_set(match read {
            Ok(value) => Answer::There(Arc::new(value)),
            Err(problem) => Answer::Failed(problem),
        });
    };
    (answer, Box::new(take))
}

/// Asks for `path`. When the answer is there, asks for the newest path. So a path that changes
/// quickly is fetched only as often as answers come.
pub fn follow<T: DeserializeOwned + Send + Sync + 'static>(
    path: impl Fn() -> String + Send + Sync + 'static,
) -> RwSignal<Answer<T>> {
    let (answer, take) = answer_of();
    let wait = move || answer.update(|answer| *answer = Answer::Waiting(answer.shown()));
    following(Box::new(path), Box::new(wait), take);
    answer
}

// The code below exists once, and not for each type that is asked for.

/// Somebody wants everything asked again that was not answered; in the context of the whole
/// application.
#[derive(Clone, Copy)]
pub struct AskAgain(pub RwSignal<u32>);

/// In the place of an answer: why there is none, and a button that asks all of that again.
pub fn refused(problem: Problem) -> AnyView {
    let AskAgain(asked) = expect_context();
    let retry = Callback::new(move |()| asked.update(|n| *n += 1));
    view! { <ProblemNote problem=problem retry=retry/> }.into_any()
}

/// Asks again what was not answered: once the server is back, or when somebody wants it.
#[derive(Clone, Copy)]
struct Again {
    unanswered: StoredValue<bool>,
    /// Changes when it is time to ask again.
    attempt: RwSignal<u32>,
}

impl Again {
    /// Looks at an answer: whether it is worth asking again.
    fn notice(self, text: &Result<String, Problem>) {
        let lost = text.as_ref().is_err_and(response::may_go_better);
        let _ = self.unanswered.try_set_value(lost);
    }

    fn ask(self) {
        // Once, although the note on the page and the connection may both say so.
        if self.unanswered.get_value() {
            self.unanswered.set_value(false);
            self.attempt.update(|n| *n += 1);
        }
    }
}

fn ask_again() -> Again {
    let again = Again {
        unanswered: StoredValue::new(false),
        attempt: RwSignal::new(0),
    };
    when_back(move || again.ask());
    if let Some(AskAgain(asked)) = use_context() {
        Effect::new(move |before: Option<u32>| {
            let now = asked.get();
            if before.is_some_and(|before| before != now) {
                again.ask();
            }
            now
        });
    }
    again
}

fn following(
    path: Box<dyn Fn() -> String + Send + Sync>,
    wait: Box<dyn Fn() + Send + Sync>,
    take: Take,
) {
    let path = Memo::new(move |_| path());
    let (asking, asked) = (RwSignal::new(false), StoredValue::new(None));
    let take = StoredValue::new(take);
    let again = ask_again();
    Effect::new(move |_| {
        let (path, attempt) = (path.get(), again.attempt.get());
        let question = Some((path.clone(), attempt));
        if asking.get() || asked.with_value(|asked| *asked == question) {
            return;
        }
        asked.set_value(question);
        asking.set(true);
        wait();
        leptos::task::spawn_local(async move {
            let text = client::get_json(&path).await;
            again.notice(&text);
            let _ = take.try_with_value(|take| take(text));
            let _ = asking.try_set(false);
        });
    });
}

/// Asks for `path`, and again whenever it changes; the earlier request is aborted.
pub fn ask<T: DeserializeOwned + Send + Sync + 'static>(
    path: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> RwSignal<Answer<T>> {
    let (answer, take) = answer_of();
    let begin = move |is_asked: bool| match is_asked {
        true => answer.update(|answer| *answer = Answer::Waiting(answer.shown())),
        false => answer.set(Answer::Unasked),
    };
    asking(Box::new(path), Box::new(begin), take);
    answer
}

fn asking(
    path: Box<dyn Fn() -> Option<String> + Send + Sync>,
    begin: Box<dyn Fn(bool) + Send + Sync>,
    take: Take,
) {
    let path = Memo::new(move |_| path());
    let take = StoredValue::new(take);
    let again = ask_again();
    Effect::new(move |_| {
        again.attempt.track();
        let path = path.get();
        begin(path.is_some());
        let Some(path) = path else { return };
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            let text = client::get_json(&path).await;
            again.notice(&text);
            let _ = take.try_with_value(|take| take(text));
        });
    });
}
