//! `--alert`: a message to a chat or a pager when memory became worse.

use super::CliError;
use super::labels::environment;
use super::output::tell;
use crate::forge::{Status, Verdict};
use crate::webhook::{Webhook, inert};
use api::labels::Labels;
use clap::Args;
use serde::Serialize;

/// Where to send it.
#[derive(Args)]
pub struct AlertArgs {
    /// When it is a regression, post a JSON message to this address, such as a webhook of Slack or
    /// Mattermost, which show its `text`. Of use on the main branch. The address is a secret: it
    /// can be set as TIDEMARK_ALERT
    #[arg(long, value_name = "URL")]
    alert: Option<String>,
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

/// Somebody to tell.
pub struct Alert(Webhook);

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
        Ok(webhook(address.as_deref())?.map(Alert))
    }
}

/// The address that is named, if any; an empty one is none.
///
/// # Errors
/// [`CliError::Usage`]: no address of the web.
pub fn webhook(address: Option<&str>) -> Result<Option<Webhook>, CliError> {
    // The address is not repeated: who knows it can post.
    let wrong = || CliError::Usage("--alert: expected https://HOST/…".to_owned());
    match address {
        None | Some("") => Ok(None),
        Some(address) => Webhook::at(address).map(Some).ok_or_else(wrong),
    }
}

impl Alert {
    /// Sends a message if it is a regression. Where that fails it is said on stderr, and changes no
    /// verdict: the command's exit status is about memory.
    pub fn send(&self, status: &Status, labels: &Labels) {
        if status.verdict != Verdict::Regression {
            return;
        }
        let Alert(webhook) = self;
        let json = serde_json::to_vec(&message(status, labels)).expect("texts are plain data");
        match webhook.post(&json) {
            Ok(()) => tell(&format!("sent an alert to {}", webhook.host())),
            Err(why) => tell(&format!(
                "cannot send an alert to {}: {why}",
                webhook.host()
            )),
        }
    }
}

fn message<'a>(status: &'a Status, labels: &'a Labels) -> Message<'a> {
    let of = match labels.get("branch") {
        Some(branch) => format!(" on {}", inert(branch)),
        None => String::new(),
    };
    let link = status.link.as_deref();
    let more = link.map_or_else(String::new, |link| format!("\n{link}"));
    Message {
        text: format!(
            "GPU memory became worse{of}: {}{more}",
            inert(&status.reason)
        ),
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
