//! What a redacted link shows. Secrets are planted in every field of a snapshot, in odd places and
//! encodings. Then every byte that the link can fetch is searched for them.

use super::shares::{TOKEN, guarded, open, session, slug, stranger, team};
use super::{Answer, Server};
use crate::http::audience::is_within;
use aho_corasick::AhoCorasick;
use api::bench::BenchResult;
use api::ids::RunId;
use api::routes;
use api::runs::FinishedUpload;
use api::shares::{CreatedShare, NewShare, Redaction, ShareKind, ShareTarget};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use trace::device::DeviceIdx;

/// What must stay secret. No part of it occurs in a word that the program or PyTorch writes.
const SECRETS: [&str; 4] = ["zqalicexj", "zqapolloxj", "zqnarwhalxj", "zqhunterxj"];

/// A piece of a secret with this many letters counts as found: shorter pieces also occur by chance.
const PIECE: usize = 6;

/// The places in a text where a name may be hidden.
fn wrapped(secret: &str) -> Vec<String> {
    let mut all: Vec<String> = [
        "{}",
        "/home/{}/train.py",
        "/home/{}",
        "lambda:/home/{}/x.py",
        "#/home/{}",
        "-I/home/{}/include",
        "@/home/{}/args",
        "s3://{}/data",
        "dbfs:/Users/{}/nb.py",
        "https://user:{}@host/x",
        "\"/home/{}/a.py\"",
        " /home/{}/a.py",
        "C:\\Users\\{}\\train.py",
        "\\\\share\\{}\\train.py",
        "~{}/x.py",
        "../{}/x.py",
        "/v/site-packages/{}/x.py",
        "/{}/lib/python3.12/site-packages/torch/nn/x.py",
        "/v/lib/python3.12/{}.py",
        "<ipython-input-3-{}>",
        "<frozen {}>",
        "{}::Kernel<at::Tensor>::run(at::Tensor const&)",
        "at::native::run<{}::Kernel>()",
        "{{\"owner\":\"{}\",\"path\":\"/home/{}/x\"}}",
        "Optimizer.step#{}.step",
        "## {} ##",
        "step 3 {}",
        "ProfilerStep#{}",
        "nccl:{}",
        "keys (3×), {}",
        "float32[2, {}]",
        "True,{}:1",
    ]
    .iter()
    .map(|template| {
        template
            .replace("{{", "{")
            .replace("}}", "}")
            .replace("{}", secret)
    })
    .collect();
    all.extend(encoded(secret));
    all
}

/// The encodings in which a name may be written.
fn encoded(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let each = |write: fn(&u8) -> String| bytes.iter().map(write).collect::<String>();
    vec![
        secret.to_owned(),
        secret.to_uppercase(),
        secret.chars().rev().collect(),
        each(|b| format!("%{b:02X}")),
        each(|b| format!("{b:02x}")),
        each(|b| format!("\\u{b:04x}")),
        each(|b| format!("{}\u{2009}", char::from(*b))),
        each(|b| format!("{}\0", char::from(*b))),
        base64(bytes),
    ]
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = bytes.iter().map(|b| format!("{b:08b}")).collect();
    let digits = bits.as_bytes().chunks(6).map(|six| {
        let six = format!("{:0<6}", String::from_utf8_lossy(six));
        char::from(DIGITS[usize::from_str_radix(&six, 2).unwrap()])
    });
    digits.collect()
}

