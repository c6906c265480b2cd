//! A team's day: a training of two ranks and a CI job send recordings, the gate comments on the
//! pull request, one person reviews it, hands a run on and takes that back, and the audit tells the
//! other who did what.

use super::eyes::axe;
use super::recipes::{fixture, train_on_two_ranks};
use super::sessions::{TEXT, add, fill, look_at, shown_token};
use super::sharing::{make_link, revoke_all};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use tests::{Browser, TestServer, Theme, Viewport};

const PULL: &str = "https://github.com/o/r/pull/7";
const HEAD: &str = "0123456789abcdef0123456789abcdef01234567";

/// What a forge was asked to write: the path, and the text.
type Written = Arc<Mutex<Vec<(String, Value)>>>;

/// As much of GitHub as a comment and a commit's status take; its address.
fn forge() -> (String, Written) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let written = Written::default();
    let kept = Arc::clone(&written);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&mut stream.expect("a connection"), &kept);
        }
    });
    (address, written)
}

/// One request on a connection of its own.
fn answer(stream: &mut TcpStream, written: &Written) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_ascii_lowercase()),
        }
    }
    let length = lines
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |n| n.parse().expect("a number"))];
    reader.read_exact(&mut body).expect("a body");
    let mut words = lines[0].split(' ');
    let (method, path) = (words.next().expect("a verb"), words.next().expect("a path"));
    let told = match (method, path) {
        ("get", path) if path.contains("/comments") => json!([]),
        ("get", _) => json!({ "head": { "sha": HEAD } }),
        _ => {
            let body = serde_json::from_slice(&body).expect("JSON");
            let mut written = written.lock().expect("nobody panicked");
            written.push((path.to_owned(), body));
            json!({ "id": written.len() })
        }
    };
    let told = told.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        told.len()
    );
    let sent = stream.write_all((head + &told).as_bytes());
    sent.expect("an answer");
}

