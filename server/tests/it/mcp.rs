//! `tidemark mcp` as a client of the Model Context Protocol sees it. The client is that of the
//! official SDK and talks to a child process.

use crate::serving::{Serving, serve};
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest size of a page, without the braces and escapes that the protocol adds.
const MOST: usize = 16 << 10;

type Client = RunningService<RoleClient, ()>;

async fn client(args: &[&str]) -> Client {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command.arg("mcp").args(args);
    let child = TokioChildProcess::new(command).expect("it starts");
    ().serve(child).await.expect("both speak the protocol")
}

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let path: PathBuf = folder.join(format!("{name}.pickle.zst"));
    path.to_str().expect("a plain name").to_owned()
}

/// A recording of a state, without events.
fn state_alone() -> tempfile::NamedTempFile {
    let block =
        |size: u64, state: &str| json!({ "size": size, "requested_size": size, "state": state });
    let blocks = [
        block(4096, "active_allocated"),
        block((2 << 20) - 4096, "inactive"),
    ];
    let segment = json!({ "device": 0, "address": 0x7f00_0000_0000_u64, "total_size": 2 << 20,
        "allocated_size": 4096, "active_size": 4096, "stream": 0, "segment_type": "small",
        "blocks": blocks });
    let file = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
    let state = json!({ "segments": [segment], "device_traces": [[]] });
    std::fs::write(file.path(), state.to_string()).expect("it is written");
    file
}

/// A recording of a state with so many devices, each with a segment of its own.
fn state_of_devices(n: u64) -> tempfile::NamedTempFile {
    let segment = |device: u64| {
        let block =
            json!({ "size": 2 << 20, "requested_size": 2 << 20, "state": "active_allocated" });
        json!({ "device": device, "address": 0x7f00_0000_0000_u64 + (device << 32),
            "total_size": 2 << 20, "allocated_size": 2 << 20, "active_size": 2 << 20, "stream": 0,
            "segment_type": "small", "blocks": [block] })
    };
    let segments: Vec<Value> = (0..n).map(segment).collect();
    let traces = vec![json!([]); n as usize];
    let file = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
    let state = json!({ "segments": segments, "device_traces": traces });
    std::fs::write(file.path(), state.to_string()).expect("it is written");
    file
}

/// Text and structured content of an answer.
async fn ask(client: &Client, tool: &'static str, arguments: Value) -> (String, Value) {
    let answer = call(client, tool, arguments).await;
    let text = text_of(&answer);
    assert_eq!(answer.is_error, Some(false), "{tool}: {text}");
    let document = answer.structured_content.expect("a document");
    let size = text.len() + document.to_string().len();
    assert!(size <= MOST, "{tool}: {size} bytes");
    (text, document)
}

async fn call(client: &Client, tool: &'static str, arguments: Value) -> CallToolResult {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object");
    };
    let request = CallToolRequestParams::new(tool).with_arguments(arguments);
    client.call_tool(request).await.expect("an answer")
}

fn text_of(answer: &CallToolResult) -> String {
    let texts = answer.content.iter().filter_map(|block| block.as_text());
    texts.map(|block| block.text.as_str()).collect()
}

#[tokio::test]
async fn every_tool_says_what_it_takes() {
    let client = client(&[]).await;
    let tools = client.list_all_tools().await.expect("a list");
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(
        names,
        [
            "explain", "inspect", "leaks", "alive", "compare", "what_if", "runs"
        ]
    );
    for tool in &tools {
        assert!(
            tool.description
                .as_ref()
                .is_some_and(|text| text.len() > 40),
            "{tool:?}"
        );
        let properties = tool.input_schema["properties"]
            .as_object()
            .expect("arguments");
        let is_told = |argument: &Value| argument["description"].is_string();
        assert!(
            properties.values().all(is_told),
            "{}: {properties:?}",
            tool.name
        );
    }
    client.cancel().await.expect("it ends");
}

#[tokio::test]
async fn a_moment_is_an_event_or_a_state_alone() {
    let client = client(&[]).await;
    let oom = fixture("oom");
    let state = state_alone();
    let at = json!({"recording": state.path(), "by": "pool"});
    let (text, alive) = ask(&client, "alive", at).await;
    assert!(
        text.starts_with("The recorded state of device 0: 4.00 KiB allocated"),
        "{text}"
    );
    assert_eq!(
        (&alive["event"], &alive["allocated"]),
        (&json!(null), &json!(4096))
    );
    let [word, number] = [json!("5"), json!(5)].map(|at| json!({"recording": oom, "at": at}));
    assert_eq!(
        ask(&client, "alive", word).await,
        ask(&client, "alive", number).await
    );
    let at = json!({"recording": state.path(), "at": "0"});
    let refused = text_of(&call(&client, "alive", at).await);
    assert!(refused.contains("leave out `at`"), "{refused}");
    client.cancel().await.expect("it ends");
}

