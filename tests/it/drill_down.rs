//! From "it leaks" to the tensor: verdict, growth chart, allocations, stack; live memory at a
//! moment; search. The address contains every step of it.

use super::explore::wait_for_picture;
use super::eyes::world::upload_fixture;
use serde_json::{Value, json};
use std::time::Duration;
use tests::{Browser, TestServer, Theme, Viewport};

/// Opens a bundled sample by its title on the page without runs.
async fn open_sample(browser: &Browser, server: &TestServer, title: &str) {
    browser.goto(&server.url("/")).await;
    let click = format!(
        "const all = [...document.querySelectorAll('button.sample')];
         const one = all.find(button => button.textContent.includes('{title}'));
         one?.click();
         return !!one;"
    );
    browser.wait_until("the samples", &click).await;
    let there = "return location.pathname.startsWith('/runs/');";
    browser.wait_until("the run's page", there).await;
    wait_for_picture(browser).await;
}

/// Clicks the middle of an element, as a mouse does, once it no longer moves: what is loading
/// beside it pushes it away.
async fn click(browser: &Browser, what: &str, find: &str) {
    let script = format!(
        "const one = {find};
         if (!one) return null;
         one.scrollIntoView({{ block: 'center' }});
         const box = one.getBoundingClientRect();
         return [box.left + box.width / 2, box.top + box.height / 2];"
    );
    let at = settled(browser, &script).await;
    assert!(at.is_array(), "there is no {what}");
    click_at(browser, &at).await;
}

/// A point on the page, once it stays the same.
async fn settled(browser: &Browser, find_point: &str) -> Value {
    let mut at = Value::Null;
    for _ in 0..100 {
        let before = std::mem::replace(&mut at, browser.eval(find_point).await);
        if at.is_array() && at == before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
    at
}

async fn click_at(browser: &Browser, at: &Value) {
    for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
        let params = json!({
            "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1,
        });
        browser.cdp("Input.dispatchMouseEvent", params).await;
    }
}

async fn open_tab(browser: &Browser, tab: &str) {
    let find = format!("document.getElementById('tab-{tab}')");
    click(browser, tab, &find).await;
}

/// Finds a point at the last step of the growth chart where its first band is painted.
const FIRST_BAND: &str = "
    const plot = document.querySelector('.growth-plot');
    plot.scrollIntoView({ block: 'center' });
    const box = plot.getBoundingClientRect();
    for (let y = box.top + 1; y < box.bottom; y += 1) {
        const found = document.elementFromPoint(box.right - 2, y);
        if (found?.dataset?.band === '0') return [box.right - 2, y + 2];
    }
    return null;";

/// That point, once the page around the chart no longer changes its layout.
async fn first_band(browser: &Browser) -> Value {
    wait_for_picture(browser).await;
    settled(browser, FIRST_BAND).await
}

