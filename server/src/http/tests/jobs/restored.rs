//! A job that is deleted with its runs can be restored with them.

use super::super::Server;
use super::{job, listed, recorded, send, send_again};
use crate::projects::retention;
use crate::system::clock::now_ms;
use api::ids::JobId;
use api::jobs::JobSummary;
use api::projects::Keep;
use api::routes;
use api::runs::RunSummary;
use axum::http::{Method, StatusCode};
use serde_json::json;
use trace::ranks::Rank;

async fn delete(server: &Server, job: &JobId) {
    let path = routes::job_with_runs(job);
    let deleted = server.json(Method::DELETE, &path, "").await;
    deleted.expect(StatusCode::OK);
}

async fn restore(server: &Server, run: &RunSummary) -> RunSummary {
    let path = routes::run_restore(&run.id);
    let restored = server.json(Method::POST, &path, "").await;
    restored.expect(StatusCode::OK).read()
}

async fn status(server: &Server, job: &JobId) -> StatusCode {
    server.get(&routes::job(job)).await.status
}

async fn keyed(server: &Server) -> JobSummary {
    let body = json!({ "name": "wide", "key": "start" }).to_string();
    let made = server.json(Method::POST, routes::JOBS, &body).await;
    made.expect(StatusCode::CREATED).read()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_job_comes_back_with_the_first_of_its_runs() {
    let server = Server::start().await;
    let wide = keyed(&server).await;
    let mut runs = Vec::new();
    for rank in 0..2 {
        runs.push(send(&server, &wide, rank, recorded(rank, 8)).await);
    }
    delete(&server, &wide.id).await;
    assert_eq!(status(&server, &wide.id).await, StatusCode::NOT_FOUND);
    assert!(listed(&server).await.is_empty());
    let place = restore(&server, &runs[1]).await.job.unwrap();
    assert_eq!((place.job, place.rank), (wide.id.clone(), Rank(1)));
    assert_eq!(status(&server, &wide.id).await, StatusCode::OK);
    assert_eq!(listed(&server).await, [("wide".to_owned(), 1)]);
    restore(&server, &runs[0]).await;
    assert_eq!(listed(&server).await, [("wide".to_owned(), 2)]);

    // A push with its key finds it again.
    let body = json!({ "name": "other", "key": "start" }).to_string();
    let found = server.json(Method::POST, routes::JOBS, &body).await;
    let found: JobSummary = found.expect(StatusCode::OK).read();
    assert_eq!(found.id, wide.id);
}

/// Whoever deletes a job to send it anew, under another name perhaps, gets what they send.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_job_is_in_nobodys_way_and_goes_with_its_runs() {
    let server = Server::start().await;
    let wide = keyed(&server).await;
    let run = send(&server, &wide, 0, recorded(0, 8)).await;
    delete(&server, &wide.id).await;
    let right = job(&server, "right").await;
    let again = send_again(&server, &right, 0, recorded(0, 8)).await;
    assert_eq!(again.job.unwrap().job, right.id);
    assert_eq!(listed(&server).await, [("right".to_owned(), 1)]);
    assert_eq!(status(&server, &wide.id).await, StatusCode::NOT_FOUND);
    assert_ne!(keyed(&server).await.id, wide.id);
    // Removed for good, it does not come back, although its run is there.
    server.app.uploads.purge(now_ms() + 1).await.unwrap();
    assert_eq!(restore(&server, &run).await.job.unwrap().job, right.id);
    assert_eq!(status(&server, &wide.id).await, StatusCode::NOT_FOUND);
}

/// Its key was in the way of the next push, which was told that there is no such job.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_the_same_as_a_deleted_job_goes_and_comes_back_with_it() {
    let server = Server::start().await;
    let first = job(&server, "first").await;
    let run = send(&server, &first, 0, recorded(0, 8)).await;
    let same = keyed(&server).await;
    send_again(&server, &same, 0, recorded(0, 8)).await;
    delete(&server, &first.id).await;
    restore(&server, &run).await;
    let body = json!({ "name": "wide", "key": "start" }).to_string();
    let found = server.json(Method::POST, routes::JOBS, &body).await;
    let found: JobSummary = found.expect(StatusCode::OK).read();
    assert_eq!(found.id, same.id);

    delete(&server, &first.id).await;
    let anew = keyed(&server).await;
    assert_ne!(anew.id, same.id);
    let again = send_again(&server, &anew, 0, recorded(0, 8)).await;
    assert_eq!(again.job.unwrap().job, anew.id);
    assert_eq!(listed(&server).await, [("wide".to_owned(), 1)]);
}

/// Until it was removed for good, the list had a job with 0 ranks.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_leaves_the_list_with_its_last_rank_and_comes_back_with_it() {
    let server = Server::start().await;
    let wide = keyed(&server).await;
    let mut runs = Vec::new();
    for rank in 0..2 {
        runs.push(send(&server, &wide, rank, recorded(rank, 8)).await);
    }
    let delete = async |run: &RunSummary| {
        let deleted = server.json(Method::DELETE, &routes::run(&run.id), "").await;
        deleted.expect(StatusCode::OK);
    };
    let is_on_page = async || {
        let page = server.get(routes::JOBS_PAGE).await.expect(StatusCode::OK);
        String::from_utf8_lossy(&page.body).contains(&routes::job_page(&wide.id))
    };
    delete(&runs[0]).await;
    assert_eq!(listed(&server).await, [("wide".to_owned(), 1)]);
    delete(&runs[1]).await;
    assert!(listed(&server).await.is_empty());
    assert!(!is_on_page().await);
    restore(&server, &runs[1]).await;
    assert_eq!(listed(&server).await, [("wide".to_owned(), 1)]);
    assert!(is_on_page().await);
    delete(&runs[1]).await;
    // It goes for good with them, and does not come back as a job that is still empty.
    server.app.uploads.purge(now_ms() + 1).await.unwrap();
    assert!(listed(&server).await.is_empty());
    assert_eq!(status(&server, &wide.id).await, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_rule_deletes_leaves_the_list_at_once_and_comes_back() {
    let server = Server::start().await;
    let old = job(&server, "old").await;
    let alone = send(&server, &old, 0, recorded(0, 8)).await;
    // The order is that of the dates, by a clock of milliseconds.
    server.app.store.pass_ms(5);
    send(&server, &old, 1, recorded(1, 8)).await;
    let empty = job(&server, "empty").await;
    let new = job(&server, "new").await;
    // Its rank is one of the old job, too, and stays.
    send_again(&server, &new, 0, recorded(1, 8)).await;
    let rule = Keep {
        newest: 1,
        ..Keep::default()
    };
    let gone = retention::carry_out(&server.app.store, rule.clone()).await;
    assert_eq!(gone.unwrap().len(), 1);
    let names = async || {
        let jobs = listed(&server).await.into_iter();
        let mut names: Vec<String> = jobs
            .map(|(name, ranks)| format!("{name} {ranks}"))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names().await, ["empty 0", "new 1"]);
    assert_eq!(status(&server, &old.id).await, StatusCode::NOT_FOUND);
    restore(&server, &alone).await;
    assert_eq!(names().await, ["empty 0", "new 1", "old 2"]);
    // One that nobody has sent anything into is no concern of the rule.
    assert_eq!(status(&server, &empty.id).await, StatusCode::OK);
    let again = retention::carry_out(&server.app.store, rule).await;
    assert_eq!(again.unwrap().len(), 1);
}
