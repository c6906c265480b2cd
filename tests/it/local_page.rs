//! The page without a server: built into a folder, served by a plain web server, and nothing
//! leaves the browser, until somebody shares it with the one server that the page may know.

use crate::explore::{choose_file, wait_for_picture};
use crate::eyes::axe;
use crate::sessions::{add, fill};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tests::{Browser, StaticSite, TestServer, Theme, Viewport};

/// What the command line says about leaks in a file.
fn verdict(name: &str) -> String {
    let output = Command::new(tests::tidemark())
        .args(["inspect", "--json"])
        .arg(fixture(name))
        .output()
        .expect("tidemark runs");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let reason = document["leaks"]["reason"].as_str().expect("a sentence");
    // What follows is about the limits of the verdict.
    reason.split(';').next().unwrap_or(reason).to_owned()
}

fn fixture(name: &str) -> PathBuf {
    tests::workspace_root().join(format!("tests/fixtures/{name}.pickle.zst"))
}

/// Chooses a file; the page shows its run.
async fn open(browser: &Browser, name: &str) {
    open_at(browser, &fixture(name), name).await;
}

async fn open_at(browser: &Browser, path: &Path, name: &str) {
    choose_file(browser, path).await;
    let shown = format!(
        "return document.querySelector('h1')?.innerText.includes('{name}') ||
            [...document.querySelectorAll('.run-link')].some(
                link => link.textContent.includes('{name}'));"
    );
    browser.wait_until("the run", &shown).await;
}

/// Leads to an address as a link of the page does: a new load would forget the files.
async fn follow(browser: &Browser, address: &str) {
    let script = format!(
        "const link = document.createElement('a');
         link.href = '{address}';
         document.querySelector('main').append(link);
         link.click();
         return null;"
    );
    browser.eval(&script).await;
}

/// Everything that was asked over the network: of this site, its own files only; of other sites,
/// nothing.
async fn nothing_left(browser: &Browser, site: &StaticSite) {
    for line in site.asked() {
        let asset = line.starts_with("GET /assets/");
        let page = ["GET / ", "GET /runs/run_", "GET /compare?"];
        let is_page = page.iter().any(|start| line.starts_with(start));
        assert!(asset || is_page, "{line}");
    }
    let script = "return performance.getEntriesByType('resource').map(entry => entry.name);";
    let names = browser.eval(script).await;
    for name in names.as_array().expect("a list") {
        let name = name.as_str().unwrap_or_default();
        assert!(name.starts_with(&site.url("/assets/")), "{name}");
    }
}

#[tokio::test]
async fn a_file_is_opened_and_nothing_leaves_the_browser() {
    let site = StaticSite::of(&tests::local_page());
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&site.url("/")).await;
    open(&browser, LEAK).await;
    wait_for_picture(&browser).await;
    assert!(browser.painted_pixels(".timeline-canvas").await > 20_000);
    browser.screenshot("local-run").await;
    let click = "document.getElementById('tab-leaks').click(); return null;";
    browser.eval(click).await;
    let said = "return document.querySelector('.verdict')?.innerText.length > 20;";
    browser.wait_until("the verdict", said).await;
    let said = browser.text(".verdict").await;
    assert!(said.contains(&verdict("leak_hook_cache")), "{said}");
    browser.screenshot("local-leaks").await;

    // Share says how else, and asks for nothing that would be refused.
    browser.click(".view-actions > button:last-of-type").await;
    let told = "const dialog = document.querySelector('dialog[open]');
        return dialog?.innerText.includes('tidemark push FILE --server URL')
            && dialog.innerText.includes('./run --page DIR --server URL')
            && !document.querySelector('.share-form');";
    browser.wait_until("what Share says", told).await;
    browser.screenshot("local-share-none").await;
    browser.press("Escape").await;
    // A bench cannot be tried again: it needs a server.
    follow(&browser, "/bench").await;
    let told = "const problem = document.querySelector('.problem');
        return problem?.innerText.includes('needs a server') && !problem.querySelector('button');";
    browser.wait_until("what Bench says", told).await;
    browser.eval("history.back(); return null;").await;
    wait_for_picture(&browser).await;

    // The address names the run. After a reload it is not open, and the page says what to do.
    let address = browser.page.current_url().await.expect("an address");
    browser.goto(address.as_str()).await;
    let told = "return document.body.innerText.includes('Open the same file again');";
    browser.wait_until("what to do", told).await;
    browser.screenshot("local-not-open").await;
    nothing_left(&browser, &site).await;
}

