//! What tells rows apart that are called alike.

use super::profile::Place;
use super::sites::{SiteDelta, SiteSide};
use crate::code;
use crate::units::Bytes;

/// What tells a row apart from others that are called alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart<'a> {
    /// Calls of its stack, of the program itself where there are such: the innermost one that no
    /// such row has, or two that no such row has both of.
    pub calls: Vec<&'a Place>,
    /// The size of its blocks, where calls do not tell it apart.
    pub size: Option<Bytes>,
}

impl Apart<'_> {
    /// In words: `in feed (model.py:7)`, `in feed (model.py:7), train (train.py:3)`.
    pub fn told(&self) -> String {
        let calls: Vec<String> = self.calls.iter().map(|call| call.told()).collect();
        let calls = match calls.is_empty() {
            true => String::new(),
            false => format!("in {}", calls.join(", ")),
        };
        match self.size {
            None => calls,
            Some(size) if calls.is_empty() => format!("of {size} each"),
            Some(size) => format!("{calls}, {size} each"),
        }
    }
}

impl SiteDelta {
    /// What tells the row apart from others that are called alike. `None` where no other row is
    /// called so, or where neither stacks nor sizes differ.
    pub fn apart<'a>(&'a self, sites: &'a [SiteDelta]) -> Option<Apart<'a>> {
        let named = self.place()?;
        let is_alike = |other: &&SiteDelta| other.id != self.id && other.place() == Some(named);
        let mut alike: Vec<&SiteDelta> = sites.iter().filter(is_alike).collect();
        let mut calls: Vec<&Place> = Vec::new();
        let all = alike.len();
        while !alike.is_empty() && calls.len() < MOST_CALLS {
            let last = calls.len() + 1 == MOST_CALLS;
            let Some(call) = self.call_unlike(&alike, &calls, last) else {
                break;
            };
            calls.push(call);
            alike.retain(|other| other.frames().contains(call));
        }
        if alike.len() == all {
            calls.clear();
        }
        let size = self.told().map(|side| side.size);
        let is_other = |other: &&SiteDelta| other.told().map(|side| side.size) != size;
        let size = size.filter(|_| !alike.is_empty() && alike.iter().any(is_other));
        let apart = Apart { calls, size };
        (apart.size.is_some() || !apart.calls.is_empty()).then_some(apart)
    }

    /// The innermost call that none of these rows has, of the program itself if there is one.
    /// Without one, the program's innermost call, where another may follow it.
    fn call_unlike(&self, alike: &[&SiteDelta], told: &[&Place], is_last: bool) -> Option<&Place> {
        let named = self.place();
        let is_new =
            |frame: &&Place| frame.line > 0 && Some(*frame) != named && !told.contains(frame);
        let shared = |frame: &Place| {
            let having = alike.iter().filter(|row| row.frames().contains(frame));
            having.count()
        };
        let own = |frame: &&Place| !code::is_framework(&frame.filename, frame.line);
        let frames = || self.frames().iter().filter(is_new);
        let mut unlike = frames().filter(|frame| shared(frame) == 0);
        let found = unlike.clone().find(own).or_else(|| unlike.next());
        let mut differing = frames().filter(|frame| shared(frame) < alike.len());
        match is_last {
            true => found.or_else(|| differing.find(own)),
            false => found.or_else(|| frames().find(own)),
        }
    }

    /// The stack of the side that is told, innermost first.
    fn frames(&self) -> &[Place] {
        self.told().map_or(&[], |side: &SiteSide| &side.frames)
    }
}

/// More calls than these nobody reads.
const MOST_CALLS: usize = 2;

#[cfg(test)]
mod tests {
    use super::super::sites::{Matched, SiteChange};
    use super::*;

    fn row(id: &str, size: u64, frames: &[(&str, &str, u32)]) -> SiteDelta {
        let place = |&(name, file, line): &(&str, &str, u32)| Place {
            name: name.to_owned(),
            filename: file.to_owned(),
            line,
        };
        let frames: Vec<Place> = frames.iter().map(place).collect();
        SiteDelta {
            id: id.to_owned(),
            change: SiteChange::New,
            matched: Matched::Alone,
            peak: 0,
            at_peak: 0,
            at_end: 0,
            growth: 0.0,
            base: None,
            new: Some(SiteSide {
                stack: 0,
                place: frames.first().cloned(),
                frames,
                count: 1,
                made: Bytes::mib(size),
                peak: Bytes::mib(size),
                at_peak: Bytes::ZERO,
                at_end: Bytes::ZERO,
                growth: 0.0,
                leaks: false,
                size: Bytes::mib(size),
            }),
        }
    }

    const LINEAR: (&str, &str, u32) = ("forward", "/v/site-packages/torch/nn/linear.py", 134);
    const FEED: (&str, &str, u32) = ("feed", "/app/model.py", 36);
    const QKV: (&str, &str, u32) = ("qkv", "/app/model.py", 23);
    const AGAIN: (&str, &str, u32) = ("again", "/v/site-packages/torch/utils/checkpoint.py", 9);
    const STEP: (&str, &str, u32) = ("step", "/app/train.py", 3);

    #[test]
    fn rows_that_are_called_alike_are_told_apart() {
        let check = |rows: &[SiteDelta], expected: &[Option<&str>]| {
            let told = rows.iter().map(|row| Some(row.apart(rows)?.told()));
            let told: Vec<Option<String>> = told.collect();
            let told: Vec<Option<&str>> = told.iter().map(Option::as_deref).collect();
            assert_eq!(told, expected);
        };
        let feed = row("a", 4, &[LINEAR, FEED, STEP]);
        let qkv = row("b", 4, &[LINEAR, QKV, STEP]);
        let (in_feed, in_qkv) = (Some("in feed (model.py:36)"), Some("in qkv (model.py:23)"));
        check(std::slice::from_ref(&feed), &[None]);
        check(&[feed.clone(), qkv.clone()], &[in_feed, in_qkv]);
        // The same calls again, by a checkpoint: the rows without it have no call of their own.
        let again = [
            row("c", 4, &[LINEAR, FEED, AGAIN, STEP]),
            row("d", 4, &[LINEAR, QKV, AGAIN, STEP]),
        ];
        let all = [vec![feed.clone(), qkv], again.to_vec()].concat();
        check(
            &all,
            &[
                in_feed,
                in_qkv,
                Some("in feed (model.py:36), again (checkpoint.py:9)"),
                Some("in qkv (model.py:23), again (checkpoint.py:9)"),
            ],
        );
        // One stack, and functions that are not in it.
        let (small, large) = (row("e", 1, &[LINEAR]), row("f", 4, &[LINEAR]));
        let sizes = [Some("of 1.00 MiB each"), Some("of 4.00 MiB each")];
        check(&[small, large.clone()], &sizes);
        check(&[large.clone(), row("g", 4, &[LINEAR])], &[None, None]);
    }
}
