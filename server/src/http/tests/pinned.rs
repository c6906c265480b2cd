//! Pinned memory of the host, beside the devices.

use super::Server;
use api::leaks::{Leaks, Verdict};
use api::problem::Problem;
use api::routes;
use api::runs::{FinishedUpload, RunDetail, RunSummary};
use api::timeline::Marks;
use api::what_if::Conditions;
use axum::http::StatusCode;
use trace::device::DeviceIdx;
use trace::tiles::{SeriesTile, TileId};
use trace::trace::Series;
use trace::units::Bytes;

const LEAK: &[u8] = include_bytes!("../../../../tests/fixtures/pinned_leak.pickle.zst");

async fn leaking(server: &Server) -> RunSummary {
    let path = routes::upload_named("pinned.pickle.zst");
    server
        .put(&path, LEAK.to_vec())
        .await
        .read::<FinishedUpload>()
        .run
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_memory_is_beside_the_devices_and_in_none_of_their_numbers() {
    let server = Server::start().await;
    let run = leaking(&server).await;
    let detail: RunDetail = server.get(&routes::run(&run.id)).await.read();
    let [device] = &detail.summary.devices[..] else {
        panic!("one device: {:?}", detail.summary.devices);
    };
    let peak = device.series[Series::Allocated as usize].peak;
    assert_eq!(detail.summary.peak_allocated, peak);
    let pinned = detail.summary.pinned.expect("pinned memory");
    assert_eq!(pinned.device, DeviceIdx::PINNED);
    let end = |series: Series| pinned.series[series as usize].end;
    assert_eq!(end(Series::Allocated), Bytes(16_777_216));
    assert_eq!(end(Series::Reserved), Bytes(51_380_224));
    assert_eq!(pinned.steps, device.steps);

    let tile = |device| routes::series_tile(&run.id, device, TileId { level: 1, index: 0 });
    let beside = server
        .get(&tile(device.device))
        .await
        .expect(StatusCode::OK);
    let line = SeriesTile::decode(&beside.body).unwrap().pinned;
    let line = line.expect("a line beside the device").line;
    assert_eq!(line.last().unwrap().last, Bytes(16_777_216));
    let own = server
        .get(&tile(DeviceIdx::PINNED))
        .await
        .expect(StatusCode::OK);
    assert_eq!(SeriesTile::decode(&own.body).unwrap().pinned, None);

    let marks =
        async |device| -> Marks { server.get(&routes::marks(&run.id, device)).await.read() };
    let stays = marks(device.device).await.stays;
    assert_eq!(stays.iter().filter(|stay| stay.until.is_none()).count(), 8);
    assert_eq!(marks(DeviceIdx::PINNED).await.stays, []);

    let leaks: Leaks = server
        .get(&routes::leaks(&run.id, DeviceIdx::PINNED))
        .await
        .read();
    assert_eq!(leaks.verdict, Verdict::Leak, "{}", leaks.reason);
    assert_eq!(leaks.groups[0].bytes_per_step, f64::from(2 << 20));
    let of_device: Leaks = server
        .get(&routes::leaks(&run.id, DeviceIdx(0)))
        .await
        .read();
    let of_run = detail.summary.leaks.expect("a small run is judged at once");
    assert_ne!(of_device.verdict, Verdict::Leak, "no device leaks");
    assert_eq!(
        (of_run.verdict, of_run.device),
        (Verdict::Leak, DeviceIdx::PINNED)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_of_a_view_of_pinned_memory_is_about_it() {
    let server = Server::start().await;
    let run = leaking(&server).await;
    let text = async |format: &str, device: DeviceIdx| {
        let path = format!("{}?v=2&dev={device}", routes::card(&run.id, format));
        let answer = server.get(&path).await.expect(StatusCode::OK);
        String::from_utf8(answer.body.to_vec()).unwrap()
    };
    for (device, of, peak) in [
        (DeviceIdx(0), "GPU memory", "| end | 137 MiB | 192 MiB |"),
        (
            DeviceIdx::PINNED,
            "Pinned host memory",
            "| end | 16.0 MiB | 49.0 MiB |",
        ),
    ] {
        let block = text("md", device).await;
        assert!(block.starts_with(&format!("### {of}: ")), "{block}");
        assert!(block.contains(peak), "{block}");
    }
    let pinned = text("svg", DeviceIdx::PINNED).await;
    assert!(pinned.contains("pinned host memory"), "{pinned}");
    let device = text("svg", DeviceIdx(0)).await;
    assert!(device.contains("Leak in pinned host memory"), "{device}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_replayed_for_pinned_memory() {
    let server = Server::start().await;
    let run = leaking(&server).await;
    let path = routes::what_if(&run.id, DeviceIdx::PINNED, &Conditions::default());
    let refused = server.get(&path).await.expect(StatusCode::BAD_REQUEST);
    let problem: Problem = refused.read();
    assert!(
        problem.detail.contains("pinned host memory"),
        "{}",
        problem.detail
    );
}