#[tokio::test]
async fn two_files_are_compared_without_a_server() {
    let site = StaticSite::of(&tests::local_page());
    let browser = Browser::open(Viewport::Desktop, Theme::Dark).await;
    browser.goto(&site.url("/")).await;
    open(&browser, "off_v1_moe").await;
    wait_for_picture(&browser).await;
    follow(&browser, "/").await;
    open(&browser, "off_v3_moe").await;
    let script = "return (async () => (await (await fetch('/api/runs')).json())
        .map(run => [run.name, run.id]))();";
    let runs = browser.eval(script).await;
    let id = |name: &str| -> Value {
        let all = runs.as_array().expect("a list");
        let found = all
            .iter()
            .find(|run| run[0].as_str().is_some_and(|of| of.starts_with(name)));
        found.map_or(json!(null), |run| run[1].clone())
    };
    let (base, new) = (id("off_v1_moe"), id("off_v3_moe"));
    let (base, new) = (base.as_str().expect("an id"), new.as_str().expect("an id"));
    follow(&browser, &format!("/compare?v=1&runs={base},{new}")).await;
    let drawn = "const stage = document.querySelector('.overlay-stage');
        return stage?.ariaBusy === 'false' && !document.querySelector('.overlay-skeleton.shown');";
    browser.wait_until("the curves", drawn).await;
    let headline = browser.text(".card-headline").await;
    assert!(
        headline.contains("−4.80 GiB (6.00 GiB → 1.20 GiB)"),
        "{headline}"
    );
    browser.screenshot("local-compare").await;
    nothing_left(&browser, &site).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

const MAKE: &str = ".share-form button[type=submit]";
const SEND: &str = ".send-form button[type=submit]";
const ASKS: &str = "return !!document.querySelector('.send-form');";
const TEAM: &str = ".share-kind:first-of-type input";
const OPEN_TO_ALL: &str = ".share-kind:last-of-type input";
const LEAK: &str = "leak_hook_cache";
const MADE: &str = "return !!document.querySelector('.share-link input')?.value;";

async fn press_share(browser: &Browser) {
    browser.click(".view-actions > button:last-of-type").await;
    let there = "return !!document.querySelector('dialog[open] .share-form');";
    browser.wait_until("the form of Share", there).await;
}

/// Waits for a sentence in the dialog that sends.
async fn refused(browser: &Browser, words: &str) {
    let said = format!(
        "return document.querySelector('.send-form .bad-text')?.innerText.includes({});",
        json!(words)
    );
    browser.wait_until(words, &said).await;
}

async fn made_link(browser: &Browser) -> String {
    browser.wait_until("the link", MADE).await;
    let url = browser.eval("return document.querySelector('.share-link input').value;");
    url.await.as_str().expect("an address").to_owned()
}

/// A page whose Share knows a server, and that server, which allows the page.
struct Shared {
    folder: TempDir,
    site: StaticSite,
    server: TestServer,
    token: String,
}

impl Shared {
    async fn start(args: &[&str]) -> Shared {
        let folder = TempDir::with_prefix("tidemark-page-").expect("a temporary folder");
        let site = StaticSite::of(folder.path());
        let origin = site.url("");
        let server = TestServer::start_with(&[&["--allow-page", &origin], args].concat());
        tests::local_page_with(folder.path(), &server.url(""));
        let admin = Browser::open(Viewport::Desktop, Theme::Light).await;
        let token = add(&admin, &server, "ada").await;
        Shared {
            folder,
            site,
            server,
            token,
        }
    }