/// A snapshot in which every kind of text has a secret somewhere.
fn snapshot() -> Value {
    let texts: Vec<String> = SECRETS.iter().flat_map(|secret| wrapped(secret)).collect();
    let text = |at: usize| texts[at % texts.len()].clone();
    let frames = |at: usize| {
        json!([
            {"name": text(at), "filename": text(at + 1), "line": at + 1},
            {"name": text(at + 2), "filename": "/v/train.py", "line": 7},
            {"name": "forward", "filename": text(at), "line": 9},
            {"name": text(at), "filename": "??", "line": 0},
        ])
    };
    let mut events = Vec::new();
    let mut annotations = Vec::new();
    for at in 0..texts.len() {
        let base = 1_700_000_000_000_000_u64 + at as u64 * 10;
        let event = |action: &str, more: u64| {
            json!({
                "action": action, "addr": 0x7000_0000_0000_u64 + at as u64 * 4096, "size": 4096,
                "stream": 0, "time_us": base + more, "compile_context": text(at),
                "user_metadata": text(at + 1), "category": text(at + 2), "frames": frames(at),
                text(at + 3): text(at),
            })
        };
        events.push(event("alloc", 1));
        if at % 2 == 0 {
            events.push(event("free_requested", 2));
            events.push(event("free_completed", 2));
        }
        if at % 9 == 0 {
            events.push(event("oom", 3));
            events.push(event("annotate", 3));
            events.push(event(&text(at), 3));
        }
        for (name, from, to) in [(text(at), 1, 2), (format!("{} {at}", SECRETS[0]), 0, 4)] {
            for (stage, more) in [("START", from), ("END", to)] {
                let time = base + more;
                annotations
                    .push(json!({"name": name, "stage": stage, "device": 0, "time_us": time}));
            }
        }
    }
    let settings: serde_json::Map<String, Value> = texts
        .iter()
        .map(|text| (text.clone(), json!(text)))
        .chain([("backend".to_owned(), json!(text(3)))])
        .chain([("expandable_segments".to_owned(), json!({text(4): text(5)}))])
        .take(60)
        .collect();
    let segment = json!({
        "device": 0, "address": 0x7000_0000_0000_u64, "total_size": 2_097_152,
        "allocated_size": 4096, "active_size": 4096, "requested_size": 4096, "stream": 0,
        "segment_type": text(6), "segment_pool_id": [0, 1], "is_expandable": false,
        "frames": frames(8), text(9): text(10), "device_name": text(11), "pool_name": text(12),
        "blocks": [{
            "address": 0x7000_0000_0000_u64, "size": 4096, "requested_size": 4096,
            "state": "active_allocated", "frames": frames(13), "user_metadata": text(14),
        }],
    });
    json!({
        "segments": [segment], "device_traces": [events], "allocator_settings": settings,
        "external_annotations": annotations, text(15): text(16), "device_names": [text(17)],
    })
}

/// A secret that an answer contains, in any encoding.
fn found(answer: &Answer) -> Option<String> {
    let headers = answer.headers.iter();
    let headers = headers.flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
    let text = headers.chain([&answer.body[..]]).collect::<Vec<_>>();
    let read = readings(&text.join(&b'\n'));
    let found = pieces().find(&read)?;
    Some(read[found.range()].to_owned())
}

/// A text without characters that may stand between letters, and with percent-encoding undone.
fn readings(text: &[u8]) -> String {
    let plain = String::from_utf8_lossy(text).to_lowercase();
    let bare: String = plain
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    let undone = api::query::decode(&plain);
    format!("{plain}\n{bare}\n{undone}")
}

/// Every piece of every secret, in every encoding that [`readings`] does not undo.
fn pieces() -> &'static AhoCorasick {
    static PIECES: std::sync::LazyLock<AhoCorasick> = std::sync::LazyLock::new(|| {
        let mut pieces = BTreeSet::new();
        let writings = SECRETS.iter().flat_map(|secret| {
            let shifted = [" ", "  "].map(|before| base64(format!("{before}{secret}").as_bytes()));
            encoded(secret).into_iter().chain(shifted)
        });
        for written in writings.filter(|text| text.chars().all(|c| c.is_ascii_graphic())) {
            let letters: Vec<char> = written.to_lowercase().chars().collect();
            // Pieces of long encodings are longer, so that they contain as many letters of the
            // secret.
            let length = (PIECE * letters.len() / SECRETS[0].len()).max(PIECE);
            pieces.extend(letters.windows(length).map(String::from_iter));
        }
        AhoCorasick::new(pieces).expect("a few hundred short pieces")
    });
    &PIECES
}

