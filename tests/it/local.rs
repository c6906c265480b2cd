//! The server in the browser gives the answers of the real server, at every address that the page
//! asks.

use api::alive::AllocationFilter;
use api::compare::CurvesWanted;
use api::ids::RunId;
use api::routes;
use api::what_if::Conditions;
use local::{Local, Request, Response};
use serde_json::{Value, json};
use std::fs;
use tests::{TestServer, workspace_root};
use trace::alive::Dimension;
use trace::compare::curves::Align;
use trace::device::DeviceIdx;
use trace::tiles::{GroupBy, TileId};
use trace::trace::{BlockIdx, Series};
use trace::units::EventIdx;

/// Recordings that differ in what they hold: a leak, a failed allocation, two streams, few steps,
/// pinned memory of the host.
const FIXTURES: [&str; 6] = [
    "leak_hook_cache",
    "pinned_leak",
    "oom",
    "streams",
    "off_v1_moe",
    "off_v3_moe",
];

/// The functions of `api::routes` that are answered otherwise without a server, or not asked there.
const OTHERWISE: [&str; 49] = [
    "project",
    "project_members",
    "project_member",
    "project_page",
    "project_members_page",
    "project_plan_page",
    "enter_project",
    "session",
    "person",
    "token",
    "categories_page",
    "labels_page",
    "save_view_page",
    "view_badge",
    "forget_view_page",
    "live_page",
    "live_capture_page",
    "delete_live_page",
    "history_page",
    "pull_page",
    "sign_in_page",
    "end_token_page",
    "end_session_page",
    "person_page",
    "person_token_page",
    "upload_named",
    "upload_into",
    "job_with_runs",
    "job_page",
    "upload_events",
    "sample",
    "runs_with",
    "history",
    "before",
    "labelled",
    "run_labels",
    "run_page",
    "bench",
    "bench_cancel",
    "bench_row_cancel",
    "bench_row_rerun",
    "run_export",
    "bench_row_tensors",
    "comparison",
    "compare_page",
    "shares_of",
    "share",
    "revoke_share",
    "for_link",
];

/// What has no place of its own in the lists of this file.
const REST: [&str; 16] = [
    "job_labels",
    "redaction_preview",
    "share_page",
    "card",
    "compare_card",
    "markdown",
    "share_card",
    "upload",
    "run_restore",
    "run_alone",
    "job",
    "job_sites",
    "job_curve",
    "with_steps",
    "of_device",
    "with",
];

fn file(name: &str) -> Vec<u8> {
    let path = workspace_root().join(format!("tests/fixtures/{name}.pickle.zst"));
    fs::read(path).expect("a fixture")
}

fn get(path: &str) -> Request {
    Request {
        method: "GET".to_owned(),
        path: path.to_owned(),
        accept: "application/json, */*;q=0.5".to_owned(),
        origin: "http://here".to_owned(),
        now_ms: 1,
        ..Request::default()
    }
}

fn sent(method: &str, path: &str, body: &Value) -> Request {
    Request {
        method: method.to_owned(),
        body: body.to_string(),
        ..get(path)
    }
}

fn document(response: &Response) -> Value {
    let text = String::from_utf8_lossy(&response.body);
    serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{error}: {text:.300}"))
}

/// Opens a file as the page does: announced, sent in pieces, ended.
fn open(local: &mut Local, name: &str, bytes: &[u8], place: &Value) -> Response {
    let mut body = json!({ "name": name, "size": bytes.len() });
    for (key, value) in place.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    let announced = local.answer(&sent("POST", routes::UPLOADS, &body));
    assert_eq!(announced.status, 201);
    let upload = document(&announced)["upload"]
        .as_str()
        .expect("an id")
        .to_owned();
    if let Err(refused) = local.begin(&upload) {
        return refused;
    }
    for piece in bytes.chunks(100_000) {
        if let Err(refused) = local.push(&upload, piece) {
            return refused;
        }
    }
    if let Err(refused) = local.replay(&upload) {
        return refused;
    }
    local.finish(&upload, &get(""))
}

