//! Everything a request needs: opened once, shared by all.

use crate::access::Gate;
use crate::bench::Benches;
use crate::blobs::{BlobError, Blobs};
use crate::comparisons::Comparisons;
use crate::config::{Config, ExposedWithoutToken};
use crate::http::error::describe;
use crate::ingest::{IngestError, UploadLimits, Uploads};
use crate::pictures::Pictures;
use crate::store::{Store, StoreError};
use crate::tensors::Tensors;
use api::progress::ServerEvent;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Events that a slow listener may fall behind before it is told to look for itself.
const EVENTS_KEPT: usize = 256;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It would be exposed.
    #[error(transparent)]
    Exposed(#[from] ExposedWithoutToken),
    /// The data folder cannot be used.
    #[error("cannot use the data folder {folder}: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another server uses it.
    #[error("the data folder {0} is in use by another tidemark; stop it or name another --data")]
    InUse(PathBuf),
    /// The database cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The blob store cannot be opened.
    #[error(transparent)]
    Blobs(#[from] BlobError),
    /// No thread can be had.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// Clearing up failed.
    #[error("cannot clear up after the last run of the server: {0}")]
    Recover(#[from] IngestError),
}

/// Everything a request needs.
pub struct App {
    /// What the server was told.
    pub config: Config,
    /// The database.
    pub store: Store,
    /// The upload service.
    pub uploads: Uploads,
    /// The bench service.
    pub benches: Benches,
    /// Tiles.
    pub pictures: Pictures,
    /// What the engine knows of tensors.
    pub tensors: Tensors,
    /// Runs against one another.
    pub comparisons: Comparisons,
    /// What open pages listen to.
    pub events: broadcast::Sender<ServerEvent>,
    /// Who may read.
    pub gate: Gate,
    /// Fires when the server is asked to stop.
    pub stopping: CancellationToken,
    /// Held while the server runs; the system lets go of it even after `kill -9`.
    _lock: File,
}

impl App {
    /// Opens the data folder, clears up after a server that died, and starts housekeeping.
    ///
    /// # Errors
    /// Why the server cannot start.
    pub async fn open(config: Config) -> Result<Arc<App>, OpenError> {
        config.check()?;
        let lock = lock(&config.data)?;
        let store = Store::open(&config.data.join("tidemark.db"))?;
        let blobs = match &config.blobs {
            Some(address) => Blobs::open(address)?,
            None => Blobs::folder(&config.data.join("blobs"))?,
        };
        let cache = usize::try_from(config.cache.get()).unwrap_or(usize::MAX);
        let pictures = Pictures::new(store.clone(), cache);
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
        );
        uploads.recover().await?;
        let benches = Benches::new(
            store.clone(),
            uploads.clone(),
            events.clone(),
            config.bench.clone(),
            config.data.join("bench"),
        );
        benches.recover().await?;
        let app = App {
            gate: Gate::new(config.token.as_ref()),
            tensors: Tensors::new(store.clone()),
            config,
            store,
            uploads,
            benches,
            comparisons: Comparisons::new(Arc::clone(&pictures.traces)),
            pictures,
            events,
            stopping: CancellationToken::new(),
            _lock: lock,
        };
        let app = Arc::new(app);
        let housekeeping = app.uploads.clone().keep_house();
        if let Some(level) = app.config.repack_level {
            let stopping = app.stopping.clone();
            let started = app.uploads.repack_in_background(level, stopping);
            started.map_err(OpenError::Thread)?;
        }
        tokio::spawn(app.stopping.clone().run_until_cancelled_owned(housekeeping));
        tokio::spawn(app.benches.clone().work(app.stopping.clone()));
        Ok(app)
    }
}

fn lock(folder: &Path) -> Result<File, OpenError> {
    let failed = |source| OpenError::Folder {
        folder: folder.to_owned(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = File::create(folder.join("lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}
