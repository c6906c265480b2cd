//! Lists of many runs: they are shown in parts, and each key finds its way among all of them. Where
//! the focus goes when a run leaves the list, and comes back.

use super::eyes::world::upload_fixture;
use serde_json::json;
use tests::{Browser, TestServer, Theme, Viewport, fleet};

/// The rows that the page has at most.
const ROWS: usize = 50;

/// Types into the field that has the focus, at once.
fn typed(text: &str) -> String {
    format!(
        "const field = document.activeElement;
         field.value = '{text}';
         field.dispatchEvent(new Event('input', {{ bubbles: true }}));
         return null;"
    )
}

/// Whether the page has so many rows, and what it says of them.
fn shows(rows: usize, count: &str, told: &str) -> String {
    format!(
        "const text = name => document.querySelector(name)?.innerText ?? '';
         return document.querySelectorAll('tr.run').length === {rows}
             && text('.toolbar [role=status]') === '{count}'
             && text('.runs-parts .muted') === '{told}';"
    )
}

/// Whether the focus is on the n-th row, counted from 1.
fn is_on_row(nth: usize) -> String {
    format!(
        "const rows = [...document.querySelectorAll('tr.run')];
         return rows[{nth} - 1]?.querySelector('.run-link') === document.activeElement;"
    )
}