/// Both servers, with the same files open.
struct Both {
    server: TestServer,
    local: Local,
}

impl Both {
    fn with(names: &[&str]) -> (Both, Vec<RunId>) {
        let server = TestServer::start();
        let mut local = Local::new();
        let mut runs = Vec::new();
        for name in names {
            let (bytes, file) = (file(name), format!("{name}.pickle.zst"));
            let answer = ureq::put(server.url(&routes::upload_named(&file)))
                .send(&bytes[..])
                .expect("the server takes it");
            let real: Value = parsed(answer);
            let opened = document(&open(&mut local, &file, &bytes, &json!({})));
            assert_eq!(
                opened["run"]["id"], real["run"]["id"],
                "equal bytes, equal ids"
            );
            let id = real["run"]["id"].as_str().expect("an id");
            runs.push(id.parse().expect("an id"));
        }
        (Both { server, local }, runs)
    }

    /// Asks both, and compares what they say; times of arrival differ.
    fn ask(&mut self, path: &str) -> Value {
        let answer = ureq::get(self.server.url(path))
            .header("Accept", "application/json")
            .config()
            .http_status_as_error(false)
            .build()
            .call()
            .expect("the server answers");
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        let bytes = body
            .with_config()
            .limit(64 << 20)
            .read_to_vec()
            .expect("a body");
        let mine = self.local.answer(&get(path));
        assert_eq!(mine.status, status, "{path}");
        if let Ok(mut real) = serde_json::from_slice::<Value>(&bytes) {
            let mut mine = document(&mine);
            without_times(&mut real);
            without_times(&mut mine);
            assert!(mine == real, "{path}:\n{mine:.600}\n{real:.600}");
            return mine;
        }
        assert!(mine.body == bytes, "{path}: {} bytes differ", bytes.len());
        Value::Null
    }
}

