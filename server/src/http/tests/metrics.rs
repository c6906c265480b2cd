//! Measurements: exactly in the text format, by route, and only for clients that may know them.

use super::{Answer, Server, packed_snapshot, request};
use crate::who::server_token::Token;
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use std::collections::{BTreeMap, BTreeSet};

/// Values by name and labels, in their written form.
type Samples = BTreeMap<String, f64>;

/// Reads OpenMetrics text as strictly as its specification: `# EOF` ends it, families do not repeat
/// or mix, names end as their kinds require, labels are quoted, and buckets add up.
fn parse(text: &str) -> Result<Samples, String> {
    let body = text
        .strip_suffix("# EOF\n")
        .ok_or("it does not end with # EOF")?;
    let (mut samples, mut families) = (Samples::new(), BTreeSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let mut word = || words.next().ok_or(format!("{line}: too short"));
            let (what, name, value) = (word()?, word()?, word()?);
            if name != family {
                let is_new = families.insert(name.to_owned());
                is_new.then_some(()).ok_or(format!("{name} comes twice"))?;
                family = name.to_owned();
                kind = String::new();
            }
            match what {
                "TYPE" => kind = value.to_owned(),
                "HELP" => {}
                "UNIT" if name.ends_with(&format!("_{value}")) => {}
                _ => return Err(format!("{line}: no such line")),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').ok_or(format!("{line}: no value"))?;
        let value: f64 = value.parse().map_err(|_| format!("{line}: no number"))?;
        let name = series.split('{').next().unwrap_or_default();
        let end = name
            .strip_prefix(family.as_str())
            .ok_or(format!("{line}: not in {family}"))?;
        let ends: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => return Err(format!("{line}: of kind {other:?}")),
        };
        ends.contains(&end)
            .then_some(())
            .ok_or(format!("{line}: {kind} ends in {end:?}"))?;
        (value.is_finite() && (kind == "gauge" || value >= 0.0))
            .then_some(())
            .ok_or(format!("{line}: cannot be"))?;
        check_labels(series.strip_prefix(name).unwrap_or_default())
            .map_err(|why| format!("{line}: {why}"))?;
        let before = samples.insert(series.to_owned(), value);
        before
            .is_none()
            .then_some(())
            .ok_or(format!("{series} comes twice"))?;
    }
    check_buckets(&samples)?;
    Ok(samples)
}

/// `{name="value",…}` or nothing.
fn check_labels(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let inner = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let mut rest = inner.ok_or("labels without braces")?;
    let mut names = BTreeSet::new();
    loop {
        let (name, value) = rest.split_once("=\"").ok_or("a label without a value")?;
        let is_letter = |c: char| c.is_ascii_lowercase() || c == '_';
        if name.is_empty() || !name.chars().all(is_letter) || !names.insert(name) {
            return Err(format!("the label {name:?}"));
        }
        let end = value.find('"').ok_or("a label without an end")?;
        let (value, after) = value.split_at(end);
        if value.contains(['\\', '\n']) {
            return Err("an escape that this server never needs".to_owned());
        }
        match &after[1..] {
            "" => return Ok(()),
            after => rest = after.strip_prefix(',').ok_or("no comma")?,
        }
    }
}

/// Buckets grow up to their count.
fn check_buckets(samples: &Samples) -> Result<(), String> {
    let mut last: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (series, &count) in samples {
        let Some((name, labels)) = series.split_once("_bucket{") else {
            continue;
        };
        let (le, others) = labels.split_once("le=\"").ok_or("a bucket without le")?;
        let (end, others_after) = others.split_once('"').ok_or("le without an end")?;
        let end = match end {
            "+Inf" => f64::INFINITY,
            end => end.parse().map_err(|_| format!("{series}: le"))?,
        };
        let labels = format!("{le}{}", others_after.trim_start_matches(','));
        let key = format!("{name}_count{{{labels}").replace(",}", "}");
        last.entry(key).or_default().push((end, count));
    }
    for (key, mut buckets) in last {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let grows = buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        let &(end, all) = buckets.last().ok_or("no buckets")?;
        if !grows || end != f64::INFINITY || samples.get(&key) != Some(&all) {
            return Err(format!("{key}: the buckets do not add up: {buckets:?}"));
        }
    }
    Ok(())
}

