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
    pub shown: RwSignal<Option<Arc<Curves>>>,
    /// Curves of everything, coarse.
    pub whole: RwSignal<Option<Arc<Curves>>>,
    /// Why there are no curves.
    pub problem: RwSignal<Option<Problem>>,
    /// Whether finer curves are being fetched.
    pub waiting: RwSignal<bool>,
    /// The number of parts that fit into the picture.
    pub parts: RwSignal<u32>,
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
                // The window is moving: wait until it rests. A newer effect cancels this timer.
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
            // In the meantime the page may have been left, or may have asked for something else.
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