#[tokio::test]
async fn from_the_growth_chart_to_the_stack_of_a_leaked_block() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    open_sample(&browser, &server, "A forward hook that keeps activations").await;
    open_tab(&browser, "leaks").await;
    let verdict = "return document.querySelector('.verdict.leak h2')?.textContent === \
                   'Leaks 8.00 MiB a step';";
    browser.wait_until("the verdict", verdict).await;
    browser
        .wait_until(
            "the growth chart",
            "return document.querySelectorAll('.growth-plot .band').length > 1;",
        )
        .await;
    // First click: the band that grows.
    let at = first_band(&browser).await;
    assert!(at.is_array(), "the leaking band is not painted at the end");
    click_at(&browser, &at).await;
    let listed = "return document.querySelectorAll('tr.block').length === 12 && \
                  document.querySelectorAll('tr.block.new-step').length === 12 && \
                  /site=s[0-9a-f]{16}/.test(location.search) && /sel=g/.test(location.search);";
    browser
        .wait_until("its allocations, one in each step", listed)
        .await;
    let read = "return document.querySelector('.growth-readout').textContent;";
    let readout = browser.eval(read).await;
    let readout = readout.as_str().expect("words");
    assert!(readout.contains("save_activation_hook"), "{readout}");
    assert!(
        readout.contains("(100,663,296 B) in 12 blocks"),
        "{readout}"
    );
    // Second click: one of its allocations.
    click(
        &browser,
        "an allocation",
        "document.querySelectorAll('tr.block')[3]",
    )
    .await;
    let stack = "return [...document.querySelectorAll('.panel .stack code')]\
                 .some(code => code.textContent === 'save_activation_hook') && \
                 /sel=b/.test(location.search);";
    browser.wait_until("its stack", stack).await;
    browser.screenshot("leaks-selected").await;
    // The address contains the whole view.
    let link = browser.eval("return location.href;").await;
    browser.goto(link.as_str().expect("an address")).await;
    browser.wait_until("the verdict of the link", verdict).await;
    browser.wait_until("the stack of the link", stack).await;
    let selected = "return document.querySelectorAll('tr.block.selected').length === 1 && \
                    document.querySelectorAll('tr.group.selected').length === 1;";
    browser.wait_until("the rows of the link", selected).await;
    bands_by_module(&browser).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// Groups the growth chart by module, and selects the growing band in the table of bands.
async fn bands_by_module(browser: &Browser) {
    let choose = "const by = document.querySelector('.growth-head select');
                  by.value = 'module';
                  by.dispatchEvent(new Event('change'));
                  return null;";
    browser.eval(choose).await;
    let grouped = "return /grow=module/.test(location.search) && \
                   !/site=/.test(location.search) && \
                   document.querySelectorAll('.bands tr.group').length > 1 && \
                   document.querySelectorAll('.growth-plot .band').length > 1;";
    browser.wait_until("the bands of modules", grouped).await;
    click(
        browser,
        "a module",
        "document.querySelector('.bands tr.group')",
    )
    .await;
    let listed = "return /of=module/.test(location.search) && \
                  document.querySelectorAll('.bands tr.selected').length === 1 && \
                  document.querySelectorAll('tr.block').length > 11;";
    browser.wait_until("what the module keeps", listed).await;
    browser.screenshot("leaks-by-module").await;
}

#[tokio::test]
async fn what_is_alive_is_drawn_zoomed_and_compared() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Dark).await;
    open_sample(&browser, &server, "An activation offloader that leaks").await;
    open_tab(&browser, "alive").await;
    let drawn = "return document.querySelectorAll('.boxes .box').length > 3;";
    browser.wait_until("the treemap", drawn).await;
    browser.screenshot("alive-treemap").await;
    let largest = "document.querySelector('.boxes .box')";
    click(&browser, "the largest box", largest).await;
    browser
        .wait_until(
            "the zoom",
            "return /root=[0-9a-f]{16}/.test(location.search);",
        )
        .await;
    let find = "[...document.querySelectorAll('[aria-label=Moments] .segment')].at(-1)";
    click(&browser, "the flame graph", find).await;
    let flame = "return /chart=flame/.test(location.search) && \
                 document.querySelectorAll('.boxes[data-chart=flame] .box').length > 1;";
    browser.wait_until("the flame graph", flame).await;
    browser.screenshot("alive-flame").await;
    let find = "[...document.querySelectorAll('[aria-label=Moments] .button')].at(-1)";
    click(&browser, "compare", find).await;
    let compared = "return /vs=\\d+/.test(location.search) && \
                    document.querySelectorAll('.came-and-went .share-table').length === 2;";
    browser.wait_until("what came and went", compared).await;
    browser.screenshot("alive-compared").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// What a recording that began late began with.
