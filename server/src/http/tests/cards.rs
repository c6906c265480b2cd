//! Cards: pictures and Markdown.

use super::{Answer, Server, request};
use crate::config::Config;
use crate::who::server_token::Token;
use api::compare_view::CompareState;
use api::routes;
use api::runs::{FinishedUpload, RunSummary};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use std::path::Path;

async fn sample(server: &Server, name: &str) -> RunSummary {
    let answer = server.json(Method::POST, &routes::sample(name), "").await;
    answer.read::<FinishedUpload>().run
}

async fn file(server: &Server, path: &str) -> Answer {
    server.get(path).await.expect(StatusCode::OK)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_is_the_same_bytes_each_time() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await.id;
    let mut seen = Vec::new();
    for format in ["svg", "png"] {
        for theme in ["light", "dark"] {
            let path = format!("{}?theme={theme}", routes::card(&run, format));
            let first = file(&server, &path).await;
            server.app.pictures.traces.forget_all();
            assert_eq!(file(&server, &path).await.body, first.body, "{path}");
            assert!(!seen.contains(&first.body), "{path}");
            let tag = first.headers[header::ETAG].clone();
            let again = request(Method::GET, &path).header(header::IF_NONE_MATCH, tag);
            let again = server.send(again.body(Body::empty()).unwrap()).await;
            assert_eq!(again.status, StatusCode::NOT_MODIFIED);
            seen.push(first.body);
        }
    }
    let zoomed = format!("{}?v=1&from=0&to=100", routes::card(&run, "svg"));
    assert_ne!(file(&server, &zoomed).await.body, seen[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_says_what_the_run_page_says() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await;
    let card = file(&server, &routes::card(&run.id, "svg")).await;
    let card = String::from_utf8(card.body.to_vec()).unwrap();
    let peak = run.devices[0].series[1].peak.to_string();
    for part in [
        run.name.as_str(),
        &peak,
        "Leak",
        "+8.00 MiB a step",
        "gen2.py",
    ] {
        assert!(card.contains(part), "{part}");
    }
    let clean = sample(&server, "plain_lm").await;
    let card = file(&server, &routes::card(&clean.id, "svg")).await;
    let card = String::from_utf8(card.body.to_vec()).unwrap();
    assert!(card.contains("No leak") && card.contains("The largest of "));
    let png = file(&server, &routes::card(&clean.id, "png")).await.body;
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(&png[16..24], [0, 0, 4, 176, 0, 0, 2, 118]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_markdown_of_a_run_is_the_reviewed_one() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await;
    let text = async |query: &str| {
        let path = format!("{}{query}", routes::card(&run.id, "md"));
        String::from_utf8(file(&server, &path).await.body.to_vec()).unwrap()
    };
    insta::assert_snapshot!("card_md", text("").await);
    let private = text("?numbers_only=1").await;
    insta::assert_snapshot!("card_md_numbers_only", private);
    assert!(!private.contains("gen2") && !private.contains("!["));
    assert!(
        text("?link=abc")
            .await
            .contains("http://localhost:7878/s/abc/card.png")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_events_has_a_card_too() {
    let server = Server::start().await;
    for name in ["oom", "streams"] {
        let run = sample(&server, name).await.id;
        file(&server, &routes::card(&run, "png")).await;
        file(&server, &routes::card(&run, "md")).await;
    }
    let missing = "run_0000000000000000".parse().unwrap();
    let answer = server.get(&routes::card(&missing, "png")).await;
    answer.expect(StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_out_of_memory_says_so() {
    let server = Server::start().await;
    let run = sample(&server, "oom").await;
    let block = text(&server, &routes::card(&run.id, "md")).await;
    for part in [
        "**Out of memory.** In step 21",
        "125 MiB were asked for",
        "At the peak (inferred): activations ",
        "**Leak.**",
    ] {
        assert!(block.contains(part), "{part}: {block}");
    }
    let card = text(&server, &routes::card(&run.id, "svg")).await;
    assert!(card.contains("Leak, out of memory") && card.contains("At the peak (inferred)"));
    let clean = sample(&server, "plain_lm").await;
    let against = view(&[&clean, &run]).to_string();
    let card = text(&server, &routes::compare_card(&against, "svg")).await;
    assert!(card.contains("Ran out of memory after 21 steps, the baseline did not"));
    assert!(card.contains("At the peak (inferred): "), "{card}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_pass_is_called_what_it_is() {
    let server = Server::start().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/plain");
    let file = std::fs::read(folder.join("single_forward.pickle.zst")).unwrap();
    let path = routes::upload_named("pass.pickle.zst");
    let run = server.put(&path, file).await.read::<FinishedUpload>().run;
    let word = run.leaks.as_ref().and_then(|leaks| leaks.recording.word());
    assert_eq!(word, Some("one forward pass"));
    let block = text(&server, &routes::card(&run.id, "md")).await;
    // The sentence and the line of categories say the same.
    for told in [
        "**One forward pass.** 996 MiB of activations wait",
        "At the peak (inferred): activations 996 MiB",
    ] {
        assert!(block.contains(told), "{told}: {block}");
    }
    assert!(
        !block.contains("growth") && !block.contains("Cannot tell"),
        "{block}"
    );
    let card = text(&server, &routes::card(&run.id, "svg")).await;
    assert!(card.contains("One forward pass") && !card.contains("Cannot tell"));
}

async fn pair(server: &Server) -> [RunSummary; 2] {
    [
        sample(server, "off_v1_moe").await,
        sample(server, "off_v3_moe").await,
    ]
}

fn view(runs: &[&RunSummary]) -> CompareState {
    CompareState {
        runs: runs.iter().map(|run| run.id.clone()).collect(),
        ..CompareState::default()
    }
}

async fn text(server: &Server, path: &str) -> String {
    String::from_utf8(file(server, path).await.body.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_has_a_card_that_says_what_its_page_says() {
    let server = Server::start().await;
    let [leak, fix] = pair(&server).await;
    let query = view(&[&leak, &fix]).to_string();
    let card = text(&server, &routes::compare_card(&query, "svg")).await;
    let peaks = [&leak, &fix].map(|run| run.devices[0].series[1].peak.to_string());
    for part in [
        &leak.name,
        &fix.name,
        &peaks[0],
        &peaks[1],
        "−4.80 GiB",
        "Better",
        "is gone.",
        "Nothing grew; what shrank most",
        "unpack_tensor_with_streams",
        "step 0",
    ] {
        assert!(card.contains(part), "{part}");
    }
    assert!(!card.contains("step 12"), "there are twelve, from 0");
    let query = view(&[&fix, &leak]).to_string();
    let worse = text(&server, &routes::compare_card(&query, "svg")).await;
    assert!(worse.contains("Worse") && worse.contains("What grew most"));
    let png = file(&server, &routes::compare_card(&query, "png")).await;
    assert_eq!(png.headers[header::CONTENT_TYPE], "image/png");
    assert_eq!(&png.body[16..24], [0, 0, 4, 176, 0, 0, 2, 118]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_of_a_comparison_is_the_same_bytes_until_something_changes() {
    let server = Server::start().await;
    let [leak, fix] = pair(&server).await;
    let plain = sample(&server, "plain_lm").await;
    let state = view(&[&leak, &fix, &plain]);
    let mut seen = Vec::new();
    for format in ["svg", "png"] {
        for theme in ["light", "dark"] {
            let path = routes::compare_card(&state.to_string(), format);
            let path = format!("{path}&theme={theme}");
            let first = file(&server, &path).await;
            server.app.pictures.traces.forget_all();
            assert_eq!(file(&server, &path).await.body, first.body, "{path}");
            assert!(!seen.contains(&first.body), "{path}");
            let tag = first.headers[header::ETAG].clone();
            let known = || {
                let again = request(Method::GET, &path).header(header::IF_NONE_MATCH, &tag);
                server.send(again.body(Body::empty()).unwrap())
            };
            assert_eq!(known().await.status, StatusCode::NOT_MODIFIED);
            let rename = format!(r#"{{"name":"{format} {theme}"}}"#);
            let answer = server
                .json(Method::PATCH, &routes::run(&fix.id), &rename)
                .await;
            answer.expect(StatusCode::OK);
            assert_ne!(known().await.expect(StatusCode::OK).body, first.body);
            seen.push(first.body);
        }
    }
    let svg = async |state: &CompareState| {
        text(&server, &routes::compare_card(&state.to_string(), "svg")).await
    };
    let whole = svg(&state).await;
    let (window, against) = (Some((3.0, 5.0)), 2);
    let zoomed = CompareState {
        window,
        ..state.clone()
    };
    assert_ne!(svg(&zoomed).await, whole);
    let other = svg(&CompareState { against, ..state }).await;
    assert!(other.contains("A small language model, six…: "), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_without_sense_has_no_card() {
    let server = Server::start().await;
    let [leak, _] = pair(&server).await;
    let id = &leak.id;
    let check = async |query: &str, status: StatusCode| {
        let answer = server.get(&routes::compare_card(query, "svg")).await;
        assert_eq!(answer.status, status, "{query}");
        answer.problem();
    };
    let (bad, missing) = (StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND);
    check("", bad).await;
    check(&format!("runs={id}"), bad).await;
    check(&format!("runs={id},{id}&theme=pink"), bad).await;
    check(&format!("v=99&runs={id},{id}"), bad).await;
    check(&format!("runs={id},run_0000000000000000"), missing).await;
    // A missing pair of devices is not an error: another run may have it. This one shows its own.
    let there = format!("runs={id},{id}");
    let [card, absent] =
        [there.clone(), format!("{there}&pair=7")].map(|query| routes::compare_card(&query, "svg"));
    assert_eq!(text(&server, &absent).await, text(&server, &card).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_are_small_whatever_they_are_of() {
    const MOST: usize = 200_000;
    let server = Server::start().await;
    let mut all = Vec::new();
    for known in &crate::samples::ALL {
        let run = sample(&server, known.name).await;
        let card = file(&server, &routes::card(&run.id, "svg")).await.body;
        assert!(card.len() < MOST, "{}: {}", run.name, card.len());
        all.push(run);
    }
    let query = view(&all.iter().take(8).collect::<Vec<_>>()).to_string();
    let card = file(&server, &routes::compare_card(&query, "svg"))
        .await
        .body;
    assert!(card.len() < MOST, "{}", card.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_markdown_of_a_comparison_shows_its_card() {
    let server = Server::start().await;
    let [leak, fix] = pair(&server).await;
    let query = view(&[&leak, &fix]).to_string();
    let block = async |link, names| {
        let path = routes::compare_markdown(&query, link, names);
        text(&server, &path).await
    };
    insta::assert_snapshot!("compare_md", block(None, true).await);
    let private = block(None, false).await;
    insta::assert_snapshot!("compare_md_numbers_only", private);
    let linked = block(Some("abc"), true).await;
    assert!(linked.contains("http://localhost:7878/s/abc/card.png"));
    assert!(!block(Some("abc"), false).await.contains("!["));
}

/// Paths that a page's head tells the browser to fetch.
fn fetched_early(page: &str) -> Vec<&str> {
    let links = page
        .split("<link rel=\"preload\" as=\"fetch\" crossorigin href=\"")
        .skip(1);
    links
        .map(|link| link.split('"').next().unwrap_or_default())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_run_fetches_its_first_picture_early() {
    let server = Server::start().await;
    let run = sample(&server, "leak_hook_cache").await.id;
    let page = text(&server, &routes::run_page(&run)).await;
    let early = fetched_early(&page);
    assert_eq!(early.len(), 3, "{early:?}");
    for path in early {
        file(&server, path).await;
    }
    // A view may begin elsewhere, and a page of no run begins with nothing.
    let zoomed = format!("{}?v=1&from=0&to=9", routes::run_page(&run));
    for other in [&zoomed, "/", "/runs/run_0000000000000000"] {
        let page = text(&server, other).await;
        assert_eq!(fetched_early(&page), Vec::<&str>::new(), "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_learns_nothing_from_the_page_of_a_run() {
    let secret = "correct-horse-battery-staple-0001";
    let guarded = |config: &mut Config| config.token = Some(Token::new(secret).unwrap());
    let server = Server::with(guarded).await;
    let bearer = format!("Bearer {secret}");
    let asked = |method: Method, path: &str| {
        let request = request(method, path).header(header::AUTHORIZATION, &bearer);
        request.body(Body::empty()).unwrap()
    };
    let sent = server
        .send(asked(Method::POST, &routes::sample("leak_hook_cache")))
        .await;
    let path = routes::run_page(&sent.read::<FinishedUpload>().run.id);
    let page = server.send(asked(Method::GET, &path)).await;
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    assert_eq!(fetched_early(&page).len(), 3, "somebody with the token");
    let nothing = text(&server, "/runs/run_0000000000000000").await;
    assert_eq!(text(&server, &path).await, nothing);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_everybody_may_see_unfold() {
    let server = Server::start().await;
    let [leak, fix] = pair(&server).await;
    let query = view(&[&leak, &fix]).to_string();
    let page = text(&server, &format!("{}?{query}", routes::COMPARE_PAGE)).await;
    let image = format!(
        "http://localhost:7878{}",
        routes::compare_card(&query, "png")
    );
    let image = image.replace('&', "&amp;");
    let tag = format!(r#"<meta property="og:image" content="{image}">"#);
    assert!(page.contains(&tag), "{page}");
    let page = text(&server, &routes::run_page(&leak.id)).await;
    assert!(page.contains(&routes::card(&leak.id, "png")));
    for nothing in [
        "/compare",
        "/compare?runs=x,y",
        "/runs/run_0000000000000000",
    ] {
        assert!(
            !text(&server, nothing).await.contains("og:image"),
            "{nothing}"
        );
    }
    let guarded = |config: &mut Config| {
        config.token = Some(Token::new("correct-horse-battery-staple-0001").unwrap())
    };
    let server = Server::with(guarded).await;
    let page = text(&server, &format!("{}?{query}", routes::COMPARE_PAGE)).await;
    assert!(!page.contains("og:"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_that_people_type_leads_to_the_list_of_runs() {
    let server = Server::start().await;
    let check = async |typed: &str, expected: &str| {
        let answer = server.get(typed).await;
        assert!(answer.status.is_redirection(), "{typed}");
        assert_eq!(answer.headers["location"], expected, "{typed}");
    };
    check("/runs", "/").await;
    check("/runs/", "/").await;
    check("/runs?filter=moe", "/?filter=moe").await;
}
