//! Benches as the server has them, and the progress of the running row.

use crate::client::{self, Method};
use crate::components::toasts::Toasts;
use crate::paced::{self, Paced, Reads};
use crate::pages::runs_store::Loaded;
use api::bench::{
    Bench, BenchCatalog, BenchProgress, BenchRow, BenchRowState, BenchSummary, Frontier,
    OffloaderGrid, StartBench,
};
use api::ids::{BenchId, BenchRowId};
use api::problem::Problem;
use api::routes;
use leptos::prelude::*;
use presentation::pace::{Haste, Reading, Sight};
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// Whether the page of benches is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watching {
    Nobody,
    Somebody,
}

/// Results about the offloaders that were computed before and are part of the server.
pub struct Kept {
    /// Every offloader on every configuration.
    pub grid: OffloaderGrid,
    /// Peak against step time of every offloader.
    pub frontier: Frontier,
}

/// Benches; in the context of the whole application.
#[derive(Clone, Copy)]
pub struct BenchStore {
    catalog: RwSignal<Loaded<Arc<BenchCatalog>>>,
    kept: RwSignal<Loaded<Arc<Kept>>>,
    history: RwSignal<Loaded<Vec<BenchSummary>>>,
    bench: RwSignal<Loaded<Bench>>,
    live: RwSignal<HashMap<BenchRowId, BenchProgress>>,
    /// The wanted bench; `None` for the newest.
    wanted: StoredValue<Option<BenchId>>,
    watching: StoredValue<Watching>,
    /// Number of the newest request: an older answer must not overwrite a newer one.
    newest: StoredValue<u32>,
    /// When it is read again after a change by others.
    paced: Paced,
}

impl BenchStore {
    /// Nothing yet.
    pub fn new() -> BenchStore {
        BenchStore {
            catalog: RwSignal::new(Loaded::Loading),
            kept: RwSignal::new(Loaded::Loading),
            history: RwSignal::new(Loaded::Loading),
            bench: RwSignal::new(Loaded::Loading),
            live: RwSignal::new(HashMap::new()),
            wanted: StoredValue::new(None),
            watching: StoredValue::new(Watching::Nobody),
            newest: StoredValue::new(0),
            paced: Paced::new(),
        }
    }

    /// What can be run.
    pub fn catalog(self) -> Signal<Loaded<Arc<BenchCatalog>>> {
        self.catalog.into()
    }

    /// The computed results about the offloaders.
    pub fn kept(self) -> Signal<Loaded<Arc<Kept>>> {
        self.kept.into()
    }

    /// All benches, newest first.
    pub fn history(self) -> Signal<Loaded<Vec<BenchSummary>>> {
        self.history.into()
    }

    /// The selected bench.
    pub fn bench(self) -> Signal<Loaded<Bench>> {
        self.bench.into()
    }

    /// The progress of a row, if the server has reported any since the page was opened.
    pub fn progress(self, row: &BenchRowId) -> Option<BenchProgress> {
        self.live.with(|live| live.get(row).copied())
    }

    /// Selects a bench, or the newest.
    pub fn look(self, wanted: Option<BenchId>) {
        let other = self.wanted.with_value(|now| *now != wanted);
        self.wanted.set_value(wanted);
        self.watching.set_value(Watching::Somebody);
        if other {
            self.bench.set(Loaded::Loading);
        }
        self.read_catalog();
        self.refresh();
    }

    /// The page of benches was left.
    pub fn look_away(self) {
        self.watching.set_value(Watching::Nobody);
    }

    /// The server reports the progress of a row.
    pub fn moved_on(self, row: BenchRowId, progress: BenchProgress) {
        if self.watching.get_value() == Watching::Somebody {
            self.live.update(|live| {
                live.insert(row, progress);
            });
        }
    }

    /// Something changed: reads the selected bench again, at a pace that many tabs can have.
    pub fn changed(self) {
        if self.watching.get_value() == Watching::Somebody {
            self.paced.ask(Haste::AtAPace, Rc::new(self));
        }
    }

    /// Reads the history and the bench again. The old data stays until the answer is there.
    pub fn refresh(self) {
        let reading = self.read_again(Haste::AtOnce);
        leptos::task::spawn_local(async move {
            if reading.await == Reading::Silent {
                self.changed();
            }
        });
    }

    /// Starts a bench; `then` gets its id. (`then` is no `Callback`: that would end with the form,
    /// which folds away as soon as the server says that there is a bench, and this can be before
    /// the answer.)
    pub fn start(
        self,
        toasts: Toasts,
        request: StartBench,
        then: impl FnOnce(Option<BenchId>) + 'static,
    ) {
        leptos::task::spawn_local(async move {
            let path = routes::BENCHES;
            match client::send_json::<_, Bench>(Method::Post, path, &request).await {
                Ok(bench) => {
                    then(Some(bench.id.clone()));
                    if self.watching.get_value() == Watching::Somebody {
                        self.look(Some(bench.id.clone()));
                        self.bench.set(Loaded::Ready(bench));
                    }
                }
                Err(problem) => {
                    toasts.fail("Not started", &problem);
                    then(None);
                }
            }
        });
    }

