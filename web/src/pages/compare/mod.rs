//! The page that compares two to eight runs; with fewer, it helps to pick them.

mod cards;
mod categories;
mod curves;
mod head;
mod multiples;
pub mod pick;
mod picture;
mod recordings;
mod sites;
mod steps;

use crate::client;
use crate::components::copy_for_pr::CopyForPr;
use crate::components::problem_note::ProblemNote;
use crate::components::prose::Prose;
use crate::components::share::ShareButton;
use crate::context::expect_context;
use crate::opened_link::OpenedLink;
use crate::pages::runs_store::RunsStore;
use crate::url_state::{UrlState, use_url_state};
use api::compare::{Against, Comparison};
use api::compare_view::CompareState;
use api::ids::RunId;
use api::problem::{Problem, ProblemCode};
use api::routes;
use api::shares::ShareTarget;
use cards::{Cards, Conditions};
use categories::CategoryChanges;
use curves::CurvesSource;
use head::{Chooser, MorePicks};
use leptos::prelude::*;
use multiples::Multiples;
use picture::Picture;
use presentation::components::problem_note::sentence;
use presentation::query::Query;
use recordings::Recordings;
use sites::SiteTable;
use std::sync::Arc;
use steps::StepTable;
use trace::compare::Difference;

/// The comparison: being fetched, there, or refused.
#[derive(Clone)]
enum Loaded {
    /// Fewer than two runs are picked.
    TooFew,
    Loading,
    There(Arc<Comparison>),
    Failed(Problem),
}

/// The page.
#[component]
pub fn ComparePage() -> impl IntoView {
    document().set_title("Compare · Tidemark");
    let view = use_url_state::<CompareState>();
    let runs = Memo::new(move |_| view.state().with(|state| state.runs.clone()));
    let loaded = RwSignal::new(Loaded::TooFew);
    let attempt = RwSignal::new(0_u32);
    Effect::new(move |_| {
        attempt.track();
        let runs = runs.get();
        if runs.len() < 2 {
            return loaded.set(Loaded::TooFew);
        }
        loaded.set(Loaded::Loading);
        // The request ends with this effect: a newer choice of runs drops the older request.
        leptos::task::spawn_local_scoped_with_cancellation(async move {
            let answer = client::get::<Comparison>(&routes::compare(&runs)).await;
            let _ = loaded.try_set(match answer {
                Ok(comparison) => Loaded::There(Arc::new(comparison)),
                Err(problem) => Loaded::Failed(problem),
            });
        });
    });
    // Its runs may be opened, sent or restored while the page says that one is not there.
    let store: RunsStore = expect_context();
    Effect::new(move |_| {
        let are_listed = runs.with(|runs| runs.iter().all(|id| store.run(id).is_some()));
        let failed = loaded.with_untracked(|loaded| matches!(loaded, Loaded::Failed(_)));
        if are_listed && failed {
            attempt.update(|n| *n += 1);
        }
    });
    let retry = Callback::new(move |()| attempt.update(|n| *n += 1));
    let body = move || match loaded.get() {
        Loaded::TooFew => view! { <MorePicks view=view/> }.into_any(),
        Loaded::Loading => view! { <Skeleton/> }.into_any(),
        Loaded::Failed(problem) => view! { <NoComparison problem=problem retry=retry/> }.into_any(),
        Loaded::There(comparison) => {
            view! { <ComparisonView comparison=comparison view=view/> }.into_any()
        }
    };
    let notes = move || {
        let notes = view.notes().get().into_iter();
        notes
            .map(|note| view! { <p><Prose text=sentence(&note.to_string())/></p> })
            .collect_view()
    };
    let OpenedLink(link) = expect_context();
    // With a link, the reader cannot choose other runs, and shares the page by copying the link.
    let owner = move || link.with(Option::is_none);
    let enough = Memo::new(move |_| runs.with(|runs| runs.len() >= 2));
    let tools = move || match owner() {
        true => view! {
            <Chooser view=view/>
            {move || enough.get().then(|| view! { <Actions view=view/> })}
        }
        .into_any(),
        false => loaded.with(fixed_runs),
    };
    view! {
        <div class="compare-page">
            <div class="compare-title">
                <h1>"Compare"</h1>
                {tools}
            </div>
            <div class="run-link-notes" role="status">{notes}</div>
            {body}
        </div>
    }
}

/// Why there is no comparison. A run that was deleted is restored in the list of runs.
#[component]
fn NoComparison(problem: Problem, retry: Callback<()>) -> impl IntoView {
    let link: OpenedLink = expect_context();
    let is_gone = problem.code == ProblemCode::NotFound && !link.is_all_here();
    let list = is_gone.then(|| {
        view! { <p class="run-nothing"><a href=routes::RUNS_PAGE>"All runs"</a></p> }
    });
    view! {
        <ProblemNote problem=problem retry=retry/>
        {list}
    }
}