    /// A token that may not share.
    fn weak_token(&self) -> String {
        let made = ureq::post(self.server.url("/api/tokens"))
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", "application/json")
            .send(r#"{"name":"weak","scopes":["read","upload"]}"#);
        let text = made.expect("an answer").body_mut().read_to_string();
        let made: Value = serde_json::from_str(&text.expect("a text")).expect("a document");
        made["secret"].as_str().expect("a token").to_owned()
    }

    /// Makes a project, besides the one that every server has.
    fn make_project(&self, name: &str) {
        let made = ureq::post(self.server.url("/api/projects"))
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", "application/json")
            .send(json!({ "name": name }).to_string());
        assert!(made.expect("an answer").status().is_success(), "{name}");
    }

    /// A document of the server.
    fn get(&self, path: &str) -> Value {
        self.get_in("main", path)
    }

    /// A document of a project.
    fn get_in(&self, project: &str, path: &str) -> Value {
        let asked = ureq::get(self.server.url(path))
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Tidemark-Project", project)
            .call();
        let text = asked.expect("an answer").body_mut().read_to_string();
        serde_json::from_str(&text.expect("a text")).expect("a document")
    }
}

/// Types another token, and sends.
async fn send_with(browser: &Browser, token: &str) {
    let empty = "document.querySelector('#send-token').value = ''; return null;";
    browser
        .wait_until(
            "the question",
            "return !!document.querySelector('#send-token');",
        )
        .await;
    browser.eval(empty).await;
    fill(browser, "#send-token", token).await;
    browser.click(SEND).await;
}

/// The dialog can be seen and used by everybody, at both sizes, by day and night.
async fn look_at_dialog(browser: &Browser, what: &str) {
    for viewport in [Viewport::Desktop, Viewport::Phone] {
        browser.set_viewport(viewport).await;
        for theme in [Theme::Light, Theme::Dark] {
            browser.set_still_theme(theme).await;
            browser.painted().await;
            let name = format!("local-{what}-{}-{}", viewport.name(), theme.name());
            browser.screenshot(&name).await;
            let wrong = axe::findings(browser).await;
            assert!(wrong.is_empty(), "{name}: {wrong:#?}");
            let wide = browser.too_wide().await;
            assert!(wide.is_empty(), "{name}: {wide:#?}");
        }
    }
    browser.set_viewport(Viewport::Desktop).await;
    browser.set_still_theme(Theme::Light).await;
}

/// A page on which a recording is open, unpacked, so that it is packed for the way.
async fn with_plain_file(shared: &Shared) -> Browser {
    let packed = fs::read(fixture(LEAK)).expect("a recording");
    let plain = shared.folder.path().join(format!("{LEAK}.pickle"));
    fs::write(&plain, zstd::decode_all(&packed[..]).expect("zstd")).expect("a file");
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.add_to_pages(axe::AXE).await;
    browser.goto(&shared.site.url("/")).await;
    open_at(&browser, &plain, LEAK).await;
    wait_for_picture(&browser).await;
    browser
}

/// Wishes for another link.
async fn make(browser: &Browser, kind: &str) {
    let close = "document.querySelector('dialog[open]')?.close(); return null;";
    browser.eval(close).await;
    press_share(browser).await;
    browser.click(kind).await;
    browser.click(MAKE).await;
    browser.wait_until("the question", ASKS).await;
}

#[tokio::test]
async fn nothing_is_sent_before_a_person_says_so() {
    let shared = Shared::start(&[]).await;
    let browser = with_plain_file(&shared).await;
    press_share(&browser).await;
    browser.click(OPEN_TO_ALL).await;
    browser.click(".share-check input").await;
    let preview = "return document.querySelectorAll('.share-preview tbody tr').length > 3;";
    browser.wait_until("what would be hidden", preview).await;
    browser.click(MAKE).await;
    browser.wait_until("the question", ASKS).await;
    let asks = browser.text(".send-form").await;
    let server = shared.server.url("");
    for words in [
        &server,
        "leak_hook_cache.pickle",
        "379 KiB",
        "read, upload and manage",
    ] {
        assert!(asks.contains(words), "{words}: {asks}");
    }
    look_at_dialog(&browser, "share").await;
    browser.press("Escape").await;
    let told = "return document.querySelector('.share-form .bad-text').innerText
        .includes('No link was made');";
    browser.wait_until("that there is no link", told).await;
    nothing_left(&browser, &shared.site).await;

    browser.click(MAKE).await;
    send_with(&browser, "tidemark_wrong").await;
    refused(&browser, "does not know this token").await;
    browser.screenshot("local-share-wrong-token").await;
    send_with(&browser, &shared.weak_token()).await;
    refused(&browser, "takes a token that may `manage`").await;
    assert_eq!(shared.get("/api/runs"), json!([]));
}

#[tokio::test]
async fn a_file_is_sent_to_the_server_when_a_person_shares_it() {
    let mut shared = Shared::start(&[]).await;
    let browser = with_plain_file(&shared).await;
    make(&browser, OPEN_TO_ALL).await;
    send_with(&browser, &shared.token).await;
    let link = made_link(&browser).await;
    browser.screenshot("local-share-made").await;
    assert!(link.starts_with(&shared.server.url("/s/")), "{link}");

    // The same run, here and there; the token is in this tab, and in no address.
    let here = browser.page.current_url().await.expect("an address");
    let runs = shared.get("/api/runs");
    let there = runs[0]["id"].as_str().expect("an id");
    assert_eq!(here.path(), format!("/runs/{there}"));
    assert_eq!(runs[0]["name"], "leak_hook_cache.pickle");
    assert_eq!(runs.as_array().map(Vec::len), Some(1));
    let kept = browser.eval("return Object.values(sessionStorage);").await;
    assert_eq!(kept, json!([shared.token]));
    let reader = Browser::open(Viewport::Desktop, Theme::Light).await;
    reader.goto(&link).await;
    wait_for_picture(&reader).await;
    reader.screenshot("local-share-opened").await;

    // The block for a pull request leads there, too.
    browser.click(".share-made + .share-buttons .button").await;
    let block = "return document.querySelector('dialog[open] .share-markdown')?.value ?? '';";
    let full = format!("return (() => {{ {block} }})().length > 100;");
    browser.wait_until("the block", &full).await;
    let block = browser.eval(block).await;
    let picture = format!("{link}/card.png");
    assert!(
        block.as_str().is_some_and(|text| text.contains(&picture)),
        "{block}"
    );
    browser.press("Escape").await;

    // The second link takes no file, and no typing.
    make(&browser, TEAM).await;
    browser.click(SEND).await;
    assert_ne!(made_link(&browser).await, link);
    let audit = shared.get("/api/audit");
    let actions = audit.as_array().expect("a list").iter();
    let uploads = actions.filter(|entry| entry["action"] == "upload");
    assert_eq!(uploads.count(), 1, "{audit}");
    // That the server did not have the run is all that the browser found to say.
    let mut complaints = browser.complaints().await;
    complaints.retain(|said| !said.contains("404 (Not Found)"));
    assert_eq!(complaints, Vec::<String>::new());

    shared.server.kill();
    make(&browser, TEAM).await;
    browser.click(SEND).await;
    refused(&browser, "does not answer this page").await;
    let origin = shared.site.url("");
    refused(&browser, &format!("--allow-page {origin}")).await;
}

/// The projects that the dialog offers, the chosen one, and where the focus is.
const PROJECTS: &str = "
    const choice = document.querySelector('#send-project');
    const offered = [...choice.options].map(option => option.value);
    const is_shown = choice.checkVisibility();
    return [is_shown ? offered : [], choice.value, document.activeElement.id];";

#[tokio::test]
async fn a_person_says_which_project_keeps_what_is_shared() {
    let shared = Shared::start(&[]).await;
    for project in ["speech", "vision"] {
        shared.make_project(project);
    }
    let browser = with_plain_file(&shared).await;
    make(&browser, OPEN_TO_ALL).await;
    let unknown = json!([[], "", "send-token"]);
    assert_eq!(
        browser.eval(PROJECTS).await,
        unknown,
        "before the server was asked"
    );
    send_with(&browser, &shared.token).await;
    refused(&browser, "has several projects. Say which one").await;
    let all = ["main", "speech", "vision"];
    assert_eq!(
        browser.eval(PROJECTS).await,
        json!([all, "main", "send-project"])
    );
    look_at_dialog(&browser, "share-project").await;
    for project in all {
        let runs = shared.get_in(project, "/api/runs");
        assert_eq!(runs, json!([]), "{project}: nothing is sent before that");
    }
    let choose = "document.querySelector('#send-project').value = 'vision'; return null;";
    browser.eval(choose).await;
    browser.click(SEND).await;
    let link = made_link(&browser).await;
    let kept = |project: &str| shared.get_in(project, "/api/runs").as_array().map(Vec::len);
    assert_eq!(all.map(kept), [Some(0), Some(0), Some(1)]);
    let reader = Browser::open(Viewport::Desktop, Theme::Light).await;
    reader.goto(&link).await;
    wait_for_picture(&reader).await;

    // The same person means the same project; another token may write to other projects.
    make(&browser, TEAM).await;
    let part = |at| format!("return (() => {{ {PROJECTS} }})()[{at}];");
    let (offered, chosen) = (part(0), part(1));
    assert_eq!(browser.eval(&offered).await, json!(all));
    assert_eq!(browser.eval(&chosen).await, "vision");
    browser.click(SEND).await;
    assert_ne!(made_link(&browser).await, link);
    make(&browser, TEAM).await;
    send_with(&browser, "tidemark_wrong").await;
    refused(&browser, "does not know this token").await;
    assert_eq!(browser.eval(&offered).await, json!([]));
    assert_eq!(all.map(kept), [Some(0), Some(0), Some(1)]);
}

#[tokio::test]
async fn all_runs_of_a_comparison_are_sent_as_they_are() {
    let shared = Shared::start(&[]).await;
    let browser = Browser::open(Viewport::Desktop, Theme::Dark).await;
    browser.goto(&shared.site.url("/")).await;
    let mut ids = Vec::new();
    for name in ["off_v1_moe", "off_v3_moe"] {
        if !ids.is_empty() {
            follow(&browser, "/").await;
        }
        open(&browser, name).await;
        wait_for_picture(&browser).await;
        let address = browser.page.current_url().await.expect("an address");
        let id = address.path().trim_start_matches("/runs/").to_owned();
        ids.push(id);
    }
    follow(&browser, &format!("/compare?v=1&runs={}", ids.join(","))).await;
    press_share(&browser).await;
    browser.click(MAKE).await;
    let both = "return document.querySelectorAll('.send-files li').length === 2;";
    browser.wait_until("both files", both).await;
    send_with(&browser, &shared.token).await;
    let link = made_link(&browser).await;
    assert!(link.starts_with(&shared.server.url("/s/")), "{link}");
    let mut sent = Vec::new();
    for run in shared.get("/api/runs").as_array().expect("a list") {
        sent.push(run["id"].as_str().expect("an id").to_owned());
    }
    sent.sort();
    ids.sort();
    assert_eq!(sent, ids);
}

#[tokio::test]
async fn what_is_too_large_for_the_server_is_said_before_it_is_sent() {
    let shared = Shared::start(&["--upload-limit", "10KiB"]).await;
    let browser = Browser::open(Viewport::Phone, Theme::Light).await;
    browser.goto(&shared.site.url("/")).await;
    open(&browser, LEAK).await;
    wait_for_picture(&browser).await;
    press_share(&browser).await;
    browser.click(MAKE).await;
    send_with(&browser, &shared.token).await;
    refused(&browser, "takes 10.0 KiB at most").await;
    browser.screenshot("local-share-too-large").await;
    assert!(browser.too_wide().await.is_empty());
    assert_eq!(shared.get("/api/runs"), json!([]));
}
