//! A training that is watched while it runs: the Python package with a stand-in for torch, the
//! server, and a browser.

use crate::eyes::axe;
use crate::recipes::{command, fixture, program};
use crate::sessions::look_at;
use std::path::Path;
use tests::{Browser, TestServer, Theme, Viewport};

/// Ten steps, then one each 20 ms until a file is there; each holds 16 MiB more than the last.
const TRAIN: &str = "\
import os, time, torch
from tidemark_capture import Capture
with Capture(name='llama', live=True, live_seconds=0.1, record=False) as capture:
    step = 0
    while step < 40 or not os.path.exists('stop'):
        step += 1
        held = (4000 + 16 * step) << 20
        torch.cuda.counters = (held, held + (1 << 30), held + (2 << 30), 0, 0)
        capture.step()
        time.sleep(0.02)
";

/// The lines on the empty page are a whole program: pasted as they are, they report.
#[tokio::test]
async fn the_lines_that_the_page_shows_report_as_they_are() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/live")).await;
    let there = "return !!document.querySelector('main pre code');";
    browser.wait_until("the lines", there).await;
    let lines = "return document.querySelector('main pre code').textContent;";
    let lines = browser.eval(lines).await;
    let folder = program(lines.as_str().expect("a text"));
    let mut pasted = command(folder.path(), &["train.py"], &fixture("plain_lm"));
    assert!(pasted.status().expect("python3 runs").success());
    browser.goto(&server.url("/live")).await;
    let listed = "return document.querySelectorAll('main tbody tr').length === 1;";
    browser.wait_until("the training", listed).await;
}

#[tokio::test]
async fn a_training_is_watched_and_asked_for_a_snapshot() {
    let server = TestServer::start();
    let folder = program(TRAIN);
    let mut command = command(folder.path(), &["train.py"], &fixture("plain_lm"));
    let training = command.env("TIDEMARK_SERVER", server.url("")).spawn();
    let mut training = training.expect("python3 runs");

    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.add_to_pages(axe::AXE).await;
    browser.goto(&server.url("/live")).await;
    let listed = "return document.querySelector('main tbody a')?.textContent === 'llama';";
    browser.wait_until("the training", listed).await;
    browser.click("main tbody a").await;
    let grows = "return document.querySelector('[data-live] [role=status]')?.textContent \
                 .includes('Memory grows by 16.0 MiB a step');";
    browser.wait_until("what to look at", grows).await;
    // The page goes on by itself.
    let step = "return Number(document.querySelector('figcaption').textContent \
                .match(/After step (\\d+)/)[1]);";
    let before = browser.eval(step).await.as_u64().expect("a number");
    let later = format!("return (() => {{ {step} }})() > {before};");
    browser.wait_until("a later step", &later).await;
    browser.screenshot("live-run").await;
    let address = browser.eval("return location.pathname;").await;
    let address = address.as_str().expect("a path").to_owned();
    for path in ["/live", &address] {
        look_at(&browser, &server, path).await;
    }
    browser.set_viewport(Viewport::Desktop).await;
    browser.goto(&server.url(&address)).await;

    browser.click("main form button").await;
    let taken = "return document.querySelector('main li a')?.textContent.includes('live1');";
    browser.wait_until("the snapshot", taken).await;
    browser.screenshot("live-snapshot").await;
    stop(folder.path());
    let done = "return document.querySelector('[data-live]').textContent.includes('done');";
    browser.wait_until("the end", done).await;
    assert!(training.wait().expect("it ends").success());
    browser.click("main li a").await;
    let page = "return location.pathname.startsWith('/runs/run_') && \
                document.querySelector('h1')?.textContent.includes('llama');";
    browser.wait_until("the page of the run", page).await;
}

fn stop(folder: &Path) {
    std::fs::write(folder.join("stop"), "").expect("it can be written");
}
