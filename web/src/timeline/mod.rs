//! The timeline: the four series and the mountain of live allocations over one axis.
//!
//! The drawing code is the crate `timeline` (`::timeline` in imports). This module connects it to
//! the browser:
//!
//! ```text
//! client -> drive (one frame loop) -> model -> scene -> paint -> raster -> canvas
//! pointer, keys -> input -> viewport (window)
//! ```

pub mod canvas;
pub mod drive;
pub mod frames;
pub mod legend;
pub mod observe;
pub mod panel;
pub mod picture;
pub mod stage;
pub mod tooltip;

use crate::client;
use crate::clock::sleep;
use crate::url_state::UrlState;
use ::timeline::model::Model;
use ::timeline::{lanes, readout, summary};
use api::contents::Contents;
use api::problem::Problem;
use api::routes;
use api::runs::DeviceSummary;
use api::timeline::Marks;
use api::view_state::{Selection, ViewState};
use drive::{AGAIN, Driver, Outputs, Source};
use legend::Legend;
use leptos::prelude::*;
use presentation::response::may_go_better;
use stage::{MinimapStrip, Stage};
use std::sync::Arc;
use tooltip::Tooltip;
use trace::trace::Series;
use trace::units::Bytes;

/// A timeline, for the components around it. `Copy`.
#[derive(Clone, Copy)]
pub struct Handle {
    driver: StoredValue<Driver, LocalStorage>,
    /// What the timeline reports.
    pub outputs: Outputs,
    /// Steps, annotations, capacity; once they are there.
    pub marks: RwSignal<Option<Arc<Marks>>>,
    /// Why they are not there, if the last attempt failed.
    pub unmarked: RwSignal<Option<Problem>>,
    /// Peak of the host's pinned memory, if it is drawn.
    pinned: Option<Bytes>,
}

impl Handle {
    /// The timeline of a device, with the peak of the host's pinned memory if that is drawn beside
    /// it. Ends with the owner.
    pub fn new(
        source: Source,
        device: &DeviceSummary,
        pinned: Option<Bytes>,
        contents: Signal<Option<Arc<Contents>>>,
        view: UrlState<ViewState>,
    ) -> Handle {
        let outputs = Outputs::new();
        let peak = device.series[Series::Reserved as usize].peak;
        let peak = peak.max(pinned.unwrap_or_default());
        let state = view.state().get_untracked();
        let model = Model::new(device.events, peak, &state);
        let marks_path = source.asks(routes::marks(&source.run, source.device));
        let driver = Driver::new(source, model, view, outputs);
        driver.begin();
        let handle = Handle {
            driver: StoredValue::new_local(driver),
            outputs,
            marks: RwSignal::new(None),
            unmarked: RwSignal::new(None),
            pinned,
        };
        // Changes of the address or of a control go to the model. The model's own changes come back
        // here too, and change nothing.
        Effect::new(move |_| {
            let state = view.state().get();
            handle.with(|driver| driver.change(|model| model.show(&state)));
        });
        // Phases get a lane beside the marks, whichever arrives first.
        Effect::new(move |_| {
            let contents = contents.get();
            let phases = contents
                .as_ref()
                .map_or(&[][..], |contents| contents.phases.as_slice());
            if let Some(marks) = handle.marks.get() {
                let marks = Arc::new(lanes::with_phases(&marks, phases));
                handle.with(|driver| driver.change(|model| model.set_marks(marks)));
            }
        });
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            handle.read_marks(&marks_path).await;
        });
        on_cleanup(move || {
            handle.with(Driver::stop);
        });
        handle
    }

    /// Asks until they are there, as for a tile. The picture works without them.
    async fn read_marks(self, path: &str) {
        loop {
            let (marks, problem) = match client::get::<Marks>(path).await {
                Ok(marks) => (Some(Arc::new(marks)), None),
                Err(problem) => (None, Some(problem)),
            };
            let again = problem.as_ref().is_some_and(may_go_better);
            let _ = self.marks.try_set(marks);
            let _ = self.unmarked.try_set(problem);
            if !again {
                return;
            }
            sleep(AGAIN).await;
        }
    }

    /// Asks or changes the timeline; `None` if the page was left.
    pub fn with<T>(self, with: impl FnOnce(&Driver) -> T) -> Option<T> {
        let driver = self.driver.try_get_value()?;
        Some(with(&driver))
    }

    /// Selects.
    pub fn select(self, selection: Option<Selection>) {
        self.with(|driver| driver.select(selection));
    }
}

/// The picture with its legend, minimap and text.
#[component]
pub fn Timeline(
    handle: Handle,
    device: DeviceSummary,
    /// What is found about the data of the device.
    codes: Vec<String>,
) -> impl IntoView {
    let n_events = device.events;
    let summary = {
        let (device, codes) = (device.clone(), codes.clone());
        move || {
            handle
                .marks
                .with(|marks| summary::trace(&device, &codes, marks.as_deref()))
        }
    };
    let outputs = handle.outputs;
    let window = move || {
        if outputs.by_keys.get() {
            return outputs
                .readout
                .with(|read| read.as_ref().map(readout::told));
        }
        outputs.settled.track();
        handle.with(|driver| driver.ask(|model| summary::window(model.target(), n_events)))
    };
    let waiting = move || handle.outputs.waiting.get();
    let busy = move || waiting().to_string();
    let undrawn = move || !handle.outputs.drawn.get();
    view! {
        <section class="timeline" aria-label="Memory over time" aria-busy=busy>
            <Legend handle=handle device=device codes=codes/>
            <Stage handle=handle>
                <div class="timeline-waiting" class:shown=waiting></div>
                <div class="timeline-skeleton skeleton-row" class:shown=undrawn></div>
                <Tooltip handle=handle/>
            </Stage>
            <MinimapStrip handle=handle/>
            <p id="timeline-summary" class="visually-hidden">{summary}</p>
            <p id="timeline-keys" class="visually-hidden">
                "Arrow keys select allocations. On the lines, left and right read values."
            </p>
            <p id="timeline-window" class="visually-hidden" aria-live="polite">{window}</p>
        </section>
    }
}
