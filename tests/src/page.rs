//! Actions of the tests on a page, in any browser.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::{Browser, Viewport};

/// The script that finds elements that a person cannot see or reach.
const SIGHT: &str = include_str!("sight.js");

/// The script that stops all motion on a page.
const STILL: &str = include_str!("still.js");

/// Most presses of the Tab key before the focus must have been everywhere.
const MOST_TABS: usize = 1500;

/// Presses of the key between two checks of where the focus is.
const TABS_AT_ONCE: usize = 8;

/// How long a page may take to answer a key.
const SOON: Duration = Duration::from_secs(5);

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page in a browser.
#[allow(async_fn_in_trait, reason = "tests await these where they call them")]
pub trait Page {
    /// Loads `url`.
    async fn goto(&self, url: &str);

    /// Runs `script` in the page and returns its `return` value.
    async fn eval(&self, script: &str) -> Value;

    /// Presses and releases a key, as the keyboard does.
    async fn press(&self, key: &str);

    /// Gives the page another size.
    async fn set_viewport(&self, viewport: Viewport);

    /// What the page complained about since the last call.
    async fn complaints(&self) -> Vec<String>;

    /// Whether `script` returns true within a few seconds.
    async fn is_soon(&self, script: &str) -> bool {
        let started = Instant::now();
        while started.elapsed() < SOON {
            if self.eval(script).await == Value::Bool(true) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }

    /// Waits until `script` returns true. The message of a failure says that `what` is missing.
    async fn wait_for(&self, what: &str, script: &str) {
        let started = Instant::now();
        while self.eval(script).await != Value::Bool(true) {
            if started.elapsed() > PATIENCE {
                let seen = self.eval("return document.body.innerText;").await;
                panic!("{what}: not in {PATIENCE:?}; the page says: {seen}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops all motion on the open page, and prevents new motion.
    async fn hold_still(&self) {
        self.eval(&format!("{STILL}; return null;")).await;
    }

    /// Faults of the page's interactive elements, one line each: as a person sees them with the
    /// mouse at rest, and as the Tab key reaches them.
    async fn out_of_sight(&self) -> Vec<String> {
        self.hold_still().await;
        self.eval(&format!("{SIGHT}; return null;")).await;
        let seen = self.eval("return sight.findings();").await;
        self.eval("sight.watchFocus(); return null;").await;
        let mut pressed = 0;
        while pressed < MOST_TABS
            && self.eval("return sight.isRound();").await == Value::Bool(false)
        {
            for _ in 0..TABS_AT_ONCE {
                self.press("Tab").await;
            }
            pressed += TABS_AT_ONCE;
        }
        let reached = self.eval("return sight.focusFindings();").await;
        let lines = [seen, reached];
        let lines = lines.iter().filter_map(Value::as_array).flatten();
        lines
            .map(|line| line.as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

impl Page for Browser {
    async fn goto(&self, url: &str) {
        Browser::goto(self, url).await;
    }

    async fn eval(&self, script: &str) -> Value {
        Browser::eval(self, script).await
    }

    async fn press(&self, key: &str) {
        Browser::press(self, key).await;
    }

    async fn set_viewport(&self, viewport: Viewport) {
        Browser::set_viewport(self, viewport).await;
    }

    async fn complaints(&self) -> Vec<String> {
        Browser::complaints(self).await
    }
}