#[tokio::test]
async fn answers_are_those_of_the_commands() {
    let client = client(&[]).await;
    let oom = fixture("oom");
    let (text, page) = ask(&client, "explain", json!({"recording": oom})).await;
    assert!(
        text.contains("**Why.**") && text.contains("**What would have helped.**"),
        "{text}"
    );
    assert_eq!(
        (&page["cause"], &page["leaks"]),
        (&json!("leak"), &json!("leak"))
    );
    assert_eq!(page["remedies"][0]["change"], "no leaks");
    let (_, facts) = ask(&client, "inspect", json!({"recording": oom})).await;
    assert_eq!(facts["items"][0]["allocated"]["peak"], 2_026_082_304_u64);
    let (text, leaks) = ask(&client, "leaks", json!({"recording": oom})).await;
    let alive = "224 MiB alive at the end of the last whole step: ";
    assert!(text.contains(alive), "{text}");
    assert_eq!(
        (&leaks["verdict"], &leaks["total"]),
        (&json!("leak"), &json!(3))
    );
    assert_eq!(leaks["items"][0]["frame"]["line"], 322);
    for name in ["oom", "off_v1_moe", "pinned_leak", "streams"] {
        let (text, _) = ask(&client, "leaks", json!({"recording": fixture(name)})).await;
        let first = text.lines().next().expect("a line");
        // The amount is said once, and each sentence begins as one.
        assert!(!first.contains(" a step: "), "{first}");
        let mut sentences = text.lines().take_while(|line| line.ends_with('.'));
        assert!(
            sentences.all(|line| !line.starts_with(char::is_lowercase)),
            "{text}"
        );
    }
    let at = json!({"recording": oom, "at": "oom", "by": "category"});
    let (_, alive) = ask(&client, "alive", at).await;
    let items = alive["items"].as_array().expect("groups");
    let bytes = items
        .iter()
        .map(|group| group["bytes"].as_u64().expect("bytes"));
    assert_eq!(
        bytes.sum::<u64>(),
        alive["allocated"].as_u64().expect("allocated")
    );
    let two = json!({"base": fixture("off_v1_moe"), "new": fixture("off_v3_moe")});
    let (text, compared) = ask(&client, "compare", two).await;
    assert_eq!(
        (&compared["change"], &compared["leaks"]),
        (&json!("better"), &json!("fixed"))
    );
    assert_eq!(compared["device"], 0);
    assert!(text.contains("at its own peak, "), "{text}");
    assert!(compared["items"][0]["at_peak"].is_i64(), "{compared}");
    let other = json!({"recording": oom, "alloc_conf": "expandable_segments:True"});
    let (text, found) = ask(&client, "what_if", other).await;
    assert!(text.contains("get past step 21"), "{text}");
    assert_eq!(found["answer"]["recorded"]["oom_step"], 21);
    let clean = json!({"recording": fixture("plain_lm"), "without_leaks": true});
    let (text, _) = ask(&client, "what_if", clean).await;
    assert!(text.contains("Nothing was found that leaks"), "{text}");
    client.cancel().await.expect("it ends");
}

/// A snapshot in which each of `n` functions holds a block.
fn of_functions(n: u64) -> Value {
    let alloc = |at: u64| {
        json!({
            "action": "alloc", "addr": 0x7f00_0000_0000_u64 + at * 512, "size": 512, "stream": 0,
            "frames": [{"name": format!("f{at}"), "filename": "/srv/train.py", "line": at + 1}],
        })
    };
    let events: Vec<Value> = (0..n).map(alloc).collect();
    json!({"segments": [], "device_traces": [events]})
}

#[tokio::test]
async fn pages_hold_every_entry_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("many.json");
    std::fs::write(&path, of_functions(500).to_string()).expect("it is written");
    let path = path.to_str().expect("a plain name");
    let client = client(&[]).await;
    let (mut labels, mut pages, mut next) = (HashSet::new(), 0, Some(0));
    while let Some(offset) = next {
        let asked = json!({"recording": path, "at": "end", "by": "stack", "offset": offset});
        let (text, page) = ask(&client, "alive", asked).await;
        let items = page["items"].as_array().expect("entries");
        labels.extend(items.iter().map(|group| group["label"].to_string()));
        assert_eq!(page["total"], 500);
        (pages, next) = (pages + 1, page["next"].as_u64());
        assert_eq!(
            text.contains("ask again with offset"),
            next.is_some(),
            "{text}"
        );
    }
    assert_eq!(labels.len(), 500);
    assert!(pages > 2, "{pages} pages");
    client.cancel().await.expect("it ends");
}

