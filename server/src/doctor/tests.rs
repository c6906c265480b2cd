//! A rebuild that is interrupted, and continued.

use super::*;
use crate::app::App;
use crate::ingest::Sender;
use crate::samples;
use crate::store::{
    AliveTensor, BenchEnd, NewBench, NewBenchRow, RankOfJob, Reader, Slice, WhichEntries,
};
use crate::system::data_folder::BLOBS;
use crate::system::data_lock::Unusable;
use api::bench::{Bench, BenchResult, BenchStatus, BenchStep, DeviceKind};
use api::compare::RecordedComparison;
use api::ids::{BenchRowId, LiveId, RunId};
use api::labels::Labels;
use api::live::{LiveRun, LiveStep, NewLive};
use api::people::{AuditEntry, NewPerson, Role};
use api::runs::RunSource;
use api::timeline::TensorDetail;
use tempfile::TempDir;
use trace::ranks::Rank;
use trace::units::{Bytes, DeviceAddr};

const NAME: &str = "a name that a person gave";

/// A data folder whose database is damaged, and a run whose name can still be read.
async fn damaged(folder: &TempDir) -> (Config, RunId) {
    let config = Config::new(folder.path().join("data"));
    let app = App::open(config.clone()).await.unwrap();
    let new = NewPerson {
        name: "ada".to_owned(),
        role: Role::Admin,
    };
    app.gate.people.add(&new, 1).await.unwrap();
    let mut runs = Vec::new();
    for sample in ["streams", "plain_lm"] {
        let sample = samples::find(sample).unwrap();
        let arrived = sample.open(&app.uploads, Sender::Server).await.unwrap();
        runs.push(arrived.run);
    }
    let (kept, lost) = (runs[0].clone(), runs[1].clone());
    let (run, other) = (kept.clone(), lost.clone());
    let changed = app.store.write(move |writer| {
        writer.rename_run(&run, NAME)?;
        writer.record_comparison(&recorded(&run), false)?;
        let table = TensorTable::default().pack().unwrap();
        writer.set_tensors(&other, tensors::VERSION, &table, &[])?;
        put_jobs(writer, &run)?;
        measure(writer, &run)
    });
    changed.await.unwrap();
    drop(app);
    // In another folder, because work of the application may still use the database.
    let data = folder.path().join("damaged");
    std::fs::create_dir(&data).unwrap();
    std::fs::rename(config.data.join(BLOBS), data.join(BLOBS)).unwrap();
    let copy = folder.path().join("copy.db");
    Store::copy(&config.data.join(DATABASE), &copy).unwrap();
    // Everywhere, so that only the value is damaged.
    let mut bytes = std::fs::read(copy).unwrap();
    let lost = lost.as_str().as_bytes();
    for at in 0..bytes.len() - lost.len() {
        if bytes[at..].starts_with(lost) {
            bytes[at] = b'?';
        }
    }
    std::fs::write(data.join(DATABASE), bytes).unwrap();
    (Config::new(data), kept)
}

fn row() -> BenchRowId {
    "row_a".parse().unwrap()
}

fn live() -> LiveId {
    "live_a".parse().unwrap()
}

/// Puts a job into a database that is deleted, and a later one of the same recording.
fn put_jobs(writer: &mut Writer, run: &RunId) -> StoreResult<()> {
    for (name, created_ms) in [("gone", 1), ("there", 2)] {
        let job: JobId = format!("job_{name}").parse().unwrap();
        writer.insert_job(&job, name, None, created_ms)?;
        let rank = Rank(0);
        writer.join_job(&RankOfJob { job, rank }, run)?;
        if name == "gone" {
            writer.delete_job(&"job_gone".parse().unwrap(), now_ms())?;
        }
    }
    Ok(())
}

