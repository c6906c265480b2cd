//! The page with a person's tokens and sessions. People are added, sign in, and are signed out: in
//! another browser, in all others, in this one.

use fantoccini::Locator;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;
use tests::{Browser, Page, TestServer, Theme, Viewport};

use super::eyes::axe;

const TOKEN: &str = "correct-horse-battery-staple-0001";

/// True when the page asks for the token.
const ASKED: &str = "return !!document.querySelector('dialog[open] #token');";

/// The text of each row in the table of sessions.
const ROWS: &str = "const rows = document.querySelectorAll('#sessions tbody tr'); \
                    return [...rows].map(row => row.textContent);";

/// A server that asks for the token, and the folder that holds it.
fn closed() -> (TempDir, TestServer) {
    let folder = TempDir::with_prefix("tidemark-token-").expect("a temporary folder");
    let file = folder.path().join("token");
    fs::write(&file, TOKEN).expect("the token is kept");
    let file = file.to_str().expect("a path in UTF-8");
    let server = TestServer::start_with(&["--token-file", file]);
    (folder, server)
}

/// Types the token and waits for the button that lists the sessions.
async fn sign_in(browser: &Browser, server: &TestServer) {
    browser.goto(&server.url("/")).await;
    let field = browser.page.wait().for_element(Locator::Css("#token"));
    let field = field.await.expect("the page asks for the token");
    field.send_keys(TOKEN).await.expect("a field");
    browser.click(".token-form button").await;
    let link = "return !!document.querySelector('a[aria-label=\"Account\"]') && \
                !document.querySelector('dialog[open]');";
    browser.wait_until("the link", link).await;
}

async fn list(browser: &Browser, expected: usize) {
    let there =
        format!("return document.querySelectorAll('#sessions tbody tr').length === {expected};");
    browser.wait_until("the sessions", &there).await;
}

#[tokio::test]
async fn browsers_are_listed_and_signed_out() {
    let (_token, server) = closed();
    let mine = Browser::open(Viewport::Desktop, Theme::Light).await;
    let other = Browser::open(Viewport::Desktop, Theme::Light).await;
    sign_in(&other, &server).await;
    sign_in(&mine, &server).await;

    mine.click("a[aria-label=\"Account\"]").await;
    list(&mine, 2).await;
    let text = mine.eval(ROWS).await;
    let rows: Vec<String> = serde_json::from_value(text).expect("texts");
    let own = rows.iter().filter(|row| row.contains("this browser"));
    assert_eq!(own.count(), 1, "{rows:?}");
    for row in &rows {
        assert!(
            row.contains("Chrome on Linux") && row.contains("127.0.0.1"),
            "{row}"
        );
    }
    mine.screenshot("sessions").await;
    mine.set_viewport(Viewport::Phone).await;
    mine.set_theme(Theme::Dark).await;
    assert_eq!(mine.too_wide().await, [""; 0]);
    mine.screenshot("sessions-phone-dark").await;
    mine.set_viewport(Viewport::Desktop).await;

    // Ends one session, then all but this one, then this one.
    mine.click("#sessions .link-button").await;
    list(&mine, 1).await;
    other.goto(&server.url("/")).await;
    other.wait_until("the question for the token", ASKED).await;
    sign_in(&other, &server).await;
    mine.goto(&server.url("/")).await;
    mine.click("a[aria-label=\"Account\"]").await;
    list(&mine, 2).await;
    mine.click("form[action$=\"end-others\"] button").await;
    list(&mine, 1).await;
    other.goto(&server.url("/")).await;
    other.wait_until("the question for the token", ASKED).await;
    mine.click("form[action=\"/sign-out\"] button").await;
    let form = "return !!document.querySelector('form[action=\"/sign-in\"]');";
    mine.wait_until("the page to sign in", form).await;
}

