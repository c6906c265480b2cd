//! A real browser with one page.

use std::fs;
use std::path::PathBuf;

use base64::prelude::{BASE64_STANDARD, Engine};
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use crate::cdp::Command;
use crate::chromedriver::Chromedriver;
use crate::places;

/// Chromium without a screen, without a sandbox (tests may run as root in a container), and without
/// the network requests that a new profile makes first. Some machines without a screen report no
/// pointer that can hover, and then pages show more than people see. So these flags give it a
/// mouse.
const FLAGS: [&str; 12] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,\
     primaryPointerType=4,availablePointerTypes=4",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    // Scrollbars appear and vanish when a picture is taken, and that moves the page.
    "--hide-scrollbars",
];

/// The two sizes that every page must look right at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewport {
    /// 1440 × 900 CSS pixels.
    Desktop,
    /// 390 × 844 CSS pixels, two device pixels each.
    Phone,
}

impl Viewport {
    /// Width and height in CSS pixels.
    pub const fn size(self) -> (u32, u32) {
        match self {
            Viewport::Desktop => (1440, 900),
            Viewport::Phone => (390, 844),
        }
    }

    /// The name in file names.
    pub const fn name(self) -> &'static str {
        match self {
            Viewport::Desktop => "1440",
            Viewport::Phone => "390",
        }
    }
}

/// The user's preference of light or dark, as the page sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Theme {
    /// The name in style sheets and file names.
    pub const fn name(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }
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

    /// Gives the page another size. (A window of Chromium cannot be as narrow as a phone.)
    pub async fn set_viewport(&self, viewport: Viewport) {
        let (width, height) = viewport.size();
        let mobile = viewport == Viewport::Phone;
        let scale = if mobile { 2 } else { 1 };
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": scale, "mobile": mobile,
        });
        self.cdp("Emulation.setDeviceMetricsOverride", params).await;
    }

    /// [`Browser::set_viewport`] with one device pixel to each CSS pixel.
    pub async fn set_viewport_plain(&self, viewport: Viewport) {
        let (width, height) = viewport.size();
        let mobile = viewport == Viewport::Phone;
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile,
        });
        self.cdp("Emulation.setDeviceMetricsOverride", params).await;
    }

    /// Gives the page the focus, as a person does who clicks on its window.
    pub async fn focus(&self) {
        self.cdp("Page.bringToFront", json!({})).await;
    }

    /// Switches `prefers-color-scheme`.
    pub async fn set_theme(&self, theme: Theme) {
        let feature = json!({ "name": "prefers-color-scheme", "value": theme.name() });
        self.set_media(vec![feature]).await;
    }

    /// Switches `prefers-color-scheme` and asks for reduced motion, which pictures need.
    pub async fn set_still_theme(&self, theme: Theme) {
        let theme = json!({ "name": "prefers-color-scheme", "value": theme.name() });
        let motion = json!({ "name": "prefers-reduced-motion", "value": "reduce" });
        self.set_media(vec![theme, motion]).await;
    }

    async fn set_media(&self, features: Vec<Value>) {
        let params = json!({ "features": features });
        self.cdp("Emulation.setEmulatedMedia", params).await;
    }

    /// From now on, runs `script` in every new page, before the page's own scripts.
    pub async fn add_to_pages(&self, script: &str) {
        let params = json!({ "source": script });
        self.cdp("Page.addScriptToEvaluateOnNewDocument", params)
            .await;
    }

    /// Calls a method of the DevTools protocol.
    pub async fn cdp(&self, method: &'static str, params: Value) -> Value {
        let command = Command::Cdp { method, params };
        let answer = self.page.issue_cmd(command).await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Runs `script` in the page and returns its `return` value.
    pub async fn eval(&self, script: &str) -> Value {
        let answer = self.page.execute(script, Vec::new()).await;
        answer.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Waits until all changes are painted: transitions have ended, and two frames are drawn.
    pub async fn painted(&self) {
        let script = "const ends = a => Number.isFinite(a.effect.getComputedTiming().endTime);
            const ended = document.getAnimations().filter(ends).map(a => a.finished.catch(() => 0));
            const frame = () => new Promise(drawn => requestAnimationFrame(() => drawn(true)));
            return Promise.all(ended).then(frame).then(frame);";
        self.eval(script).await;
    }

    /// Whether the page is wider than the screen. `innerWidth` would not do: on a phone it grows
    /// with content that is too wide.
    pub async fn scrolls_sideways(&self) -> bool {
        let script = "const page = document.documentElement;
                      return page.scrollWidth > page.clientWidth;";
        self.eval(script).await == Value::Bool(true)
    }

    /// The parts that make the page wider than the screen: tag, classes and right edge of each.
    /// Empty if the page is not too wide.
    pub async fn too_wide(&self) -> Vec<String> {
        if !self.scrolls_sideways().await {
            return Vec::new();
        }
        let script = "const width = document.documentElement.clientWidth;
                      const all = [...document.querySelectorAll('body *')];
                      const wide = all.filter(e => e.getBoundingClientRect().right > width + 0.5);
                      return wide.map(e => `${e.tagName}.${e.getAttribute('class')} ` +
                                           `${e.getBoundingClientRect().right}`);";
        let wide = self.eval(script).await;
        let wide = wide.as_array().into_iter().flatten();
        wide.map(|one| one.as_str().unwrap_or_default().to_owned())
            .collect()
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

    /// A PNG picture of the whole page, including the part below the screen. While a dialog is
    /// open, only the screen, because the dialog is placed on the screen.
    pub async fn full_page(&self) -> Vec<u8> {
        let size = "const page = document.documentElement;
                    const whole = document.querySelector('dialog:modal') ? 0 : page.scrollHeight;
                    return [page.clientWidth, Math.max(whole, innerHeight)];";
        let size = self.eval(size).await;
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
        let params = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let answer = self.cdp("Page.captureScreenshot", params).await;
        let data = answer["data"].as_str().unwrap_or_default();
        BASE64_STANDARD.decode(data).expect("a picture in base64")
    }

    /// The version of this browser: `Chrome/156.0.8078.79`.
    pub async fn version(&self) -> String {
        let answer = self.cdp("Browser.getVersion", json!({})).await;
        answer["product"].as_str().unwrap_or_default().to_owned()
    }

    /// Saves a picture of the screen as `target/screenshots/NAME.png`.
    pub async fn screenshot(&self, name: &str) -> PathBuf {
        let png = self.page.screenshot().await.expect("a picture");
        let dir = places::screenshots_dir();
        fs::create_dir_all(&dir).expect("a folder for the pictures");
        let path = dir.join(format!("{name}.png"));
        fs::write(&path, png).expect("the picture is saved");
        path
    }
}
