//! Everything that requests need: opened once and shared by all of them.

use crate::bench::Benches;
use crate::blobs::{BlobError, Blobs, Claim, Owner, Ownership};
use crate::comparisons::Comparisons;
use crate::config::{Config, Credulous};
use crate::ingest::{Admission, IngestError, UploadLimits, Uploads};
use crate::jobs::Jobs;
use crate::limits::asking::Asking;
use crate::limits::budget::Budget;
use crate::limits::clients::Quota;
use crate::limits::requests::Requests;
use crate::limits::turns::Turns;
use crate::live::judgements::Judgements;
use crate::pictures::Pictures;
use crate::problems::describe;
use crate::projects::{self, Projects};
use crate::run_lists::RunLists;
use crate::shelf::Shelves;
use crate::store::{Looked, Store, StoreError};
use crate::system::clock::{self, now_ms};
use crate::system::data_folder::{BENCH, BLOBS, DATABASE};
use crate::system::data_lock::{DataLock, For, Unusable};
use crate::system::disk;
use crate::system::private::{self, Kind};
use crate::tensors::Tensors;
use crate::usage::Sizes;
use crate::who::access::Gate;
use crate::who::host_names;
use crate::who::oidc::Provider;
use api::problem::ProblemCode;
use api::progress::ServerEvent;
use api::projects::ProjectName;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use timeline::format::plural;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use trace::naming::Rules;
use trace::units::Bytes;

/// How many events a slow listener may fall behind before it must read everything again.
const EVENTS_KEPT: usize = 256;

/// When to ask again for an export after all places were taken: exports take seconds.
const EXPORT_RETRY: Duration = Duration::from_secs(5);

/// Memory for drawn cards, for runs in words, and for packed pages of the list of runs. It is
/// outside of the budget, so projects besides the first one have less.
const CARD_BYTES: u64 = 32 << 20;
const EXPLANATION_BYTES: u64 = 4 << 20;
const RUN_LIST_BYTES: u64 = 16 << 20;
const OTHERS_SHARE: u64 = 32;

/// Without so much room the smallest change fails: the log of the database takes some pages for it.
const LEAST_FREE: Bytes = Bytes::kib(64);

