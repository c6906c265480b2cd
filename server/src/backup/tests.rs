//! Files that are removed between the copy of the database and those of the files, and old
//! databases.

use super::*;
use crate::blobs::Staged;
use crate::system::data_folder::{REBUILDING, RESTORING};
use tempfile::TempDir;

/// A data folder with these files, each in the database.
struct Data {
    folder: TempDir,
    store: Store,
    blobs: Blobs,
}

impl Data {
    async fn with(files: &[&'static [u8]]) -> Data {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let store = Store::open(&data.join(DATABASE)).unwrap();
        let blobs = Blobs::folder(&data.join(BLOBS)).unwrap();
        let made = Data {
            folder,
            store,
            blobs,
        };
        for file in files {
            made.put(file).await;
        }
        made
    }

    fn config(&self) -> Config {
        Config::new(self.folder.path().join("data"))
    }

    fn backup(&self) -> PathBuf {
        self.folder.path().join("backup")
    }

    async fn put(&self, file: &'static [u8]) -> String {
        let (blobs, runtime) = (self.blobs.clone(), Handle::current());
        let staged = tokio::task::spawn_blocking(move || -> Staged {
            let id = format!("upl_{}", blake3::hash(file).to_hex());
            let mut incoming = blobs.begin(&runtime, &id.parse().unwrap()).unwrap();
            incoming.write(file).unwrap();
            incoming.finish().unwrap()
        });
        let staged = staged.await.unwrap();
        let (row, guard) = (staged.row.clone(), self.blobs.keep(&staged).await.unwrap());
        let insert = self.store.write(move |writer| writer.insert_blob(&row, 1));
        insert.await.unwrap();
        drop(guard);
        staged.row.hash
    }

    /// Runs a backup with something that happens after each copy of the database.
    async fn back_up(
        &self,
        between: impl FnMut(usize) + Send + 'static,
    ) -> Result<Report, BackupError> {
        let (config, to) = (self.config(), self.backup());
        let work = move || Backup::begin(&config, &to, Scope::Whole, Depth::New)?.run(between);
        tokio::task::spawn_blocking(work).await.unwrap()
    }

    async fn restored(&self) -> Result<Restored, BackupError> {
        let (from, data) = (self.backup(), self.folder.path().join("restored"));
        let work = move || restore(&from, &Config::new(data), AtDamage::Refuse);
        tokio::task::spawn_blocking(work).await.unwrap()
    }
}

fn hash(file: &[u8]) -> String {
    blake3::hash(file).to_hex().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_purged_after_the_database_was_copied_is_in_neither() {
    let data = Data::with(&[b"stays", b"goes"]).await;
    let (store, blobs) = (data.store.clone(), data.blobs.clone());
    let report = data.back_up(move |round| {
        if round == 0 {
            let gone = store
                .write_now(|writer| writer.forget_unused_blobs(1))
                .unwrap();
            // Nobody uses either here; one of them comes back at once.
            assert_eq!(gone.len(), 2);
            let row = blobs.identify(&Handle::current(), &hash(b"stays")).unwrap();
            store
                .write_now(|writer| writer.insert_blob(&row, 2))
                .unwrap();
            Handle::current()
                .block_on(blobs.remove(&hash(b"goes")))
                .unwrap();
        }
    });
    let report = report.await.unwrap();
    assert_eq!((report.files, report.lacking.len()), (1, 0));
    let restored = data.restored().await.unwrap();
    assert_eq!((restored.files, restored.lacking.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_comes_after_the_database_was_copied_waits_for_the_next_backup() {
    let data = Data::with(&[b"first"]).await;
    let (store, blobs) = (data.store.clone(), data.blobs.clone());
    let late = Data {
        folder: tempfile::tempdir().unwrap(),
        store,
        blobs,
    };
    let report = data.back_up(move |_| drop(Handle::current().block_on(late.put(b"late"))));
    assert_eq!(report.await.unwrap().files, 1);
    let next = data.back_up(|_| {}).await.unwrap();
    assert_eq!((next.files, next.copied.0), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_lost_is_said_and_the_rest_is_backed_up() {
    let data = Data::with(&[b"whole", b"lost", b"damaged"]).await;
    data.blobs.remove(&hash(b"lost")).await.unwrap();
    let name = hash(b"damaged");
    let path = data.config().data.join(BLOBS).join(&name[..2]).join(&name);
    std::fs::write(path, b"other bytes").unwrap();
    let report = data.back_up(|_| {}).await.unwrap();
    let said = report.lacking.join("\n");
    assert_eq!(report.lacking.len(), 2, "{said}");
    assert!(
        said.contains(&hash(b"lost")) && said.contains(&name),
        "{said}"
    );
    let restored = data.restored().await.unwrap();
    assert_eq!((restored.files, restored.lacking.len()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_backup_has_outlives_damage_of_the_original() {
    let data = Data::with(&[b"the only copy that is whole"]).await;
    data.back_up(|_| {}).await.unwrap();
    data.blobs
        .remove(&hash(b"the only copy that is whole"))
        .await
        .unwrap();
    let again = data.back_up(|_| {}).await.unwrap();
    assert_eq!((again.copied.0, again.lacking.len()), (0, 0));
    assert_eq!(data.restored().await.unwrap().files, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_of_one_database_and_of_nothing_else() {
    let (one, other) = (Data::with(&[b"a"]).await, Data::with(&[b"b"]).await);
    one.back_up(|_| {}).await.unwrap();
    let (config, to) = (other.config(), one.backup());
    let into = |config: Config, to: PathBuf| {
        tokio::task::spawn_blocking(move || back_up(&config, &to, Scope::Whole, Depth::New))
    };
    let refused = into(config.clone(), to).await.unwrap();
    assert!(matches!(refused, Err(BackupError::OfAnother(_))));
    assert_eq!(one.restored().await.unwrap().files, 1);
    let notes = other.folder.path().join("notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("database-of-friends.db"), "x").unwrap();
    let refused = into(config, notes.clone()).await.unwrap();
    assert!(matches!(refused, Err(BackupError::NotABackup(_))));
    assert_eq!(std::fs::read_dir(notes).unwrap().count(), 1);
    // The file store of a server with a configured place.
    let owned = other.folder.path().join("owned");
    std::fs::create_dir_all(owned.join(BLOBS)).unwrap();
    std::fs::write(owned.join(BLOBS).join("owner"), "{}").unwrap();
    let refused = into(other.config(), owned).await.unwrap();
    assert!(matches!(refused, Err(BackupError::NotABackup(_))));
}

/// As when a backup was killed in the first one of a project.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_whose_backup_did_not_end_is_named_and_the_rest_restored() {
    let (main, speech) = (Data::with(&[b"a"]).await, Data::with(&[b"b"]).await);
    for project in ["speech", "vision"] {
        let folder = main.config().data.join(PROJECTS).join(project);
        std::fs::create_dir_all(folder.join(BLOBS)).unwrap();
    }
    main.back_up(|_| {}).await.unwrap();
    let projects = main.backup().join(PROJECTS);
    let (config, to) = (speech.config(), projects.join("speech"));
    let whole = move || back_up(&config, &to, Scope::Whole, Depth::New);
    tokio::task::spawn_blocking(whole).await.unwrap().unwrap();
    let vision = projects.join("vision");
    std::fs::create_dir_all(vision.join(BLOBS)).unwrap();
    std::fs::write(vision.join("database-1.db"), "half of it").unwrap();

    let restored = main.restored().await.unwrap();
    assert_eq!(restored.files, 1);
    let others: Vec<&str> = restored
        .projects
        .iter()
        .map(|(it, _)| it.as_str())
        .collect();
    assert_eq!(others, ["speech"]);
    let [lack] = restored.lacking.as_slice() else {
        panic!("{:?}", restored.lacking);
    };
    assert!(
        lack.starts_with("the project vision: there is no backup in"),
        "{lack}"
    );
    assert!(!main.folder.path().join("restored/restoring").exists());
}

/// Whoever loses the folder would lose both.
/// Whoever sends a backup must not learn or spread what lies beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_names_no_file_outside_of_itself() {
    let data = Data::with(&[b"one"]).await;
    let report = data.back_up(|_| {}).await.unwrap();
    let file = report.database.file_name().unwrap().to_str().unwrap();
    let path = data.backup().join(MANIFEST);
    let whole = std::fs::read_to_string(&path).unwrap();
    let outside = data.config().data.join(DATABASE);
    let outside = outside.display().to_string();
    for name in [&outside, "../data/tidemark.db", "..", "", "blobs/x", "./x"] {
        std::fs::write(&path, whole.replace(file, name)).unwrap();
        let refused = data.restored().await.unwrap_err();
        assert!(matches!(&refused, BackupError::Elsewhere { name: told, .. } if told == name));
        assert!(refused.to_string().contains(&format!("{name:?}")));
        assert!(data.back_up(|_| {}).await.is_err(), "{name}");
        assert!(!data.folder.path().join("restored").exists(), "{name}");
    }
    std::fs::write(&path, whole).unwrap();
    assert_eq!(data.restored().await.unwrap().files, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_never_inside_of_what_it_is_a_copy_of() {
    let data = Data::with(&[b"a"]).await;
    let (config, backup) = (data.config(), data.backup());
    let link = data.folder.path().join("link");
    std::os::unix::fs::symlink(&config.data, &link).unwrap();
    let done = tokio::task::spawn_blocking(move || {
        for inside in [
            config.data.join("a/b"),
            link.join("backup"),
            link.join("../data/b"),
        ] {
            let refused = back_up(&config, &inside, Scope::Whole, Depth::New);
            assert!(
                matches!(refused, Err(BackupError::Inside { .. })),
                "{refused:?}"
            );
        }
        back_up(&config, &backup, Scope::Whole, Depth::New).unwrap();
        let inside = Config::new(backup.join("data"));
        let refused = restore(&backup, &inside, AtDamage::Refuse);
        assert!(
            matches!(refused, Err(BackupError::Inside { .. })),
            "{refused:?}"
        );
        let beside = Config::new(backup.with_file_name("backup2"));
        restore(&backup, &beside, AtDamage::Refuse).unwrap();
    });
    done.await.unwrap();
}

/// What is half made has no people, or not all runs: as a backup it would look whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_half_made_is_not_backed_up() {
    let data = Data::with(&[b"one"]).await;
    let (config, to) = (data.config(), data.backup());
    let back_up = async || {
        let (config, to) = (config.clone(), to.clone());
        let work = move || back_up(&config, &to, Scope::Whole, Depth::New);
        tokio::task::spawn_blocking(work).await.unwrap()
    };
    let project = config.data.join(PROJECTS).join("vision");
    std::fs::create_dir_all(&project).unwrap();
    let check = async |mark: PathBuf, expected: &str| {
        std::fs::write(&mark, "").unwrap();
        let refused = back_up().await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        assert!(!to.exists(), "nothing is begun");
        std::fs::remove_file(mark).unwrap();
    };
    check(
        config.data.join(REBUILDING),
        "`tidemark doctor --rebuild` continues",
    )
    .await;
    check(
        config.data.join(RESTORING),
        "run the same `tidemark restore` again",
    )
    .await;
    check(
        project.join(REBUILDING),
        "projects/vision was not made again",
    )
    .await;
    back_up().await.unwrap();
}

#[test]
fn a_full_disk_of_the_copy_is_not_called_the_server_s() {
    let error = BackupError::Database {
        to: "backup".into(),
        source: crate::store::StoreError::Full,
    };
    let said = "cannot copy the database to backup: the disk that the backup is on is full";
    assert_eq!(error.to_string(), said);
}