#[tokio::test]
async fn what_was_alive_before_the_first_event_is_shown_and_linked() {
    let server = TestServer::start();
    let run = upload_fixture(&server, "off_v1_moe");
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    let page = format!("/runs/{run}?v=5&tab=alive");
    browser.goto(&server.url(&page)).await;
    let find = "[...document.querySelectorAll('[aria-label=Moments] .button')] \
                .find(button => button.textContent === 'Before the first event')";
    click(&browser, "the start", find).await;
    let shown = "return /at=start/.test(location.search) && \
                 / allocated before the first event, in \\d+ block/.test( \
                 document.querySelector('.alive-summary')?.innerText ?? '');";
    browser.wait_until("the start", shown).await;
    // The address shows the same to somebody else.
    browser.goto(&server.url(&format!("{page}&at=start"))).await;
    browser.wait_until("the start again", shown).await;
    click(&browser, "the end", find).await;
    let end = "return !/at=/.test(location.search) && / allocated after event /.test( \
               document.querySelector('.alive-summary')?.innerText ?? '');";
    browser.wait_until("the end", end).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_failed_allocation_leads_to_why_it_failed_and_what_would_have_helped() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Phone, Theme::Light).await;
    open_sample(&browser, &server, "A run that ends out of memory").await;
    let find = "[...document.querySelectorAll('.failure-buttons .button')][0]";
    click(&browser, "why", find).await;
    let told = "return /tab=what-if/.test(location.search) && \
                [...document.querySelectorAll('.questions h3')].map(h => h.textContent).join() \
                .includes('What would have helped');";
    browser
        .wait_until("why, and what would have helped", told)
        .await;
    // Nobody has to look for it: it came onto the screen.
    let seen = "const h = document.querySelector('.questions h3').getBoundingClientRect();
                return h.top >= 0 && h.bottom <= innerHeight;";
    browser.wait_until("the answer on the screen", seen).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_filter_is_in_the_address_and_every_tab_fits_every_screen() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    open_sample(&browser, &server, "A small language model").await;
    let page = browser.eval("return location.href;").await;
    let page = page.as_str().expect("an address").to_owned();
    browser
        .goto(&format!(
            "{page}?v=2&tab=allocations&q=forward&min=1048576&sort=largest"
        ))
        .await;
    let found = "return document.querySelectorAll('tr.block').length > 5 && \
                 document.querySelector('.filter input').value === 'forward';";
    browser
        .wait_until("what the filter of the link finds", found)
        .await;
    for tab in ["leaks", "alive", "allocations"] {
        browser.goto(&format!("{page}?v=2&tab={tab}")).await;
        let ready = "return document.querySelectorAll('.questions .honesty').length === 1 && \
                     !document.querySelector('.questions [aria-busy=true]');";
        browser.wait_until("the tab", ready).await;
        for viewport in [Viewport::Desktop, Viewport::Phone] {
            for theme in [Theme::Light, Theme::Dark] {
                browser.set_viewport(viewport).await;
                browser.set_theme(theme).await;
                browser.painted().await;
                let name = format!("{tab}-{viewport:?}-{theme:?}").to_lowercase();
                browser.screenshot(&name).await;
                assert!(!browser.scrolls_sideways().await, "{name} scrolls sideways");
            }
        }
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// Starts a bench of the baseline of the vision-language model, and opens its run.
async fn open_engine_run(browser: &Browser, server: &TestServer) {
    browser.goto(&server.url("/")).await;
    let start = "fetch('/api/bench', {
            method: 'POST',
            headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify({
                rows: [{ config: 'vl-qwen3.5-9b', patches: [] }],
                device: 'sim', steps: 8, recorded_steps: 8,
            }),
        }).then(answer => { window.__started = answer.status; });
        return null;";
    browser.eval(start).await;
    let run = "fetch('/api/runs').then(a => a.json())
            .then(runs => { window.__run = runs.find(run => run.source === 'engine')?.id; });
        return typeof window.__run === 'string';";
    browser
        .wait_within(Duration::from_secs(120), "the run of the bench", run)
        .await;
    let run = browser.eval("return window.__run;").await;
    let run = run.as_str().expect("an id").to_owned();
    browser.goto(&server.url(&format!("/runs/{run}"))).await;
    wait_for_picture(browser).await;
}

