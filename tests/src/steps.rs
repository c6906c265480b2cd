//! What a person does on a page and waits for: the steps that the tests of all pages share.

use std::time::{Duration, Instant};

use fantoccini::Locator;
use serde_json::{Value, json};

use crate::browser::Browser;

impl Browser {
    /// Waits until `script` returns true, at most a minute. The message of a failure says that
    /// `what` is missing.
    pub async fn wait_until(&self, what: &str, script: &str) {
        self.wait_within(Duration::from_secs(60), what, script)
            .await;
    }

    /// [`Browser::wait_until`] with another time limit.
    pub async fn wait_within(&self, limit: Duration, what: &str, script: &str) {
        let started = Instant::now();
        while self.eval(script).await != Value::Bool(true) {
            if started.elapsed() > limit {
                let seen = self.screenshot("stuck").await;
                panic!("{what}: not in {limit:?}; see {}", seen.display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The text that a reader sees in the first element that the selector finds; empty if there is
    /// none.
    pub async fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector('{selector}')?.innerText ?? '';");
        let text = self.eval(&script).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Clicks the first element that `selector` finds, once it is there. It scrolls to the element
    /// first, as a person does; the page's `scroll-padding` keeps the element from being behind the
    /// header.
    pub async fn click(&self, selector: &str) {
        let element = self.page.wait().for_element(Locator::Css(selector)).await;
        let element = element.unwrap_or_else(|error| panic!("no {selector}: {error}"));
        let scrolls = "document.querySelector(SELECTOR).scrollIntoView({block: 'nearest'});";
        self.eval(&scrolls.replace("SELECTOR", &format!("{selector:?}")))
            .await;
        let clicked = element.click().await;
        clicked.unwrap_or_else(|error| panic!("{selector}: {error}"));
    }

    /// Presses and releases a key; a key of one character also types it.
    pub async fn press(&self, key: &str) {
        // For keys that the browser itself handles, it uses the key's number.
        let number = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": number });
        match key {
            "Enter" => down["text"] = json!("\r"),
            _ if key.len() == 1 => down["text"] = json!(key),
            _ => {}
        }
        self.cdp("Input.dispatchKeyEvent", down).await;
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": number });
        self.cdp("Input.dispatchKeyEvent", up).await;
    }

    /// Number of pixels of a canvas that do not have its most frequent colour.
    pub async fn painted_pixels(&self, canvas: &str) -> u64 {
        let script = format!(
            "const canvas = document.querySelector('{canvas}');
             const [width, height] = [canvas.width, canvas.height];
             const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
             const counts = new Map();
             for (const pixel of new Uint32Array(data.buffer)) {{
                 counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
             }}
             return data.length / 4 - Math.max(...counts.values());"
        );
        let pixels = self.eval(&script).await;
        pixels.as_f64().expect("a number of pixels") as u64
    }
}