fn parsed(answer: ureq::http::Response<ureq::Body>) -> Value {
    let text = answer.into_body().read_to_string().expect("a body");
    serde_json::from_str(&text).expect("a document")
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("created_ms");
            fields.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// What a run tells of its devices, and of the host's pinned memory, if that was recorded.
fn recorded(detail: &Value) -> impl Iterator<Item = &Value> {
    let devices = detail["devices"].as_array().into_iter().flatten();
    devices.chain(detail.get("pinned").filter(|pinned| !pinned.is_null()))
}

/// Questions about a device that cannot be read, or that ask for what is not there.
const MISASKED: [&str; 39] = [
    "blocks/268435456",
    "blocks/268435456/beside",
    "events/268435456",
    "blocks/x",
    "blocks/-1/beside",
    "events/1.5",
    "series/x/0",
    "series/300/0",
    "series/99/0",
    "series/0/4294967296",
    "mountain/stack/x/0",
    "series/0/0?v=x",
    "mountain/stack/0/0?v=x",
    "marks?v=x",
    "contents?v=-1",
    "leaks?v=",
    "alive?at=early",
    "alive?at=",
    "alive?at=-1",
    "alive?at=4294967296",
    "alive?at=268435456",
    "alive?at=1&at=2",
    "alive?at=early&start=true",
    "alive?start=maybe",
    "alive?by=colour",
    "growth?by=colour",
    "memory-map?at=1.5",
    "changes?from=3",
    "changes?to=3",
    "changes?from=3&to=later",
    "changes?from=2&to=1",
    "allocations?limit=0",
    "allocations?offset=-1",
    "allocations?min=1GiB",
    "allocations?sort=smallest",
    "allocations?pool=medium",
    "what-if?limit=much",
    "what-if?without_leaks=perhaps",
    "leaks?steps=nothing",
];

/// The addresses of a run that the page asks, each with the name of its function in `api::routes`.
fn asked_of(run: &RunId, detail: &Value) -> Vec<(&'static str, String)> {
    let mut asked = vec![("run", routes::run(run))];
    for device in recorded(detail) {
        let n = device["device"].as_u64().expect("a number") as u32;
        let events = device["events"].as_u64().expect("a number");
        let whole = TileId::covering(0, events);
        let part = TileId::covering(events / 3, events / 2);
        let (from, to) = (EventIdx(events as u32 / 3), EventIdx(events as u32 / 2));
        let filter = AllocationFilter {
            min: Some(1 << 20),
            ..AllocationFilter::default()
        };
        let smaller = Conditions {
            limit: Some("1GiB".to_owned()),
            ..Conditions::default()
        };
        asked.extend([
            ("series_tile", routes::series_tile(run, DeviceIdx(n), whole)),
            ("series_tile", routes::series_tile(run, DeviceIdx(n), part)),
            ("marks", routes::marks(run, DeviceIdx(n))),
            ("contents", routes::contents(run, DeviceIdx(n))),
            ("block", routes::block(run, DeviceIdx(n), BlockIdx(0))),
            ("beside", routes::beside(run, DeviceIdx(n), BlockIdx(0))),
            ("explain", routes::explain(run, DeviceIdx(n), None)),
            (
                "explain_under",
                routes::explain_under(run, DeviceIdx(n), "1GiB"),
            ),
            ("moment", routes::moment(run, DeviceIdx(n), from)),
            ("leaks", routes::leaks(run, DeviceIdx(n))),
            ("memory_map", routes::memory_map(run, DeviceIdx(n), to)),
            ("room_over_time", routes::room_over_time(run, DeviceIdx(n))),
            ("what_if", routes::what_if(run, DeviceIdx(n), &smaller)),
            (
                "allocations",
                routes::allocations(run, DeviceIdx(n), &filter, 0, 50),
            ),
            (
                "allocations",
                routes::allocations(run, DeviceIdx(n), &AllocationFilter::default(), 7, 9),
            ),
        ]);
        for group in GroupBy::ALL {
            asked.push((
                "mountain_tile",
                routes::mountain_tile(run, DeviceIdx(n), group, whole),
            ));
        }
        for by in Dimension::ALL {
            asked.push(("growth", routes::growth(run, DeviceIdx(n), by)));
            asked.push(("alive", routes::alive(run, DeviceIdx(n), from, by)));
            asked.push((
                "alive_at_start",
                routes::alive_at_start(run, DeviceIdx(n), by),
            ));
            asked.push((
                "changes",
                routes::changes(run, DeviceIdx(n), (from, to), by),
            ));
        }
    }
    asked
}

#[test]
fn every_question_about_a_run_is_answered_as_by_the_server() {
    let (mut both, runs) = Both::with(&FIXTURES);
    for run in &runs {
        let detail = both.ask(&routes::run(run));
        for (_, path) in asked_of(run, &detail) {
            both.ask(&path);
        }
        for device in recorded(&detail) {
            let of_device = format!("{}/devices/{}", routes::run(run), device["device"]);
            for question in MISASKED {
                let refused = both.ask(&format!("{of_device}/{question}"));
                assert!(refused["detail"].is_string(), "{question}: {refused}");
            }
        }
        for device in ["x", "-1", "4294967296"] {
            for question in ["marks", "alive", "series/0/0", "what-if"] {
                both.ask(&format!("{}/devices/{device}/{question}", routes::run(run)));
            }
        }
        for question in ["explain?device=first", "explain?limit=much"] {
            both.ask(&format!("{}/{question}", routes::run(run)));
        }
        // The iterations of another loop as the steps.
        let contents = both.ask(&routes::contents(run, DeviceIdx(0)));
        for level in contents["levels"].as_array().into_iter().flatten() {
            let by_word =
                routes::with_steps(routes::marks(run, DeviceIdx(0)), level["label"].as_str());
            both.ask(&by_word);
            let level = level["key"].as_str();
            for path in [
                routes::marks(run, DeviceIdx(0)),
                routes::leaks(run, DeviceIdx(0)),
                routes::growth(run, DeviceIdx(0), Dimension::Site),
                routes::explain(run, DeviceIdx(0), None),
            ] {
                both.ask(&routes::with_steps(path, level));
            }
        }
        both.ask(&format!("{}&steps=none", routes::leaks(run, DeviceIdx(0))));
    }
    both.ask(&api::page::from(routes::RUNS, 0));
}

#[test]
fn comparisons_are_those_of_the_server() {
    let (mut both, runs) = Both::with(&["off_v1_moe", "off_v3_moe", "leak_hook_cache"]);
    both.ask(&routes::compare(&runs));
    both.ask(&routes::compare(&runs[..1]));
    let wanted = CurvesWanted {
        align: Align::Step,
        series: Series::Reserved,
        pair: 0,
        window: None,
        parts: 0,
    };
    let malformed = [
        routes::compare(&[]).replace("?runs=", ""),
        routes::compare_curves(&runs, &wanted),
        format!("{}&from=a", routes::compare_curves(&runs, &wanted)),
    ];
    for path in malformed {
        both.ask(&path);
    }
    for align in [Align::Step, Align::Event, Align::Time] {
        for window in [None, Some((1.0, 3.0))] {
            let wanted = CurvesWanted {
                align,
                series: Series::Reserved,
                pair: 0,
                window,
                parts: 300,
            };
            both.ask(&routes::compare_curves(&runs, &wanted));
        }
    }
}

/// Blocks of Markdown say the same; a tab has no picture and no page that others could open.
#[test]
fn cards_say_what_those_of_the_server_say() {
    let (mut both, runs) = Both::with(&["off_v1_moe", "oom"]);
    let paths = [
        routes::card_markdown(&runs[0], "v=1", None, true),
        routes::card_markdown(&runs[1], "v=1", None, false),
        routes::compare_markdown(&format!("v=1&runs={},{}", runs[0], runs[1]), None, true),
    ];
    for path in paths {
        let real = ureq::get(both.server.url(&path)).call().expect("a card");
        let real = real.into_body().read_to_string().expect("a text");
        let kept = real.lines().filter(|line| !line.starts_with('['));
        let real = kept.collect::<Vec<_>>().join("\n");
        let mine = String::from_utf8(both.local.answer(&get(&path)).body).expect("a text");
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&mine), squeezed(&real), "{path}");
    }
}