#[tokio::test]
async fn an_engine_run_leads_from_the_growth_chart_to_what_holds_the_tensor() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    open_engine_run(&browser, &server).await;
    // First click: the question.
    open_tab(&browser, "leaks").await;
    let drawn = "return document.querySelectorAll('.growth-plot .band').length > 1 && \
                 !!document.querySelector('.verdict.leak');";
    browser.wait_until("verdict and growth chart", drawn).await;
    browser.screenshot("engine-leaks").await;
    // Second click: the band that grows. Third: one of its allocations.
    let at = first_band(&browser).await;
    assert!(at.is_array(), "the leaking band is not painted at the end");
    click_at(&browser, &at).await;
    let listed = "return document.querySelectorAll('tr.block').length > 5;";
    browser.wait_until("its allocations", listed).await;
    click(
        &browser,
        "an allocation",
        "document.querySelectorAll('tr.block')[5]",
    )
    .await;
    let held = "return [...document.querySelectorAll('.panel dd')]\
                .some(fact => fact.textContent.includes('held by bwd_tensor_stash'));";
    browser.wait_until("what holds it", held).await;
    browser.screenshot("engine-held").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_condition_that_cannot_be_understood_says_so_at_its_field() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    open_sample(&browser, &server, "forward hook").await;
    open_tab(&browser, "what-if").await;
    let typed = |field: &str, text: &str| {
        format!(
            "const field = document.querySelector('#questions input[placeholder^=\"{field}\"]');
             field.value = '{text}';
             field.dispatchEvent(new Event('change', {{ bubbles: true }}));
             return null;"
        )
    };
    let wrong = |fields: &str, words: &str| {
        format!(
            "const wrong = [...document.querySelectorAll('#questions [aria-invalid=true]')];
             return wrong.map(field => field.placeholder).join() === '{fields}'
                 && document.querySelector('#field-wrong').textContent.includes('{words}');"
        )
    };
    let wait = async |what, script: String| browser.wait_until(what, &script).await;
    wait(
        "the form",
        "return !!document.querySelector('#field-wrong');".to_owned(),
    )
    .await;
    browser.eval(&typed("e.g.", "a lot")).await;
    wait("what is wrong with the limit", wrong("e.g. 24 GiB", "size")).await;
    browser.eval(&typed("e.g.", "24 GiB")).await;
    browser.eval(&typed("as rec", "nonsense:1")).await;
    wait(
        "what is wrong with the settings",
        wrong("as recorded", "nonsense"),
    )
    .await;
    browser
        .eval(&typed("as rec", "expandable_segments:True"))
        .await;
    wait("an answer", wrong("", "")).await;
    let answered = "return document.querySelector('#field-wrong').textContent === '' \
                    && document.querySelector('#questions .alive-view').innerText.length > 100;";
    wait("an answer", answered.to_owned()).await;
}

#[tokio::test]
async fn back_leads_to_the_tab_before() {
    let server = TestServer::start();
    let browser = Browser::open(Viewport::Desktop, Theme::Light).await;
    open_sample(&browser, &server, "A forward hook").await;
    let chosen = async |tab: &str| {
        let is_it = format!(
            "const chosen = document.querySelector('[role=tab][aria-selected=true]')?.id;
             const named = new URLSearchParams(location.search).get('tab') ?? 'timeline';
             return chosen === 'tab-{tab}' && named === '{tab}';"
        );
        browser.wait_until(tab, &is_it).await;
    };
    open_tab(&browser, "leaks").await;
    chosen("leaks").await;
    open_tab(&browser, "alive").await;
    chosen("alive").await;
    let went = async |way: &str| {
        browser
            .eval(&format!("history.{way}(); return null;"))
            .await
    };
    went("back").await;
    chosen("leaks").await;
    went("back").await;
    chosen("timeline").await;
    went("forward").await;
    chosen("leaks").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
