//! Jobs: from the upload to the answer, and what is left after deleting.

mod restored;

use super::{Answer, Server, packed_snapshot};
use api::history::History;
use api::ids::JobId;
use api::jobs::{JobDetail, JobSummary, RankCurve};
use api::problem::ProblemCode;
use api::routes;
use api::runs::{AnnouncedUpload, FinishedUpload, RunSummary};
use axum::http::{Method, StatusCode};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use trace::leaks::Verdict;
use trace::ranks::Rank;
use trace::ranks::odd::OddKind;
use trace::ranks::sites::SiteAcross;
use trace::units::Bytes;

const DDP: [&[u8]; 2] = [
    include_bytes!("../../../../tests/fixtures/ddp_rank0.pickle.zst"),
    include_bytes!("../../../../tests/fixtures/ddp_rank1.pickle.zst"),
];

/// A rank that holds this many MiB in `load`, and for a while one more in `forward`.
pub(super) fn recorded(rank: u32, mib: u32) -> Vec<u8> {
    let event = |n: u32, action: &str, at: u64, size: u64, name: &str| -> Value {
        let frames = json!([{ "name": name, "filename": "/srv/train.py", "line": 7 }]);
        let time = 1_000_000 + u64::from(rank) * 1000 + u64::from(n);
        json!({ "action": action, "addr": at, "size": size, "stream": 0, "time_us": time,
            "frames": frames })
    };
    let (held, more) = (u64::from(mib) << 20, 1 << 20);
    let base = 0x7f00_0000_0000_u64;
    let mut events = vec![
        event(0, "segment_alloc", base, held, "load"),
        event(1, "alloc", base, held, "load"),
        event(2, "segment_alloc", base + held, more, "forward"),
    ];
    for n in 0..4 {
        events.push(event(3 + 3 * n, "alloc", base + held, more, "forward"));
        events.push(event(
            4 + 3 * n,
            "free_requested",
            base + held,
            more,
            "forward",
        ));
        events.push(event(
            5 + 3 * n,
            "free_completed",
            base + held,
            more,
            "forward",
        ));
    }
    json!({ "segments": [], "device_traces": [events] })
        .to_string()
        .into_bytes()
}

pub(super) async fn job(server: &Server, name: &str) -> JobSummary {
    let body = json!({ "name": name }).to_string();
    let answer = server.json(Method::POST, routes::JOBS, &body).await;
    answer.expect(StatusCode::CREATED).read()
}

pub(super) async fn send(
    server: &Server,
    job: &JobSummary,
    rank: u32,
    file: Vec<u8>,
) -> RunSummary {
    let route = routes::upload_into("snapshot.pickle", &job.id, Rank(rank));
    let answer = server.put(&route, file).await;
    answer
        .expect(StatusCode::CREATED)
        .read::<FinishedUpload>()
        .run
}

/// The job, once all of its ranks are analysed.
async fn looked_at(server: &Server, job: &JobSummary) -> JobDetail {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let detail: JobDetail = server.get(&routes::job(&job.id)).await.read();
        if detail.waiting == 0 {
            return detail;
        }
        assert!(
            Instant::now() < until,
            "{} are still waited for",
            detail.waiting
        );
    }
}

