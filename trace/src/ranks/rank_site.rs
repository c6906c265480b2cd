//! What a site holds in one rank.

use crate::code;
use crate::compare::profile::{Place, SiteProfile};
use crate::oom::Asker;
use crate::site::SiteKey;
use crate::stacks::{Frame, StackIdx, Stacks};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// What a site holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankSite {
    /// The same in all ranks.
    pub id: String,
    /// The innermost line of the program, or the frame that a person would recognise; absent
    /// without a stack.
    pub place: Option<Place>,
    /// The outermost function of the program on the way to it, if that is another one.
    pub caller: Option<Place>,
    /// What the line called that asked for the memory: `mm`, or the innermost function of a
    /// framework.
    #[serde(default)]
    pub operation: Option<String>,
    /// Live bytes at the peak of *allocated*.
    pub at_peak: Bytes,
    /// Live bytes at the site's own highest moment.
    pub most: Bytes,
    /// Live after the last event.
    pub at_end: Bytes,
    /// How much its own peaks in settled steps differ, apart from their trend.
    pub wobble: Bytes,
    /// How much what it holds after the last event may differ from rank to rank: as much as it does
    /// from step to step, at their ends or at its own peaks in them, whichever is less.
    pub end_wobble: Bytes,
    /// Whether it is found to leak.
    pub leaks: bool,
}

impl RankSite {
    /// A site of a profile, called by this key.
    pub(super) fn of(key: SiteKey, site: &SiteProfile, stacks: &Stacks) -> RankSite {
        let asker = site.headline.map(|_| Asker::of(stacks, site.stack));
        let (place, operation) = asker.map_or((None, None), |asker| (asker.frame, asker.operation));
        let caller = place.and_then(|place| caller(stacks, site.stack, place));
        let told = |frame: Option<Frame>| frame.map(|frame| Place::of(stacks, frame));
        RankSite {
            id: key.id(),
            place: told(place),
            caller: told(caller),
            operation,
            at_peak: site.at_peak,
            most: site.peak,
            at_end: site.at_end,
            wobble: site.wobble,
            end_wobble: site.end_wobble.min(site.wobble),
            leaks: site.leaks,
        }
    }

    /// Adds a site that is the same one among all ranks. The place is that of the one that leaks,
    /// or holds most.
    pub(super) fn add(&mut self, more: RankSite) {
        let sum = |a: Bytes, b: Bytes| Bytes(a.0.saturating_add(b.0));
        let is_larger = (more.leaks, more.most) > (self.leaks, self.most);
        let (place, caller, operation) = match is_larger {
            true => (more.place, more.caller, more.operation),
            false => (self.place.take(), self.caller.take(), self.operation.take()),
        };
        *self = RankSite {
            id: std::mem::take(&mut self.id),
            place,
            caller,
            operation,
            at_peak: sum(self.at_peak, more.at_peak),
            most: self.most.max(more.most),
            at_end: sum(self.at_end, more.at_end),
            wobble: sum(self.wobble, more.wobble),
            end_wobble: sum(self.end_wobble, more.end_wobble),
            leaks: self.leaks || more.leaks,
        };
    }
}

/// The outermost function of the program in a stack, for a place in another function.
fn caller(stacks: &Stacks, stack: StackIdx, place: Frame) -> Option<Frame> {
    let frames = stacks.frames(stack).iter().rev();
    let mut frames = frames.map(|&frame| stacks.frame(frame));
    let outermost = frames.find(|frame| {
        let (name, file) = (stacks.str(frame.name), stacks.str(frame.filename));
        let is_package = code::is_installed(file) || code::is_framework(file, frame.line);
        code::is_python(file, frame.line) && !is_package && !name.starts_with('<')
    })?;
    ((outermost.name, outermost.filename) != (place.name, place.filename)).then_some(outermost)
}
