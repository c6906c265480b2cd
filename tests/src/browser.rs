//! A real browser with one page.

use std::fs;
use std::path::PathBuf;

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use crate::cdp::Command;
use crate::chromedriver::Chromedriver;
use crate::places;

/// Chromium without a screen, without a sandbox (tests may run as root in a container) and without
/// the network chatter that a fresh profile begins with.
const FLAGS: [&str; 8] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// The two sizes that every page must look right at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewport {
    /// 1440 × 900 CSS pixels.
    Desktop,
    /// 390 × 844 CSS pixels, two device pixels each.
    Phone,
}

/// What the page is told that the user prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Light,
    Dark,
}

/// A browser with one page; closed when dropped.
pub struct Browser {
    /// The page, for everything that has no method here.
    pub page: Client,
    _driver: Chromedriver,
}

impl Browser {
    /// Opens an empty page.
    pub async fn open(viewport: Viewport, theme: Theme) -> Self {
        let driver = Chromedriver::start();
        let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
        let chromium = places::program("CHROMIUM", &names);
        let capabilities = json!({
            "goog:chromeOptions": { "binary": chromium, "args": FLAGS },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let capabilities = capabilities.as_object().expect("just written").clone();
        let page = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&driver.url())
            .await
            .expect("Chromium starts");
        let browser = Self {
            page,
            _driver: driver,
        };
        browser.set_viewport(viewport).await;
        browser.set_theme(theme).await;
        browser
    }

    /// Loads `url`.
    pub async fn goto(&self, url: &str) {
        self.page.goto(url).await.expect("the page loads");
    }

    /// Gives the page another size. (A window cannot be made as narrow as a phone.)
    pub async fn set_viewport(&self, viewport: Viewport) {
        let (width, height, scale) = match viewport {
            Viewport::Desktop => (1440, 900, 1),
            Viewport::Phone => (390, 844, 2),
        };
        let mobile = viewport == Viewport::Phone;
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": scale, "mobile": mobile,
        });
        self.cdp("Emulation.setDeviceMetricsOverride", params).await;
    }

    /// Switches `prefers-color-scheme`.
    pub async fn set_theme(&self, theme: Theme) {
        let value = match theme {
            Theme::Light => "light",
            Theme::Dark => "dark",
        };
        let feature = json!({ "name": "prefers-color-scheme", "value": value });
        let params = json!({ "features": [feature] });
        self.cdp("Emulation.setEmulatedMedia", params).await;
    }

    /// Calls a method of the DevTools protocol.
    pub async fn cdp(&self, method: &'static str, params: Value) -> Value {
        let command = Command::Cdp { method, params };
        let answer = self.page.issue_cmd(command).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Runs `script` in the page; its `return` value.
    pub async fn eval(&self, script: &str) -> Value {
        let answer = self.page.execute(script, Vec::new()).await;
        answer.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Whether the page is wider than the screen. Not `innerWidth`: on a phone that grows with what
    /// is too wide.
    pub async fn scrolls_sideways(&self) -> bool {
        let script = "const page = document.documentElement;
                      return page.scrollWidth > page.clientWidth;";
        self.eval(script).await == Value::Bool(true)
    }

    /// What the page complained about since the last call: errors, refused requests, violations of
    /// the content security policy.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.page.issue_cmd(Command::TakeConsole).await;
        let log = log.expect("chromedriver keeps the console");
        let entries = log.as_array().into_iter().flatten();
        entries
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING")
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Saves what is to be seen as `target/screenshots/NAME.png`.
    pub async fn screenshot(&self, name: &str) -> PathBuf {
        let png = self.page.screenshot().await.expect("a picture");
        let dir = places::screenshots_dir();
        fs::create_dir_all(&dir).expect("a folder for the pictures");
        let path = dir.join(format!("{name}.png"));
        fs::write(&path, png).expect("the picture is saved");
        path
    }
}
