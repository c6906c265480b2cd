//! Signing in at a real provider of OpenID Connect (the certified `oidc-provider`), in a browser.

use super::eyes::axe;
use super::sessions::{TEXT, fill};
use fantoccini::Locator;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;
use tests::{Browser, TestServer, Theme, Viewport, workspace_root};

/// Ends with the test.
struct Provider {
    node: Child,
    /// Node.js ends when nobody can read what it says.
    said: BufReader<ChildStdout>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

impl Provider {
    fn start(port: u16, callback: &str) -> Provider {
        let package = std::env::var_os("OIDC").expect("./check says where oidc-provider is");
        let program = workspace_root().join("tests/fixtures/oidc/provider.mjs");
        let program = fs::read(program).expect("the program is there");
        let mut node = Command::new("node")
            .args(["--input-type=module", "-", &port.to_string(), callback])
            .current_dir(package)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node runs");
        let mut stdin = node.stdin.take().expect("a pipe");
        stdin.write_all(&program).expect("node reads");
        drop(stdin);
        let said = BufReader::new(node.stdout.take().expect("a pipe"));
        let mut provider = Provider { node, said };
        let mut line = String::new();
        while line.trim() != "ready" {
            line.clear();
            let read = provider
                .said
                .read_line(&mut line)
                .expect("node says something");
            assert!(read > 0, "the provider ended");
        }
        provider
    }
}

/// A server that lets people of one domain in, and their provider.
fn server() -> (TestServer, Provider) {
    let secrets = TempDir::with_prefix("tidemark-oidc-").expect("a temporary folder");
    let file = secrets.path().join("secret");
    fs::write(&file, "hush\n").expect("the secret is kept");
    // Free a moment ago: the server must know the address before the provider knows the server's.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let issuer = format!("http://127.0.0.1:{port}");
    let server = TestServer::start_with(&[
        "--oidc-issuer",
        &issuer,
        "--oidc-client",
        "tidemark",
        "--oidc-secret-file",
        file.to_str().expect("a path in UTF-8"),
        "--oidc-allow",
        "email=*@example.com",
    ]);
    let provider = Provider::start(port, &server.url("/sign-in/oidc/callback"));
    (server, provider)
}

/// From the page to sign in to the provider's page, and back.
async fn sign_in(browser: &Browser, name: &str) {
    browser.click("main a.button.primary").await;
    let login = browser
        .page
        .wait()
        .for_element(Locator::Css("[name=login]"));
    login.await.expect("the provider asks who it is");
    fill(browser, "[name=login]", name).await;
    fill(browser, "[name=password]", "anything").await;
    browser.click("[type=submit]").await;
    browser
        .wait_until(
            "consent",
            "return !!document.querySelector('[value=consent]');",
        )
        .await;
    browser.click("[type=submit]").await;
}

async fn reads(browser: &Browser, text: &str) {
    let there = format!("return document.body.innerText.includes({text:?});");
    browser.wait_until(text, &there).await;
}

#[tokio::test]
#[ignore = "needs oidc-provider, which ./check fetches"]
async fn a_provider_signs_people_in_and_they_land_where_they_wanted() {
    let (server, _provider) = server();
    let ada = Browser::open(Viewport::Desktop, Theme::Light).await;
    ada.add_to_pages(axe::AXE).await;
    ada.goto(&server.url("/history?label=branch%3Dmain")).await;
    reads(&ada, "Sign in with 127.0.0.1").await;
    assert_eq!(axe::findings(&ada).await, [""; 0]);
    ada.screenshot("oidc-sign-in").await;
    ada.set_viewport(Viewport::Phone).await;
    ada.set_theme(Theme::Dark).await;
    assert_eq!(ada.too_wide().await, [""; 0]);
    ada.screenshot("oidc-sign-in-phone-dark").await;
    ada.set_viewport(Viewport::Desktop).await;
    sign_in(&ada, "ada").await;
    let there = "return location.pathname + location.search === '/history?label=branch%3Dmain' \
                 && !!document.querySelector('.account-nav');";
    ada.wait_until("the page that she wanted", there).await;
    ada.goto(&server.url("/account")).await;
    reads(&ada, "You are ada@example.com, admin.").await;
    // The page with the program in it knows her, too.
    ada.goto(&server.url("/")).await;
    let link = "return !!document.querySelector('a[aria-label=\"Account\"]') && \
                !document.querySelector('dialog[open]');";
    ada.wait_until("the list of runs", link).await;

    let eve = Browser::open(Viewport::Desktop, Theme::Light).await;
    eve.goto(&server.url("/account")).await;
    sign_in(&eve, "eve@evil.example").await;
    reads(&eve, "may not come in here").await;
    eve.screenshot("oidc-not-allowed").await;
    eve.goto(&server.url("/account")).await;
    reads(&eve, "Your token").await;

    // From the dialog of the program, too; and she decides what he may do.
    let bo = Browser::open(Viewport::Desktop, Theme::Light).await;
    bo.goto(&server.url("/bench")).await;
    bo.click("dialog[open] a").await;
    sign_in(&bo, "bo").await;
    let there = "return location.pathname === '/bench' && !document.querySelector('dialog[open]');";
    bo.wait_until("the page of benches", there).await;
    ada.goto(&server.url("/people")).await;
    let people = ada.eval(TEXT).await;
    let people = people.as_str().expect("a text");
    assert!(
        people.contains("bo@example.com") && !people.contains("eve"),
        "{people}"
    );
    ada.click("summary[aria-label='End access of bo@example.com']")
        .await;
    ada.click(".account-ask[open] button").await;
    reads(&ada, "Let in again").await;
    bo.goto(&server.url("/account")).await;
    // The provider still knows him.
    bo.click("main a.button.primary").await;
    reads(&bo, "Your access has ended").await;
    ada.goto(&server.url("/audit")).await;
    reads(&ada, "bo@example.com").await;
}