/// What a CI job runs; its standard output.
fn ci(server: &TestServer, token: &str, args: &[&str]) -> String {
    let output = Command::new(tests::tidemark())
        .arg("push")
        .args(args)
        .args(["--server", &server.url("/")])
        .env("TIDEMARK_TOKEN", token)
        .env("TIDEMARK_PR_TOKEN", "a token of the forge")
        .output()
        .expect("tidemark runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    String::from_utf8(output.stdout).expect("a text")
}

async fn text(browser: &Browser) -> String {
    let text = browser.eval(TEXT).await;
    text.as_str().expect("a text").to_owned()
}

/// What the pull request shows stays, and so do the ranks of its training: nothing goes.
fn prune(server: &TestServer, token: &str) {
    let run = |args: &[&str]| {
        let output = Command::new(tests::tidemark())
            .args(["prune", "--json", "--server", &server.url("/")])
            .args(args)
            .env("TIDEMARK_TOKEN", token)
            .output()
            .expect("tidemark runs");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{log}");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let plan = run(&["--keep", "0"]);
    assert_eq!(
        (&plan["deleted"], &plan["runs"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(plan["kept"], json!({ "pull_request": 2 }));
}

/// The team's own categories: a wrong rule is refused and stays in the form, a right one is tried
/// on a run and kept, and the run's page shows its name.
async fn keep_categories(browser: &Browser, server: &TestServer, run: &str) {
    browser.set_viewport(Viewport::Desktop).await;
    browser
        .goto(&server.url(&format!("/categories?run={run}")))
        .await;
    fill(browser, "#rules", "model colour=red").await;
    browser.click("button[value=keep]").await;
    let refused = "return document.querySelector('[role=alert]')?.textContent.includes('Line 1') \
                   && document.querySelector('#rules').value === 'model colour=red';";
    browser.wait_until("why it is no rule", refused).await;
    browser
        .eval("document.querySelector('#rules').value = '';")
        .await;
    fill(browser, "#rules", "model function=forward\nrest size>=0").await;
    browser.click("button[value=try]").await;
    let tried = "const rows = [...document.querySelectorAll('main tbody tr')]; \
                 return rows.length === 2 && rows[0].cells[1].textContent === 'model';";
    browser.wait_until("what the rules take", tried).await;
    browser.screenshot("team-categories").await;
    // What was only tried is still there after Back.
    browser.goto(&server.url("/jobs")).await;
    browser
        .goto(&server.url(&format!("/categories?run={run}")))
        .await;
    let typed = "return document.querySelector('#rules').value.startsWith('model function') \
                 && document.querySelector('[data-drafted]').checkVisibility();";
    browser.wait_until("what was typed", typed).await;
    browser.click("button[value=try]").await;
    browser.wait_until("what the rules take", tried).await;
    // Tried and kept rules look alike, but those are on another page.
    browser.eval("window.isTried = true;").await;
    browser.click("button[value=keep]").await;
    let kept = format!("if (window.isTried) return false; {tried}");
    browser.wait_until("the kept rules", &kept).await;
    browser.goto(&server.url(&format!("/runs/{run}"))).await;
    let shown = "return [...document.querySelectorAll('.recording-category')] \
                 .some(chip => chip.textContent.includes('rest'));";
    browser.wait_until("its own categories", shown).await;
    browser.screenshot("team-own-categories").await;
}

/// The CI of a change that leaks: it is judged against the branch that it goes to, and the pull
/// request is told.
fn gate_and_comment(server: &TestServer, token: &str) {
    let [good, bad] = ["ddp_rank0", "ddp_rank1"].map(|name| fixture(name).display().to_string());
    // The same bytes are the same run: rank 0 of the training is the baseline.
    ci(server, token, &[&good, "--label", "branch=main"]);
    let (api, written) = forge();
    let mut args = vec![bad.as_str(), "--base", "branch=main", "--pr", PULL];
    args.extend(["--comment", "--pr-api", &api]);
    let told = ci(server, token, &args);
    let written = written.lock().expect("nobody panicked").clone();
    let of = |path: &str| {
        let mut found = written.iter().filter(|(to, _)| to.contains(path));
        let (_, body) = found
            .next()
            .unwrap_or_else(|| panic!("{path}: {written:?}"));
        body.clone()
    };
    let status = of("/statuses/");
    assert_eq!(status["state"], "failure");
    let compared = status["target_url"].as_str().expect("a link");
    assert!(told.contains(compared), "{told}");
    let comment = of("/issues/7/comments")["body"].to_string();
    assert!(comment.contains(compared), "{comment}");
}

/// From the pull request's page to the comparison, and to the job whose rank leaks; the address of
/// that rank's run.
async fn review(reviewer: &Browser, server: &TestServer, token: &str) -> String {
    let page = format!("/pull-requests?pr={PULL}");
    reviewer.goto(&server.url(&page)).await;
    fill(reviewer, "#token", token).await;
    reviewer.click("main button").await;
    let row = "return document.querySelectorAll('main tbody tr').length === 1 && \
               document.querySelector('main tbody .badge').textContent === 'regression';";
    reviewer.wait_until("the push and its verdict", row).await;
    reviewer.screenshot("team-pull-request").await;
    reviewer.click("main tbody a").await;
    let compared = "return location.pathname === '/compare' && \
                    /regression/i.test(document.querySelector('main')?.innerText ?? '');";
    let comparison = "the comparison and its verdict";
    reviewer.wait_until(comparison, compared).await;
    reviewer.screenshot("team-comparison").await;
    reviewer.goto(&server.url("/jobs")).await;
    assert!(text(reviewer).await.contains("leak: 1 of 2 ranks"));
    reviewer.screenshot("team-jobs").await;
    reviewer.click("main tbody a").await;
    let ranks = "return !!document.querySelector('main a[href^=\"/runs/\"]');";
    reviewer.wait_until("the ranks", ranks).await;
    reviewer.click("main a[href^=\"/runs/\"]").await;
    let there = "return location.pathname.startsWith('/runs/') && \
                 !!document.querySelector('.view-actions > button:last-of-type');";
    reviewer.wait_until("the run's page", there).await;
    let run = reviewer.eval("return location.href;").await;
    run.as_str().expect("an address").to_owned()
}

/// Hands the run that is open on to somebody without a login, and takes that back.
async fn hand_on_and_revoke(owner: &Browser, run: &str) {
    let link = make_link(owner, false).await;
    let guest = Browser::open(Viewport::Desktop, Theme::Light).await;
    guest.goto(&link).await;
    let open = "return !!document.querySelector('.link-banner') && \
                document.querySelector('.timeline')?.ariaBusy === 'false';";
    guest.wait_until("the run, as a guest sees it", open).await;
    // `branch=main` is for the team, and so is the page on which that is changed.
    let head = guest.eval("return document.querySelector('.run-title').innerHTML;");
    let head = head.await.to_string();
    assert!(
        !head.contains("main") && !head.contains("/labels"),
        "{head}"
    );
    revoke_all(owner, run, 1).await;
    guest.goto(&link).await;
    let gone = "return document.body.textContent.includes('It was revoked on 2');";
    guest.wait_until("the words about the end", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_gate_comment_review_revoke_audit() {
    let server = TestServer::start();
    let ada = Browser::open(Viewport::Desktop, Theme::Light).await;
    let bo = Browser::open(Viewport::Desktop, Theme::Light).await;
    ada.add_to_pages(axe::AXE).await;
    add(&ada, &server, "ada").await;
    let token = add(&ada, &server, "bo").await;
    ada.goto(&server.url("/account")).await;
    fill(&ada, "#name", "the machines").await;
    ada.click("form[action^=\"/account/tokens?\"] button").await;
    let machines = shown_token(&ada).await;

    train_on_two_ranks(&server, "night", Some(&machines));
    gate_and_comment(&server, &machines);
    let run = review(&bo, &server, &token).await;
    hand_on_and_revoke(&bo, &run).await;
    let id = run.rsplit('/').next().expect("an id");
    let id = id.split('?').next().expect("an id");
    let labels = format!("/runs/{id}/labels");
    keep_categories(&ada, &server, id).await;
    let tried = format!("/categories?run={id}");
    for path in [
        &tried,
        "/jobs",
        "/history",
        "/pull-requests?pr=https://github.com/o/r/pull/7",
        &labels,
    ] {
        look_at(&ada, &server, path).await;
    }
    ada.set_viewport(Viewport::Desktop).await;

    prune(&server, &token);
    ada.goto(&server.url("/audit")).await;
    ada.screenshot("team-audit").await;
    let rows = "return [...document.querySelectorAll('main tbody tr')].map(row => \
                [1, 3].map(at => row.cells[at].textContent).join(': '));";
    let rows: Vec<String> = serde_json::from_value(ada.eval(rows).await).expect("texts");
    let done = [
        "ada: upload",
        "ada: label run",
        "ada: make job",
        "ada: change categories",
        "bo: share",
        "bo: revoke link",
        "bo: sign in",
    ];
    for expected in done {
        let found = rows.iter().any(|row| row.starts_with(expected));
        assert!(found, "{expected}: {rows:#?}");
    }
}