/// Who sees only the text must not miss a device, or what is said of all of them.
#[tokio::test]
async fn every_device_is_in_the_text_of_some_page() {
    let client = client(&[]).await;
    let state = state_of_devices(24);
    let (mut text, mut offset) = (String::new(), json!(0));
    while offset.is_number() {
        let asked = json!({"recording": state.path(), "offset": offset});
        let (page, document) = ask(&client, "inspect", asked).await;
        text += &page;
        offset = document["next"].clone();
    }
    let of_all = ["leaks: cannot tell", "quality"].map(str::to_owned);
    let devices = (0..24).map(|device| format!("device {device}: "));
    for told in of_all.into_iter().chain(devices) {
        assert!(text.contains(&told), "{told}: {text}");
    }
    client.cancel().await.expect("it ends");
}

#[tokio::test]
async fn what_goes_wrong_is_told_with_what_to_do() {
    let client = client(&[]).await;
    let oom = fixture("oom");
    for (tool, arguments, expected) in [
        (
            "leaks",
            json!({"recording": "nowhere.pickle"}),
            "Give the path of a snapshot",
        ),
        ("leaks", json!({"recording": "/dev/zero"}), "is not a file"),
        (
            "leaks",
            json!({"recording": "run_0123456789abcdef"}),
            "--server URL",
        ),
        ("leaks", json!({}), "missing field `recording`"),
        (
            "leaks",
            json!({"recording": oom, "device": 7}),
            "it holds 0.",
        ),
        (
            "alive",
            json!({"recording": oom, "at": "noon"}),
            "an event from 0 to 70770",
        ),
        (
            "alive",
            json!({"recording": oom, "by": "colour"}),
            "use site, stack, module",
        ),
        (
            "what_if",
            json!({"recording": oom, "alloc_conf": "fast:True"}),
            "alloc_conf: ",
        ),
        (
            "what_if",
            json!({"recording": oom, "limit": "much"}),
            "expected a size such as",
        ),
        (
            "what_if",
            json!({"recording": oom, "without": ["zzz"]}),
            "is asked for at zzz: `explain` lists",
        ),
        (
            "inspect",
            json!({"recording": oom, "device": 5}),
            "it holds 0.",
        ),
        ("guess", json!({}), "use explain, inspect"),
    ] {
        let answer = call(&client, tool, arguments.clone()).await;
        let text = text_of(&answer);
        assert_eq!(answer.is_error, Some(true), "{tool} {arguments}: {text}");
        assert!(text.contains(expected), "{tool} {arguments}: {text}");
    }
    // After all these errors the server still answers.
    ask(&client, "leaks", json!({"recording": oom})).await;
    client.cancel().await.expect("it ends");
}

/// A dashboard.
struct Dashboard {
    serving: Serving,
    token: Option<String>,
}

impl Dashboard {
    /// Starts a server: with a token, or for this machine only.
    fn start(data: &Path, token: Option<&str>) -> Dashboard {
        let mut command = serve(data);
        command.envs(token.map(|token| ("TIDEMARK_TOKEN", token)));
        let serving = Serving::run(command).expect("it starts");
        let token = token.map(str::to_owned);
        Dashboard { serving, token }
    }

    fn url(&self) -> String {
        self.serving.url()
    }

    /// Uploads a file; returns the run's id.
    fn push(&self, file: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
        command.args(["push", file, "--server", &self.url()]);
        let token = self.token.iter();
        command.envs(token.map(|token| ("TIDEMARK_TOKEN", token)));
        let output = command.output();
        let output = String::from_utf8(output.expect("it ran").stdout).expect("text");
        let at = output.find("run_").expect("a link");
        let id: String = output[at..]
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect();
        id
    }
}

