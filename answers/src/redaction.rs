//! What redaction would change in a run, before a link is made.

use api::ids::RunId;
use api::shares::{RedactedText, RedactionPreview, nameless};
use trace::redact::{self, Key, What};
use trace::trace::Trace;

/// How many examples of each kind of text a preview has.
const EXAMPLES: usize = 4;

/// What a redacted link would show of this run. Each link has its own stand-ins: those of this key
/// are only examples.
pub fn preview(trace: &Trace, run: &RunId, name: String, key: Key) -> RedactionPreview {
    let changes = redact::changes(trace, key, EXAMPLES);
    let name = RedactedText {
        what: "name".to_owned(),
        before: name,
        after: nameless(run),
    };
    let examples = changes.examples.into_iter().map(|change| RedactedText {
        what: what_name(change.what).to_owned(),
        before: change.before,
        after: change.after,
    });
    RedactionPreview {
        examples: std::iter::once(name).chain(examples).collect(),
        changed: u32::try_from(changes.count + 1).unwrap_or(u32::MAX),
    }
}

fn what_name(what: What) -> &'static str {
    match what {
        What::File => "file",
        What::Function => "function",
        What::Scope => "scope",
        What::Step => "step",
        What::Metadata => "metadata",
        What::Setting => "setting",
        What::Finding => "finding",
    }
}