/// The list is different at every visit, so it has no approved picture.
#[tokio::test]
async fn everybody_can_see_and_reach_the_list() {
    let (_token, server) = closed();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.add_to_pages(axe::AXE).await;
    sign_in(&browser, &server).await;
    browser.click("a[aria-label=\"Account\"]").await;
    list(&browser, 1).await;
    for viewport in [Viewport::Desktop, Viewport::Phone] {
        browser.set_viewport(viewport).await;
        for theme in [Theme::Light, Theme::Dark] {
            browser.set_still_theme(theme).await;
            let mut wrong = browser.out_of_sight().await;
            wrong.extend(axe::findings(&browser).await);
            assert!(wrong.is_empty(), "{viewport:?} {theme:?}: {wrong:#?}");
        }
    }
}

#[tokio::test]
async fn where_no_token_is_needed_people_are_found_all_the_same() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let settled = "const asked = performance.getEntriesByType('resource'); \
                   return !!document.querySelector('button.sample') && \
                   asked.some(it => it.name.endsWith('/api/server') && it.responseEnd > 0);";
    browser.wait_until("the server's answer", settled).await;
    browser.click("a[aria-label=\"Account\"]").await;
    let people = "return !!document.querySelector('header a[href=\"/people\"]');";
    browser.wait_until("the link to people", people).await;
}

/// Sends a run, and tells its id.
const SEND: &str = "
    const event = { action: 'alloc', addr: 4096, size: 512, stream: 0 };
    const body = JSON.stringify({ segments: [], device_traces: [[event]] });
    return fetch('/api/upload/run.json', { method: 'PUT', body })
        .then(answer => answer.json()).then(sent => sent.run.id);";

/// Ends the session of the browser.
const END: &str = "return fetch('/api/session', { method: 'DELETE' }).then(() => null);";

#[tokio::test]
async fn a_name_is_still_there_after_signing_in_again() {
    let (_token, server) = closed();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    sign_in(&browser, &server).await;
    browser.eval(SEND).await;
    browser.goto(&server.url("/")).await;
    let listed = "return !!document.querySelector('.run-link');";
    browser.wait_until("the run", listed).await;
    let edit = "const key = new KeyboardEvent('keydown', { key: 'F2', bubbles: true });
                document.querySelector('.run-link').dispatchEvent(key);
                return null;";
    browser.eval(edit).await;
    browser.eval(END).await;
    fill(&browser, ".run-name-field", "after the fix").await;
    browser.press("Enter").await;
    browser
        .wait_until("the question for the token", ASKED)
        .await;
    fill(&browser, "#token", TOKEN).await;
    browser.click(".token-form button").await;
    let kept = "return !document.querySelector('dialog[open] #token') && \
                document.querySelector('.run-name-field')?.value.includes('after the fix');";
    browser.wait_until("the name", kept).await;
    browser.press("Enter").await;
    let taken = "return document.querySelector('.run-link')?.innerText.includes('after the fix');";
    browser.wait_until("the new name", taken).await;
}

#[tokio::test]
async fn a_note_is_still_there_after_signing_in_again() {
    let (_token, server) = closed();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    sign_in(&browser, &server).await;
    let run = browser.eval(SEND).await;
    let run = run.as_str().expect("an id");
    browser.goto(&server.url(&format!("/runs/{run}"))).await;
    browser.click(".share-open").await;
    fill(&browser, "#share-note", "for the review").await;
    browser.eval(END).await;
    browser.click(".share-form [type=submit]").await;
    browser
        .wait_until("the question for the token", ASKED)
        .await;
    fill(&browser, "#token", TOKEN).await;
    browser.click(".token-form button").await;
    let kept = "return !document.querySelector('dialog[open] #token') && \
                document.querySelector('dialog[open] #share-note')?.value === 'for the review';";
    browser.wait_until("the note", kept).await;
    browser.click(".share-form [type=submit]").await;
    let made = "return !!document.querySelector('.share-made');";
    browser.wait_until("the link", made).await;
}

/// Everything that the page shows, in one text.
pub const TEXT: &str = "return document.body.innerText;";

pub async fn fill(browser: &Browser, field: &str, text: &str) {
    let found = browser.page.wait().for_element(Locator::Css(field)).await;
    let found = found.expect("a field");
    found.send_keys(text).await.expect("it takes a text");
}

