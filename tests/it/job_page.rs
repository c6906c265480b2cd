//! Many ranks in a browser: pushed as a folder, shown together, compared, and deleted.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::eyes::world::large_job;
use serde_json::Value;
use tempfile::TempDir;
use tests::{Browser, TestServer, Theme, Viewport};

/// A folder with the two real ranks and with other files that such a folder usually has.
fn folder() -> TempDir {
    let folder = TempDir::with_prefix("tidemark-ranks-").expect("a temporary folder");
    for rank in [0, 1] {
        let name = format!("ddp_rank{rank}.pickle.zst");
        let fixture = tests::workspace_root().join("tests/fixtures").join(&name);
        fs::copy(fixture, folder.path().join(name)).expect("a copy");
    }
    fs::write(folder.path().join("log.txt"), "epoch 1").expect("a file");
    folder
}

/// The JSON output of a command.
fn tidemark(args: &[&str], path: &Path) -> Value {
    let output = Command::new(tests::tidemark())
        .args(args)
        .arg(path)
        .output()
        .expect("tidemark runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    serde_json::from_slice(&output.stdout).expect("a document")
}

#[tokio::test]
async fn a_folder_of_ranks_shows_at_a_glance_which_one_leaks_and_where() {
    let (server, folder) = (TestServer::start(), folder());
    let pushed = tidemark(
        &["push", "--json", "--server", &server.url("")],
        folder.path(),
    );
    assert_eq!(pushed["job"]["name"], "ddp");
    assert_eq!(pushed["job"]["n_ranks"], 2);
    let link = pushed["link"].as_str().expect("a link");

    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(link).await;
    let there = "return document.querySelectorAll('.job-page tbody tr').length > 2;";
    browser.wait_until("the tables", there).await;
    let verdict = browser.text(".job-verdict").await;
    assert!(
        verdict.starts_with("Rank 1 leaks 62.5 MiB a step in keep_on_rank1 ("),
        "{verdict}"
    );
    assert!(verdict.ends_with("; the other rank does not."), "{verdict}");
    // The command line gives the same answer without a server.
    let report = tidemark(&["ranks", "--json"], folder.path());
    assert_eq!(report["sentences"][0], Value::String(verdict));
    assert_eq!(report["ranks"][1]["odd"][0]["kind"], "leaks");

    for picture in [1, 2] {
        let canvas = format!(".multiple:nth-child({picture}) canvas");
        assert!(
            browser.painted_pixels(&canvas).await > 500,
            "{picture} is empty"
        );
    }
    assert_eq!(browser.text(".multiple .badge").await, "odd");
    let site = browser.text("section:last-child tbody th").await;
    assert!(site.starts_with("keep_on_rank1 "), "{site}");
    browser.screenshot("job-pair").await;

    // Compares two ranks; the usual rank is the baseline.
    browser.click(".job-pair a.button").await;
    browser
        .wait_until(
            "the comparison",
            "return !!document.querySelector('.card-headline');",
        )
        .await;
    let headline = browser.text(".card-headline").await;
    assert!(
        headline.contains("a new leak in keep_on_rank1"),
        "{headline}"
    );

    // In the list, each run shows its rank and its job.
    browser.goto(&server.url("/")).await;
    let listed = "return [...document.querySelectorAll('.run-job')].map(a => a.innerText).sort() \
                  .join() === 'rank 0 of ddp,rank 1 of ddp';";
    browser.wait_until("the ranks in the list", listed).await;

    // It opens the job. When that is deleted, its runs stay.
    browser.click(".run-job").await;
    browser.wait_until("the tables", there).await;
    browser.click(".job-delete").await;
    let only = ".job-delete-choices button:nth-child(2)";
    browser.click(only).await;
    let alone = "return document.querySelectorAll('tr.run').length === 2 && \
                 !document.querySelector('.run-job');";
    browser.wait_until("runs without a job", alone).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// What is chosen is in the address, and the Tab key stops once in the grid of ranks.
#[tokio::test]
async fn a_link_to_many_ranks_shows_what_was_chosen() {
    let server = TestServer::start();
    let page = server.url(&large_job(&server, 24));
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&page).await;
    let chosen = |rank: u32| {
        format!(
            "return document.querySelector('.rank-cell[aria-pressed=true]')?.innerText == '{rank}' \
             && document.querySelector('.job-chosen').innerText.startsWith('Rank {rank} ') \
             && document.querySelectorAll('.rank-cell[tabindex=\"0\"]').length === 1;"
        )
    };
    browser.wait_until("the oddest rank", &chosen(7)).await;
    let second = "return document.querySelectorAll('.rank-cell')[1].innerText;";
    let second: u32 = browser
        .eval(second)
        .await
        .as_str()
        .expect("a text")
        .parse()
        .expect("a rank");
    browser
        .eval("document.querySelector('.rank-cell.pressed').focus(); return null;")
        .await;
    browser.press("ArrowRight").await;
    browser.press("Enter").await;
    browser
        .wait_until("the rank beside it", &chosen(second))
        .await;
    // The baseline becomes what was compared: the two change places.
    let swap = "const [base, other] = document.querySelectorAll('.job-pair select');
        base.value = other.value;
        base.dispatchEvent(new Event('change', { bubbles: true }));
        return null;";
    browser.eval(swap).await;
    let written = format!("return location.search.includes('rank={second}&base=7&new=');");
    browser.wait_until("the address", &written).await;
    let here = browser.page.current_url().await.expect("an address");
    let other = Browser::open(Viewport::Desktop, Theme::Light).await;
    other.goto(here.as_str()).await;
    other.wait_until("the same rank", &chosen(second)).await;
    let pair = "const [base, other] = document.querySelectorAll('.job-pair select'); \
                return base.value == '7' && other.value != '7';";
    other.wait_until("the same pair", pair).await;
    assert_eq!(other.complaints().await, Vec::<String>::new());
}

/// From now on the answer to a deletion comes only when the page has had time to read the job
/// again, and `window.read` counts how often it did.
const DELETES_SLOWLY: &str = "
    window.read = 0;
    let deletes = false;
    const fetch = window.fetch;
    window.fetch = async (...asked) => {
        const request = new Request(...asked);
        if (request.method === 'DELETE') {
            deletes = true;
            const answer = await fetch(request);
            // The list of runs comes first: without it, the page does not know of a change.
            await window.listed;
            await new Promise(later => setTimeout(later, 300));
            return answer;
        }
        const { pathname } = new URL(request.url);
        if (deletes && pathname.startsWith('/api/jobs/')) window.read++;
        const answer = await fetch(request);
        if (deletes && pathname === '/api/runs') setTimeout(window.isListed, 50);
        return answer;
    };
    window.listed = new Promise(done => window.isListed = done);
    return true;";

#[tokio::test]
async fn a_job_is_not_read_again_while_it_is_deleted() {
    let server = TestServer::start();
    let page = server.url(&large_job(&server, 3));
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&page).await;
    let there = "return document.querySelectorAll('.job-page tbody tr').length > 2;";
    browser.wait_until("the ranks", there).await;
    browser.eval(DELETES_SLOWLY).await;
    browser.click(".job-delete").await;
    browser
        .click(".job-delete-choices button:nth-child(3)")
        .await;
    let left = "return location.pathname === '/' && !document.querySelector('.job-page');";
    browser.wait_until("the list of runs", left).await;
    assert_eq!(browser.eval("return window.read;").await, 0);
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_deleted_job_and_its_runs_come_back_with_one_click() {
    let server = TestServer::start();
    let page = server.url(&large_job(&server, 3));
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&page).await;
    let there = "const asked = performance.getEntriesByType('resource'); \
                 return document.querySelectorAll('.job-page tbody tr').length > 2 && \
                 asked.some(it => it.name.includes('/api/runs?') && it.responseEnd > 0);";
    browser
        .wait_until("the ranks, and the list of runs", there)
        .await;
    browser.click(".job-delete").await;
    browser
        .click(".job-delete-choices button:nth-child(3)")
        .await;
    let told = "return document.querySelector('.toast p')?.innerText \
                === 'Deleted job “pretrain” and 3 runs' && location.pathname === '/' && \
                document.querySelector('.runs-deleted summary')?.innerText \
                === 'Recently deleted (3)';";
    browser.wait_until("what was deleted", told).await;
    browser.click(".toast .link-button").await;
    let back = "return document.querySelectorAll('tr.run').length === 3 && \
                document.querySelectorAll('.run-job').length === 3 && \
                !document.querySelector('.runs-deleted');";
    browser.wait_until("the runs, and their job", back).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
