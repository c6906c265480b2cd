//! A link is copied, opened in a new browser without login, and revoked.

use fantoccini::Locator;
use serde_json::Value;
use std::fs;
use tempfile::TempDir;
use tests::{Browser, TestServer, Theme, Viewport};

const TOKEN: &str = "correct-horse-battery-staple-0001";

/// A view in today's form of the address.
const VIEW: &str = "v=5&from=1200&to=4800&axis=time&group=file&sel=b1000";

/// Also waits for the times of the selected block, which come a moment after the picture.
async fn wait_for_picture(browser: &Browser) {
    let settled = "return document.querySelector('.timeline')?.ariaBusy === 'false' && \
                   !document.querySelector('.timeline-skeleton.shown') && \
                   !!document.querySelector('.panel .stack') && \
                   [...document.querySelectorAll('.panel .facts dd')]\
                       .some(fact => /^event .*, [0-9.]+ ms$/.test(fact.textContent));";
    browser
        .wait_until("the fine picture and the selection", settled)
        .await;
}

async fn write(browser: &Browser, selector: &str, text: &str) {
    let element = browser.page.wait().for_element(Locator::Css(selector));
    let element = element.await.unwrap_or_else(|_| panic!("no {selector}"));
    element.clear().await.expect("a field");
    element.send_keys(text).await.expect("a field");
}

/// Opens the page as someone who types the token.
async fn sign_in(browser: &Browser, server: &TestServer) {
    browser.goto(&server.url("/")).await;
    write(browser, "#token", TOKEN).await;
    browser.click(".token-form button").await;
    browser.click("button.sample").await;
    let there = "return location.pathname.startsWith('/runs/');";
    browser.wait_until("the run's page", there).await;
}

/// What a person sees of the view: the address, the picture in words, the selection.
async fn view(browser: &Browser) -> Value {
    browser
        .eval(
            "const text = id => document.querySelector(id)?.textContent;
             return [location.search, text('#timeline-summary'), text('#timeline-window'),
                     text('.panel'), text('.run-facts .fact-row')];",
        )
        .await
}

/// Makes a link in the dialog; its address.
pub async fn make_link(browser: &Browser, redacted: bool) -> String {
    browser.click(".view-actions > button:last-of-type").await;
    browser.click(".share-kind:last-of-type input").await;
    if redacted {
        browser.click(".share-check input").await;
        let rows = "return document.querySelectorAll('.share-preview tbody tr').length > 3;";
        browser.wait_until("the preview", rows).await;
    }
    write(browser, "#share-note", "for the review").await;
    write(browser, "#share-name", "Kim").await;
    browser
        .screenshot(&format!("share-dialog-{redacted}"))
        .await;
    if redacted {
        browser.set_viewport(Viewport::Phone).await;
        browser.set_theme(Theme::Dark).await;
        browser.screenshot("share-dialog-phone-dark").await;
        browser.set_viewport(Viewport::Desktop).await;
        browser.set_theme(Theme::Light).await;
    }
    browser.click(".share-form button[type=submit]").await;
    let made = "return !!document.querySelector('.share-link input')?.value;";
    browser.wait_until("the link", made).await;
    browser.screenshot(&format!("share-made-{redacted}")).await;
    let url = browser.eval("return document.querySelector('.share-link input').value;");
    let url = url.await.as_str().expect("an address").to_owned();
    browser
        .eval("document.querySelector('dialog[open]').close(); return null;")
        .await;
    url
}

