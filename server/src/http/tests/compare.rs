//! Comparisons, their curves, and those that were recorded.

use super::{Server, request};
use api::compare::{Comparison, Curves, CurvesWanted, RecordComparison, RecordedComparison};
use api::ids::RunId;
use api::problem::ProblemCode;
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use trace::compare::curves::Align;
use trace::compare::gate::Outcome;
use trace::compare::{Change, LeakChange};
use trace::trace::Series;
use trace::units::Bytes;

async fn sample(server: &Server, name: &str) -> RunSummary {
    let answer = server.json(Method::POST, &routes::sample(name), "").await;
    answer.read::<FinishedUpload>().run
}

async fn pair(server: &Server) -> [RunId; 2] {
    [
        sample(server, "off_v1_moe").await.id,
        sample(server, "off_v3_moe").await.id,
    ]
}

fn wanted(align: Align) -> CurvesWanted {
    CurvesWanted {
        align,
        series: Series::Allocated,
        pair: 0,
        window: None,
        parts: 100,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_says_what_a_patch_changed() {
    let server = Server::start().await;
    let [leak, fix] = pair(&server).await;
    let path = routes::compare(&[leak.clone(), fix.clone(), leak.clone()]);
    let comparison: Comparison = server.get(&path).await.expect(StatusCode::OK).read();
    assert_eq!(comparison.runs[0].id.as_ref(), Some(&leak));
    assert_eq!(comparison.runs[1].name, "The same offloader after the fix");
    let [patched, itself] = &comparison.against[..] else {
        panic!("two runs against the baseline")
    };
    let difference = patched.difference().unwrap();
    assert_eq!(
        (difference.change, difference.leaks),
        (Change::Better, LeakChange::Fixed)
    );
    assert_eq!(patched.gate.outcome, Outcome::Pass);
    assert_eq!(itself.difference().unwrap().change, Change::None);
    // The same comparison again comes from memory, without the traces.
    server.app.pictures.traces.forget_all();
    server
        .app
        .store
        .write_now(|writer| writer.lose_chunks())
        .unwrap();
    let again: Comparison = server.get(&path).await.expect(StatusCode::OK).read();
    assert_eq!(again, comparison);
}

#[tokio::test(flavor = "multi_thread")]
async fn curves_lie_over_one_axis_and_keep_the_peaks() {
    let server = Server::start().await;
    let runs = pair(&server).await;
    for align in Align::ALL {
        let path = routes::compare_curves(&runs, &wanted(align));
        let curves: Curves = server.get(&path).await.expect(StatusCode::OK).read();
        assert_eq!(curves.window, curves.whole);
        let path = routes::compare(&runs);
        let comparison: Comparison = server.get(&path).await.read();
        let series = *comparison.against[0].devices[0].series(Series::Allocated);
        let peaks = [series.base.peak.0, series.new.peak.0];
        for (curve, peak) in curves.runs.iter().zip(peaks) {
            assert_eq!((curve.parts.len(), curve.events.len()), (100, 101));
            let highest = curve.parts.iter().flatten().map(|part| part[1]).max();
            assert_eq!(highest, Some(peak), "{align:?}");
        }
    }
    // Both have twelve steps, so in the middle of the axis both are in the same step.
    let steps = routes::compare_curves(
        &runs,
        &CurvesWanted {
            window: Some((3.1, 3.9)),
            ..wanted(Align::Step)
        },
    );
    let curves: Curves = server.get(&steps).await.read();
    for curve in &curves.runs {
        assert!(
            curve.steps.iter().all(|&step| step == Some(3)),
            "{:?}",
            curve.steps
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_compared_is_refused_with_a_reason() {
    let server = Server::start().await;
    let run = sample(&server, "plain_lm").await.id;
    let check = async |path: String, status: StatusCode, code: ProblemCode| {
        let problem = server.get(&path).await.expect(status).problem();
        assert_eq!(problem.code, code, "{path}: {}", problem.detail);
    };
    let bad = (StatusCode::BAD_REQUEST, ProblemCode::BadRequest);
    let missing = (StatusCode::NOT_FOUND, ProblemCode::NotFound);
    let (one, nine) = (vec![run.clone()], vec![run.clone(); 9]);
    check(routes::compare(&one), bad.0, bad.1).await;
    check(routes::compare(&nine), bad.0, bad.1).await;
    check("/api/compare".to_owned(), bad.0, bad.1).await;
    check(format!("/api/compare?runs={run},x"), missing.0, missing.1).await;
    let gone: RunId = "run_0000000000000000".parse().unwrap();
    check(routes::compare(&[run.clone(), gone]), missing.0, missing.1).await;
    let two = [run.clone(), run];
    for query in [
        "&parts=0",
        "&parts=9999",
        "&from=3",
        "&from=3&to=2",
        "&align=up",
        "&series=x",
    ] {
        let path = routes::compare_curves(&two, &wanted(Align::Step)) + query;
        let path = match query.starts_with("&parts") {
            true => path.replace("&parts=100", ""),
            false => path,
        };
        let path = match query {
            "&align=up" => path.replace("&align=step", ""),
            "&series=x" => path.replace("&series=allocated", ""),
            _ => path,
        };
        check(path, bad.0, bad.1).await;
    }
    // A missing device has no curve, but is not an error: another run may have it.
    let path = routes::compare_curves(
        &two,
        &CurvesWanted {
            pair: 7,
            ..wanted(Align::Step)
        },
    );
    let curves: Curves = server.get(&path).await.expect(StatusCode::OK).read();
    assert!(curves.runs[0].parts.iter().all(Option::is_none));
}

#[tokio::test(flavor = "multi_thread")]
async fn comparisons_are_recorded_for_a_pull_request() {
    let server = Server::start().await;
    let runs = pair(&server).await.to_vec();
    let record = async |request: &RecordComparison| {
        let body = serde_json::to_string(request).unwrap();
        server.json(Method::POST, routes::COMPARISONS, &body).await
    };
    let wanted = RecordComparison {
        runs: runs.clone(),
        pr: Some("https://github.com/huggingface/trl/pull/5700".to_owned()),
        name: None,
    };
    let first: RecordedComparison = record(&wanted).await.expect(StatusCode::OK).read();
    assert_eq!(
        first.name,
        "An activation offloader that leaks → The same offloader after the fix"
    );
    // CI runs many times; there is still only one comparison.
    let named = RecordComparison {
        name: Some("baseline → P3".to_owned()),
        ..wanted.clone()
    };
    let second: RecordedComparison = record(&named).await.expect(StatusCode::OK).read();
    assert_eq!(
        (&second.id, second.created_ms),
        (&first.id, first.created_ms)
    );
    assert_eq!(second.name, "baseline → P3");
    // Without a name, it keeps the one that it has.
    let again: RecordedComparison = record(&wanted).await.expect(StatusCode::OK).read();
    assert_eq!(again.name, "baseline → P3");
    let other = RecordComparison {
        pr: None,
        ..wanted.clone()
    };
    let other: RecordedComparison = record(&other).await.expect(StatusCode::OK).read();
    assert_ne!(other.id, first.id);

    let listed = async |query: &str| {
        let path = format!("{}{query}", routes::COMPARISONS);
        server
            .get(&path)
            .await
            .expect(StatusCode::OK)
            .read::<Vec<RecordedComparison>>()
    };
    assert_eq!(listed("").await.len(), 2);
    let of_pr = "?pr=https%3A%2F%2Fgithub.com%2Fhuggingface%2Ftrl%2Fpull%2F5700";
    assert_eq!(listed(of_pr).await, std::slice::from_ref(&second));
    let path = routes::comparison(&first.id);
    let got: RecordedComparison = server.get(&path).await.expect(StatusCode::OK).read();
    assert_eq!(got, second);
    let forget = request(Method::DELETE, &path).body(Body::empty()).unwrap();
    server.send(forget).await.expect(StatusCode::OK);
    server.get(&path).await.expect(StatusCode::NOT_FOUND);
    assert_eq!(listed("").await, [other]);

    for pr in ["javascript:alert(1)", "https://x y", "github.com/x"] {
        let bad = RecordComparison {
            pr: Some(pr.to_owned()),
            ..wanted.clone()
        };
        record(&bad).await.expect(StatusCode::BAD_REQUEST).problem();
    }
    let one = RecordComparison {
        runs: runs[..1].to_vec(),
        ..wanted
    };
    record(&one).await.expect(StatusCode::BAD_REQUEST).problem();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_of_comparisons_holds_memory_and_goes_when_others_need_it() {
    let server = Server::start().await;
    let path = routes::compare(&pair(&server).await);
    server.get(&path).await.expect(StatusCode::OK);
    server.app.pictures.traces.forget_all();
    let budget = &server.app.budget;
    assert!(budget.in_use() > Bytes::ZERO);
    let all = budget.take(budget.total()).await;
    assert!(all.is_ok(), "profiles are given back");
    drop(all);
    server.get(&path).await.expect(StatusCode::OK);
}
