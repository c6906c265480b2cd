//! Tiles, marks, blocks and moments.

use super::{Answer, Server, request};
use api::ids::RunId;
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use api::timeline::{BlockDetail, Marks, Moment};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use trace::device::DeviceIdx;
use trace::tiles::{GroupBy, MountainTile, SeriesTile, TileId};
use trace::trace::{Action, BlockIdx, Series};
use trace::units::EventIdx;

async fn sample(server: &Server, name: &str) -> RunSummary {
    let answer = server.json(Method::POST, &routes::sample(name), "").await;
    answer.read::<FinishedUpload>().run
}

async fn get_coded(server: &Server, path: &str, accepted: &str) -> Answer {
    let request = request(Method::GET, path).header(header::ACCEPT_ENCODING, accepted);
    server
        .send(request.body(Body::empty()).unwrap())
        .await
        .expect(StatusCode::OK)
}

async fn series_tile(server: &Server, run: &RunId, id: TileId) -> SeriesTile {
    let answer = server
        .get(&routes::series_tile(run, DeviceIdx(0), id))
        .await
        .expect(StatusCode::OK);
    SeriesTile::decode(&answer.body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tiles_agree_with_the_summary_at_every_level() {
    let server = Server::start().await;
    let run = sample(&server, "plain_lm").await;
    let device = &run.devices[0];
    let whole = TileId::covering(0, u64::from(device.events));
    for level in [whole.level, whole.level + 1, 3, 0] {
        let tile = series_tile(&server, &run.id, TileId { level, index: 0 }).await;
        assert_eq!(tile.n_events, device.events);
        if level >= whole.level {
            let line = &tile.series[Series::Allocated as usize];
            let peak = line.iter().map(|extent| extent.max).max();
            assert_eq!(peak, Some(device.series[Series::Allocated as usize].peak));
        }
    }
    for group in GroupBy::ALL {
        let path = routes::mountain_tile(&run.id, DeviceIdx(0), group, whole);
        let answer = server.get(&path).await.expect(StatusCode::OK);
        let tile = MountainTile::decode(&answer.body).unwrap();
        assert_eq!(tile.group_by, group);
        assert!(!tile.groups.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_picture_needs_no_decoding() {
    let server = Server::start().await;
    let run = sample(&server, "plain_lm").await;
    let whole = TileId::covering(0, u64::from(run.devices[0].events));
    // Without its chunks a trace can no longer be decoded.
    server.app.pictures.traces.forget_all();
    let lost = server.app.store.write_now(|writer| writer.lose_chunks());
    assert!(lost.unwrap() > 0);
    for path in [
        routes::series_tile(&run.id, DeviceIdx(0), whole),
        routes::mountain_tile(&run.id, DeviceIdx(0), GroupBy::Stack, whole),
        routes::marks(&run.id, DeviceIdx(0)),
    ] {
        server.get(&path).await.expect(StatusCode::OK);
    }
    let finer = TileId { level: 0, index: 1 };
    let undecodable = server
        .get(&routes::series_tile(&run.id, DeviceIdx(0), finer))
        .await;
    undecodable.expect(StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_trace_draws_the_same_as_the_fresh_one() {
    let server = Server::start().await;
    let run = sample(&server, "streams").await;
    let fresh = series_tile(&server, &run.id, TileId { level: 0, index: 1 }).await;
    let moment = routes::moment(&run.id, DeviceIdx(0), EventIdx(77));
    let fresh_moment: Moment = server.get(&moment).await.read();
    server.app.pictures.traces.forget_all();
    let lost = server.app.store.write_now(|writer| writer.lose_tiles());
    assert!(lost.unwrap() > 0);
    assert_eq!(
        series_tile(&server, &run.id, TileId { level: 0, index: 1 }).await,
        fresh
    );
    assert_eq!(server.get(&moment).await.read::<Moment>(), fresh_moment);
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_are_packed_tagged_and_kept() {
    let server = Server::start().await;
    let run = sample(&server, "plain_lm").await;
    let path = routes::series_tile(&run.id, DeviceIdx(0), TileId { level: 4, index: 0 });
    let plain = get_coded(&server, &path, "identity").await;
    let zstd = get_coded(&server, &path, "gzip, deflate, br, zstd").await;
    let gzip = get_coded(&server, &path, "gzip").await;
    assert_eq!(zstd.headers[header::CONTENT_ENCODING], "zstd");
    assert_eq!(gzip.headers[header::CONTENT_ENCODING], "gzip");
    assert!(!plain.headers.contains_key(header::CONTENT_ENCODING));
    assert!(zstd::decode_all(&zstd.body[..]).unwrap() == plain.body);
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&gzip.body[..]);
    std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
    assert!(unpacked == plain.body);
    let cache = plain.headers[header::CACHE_CONTROL].to_str().unwrap();
    assert!(
        cache.contains("private") && cache.contains("immutable"),
        "{cache}"
    );

    let unless = async |path: &str, known: &str| {
        let again = request(Method::GET, path).header(header::IF_NONE_MATCH, known);
        let again = server.send(again.body(Body::empty()).unwrap()).await;
        (again.status, again.body.is_empty())
    };
    let known = plain.headers[header::ETAG].to_str().unwrap();
    for known in [known, known.trim_start_matches("W/"), "*"] {
        let expected = (StatusCode::NOT_MODIFIED, true);
        assert_eq!(unless(&path, known).await, expected, "{known}");
    }
    let none = path.replace(run.id.as_str(), "run_none");
    for path in [none, "/api/runs/run_none/devices/0/what-if".to_owned()] {
        let expected = (StatusCode::NOT_FOUND, false);
        assert_eq!(unless(&path, "*").await, expected, "{path}");
    }
    // An address without the version must be asked again each time.
    let bare = path.split('?').next().unwrap();
    let cache = server.get(bare).await.headers[header::CACHE_CONTROL].clone();
    assert_eq!(cache, "private, no-cache");
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_hold_steps_scopes_and_failures() {
    let server = Server::start().await;
    let run = sample(&server, "oom").await;
    let marks: Marks = server
        .get(&routes::marks(&run.id, DeviceIdx(0)))
        .await
        .read();
    assert_eq!(marks.steps.len(), run.steps as usize);
    assert!(!marks.annotations.is_empty());
    assert_eq!(marks.annotations_left_out, 0);
    let events: Vec<u32> = marks.ooms.iter().map(|oom| oom.event.0).collect();
    assert_eq!(events, run.devices[0].oom_events);
    let oom = &marks.ooms[0];
    assert_eq!(oom.size.get(), 125 << 20);
    assert!(
        marks
            .capacity
            .is_some_and(|capacity| Some(capacity) > oom.device_free)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_and_moments_tell_one_story() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await;
    let mut seen = 0;
    for event in 0..run.devices[0].events.min(60) {
        let path = routes::moment(&run.id, DeviceIdx(0), EventIdx(event));
        let moment: Moment = server.get(&path).await.read();
        if let (Action::Alloc, Some(block)) = (moment.action, moment.block) {
            let path = routes::block(&run.id, DeviceIdx(0), BlockIdx(block));
            let block: BlockDetail = server.get(&path).await.read();
            assert_eq!(block.alloc, Some((moment.event, moment.time)));
            assert_eq!(Some(block.addr), moment.addr);
            assert_eq!(block.size, moment.size);
            assert!(block.requested <= block.size);
            seen += 1;
        }
    }
    assert!(seen > 5);
    for path in [
        routes::block(&run.id, DeviceIdx(0), BlockIdx(u32::MAX)),
        routes::moment(&run.id, DeviceIdx(0), EventIdx(u32::MAX)),
        routes::moment(&run.id, DeviceIdx(7), EventIdx(0)),
    ] {
        assert_eq!(server.get(&path).await.problem().status, 404);
    }
}
