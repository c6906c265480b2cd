//! The curves of the picture: asked for as the window moves, the old ones kept until new are there.

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

/// Parts of a picture that shows everything, for the small ones.
const SMALL_PARTS: u32 = 160;

/// A window that moves asks this long after it came to rest.
const SETTLED_AFTER: Duration = Duration::from_millis(90);

/// The curves. `Copy`.
#[derive(Clone, Copy)]
pub struct CurvesSource {
    /// Of the visible window, or of an older one while that is on its way.
    pub shown: RwSignal<Option<Arc<Curves>>>,
    /// Of everything, coarse.
    pub whole: RwSignal<Option<Arc<Curves>>>,
    /// Why there are none.
    pub problem: RwSignal<Option<Problem>>,
    /// Whether finer ones are on their way.
    pub waiting: RwSignal<bool>,
    /// Parts that the picture has room for.
    pub parts: RwSignal<u32>,
    /// The newest request: an older answer must not replace a newer one.
    latest: StoredValue<Option<CurvesWanted>>,
}

/// What curves are of; with another of these the old ones are of no use.
#[derive(Clone, Copy, PartialEq)]
struct Subject {
    align: Align,
    series: trace::trace::Series,
    pair: u32,
}

impl CurvesSource {
    /// The curves of what is looked at. Ends with the owner.
    pub fn new(focus: Focus) -> CurvesSource {
        let source = CurvesSource {
            shown: RwSignal::new(None),
            whole: RwSignal::new(None),
            problem: RwSignal::new(None),
            waiting: RwSignal::new(true),
            parts: RwSignal::new(600),
            latest: StoredValue::new(None),
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
        Effect::new(move |_| {
            let subject = subject.get();
            source.shown.set(None);
            source.whole.set(None);
            source.ask(
                runs.get_value(),
                wanted(subject, None, SMALL_PARTS),
                source.whole,
            );
        });
        Effect::new(move |before: Option<Subject>| {
            let (subject, parts) = (subject.get(), source.parts.get());
            let wanted = wanted(subject, window.get(), parts);
            source.waiting.set(true);
            let runs = runs.get_value();
            match before == Some(subject) {
                // Moving: wait until it rests. A newer effect cancels this one's timer.
                true => {
                    let later = move || source.ask_once(runs.clone(), wanted);
                    if let Ok(timer) = set_timeout_with_handle(later, SETTLED_AFTER) {
                        on_cleanup(move || timer.clear());
                    }
                }
                false => source.ask_once(runs, wanted),
            }
            subject
        });
        source
    }

    fn ask_once(self, runs: Vec<RunId>, wanted: CurvesWanted) {
        self.ask(runs, wanted, self.shown);
    }

    fn ask(self, runs: Vec<RunId>, wanted: CurvesWanted, into: RwSignal<Option<Arc<Curves>>>) {
        let is_fine = wanted.parts != SMALL_PARTS;
        if is_fine {
            self.latest.set_value(Some(wanted));
        }
        leptos::task::spawn_local(async move {
            let path = routes::compare_curves(&runs, &wanted);
            let answer = client::get::<Curves>(&path).await;
            // The page may have been left, or asked for something else, meanwhile.
            if is_fine && self.latest.try_get_value().flatten() != Some(wanted) {
                return;
            }
            match answer {
                Ok(curves) => {
                    let _ = into.try_set(Some(Arc::new(curves)));
                    let _ = self.problem.try_set(None);
                }
                Err(problem) => {
                    let _ = self.problem.try_set(Some(problem));
                }
            }
            if is_fine {
                let _ = self.waiting.try_set(false);
            }
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