#[test]
fn ranks_that_are_opened_together_are_one_job() {
    let mut local = Local::new();
    let made = local.answer(&sent("POST", routes::JOBS, &json!({ "name": "out" })));
    let job = document(&made)["id"].as_str().expect("an id").to_owned();
    for rank in [0, 1] {
        let name = format!("ddp_rank{rank}");
        let place = json!({ "job": job });
        let opened = open(&mut local, &name, &file(&name), &place);
        assert_eq!(document(&opened)["run"]["job"]["rank"], rank);
    }
    let id = job.parse().expect("an id");
    let detail = document(&local.answer(&get(&routes::job(&id))));
    assert_eq!(
        detail["ranks"].as_array().map(Vec::len),
        Some(2),
        "{detail:.300}"
    );
    assert!(!detail["sentences"].as_array().expect("a list").is_empty());
    // Beside others, a rank is called by its job.
    let ranks = [0, 1].map(|at: usize| detail["ranks"][at]["run"].as_str().expect("an id"));
    let ranks: [RunId; 2] = ranks.map(|run| run.parse().expect("an id"));
    let compared = document(&local.answer(&get(&routes::compare(&ranks))));
    let names = [0, 1].map(|at: usize| compared["runs"][at]["name"].as_str());
    assert_eq!(names, [Some("out, rank 0"), Some("out, rank 1")]);
    let curve = local.answer(&get(&routes::job_curve(&id, trace::ranks::Rank(1))));
    assert_eq!(curve.status, 200);
    assert_eq!(
        local.answer(&get(&routes::job_sites(&id, 0, 10))).status,
        200
    );
    let gone = local.answer(&sent("DELETE", &routes::job_with_runs(&id), &json!({})));
    assert_eq!(gone.status, 200);
    assert_eq!(document(&local.answer(&get(routes::RUNS))), json!([]));
}

