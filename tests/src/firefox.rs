//! Firefox with one page, controlled over WebDriver BiDi. Debian has no geckodriver, and Firefox
//! speaks BiDi itself.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::browser::Viewport;
use crate::page::Page;
use crate::places;

/// The text that Firefox prints before the address of its socket.
const LISTENING: &str = "WebDriver BiDi listening on ";

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// No first-run pages, no update, no telemetry; a light theme and a mouse that can hover (2 + 4),
/// like the tests' Chromium.
const PREFERENCES: &str = r#"
user_pref("app.update.disabledForTesting", true);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("layout.css.prefers-color-scheme.content-override", 1);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("remote.prefs.recommended", true);
user_pref("toolkit.telemetry.reportingpolicy.firstRun", false);
user_pref("ui.allPointerCapabilities", 6);
user_pref("ui.prefersReducedMotion", 1);
user_pref("ui.primaryPointerCapabilities", 6);
"#;

/// A Firefox with one page and its own profile; both are removed when it is dropped.
pub struct Firefox {
    socket: RefCell<Socket>,
    tab: RefCell<String>,
    viewport: Cell<Viewport>,
    child: Child,
    _profile: TempDir,
}

type Stream = WebSocketStream<MaybeTlsStream<TcpStream>>;

struct Socket {
    stream: Stream,
    commands: u64,
    complaints: Vec<String>,
}

impl Firefox {
    /// Opens an empty page.
    pub async fn open(viewport: Viewport) -> Self {
        let profile = TempDir::with_prefix("tidemark-firefox-").expect("a temporary folder");
        let preferences = profile.path().join("user.js");
        std::fs::write(preferences, PREFERENCES).expect("the profile is written");
        let mut child = Command::new(places::program("FIREFOX", &["firefox-esr", "firefox"]))
            .args([
                "--headless",
                "--no-remote",
                "--remote-debugging-port=0",
                "--profile",
            ])
            .arg(profile.path())
            .env("FONTCONFIG_FILE", places::fonts_conf())
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Firefox starts");
        let address = address(&mut child);
        let (stream, _) = connect_async(format!("{address}/session"))
            .await
            .expect("Firefox opens its socket");
        let mut socket = Socket {
            stream,
            commands: 0,
            complaints: Vec::new(),
        };
        socket
            .call("session.new", json!({ "capabilities": {} }))
            .await;
        let events = json!({ "events": ["log.entryAdded"] });
        socket.call("session.subscribe", events).await;
        let tree = socket.call("browsingContext.getTree", json!({})).await;
        let first = tree["contexts"][0]["context"].as_str();
        Self {
            tab: RefCell::new(first.expect("Firefox has a page").to_owned()),
            viewport: Cell::new(viewport),
            socket: RefCell::new(socket),
            child,
            _profile: profile,
        }
    }

    fn tab(&self) -> String {
        self.tab.borrow().clone()
    }

    /// Replaces the tab by a new one. The Tab key can move the focus out of the page into Firefox
    /// itself, and the first page never has the focus. Without the focus no key presses a button; a
    /// new tab has it.
    async fn renew_tab(&self) {
        let new = self
            .call("browsingContext.create", json!({ "type": "tab" }))
            .await;
        let new = new["context"].as_str().expect("a tab").to_owned();
        let old = self.tab.replace(new.clone());
        self.call("browsingContext.close", json!({ "context": old }))
            .await;
        // While the old tab closes, the focus may still be on its way out of the page.
        self.call("browsingContext.activate", json!({ "context": new }))
            .await;
    }

    #[allow(
        clippy::await_holding_refcell_ref,
        reason = "one test drives one page, one call after the other"
    )]
    async fn call(&self, method: &str, params: Value) -> Value {
        self.socket.borrow_mut().call(method, params).await
    }
}

/// The address that Firefox prints once it listens.
fn address(child: &mut Child) -> String {
    let stderr = child.stderr.take().expect("stderr is piped");
    let (announce, announced) = mpsc::channel();
    // Reads to the end, because a full pipe would stop Firefox.
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once(LISTENING) {
                // The second time, nobody waits for the address any more.
                let _ = announce.send(address.trim().to_owned());
            }
        }
    });
    let address = announced.recv_timeout(START_TIMEOUT);
    address.expect("Firefox says where it listens")
}

impl Socket {
    /// Calls a command and returns its result. Messages that the page logs meanwhile are kept.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.commands += 1;
        let command = json!({ "id": self.commands, "method": method, "params": params });
        let message = Message::text(command.to_string());
        self.stream.send(message).await.expect("Firefox listens");
        loop {
            let answer = self.stream.next().await.expect("Firefox answers");
            let answer = answer.expect("Firefox answers");
            let Message::Text(text) = answer else {
                continue;
            };
            let answer: Value = serde_json::from_str(&text).expect("BiDi is JSON");
            if answer["method"] == "log.entryAdded" {
                self.note(&answer["params"]);
            } else if answer["id"] == self.commands {
                assert_eq!(answer["type"], "success", "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn note(&mut self, entry: &Value) {
        if entry["level"] == "error" || entry["level"] == "warn" {
            let text = entry["text"].as_str().unwrap_or_default();
            self.complaints.push(text.to_owned());
        }
    }
}

impl Page for Firefox {
    async fn goto(&self, url: &str) {
        self.renew_tab().await;
        let params = json!({ "context": self.tab(), "url": url, "wait": "complete" });
        self.call("browsingContext.navigate", params).await;
        let viewport = self.viewport.get();
        self.set_viewport(viewport).await;
        let (width, height) = viewport.size();
        let is_wide = format!("return innerWidth === {width} && innerHeight === {height};");
        self.wait_for("the size of the page", &is_wide).await;
    }

    async fn eval(&self, script: &str) -> Value {
        // The value is passed as JSON text, because BiDi's own form adds the type of each value.
        let expression = format!("JSON.stringify((() => {{ {script} }})() ?? null)");
        let params = json!({
            "expression": expression,
            "target": { "context": self.tab() },
            "awaitPromise": true,
        });
        let answer = self.call("script.evaluate", params).await;
        assert_eq!(answer["type"], "success", "{script}: {answer}");
        let text = answer["result"]["value"].as_str().unwrap_or("null");
        serde_json::from_str(text).expect("the page writes JSON")
    }

    async fn press(&self, key: &str) {
        // WebDriver's codes of keys that type no character.
        let value = match key {
            "Tab" => "\u{e004}",
            "Enter" => "\u{e006}",
            "Escape" => "\u{e00c}",
            typed => typed,
        };
        let actions = json!([
            { "type": "keyDown", "value": value }, { "type": "keyUp", "value": value },
        ]);
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        let params = json!({ "context": self.tab(), "actions": [keyboard] });
        self.call("input.performActions", params).await;
    }

    async fn set_viewport(&self, viewport: Viewport) {
        self.viewport.set(viewport);
        let (width, height) = viewport.size();
        let size = json!({ "width": width, "height": height });
        let params = json!({ "context": self.tab(), "viewport": size });
        self.call("browsingContext.setViewport", params).await;
    }

    async fn complaints(&self) -> Vec<String> {
        // Messages that were logged before arrive before the answer to this call.
        self.call("browsingContext.getTree", json!({})).await;
        std::mem::take(&mut self.socket.borrow_mut().complaints)
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        // Both fail only if Firefox has already ended. Its helper processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
