//! Verdicts, growth, what is alive, what was allocated and freed, and lists of allocations.

use super::{Answer, Server, request};
use crate::limits::answering::Refused;
use crate::problems::Error;
use api::alive::{Alive, AllocationFilter, AllocationPage, Changes, Growth, GrowthBand, Sort};
use api::ids::RunId;
use api::leaks::Verdict;
use api::leaks::{Leaks, Pattern};
use api::memory_map::{MemoryMap, RoomOverTime};
use api::problem::ProblemCode;
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use api::timeline::{BlockDetail, Moment};
use api::what_if::{Conditions, WhatIfDrawn};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::json;
use trace::alive::Dimension;
use trace::device::DeviceIdx;
use trace::trace::{BlockIdx, Series};
use trace::units::{Bytes, EventIdx};

async fn sample(server: &Server, name: &str) -> RunSummary {
    let answer = server.json(Method::POST, &routes::sample(name), "").await;
    answer.read::<FinishedUpload>().run
}

async fn ok(server: &Server, path: &str) -> Answer {
    server.get(path).await.expect(StatusCode::OK)
}

async fn growth(server: &Server, run: &RunId, by: Dimension) -> Growth {
    ok(server, &routes::growth(run, DeviceIdx(0), by))
        .await
        .read()
}

