//! Tests of what a recording holds, and of choosing another loop as the steps.

use super::Server;
use api::alive::Growth;
use api::contents::Contents;
use api::leaks::Leaks;
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use api::timeline::{Marks, Moment};
use axum::http::StatusCode;
use trace::alive::Dimension;
use trace::categories::Category;
use trace::device::DeviceIdx;
use trace::phases::Phase;
use trace::steps::recording::Kind;
use trace::units::{Bytes, EventIdx};

/// Stores a program's recording that was made without annotations.
async fn plain(server: &Server, name: &str) -> RunSummary {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/plain");
    let file = std::fs::read(folder.join(format!("{name}.pickle.zst"))).unwrap();
    let path = routes::upload_named(&format!("{name}.pickle.zst"));
    let answer = server.put(&path, file).await;
    answer.read::<FinishedUpload>().run
}

async fn contents(server: &Server, run: &RunSummary) -> Contents {
    let answer = server.get(&routes::contents(&run.id, DeviceIdx(0))).await;
    answer.expect(StatusCode::OK).read()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_pass_is_named_and_shows_its_phases_and_its_peak() {
    let server = Server::start().await;
    let run = plain(&server, "single_forward").await;
    let found = contents(&server, &run).await;
    assert_eq!(found.recording.kind, Kind::ForwardThenDump);
    assert!(found.recording.sentence.starts_with("one forward pass"));
    assert!(found.phases.iter().any(|mark| mark.phase == Phase::Forward));
    assert!(
        found
            .phases
            .iter()
            .all(|mark| mark.phase != Phase::Backward)
    );
    let peak = found.peak.unwrap();
    let held: Bytes = peak.categories.iter().map(|share| share.bytes).sum();
    assert_eq!(held, run.peak_allocated);
    let activations = peak
        .categories
        .iter()
        .find(|s| s.category == Category::Activation);
    assert!(activations.is_some_and(|share| share.bytes == share.inferred));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_loop_is_taken_for_steps_everywhere() {
    let server = Server::start().await;
    let run = plain(&server, "trainer_accumulation").await;
    let found = contents(&server, &run).await;
    assert!(found.phases.is_empty(), "a loop has steps");
    let chosen = found.levels.iter().find(|level| level.chosen).unwrap();
    assert_eq!((chosen.count, run.steps), (6, 6));
    for level in &found.levels {
        let asked = |path| routes::with_steps(path, Some(&level.key));
        let marks: Marks = server
            .get(&asked(routes::marks(&run.id, DeviceIdx(0))))
            .await
            .read();
        assert_eq!(marks.steps.len(), level.count as usize, "{}", level.key);
        let leaks: Leaks = server
            .get(&asked(routes::leaks(&run.id, DeviceIdx(0))))
            .await
            .read();
        assert_eq!(leaks.steps, level.count, "{}", level.key);
        let path = routes::growth(&run.id, DeviceIdx(0), Dimension::Stack);
        let growth: Growth = server.get(&asked(path)).await.read();
        let stepped = growth.moments.iter().filter(|moment| moment.step.is_some());
        assert_eq!(stepped.count(), level.count as usize, "{}", level.key);
        let first = marks.steps[0].events.start();
        let moment: Moment = server
            .get(&asked(routes::moment(&run.id, DeviceIdx(0), first)))
            .await
            .read();
        assert_eq!(moment.step.as_ref(), Some(&marks.steps[0].name));
    }
    // The words of the pages and of the command line do as well.
    for level in &found.levels {
        let server = &server;
        let [word, key] = [&level.label, &level.key].map(|name| {
            let path = routes::with_steps(routes::marks(&run.id, DeviceIdx(0)), Some(name));
            async move { server.get(&path).await.read::<Marks>() }
        });
        assert_eq!(word.await.steps, key.await.steps, "{}", level.label);
    }
    let unknown = routes::with_steps(routes::marks(&run.id, DeviceIdx(0)), Some("no.such"));
    let problem = server.get(&unknown).await.problem();
    assert_eq!(problem.status, 404);
    for level in &found.levels {
        let said = format!("{} ({})", level.label, level.key);
        assert!(problem.detail.contains(&said), "{}", problem.detail);
    }
    let unknown = routes::with_steps(
        routes::moment(&run.id, DeviceIdx(0), EventIdx(0)),
        Some("no.such"),
    );
    assert_eq!(server.get(&unknown).await.problem().status, 404);
}