/// The values of a parameter that a link's reader may use.
fn values(name: &str, runs: &str) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match name {
        "run" => words(&[runs.split(',').next().unwrap()]),
        "runs" => words(&[runs]),
        "device" => words(&["0", "7"]),
        "block" => (0..12)
            .chain([4_000_000_000])
            .map(|n: u64| n.to_string())
            .collect(),
        "event" => (0..12)
            .chain([4_000_000_000])
            .map(|n: u64| n.to_string())
            .collect(),
        "group" => words(&["stack", "file", "stream", "pool", SECRETS[3]]),
        "level" => words(&["0", "1", "4"]),
        "index" => words(&["0", "1"]),
        "by" | "grow" => words(&[
            "site", "stack", "module", "file", "function", "category", "stream", "pool", "x",
        ]),
        "at" | "from" | "offset" => words(&["5"]),
        "to" | "limit" => words(&["300"]),
        "pair" => words(&["0"]),
        "parts" => words(&["9"]),
        "theme" => words(&["dark"]),
        "align" => words(&["step", "time"]),
        "series" => words(&["reserved"]),
        "numbers_only" => words(&["1"]),
        "link" => words(&["abc"]),
        "sort" => words(&["largest", "newest"]),
        "q" => words(&["function", "e"]),
        "min" | "max" | "older" | "younger" | "stream" | "born" | "until" | "alive" => {
            words(&["1"])
        }
        "label" => words(&["branch=x", "x"]),
        "site" => words(&["z4096", "s0123456789abcdef", "x"]),
        "of" => words(&["stream:0", "x"]),
        "pool" => words(&["small"]),
        "v" | "version" => words(&["1"]),
        "alloc_conf" => words(&["expandable_segments:True", "x"]),
        "without_leaks" => words(&["true"]),
        "format" => words(&["perfetto"]),
        "gone" => words(&["z4096,s0123456789abcdef", "x"]),
        _ => Vec::new(),
    }
}

/// Whether its answer comes in several forms.
fn has_forms(route: &Value) -> bool {
    let forms = route["responses"]["200"]["content"].as_object();
    forms.is_some_and(|forms| forms.len() > 1)
}

/// The answer to a stranger with a link who prefers JSON.
async fn as_json(server: &Server, path: &str, cookie: &str) -> Answer {
    let request = super::request(Method::GET, path)
        .header(header::COOKIE, cookie)
        .header(header::ACCEPT, "application/json");
    server.send(request.body(Body::empty()).unwrap()).await
}

/// Every address of a route in the document.
pub fn addresses(path: &str, route: &Value, runs: &str) -> Vec<String> {
    let mut all = vec![path.to_owned()];
    while let Some((before, rest)) = all[0].clone().split_once('{') {
        let name = rest.split_once('}').unwrap().0;
        let (hole, before_len) = (format!("{{{name}}}"), before.len());
        let mut values = values(name, runs);
        if values.is_empty() {
            values.push("x".to_owned());
        }
        assert!(before_len > 0);
        let filled = all.iter().flat_map(|path| {
            let fill = |value: &String| path.replacen(&hole, value, 1);
            values.iter().map(fill).collect::<Vec<_>>()
        });
        all = filled.collect();
    }
    let parameters = route["parameters"].as_array().cloned().unwrap_or_default();
    let asked: Vec<(String, bool)> = parameters
        .iter()
        .filter(|parameter| parameter["in"] == "query")
        .map(|parameter| {
            let name = parameter["name"].as_str().unwrap().to_owned();
            (name, parameter["required"] == true)
        })
        .collect();
    let needed = asked.iter().filter(|(_, required)| *required);
    let needed = needed.map(|(name, _)| {
        let values = values(name, runs);
        format!("{name}={}", values.first().map_or("1", String::as_str))
    });
    let needed = needed.collect::<Vec<_>>().join("&");
    let mut out = Vec::new();
    // All ways to ask are tried for the first places; for the others the plain question is enough.
    for (at, path) in all.iter().enumerate() {
        out.push(format!("{path}?{needed}"));
        for (name, _) in asked.iter().filter(|_| at < 2) {
            for value in values(name, runs) {
                out.push(format!("{path}?{needed}&{name}={value}"));
            }
        }
    }
    out
}