#[tokio::test]
async fn a_link_without_login_opens_the_identical_view_until_it_is_revoked() {
    let folder = TempDir::with_prefix("tidemark-token-").expect("a temporary folder");
    let token_file = folder.path().join("token");
    fs::write(&token_file, TOKEN).expect("the token is kept");
    let token_file = token_file.to_str().expect("a path in UTF-8");
    let server = TestServer::start_with(&["--token-file", token_file]);
    let maker = Browser::open(Viewport::Desktop, Theme::Light).await;
    sign_in(&maker, &server).await;
    let run = maker.eval("return location.href;").await;
    let run = run.as_str().expect("an address").to_owned();
    maker.goto(&format!("{run}?{VIEW}")).await;
    wait_for_picture(&maker).await;
    let shown = view(&maker).await;
    // A dialog is built when it opens for the first time, so that the page shows sooner.
    let dialogs = maker.eval("return document.querySelectorAll('dialog').length;");
    assert_eq!(dialogs.await, 0);
    let open = make_link(&maker, false).await;
    let redacted = make_link(&maker, true).await;

    // Another browser: no cookie, no token.
    let reader = Browser::open(Viewport::Desktop, Theme::Light).await;
    reader.goto(&open).await;
    wait_for_picture(&reader).await;
    assert_eq!(view(&reader).await, shown);
    let banner = reader.eval("return document.querySelector('.link-banner').textContent;");
    let banner = banner.await.as_str().expect("a text").to_owned();
    assert!(
        banner.starts_with("Read-only link without login · expires 2"),
        "{banner}"
    );
    let closed = "return !document.querySelector('dialog[open]');";
    assert_eq!(reader.eval(closed).await, Value::Bool(true));
    reader.screenshot("share-opened").await;
    // The address in the address bar works as a link: reloaded, it shows the same view.
    let here = reader.eval("return location.href;").await;
    reader.goto(here.as_str().expect("an address")).await;
    wait_for_picture(&reader).await;
    assert_eq!(view(&reader).await, shown);

    reader.goto(&redacted).await;
    wait_for_picture(&reader).await;
    let page = reader.eval("return document.body.textContent;").await;
    let page = page.as_str().expect("a text");
    assert!(page.contains("names hidden"));
    assert!(
        !page.contains("/srv/") && !page.contains("/home/"),
        "{page}"
    );
    reader.screenshot("share-redacted").await;
    reader.set_viewport(Viewport::Phone).await;
    reader.set_theme(Theme::Dark).await;
    reader.screenshot("share-redacted-phone-dark").await;
    assert!(!reader.scrolls_sideways().await);
    revoke_all(&maker, &run, 2).await;
    make_and_revoke(&maker).await;
    reader.set_viewport(Viewport::Desktop).await;
    reader.goto(&open).await;
    let gone = "return document.body.textContent.includes('It was revoked on 2');";
    reader.wait_until("the words about the end", gone).await;
    reader.screenshot("share-revoked").await;
    let complaints = reader.complaints().await;
    let policy = complaints
        .iter()
        .find(|said| said.contains("Security Policy"));
    assert_eq!(policy, None);
    // Everything else on the server is still closed.
    reader.goto(&server.url("/")).await;
    let asked = "return !!document.querySelector('dialog[open] #token');";
    reader.wait_until("the question for the token", asked).await;
}

/// In the open dialog: a link that was just made is not shown any more once it is revoked.
async fn make_and_revoke(browser: &Browser) {
    browser.click(".share-form button[type=submit]").await;
    let made = "return !!document.querySelector('.share-link input')?.value;";
    browser.wait_until("a third link", made).await;
    browser.click(".share-entry .link-button").await;
    let form = "return !document.querySelector('.share-link') \
                && !!document.querySelector('.share-form');";
    browser.wait_until("the form again", form).await;
}

/// Takes back the links of a run, of which there are so many.
pub async fn revoke_all(browser: &Browser, run: &str, links: usize) {
    browser.goto(run).await;
    browser.click(".view-actions > button:last-of-type").await;
    for left in (0..links).rev() {
        browser.click(".share-entry .link-button").await;
        let fewer = format!(
            "return document.querySelectorAll('.share-entry .link-button').length === {left};"
        );
        browser
            .wait_until("the list without the link", &fewer)
            .await;
    }
    browser.screenshot("share-list-revoked").await;
}

#[tokio::test]
async fn a_link_opens_by_itself_when_the_server_is_back() {
    let mut server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let run = crate::eyes::world::upload_fixture(&server, "plain_lm");
    browser.goto(&server.url(&format!("/runs/{run}"))).await;
    let shown = "return !!document.querySelector('.view-actions > button');";
    browser.wait_until("the run", shown).await;
    let link = make_link(&browser, false).await;
    let path = link
        .strip_prefix(&server.url(""))
        .expect("a link of this server");
    browser.press("Escape").await;
    server.kill();
    let follow = format!(
        "const link = document.createElement('a');
         link.href = '{path}';
         document.querySelector('main').append(link);
         link.click();
         return null;"
    );
    browser.eval(&follow).await;
    let away = "return document.title === 'Link · Tidemark'
                    && !!document.querySelector('.link-refused .problem');";
    browser.wait_until("that the server is away", away).await;
    server.start_again();
    let opened = "return !!document.querySelector('.link-banner')
                      && !!document.querySelector('.timeline-stage');";
    browser.wait_until("what the link shows", opened).await;
}