/// A run stays in its jobs when it comes again. A second job with the same ranks is the first one.
#[test]
fn a_folder_that_is_opened_twice_is_one_job() {
    let mut local = Local::new();
    let mut open_folder = |name: &str, ranks: &[u32]| {
        let made = local.answer(&sent("POST", routes::JOBS, &json!({ "name": name })));
        let job = document(&made)["id"].clone();
        for rank in ranks {
            let file_name = format!("ddp_rank{rank}");
            let place = json!({ "job": job });
            open(&mut local, &file_name, &file(&file_name), &place);
        }
        let id: api::ids::JobId = job.as_str().expect("an id").parse().expect("an id");
        let detail = document(&local.answer(&get(&routes::job(&id))));
        let listed = document(&local.answer(&get(routes::JOBS)));
        let names = listed.as_array().expect("a list").iter();
        let names: Vec<Value> = names.map(|job| job["name"].clone()).collect();
        (id, detail["job"].clone(), names)
    };
    let (first, shown, listed) = open_folder("out", &[0, 1]);
    assert_eq!(
        (&shown["name"], &shown["n_ranks"]),
        (&json!("out"), &json!(2))
    );
    assert_eq!(listed, ["out"]);
    let shown_first = shown["id"].clone();
    for ranks in [&[0, 1][..], &[0]] {
        let (_, shown, listed) = open_folder("again", ranks);
        assert_eq!(shown["id"], shown_first, "{ranks:?}");
        assert_eq!(
            (&shown["n_ranks"], &listed[..]),
            (&json!(2), &[json!("out")][..])
        );
    }
    let detail = document(&local.answer(&get(&routes::job(&first))));
    let run = detail["ranks"][0]["run"].as_str().expect("an id");
    let run: RunId = run.parse().expect("an id");
    let summary = document(&local.answer(&get(&routes::run(&run))));
    assert_eq!(summary["job"]["job"], shown_first);
    // It is in no list while all its runs are deleted.
    let ranks = detail["ranks"].as_array().expect("a list").iter();
    let ids = ranks.map(|rank| rank["run"].as_str().expect("an id").parse::<RunId>());
    let ids: Vec<RunId> = ids.map(|id| id.expect("an id")).collect();
    for id in &ids {
        local.answer(&sent("DELETE", &routes::run(id), &json!({})));
    }
    assert_eq!(document(&local.answer(&get(routes::JOBS))), json!([]));
    for id in &ids {
        local.answer(&sent("POST", &routes::run_restore(id), &json!({})));
    }
    let listed = document(&local.answer(&get(routes::JOBS)));
    assert_eq!(listed[0]["n_ranks"], json!(2));
    let gone = local.answer(&sent("DELETE", &routes::job(&first), &json!({})));
    assert_eq!(gone.status, 200);
    assert_eq!(document(&local.answer(&get(routes::JOBS))), json!([]));
    let summary = document(&local.answer(&get(&routes::run(&run))));
    assert_eq!(summary["job"], json!(null));
}

