//! The description of a backup: `backup.json`, written last and in one step. A folder without it
//! has no complete backup. When a backup is made again, the old description stays until the new one
//! is complete.

use super::BackupError;
use api::projects::ProjectName;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Component, Path};

/// The manifest's file.
pub const MANIFEST: &str = "backup.json";

/// The manifest while it is being written.
pub const PART: &str = "backup.json.part";

/// Rises with each change of the layout that an older program cannot read.
const FORMAT: u32 = 1;

/// The manifest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// The program that wrote it.
    pub tidemark: String,
    /// When, in milliseconds since the epoch.
    pub made_ms: i64,
    /// The copy of the database.
    pub database: DatabaseFile,
    /// Where the stored files are.
    pub files: Files,
    /// Hashes of stored files that could not be copied, because they were missing or damaged.
    pub lacking: Vec<String>,
    /// The other projects that belong to it. `None`: all that lie beside it, because an older
    /// program wrote it.
    #[serde(default)]
    pub projects: Option<Vec<ProjectName>>,
}

/// The copy of the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DatabaseFile {
    /// Its name in the backup.
    pub file: String,
    /// The database's id; empty for a database from before ids existed.
    pub id: String,
    /// BLAKE3 of its bytes, hexadecimal.
    pub blake3: String,
}

/// Where the stored files are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// In the backup.
    Here,
    /// Still in their place: only the database was backed up.
    LeftAt(String),
}

impl Manifest {
    /// The manifest of a backup made now, which holds no other projects.
    pub fn new(made_ms: i64, database: DatabaseFile, files: Files, lacking: Vec<String>) -> Self {
        Manifest {
            format: FORMAT,
            tidemark: env!("CARGO_PKG_VERSION").to_owned(),
            made_ms,
            database,
            files,
            lacking,
            projects: Some(Vec::new()),
        }
    }

    /// The manifest of the backup in a folder, if there is one.
    ///
    /// # Errors
    /// When it cannot be read, a newer program wrote it, or it names files elsewhere.
    pub fn read(folder: &Path) -> Result<Option<Manifest>, BackupError> {
        let path = folder.join(MANIFEST);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(BackupError::Read { path, source }),
        };
        /// The part that every format has.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        match serde_json::from_slice::<Head>(&text) {
            Ok(Head { format }) if format > FORMAT => Err(BackupError::TooNew { path }),
            _ => match serde_json::from_slice::<Manifest>(&text) {
                Ok(manifest) if !is_plain(&manifest.database.file) => {
                    let name = manifest.database.file;
                    Err(BackupError::Elsewhere { path, name })
                }
                Ok(manifest) => Ok(Some(manifest)),
                Err(error) => Err(BackupError::Manifest {
                    path,
                    why: error.to_string(),
                }),
            },
        }
    }

    /// Writes it to the folder, safely on disk.
    ///
    /// # Errors
    /// When it cannot be written; then the old one is still there.
    pub fn write(&self, folder: &Path) -> Result<(), BackupError> {
        let (path, part) = (folder.join(MANIFEST), folder.join(PART));
        let text = serde_json::to_vec_pretty(self).expect("a manifest is plain data");
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&part, &path)?;
            File::open(folder)?.sync_all()
        });
        written.map_err(|source| BackupError::Write { path, source })
    }
}

/// Whether a name is that of a file directly in a folder: no path, and not the folder above it.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let first = parts.next();
    let is_whole = first == Some(Component::Normal(name.as_ref())) && parts.next().is_none();
    is_whole && !name.contains(['/', '\\', ':'])
}

/// BLAKE3 of a file, hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub fn hash_of(path: &Path) -> Result<String, BackupError> {
    let hash = || {
        let (mut file, mut hasher) = (File::open(path)?, blake3::Hasher::new());
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(hasher.finalize().to_hex().to_string()),
                n => hasher.update(&piece[..n]),
            };
        }
    };
    hash().map_err(|source| BackupError::Read {
        path: path.to_owned(),
        source,
    })
}