#[tokio::test]
async fn runs_of_a_dashboard_are_asked_by_id_and_come_with_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let dashboard = Dashboard::start(folder.path(), None);
    let oom = fixture("oom");
    let run = dashboard.push(&oom);
    let client = client(&["--server", &dashboard.url()]).await;
    let (text, of_run) = ask(&client, "leaks", json!({"recording": run})).await;
    let link = of_run["link"].as_str().expect("a link");
    let expected = format!("{}/runs/{run}?v=", dashboard.url());
    assert!(
        link.starts_with(&expected) && link.contains("tab=leaks"),
        "{link}"
    );
    assert!(text.contains(link), "{text}");
    let (_, of_file) = ask(&client, "leaks", json!({"recording": oom})).await;
    assert_eq!(of_file["items"], of_run["items"]);
    assert!(of_file["link"].is_null());
    let unknown = call(
        &client,
        "leaks",
        json!({"recording": "run_0000000000000000"}),
    )
    .await;
    assert_eq!(unknown.is_error, Some(true));
    client.cancel().await.expect("it ends");
}

/// A recording that began late: what it began with is given back, so that is its peak.
fn begun_late() -> tempfile::NamedTempFile {
    let address = 0x7f00_0000_0000_u64;
    let segment = json!({ "device": 0, "address": address, "total_size": 2 << 20,
        "allocated_size": 0, "active_size": 0, "stream": 0, "segment_type": "small",
        "blocks": [{ "size": 2 << 20, "requested_size": 0, "state": "inactive" }] });
    let event = |action: &str| {
        let mut event = json!({ "addr": address, "size": 4096, "stream": 0, "frames": [] });
        event["action"] = json!(action);
        event
    };
    let events = ["free_requested", "free_completed"].map(event);
    let file = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
    let late = json!({ "segments": [segment], "device_traces": [events] });
    std::fs::write(file.path(), late.to_string()).expect("it is written");
    file
}

#[tokio::test]
async fn what_was_alive_before_the_first_event_has_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let dashboard = Dashboard::start(folder.path(), None);
    let late = begun_late();
    let run = dashboard.push(late.path().to_str().expect("a plain name"));
    let client = over_http(&dashboard, None).await.expect("it is let in");
    let (text, alive) = ask(&client, "alive", json!({"recording": run})).await;
    let begins = "Before the first event of device 0: 4.00 KiB allocated";
    assert!(text.starts_with(begins), "{text}");
    let link = alive["link"].as_str().expect("a link");
    assert!(link.contains("tab=alive&at=start"), "{link}");
    client.cancel().await.expect("it ends");
}

/// Over HTTP and from `tidemark mcp`: what only one run is called, and a refusal otherwise.
#[tokio::test]
async fn a_run_is_called_by_its_id_link_name_or_labels_where_that_is_one_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let dashboard = Dashboard::start(&folder.path().join("data"), None);
    let copy = |at: u8, name: &str| {
        let mut bytes = zstd::decode_all(std::fs::File::open(fixture("oom")).unwrap()).unwrap();
        bytes.push(at);
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).expect("it is written");
        dashboard.push(file.to_str().expect("a plain name"))
    };
    let run = copy(0, "one.pickle");
    let [second, third] = [1, 2].map(|at| copy(at, "two.pickle"));
    let label = |run: &str, labels: serde_json::Value| {
        let path = format!("{}/api/runs/{run}/labels", dashboard.url());
        let body = json!({"labels": labels}).to_string();
        let request = ureq::patch(path).header("content-type", "application/json");
        request.send(&body).expect("it has labels");
    };
    label(&run, json!({"branch": "main", "config": "a"}));
    label(&second, json!({"branch": "main"}));
    let over = over_http(&dashboard, None).await.expect("it is let in");
    let command = client(&["--server", &dashboard.url()]).await;
    for client in [&over, &command] {
        let (_, expected) = ask(client, "leaks", json!({"recording": run})).await;
        let link = format!("{}/runs/{run}?v=1&tab=leaks", dashboard.url());
        for name in [&link, "one.pickle", "config=a", "branch=main,config=a"] {
            let (_, told) = ask(client, "leaks", json!({"recording": name})).await;
            assert_eq!(told, expected, "{name}");
        }
        let two = json!({"base": "one.pickle", "new": third});
        ask(client, "compare", two).await;
        // It is called as people call it, not by its id.
        let (text, _) = ask(client, "explain", json!({"recording": run})).await;
        assert!(text.contains("one.pickle"), "{text}");
        for (name, whys) in [
            (
                "two.pickle",
                [second.as_str(), &third, "can mean several runs"],
            ),
            ("branch=main", [&run, &second, "can mean several runs"]),
            (
                "branch=gone",
                ["is not the id", "link", "`runs` lists them"],
            ),
            ("nobody", ["is not the id", "link", "`runs` lists them"]),
        ] {
            let answer = call(client, "leaks", json!({"recording": name})).await;
            assert_eq!(answer.is_error, Some(true), "{name}");
            let told = text_of(&answer);
            assert!(whys.iter().all(|why| told.contains(why)), "{name}: {told}");
        }
    }
    over.cancel().await.expect("it ends");
    command.cancel().await.expect("it ends");
}