/// The token that a page shows once.
pub async fn shown_token(browser: &Browser) -> String {
    let there = "return document.querySelector('.account-secret input')?.value ?? '';";
    browser
        .wait_until("the token", &format!("return !!(() => {{ {there} }})();"))
        .await;
    let token = browser.eval(there).await;
    token.as_str().expect("a text").to_owned()
}

/// Adds somebody on the page; the token to hand over.
pub async fn add(browser: &Browser, server: &TestServer, name: &str) -> String {
    browser.goto(&server.url("/people")).await;
    fill(browser, "#name", name).await;
    browser.click("form[action^=\"/people?form\"] button").await;
    shown_token(browser).await
}

/// A plain page can be seen and reached by everybody, at every size, by day and night.
pub async fn look_at(browser: &Browser, server: &TestServer, path: &str) {
    browser.goto(&server.url(path)).await;
    for viewport in [Viewport::Desktop, Viewport::Phone] {
        browser.set_viewport(viewport).await;
        for theme in [Theme::Light, Theme::Dark] {
            browser.set_still_theme(theme).await;
            let mut wrong = browser.out_of_sight().await;
            wrong.extend(axe::findings(browser).await);
            assert!(
                wrong.is_empty(),
                "{path} {viewport:?} {theme:?}: {wrong:#?}"
            );
            let wide = browser.too_wide().await;
            assert!(wide.is_empty(), "{path} {viewport:?}: {wide:#?}");
            let name = path.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            let name = format!("plain{name}-{viewport:?}-{theme:?}");
            browser.screenshot(&name).await;
        }
    }
}

#[tokio::test]
async fn two_people_sign_in_in_two_browsers_and_what_they_do_has_a_name() {
    let server = TestServer::start();
    let ada = Browser::open(Viewport::Desktop, Theme::Light).await;
    let bo = Browser::open(Viewport::Desktop, Theme::Dark).await;
    ada.add_to_pages(axe::AXE).await;
    add(&ada, &server, "ada").await;
    let token = add(&ada, &server, "bo").await;
    ada.screenshot("people").await;

    // A visitor without a session is sent to the sign-in page, and afterwards to the page that they
    // wanted.
    bo.goto(&server.url("/account")).await;
    fill(&bo, "#token", &token).await;
    bo.click("main button").await;
    let account = "return document.body.innerText.includes('You are bo, member');";
    bo.wait_until("the account", account).await;
    fill(&bo, "#name", "CI of the trainer").await;
    bo.click("form[action^=\"/account/tokens?\"] button").await;
    let made = shown_token(&bo).await;
    assert!(made.starts_with("tidemark_"));
    bo.screenshot("account").await;
    bo.goto(&server.url("/people")).await;
    let refused = "return document.body.innerText.includes('Only an admin may do this.');";
    bo.wait_until("the refusal", refused).await;

    ada.goto(&server.url("/audit")).await;
    let text = ada.eval(TEXT).await;
    let text = text.as_str().expect("a text");
    for done in [
        "make token",
        "CI of the trainer (read, upload)",
        "bo (member)",
    ] {
        assert!(text.contains(done), "{done}: {text}");
    }
    let plain = [
        "/account",
        "/people",
        "/audit",
        "/categories",
        "/jobs",
        "/history",
        "/pull-requests",
        "/views?path=/history",
    ];
    for path in plain {
        look_at(&ada, &server, path).await;
    }

    // On a phone the row of pages is scrolled to the one that is shown.
    ada.goto(&server.url("/audit")).await;
    let here = "const { left, right } = \
                document.querySelector('[aria-current=page]').getBoundingClientRect(); \
                return left >= 0 && right <= innerWidth;";
    ada.wait_until("the name of the page", here).await;

    // Ada removes Bo's access: his browser is signed out at once.
    ada.set_viewport(Viewport::Desktop).await;
    ada.goto(&server.url("/people")).await;
    ada.click("summary[aria-label=\"End access of bo\"]").await;
    ada.click(".account-ask[open] button").await;
    let ended = "return document.body.innerText.includes('Let in again');";
    ada.wait_until("the end", ended).await;
    bo.goto(&server.url("/account")).await;
    let asked = "return !!document.querySelector('form[action=\"/sign-in\"]');";
    bo.wait_until("the page to sign in", asked).await;
}