/// A server with two runs full of secrets, and a redacted link for each kind of target.
async fn planted() -> (Server, Vec<RunId>) {
    let (server, _) = guarded().await;
    let mut runs = Vec::new();
    for at in 0..2 {
        let mut document = snapshot();
        document["more"] = json!(at);
        let path = routes::upload_named(&format!("{}-{at}.pickle", SECRETS[1]));
        let request = super::request(Method::PUT, &path)
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        let body = Body::from(serde_json::to_vec(&document).unwrap());
        let answer = server.send(request.body(body).unwrap()).await;
        assert!(answer.status.is_success(), "{answer:?}");
        let run = answer.read::<FinishedUpload>().run;
        let name = json!({"name": format!("{} of {} {at}", SECRETS[0], SECRETS[2])}).to_string();
        team(&server, Method::PATCH, &routes::run(&run.id), &name)
            .await
            .expect(StatusCode::OK);
        let labels = json!({"labels": {"branch": SECRETS[1], "config": SECRETS[0]}}).to_string();
        team(
            &server,
            Method::PATCH,
            &routes::run_labels(&run.id),
            &labels,
        )
        .await
        .expect(StatusCode::OK);
        runs.push(run.id);
    }
    (server, runs)
}

async fn link(server: &Server, target: ShareTarget) -> CreatedShare {
    let runs: Vec<&str> = target.runs().iter().map(RunId::as_str).collect();
    let (q, runs) = (SECRETS[3], runs.join(","));
    let query = match target {
        ShareTarget::Run { .. } => format!(
            "v=5&gone={q}&steps={q}&tab=allocations&from=2&to=90&q={q}&of=module:{q}&pool={q}\
             &site=s0123456789abcdef\
             &root=00ff00ff00ff00ff&{q}={q}"
        ),
        ShareTarget::Comparison { .. } => format!("v=1&runs={runs}&q={q}&sel={q}"),
    };
    let new = NewShare {
        kind: ShareKind::Capability,
        target,
        query,
        redaction: Redaction::Redacted,
        note: "for the review".to_owned(),
        created_by: "Kim".to_owned(),
        expires_in_s: Some(3600),
    };
    let body = serde_json::to_string(&new).unwrap();
    let answer = team(server, Method::POST, routes::SHARES, &body).await;
    answer.expect(StatusCode::CREATED).read()
}

/// Everything that a link's own address shows to anyone.
async fn at_its_address(server: &Server, link: &CreatedShare) -> Vec<(String, Answer)> {
    let page = routes::share_page(slug(link));
    let mut all = Vec::new();
    for path in ["", "/card.svg", "/card.png", "/card.svg?theme=dark", "/x"] {
        let path = format!("{page}{path}");
        let answer = server.get(&path).await;
        all.push((path, answer));
    }
    all.push(("open".to_owned(), open(server, slug(link)).await));
    all
}

