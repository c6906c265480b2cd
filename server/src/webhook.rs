//! Messages to a chat or a pager: JSON to an address that somebody gave for it.

use std::time::Duration;
use ureq::http::Uri;

/// How long an address may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// An address that takes messages, such as a webhook of Slack or Mattermost. Whoever knows it can
/// post there, so it is never printed.
#[derive(Clone)]
pub struct Webhook {
    address: String,
    host: String,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Webhook").field(&self.host).finish()
    }
}

impl Webhook {
    /// An address of the web; `None` for other texts.
    pub fn at(address: &str) -> Option<Webhook> {
        let uri: Uri = address.parse().ok()?;
        let host = uri.host()?.to_owned();
        matches!(uri.scheme_str(), Some("https" | "http")).then(|| Webhook {
            address: address.to_owned(),
            host,
        })
    }

    /// Its host, which may be printed.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Posts a JSON document. Must be called on a blocking thread.
    ///
    /// # Errors
    /// Why it did not arrive, in words without the address.
    pub fn post(&self, json: &[u8]) -> Result<(), String> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("tidemark/", env!("CARGO_PKG_VERSION")));
        let agent = config.build().new_agent();
        let post = agent.post(&self.address);
        let sent = post.header("content-type", "application/json").send(json);
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

/// A text that somebody else chose (a name, a branch, a path), for a message in a chat. There it
/// could begin a link, show a picture, or call everybody: Slack and its like write these with `<`
/// and ask for three characters to be written otherwise; Mattermost and Discord read Markdown and
/// `@all`. Nothing is left out, but a space without width parts what would be read as an order.
pub fn inert(text: &str) -> String {
    const APART: &str = "\u{200b}";
    let text = text.replace('&', "&amp;");
    let text = text.replace('<', "&lt;").replace('>', "&gt;");
    let parted = ["@", "](", "://"].map(|order| {
        let (first, rest) = order.split_at(1);
        (order, [first, APART, rest].concat())
    });
    let parted = parted.iter();
    parted.fold(text, |text, (order, parted)| text.replace(order, parted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_one_of_the_web_and_is_never_printed() {
        let check = |address: &str, expected: Option<&str>| {
            let found = Webhook::at(address);
            let host = found.as_ref().map(Webhook::host);
            assert_eq!(host, expected, "{address}");
            assert!(!format!("{found:?}").contains("secret"));
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
    fn a_chat_takes_no_orders_from_a_name() {
        let check = |text: &str, expected: &str| assert_eq!(inert(text), expected);
        check("run 7", "run 7");
        check("<!channel> a", "&lt;!channel&gt; a");
        check("<mailto:a|the run>", "&lt;mailto:a|the run&gt;");
        check("a &lt; b", "a &amp;lt; b");
        check("@all look", "@\u{200b}all look");
        check("[the run](evil)", "[the run]\u{200b}(evil)");
        check("https://evil.example", "https:\u{200b}//evil.example");
        check("train.py:7 in f (4.00 MiB)", "train.py:7 in f (4.00 MiB)");
    }
}