/// When to ask again for a stream of events: streams last as long as a page is open.
const STREAM_RETRY: Duration = Duration::from_secs(30);

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It would believe any client about who it is.
    #[error(transparent)]
    Credulous(#[from] Credulous),
    /// The provider that signs people in cannot be used.
    #[error("{0}")]
    Oidc(String),
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] Unusable),
    /// The database cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Stored files without the database that knows them.
    #[error(
        "{place} holds stored files, and {} has no database: restore the database, let `tidemark \
         doctor --data {} --adopt` make a new one of the files, or move them away",
        .folder.display(),
        .folder.display()
    )]
    NoDatabase {
        /// The data folder.
        folder: PathBuf,
        /// Where the files are.
        place: String,
    },
    /// The blob store cannot be opened.
    #[error(transparent)]
    Blobs(#[from] BlobError),
    /// No thread can be had.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// Cleaning up after an earlier server failed.
    #[error("cannot clear up after the last run of the server: {0}")]
    Recover(#[from] IngestError),
}

impl OpenError {
    /// Whether the reason is a full disk.
    pub fn is_full(&self) -> bool {
        match self {
            OpenError::Store(StoreError::Full) | OpenError::Blobs(BlobError::Full) => true,
            OpenError::Recover(error) => describe(error).code == ProblemCode::InsufficientStorage,
            OpenError::Folder(Unusable::Folder { source, .. }) => {
                source.kind() == ErrorKind::StorageFull
            }
            _ => false,
        }
    }
}

/// Everything that a request to a project needs.
pub struct App {
    /// Which project.
    pub project: ProjectName,
    /// How the server was configured, with the folder of the project.
    pub config: Config,
    /// The database.
    pub store: Store,
    /// The upload service.
    pub uploads: Uploads,
    /// The bench service.
    pub benches: Benches,
    /// Tiles.
    pub pictures: Pictures,
    /// What the engine knows about tensors.
    pub tensors: Tensors,
    /// Comparisons of runs.
    pub comparisons: Comparisons,
    /// Many ranks of one program.
    pub jobs: Jobs,
    /// What was found in trainings that report.
    pub live: Judgements,
    /// What open pages listen to.
    pub events: broadcast::Sender<ServerEvent>,
    /// Who may come in. All projects of a server share it.
    pub gate: Arc<Gate>,
    /// The other projects; the first project of a server has them.
    pub projects: Projects<App>,
    /// Who signs people in, besides this server.
    pub oidc: Option<Provider>,
    /// Cards that were drawn.
    pub cards: Shelves,
    /// Runs in words. They take longer than cards, so they have shelves of their own and cards do
    /// not wait for them.
    pub explanations: Shelves,
    /// Pages of the list of runs that were packed.
    pub run_lists: RunLists,
    /// What takes the disk, as it was measured last.
    pub sizes: Sizes,
    /// Turns at questions about recordings. All projects of a server share them.
    pub asking: Asking,
    /// The memory budget.
    pub budget: Budget,
    /// Requests, counted.
    pub requests: Arc<Requests>,
    /// Places for exports.
    pub exports: Quota,
    /// Places for streams of events.
    pub event_streams: Quota,
    /// The name of this machine.
    pub hostname: String,
    /// Fires when the server is asked to stop.
    pub stopping: CancellationToken,
    /// What the operator should know, a sentence each.
    pub notices: Vec<String>,
    /// Held while the server runs; the system releases them even after `kill -9`.
    _locks: (DataLock, Ownership),
}

/// What the projects of a server share.
#[derive(Clone)]
struct Shared {
    gate: Arc<Gate>,
    asking: Asking,
    budget: Budget,
    requests: Arc<Requests>,
    exports: Quota,
    event_streams: Quota,
    admission: Arc<Admission>,
    /// The only turn at running a row of a bench.
    bench_turn: Turns,
    hostname: String,
    stopping: CancellationToken,
}

impl Shared {
    async fn new(config: &Config, store: &Store) -> Result<Shared, StoreError> {
        let clients = &config.clients;
        let budget = Budget::new(config.memory);
        // A clock that was set back while no server ran brings nobody back.
        let gate = Gate::new(
            config.token.as_ref(),
            config.newcomers(),
            store,
            store.latest_ms(),
        );
        Ok(Shared {
            gate: Arc::new(gate.await?),
            asking: Asking::new(clients),
            requests: Arc::default(),
            exports: clients.exports.quota("exports", EXPORT_RETRY),
            event_streams: clients.event_streams.quota("event streams", STREAM_RETRY),
            admission: Arc::new(Admission::new(clients, &budget)),
            budget,
            bench_turn: Turns::new(1),
            hostname: host_names::hostname(),
            stopping: CancellationToken::new(),
        })
    }
}

impl App {
    /// Tells open pages that the list of runs is another one.
    pub fn runs_changed(&self) {
        // An error only means that no page listens.
        let _ = self.events.send(ServerEvent::RunsChanged);
    }

    /// Opens the first project of a server, which knows of the others.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub async fn open_first(config: Config) -> Result<Arc<App>, OpenError> {
        App::open_one(config, ProjectName::main(), None).await
    }

    /// Opens another project of this server, until `stopping` fires.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub async fn open_beside(
        &self,
        project: ProjectName,
        stopping: CancellationToken,
    ) -> Result<Arc<App>, OpenError> {
        let config = projects::config_of(&self.config, &project);
        files_are_known(&config).await?;
        let shared = Shared {
            gate: Arc::clone(&self.gate),
            asking: self.asking.clone(),
            budget: self.budget.clone(),
            requests: Arc::clone(&self.requests),
            exports: self.exports.clone(),
            event_streams: self.event_streams.clone(),
            admission: self.uploads.admission(),
            bench_turn: self.benches.turn(),
            hostname: self.hostname.clone(),
            stopping,
        };
        App::open_one(config, project, Some(shared)).await
    }

    async fn open_one(
        config: Config,
        project: ProjectName,
        shared: Option<Shared>,
    ) -> Result<Arc<App>, OpenError> {
        let mut notices = Vec::new();
        let lock = DataLock::take(&config.data, For::Serving)?;
        notices.extend(tighten(&config.data, Kind::Data));
        let store = Store::open(&config.data.join(DATABASE))?;
        if store.looked() == Looked::Part {
            look_on(store.clone())?;
        }
        let blobs = open_blobs(&config)?;
        if let Some(address) = &config.blobs {
            notices.extend(tighten(Path::new(address), Kind::Blobs));
        }
        let owner = owner_of(&config.data, &store);
        let ownership = blobs.claim(&owner, Claim::Own).await?;
        let shared = match shared {
            Some(shared) => shared,
            None => Shared::new(&config, &store).await?,
        };
        let locks = (lock, ownership);
        let app = App::assemble(config, project, store, blobs, locks, shared).await?;
        app.uploads.measure_disk().await?;
        notices.extend(far_ahead(&app).filter(|_| app.project.is_main()));
        if let Some(refusal) = app.store.refusal() {
            notices.push(format!("{refusal}. Nothing new is taken"));
        } else if let Err(error) = app.recover().await {
            match error.refuses_writes() {
                true => notices.push(format!(
                    "cannot clear up after the last run of the server: {error}. What is there is \
                     served; restart once there is room"
                )),
                false => return Err(error.into()),
            }
        }
        let app = Arc::new(App { notices, ..app });
        if app.store.refusal().is_none() {
            app.keep_house()?;
        }
        Ok(app)
    }

    async fn assemble(
        config: Config,
        project: ProjectName,
        store: Store,
        blobs: Blobs,
        locks: (DataLock, Ownership),
        shared: Shared,
    ) -> Result<App, OpenError> {
        let pictures = Pictures::new(store.clone(), &shared.budget, config.cache);
        let rules = own_rules(&config, &store).await;
        pictures.traces.call_blocks(rules);
        let events = broadcast::Sender::new(EVENTS_KEPT);
        let limits = UploadLimits {
            upload: config.upload_limit,
            keep_free: config.keep_free,
        };
        let uploads = Uploads::new(
            store.clone(),
            blobs,
            pictures.clone(),
            events.clone(),
            describe,
            limits,
            shared.admission,
        );
        let benches = Benches::new(
            store.clone(),
            uploads.clone(),
            events.clone(),
            config.bench.clone(),
            config.clients.bench_rows,
            config.data.join(BENCH),
            shared.bench_turn,
        );
        let clients = &config.clients;
        let provider = config.oidc.clone().map(Provider::new);
        let (projects, share) = match project.is_main() {
            true => (Projects::load(&store).await?, 1),
            false => (Projects::default(), OTHERS_SHARE),
        };
        Ok(App {
            project,
            projects,
            gate: shared.gate,
            oidc: provider.transpose().map_err(OpenError::Oidc)?,
            cards: Shelves::new("cards", clients.cards, CARD_BYTES / share),
            explanations: Shelves::new("explanations", clients.cards, EXPLANATION_BYTES / share),
            run_lists: RunLists::new(RUN_LIST_BYTES / share),
            sizes: Sizes::default(),
            exports: shared.exports,
            event_streams: shared.event_streams,
            requests: shared.requests,
            asking: shared.asking,
            budget: shared.budget.clone(),
            hostname: shared.hostname,
            tensors: Tensors::new(store.clone()),
            jobs: Jobs::new(store.clone(), Arc::clone(&pictures.traces)),
            live: Judgements::default(),
            config,
            store,
            uploads,
            benches,
            comparisons: Comparisons::new(Arc::clone(&pictures.traces), shared.budget.clone()),
            pictures,
            events,
            stopping: shared.stopping,
            notices: Vec::new(),
            _locks: locks,
        })
    }

    /// Whether the disks have the room that must stay free.
    ///
    /// # Errors
    /// [`IngestError::NoSpace`].
    pub fn check_free(&self) -> Result<(), IngestError> {
        let needed = self.config.keep_free.max(LEAST_FREE);
        match disk::free_bytes(&self.config.data).map(Bytes) {
            Some(free) if free < needed => Err(IngestError::NoSpace { free, needed }),
            // Stored files may be on another disk.
            _ => self.uploads.check_free(0, 0),
        }
    }

    async fn recover(&self) -> Result<(), IngestError> {
        self.uploads.recover().await?;
        Ok(self.benches.recover().await?)
    }

    fn keep_house(&self) -> Result<(), OpenError> {
        let housekeeping = self.uploads.clone().keep_house();
        if let Some(level) = self.config.repack_level {
            let stopping = self.stopping.clone();
            let started = self.uploads.repack_in_background(level, stopping);
            started.map_err(OpenError::Thread)?;
        }
        let stopping = &self.stopping;
        tokio::spawn(stopping.clone().run_until_cancelled_owned(housekeeping));
        tokio::spawn(self.benches.clone().work(stopping.clone()));
        Ok(())
    }
}