/// How often a dashboard was asked for what is at this route.
fn asked_for(dashboard: &Dashboard, route: &str) -> u64 {
    let metrics = ureq::get(format!("{}/metrics", dashboard.url())).call();
    let text = metrics.expect("metrics").body_mut().read_to_string();
    let text = text.expect("a text");
    let counted = text
        .lines()
        .filter(|line| line.contains("http_requests_total{"));
    let of_route = counted.filter(|line| line.contains(&format!("route=\"{route}\"")));
    let counts = of_route.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    counts.sum()
}

#[tokio::test]
async fn a_search_that_found_a_run_has_told_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let dashboard = Dashboard::start(folder.path(), None);
    let run = dashboard.push(&fixture("oom"));
    let client = client(&["--server", &dashboard.url()]).await;
    let counts = || ["/api/runs", "/api/runs/{run}"].map(|route| asked_for(&dashboard, route));
    for (name, expected) in [("oom.pickle.zst", [1, 0]), (run.as_str(), [0, 1])] {
        let before = counts();
        let (text, _) = ask(&client, "explain", json!({"recording": name})).await;
        assert!(text.contains("oom.pickle.zst"), "{text}");
        let now = counts();
        assert_eq!([now[0] - before[0], now[1] - before[1]], expected, "{name}");
    }
    client.cancel().await.expect("it ends");
}

/// A client over HTTP.
async fn over_http(dashboard: &Dashboard, token: Option<&str>) -> Option<Client> {
    let config =
        StreamableHttpClientTransportConfig::with_uri(format!("{}/api/mcp", dashboard.url()));
    let config = match token {
        Some(token) => config.auth_header(token),
        None => config,
    };
    // In a build with S3, rustls has no default for cryptography, so the test's HTTP client must
    // choose one.
    #[cfg(feature = "s3")]
    drop(rustls::crypto::ring::default_provider().install_default());
    let transport = StreamableHttpClientTransport::from_config(config);
    ().serve(transport).await.ok()
}

#[tokio::test]
async fn a_dashboard_answers_who_has_its_token_and_nobody_else() {
    const TOKEN: &str = "a-token-that-is-long-enough-for-a-test";
    let folder = tempfile::tempdir().expect("a folder");
    let dashboard = Dashboard::start(folder.path(), Some(TOKEN));
    let run = dashboard.push(&fixture("oom"));
    assert!(over_http(&dashboard, None).await.is_none());
    assert!(over_http(&dashboard, Some("another")).await.is_none());
    let client = over_http(&dashboard, Some(TOKEN))
        .await
        .expect("it is let in");
    let (text, runs) = ask(&client, "runs", json!({"name": "OOM"})).await;
    assert!(text.contains(&run), "{text}");
    assert_eq!(runs["items"][0]["id"], json!(run));
    let (text, page) = ask(&client, "explain", json!({"recording": run})).await;
    assert!(text.contains("**What would have helped.**"), "{text}");
    assert_eq!(page["cause"], "leak");
    // The answers must be those of the command line about the same file.
    let here = self::client(&[]).await;
    for (tool, more) in [
        ("leaks", json!({})),
        ("inspect", json!({})),
        ("alive", json!({"at": "oom", "by": "category"})),
        ("what_if", json!({"alloc_conf": "expandable_segments:True"})),
    ] {
        let about = |recording: &str| {
            let mut asked = more.clone();
            asked["recording"] = json!(recording);
            asked
        };
        let (_, mut there) = ask(&client, tool, about(&run)).await;
        let (_, file) = ask(&here, tool, about(&fixture("oom"))).await;
        let fields = there.as_object_mut().expect("a document");
        let link = fields.remove("link").expect("a link");
        let link = link.as_str().expect("an address");
        assert!(
            link.starts_with(&format!("{}/runs/{run}?v=", dashboard.url())),
            "{link}"
        );
        assert_eq!(there, file, "{tool}");
    }
    for (asked, expected) in [
        (
            json!({"recording": "run_0000000000000000"}),
            "there is no run",
        ),
        (
            json!({"recording": "/etc/passwd"}),
            "is not the id, link, name or labels",
        ),
    ] {
        let answer = call(&client, "leaks", asked).await;
        assert_eq!(answer.is_error, Some(true));
        assert!(text_of(&answer).contains(expected), "{}", text_of(&answer));
    }
    here.cancel().await.expect("it ends");
    client.cancel().await.expect("it ends");
}
