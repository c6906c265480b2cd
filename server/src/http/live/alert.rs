//! Tells a chat what to look at in a training, once for each kind of concern.

use crate::limits::work::background;
use crate::live::Warning;
use crate::store::{StoreResult, Writer};
use crate::webhook::{Webhook, inert};
use api::ids::LiveId;
use api::labels::Labels;
use api::live::LiveRun;
use serde::Serialize;
use tokio::sync::Semaphore;

/// Messages on their way. Further ones are dropped: a chat is no place for a hundred at once.
static SENDING: Semaphore = Semaphore::const_new(4);

/// What is sent.
#[derive(Serialize)]
struct Message<'a> {
    text: String,
    outcome: &'static str,
    reason: &'a str,
    link: &'a str,
    labels: &'a Labels,
}

/// The sentences that nobody was told yet. All ranks of a training count as one, so that many
/// ranks that leak alike are one message.
pub fn untold(
    writer: &mut Writer,
    live: &LiveId,
    warnings: Vec<Warning>,
) -> StoreResult<Vec<String>> {
    let mut new = Vec::new();
    for Warning { concern, said } in warnings {
        if writer.tell_live(live, concern)? {
            new.push(said);
        }
    }
    Ok(new)
}

/// Sends these sentences about a training, whose page is `link`. Nobody waits for it.
pub fn send(webhook: &Webhook, run: &LiveRun, said: &[String], link: &str) {
    let reason = said.join(" ");
    let json = message(run, &reason, link);
    let Ok(place) = SENDING.try_acquire() else {
        tracing::warn!(live = %run.id, "too many alerts at once; this one is not sent");
        return;
    };
    let (webhook, live) = (webhook.clone(), run.id.clone());
    let sending = background(move || {
        let _place = place;
        match webhook.post(&json) {
            Ok(()) => tracing::info!(%live, to = webhook.host(), "sent an alert"),
            Err(why) => tracing::warn!(%live, to = webhook.host(), why, "cannot send an alert"),
        }
    });
    drop(sending);
}

fn message(run: &LiveRun, reason: &str, link: &str) -> Vec<u8> {
    let rank = run
        .rank
        .map_or(String::new(), |rank| format!(", rank {rank}"));
    let (name, said) = (inert(&run.name), inert(reason));
    let message = Message {
        text: format!("{name}{rank}: {said}\n{link}"),
        outcome: "live",
        reason,
        link,
        labels: &run.labels,
    };
    serde_json::to_vec(&message).expect("texts are plain data")
}