async fn measured(server: &Server) -> Samples {
    let answer = server.get("/metrics").await.expect(StatusCode::OK);
    let kind = answer.headers[header::CONTENT_TYPE].to_str().unwrap();
    assert!(
        kind.starts_with("application/openmetrics-text; version=1.0.0"),
        "{kind}"
    );
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

#[test]
fn text_that_is_not_to_the_letter_is_noticed() {
    let check = |text: &str, ok: bool| assert_eq!(parse(text).is_ok(), ok, "{text}");
    let counter = "# HELP a A.\n# TYPE a counter\n";
    check(&format!("{counter}a_total 1\n# EOF\n"), true);
    check(
        &format!("{counter}a_total{{x=\"1\",y=\"/b\"}} 1\n# EOF\n"),
        true,
    );
    check(&format!("{counter}a_total 1\n"), false);
    check(&format!("{counter}a 1\n# EOF\n"), false);
    check(&format!("{counter}a_total -1\n# EOF\n"), false);
    check(&format!("{counter}a_total 1\na_total 1\n# EOF\n"), false);
    check(&format!("{counter}b_total 1\n# EOF\n"), false);
    check(&format!("{counter}a_total{{x=1}} 1\n# EOF\n"), false);
    check(
        &format!("{counter}a_total{{x=\"1\"x=\"1\"}} 1\n# EOF\n"),
        false,
    );
    check(&format!("{counter}# TYPE b gauge\n{counter}# EOF\n"), false);
    let buckets = |last: u32| {
        format!(
            "# TYPE h histogram\nh_sum 1.5\nh_count 2\nh_bucket{{le=\"1.0\"}} 1\n\
             h_bucket{{le=\"+Inf\"}} {last}\n# EOF\n"
        )
    };
    check(
        &buckets(2).replace("h_count 2", "h_count{x=\"y\"} 2"),
        false,
    );
    check(&buckets(2).replace("h_count", "h_count{}"), false);
    check(&buckets(3), false);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_and_what_is_asked_of_it_is_counted() {
    let server = Server::start().await;
    let file = packed_snapshot();
    server
        .put("/api/upload/a.pickle", file)
        .await
        .expect(StatusCode::CREATED);
    server
        .put("/api/upload/a.pickle", file)
        .await
        .expect(StatusCode::OK);
    let damaged = server.put("/api/upload/b.pickle", "no snapshot").await;
    assert!(damaged.status.is_client_error());
    let runs: Vec<api::runs::RunSummary> = server.get("/api/runs").await.read();
    server
        .get(&format!("/api/runs/{}", runs[0].id))
        .await
        .expect(StatusCode::OK);
    let samples = measured(&server).await;
    let of = |name: &str| {
        samples
            .get(name)
            .copied()
            .unwrap_or_else(|| panic!("{name}: {samples:#?}"))
    };
    for (outcome, count) in [
        ("new", 1.0),
        ("known", 1.0),
        ("failed", 1.0),
        ("cancelled", 0.0),
    ] {
        let name = format!("tidemark_uploads_finished_total{{outcome=\"{outcome}\"}}");
        assert_eq!(of(&name), count, "{outcome}");
    }
    assert_eq!(of("tidemark_uploads_begun_total"), 3.0);
    assert_eq!(of("tidemark_uploads_refused_total"), 0.0);
    assert_eq!(
        of("tidemark_upload_received_bytes_total"),
        2.0 * file.len() as f64 + 11.0
    );
    assert!(of("tidemark_upload_events_total") > 100.0);
    assert_eq!(of("tidemark_runs"), 1.0);
    assert_eq!(of("tidemark_blobs_bytes"), file.len() as f64);
    assert_eq!(
        of("tidemark_memory_limit_bytes"),
        server.app.config.memory.get() as f64
    );
    assert!(of("tidemark_database_bytes") > 4096.0);
    let part = |name: &str| of(&format!("tidemark_database_part_bytes{{part=\"{name}\"}}"));
    for name in ["events", "live", "other"] {
        assert!(part(name) > 100.0, "{name}");
    }
    assert!(part("events") + part("other") <= of("tidemark_database_bytes"));
    assert!(of("tidemark_disk_free_bytes") > 0.0);
    assert_eq!(of("tidemark_event_streams"), 0.0);
    for queue in "questions answers reading judging jobs benches".split(' ') {
        let of = |what: &str| of(&format!("tidemark_queue_{what}{{queue=\"{queue}\"}}"));
        assert!(of("turns") >= 1.0, "{queue}");
        assert_eq!(of("waiting"), 0.0, "{queue}");
    }
    let asked = "{route=\"/api/runs/{run}\",method=\"GET\",status=\"2xx\"}";
    assert_eq!(of(&format!("tidemark_http_requests_total{asked}")), 1.0);
    let asked = "{route=\"/api/runs/{run}\",method=\"GET\"}";
    assert_eq!(
        of(&format!(
            "tidemark_http_request_duration_seconds_count{asked}"
        )),
        1.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_write_makes_no_new_labels() {
    let server = Server::start().await;
    measured(&server).await;
    let secret = "0123456789abcdefghijkl";
    let ask = async |n: usize| {
        let paths = [
            "/api/runs/run_",
            "/api/nothing/",
            "/s/",
            "/assets/",
            "/",
            "/api/upload/",
        ];
        for path in paths {
            server
                .get(&format!("{path}{secret}{n}?share={secret}"))
                .await;
        }
        let strange = Method::from_bytes(format!("M{n}").as_bytes()).unwrap();
        server
            .send(request(strange, "/api/runs").body(Body::empty()).unwrap())
            .await;
    };
    // Enough to get the last answer to wrong guesses: try again later.
    for n in 0..12 {
        ask(n).await;
    }
    let before: Vec<String> = measured(&server).await.into_keys().collect();
    for n in 12..20 {
        ask(n).await;
    }
    let after: Vec<String> = measured(&server).await.into_keys().collect();
    assert_eq!(before, after);
    assert!(
        !after.iter().any(|series| series.contains(secret)),
        "{after:#?}"
    );
    let methods = after
        .iter()
        .filter(|series| series.contains("method=\"other\""))
        .count();
    assert!(methods > 0, "{after:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_read_the_api_may_not_read_the_measurements() {
    let token = Token::random();
    let bearer = format!("Bearer {}", token.secret());
    let server = Server::with(|config| config.token = Some(token)).await;
    let ask = async |headers: &[(header::HeaderName, &str)]| -> Answer {
        let mut asking = request(Method::GET, "/metrics");
        for (name, value) in headers {
            asking = asking.header(name, *value);
        }
        server.send(asking.body(Body::empty()).unwrap()).await
    };
    ask(&[]).await.expect(StatusCode::UNAUTHORIZED).problem();
    let wrong = [(header::AUTHORIZATION, "Bearer 0123456789abcdef")];
    ask(&wrong).await.expect(StatusCode::UNAUTHORIZED);
    let right = [(header::AUTHORIZATION, bearer.as_str())];
    ask(&right).await.expect(StatusCode::OK);
    // A page from elsewhere that lets its own name point to this address.
    let open = Server::start().await;
    let rebound = axum::http::Request::builder()
        .uri("/metrics")
        .header(header::HOST, "evil.example");
    let refused = open.send(rebound.body(Body::empty()).unwrap()).await;
    refused.expect(StatusCode::FORBIDDEN);
    let posted = open.json(Method::POST, "/metrics", "{}").await;
    posted.expect(StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_opens_no_measurements() {
    let token = Token::random();
    let bearer = format!("Bearer {}", token.secret());
    let server = Server::with(|config| config.token = Some(token)).await;
    let send = async |method: Method, path: &str, body: &str| {
        let asking = request(method, path)
            .header(header::AUTHORIZATION, &bearer)
            .header(header::CONTENT_TYPE, "application/json");
        server
            .send(asking.body(Body::from(body.to_owned())).unwrap())
            .await
    };
    let opened = send(Method::POST, "/api/samples/leak_hook_cache", "").await;
    let opened: serde_json::Value = opened.expect(StatusCode::CREATED).read();
    let run = opened["run"]["id"].as_str().unwrap();
    let link = format!(
        r#"{{"kind":"capability","target":{{"kind":"run","run":"{run}"}},"query":"v=1",
            "redaction":"none","note":"","created_by":"","expires_in_s":3600}}"#
    );
    let made: api::shares::CreatedShare = send(Method::POST, "/api/shares", &link).await.read();
    let named = format!("/metrics?share={}", made.share.id);
    server.get(&named).await.expect(StatusCode::UNAUTHORIZED);
    send(Method::GET, &named, "")
        .await
        .expect(StatusCode::FORBIDDEN);
}