/// Puts into a database what no stored file tells: a bench whose recording is this run, its
/// tensors, a live training, and an entry of the audit.
fn measure(writer: &mut Writer, run: &RunId) -> StoreResult<()> {
    writer.insert_bench(&NewBench {
        id: "ben_a".parse().unwrap(),
        created_ms: 1,
        device: DeviceKind::Sim,
        steps: None,
        capacity: None,
        recorded_steps: 3,
        rows: vec![NewBenchRow {
            id: row(),
            config: "te-fused-attention-fp8".to_owned(),
            patches: Vec::new(),
            steps: 4,
        }],
    })?;
    writer.claim_bench_row(2)?;
    let result = BenchResult {
        device: "sim".to_owned(),
        steps_run: 4,
        growth_per_step: 1e3,
        ..BenchResult::default()
    };
    let end = BenchEnd::Done {
        status: BenchStatus::Baseline,
        result: Box::new(result),
        base: "v1".to_owned(),
        run: Some(run.clone()),
        note: None,
    };
    let steps = [0, 1, 2, 3].map(|step| BenchStep {
        step,
        allocated: Bytes(1 << 20),
        peak_allocated: Bytes(1 << 21),
        reserved: Bytes(1 << 22),
        tracker: 1,
        bwd_stash: 2,
        host_pinned: Bytes(3),
        seconds: 0.5,
    });
    writer.finish_bench_row(&row(), &end, &steps, 3)?;
    let table = TensorTable::default().pack().unwrap();
    writer.set_tensors(run, tensors::VERSION, &table, &[tensor(0), tensor(1)])?;
    let training = NewLive {
        name: "llama".to_owned(),
        rank: Some(1),
        ranks: Some(2),
        job: Some("a job".to_owned()),
        device: 0,
        limit: None,
        labels: Labels::default(),
    };
    writer.begin_live(&live(), &training, 4)?;
    let reports = [1, 2].map(|step| LiveStep {
        step,
        at_ms: 5,
        allocated: Bytes(7),
        ..LiveStep::default()
    });
    writer.add_live_steps(&live(), &reports, 6)?;
    writer.note(&AuditEntry {
        id: 0,
        at_ms: 7,
        who: "ada".to_owned(),
        address: "127.0.0.1".to_owned(),
        action: "share".to_owned(),
        subject: "shr_a".to_owned(),
        project: None,
    })
}

fn tensor(position: u32) -> AliveTensor {
    AliveTensor {
        position,
        event: Some(position),
        address: DeviceAddr(512),
        bytes: Bytes(64),
        detail: TensorDetail {
            name: "w".to_owned(),
            op: String::new(),
            module: "layers.0".to_owned(),
            shape: vec![4, 4],
            dtype: Some("float32".to_owned()),
            role: "parameter".to_owned(),
            made_step: None,
            owner: Some("module".to_owned()),
        },
    }
}

/// What [`measure`] has put into a database.
#[derive(Debug, PartialEq)]
struct Measured {
    bench: Bench,
    steps: Vec<BenchStep>,
    alive: Vec<AliveTensor>,
    table: Option<Vec<u8>>,
    live: LiveRun,
    reports: Vec<LiveStep>,
    audit: Vec<AuditEntry>,
}

