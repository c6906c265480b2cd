//! `--alert`: a message to a chat or a pager when memory became worse.

use super::CliError;
use super::labels::environment;
use crate::forge::{Status, Verdict};
use api::labels::Labels;
use clap::Args;
use serde::Serialize;
use std::time::Duration;
use ureq::http::Uri;

/// Where to send it.
#[derive(Args)]
pub struct AlertArgs {
    /// When it is a regression, post a JSON message to this address, such as a webhook of Slack or
    /// Mattermost, which show its `text`. Of use on the main branch. The address is a secret: it
    /// can be set as TIDEMARK_ALERT
    #[arg(long, value_name = "URL")]
    alert: Option<String>,
}

/// Somebody to tell.
pub struct Alert {
    address: String,
    host: String,
}

/// What is sent.
#[derive(Serialize)]
struct Message<'a> {
    text: String,
    outcome: &'static str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a str>,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    labels: &'a Labels,
}

impl AlertArgs {
    /// Whether the command line names an address.
    pub fn is_named(&self) -> bool {
        self.alert.is_some()
    }

    /// Whom to tell, if anybody. Asked before any work is done.
    ///
    /// # Errors
    /// [`CliError::Usage`]: no address of the web.
    pub fn alert(&self) -> Result<Option<Alert>, CliError> {
        let address = self.alert.clone().or_else(|| environment("TIDEMARK_ALERT"));
        let Some(address) = address.filter(|address| !address.is_empty()) else {
            return Ok(None);
        };
        // The address is not repeated: who knows it can post.
        let wrong = || CliError::Usage("--alert: expected https://HOST/…".to_owned());
        let uri: Uri = address.parse().map_err(|_| wrong())?;
        let host = uri.host().map(str::to_owned).ok_or_else(wrong)?;
        match uri.scheme_str() {
            Some("https" | "http") => Ok(Some(Alert { address, host })),
            _ => Err(wrong()),
        }
    }
}

impl Alert {
    /// Sends a message if it is a regression. Where that fails it is said on stderr, and changes no
    /// verdict: the command's exit status is about memory.
    pub fn send(&self, status: &Status, labels: &Labels) {
        if status.verdict != Verdict::Regression {
            return;
        }
        match self.try_send(status, labels) {
            Ok(()) => eprintln!("sent an alert to {}", self.host),
            Err(why) => eprintln!("cannot send an alert to {}: {why}", self.host),
        }
    }

    fn try_send(&self, status: &Status, labels: &Labels) -> Result<(), String> {
        let body = serde_json::to_vec(&message(status, labels)).expect("texts are plain data");
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(10)))
            .user_agent(concat!("tidemark/", env!("CARGO_PKG_VERSION")));
        let agent = config.build().new_agent();
        let post = agent.post(&self.address);
        let sent = post.header("content-type", "application/json").send(body);
        let answer = sent.map_err(|error| match error {
            // The others may hold the address.
            ureq::Error::Io(why) => why.to_string(),
            ureq::Error::HostNotFound => "there is no such host".to_owned(),
            ureq::Error::ConnectionFailed => "it does not answer".to_owned(),
            ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
            _ => "the request failed".to_owned(),
        })?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("it answered {status}")),
        }
    }
}

fn message<'a>(status: &'a Status, labels: &'a Labels) -> Message<'a> {
    let of = match labels.get("branch") {
        Some(branch) => format!(" on {branch}"),
        None => String::new(),
    };
    let link = status.link.as_deref();
    let more = link.map_or_else(String::new, |link| format!("\n{link}"));
    Message {
        text: format!("GPU memory became worse{of}: {}{more}", status.reason),
        outcome: "regression",
        reason: &status.reason,
        link,
        labels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_one_of_the_web() {
        let check = |address: &str, expected: Option<&str>| {
            let args = AlertArgs {
                alert: Some(address.to_owned()),
            };
            let host = args.alert().ok().map(|alert| alert.expect("one").host);
            assert_eq!(host.as_deref(), expected, "{address}");
        };
        check("https://hooks.example/T0/B0/secret", Some("hooks.example"));
        check("http://127.0.0.1:9/x", Some("127.0.0.1"));
        for wrong in [
            "hooks.example/x",
            "file:///etc/passwd",
            "https://",
            "ftp://a/b",
            "two words",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn the_message_says_where_what_and_how_to_see_it() {
        let status = Status {
            verdict: Verdict::Regression,
            reason: "the peak is 2.00 GiB higher".to_owned(),
            link: Some("http://box:7878/compare?run=a".to_owned()),
        };
        let labels = Labels::from([("branch".to_owned(), "main".to_owned())]);
        let message = serde_json::to_value(message(&status, &labels)).unwrap();
        let expected = serde_json::json!({
            "text": "GPU memory became worse on main: the peak is 2.00 GiB higher\n\
                     http://box:7878/compare?run=a",
            "outcome": "regression",
            "reason": "the peak is 2.00 GiB higher",
            "link": "http://box:7878/compare?run=a",
            "labels": { "branch": "main" },
        });
        assert_eq!(message, expected);
    }
}
