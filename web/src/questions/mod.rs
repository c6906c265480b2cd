//! The questions about a run below its picture: does it leak, what is alive, which allocations,
//! where memory lies, what if.
//!
//! ```text
//! api::{leaks, alive, …} -> answer (fetched) -> presentation::questions -> charts, tables
//! ```
//!
//! The geometry and the texts are in [`presentation::questions`]; these modules connect them to the
//! page. Every choice of the user is in the [`api::view_state`].

mod alive_tab;
mod allocation_list;
mod allocations_tab;
pub mod answer;
mod band_table;
mod box_chart;
mod dimension_choice;
mod filter_box;
mod group_table;
mod growth_chart;
mod honesty;
mod leaks_tab;
mod map_tab;
mod reveal;
mod room_chart;
mod tabs;
mod what_if_chart;
mod what_if_tab;

pub use allocation_list::Beside;
pub use reveal::reveal;
pub use tabs::{Questions, TabBar};

use crate::timeline::drive::Source;
use crate::url_state::UrlState;
use api::runs::{DeviceSummary, RunDetail};
use api::view_state::{Selection, ViewState, When};
use leptos::prelude::*;
use presentation::questions::band_colours::Orders;
use presentation::questions::picture::show_stack;
use presentation::questions::step_numbers::StepNumbers;
use std::sync::Arc;
use trace::trace::BlockIdx;
use trace::units::EventIdx;

/// The text about an inferred name.
const INFERRED: &str = "not recorded, but derived from where, in what order and in what size it \
                        was allocated.";

/// Marks what is inferred, if it is. The line below the rows says why.
fn inferred_badge(is_inferred: bool) -> Option<AnyView> {
    is_inferred.then(|| view! { <span class="badge">"inferred"</span> }.into_any())
}

/// The line below rows of which some are inferred: a title would be the mouse's alone.
fn inferred_note(is_any: bool, why: &'static str) -> Option<AnyView> {
    is_any.then(|| view! { <p class="muted">"inferred: " {why}</p> }.into_any())
}

/// What every question needs. `Copy`.
#[derive(Clone, Copy)]
pub struct Asker {
    /// The run and device that is asked about.
    pub source: StoredValue<Source>,
    /// The device.
    pub device: StoredValue<DeviceSummary>,
    /// The run.
    pub run: StoredValue<Arc<RunDetail>>,
    /// The user's choices.
    pub view: UrlState<ViewState>,
    /// The event under the pointer in the picture.
    pub pointed: Memo<Option<EventIdx>>,
    /// What gives groups their colours in the picture.
    pub orders: Memo<Orders>,
    /// The numbers of the steps, once they are known.
    pub steps: Memo<Option<StepNumbers>>,
}

impl Asker {
    fn path(self, of: impl FnOnce(&Source) -> String) -> String {
        self.source.with_value(|source| source.asks(of(source)))
    }

    /// The name of the run.
    fn run_name(self) -> String {
        self.run.with_value(|run| run.summary.name.clone())
    }

    fn n_events(self) -> u32 {
        self.device.with_value(|device| device.events)
    }

    /// Whether it has a history, or is a state alone.
    fn has_events(self) -> bool {
        self.n_events() > 0
    }

    /// A moment to ask about: of a state alone, there is only that.
    fn moment(self, at: EventIdx) -> Option<EventIdx> {
        self.has_events().then_some(at)
    }

    fn last_event(self) -> EventIdx {
        EventIdx(self.device.with_value(|d| d.events.saturating_sub(1)))
    }

    /// A part of the state; it changes only when its value does.
    fn memo<T: Clone + PartialEq + Send + Sync + 'static>(
        self,
        of: impl Fn(&ViewState) -> T + Send + Sync + 'static,
    ) -> Memo<T> {
        let state = self.view.state();
        Memo::new(move |_| state.with(&of))
    }

    /// Asks about the moment after an event.
    fn go_to(self, event: EventIdx) {
        let at = Some(When::After(event));
        self.view.update(|state| state.at = at);
    }

    /// Selects an allocation in the picture and in the panel.
    fn select_block(self, block: u32) {
        let selection = Some(Selection::Block(BlockIdx(block)));
        self.view.update(|state| state.selection = selection);
    }

    /// Highlights the band of a stack in the picture.
    fn select_stack(self, stack: Option<u32>) {
        self.view.update(|state| show_stack(state, stack));
    }
}