impl Measured {
    fn of(reader: &Reader, run: &RunId) -> StoreResult<Measured> {
        Ok(Measured {
            bench: reader.bench(&"ben_a".parse().unwrap())?,
            steps: reader.bench_steps(&row())?,
            alive: reader.alive_tensors(run)?,
            table: reader.tensor_columns(run, tensors::VERSION)?,
            live: reader.live(&live())?,
            reports: reader.live_steps(&live(), 100)?,
            audit: reader.audit(&WhichEntries::default(), Slice::ALL)?,
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_stored_file_tells_is_carried_over() {
    let folder = tempfile::tempdir().unwrap();
    let (config, run) = damaged(&folder).await;
    // The database before it was damaged.
    let before = Store::open(&folder.path().join("data").join(DATABASE)).unwrap();
    let before = before.read_now(|reader| Measured::of(reader, &run));
    let before = before.unwrap();
    assert_eq!(before.bench.rows[0].run.as_ref(), Some(&run));
    assert_eq!((before.steps.len(), before.alive.len()), (4, 2));
    assert_eq!((before.reports.len(), before.audit.len()), (2, 1));
    assert!(before.table.is_some());

    let mark = config.data.join(REBUILDING);
    let (repair, salvaged, aside) = Repair::rebuild(&config).await.unwrap();
    adopt_all(&repair).await;
    let mut kept = repair.remember(salvaged).await.unwrap();
    for _ in 0..2 {
        let of_table = |(name, n, lost): (&str, u64, u64)| {
            let found = kept.read.iter().chain(&kept.carried);
            let found = found.filter(|table| table.table == name);
            let found: Vec<_> = found
                .map(|one| (one.kept, one.left_out, one.breaks))
                .collect();
            assert_eq!(found, [(n, lost, 0)], "{name}");
        };
        let tables = [
            // The name of the other run is lost, and so are its tensors.
            ("runs", 1, 1),
            ("tensor_columns", 1, 1),
            ("tensors", 2, 0),
            ("benches", 1, 0),
            ("bench_rows", 1, 0),
            ("bench_steps", 4, 0),
            ("live", 1, 0),
            ("live_steps", 2, 0),
            ("audit", 1, 0),
        ];
        tables.into_iter().for_each(of_table);
        // Once more, as if the power had failed before the mark was removed.
        let name = aside.file_name().unwrap().to_str().unwrap();
        std::fs::write(&mark, name).unwrap();
        kept = repair.remember(Salvaged::of(&aside)).await.unwrap();
        assert!(!mark.exists());
    }
    drop(repair);
    let app = App::open(config).await.unwrap();
    let after = app.store.read(move |reader| Measured::of(reader, &run));
    assert_eq!(after.await.unwrap(), before);
}

/// It came back, and the other one was taken for the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_deleted_stays_so_until_somebody_restores_it() {
    let folder = tempfile::tempdir().unwrap();
    let (config, run) = damaged(&folder).await;
    let (repair, salvaged, _) = Repair::rebuild(&config).await.unwrap();
    adopt_all(&repair).await;
    repair.remember(salvaged).await.unwrap();
    let listed = async || {
        let jobs = repair.store.read(|reader| reader.jobs(Slice::ALL)).await;
        let jobs = jobs.unwrap().into_iter();
        jobs.map(|job| job.name).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, ["there"]);
    let restore = repair
        .store
        .write(move |writer| writer.restore_jobs_of(&run));
    restore.await.unwrap();
    assert_eq!(listed().await, ["there", "gone"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_has_not_come_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::new(folder.path().to_owned());
    let database = folder.path().join(DATABASE);
    let later = now_ms() + 3_600_000;
    let store = Store::open(&database).unwrap();
    store.write_now(|writer| writer.saw_time(later)).unwrap();
    drop(store);
    assert!(Store::open(&database).unwrap().latest_ms() >= later);
    assert_eq!(forget_time(&config).await.unwrap(), 0);
    assert!(Store::open(&database).unwrap().latest_ms() < later);
}

/// A comparison of this run with one that was deleted.
fn recorded(run: &RunId) -> RecordedComparison {
    RecordedComparison {
        id: "cmp_a".parse().unwrap(),
        name: "a comparison".to_owned(),
        runs: vec![run.clone(), "run_gone".parse().unwrap()],
        pr: Some("https://github.com/me/repo/pull/7".to_owned()),
        created_ms: 5,
    }
}

async fn adopt_all(repair: &Repair) -> usize {
    let unused = repair.unused().await.unwrap();
    for blob in &unused {
        repair.adopt(blob).await.unwrap();
    }
    unused.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_was_interrupted_continues_and_loses_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (config, run) = damaged(&folder).await;
    let (repair, _, aside) = Repair::rebuild(&config).await.unwrap();
    assert_eq!(adopt_all(&repair).await, 2);
    // As if it were killed here: the new database is whole, and knows nobody.
    drop(repair);

    let refused = App::open(config.clone()).await.map(drop).unwrap_err();
    assert!(
        matches!(refused, OpenError::Folder(Unusable::HalfRebuilt(_))),
        "{refused}"
    );
    let refused = Repair::begin(&config).await.map(drop).unwrap_err();
    assert!(
        matches!(refused, OpenError::Folder(Unusable::HalfRebuilt(_))),
        "{refused}"
    );
    assert!(examine(&config).await.unwrap().is_bad());

    let mark = config.data.join(REBUILDING);
    let marked = std::fs::read(&mark).unwrap();
    for _ in 0..2 {
        let (repair, salvaged, again) = Repair::rebuild(&config).await.unwrap();
        assert_eq!((adopt_all(&repair).await, &again), (0, &aside));
        repair.remember(salvaged).await.unwrap();
        assert!(!mark.exists());
        // Once more, as if the power had failed before the mark was removed.
        drop(repair);
        std::fs::write(&mark, &marked).unwrap();
    }
    std::fs::remove_file(&mark).unwrap();

    let app = App::open(config.clone()).await.unwrap();
    let read = app
        .store
        .read(|reader| Ok((reader.people()?, reader.tokens()?)));
    let (people, tokens) = read.await.unwrap();
    let names: Vec<&str> = people.iter().map(|person| person.name.as_str()).collect();
    assert_eq!((names, tokens.len()), (vec!["ada"], 1));
    let kept = run.clone();
    let kept = app.store.read(move |reader| reader.run(&kept)).await;
    let kept = kept.unwrap();
    assert_eq!((kept.name.as_str(), kept.source), (NAME, RunSource::Sample));
    let comparisons = app
        .store
        .read(|reader| reader.comparisons(None, Slice::ALL));
    assert_eq!(comparisons.await.unwrap(), [recorded(&run)]);
    drop(app);
    let refused = Repair::rebuild(&config).await.map(drop).unwrap_err();
    assert!(matches!(refused, RebuildError::Whole(_)), "{refused}");
}

/// What a damaged database knows cannot be said, so no file is called unknown.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_damaged_database_are_read_and_not_offered() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = damaged(&folder).await;
    let report = examine(&config).await.unwrap();
    assert!(!report.damage.is_empty());
    assert_eq!((report.checked, report.unused.len()), (2, 0));
}

/// Between the mark and the new database.
#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_continues_wherever_it_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = damaged(&folder).await;
    let (mark, database) = (config.data.join(REBUILDING), config.data.join(DATABASE));
    // The mark is there, and nothing was moved.
    std::fs::write(&mark, format!("{DATABASE}.damaged-1")).unwrap();
    let (repair, _, aside) = Repair::rebuild(&config).await.unwrap();
    drop(repair);
    // The database was moved, its log was not.
    for part in ["-wal", "-shm", ""] {
        remove_if_there(&beside(&database, part)).unwrap();
    }
    std::fs::write(beside(&database, "-wal"), "of the damaged one").unwrap();
    let (repair, ..) = Repair::rebuild(&config).await.unwrap();
    let log = std::fs::read(beside(&aside, "-wal")).unwrap();
    assert_eq!(log, b"of the damaged one");
    drop(repair);
    // The new one is damaged, too.
    std::fs::write(
        &database,
        "rubbish, and more than a header of it".repeat(300),
    )
    .unwrap();
    let (repair, salvaged, again) = Repair::rebuild(&config).await.unwrap();
    assert_eq!(again, aside);
    assert_eq!(salvaged.people.len(), 1);
    adopt_all(&repair).await;
    repair.remember(salvaged).await.unwrap();
    drop(repair);
    App::open(config).await.unwrap();
}
