//! The curves of the picture. They are fetched as the window moves; the old ones stay until the new
//! ones are there.

use super::Focus;
use crate::client;
use api::compare::{Curves, CurvesWanted};
use api::ids::RunId;
use api::problem::Problem;
use api::routes;
use leptos::leptos_dom::helpers::set_timeout_with_handle;
use leptos::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use trace::compare::curves::Align;

/// The number of parts in the small pictures, which show everything.
const SMALL_PARTS: u32 = 160;

/// After a window has moved, the request is sent this long after it comes to rest.
const SETTLED_AFTER: Duration = Duration::from_millis(90);

/// The curves. `Copy`.
#[derive(Clone, Copy)]
pub struct CurvesSource {
    /// Curves of the visible window, or of an older window until the new ones are there.
    pub shown: Fetched,
    /// Curves of everything, coarse.
    pub whole: Fetched,
    /// The number of parts that fit into the picture.
    pub parts: RwSignal<u32>,
    /// Changes when it is time to ask again.
    attempt: RwSignal<u32>,
}

/// The answers to one kind of request. `Copy`.
#[derive(Clone, Copy)]
pub struct Fetched {
    /// The curves, once they are there.
    pub curves: RwSignal<Option<Arc<Curves>>>,
    /// Whether finer ones are being fetched.
    pub waiting: RwSignal<bool>,
    /// Why the newest request brought none.
    problem: RwSignal<Option<Problem>>,
    /// The newest request: an older answer must not replace a newer one.
    latest: StoredValue<Option<CurvesWanted>>,
}

/// What the curves are about. If any of these changes, the old curves are useless.
#[derive(Clone, Copy, PartialEq)]
struct Subject {
    align: Align,
    series: trace::trace::Series,
    pair: u32,
}

impl CurvesSource {
    /// The curves of the selected run. Ends with the owner.
    pub fn new(focus: Focus) -> CurvesSource {
        let source = CurvesSource {
            shown: Fetched::new(),
            whole: Fetched::new(),
            parts: RwSignal::new(600),
            attempt: RwSignal::new(0),
        };
        let runs: Vec<RunId> = focus
            .comparison()
            .runs
            .iter()
            .filter_map(|r| r.id.clone())
            .collect();
        let runs = StoredValue::new(runs);
        let subject = Memo::new(move |_| {
            let state = focus.view.state().get();
            Subject {
                align: state.align,
                series: state.series,
                pair: focus.pair.get() as u32,
            }
        });
        let window = Memo::new(move |_| focus.view.state().with(|state| state.window));
        Effect::new(move |before: Option<Subject>| {
            source.attempt.track();
            let subject = subject.get();
            if before != Some(subject) {
                source.shown.curves.set(None);
                source.whole.curves.set(None);
            }
            let wanted = wanted(subject, None, SMALL_PARTS);
            source.whole.ask(runs.get_value(), wanted);
            subject
        });
        Effect::new(move |before: Option<Subject>| {
            source.attempt.track();
            let (subject, parts) = (subject.get(), source.parts.get());
            let wanted = wanted(subject, window.get(), parts);
            source.shown.waiting.set(true);
            let runs = runs.get_value();
            match before == Some(subject) {
                // The window is moving: wait until it rests. A newer effect cancels this timer.
                true => {
                    let later = move || source.shown.ask(runs.clone(), wanted);
                    if let Ok(timer) = set_timeout_with_handle(later, SETTLED_AFTER) {
                        on_cleanup(move || timer.clear());
                    }
                }
                false => source.shown.ask(runs, wanted),
            }
            subject
        });
        source
    }

    /// Why curves are missing.
    pub fn problem(self) -> Option<Problem> {
        let problem = self.shown.problem.get();
        problem.or_else(|| self.whole.problem.get())
    }

    /// Asks again.
    pub fn retry(self) {
        self.attempt.update(|n| *n += 1);
    }
}

impl Fetched {
    fn new() -> Fetched {
        Fetched {
            curves: RwSignal::new(None),
            waiting: RwSignal::new(true),
            problem: RwSignal::new(None),
            latest: StoredValue::new(None),
        }
    }

    fn ask(self, runs: Vec<RunId>, wanted: CurvesWanted) {
        self.latest.set_value(Some(wanted));
        leptos::task::spawn_local(async move {
            let path = routes::compare_curves(&runs, &wanted);
            let answer = client::get::<Curves>(&path).await;
            // In the meantime the page may have been left, or may have asked for something else.
            if self.latest.try_get_value().flatten() != Some(wanted) {
                return;
            }
            let problem = match answer {
                Ok(curves) => {
                    let _ = self.curves.try_set(Some(Arc::new(curves)));
                    None
                }
                Err(problem) => Some(problem),
            };
            let _ = self.problem.try_set(problem);
            let _ = self.waiting.try_set(false);
        });
    }
}

fn wanted(subject: Subject, window: Option<(f64, f64)>, parts: u32) -> CurvesWanted {
    CurvesWanted {
        align: subject.align,
        series: subject.series,
        pair: subject.pair,
        window,
        parts,
    }
}