/// Says that the clock has once been far ahead of what it shows now.
fn far_ahead(app: &App) -> Option<String> {
    let ahead_ms = app.store.latest_ms() - now_ms();
    let days = ahead_ms / clock::FAR_MS;
    (days > 0).then(|| {
        format!(
            "this server has seen a time that is {} ahead of its clock, which stays the time at \
             which links, tokens and sessions end, also new ones. If the clock is right now, stop \
             the server and run `tidemark doctor --data {} --forget-time`",
            plural(days as u64, "day"),
            app.config.data.display()
        )
    })
}

/// How long a start leaves the disk and the processors to the first requests. After that, it looks
/// through what is stored.
pub const FIRST_REQUESTS: Duration = Duration::from_secs(1);

/// Searches a large database for damage after the first requests.
fn look_on(store: Store) -> Result<(), OpenError> {
    let look = move || {
        std::thread::sleep(FIRST_REQUESTS);
        if store.look_on() == Looked::Part {
            tracing::info!("the database is large: `tidemark doctor` looks at all of it");
        }
    };
    let named = std::thread::Builder::new().name("look for damage".to_owned());
    named.spawn(look).map_err(OpenError::Thread)?;
    Ok(())
}

/// The rules for the team's own categories.
async fn own_rules(config: &Config, store: &Store) -> Rules {
    if let Some((_, rules)) = &config.categories {
        return rules.clone();
    }
    let kept = store.read(|reader| reader.own_categories()).await;
    let parsed = kept.map(|text| Rules::parse(&text));
    match parsed {
        Ok(Ok(rules)) => rules,
        // The data is served without them, as recorded.
        Ok(Err(error)) => {
            tracing::warn!(%error, "the team's own categories cannot be used");
            Rules::default()
        }
        Err(error) => {
            tracing::warn!(%error, "the team's own categories cannot be read");
            Rules::default()
        }
    }
}

