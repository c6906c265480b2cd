//! Chromedriver's own commands, which are not in WebDriver.

use fantoccini::wd::WebDriverCompatibleCommand;
use http::Method;
use serde_json::{Value, json};
use url::{ParseError, Url};

/// A call of a DevTools method, or a read of a log.
#[derive(Debug)]
pub(crate) enum Command {
    /// Calls a DevTools method.
    Cdp { method: &'static str, params: Value },
    /// Takes everything that the page wrote to the console since the last time.
    TakeConsole,
}

impl WebDriverCompatibleCommand for Command {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        let path = match self {
            Self::Cdp { .. } => "goog/cdp/execute",
            Self::TakeConsole => "se/log",
        };
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/{path}"))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        let body = match self {
            Self::Cdp { method, params } => json!({ "cmd": method, "params": params }),
            Self::TakeConsole => json!({ "type": "browser" }),
        };
        (Method::POST, Some(body.to_string()))
    }
}