/// However many runs a job has, it is one of a history, and the same one.
#[tokio::test(flavor = "multi_thread")]
async fn the_rank_with_the_highest_peak_stands_for_its_job_in_a_history() {
    let server = Server::start().await;
    let jobs = [job(&server, "a").await, job(&server, "b").await];
    let mut runs = Vec::new();
    // The highest rank of the first job is its oldest run; in the second, two are equally high.
    for (of, rank, mib) in [(0, 1, 9), (0, 0, 4), (1, 2, 8), (1, 0, 8), (1, 1, 6)] {
        let file = recorded(10 * of + rank, mib);
        runs.push(send(&server, &jobs[of as usize], rank, file).await.id);
    }
    let alone = server
        .put(&routes::upload_named("alone.json"), recorded(30, 2))
        .await;
    let alone = alone.read::<FinishedUpload>().run.id;
    let shown = async |most: usize| {
        let read = server
            .app
            .store
            .read(move |reader| reader.history(&[], None, most));
        let rows = read.await.unwrap().runs.into_iter();
        rows.map(|row| row.id).collect::<Vec<_>>()
    };
    let (first, second) = (runs[0].clone(), runs[3].clone());
    assert_eq!(shown(9).await, [alone.clone(), second.clone(), first]);
    assert_eq!(shown(2).await, [alone.clone(), second]);
    assert_eq!(shown(1).await, [alone]);
    let history: History = server.get(&routes::history(&[])).await.read();
    assert_eq!((history.runs.len(), history.project), (3, None));
    // A later job that has the same recording changes nothing of the first.
    let later = job(&server, "later").await;
    send(&server, &later, 1, recorded(40, 3)).await;
    send_again(&server, &later, 0, recorded(1, 9)).await;
    let now = shown(9).await;
    assert!(now.contains(&runs[0]) && !now.contains(&runs[1]), "{now:?}");
    let read: RunSummary = server.get(&routes::run(&runs[0])).await.read();
    let place = read.job.unwrap();
    assert_eq!(
        (place.job, place.older),
        (later.id, vec![jobs[0].id.clone()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_real_ranks_one_leaks_and_is_named() {
    let server = Server::start().await;
    let job = job(&server, "ddp").await;
    // The names give the ranks, in announced uploads and in direct ones.
    for (rank, file) in DDP.iter().enumerate() {
        let name = format!("ddp_rank{rank}.pickle.zst");
        let announced = json!({ "name": name, "size": file.len(), "job": job.id });
        let announced = announced.to_string();
        let answer = server.json(Method::POST, routes::UPLOADS, &announced).await;
        let AnnouncedUpload { upload } = answer.expect(StatusCode::CREATED).read();
        let answer = server.put(&routes::upload(&upload), *file).await;
        let run = answer
            .expect(StatusCode::CREATED)
            .read::<FinishedUpload>()
            .run;
        let place = run.job.expect("it is a rank");
        assert_eq!((place.job, place.rank), (job.id.clone(), Rank(rank as u32)));
        assert_eq!(place.name, "ddp");
    }
    let detail = looked_at(&server, &job).await;
    assert_eq!((detail.job.n_ranks, detail.unreadable), (2, 0));
    let first = &detail.sentences[0];
    assert!(
        first.starts_with("Rank 1 leaks 62.5 MiB a step in keep_on_rank1 ("),
        "{first}"
    );
    assert!(first.ends_with("; the other rank does not."), "{first}");
    let [zero, one] = &detail.ranks[..] else {
        panic!("{} ranks", detail.ranks.len())
    };
    assert_eq!(
        (zero.row.verdict, one.row.verdict),
        (Verdict::Clean, Verdict::Leak)
    );
    // The values that the processes counted themselves.
    assert_eq!(zero.row.peak_allocated, Bytes(1_971_574_272));
    assert_eq!(one.row.peak_allocated, Bytes(2_501_098_496));
    assert_eq!(zero.row.end, Bytes(1_162_999_296));
    assert_eq!((zero.row.steps, one.row.steps), (8, 8));
    assert_eq!(one.row.leaked_per_step, 65_536_000.0);
    let kinds: Vec<OddKind> = one.row.odd.iter().map(|odd| odd.kind).collect();
    assert_eq!(kinds, [OddKind::Leaks]);
    assert_eq!(zero.row.odd, []);
    assert_eq!((zero.row.by_oddness, one.row.by_oddness), (1, 0));
    assert_eq!(detail.curves.len(), 2);
    // The place: the site that differs most.
    let sites: Vec<SiteAcross> = server.get(&routes::job_sites(&job.id, 0, 1)).await.read();
    let [site] = &sites[..] else {
        panic!("{}", sites.len())
    };
    assert_eq!(site.place.as_ref().unwrap().name, "keep_on_rank1");
    assert_eq!((site.ranks, site.leaks), (1, 1));
    assert_eq!(site.farthest[0].rank, Rank(1));
    assert_eq!(site.id, one.row.leaks[0].site);
    let next: Vec<SiteAcross> = server
        .get(&routes::job_sites(&job.id, 1, 1000))
        .await
        .read();
    assert_eq!(next.len() as u32, detail.sites_differ - 1);
    assert!(next.iter().all(|row| row.difference <= site.difference));
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_ranks_are_answered_at_once() {
    const RANKS: u32 = 256;
    let server = Server::start().await;
    let job = job(&server, "large").await;
    let sent = stream::iter(0..RANKS).map(async |rank| {
        let mib = if rank == 77 { 96 } else { 64 };
        send(&server, &job, rank, recorded(rank, mib)).await
    });
    sent.buffer_unordered(8).collect::<Vec<_>>().await;
    let detail = looked_at(&server, &job).await;
    let began = Instant::now();
    let again = looked_at(&server, &job).await;
    let took = began.elapsed();
    assert_eq!(again, detail);
    assert_eq!(detail.ranks.len(), RANKS as usize);
    assert_eq!(detail.curves.len(), JobDetail::MAX_CURVES);
    assert_eq!(detail.curves[0].rank, Rank(77));
    assert_eq!(
        detail.sentences[0],
        "Rank 77 peaks at 97.0 MiB; the median of 256 ranks is 65.0 MiB. At its peak, load \
         (train.py:7) holds 96.0 MiB, against a median of 64.0 MiB."
    );
    let spread = detail.allocated.unwrap();
    let mib = Bytes::mib;
    assert_eq!(
        (spread.min, spread.median, spread.max),
        (mib(65), mib(65), mib(97))
    );
    let highest = detail.band.parts.iter().flatten().map(|part| part[2]).max();
    assert_eq!(highest, Some(mib(97)));
    let curve: RankCurve = server
        .get(&routes::job_curve(&job.id, Rank(200)))
        .await
        .read();
    let highest = curve.parts.iter().flatten().map(|part| part[1]).max();
    assert_eq!(highest, Some(mib(65)));
    // The answer is computed once and then kept, so even a debug build is fast.
    assert!(took < Duration::from_millis(300), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_run_takes_its_rank_out_and_restoring_brings_it_back() {
    let server = Server::start().await;
    let job = job(&server, "three").await;
    let mut runs = Vec::new();
    for rank in 0..3 {
        runs.push(send(&server, &job, rank, recorded(rank, 8)).await);
    }
    let ranks = async || {
        let detail = looked_at(&server, &job).await;
        assert_eq!(detail.job.n_ranks as usize, detail.ranks.len());
        let ranks = detail.ranks.iter().map(|rank| rank.row.rank.0);
        ranks.collect::<Vec<_>>()
    };
    assert_eq!(ranks().await, [0, 1, 2]);
    let run = routes::run(&runs[1].id);
    server
        .json(Method::DELETE, &run, "")
        .await
        .expect(StatusCode::OK);
    assert_eq!(ranks().await, [0, 2]);
    let restore = routes::run_restore(&runs[1].id);
    server
        .json(Method::POST, &restore, "")
        .await
        .expect(StatusCode::OK);
    assert_eq!(ranks().await, [0, 1, 2]);
    // The same rank again: the newer recording counts, and the older one stays as a run of its own.
    let newer = send(&server, &job, 1, recorded(9, 8)).await;
    assert_eq!(ranks().await, [0, 1, 2]);
    assert_eq!(newer.job.unwrap().rank, Rank(1));
    let older: RunSummary = server.get(&run).await.read();
    assert_eq!(older.job, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_that_cannot_be_read_are_made_again_and_are_no_damage() {
    let server = Server::start().await;
    let job = job(&server, "damaged").await;
    for rank in 0..2 {
        send(&server, &job, rank, recorded(rank, 8)).await;
    }
    assert_eq!(looked_at(&server, &job).await.ranks.len(), 2);
    let damage = server
        .app
        .store
        .write(|writer| writer.damage_rank_profiles());
    assert_eq!(damage.await.unwrap(), 2);
    // With another rank the survey is not the one that is in memory.
    send(&server, &job, 2, recorded(2, 8)).await;
    let detail = looked_at(&server, &job).await;
    assert_eq!((detail.ranks.len(), detail.unreadable), (3, 0));
    assert!(server.app.store.refusal().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_forgotten_with_or_without_its_runs() {
    let server = Server::start().await;
    let (one, two) = (job(&server, "one").await, job(&server, "two").await);
    let run = send(&server, &one, 0, recorded(0, 8)).await;
    // The same bytes are another rank elsewhere: this takes nothing away from the first job.
    let again = send_again(&server, &two, 5, recorded(0, 8)).await;
    assert_eq!(again.id, run.id);
    assert_eq!(again.job.unwrap().job, two.id, "the newest is told of");
    let expected = [("two", 1), ("one", 1)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(listed(&server).await, expected);

    let gone = async |path: &str| {
        let answer: Answer = server.get(path).await;
        answer.problem().code == ProblemCode::NotFound
    };
    let new = job(&server, "new").await;
    let empty = looked_at(&server, &new).await;
    assert_eq!((empty.sentences, empty.allocated), (vec![], None));
    let forget = server.json(Method::DELETE, &routes::job(&new.id), "").await;
    forget.expect(StatusCode::OK);
    assert!(gone(&routes::job(&new.id)).await);
    assert!(!gone_run(&server, &run).await);
    let forget = server
        .json(Method::DELETE, &routes::job_with_runs(&two.id), "")
        .await;
    forget.expect(StatusCode::OK);
    assert!(gone(&routes::job(&two.id)).await && gone_run(&server, &run).await);
}

/// Sends a file that the server knows.
async fn send_again(server: &Server, job: &JobSummary, rank: u32, file: Vec<u8>) -> RunSummary {
    let route = routes::upload_into("again.pickle", &job.id, Rank(rank));
    let answer = server.put(&route, file).await.expect(StatusCode::OK);
    let finished: FinishedUpload = answer.read();
    assert!(finished.known);
    finished.run
}

/// Names and numbers of ranks of the jobs, newest first.
async fn listed(server: &Server) -> Vec<(String, u32)> {
    let jobs: Vec<JobSummary> = server.get(routes::JOBS).await.read();
    let jobs = jobs.into_iter().map(|job| (job.name, job.n_ranks));
    jobs.collect()
}

/// All orders and choices: whatever is sent a second time, each job that was there shows what it
/// showed, and a job that has nothing of its own is the earlier one.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_push_changes_no_job_and_the_same_ranks_are_the_same_job() {
    let server = Server::start().await;
    // The ranks of a folder: each is which recording.
    type Folder<'f> = &'f [(u32, u32)];
    let push = async |name: &str, folder: Folder<'_>| {
        let made = job(&server, name).await;
        for &(rank, recording) in folder {
            let route = routes::upload_into("r.pickle", &made.id, Rank(rank));
            server.put(&route, recorded(recording, 8)).await;
        }
        let there: JobDetail = server.get(&routes::job(&made.id)).await.read();
        (made, there.job.id)
    };
    let shown = async |job: &JobSummary| {
        let detail = looked_at(&server, job).await;
        let ranks = detail.ranks.into_iter();
        ranks
            .map(|rank| (rank.row.rank, rank.run))
            .collect::<Vec<_>>()
    };
    let (first, _) = push("first", &[(0, 0), (1, 1), (2, 2)]).await;
    let at_first = shown(&first).await;
    let cases: [(&str, Folder<'_>, bool); 8] = [
        ("the same", &[(0, 0), (1, 1), (2, 2)], true),
        ("in another order", &[(2, 2), (0, 0), (1, 1)], true),
        ("fewer", &[(1, 1)], true),
        ("one more", &[(0, 0), (1, 1), (2, 2), (3, 3)], false),
        ("one recorded again", &[(0, 0), (1, 11), (2, 2)], false),
        ("one is left of the last time", &[(0, 20), (1, 1)], false),
        ("other numbers", &[(1, 0), (2, 1)], false),
        ("nothing in common", &[(0, 30), (1, 31)], false),
    ];
    for (name, folder, is_first) in cases {
        let (made, leads_to) = push(name, folder).await;
        assert_eq!(leads_to == first.id, is_first, "{name}");
        assert_eq!(shown(&first).await, at_first, "{name}");
        let jobs = listed(&server).await;
        let is_listed = jobs.contains(&(name.to_owned(), folder.len() as u32));
        assert_eq!(is_listed, !is_first, "{name}: {jobs:?}");
        // And once more: no second job of the same ranks.
        let (_, again) = push("again", folder).await;
        assert_eq!(
            again,
            if is_first { first.id.clone() } else { made.id },
            "{name}"
        );
    }
    // A rank of its own that comes late makes it another job; its address stays.
    let (late, leads_to) = push("late", &[(0, 0)]).await;
    assert_eq!(leads_to, first.id);
    send(&server, &late, 1, recorded(40, 8)).await;
    assert_eq!(shown(&late).await.len(), 2);
    assert_eq!(shown(&first).await, at_first);
    // The first changes: what was the same is not the same any more, and shows what was sent.
    let (copy, leads_to) = push("copy", &[(0, 0), (1, 1), (2, 2)]).await;
    assert_eq!(leads_to, first.id);
    send(&server, &first, 2, recorded(50, 8)).await;
    assert_eq!(shown(&copy).await, at_first);
}

/// States without events are often the same in several ranks, byte for byte: one run, many ranks.
#[tokio::test(flavor = "multi_thread")]
async fn ranks_with_equal_recordings_are_all_there() {
    let server = Server::start().await;
    let made = job(&server, "equal").await;
    let run = send(&server, &made, 0, recorded(0, 8)).await;
    for rank in [1, 3] {
        let again = send_again(&server, &made, rank, recorded(0, 8)).await;
        let place = again.job.unwrap();
        assert_eq!(
            (again.id, place.rank),
            (run.id.clone(), Rank(0)),
            "the lowest"
        );
    }
    send(&server, &made, 2, recorded(2, 8)).await;
    let ranks = async |job: &JobSummary| {
        let detail = looked_at(&server, job).await;
        assert_eq!((detail.missing, detail.unreadable), (vec![], 0));
        assert_eq!(detail.job.n_ranks as usize, detail.ranks.len());
        let of_run = detail.ranks.iter().filter(|rank| rank.run == run.id);
        (detail.ranks.len(), of_run.count())
    };
    assert_eq!(ranks(&made).await, (4, 3));
    assert_eq!(listed(&server).await, [("equal".to_owned(), 4)]);
    // Another recording of one of them takes nothing from the others.
    send(&server, &made, 1, recorded(1, 8)).await;
    assert_eq!(ranks(&made).await, (4, 2));
    // The same ranks again are the same job; other numbers are another one.
    let copy = job(&server, "copy").await;
    for (rank, recording) in [(0, 0), (1, 1), (2, 2), (3, 0)] {
        send_again(&server, &copy, rank, recorded(recording, 8)).await;
    }
    assert_eq!(listed(&server).await, [("equal".to_owned(), 4)]);
    let forget = server
        .json(Method::DELETE, &routes::job_with_runs(&made.id), "")
        .await;
    forget.expect(StatusCode::OK);
    assert!(gone_run(&server, &run).await);
}

async fn gone_run(server: &Server, run: &RunSummary) -> bool {
    server.get(&routes::run(&run.id)).await.status == StatusCode::NOT_FOUND
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_that_ask_with_one_key_at_once_are_given_one_job() {
    let server = Server::start().await;
    let ask = async |name: &str, key: &str| {
        let body = json!({ "name": name, "key": key }).to_string();
        let answer = server.json(Method::POST, routes::JOBS, &body).await;
        (answer.status, answer.read::<JobSummary>())
    };
    let asked = stream::iter(0..16).map(|rank| ask(if rank == 0 { "a" } else { "b" }, "start 1"));
    let given: Vec<_> = asked.buffer_unordered(16).collect().await;
    let made = given
        .iter()
        .filter(|(status, _)| *status == StatusCode::CREATED);
    let made: Vec<_> = made.collect();
    assert_eq!(made.len(), 1);
    assert!(given.iter().all(|(_, job)| *job == made[0].1), "{given:?}");
    let job = made[0].1.clone();

    let run = send(&server, &job, 0, recorded(0, 8)).await;
    let (status, again) = ask("c", " start 1 ").await;
    assert_eq!(
        (status, &again.id, again.n_ranks),
        (StatusCode::OK, &job.id, 1)
    );
    assert_eq!(again.name, job.name);
    assert_ne!(ask("a", "start 2").await.1.id, job.id);
    assert_ne!(self::job(&server, &job.name).await.id, job.id);

    // After the job is deleted, its key makes a new job.
    let forget = server.json(Method::DELETE, &routes::job(&job.id), "").await;
    forget.expect(StatusCode::OK);
    let (status, next) = ask("a", "start 1").await;
    assert_eq!((status, next.n_ranks), (StatusCode::CREATED, 0));
    assert!(!gone_run(&server, &run).await);

    for key in ["", "a\u{202e}b", &"x".repeat(201)] {
        let body = json!({ "name": "job", "key": key }).to_string();
        let answer = server.json(Method::POST, routes::JOBS, &body).await;
        answer.expect(StatusCode::BAD_REQUEST).problem();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_belongs_nowhere_is_refused_before_its_bytes() {
    let server = Server::start().await;
    let job = job(&server, "job").await;
    let check = async |path: String, status: StatusCode| {
        let answer = server.put(&path, packed_snapshot()).await.expect(status);
        answer.problem();
    };
    let (bad, missing) = (StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND);
    let id = &job.id;
    check(format!("/api/upload/run.pickle?job={id}"), bad).await;
    check(format!("/api/upload/rank9999.pickle?job={id}"), bad).await;
    check(format!("/api/upload/rank1.pickle?job={id}&rank=x"), bad).await;
    check("/api/upload/rank1.pickle?job=job_none".to_owned(), missing).await;
    check("/api/upload/rank1.pickle?job=run_none".to_owned(), bad).await;
    let none = json!({ "name": "rank1.pickle", "job": "job_none" }).to_string();
    let answer = server.json(Method::POST, routes::UPLOADS, &none).await;
    assert_eq!(answer.problem().code, ProblemCode::NotFound);
    let name = json!({ "name": "" }).to_string();
    server
        .json(Method::POST, routes::JOBS, &name)
        .await
        .expect(bad);
    assert_eq!(server.stored_files(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_while_a_rank_arrives_leaves_its_run() {
    let server = Server::start().await;
    let job = job(&server, "job").await;
    let announced = json!({ "name": "rank3.pickle", "job": job.id }).to_string();
    let answer = server.json(Method::POST, routes::UPLOADS, &announced).await;
    let AnnouncedUpload { upload } = answer.expect(StatusCode::CREATED).read();
    let forget = server.json(Method::DELETE, &routes::job(&job.id), "").await;
    forget.expect(StatusCode::OK);
    let answer = server.put(&routes::upload(&upload), recorded(0, 8)).await;
    let finished: FinishedUpload = answer.expect(StatusCode::CREATED).read();
    assert_eq!(finished.run.job, None);
}

/// Whoever cancels the only upload of a job may send it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_which_nothing_came_is_in_no_list() {
    let server = Server::start().await;
    let job = job(&server, "night").await;
    let announced = json!({ "name": "rank0.pickle", "job": job.id }).to_string();
    let answer = server.json(Method::POST, routes::UPLOADS, &announced).await;
    let AnnouncedUpload { upload } = answer.expect(StatusCode::CREATED).read();
    let upload = routes::upload(&upload);
    let ranks = async || {
        let answer = server.get(routes::JOBS_PAGE).await.expect(StatusCode::OK);
        let page = String::from_utf8_lossy(&answer.body).into_owned();
        let listed = listed(&server).await;
        assert_eq!(page.contains("night"), !listed.is_empty(), "{page}");
        listed.first().map(|(_, ranks)| *ranks)
    };
    assert_eq!(ranks().await, Some(0));
    let cancel = server.json(Method::DELETE, &upload, "").await;
    cancel.expect(StatusCode::NO_CONTENT);
    assert_eq!(ranks().await, None);
    let route = routes::upload_into("rank0.pickle", &job.id, Rank(0));
    server.put(&route, "no snapshot").await.problem();
    assert_eq!(ranks().await, None);
    send(&server, &job, 0, recorded(0, 8)).await;
    assert_eq!(ranks().await, Some(1));
}

/// Empty jobs go after a day, but not those that wait for a rank: it was promised its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_rank_that_was_announced_finds_its_job_however_old_that_is() {
    let server = Server::start().await;
    let ids = ["job_awaited", "job_empty"].map(|id| id.parse().unwrap());
    let [awaited, empty]: &[JobId; 2] = &ids;
    let old = ids.clone();
    let make = server.app.store.write(move |writer| {
        old.iter()
            .try_for_each(|id| writer.insert_job(id, "old", None, 1))
    });
    make.await.unwrap();
    let announced = json!({ "name": "rank1.pickle", "job": awaited }).to_string();
    let answer = server.json(Method::POST, routes::UPLOADS, &announced).await;
    let AnnouncedUpload { upload } = answer.expect(StatusCode::CREATED).read();
    server.app.uploads.purge(1).await.unwrap();
    let answer = server.get(&routes::job(empty)).await;
    assert_eq!(answer.problem().code, ProblemCode::NotFound);
    let answer = server.put(&routes::upload(&upload), recorded(0, 8)).await;
    let finished: FinishedUpload = answer.expect(StatusCode::CREATED).read();
    assert_eq!(&finished.run.job.unwrap().job, awaited);
    let detail: JobDetail = server.get(&routes::job(awaited)).await.read();
    assert_eq!((detail.job.n_ranks, detail.missing), (1, vec![Rank(0)]));
    let told = detail.sentences.last().map(String::as_str);
    assert_eq!(told, Some("Rank 0 is missing."));
}

/// Who sends a job may know more of it than its ranks tell.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_tells_what_was_said_of_it_when_it_was_made() {
    let server = Server::start().await;
    let failed = json!({ "rank": 1, "file": "step_8/rank1.pickle" });
    let make = async |failed_apart: Vec<Value>| {
        let notes = json!({ "numbered": "By role.", "failed_apart": failed_apart });
        let body = json!({ "name": "noted", "notes": notes }).to_string();
        server.json(Method::POST, routes::JOBS, &body).await
    };
    let too_many = make(vec![failed.clone(); 9]).await;
    too_many.expect(StatusCode::BAD_REQUEST);
    let job: JobSummary = make(vec![failed]).await.expect(StatusCode::CREATED).read();
    for rank in [0, 2] {
        send(&server, &job, rank, recorded(rank, 8)).await;
    }
    let said = async || looked_at(&server, &job).await.sentences;
    let sentences = said().await;
    let told = "Rank 1 ran out of memory; its recording lies apart: step_8/rank1.pickle.";
    assert_eq!(sentences.first().map(String::as_str), Some(told));
    assert_eq!(sentences.last().map(String::as_str), Some("By role."));
    // Its own recording says more.
    send(&server, &job, 1, recorded(1, 8)).await;
    let sentences = said().await;
    assert!(!sentences.iter().any(|said| said == told), "{sentences:?}");
    assert_eq!(sentences.last().map(String::as_str), Some("By role."));
}

/// The files of ranks may be damaged: whoever sends the others says how many there are.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_knows_of_ranks_that_were_not_sent() {
    let server = Server::start().await;
    let make = async |ranks: u32| {
        let body = json!({ "name": "killed", "notes": { "ranks": ranks } }).to_string();
        server.json(Method::POST, routes::JOBS, &body).await
    };
    make(4097).await.expect(StatusCode::BAD_REQUEST);
    let job: JobSummary = make(5).await.expect(StatusCode::CREATED).read();
    for rank in [0, 1, 3] {
        send(&server, &job, rank, recorded(rank, 8)).await;
    }
    let detail = looked_at(&server, &job).await;
    assert_eq!(detail.missing, [Rank(2), Rank(4)]);
    let told = detail.sentences.last().map(String::as_str);
    assert_eq!(told, Some("Ranks 2 and 4 are missing."));
    let of_all = |said: &&String| said.starts_with("All ");
    assert_eq!(detail.sentences.iter().find(of_all), None);
    for rank in [2, 4] {
        send(&server, &job, rank, recorded(rank, 8)).await;
    }
    let detail = looked_at(&server, &job).await;
    assert!(detail.missing.is_empty());
    let of_some = |said: &&String| said.contains("that were read");
    assert_eq!(detail.sentences.iter().find(of_some), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_jobs_says_which_ranks_stand_out() {
    let server = Server::start().await;
    let text = async |path: &str| {
        let answer = server.get(path).await.expect(StatusCode::OK);
        String::from_utf8(answer.body.to_vec()).unwrap()
    };
    let page = text(routes::JOBS_PAGE).await;
    let told = page.contains("tidemark push FOLDER");
    assert!(told, "an empty page says what to do: {page}");

    let none = job(&server, "<b>empty").await;
    let apart = job(&server, "apart").await;
    send(&server, &apart, 0, recorded(0, 4)).await;
    send(&server, &apart, 1, recorded(1, 7)).await;
    let cut = job(&server, "cut").await;
    let state = json!({ "segments": [], "device_traces": [[]] }).to_string();
    send(&server, &cut, 0, state.into_bytes()).await;
    send(&server, &cut, 1, recorded(1, 6)).await;
    let leaking = job(&server, "leaking").await;
    for (rank, packed) in DDP.into_iter().enumerate() {
        send(&server, &leaking, rank as u32, packed.to_vec()).await;
    }
    looked_at(&server, &leaking).await;
    let page = text(routes::JOBS_PAGE).await;
    let row_of = |job: &JobSummary| {
        let mut rows = page.split("<tr>");
        let row = rows.find(|row| row.contains(&routes::job_page(&job.id)));
        row.unwrap_or_else(|| panic!("{}: {page}", job.id))
            .to_owned()
    };
    let check = |job: &JobSummary, expected: &[&str]| {
        let row = row_of(job);
        for text in expected {
            assert!(row.contains(&format!(">{text}<")), "{text}: {row}");
        }
    };
    check(&none, &["0", "no rank yet", "&lt;b&gt;empty"]);
    check(&apart, &["2", "8.00 MiB", "5.00 MiB", "3.00 MiB", "–"]);
    check(&leaking, &["2", "leak: 1 of 2 ranks"]);
    check(&cut, &["2", "not all recorded: 1 of 2 ranks"]);

    let page = text(&format!("{}?offset=1", routes::JOBS_PAGE)).await;
    assert_eq!(page.matches("<tr>").count(), 4, "one job less: {page}");
    assert!(page.contains("Newer") && !page.contains("Older"), "{page}");
    let page = text(&format!("{}?offset=4294967295", routes::JOBS_PAGE)).await;
    assert!(page.contains("no older jobs"), "{page}");
}