/// Refuses stored files without a database: an empty one beside them would look like all there is,
/// and a new project would take up what a removed one left.
async fn files_are_known(config: &Config) -> Result<(), OpenError> {
    let is_new = config.blobs.is_none() && !config.data.join(BLOBS).exists();
    if is_new || config.data.join(DATABASE).exists() {
        return Ok(());
    }
    let blobs = open_blobs(config)?;
    match blobs.list().await?.is_empty() {
        true => Ok(()),
        false => Err(OpenError::NoDatabase {
            folder: config.data.clone(),
            place: place_of_blobs(config),
        }),
    }
}

fn place_of_blobs(config: &Config) -> String {
    let default = || config.data.join(BLOBS).display().to_string();
    config.blobs.clone().unwrap_or_else(default)
}

/// The blob store of a server with this configuration.
///
/// # Errors
/// When that place cannot be used.
pub fn open_blobs(config: &Config) -> Result<Blobs, BlobError> {
    match &config.blobs {
        Some(address) => Blobs::open(address),
        None => Blobs::folder(&config.data.join(BLOBS)),
    }
}

/// The owner of the blobs of this data folder.
pub fn owner_of(data: &Path, store: &Store) -> Owner {
    let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    Owner {
        database: store.id().to_owned(),
        data: data.display().to_string(),
    }
}

/// Removes the rights of other users to a folder, and returns a notice about it.
fn tighten(folder: &Path, kind: Kind) -> Option<String> {
    let place = folder.display();
    match private::tighten(folder, kind) {
        Ok(0) => None,
        Ok(1) => Some(format!(
            "a file or folder in {place} could be read by other users; now it cannot"
        )),
        Ok(closed) => Some(format!(
            "{closed} files and folders in {place} could be read by other users; now they cannot"
        )),
        Err(error) if folder.is_dir() => Some(format!(
            "other users may be able to read {place}, and that cannot be changed: {error}"
        )),
        Err(_) => None,
    }
}