    /// Sends requests, one after the other until one is refused, each of whose answers is the new
    /// state of the bench.
    pub fn act(self, toasts: Toasts, what: &'static str, paths: Vec<String>) {
        leptos::task::spawn_local(async move {
            for path in paths {
                match client::send::<Bench>(Method::Post, &path).await {
                    // Another bench may have been chosen in the meantime.
                    Ok(bench) if self.shows(&bench.id) => self.show(Ok(bench)),
                    Ok(_) => {}
                    Err(problem) => return toasts.fail(what, &problem),
                }
            }
        });
    }

    /// Forgets a bench. If it is the selected one, `leave` runs when it is gone, and the newest is
    /// selected. (`leave` is no `Callback`: that would end with the line of the list.)
    pub fn delete(self, toasts: Toasts, id: BenchId, leave: impl FnOnce() + 'static) {
        leptos::task::spawn_local(async move {
            match client::send::<()>(Method::Delete, &routes::bench(&id)).await {
                Ok(()) => {
                    if self.shows(&id) {
                        leave();
                        self.bench.set(Loaded::Loading);
                        self.look(None);
                    } else {
                        self.refresh();
                    }
                }
                Err(problem) => toasts.fail("Not removed", &problem),
            }
        });
    }

    /// Whether this is the bench on the page.
    fn shows(self, id: &BenchId) -> bool {
        self.bench.with_untracked(|bench| match bench {
            Loaded::Ready(bench) => bench.id == *id,
            Loaded::Loading | Loaded::Failed(_) => false,
        })
    }

    /// Shows a bench. The progress of a row that does not run is that of an earlier run: if the row
    /// runs again, it begins anew.
    fn show(self, answer: Result<Bench, Problem>) {
        if let Ok(bench) = &answer {
            let over = |row: &&BenchRow| !matches!(row.state, BenchRowState::Running { .. });
            self.live.update(|live| {
                for row in bench.rows.iter().filter(over) {
                    live.remove(&row.id);
                }
            });
        }
        replace(self.bench, answer);
    }

    fn read_catalog(self) {
        if self
            .catalog
            .with_untracked(|c| matches!(c, Loaded::Ready(_)))
        {
            return;
        }
        leptos::task::spawn_local(async move {
            let answer = client::get::<BenchCatalog>(routes::BENCH_CATALOG).await;
            replace(self.catalog, answer.map(Arc::new));
            replace(self.kept, Kept::read().await.map(Arc::new));
        });
    }
}

impl Reads for BenchStore {
    fn sight(&self) -> Sight {
        match self.watching.get_value() {
            Watching::Nobody => Sight::Away,
            Watching::Somebody => paced::in_this_tab(),
        }
    }

    /// A reading that begins later makes an earlier one void.
    fn read_again(&self, _: Haste) -> Pin<Box<dyn Future<Output = Reading>>> {
        let store = *self;
        let request = store.newest.get_value().wrapping_add(1);
        store.newest.set_value(request);
        let is_newest = move || store.newest.get_value() == request;
        Box::pin(async move {
            let history = client::list::<BenchSummary>(routes::BENCHES).await;
            if !is_newest() {
                return Reading::Over;
            }
            let reading = paced::reading_of(&history);
            let first = match &history {
                Ok(history) => history.first().map(|bench| bench.id.clone()),
                Err(_) => None,
            };
            replace(store.history, history);
            let Some(id) = store.wanted.get_value().or(first) else {
                return reading;
            };
            // A server that said nothing to the first question has had its time.
            if reading == Reading::Silent {
                return reading;
            }
            let bench = client::get_soon::<Bench>(&routes::bench(&id)).await;
            let reading = paced::reading_of(&bench);
            if is_newest() {
                store.show(bench);
            }
            reading
        })
    }
}

impl Kept {
    async fn read() -> Result<Kept, Problem> {
        Ok(Kept {
            grid: client::get(routes::BENCH_OFFLOADERS).await?,
            frontier: client::get(routes::BENCH_FRONTIER).await?,
        })
    }
}

impl Default for BenchStore {
    fn default() -> BenchStore {
        BenchStore::new()
    }
}

/// Keeps the old value if the answer is a problem.
fn replace<T: Send + Sync + 'static>(signal: RwSignal<Loaded<T>>, answer: Result<T, Problem>) {
    match answer {
        Ok(value) => signal.set(Loaded::Ready(value)),
        Err(problem) => signal.update(|shown| {
            if !matches!(shown, Loaded::Ready(_)) {
                *shown = Loaded::Failed(problem);
            }
        }),
    }
}