#[test]
fn a_run_is_renamed_deleted_restored_and_known_again() {
    let mut local = Local::new();
    let bytes = file("leak_hook_cache");
    let opened = document(&open(&mut local, "a/leak.pickle.zst", &bytes, &json!({})));
    assert_eq!(
        (&opened["known"], &opened["run"]["name"]),
        (&json!(false), &json!("leak.pickle.zst"))
    );
    let id: RunId = opened["run"]["id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .expect("an id");
    let run = routes::run(&id);
    let named = local.answer(&sent("PATCH", &run, &json!({ "name": " before " })));
    assert_eq!(document(&named)["name"], "before");
    let alone = get(&routes::run_alone(&id));
    assert_eq!(document(&local.answer(&alone))[0]["name"], "before");
    assert_eq!(local.answer(&sent("DELETE", &run, &json!({}))).status, 200);
    assert_eq!(document(&local.answer(&alone)), json!([]));
    assert_eq!(local.answer(&sent("DELETE", &run, &json!({}))).status, 404);
    let gone = local.answer(&get(&run));
    assert_eq!(gone.status, 404);
    assert!(
        document(&gone)["detail"]
            .as_str()
            .expect("words")
            .contains("Open the same file again")
    );
    assert_eq!(
        local
            .answer(&sent("POST", &routes::run_restore(&id), &json!({})))
            .status,
        200
    );
    assert_eq!(local.answer(&get(&run)).status, 200);
    let again = document(&open(&mut local, "leak.pickle.zst", &bytes, &json!({})));
    assert_eq!(
        (&again["known"], &again["run"]["name"]),
        (&json!(true), &json!("before"))
    );
}

#[test]
fn what_cannot_be_read_or_done_here_is_said() {
    let mut local = Local::new();
    let refusal = |response: Response| {
        let problem = document(&response);
        assert_eq!(problem["status"], response.status);
        problem["detail"].as_str().expect("words").to_owned()
    };
    let text = open(&mut local, "a.pickle", b"just some text", &json!({}));
    assert!(refusal(text).contains("not a memory snapshot"));
    let empty = open(&mut local, "a.pickle", b"", &json!({}));
    assert!(refusal(empty).contains("the file is empty"));
    let cut = file("oom");
    let cut = open(
        &mut local,
        "a.pickle.zst",
        &cut[..cut.len() / 2],
        &json!({}),
    );
    assert!(refusal(cut).contains("truncated"));
    let opened = document(&open(&mut local, "a.pickle.zst", &file("oom"), &json!({})));
    let id: RunId = serde_json::from_value(opened["run"]["id"].clone()).expect("an id");
    let preview = document(&local.answer(&get(&routes::redaction_preview(&id))));
    assert_eq!(preview["examples"][0]["before"], "a.pickle.zst");
    let card = get(&routes::card_markdown(&id, "", Some("secret1"), true));
    let here = String::from_utf8(local.answer(&card).body).expect("a text");
    assert!(!here.contains("](http"), "{here}");
    let card = Request {
        server: Some("https://tidemark.example".to_owned()),
        ..card
    };
    let there = String::from_utf8(local.answer(&card).body).expect("a text");
    assert!(
        there.contains("https://tidemark.example/s/secret1/card.png"),
        "{there}"
    );
    assert!(!there.contains("http://here"), "{there}");
    let shared = local.answer(&sent("POST", routes::SHARES, &json!({})));
    assert!(refusal(shared).contains("tidemark push FILE --server URL"));
    let catalog = local.answer(&get(routes::BENCH_CATALOG));
    assert!(refusal(catalog).contains("tidemark serve"));
    assert_eq!(local.answer(&get(routes::BENCHES)).body, b"[]");
    assert_eq!(local.answer(&get("/api/people")).status, 404);
}

/// A new address must be in one of the lists of this file.
#[test]
fn no_address_of_the_page_is_forgotten() {
    let text = fs::read_to_string(workspace_root().join("api/src/routes.rs")).expect("the routes");
    let text = text.split("mod tests").next().unwrap_or_default();
    let declared = text.lines().filter_map(|line| {
        let line = line.strip_prefix("pub fn ").or(line.strip_prefix("fn "))?;
        line.split('(').next()
    });
    let run: RunId = "run_a".parse().expect("an id");
    let detail = json!({ "devices": [{ "device": 0, "events": 9 }] });
    let asked = asked_of(&run, &detail);
    let more = [
        "compare",
        "compare_curves",
        "card_markdown",
        "compare_markdown",
    ];
    for name in declared {
        let known = asked.iter().any(|(of, _)| *of == name)
            || more.contains(&name)
            || OTHERWISE.contains(&name)
            || REST.contains(&name);
        assert!(known, "`routes::{name}` is asked of no server in a browser");
    }
}
