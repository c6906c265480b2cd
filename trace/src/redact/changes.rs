//! Shows what redaction will change, before a link is made.

use super::{Key, names, note};
use crate::stacks::fx_hash;
use crate::trace::{DeviceTrace, Trace};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// The file of a frame.
    File,
    /// The function of a frame.
    Function,
    /// A named scope.
    Scope,
    /// The name of a step.
    Step,
    /// Metadata or compile context.
    Metadata,
    /// An allocator setting.
    Setting,
    /// A finding about the data.
    Finding,
}

/// A text that redaction changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// What it is.
    pub what: What,
    /// As it is.
    pub before: String,
    /// As it will be.
    pub after: String,
}

/// What redaction changes: how many texts, and the first few of each kind.
#[derive(Debug)]
pub struct Changes {
    /// How many distinct texts.
    pub count: usize,
    /// The first ones of each kind, in order.
    pub examples: BTreeSet<Change>,
}

/// The texts so far. Hostile texts may be long, so only their hashes are all kept.
struct Found {
    most: usize,
    known: HashSet<u64>,
    examples: BTreeMap<What, BTreeSet<(String, String)>>,
}

impl Found {
    fn add(&mut self, what: What, before: &str, after: &str) {
        if before == after || !self.known.insert(fx_hash(&(what, before, after))) {
            return;
        }
        let examples = self.examples.entry(what).or_default();
        examples.insert((before.to_owned(), after.to_owned()));
        if examples.len() > self.most {
            examples.pop_last();
        }
    }
}

/// The distinct texts that [`super::trace`] changes with this key; examples are limited to `most`
/// of each kind.
pub fn changes(trace: &Trace, key: Key, most: usize) -> Changes {
    let mut found = Found {
        most,
        known: HashSet::new(),
        examples: BTreeMap::new(),
    };
    for frame in trace.stacks.all_frames() {
        let [file, name] = [frame.filename, frame.name].map(|text| trace.stacks.str(text));
        found.add(What::File, file, &key.file(file));
        found.add(What::Function, name, &key.function(name, file));
    }
    for device in trace.with_pinned() {
        of_device(trace, device, key, &mut found);
    }
    for (name, value) in &trace.format.settings {
        let (shown, told) = key.setting(name, value);
        let after = format!("{shown}: {told}");
        found.add(What::Setting, &format!("{name}: {value}"), &after);
    }
    for finding in &trace.quality {
        found.add(What::Finding, &finding.detail, &note(finding).detail);
    }
    let examples = found.examples.into_iter();
    let examples = examples.flat_map(|(what, texts)| {
        let change = move |(before, after)| Change {
            what,
            before,
            after,
        };
        texts.into_iter().map(change)
    });
    Changes {
        count: found.known.len(),
        examples: examples.collect(),
    }
}

fn of_device(trace: &Trace, device: &DeviceTrace, key: Key, found: &mut Found) {
    let text = |string| trace.stacks.str(string);
    for scope in &device.annotations {
        let name = text(scope.name);
        found.add(What::Scope, name, &key.scope(name));
    }
    for step in &device.steps {
        found.add(What::Step, &step.name, &names::step(step));
    }
    let contexts = device.blocks.kinds.iter();
    for context in contexts.filter_map(|kind| kind.compile_context).map(text) {
        found.add(What::Metadata, context, &key.context(context));
    }
    let of_blocks = device.blocks.kinds.iter().map(|kind| kind.metadata);
    let of_events = device.events.others.iter().map(|other| other.metadata);
    for metadata in of_blocks.chain(of_events).flatten().map(text) {
        found.add(What::Metadata, metadata, &key.metadata(metadata));
    }
}