async fn allocations(server: &Server, run: &RunId, filter: &AllocationFilter) -> AllocationPage {
    ok(
        server,
        &routes::allocations(run, DeviceIdx(0), filter, 0, 500),
    )
    .await
    .read()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_arrives_with_its_verdict() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await;
    let found = run.leaks.expect("a small run is judged while it is stored");
    assert_eq!(found.verdict, Verdict::Leak);
    assert_eq!(found.bytes_per_step, Bytes::mib(8));

    let leaks: Leaks = ok(&server, &routes::leaks(&run.id, DeviceIdx(0)))
        .await
        .read();
    assert_eq!((leaks.verdict, leaks.steps), (Verdict::Leak, 12));
    assert!(leaks.reason.contains("8.00 MiB a step"), "{}", leaks.reason);
    let group = &leaks.groups[0];
    let frame = group.frame.as_ref().expect("it has a stack");
    assert_eq!(frame.name, "save_activation_hook");
    assert_eq!(group.pattern, Pattern::EveryStep);
    assert_eq!(group.bytes_per_step, f64::from(8 << 20));

    // The evidence of a leak is the same as the list of the site's allocations.
    let filter = AllocationFilter {
        site: Some(group.site.clone()),
        older: Some(1),
        ..AllocationFilter::default()
    };
    let list = allocations(&server, &run.id, &filter).await;
    let listed: Vec<u32> = list.items.iter().map(|row| row.block).collect();
    assert_eq!(
        listed[..group.evidence.len() - 1],
        group.evidence[..group.evidence.len() - 1]
    );
    assert!(
        list.items
            .iter()
            .all(|row| row.label.contains("save_activation_hook"))
    );
    let steps: Vec<_> = list.items.iter().map(|row| row.step.clone()).collect();
    assert!(
        steps.windows(2).all(|w| w[0] != w[1]),
        "one in each step: {steps:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fix_is_clean_and_what_it_fixes_is_not() {
    let server = Server::start().await;
    let verdict = async |name| {
        let run = sample(&server, name).await;
        let leaks: Leaks = ok(&server, &routes::leaks(&run.id, DeviceIdx(0)))
            .await
            .read();
        let function = leaks.groups.first().and_then(|g| g.frame.clone());
        (leaks.verdict, function.map(|frame| frame.name))
    };
    let unpack = Some("unpack_tensor_with_streams".to_owned());
    assert_eq!(verdict("off_v1_moe").await, (Verdict::Leak, unpack));
    assert_eq!(verdict("off_v3_moe").await, (Verdict::Clean, None));
    assert_eq!(verdict("plain_lm").await, (Verdict::Clean, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_judged_is_judged_when_somebody_asks() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await;
    let forget = |w: &mut crate::store::Writer| w.forget_verdicts();
    assert_eq!(server.app.store.write(forget).await.unwrap(), 1);
    let listed: Vec<RunSummary> = server.get(routes::RUNS).await.read();
    assert_eq!(listed[0].leaks, None);
    let leaks: Leaks = ok(&server, &routes::leaks(&run.id, DeviceIdx(0)))
        .await
        .read();
    assert_eq!(leaks.verdict, Verdict::Leak);
    let listed: Vec<RunSummary> = server.get(routes::RUNS).await.read();
    assert!(listed[0].leaks.is_some(), "and then it is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn bands_sum_to_allocated_and_the_leak_has_one() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await;
    let leaks: Leaks = ok(&server, &routes::leaks(&run.id, DeviceIdx(0)))
        .await
        .read();
    for by in Dimension::ALL {
        let growth = growth(&server, &run.id, by).await;
        assert_eq!(growth.moments.len(), 12);
        for (i, moment) in growth.moments.iter().enumerate() {
            let sum: u64 = growth.bands.iter().map(|band| band.bytes[i]).sum();
            let path = routes::moment(&run.id, DeviceIdx(0), moment.event);
            let at: Moment = ok(&server, &path).await.read();
            assert_eq!(Bytes(sum), at.levels.get(Series::Allocated), "{by:?} {i}");
        }
    }
    let growth = growth(&server, &run.id, Dimension::Site).await;
    let band = &growth.bands[0];
    assert_eq!(band.key, leaks.groups[0].site, "what leaks comes first");
    assert!(band.bytes.windows(2).all(|w| w[1] - w[0] == 8 << 20));
    assert_eq!(band.counts[11], 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_band_of_any_kind_leads_to_its_allocations() {
    let server = Server::start().await;
    let run = sample(&server, "off_v1_moe").await;
    for by in Dimension::ALL {
        let growth = growth(&server, &run.id, by).await;
        let last = growth.moments.last().map(|moment| moment.event.0);
        for band in growth.bands.iter().filter(|band| !band.key.is_empty()) {
            let site = (by == Dimension::Site).then(|| band.key.clone());
            let filter = AllocationFilter {
                of: site
                    .is_none()
                    .then(|| format!("{}:{}", by.name(), band.key)),
                site,
                alive: last,
                ..AllocationFilter::default()
            };
            let found = allocations(&server, &run.id, &filter).await.total;
            let found = (Some(found.count), Some(found.bytes.get()));
            let shown = (band.counts.last().copied(), band.bytes.last().copied());
            assert_eq!(found, shown, "{by:?} {}", band.label);
        }
        let backward = |band: &GrowthBand| band.inferred && band.label.starts_with("backward of");
        let places = !matches!(
            by,
            Dimension::Category | Dimension::Stream | Dimension::Pool
        );
        assert_eq!(growth.bands.iter().any(backward), places, "{by:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_alive_and_what_changed_agree() {
    let server = Server::start().await;
    let run = sample(&server, "off_v1_moe").await;
    let moments = growth(&server, &run.id, Dimension::Stack).await.moments;
    let (from, to) = (moments[2].event, moments[3].event);
    let alive = async |at: EventIdx, by| -> Alive {
        ok(&server, &routes::alive(&run.id, DeviceIdx(0), at, by))
            .await
            .read()
    };
    let (before, after) = (
        alive(from, Dimension::Stack).await,
        alive(to, Dimension::Module).await,
    );
    assert_eq!(
        before.total.bytes,
        before.groups.iter().map(|g| g.tally.bytes).sum()
    );
    assert_eq!(after.tree[0].tally, after.total);
    let path = routes::changes(&run.id, DeviceIdx(0), (from, to), Dimension::Stack);
    let changes: Changes = ok(&server, &path).await.read();
    assert_eq!(changes.allocated_from, before.total.bytes);
    assert_eq!(changes.allocated_to, after.total.bytes);
    let (came, went) = (changes.came.total, changes.went.total);
    assert_eq!(
        changes.allocated_from + came.bytes,
        changes.allocated_to + went.bytes
    );
    assert!(changes.passed.count > 0);
    let inferred = alive(EventIdx(to.0 - 400), Dimension::Stack).await.groups;
    assert!(
        inferred
            .iter()
            .any(|g| g.inferred && g.label.starts_with("backward of ")),
        "backward allocations have no stack of their own"
    );
}

/// Without history, the last moment is the state itself. What waits for other streams is not
/// allocated, but still in its place. An event that is named must be there.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_alone_is_asked_what_is_alive() {
    let server = Server::start().await;
    let block =
        |size: u64, state: &str| json!({ "size": size, "requested_size": size, "state": state });
    let blocks = [
        block(4096, "active_allocated"),
        block(1024, "active_pending_free"),
        block((2 << 20) - 5120, "inactive"),
    ];
    let segment = json!({ "device": 0, "address": 0x7f00_0000_0000_u64, "total_size": 2 << 20,
        "allocated_size": 4096, "active_size": 5120, "stream": 0, "segment_type": "small",
        "blocks": blocks });
    let state = json!({ "segments": [segment], "device_traces": [[]] }).to_string();
    let answer = server
        .put("/api/upload/state.json", state.into_bytes())
        .await;
    let run = answer
        .expect(StatusCode::CREATED)
        .read::<FinishedUpload>()
        .run;
    for by in Dimension::ALL {
        let path = format!("/api/runs/{}/devices/0/alive?by={}", run.id, by.name());
        let alive: Alive = ok(&server, &path).await.read();
        assert_eq!((alive.event, alive.step), (None, None));
        assert_eq!(
            (alive.total.count, alive.total.bytes),
            (1, Bytes(4096)),
            "{by:?}"
        );
        assert_eq!(alive.tree[0].tally, alive.total);
    }
    let map: MemoryMap = ok(&server, &routes::memory_map(&run.id, DeviceIdx(0), None))
        .await
        .read();
    assert_eq!((map.event, map.step), (None, None));
    let [pool] = &map.pools.expect("its segments are there")[..] else {
        panic!("one pool");
    };
    let held = (pool.reserved, pool.used, pool.split);
    assert_eq!(held, (Bytes::mib(2), Bytes(5120), Bytes((2 << 20) - 5120)));
    assert_eq!(pool.segments[0].sizes, [Bytes(4096), Bytes(1024)]);
    assert_eq!(pool.segments[0].pending, [1]);
    let named = routes::memory_map(&run.id, DeviceIdx(0), EventIdx(0));
    server.get(&named).await.expect(StatusCode::NOT_FOUND);
    let named = server
        .get(&format!("/api/runs/{}/devices/0/alive?at=0", run.id))
        .await;
    assert_eq!(named.problem().code, ProblemCode::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_holds_what_is_reserved_and_active() {
    let server = Server::start().await;
    let run = sample(&server, "streams").await.id;
    let mut any_waits = false;
    for at in (0..6000).step_by(500).map(EventIdx) {
        let map: MemoryMap = ok(&server, &routes::memory_map(&run, DeviceIdx(0), at))
            .await
            .read();
        let pools = map.pools.expect("no segment is missing");
        let moment: Moment = ok(&server, &routes::moment(&run, DeviceIdx(0), at))
            .await
            .read();
        let reserved: Bytes = pools.iter().map(|pool| pool.reserved).sum();
        let used: Bytes = pools.iter().map(|pool| pool.used).sum();
        assert_eq!(reserved, moment.levels.get(Series::Reserved), "{at}");
        assert_eq!(used, moment.levels.get(Series::Active), "{at}");
        for segment in pools.iter().flat_map(|pool| &pool.segments) {
            let ends = segment.offsets.iter().zip(&segment.sizes);
            let ends = ends.map(|(offset, size)| *offset + *size);
            let next = segment.offsets.iter().skip(1).chain([&segment.size]);
            assert!(ends.zip(next).all(|(end, next)| end <= *next), "{at}");
            any_waits |= !segment.pending.is_empty();
        }
    }
    assert!(any_waits, "some block waits for another stream");
    let beyond = routes::memory_map(&run, DeviceIdx(0), EventIdx(4_000_000_000));
    server.get(&beyond).await.expect(StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn room_over_time_is_what_the_maps_of_its_moments_say() {
    let server = Server::start().await;
    let run = sample(&server, "streams").await.id;
    let route = routes::room_over_time(&run, DeviceIdx(0));
    let rooms: RoomOverTime = ok(&server, &route).await.read();
    assert!(rooms.events.len() > 100 && rooms.events.is_sorted());
    assert!(rooms.waiting.iter().any(|bytes| *bytes > Bytes::ZERO));
    for moment in (0..rooms.events.len()).step_by(40) {
        let at = rooms.events[moment];
        let map: MemoryMap = ok(&server, &routes::memory_map(&run, DeviceIdx(0), at))
            .await
            .read();
        let pools = map.pools.expect("no segment is missing");
        let sum = |of: fn(&api::memory_map::PoolMap) -> Bytes| pools.iter().map(of).sum::<Bytes>();
        assert_eq!(rooms.reserved[moment], sum(|pool| pool.reserved), "{at}");
        assert_eq!(rooms.used[moment], sum(|pool| pool.used), "{at}");
        let segments = pools.iter().flat_map(|pool| &pool.segments);
        let waits = segments.flat_map(|s| s.pending.iter().map(|&block| s.sizes[block as usize]));
        assert_eq!(rooms.waiting[moment], waits.sum(), "{at}");
        assert_eq!(rooms.cached[moment], sum(|pool| pool.cached), "{at}");
        assert_eq!(rooms.split[moment], sum(|pool| pool.split), "{at}");
        let gaps = pools.iter().map(|pool| pool.largest_gap);
        assert_eq!(Some(rooms.largest_gap[moment]), gaps.max(), "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn allocations_are_filtered_sorted_and_paged() {
    let server = Server::start().await;
    let run = sample(&server, "plain_lm").await;
    let all = AllocationFilter::default();
    let first = allocations(&server, &run.id, &all).await;
    let path = routes::allocations(&run.id, DeviceIdx(0), &all, 3, 2);
    let page: AllocationPage = ok(&server, &path).await.read();
    assert_eq!(page.items, first.items[3..5]);
    assert_eq!(page.total.count, u64::from(run.devices[0].blocks));

    let large = AllocationFilter {
        min: Some(4 << 20),
        pool: Some("large".to_owned()),
        born: Some(2),
        until: Some(3),
        q: "FORWARD".to_owned(),
        sort: Sort::Largest,
        ..AllocationFilter::default()
    };
    let found = allocations(&server, &run.id, &large).await;
    assert!(!found.items.is_empty());
    assert!(found.items.windows(2).all(|w| w[0].size >= w[1].size));
    for row in &found.items {
        let path = routes::block(&run.id, DeviceIdx(0), BlockIdx(row.block));
        let block: BlockDetail = ok(&server, &path).await.read();
        assert!(block.size >= Bytes::mib(4));
        let named = |f: &api::frames::FrameText| f.name.contains("forward");
        assert!(block.alloc_stack.iter().any(named));
    }
    let block = found.items[0].block;
    let path = routes::beside(&run.id, DeviceIdx(0), BlockIdx(block));
    let beside: AllocationPage = ok(&server, &path).await.read();
    assert!(beside.items.iter().any(|row| row.block == block) && beside.items.len() > 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_that_make_no_sense_are_refused() {
    let server = Server::start().await;
    let run = sample(&server, "streams").await.id;
    let device = format!("/api/runs/{run}/devices/0");
    let check = async |path: &str, status: u16, code| {
        let problem = server.get(path).await.problem();
        assert_eq!((problem.status, problem.code), (status, code), "{path}");
    };
    use ProblemCode::{BadRequest, NotFound};
    for path in [
        "alive?by=colour",
        "alive?at=x",
        "changes?from=9&to=3",
        "changes?from=9",
        "growth?by=",
        "allocations?pool=blue",
        "allocations?site=here",
        "allocations?of=module",
        "allocations?of=colour:red",
        "allocations?min=-1",
        "allocations?alive=99999999",
        "allocations?limit=0",
    ] {
        check(&format!("{device}/{path}"), 400, BadRequest).await;
    }
    for path in [
        "alive?at=99999999",
        "changes?from=0&to=99999999",
        "blocks/99999999/beside",
    ] {
        check(&format!("{device}/{path}"), 404, NotFound).await;
    }
    check(&format!("/api/runs/{run}/devices/7/leaks"), 404, NotFound).await;
    check(
        "/api/runs/run_0000000000000000/devices/0/leaks",
        404,
        NotFound,
    )
    .await;
}

/// What the page offers to leave out where the peak is before the first event.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_there_at_the_start_is_listed_and_can_be_left_out() {
    let server = Server::start().await;
    let run = sample(&server, "off_v1_moe").await;
    let allocated = run.devices[0].series[Series::Allocated as usize];
    let path = routes::alive_at_start(&run.id, DeviceIdx(0), Dimension::Site);
    let there: Alive = ok(&server, &path).await.read();
    assert_eq!((there.event, there.step), (None, None));
    assert_eq!(there.total.bytes, allocated.start);
    assert!(there.total.bytes > Bytes::ZERO);
    let at_end = routes::alive(&run.id, DeviceIdx(0), None, Dimension::Site);
    let at_end: Alive = ok(&server, &at_end).await.read();
    assert_ne!(there.total, at_end.total, "another moment, another answer");
    let mut conditions = Conditions::default();
    conditions.toggle(&there.groups[0].key);
    let path = routes::what_if(&run.id, DeviceIdx(0), &conditions);
    let answer: WhatIfDrawn = ok(&server, &path).await.read();
    let gone = answer.answer.otherwise.gone;
    assert!(gone >= there.groups[0].tally.count, "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_asked_for_once() {
    let server = Server::start().await;
    let run = sample(&server, "plain_lm").await.id;
    let all = AllocationFilter::default();
    for path in [
        routes::leaks(&run, DeviceIdx(0)),
        routes::growth(&run, DeviceIdx(0), Dimension::Site),
        routes::alive(&run, DeviceIdx(0), EventIdx(99), Dimension::File),
        routes::changes(
            &run,
            DeviceIdx(0),
            (EventIdx(5), EventIdx(99)),
            Dimension::Pool,
        ),
        routes::allocations(&run, DeviceIdx(0), &all, 0, 10),
        routes::beside(&run, DeviceIdx(0), BlockIdx(40)),
    ] {
        let first = ok(&server, &path).await;
        let etag = first.headers[header::ETAG].clone();
        let again = request(Method::GET, &path).header(header::IF_NONE_MATCH, etag);
        let again = server.send(again.body(Body::empty()).unwrap()).await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{path}");
    }
    let kept = ok(&server, &routes::leaks(&run, DeviceIdx(0))).await;
    let control = kept.headers[header::CACHE_CONTROL].to_str().unwrap();
    assert!(control.contains("immutable"), "{control}");
}

#[test]
fn a_client_that_leaves_is_no_defect_of_the_server() {
    let left = Error::from(Refused::NobodyWaits).problem();
    assert_eq!((left.code, left.status), (ProblemCode::Cancelled, 409));
}