fn check_silent(told: &[(String, Answer)]) {
    for (path, answer) in told {
        assert_eq!(found(answer), None, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_byte_that_a_redacted_link_can_fetch_tells_a_secret() {
    let (server, runs) = planted().await;
    let crashed = |secret: &str| BenchResult {
        crash: Some(format!("RuntimeError: {secret}")),
        ..BenchResult::default()
    };
    let ends = [(SECRETS[0], &runs[0]), (SECRETS[3], &runs[1])];
    let ends = ends.map(|(secret, run)| (run.clone(), crashed(secret)));
    super::bench::benched(&server, ends).await;
    let document: Value = team(&server, Method::GET, routes::OPENAPI, "").await.read();
    let listed = runs.iter().map(RunId::as_str).collect::<Vec<_>>().join(",");
    let one = ShareTarget::Run {
        run: runs[0].clone(),
    };
    let both = ShareTarget::Comparison { runs: runs.clone() };
    // For each route that a link opens: the number of answers, and how many of them would show a
    // secret to the team.
    let mut opened: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for target in [one, both] {
        let link = link(&server, target.clone()).await;
        let cookie = session(&server, &link).await;
        check_silent(&at_its_address(&server, &link).await);
        for (path, methods) in document["paths"].as_object().unwrap() {
            let Some(route) = methods.get("get") else {
                continue;
            };
            for address in addresses(path, route, &listed) {
                let (bare, query) = address.split_once('?').unwrap();
                let told = stranger(&server, Method::GET, &address, &cookie).await;
                assert_eq!(found(&told), None, "{address}");
                if has_forms(route) {
                    let told = as_json(&server, &address, &cookie).await;
                    assert_eq!(found(&told), None, "{address} as JSON");
                }
                if is_within(bare, query, target.runs()) {
                    let count = opened.entry(path.clone()).or_default();
                    count.0 += u32::from(told.status.is_success());
                    if count.1 == 0 {
                        let full = team(&server, Method::GET, &address, "").await;
                        count.1 += u32::from(found(&full).is_some());
                    }
                } else {
                    assert!(
                        !told.status.is_success() || path == routes::SERVER,
                        "{address}"
                    );
                }
            }
        }
        let revoke = routes::share(&link.share.id);
        team(&server, Method::DELETE, &revoke, "")
            .await
            .expect(StatusCode::OK);
        check_silent(&at_its_address(&server, &link).await);
    }
    for (path, (answers, _)) in &opened {
        assert!(
            *answers > 0,
            "no address of {path} was opened: `values` must know its parameters"
        );
    }
    let telling = opened.iter().filter(|(_, (_, full))| *full > 0).count();
    assert!(
        opened.len() >= 18 && telling >= 10,
        "the check must be able to fail: {opened:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_hold_no_texts_beside_the_image() {
    let (server, runs) = planted().await;
    let run = runs[0].clone();
    let link = link(&server, ShareTarget::Run { run }).await;
    let png = server.get(&routes::share_card(slug(&link))).await;
    let mut rest = &png.expect(StatusCode::OK).body[8..];
    while let [a, b, c, d, kind @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let kind = &kind[..4];
        assert!(
            [b"IHDR", b"IDAT", b"IEND", b"pHYs", b"sRGB", b"gAMA"]
                .iter()
                .any(|k| *k == kind)
        );
        rest = &rest[length + 12..];
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_links_have_no_name_in_common_and_one_keeps_to_its_own() {
    let (server, runs) = planted().await;
    let target = ShareTarget::Run {
        run: runs[0].clone(),
    };
    let mut names = Vec::new();
    for _ in 0..2 {
        let link = link(&server, target.clone()).await;
        let cookie = session(&server, &link).await;
        let mut of_link = BTreeSet::new();
        for path in [
            routes::block(&runs[0], DeviceIdx(0), trace::trace::BlockIdx(3)),
            routes::run(&runs[0]),
        ] {
            let first = stranger(&server, Method::GET, &path, &cookie).await;
            let again = stranger(&server, Method::GET, &path, &cookie).await;
            assert_eq!(first.body, again.body);
            let text = String::from_utf8_lossy(&first.body).into_owned();
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            let kinds = ["file-", "function-", "setting-", "value-", "metadata-"];
            let stand_in = |word: &&str| kinds.iter().any(|kind| word.starts_with(kind));
            of_link.extend(words.filter(stand_in).map(str::to_owned));
        }
        assert!(of_link.len() > 5, "{of_link:?}");
        names.push(of_link);
    }
    assert!(names[0].is_disjoint(&names[1]), "{names:?}");
}