/// Lets somebody in with this role, on the page of people; a browser in which they are signed in.
async fn signed_in(ada: &Browser, server: &TestServer, role: &str) -> Browser {
    ada.goto(&server.url("/people")).await;
    fill(ada, "#name", role).await;
    let choose = format!("document.querySelector('#role').value = '{role}'; return null;");
    ada.eval(&choose).await;
    ada.click("form[action^=\"/people?form\"] button").await;
    let token = shown_token(ada).await;
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/sign-in")).await;
    fill(&browser, "#token", &token).await;
    browser.click("form[action=\"/sign-in\"] button").await;
    let there = "return location.pathname !== '/sign-in';";
    browser.wait_until("the first page", there).await;
    browser
}

/// Drops a file on the page. Whether the page offers to take it, and whether it does.
const DROPPED: &str = "
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(['no snapshot'], 'dropped.pickle'));
    const about = { bubbles: true, cancelable: true, dataTransfer };
    const happens = kind => document.body.dispatchEvent(new DragEvent(kind, about));
    happens('dragenter');
    happens('dragover');
    return new Promise(told => setTimeout(() => {
        const offers = document.querySelector('.drop-veil').classList.contains('shown');
        happens('drop');
        setTimeout(() => told([offers, document.body.innerText.includes('dropped.pickle')]), 500);
    }, 100));";

/// Whether somebody who may send files is offered to drop one.
async fn ada_drops(ada: &Browser, server: &TestServer) -> Value {
    ada.goto(&server.url("/")).await;
    let list = "return !!document.querySelector('tr.run');";
    ada.wait_until("the list", list).await;
    ada.eval(DROPPED).await[0].clone()
}

/// How many recipes are shown below the list.
async fn recipes(browser: &Browser) -> Value {
    browser.click(".more-steps summary").await;
    let there = "return !!document.querySelector('.recipe');";
    browser.wait_until("the recipes", there).await;
    let shown = "return [...document.querySelectorAll('.recipe')]
                     .filter(recipe => recipe.checkVisibility()).length;";
    browser.eval(shown).await
}

/// The keys of these that the help lists.
async fn helped(browser: &Browser, keys: &str) -> Value {
    browser.press("?").await;
    let open = "return !!document.querySelector('dialog[open] .help kbd');";
    browser.wait_until("the help", open).await;
    let listed = "return [...document.querySelectorAll('dialog[open] .help kbd')] \
                  .map(key => key.innerText).filter(key => 'KEYS'.split('|').includes(key));";
    let listed = browser.eval(&listed.replace("KEYS", keys)).await;
    browser.press("Escape").await;
    listed
}

/// Whether `?` opens the help when the browser has closed it, but has not reported that yet.
async fn help_opens_again_at_once(browser: &Browser) -> bool {
    browser.press("?").await;
    let open = "return !!document.querySelector('dialog[open] .help kbd');";
    browser.wait_until("the help", open).await;
    let again = "return (async () => {
        const help = document.querySelector('dialog[open]');
        const reported = new Promise(resolve => {
            help.addEventListener('close', resolve, { once: true });
        });
        help.requestClose();
        const key = new KeyboardEvent('keydown', { key: '?', bubbles: true });
        document.body.dispatchEvent(key);
        await reported;
        await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
        return help.open;
    })();";
    let is_open = browser.eval(again).await == json!(true);
    browser.press("Escape").await;
    is_open
}

