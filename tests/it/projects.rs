//! Two projects on one server: an admin makes them and lets somebody in, a tab stays in its project
//! whatever another tab shows, and whoever is in one sees nothing of the other.

use super::explore::{choose_file, wait_for_picture};
use super::eyes::axe;
use super::recipes::fixture;
use super::sessions::{TEXT, add, fill, look_at};
use serde_json::{Value, json};
use std::process::Command;
use tests::{Browser, TestServer, Theme, Viewport};

/// Makes a project on the page.
async fn make(ada: &Browser, server: &TestServer, name: &str) {
    ada.goto(&server.url("/projects")).await;
    fill(ada, "#name", name).await;
    // Once there are several, the address names the project of the tab.
    ada.click("form:is([action=\"/projects\"], [action^=\"/projects?\"]) button")
        .await;
    let there = format!("return location.pathname === '/projects/{name}';");
    ada.wait_until("the new project's page", &there).await;
}

/// What the list of runs shows, and which project the page names.
async fn listed(browser: &Browser, project: &str, runs: usize) {
    let there = format!(
        "return document.querySelector('.project-bar')?.innerText.trim() === 'Project: {project}' \
         && document.querySelectorAll('tr.run').length === {runs} \
         && !document.querySelector('main [aria-busy=true]');"
    );
    browser
        .wait_until(&format!("{runs} runs in {project}"), &there)
        .await;
}

/// Sends a file, sees its picture, and goes back to the list without loading the page again.
async fn send(browser: &Browser, name: &str) {
    choose_file(browser, &fixture(name)).await;
    wait_for_picture(browser).await;
    browser.click(".app-nav a[href=\"/\"]").await;
}

/// Another tab of the same browser opens another project.
async fn open_elsewhere(browser: &Browser, project: &str) {
    let fetched = format!(
        "const page = await fetch('/p/{project}/'); return [page.status, await page.text()];"
    );
    let script = format!("return (async () => {{ {fetched} }})();");
    let page: Value = browser.eval(&script).await;
    assert_eq!(page[0], 200);
    let named = format!("data-project=\"{project}\"");
    assert!(page[1].as_str().expect("a page").contains(&named));
}

/// Opens the address that the list has, as somebody does who was sent it.
async fn load_again(browser: &Browser, server: &TestServer, project: &str, runs: usize) {
    let address = format!("/?project={project}");
    let shown = browser.eval("return location.pathname + location.search;");
    assert_eq!(shown.await, address);
    browser.goto(&server.url(&address)).await;
    listed(browser, project, runs).await;
}

/// How many runs the command line finds in a project with this token; else why not.
fn found(server: &TestServer, token: &str, project: &str) -> Result<u64, String> {
    let output = Command::new(tests::tidemark())
        .args(["prune", "--keep", "1000", "--json"])
        .args(["--server", &server.url("/"), "--project", project])
        .env("TIDEMARK_TOKEN", token)
        .output()
        .expect("tidemark runs");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    Ok(plan["kept"]["newest"].as_u64().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_projects_on_one_server_know_nothing_of_each_other() {
    let mut server = TestServer::start();
    let ada = Browser::open(Viewport::Desktop, Theme::Light).await;
    let bo = Browser::open(Viewport::Desktop, Theme::Light).await;
    ada.add_to_pages(axe::AXE).await;
    add(&ada, &server, "ada").await;
    let token = add(&ada, &server, "bo").await;
    for project in ["speech", "vision"] {
        make(&ada, &server, project).await;
    }
    ada.click("form[action^=\"/projects/vision/members\"] button")
        .await;
    let member = "return document.querySelector('main tbody td')?.innerText === 'bo';";
    ada.wait_until("the member", member).await;

    // A tab stays in its project.
    ada.click("main a.button.primary").await;
    listed(&ada, "vision", 0).await;
    ada.screenshot("projects-empty").await;
    open_elsewhere(&ada, "speech").await;
    send(&ada, "ddp_rank0").await;
    listed(&ada, "vision", 1).await;
    ada.screenshot("projects-run").await;
    load_again(&ada, &server, "vision", 1).await;
    open_elsewhere(&ada, "speech").await;
    ada.goto(&server.url("/")).await;
    listed(&ada, "speech", 0).await;
    send(&ada, "ddp_rank1").await;
    listed(&ada, "speech", 1).await;
    assert_eq!(ada.complaints().await, Vec::<String>::new());

    // Who was let into one of them sees that one.
    bo.goto(&server.url("/p/vision/")).await;
    fill(&bo, "#token", &token).await;
    bo.click("main button").await;
    listed(&bo, "vision", 1).await;
    let run = "return document.querySelector('tr.run a[href^=\"/runs/\"]').pathname;";
    let run = bo.eval(run).await.as_str().expect("a path").to_owned();
    bo.goto(&server.url("/p/speech/")).await;
    let text = bo.eval(TEXT).await;
    assert!(
        text.as_str().expect("a text").contains("no project speech"),
        "{text}"
    );
    bo.screenshot("projects-refused").await;
    assert_eq!(found(&server, &token, "vision"), Ok(1));
    let refused = found(&server, &token, "speech").expect_err("it is not hers");
    assert!(refused.contains("there is no project speech"), "{refused}");

    // A link leads into the project of its run, also after a restart.
    server.restart();
    ada.goto(&server.url(&run)).await;
    let there = "return document.querySelector('.project-bar')?.innerText.includes('vision') && \
                 document.querySelector('.timeline')?.ariaBusy === 'false';";
    ada.wait_until("the run in its project", there).await;
    ada.screenshot("projects-run-page").await;
    for path in [
        "/projects",
        "/projects/vision",
        "/projects/vision/plan?newest=1&per=",
    ] {
        look_at(&ada, &server, path).await;
    }
    let kept = ada.eval("return document.cookie;").await;
    assert_eq!(
        kept,
        json!(""),
        "no script can read which project was shown"
    );
}

/// What was typed is there again after signing in, until it is kept.
#[tokio::test]
async fn a_form_that_is_sent_after_the_session_is_filled_in_again() {
    let server = TestServer::start();
    let ada = Browser::open(Viewport::Desktop, Theme::Light).await;
    let token = add(&ada, &server, "ada").await;
    ada.goto(&server.url("/projects")).await;
    fill(&ada, "#name", "vision").await;
    fill(&ada, "#quota", "20 GiB").await;
    let left = "return (async () => {
        await fetch('/sign-out', { method: 'POST' });
        return null;
    })();";
    ada.eval(left).await;
    ada.click("form[action^=\"/projects\"] button").await;
    let asked = "return location.pathname === '/sign-in';";
    ada.wait_until("the page to sign in", asked).await;
    fill(&ada, "#token", &token).await;
    ada.click("form[action=\"/sign-in\"] button").await;
    let again = "return location.pathname === '/projects' && \
                 document.querySelector('#name').value === 'vision' && \
                 document.querySelector('#quota').value === '20 GiB' && \
                 document.querySelector('form [role=status]')?.innerText.includes('not kept yet');";
    ada.wait_until("what was typed", again).await;
    ada.click("form[action^=\"/projects\"] button").await;
    let made = "return location.pathname === '/projects/vision' && \
                !document.querySelector('form [role=status]');";
    ada.wait_until("the project", made).await;
    ada.goto(&server.url("/projects")).await;
    let empty = "return document.querySelector('#name').value;";
    assert_eq!(ada.eval(empty).await, "");
}