/// The runs, for readers who cannot choose others.
fn fixed_runs(loaded: &Loaded) -> AnyView {
    match loaded {
        Loaded::There(comparison) => head::fixed(comparison),
        Loaded::TooFew | Loaded::Loading | Loaded::Failed(_) => ().into_any(),
    }
}

/// Buttons to share or export this view.
#[component]
fn Actions(view: UrlState<CompareState>) -> impl IntoView {
    let query = Signal::derive(move || view.state().with(Query::write));
    let target = Signal::derive(move || ShareTarget::Comparison {
        runs: view.state().with(|state| state.runs.clone()),
    });
    view! {
        <div class="view-actions">
            <CopyForPr target=target query=query/>
            <ShareButton target=target query=query/>
        </div>
    }
}

#[component]
fn Skeleton() -> impl IntoView {
    view! {
        <div class="compare-skeleton" aria-busy="true" role="status">
            <p class="visually-hidden">"Comparing the runs"</p>
            <div class="skeleton-head"></div>
            <div class="skeleton-row compare-skeleton-picture"></div>
        </div>
    }
}

/// What is selected: which run to compare with the baseline, and which pair of devices. `Copy`.
#[derive(Clone, Copy)]
pub struct Focus {
    comparison: StoredValue<Arc<Comparison>>,
    /// For each run after the baseline, its differences. They are shared, because they hold
    /// hundreds of stacks.
    differences: StoredValue<Vec<Vec<Arc<Difference>>>>,
    view: UrlState<CompareState>,
    /// Position of the selected run among the runs, never that of the baseline.
    against: Memo<usize>,
    /// Position of the selected pair of devices.
    pair: Memo<usize>,
    link: OpenedLink,
}

impl Focus {
    fn new(comparison: Arc<Comparison>, view: UrlState<CompareState>) -> Focus {
        let others = comparison.against.len().max(1);
        let against = Memo::new(move |_| {
            view.state()
                .with(|state| (state.against as usize).clamp(1, others))
        });
        let chosen = Arc::clone(&comparison);
        let pair = Memo::new(move |_| {
            let wanted = view.state().with(|state| state.pair);
            let against = chosen.against.get(against.get() - 1);
            against
                .and_then(|against| against.pair(wanted))
                .unwrap_or(0)
        });
        let shared = comparison.against.iter().map(|against| {
            let devices = against.devices.iter();
            devices
                .map(|difference| Arc::new(difference.clone()))
                .collect()
        });
        Focus {
            differences: StoredValue::new(shared.collect()),
            comparison: StoredValue::new(comparison),
            view,
            against,
            pair,
            link: expect_context(),
        }
    }

    /// The run, if the viewer may open its page; `None` for viewers who would be asked for the
    /// token there.
    fn page_of(self, run: usize) -> Option<RunId> {
        let comparison = self.comparison();
        let id = comparison.runs.get(run)?.id.clone();
        id.filter(|_| !self.link.is_all_here())
    }

    /// The whole comparison.
    fn comparison(self) -> Arc<Comparison> {
        self.comparison.get_value()
    }

    /// The comparison of a run with the baseline, by its position among the runs.
    fn with_against<T>(self, run: usize, look: impl FnOnce(&Against) -> T) -> Option<T> {
        let comparison = self.comparison();
        comparison.against.get(run.checked_sub(1)?).map(look)
    }

    /// The difference of a run, by its position among the runs, and of a pair of devices.
    fn difference_of(self, run: usize, pair: usize) -> Option<Arc<Difference>> {
        self.differences.with_value(|differences| {
            let devices = differences.get(run.checked_sub(1)?)?;
            devices.get(pair).cloned()
        })
    }

    /// The selected difference.
    fn difference(self) -> Option<Arc<Difference>> {
        self.difference_of(self.against.get(), self.pair.get())
    }

    /// The same, for parts that are rebuilt when it changes.
    fn difference_untracked(self) -> Option<Arc<Difference>> {
        self.difference_of(self.against.get_untracked(), self.pair.get_untracked())
    }

    /// The name of a run.
    fn name(self, run: usize) -> String {
        let comparison = self.comparison();
        comparison
            .runs
            .get(run)
            .map_or_else(String::new, |run| run.name.clone())
    }
}

#[component]
fn ComparisonView(comparison: Arc<Comparison>, view: UrlState<CompareState>) -> impl IntoView {
    let focus = Focus::new(comparison, view);
    let source = CurvesSource::new(focus);
    let names = (0..focus.comparison().runs.len()).map(|run| focus.name(run));
    let names: Vec<String> = names.collect();
    let title = format!("{} · Compare · Tidemark", names.join(" → "));
    Effect::new(move |_| document().set_title(&title));
    view! {
        <Recordings focus=focus/>
        <Cards focus=focus/>
        <Conditions focus=focus/>
        <CategoryChanges focus=focus/>
        <Picture focus=focus source=source/>
        <Multiples focus=focus source=source/>
        <div class="compare-tables">
            <SiteTable focus=focus/>
            <StepTable focus=focus source=source/>
        </div>
    }
}