/// Whether the help stays open while somebody selects text in it and lets go beside it. A click
/// beside it closes it.
async fn help_stays_while_its_text_is_selected(browser: &Browser) -> bool {
    browser.press("?").await;
    let open = "return !!document.querySelector('dialog[open] .help kbd');";
    browser.wait_until("the help", open).await;
    let title = "const title = document.querySelector('dialog[open] h2').getBoundingClientRect();
                 return [title.left + 2, title.top + title.height / 2];";
    let (title, beside) = (browser.eval(title).await, json!([2, 2]));
    let mouse = async |kind: &str, at: &Value| {
        let params = json!({
            "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1,
        });
        browser.cdp("Input.dispatchMouseEvent", params).await;
    };
    mouse("mousePressed", &title).await;
    mouse("mouseReleased", &beside).await;
    let stays = browser.eval(open).await == json!(true);
    mouse("mousePressed", &beside).await;
    mouse("mouseReleased", &beside).await;
    let closed = "return !document.querySelector('dialog[open]');";
    browser.wait_until("the page alone", closed).await;
    stays
}

#[tokio::test]
async fn nobody_is_offered_what_would_be_refused() {
    let server = TestServer::start();
    let ada = Browser::open(Viewport::Desktop, Theme::Light).await;
    add(&ada, &server, "ada").await;
    let sample = "return (async () => {
        const made = await fetch('/api/samples/leak_hook_cache', { method: 'POST' });
        return (await made.json()).run.id;
    })();";
    let run = ada.eval(sample).await;
    let run = format!("/runs/{}", run.as_str().expect("an id"));

    let reader = signed_in(&ada, &server, "reader").await;
    let none_of = |there: &str, offers: &str| {
        format!(
            "const offers = [...document.querySelectorAll('{offers}')]; \
             return !!document.querySelector('{there}') \
             && offers.every(offer => !offer.checkVisibility()) \
             && document.body.innerText.includes('You may look at runs here');"
        )
    };
    let list = none_of("tr.run", ".file-picker, .row-actions, .samples");
    reader.wait_until("the list", &list).await;
    assert_eq!(reader.eval(DROPPED).await, json!([false, false]));
    let told = reader.text(".toasts").await;
    assert!(told.contains("You may look here, but not send"), "{told}");
    assert_eq!(ada_drops(&ada, &server).await, true);
    let keys = "const link = document.querySelector('.run-link');
                for (const key of ['F2', 'Delete']) {
                    link.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
                }
                return null;";
    reader.eval(keys).await;
    reader.painted().await;
    let same = "return [document.querySelectorAll('tr.run .run-link').length,
                        document.querySelector('.toasts').innerText.includes('elete')];";
    assert_eq!(reader.eval(same).await, json!([1, false]));
    // How to record one, but not how to send it from a shell.
    assert_eq!(recipes(&reader).await, 1);
    // The help lists what they may do, too.
    let offered = "F2|Del|drop";
    assert_eq!(helped(&reader, offered).await, json!([]));
    assert_eq!(helped(&reader, "Esc").await, json!(["Esc"]));
    assert_eq!(helped(&ada, offered).await, json!(["drop", "F2", "Del"]));
    assert!(help_opens_again_at_once(&ada).await);
    assert!(help_stays_while_its_text_is_selected(&ada).await);
    reader.goto(&server.url(&run)).await;
    let page = none_of(".view-actions > .button", ".file-picker, .share-open");
    reader.wait_until("the run", &page).await;
    reader.screenshot("reader-run").await;
    reader.goto(&server.url("/bench")).await;
    let bench = none_of(".bench-empty", ".bench-new, .bench-empty .button, .chooser");
    reader.wait_until("the bench", &bench).await;
    reader.screenshot("reader-bench").await;
    // The others are offered all of that.
    ada.goto(&server.url(&run)).await;
    let all = "return document.querySelector('.share-open')?.checkVisibility() \
               && document.querySelector('.file-picker').checkVisibility();";
    ada.wait_until("Share and Upload", all).await;

    // A guest whom no project lets in is told so, and not that the server is away.
    let guest = signed_in(&ada, &server, "guest").await;
    for path in ["/", &run, "/bench"] {
        guest.goto(&server.url(path)).await;
        let text = guest.eval(TEXT).await;
        let text = text.as_str().expect("a text");
        assert!(text.contains("You are in no project yet"), "{path}: {text}");
        assert!(text.contains("ask an admin"), "{path}: {text}");
    }
}
