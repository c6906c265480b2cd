//! What if: the page's question gives the same as the command line, and can be cancelled.

use super::Server;
use crate::ingest::parse;
use answers::questions::what_if::{Asked, what_if};
use api::problem::ProblemCode;
use api::routes;
use api::runs::FinishedUpload;
use api::what_if::{Conditions, WhatIfDrawn};
use axum::http::{Method, StatusCode, header};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use trace::device::DeviceIdx;
use trace::units::Bytes;
use trace::watch::Watch;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_answers_as_its_file_does() {
    let server = Server::start().await;
    let sample = routes::sample("leak_hook_cache");
    let answer = server.json(Method::POST, &sample, "").await;
    let run = answer.read::<FinishedUpload>().run;
    let snapshot = parse([super::snapshot()].into_iter(), &AtomicU64::new(0)).unwrap();
    let trace = trace::replay::run(snapshot);
    let device = &trace.devices[0];

    let ask = async |conditions: &Conditions| {
        let path = routes::what_if(&run.id, DeviceIdx(0), conditions);
        server.get(&path).await.expect(StatusCode::OK)
    };
    let recorded = ask(&Conditions::default()).await;
    let recorded: WhatIfDrawn = recorded.read();
    assert_eq!(recorded.answer.calibration.peak_reserved_error, 0.0);

    let conditions = Conditions {
        alloc_conf: Some("expandable_segments:True".to_owned()),
        limit: Some("3 GiB".to_owned()),
        without_leaks: true,
        gone: None,
    };
    let answer = ask(&conditions).await;
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/json");
    let drawn: WhatIfDrawn = answer.read();
    let asked = Asked::of(&conditions).unwrap();
    let expected = what_if(&trace, device, &asked, Watch::nobody()).unwrap();
    assert_eq!(drawn.answer, expected);
    assert_eq!(drawn.answer.what_if.limit, Some(Bytes::gib(3)));
    assert!(drawn.answer.otherwise.given_back > 0);
    let curves = drawn.curves.unwrap();
    let peak = curves.what_if.reserved.iter().max();
    assert_eq!(peak, Some(&expected.what_if.peak_reserved));

    let site = {
        let leaks = server.get(&routes::leaks(&run.id, DeviceIdx(0))).await;
        leaks.read::<api::leaks::Leaks>().groups[0].site.clone()
    };
    let gone = Conditions {
        gone: Some(site),
        ..Conditions::default()
    };
    let drawn: WhatIfDrawn = ask(&gone).await.read();
    assert!(drawn.answer.otherwise.gone > 0);
    let (without, with) = (drawn.answer.what_if, drawn.answer.recorded);
    assert!(without.peak_allocated < with.peak_allocated);
}

/// Nobody knows what else a pool held that the recording does not name.
#[test]
fn a_pool_that_was_given_up_leaves_a_doubt_under_other_settings() {
    let check = |name: &str, conf: Option<&str>, is_told: bool| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pools");
        let file = std::fs::File::open(folder.join(name)).unwrap();
        let file = zstd::decode_all(file).unwrap();
        let snapshot = parse([file].into_iter(), &AtomicU64::new(0)).unwrap();
        let trace = trace::replay::run(snapshot);
        let asked = Asked::of(&Conditions {
            alloc_conf: conf.map(str::to_owned),
            ..Conditions::default()
        });
        let answer = what_if(&trace, &trace.devices[0], &asked.unwrap(), Watch::nobody()).unwrap();
        assert_eq!(
            answer.trust.contains("given up"),
            is_told,
            "{name}: {conf:?}"
        );
    };
    let large = Some("large_segment_size_mb:64");
    check("deleted_plain.pickle.zst", large, true);
    check("deleted_plain.pickle.zst", None, false);
    check("no_split_plain.pickle.zst", large, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_asked_is_said() {
    let server = Server::start().await;
    let sample = routes::sample("leak_hook_cache");
    let answer = server.json(Method::POST, &sample, "").await;
    let run = answer.read::<FinishedUpload>().run;
    let sites = vec!["z1"; 65].join(",");
    let check = async |query: &str, why: &str| {
        let path = format!("/api/runs/{}/devices/0/what-if?{query}", run.id);
        let problem = server
            .get(&path)
            .await
            .expect(StatusCode::BAD_REQUEST)
            .problem();
        assert_eq!(problem.code, ProblemCode::BadRequest);
        assert!(problem.detail.contains(why), "{}", problem.detail);
    };
    check("alloc_conf=max_split_size_mb:3", "20 or more").await;
    check("limit=much", "limit: ").await;
    check("gone=x", "not an allocation site").await;
    check(&format!("gone={sites}"), "64 at most").await;
    check("without_leaks=perhaps", "without_leaks").await;
    let path = routes::what_if(&run.id, DeviceIdx(7), &Conditions::default());
    let problem = server
        .get(&path)
        .await
        .expect(StatusCode::NOT_FOUND)
        .problem();
    assert_eq!(problem.code, ProblemCode::NotFound);
}