#[tokio::test]
async fn a_long_list_is_shown_in_parts_that_keys_walk_through() {
    let server = TestServer::start();
    fleet::fill(&server, 2 * ROWS + 30);
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let first = shows(ROWS, "130 runs", "1 to 50 of 130");
    let second = shows(ROWS, "130 runs", "51 to 100 of 130");
    browser.wait_until("the first part", &first).await;
    let elements = "return document.querySelectorAll('*').length;";
    let elements = browser.eval(elements).await.as_u64();
    assert!(elements < Some(2_000), "{elements:?}, however many runs");
    let last = "[...document.querySelectorAll('.run-link')].at(-1).focus(); return null;";
    browser.eval(last).await;
    browser.press("ArrowDown").await;
    browser.wait_until("the second part", &second).await;
    browser.wait_until("its first row", &is_on_row(1)).await;
    let address = "return location.search.endsWith('from=51');";
    browser.wait_until("an address of its own", address).await;
    browser.press("ArrowUp").await;
    browser.wait_until("the first part again", &first).await;
    browser.wait_until("its last row", &is_on_row(ROWS)).await;
    browser.click(".runs-parts button:last-child").await;
    browser.wait_until("the next part", &second).await;
    browser.wait_until("the first of it", &is_on_row(1)).await;
    // The filter finds a run of any part, and the list is whole again without it.
    browser.press("/").await;
    browser.eval(&typed(&format!("commit={:040x}", 7))).await;
    let found = shows(1, "1 of 130 runs", "");
    browser.wait_until("a run of another part", &found).await;
    browser.press("Escape").await;
    browser.wait_until("all parts", &first).await;
    browser.eval(&typed("config-1")).await;
    browser
        .wait_until("those found", &shows(30, "30 of 130 runs", ""))
        .await;
    // A run that comes back is shown, though another part was shown meanwhile.
    browser.press("Escape").await;
    browser.wait_until("the first part", &first).await;
    browser.click(".runs-parts button:last-child").await;
    browser.wait_until("the second part", &second).await;
    let delete = "
        const row = document.querySelector('tr.run:nth-child(3)');
        row.querySelector('[aria-label^=Delete]').click();
        return row.querySelector('.run-link').innerText;";
    let name = browser.eval(delete).await;
    let undo = "return !!document.querySelector('.toast .link-button');";
    browser.wait_until("Undo", undo).await;
    browser.click(".runs-parts button:first-of-type").await;
    let left = shows(ROWS, "129 runs", "1 to 50 of 129");
    browser.wait_until("the first part", &left).await;
    browser
        .eval("document.querySelector('.toast .link-button').focus(); return null;")
        .await;
    browser.press("Enter").await;
    browser.wait_until("its part", &second).await;
    let on_it = format!("return document.activeElement.innerText === {name};");
    browser.wait_until("the focus on it", &on_it).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn several_runs_are_deleted_at_once_and_come_back_at_once() {
    let server = TestServer::start();
    fleet::fill(&server, ROWS + 10);
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let whole = shows(ROWS, "60 runs", "1 to 50 of 60");
    let button = |class: &str, text: &str| {
        format!("return document.querySelector('.{class}')?.innerText === '{text}';")
    };
    let told = |text: &str| {
        format!("return document.querySelector('.toasts').innerText.includes('{text}');")
    };
    browser.wait_until("the list", &whole).await;
    // With the keyboard and with the pointer; in no order.
    let fourth = "document.querySelector('tr.run:nth-child(4) .run-pick').focus(); return null;";
    browser.eval(fourth).await;
    browser.press(" ").await;
    browser.click("tr.run:nth-child(2) .run-pick").await;
    let two = button("picked-delete", "Delete 2 runs");
    browser.wait_until("two are picked", &two).await;
    browser.click(".picked-delete").await;
    let without = shows(ROWS, "58 runs", "1 to 50 of 58");
    browser.wait_until("they are gone", &without).await;
    browser
        .wait_until("that they are", &told("Deleted 2 runs"))
        .await;
    browser.click(".toast .link-button").await;
    browser.wait_until("both again", &whole).await;
    // All that the filter finds, those of the other part, too; more than can be compared.
    browser.click("tr.run:nth-child(1) .run-pick").await;
    let all = button("picked-all", "Pick all 60");
    browser.wait_until("the rest is offered", &all).await;
    browser.click(".picked-all").await;
    let all = button("picked-delete", "Delete 60 runs");
    browser.wait_until("all are picked", &all).await;
    assert!(
        browser
            .text(".picked-bar")
            .await
            .contains("at most 8 are compared")
    );
    browser.click(".picked-delete").await;
    let gone = "return !document.querySelector('tr.run');";
    browser.wait_until("all are gone", gone).await;
    browser
        .wait_until("that all are", &told("Deleted 60 runs"))
        .await;
    let kept = |server: &TestServer| {
        let answer = ureq::get(server.url("/api/runs")).call().expect("the list");
        let list = answer.into_body().read_to_string().expect("a text");
        let list: Vec<serde_json::Value> = serde_json::from_str(&list).expect("a list");
        list.len()
    };
    assert_eq!(kept(&server), 0);
    browser.click(".toast .link-button").await;
    browser.wait_until("all again", &whole).await;
    let restored = "return !document.querySelector('.runs-deleted');";
    browser.wait_until("none is deleted", restored).await;
    assert_eq!(kept(&server), 60);
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// What the server did not take is told, comes back and is still picked.
#[tokio::test]
async fn what_could_not_be_deleted_is_told_and_comes_back() {
    let server = TestServer::start();
    for name in ["leak_hook_cache", "plain_lm", "oom"] {
        upload_fixture(&server, name);
    }
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let rows = |n| format!("return document.querySelectorAll('tr.run').length === {n};");
    browser.wait_until("the list", &rows(3)).await;
    // The second deletion is refused.
    let refuse = "
        const sent = window.fetch;
        let n = 0;
        window.fetch = (request, ...rest) =>
            request.method === 'DELETE' && ++n === 2
                ? Promise.resolve(new Response('', { status: 500 }))
                : sent(request, ...rest);
        return null;";
    browser.eval(refuse).await;
    browser.click("tr.run:nth-child(1) .run-pick").await;
    browser.click(".picked-all").await;
    let all = "return document.querySelector('.picked-delete')?.innerText === 'Delete 3 runs';";
    browser.wait_until("all are picked", all).await;
    browser.click(".picked-delete").await;
    browser.wait_until("two again", &rows(2)).await;
    let told = "
        const told = document.querySelector('.toasts').innerText;
        return told.includes('Deleted “') && told.includes('2 runs are not deleted (“')
            && document.querySelector('.picked-delete')?.innerText === 'Delete 2 runs';";
    browser.wait_until("what stays", told).await;
    browser.click(".toast .link-button").await;
    browser.wait_until("the one again", &rows(3)).await;
}

/// A list that cannot be read again is not taken for an empty one.
#[tokio::test]
async fn what_could_not_be_deleted_comes_back_where_the_server_is_gone() {
    let server = TestServer::start();
    for name in ["leak_hook_cache", "plain_lm"] {
        upload_fixture(&server, name);
    }
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let rows = |n| format!("return document.querySelectorAll('tr.run').length === {n};");
    browser.wait_until("the list", &rows(2)).await;
    let cut_off = "
        window.fetch = () => Promise.reject(new TypeError('cut off'));
        return null;";
    browser.eval(cut_off).await;
    browser.click("tr.run:nth-child(1) .run-pick").await;
    browser.click(".picked-all").await;
    browser.click(".picked-delete").await;
    let told = "return document.querySelector('.toasts').innerText.includes('are not deleted');";
    browser.wait_until("that none is deleted", told).await;
    browser.wait_until("both again", &rows(2)).await;
}

#[tokio::test]
async fn the_focus_stays_in_the_list_when_a_run_is_deleted_and_comes_back() {
    let server = TestServer::start();
    for name in ["leak_hook_cache", "plain_lm", "oom"] {
        upload_fixture(&server, name);
    }
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/")).await;
    let rows = |n| format!("return document.querySelectorAll('tr.run').length === {n};");
    browser.wait_until("the list", &rows(3)).await;
    let bin = "document.querySelector('tr.run:nth-child(2) [aria-label^=Delete]').focus();
               return null;";
    browser.eval(bin).await;
    browser.press("Enter").await;
    browser.wait_until("it is gone", &rows(2)).await;
    browser.wait_until("the next row", &is_on_row(2)).await;
    let undo = "
        const undo = document.querySelector('.toast .link-button');
        undo?.focus();
        return !!undo;";
    browser.wait_until("Undo", undo).await;
    browser.press("Enter").await;
    browser.wait_until("it is back", &rows(3)).await;
    browser.wait_until("the focus on it", &is_on_row(2)).await;
    // Without a row that is left, the filter has it.
    browser.press("/").await;
    browser.eval(&typed("plain")).await;
    browser.wait_until("one", &rows(1)).await;
    browser.press("ArrowDown").await;
    browser.wait_until("the row", &is_on_row(1)).await;
    browser.press("Delete").await;
    let filter = "return document.activeElement.getAttribute('aria-label') === 'Filter runs';";
    browser.wait_until("the filter", filter).await;
}

#[tokio::test]
async fn a_run_is_added_to_a_comparison_by_its_name_and_none_while_it_is_typed() {
    let server = TestServer::start();
    fleet::fill(&server, 70);
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    browser.goto(&server.url("/compare")).await;
    let offered = "return document.querySelectorAll('.pick-row').length === 50;";
    browser.wait_until("some of the runs", offered).await;
    for _ in 0..2 {
        browser.click(".pick-row").await;
    }
    let chips = |n| format!("return document.querySelectorAll('.chip').length === {n};");
    browser.wait_until("two runs", &chips(2)).await;
    let button = "return document.activeElement.innerText === 'Add a run…';";
    browser.wait_until("the button", button).await;
    browser.press("Enter").await;
    let field = "return document.activeElement.matches('.compare-add .pick-filter');";
    browser.wait_until("the field", field).await;
    for key in ["r", "e", "c"] {
        browser.press(key).await;
    }
    browser.eval(&typed("recording-7")).await;
    let sought = "return document.querySelectorAll('.pick-row').length === 1;";
    browser.wait_until("those with the name", sought).await;
    assert_eq!(browser.eval(&chips(2)).await, json!(true), "none is added");
    browser.press("Tab").await;
    browser.press("Enter").await;
    browser.wait_until("one more", &chips(3)).await;
    browser.wait_until("the button again", button).await;
    browser.press("Enter").await;
    browser.wait_until("the field again", field).await;
    browser.press("Escape").await;
    browser.wait_until("the button, as before", button).await;
    assert_eq!(browser.eval(&chips(3)).await, json!(true));
}
