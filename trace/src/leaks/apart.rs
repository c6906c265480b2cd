//! What tells leaks apart that are named by one line of the program.

use super::report::LeakReport;
use crate::site::{SiteKey, is_module_call, is_python};
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks, StrIdx};

impl LeakReport {
    /// For each group, the innermost Python frame that it has and others do not that are named by
    /// the same frame. `None` where no other is named so, or where nothing differs.
    pub fn told_apart(&self, stacks: &Stacks) -> Vec<Option<Frame>> {
        let mut named: FxHashMap<Frame, Named> = FxHashMap::default();
        for group in &self.groups {
            let Some(name) = group.frame else { continue };
            let named = named.entry(name).or_insert_with(|| Named::of(group.site));
            named.sites.add(group.site);
            for function in python(stacks, group.stack).map(function) {
                let sites = named.functions.entry(function);
                sites.or_insert(Sites::One(group.site)).add(group.site);
            }
        }
        let groups = self.groups.iter().map(|group| {
            let name = group.frame?;
            let named = named.get(&name)?;
            if named.sites != Sites::Several {
                return None;
            }
            let is_own = |frame: &Frame| {
                named.functions.get(&function(*frame)) == Some(&Sites::One(group.site))
            };
            // Others may be called by what this one is made in.
            let innermost = || python(stacks, group.stack).next();
            let found = python(stacks, group.stack).find(is_own).or_else(innermost);
            found.filter(|frame| *frame != name)
        });
        groups.collect()
    }
}

/// The leaks that are named by one frame.
struct Named {
    sites: Sites,
    /// For each function of their stacks, which of them have it.
    functions: FxHashMap<(StrIdx, StrIdx), Sites>,
}

impl Named {
    fn of(site: SiteKey) -> Named {
        Named {
            sites: Sites::One(site),
            functions: FxHashMap::default(),
        }
    }
}

/// Whether something is of one site only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sites {
    One(SiteKey),
    Several,
}

impl Sites {
    fn add(&mut self, site: SiteKey) {
        if *self != Sites::One(site) {
            *self = Sites::Several;
        }
    }
}

/// The frames of functions, innermost first, without PyTorch's wrappers of modules.
fn python(stacks: &Stacks, stack: StackIdx) -> impl Iterator<Item = Frame> + '_ {
    let frames = stacks.frames(stack).iter();
    let frames = frames.map(|&frame| stacks.frame(frame));
    frames.filter(|&frame| is_python(stacks, frame) && !is_module_call(stacks, frame))
}

fn function(frame: Frame) -> (StrIdx, StrIdx) {
    (frame.filename, frame.name)
}
