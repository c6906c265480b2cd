//! Sites of which one line keeps and another one collects.
//!
//! A site is a call shape: functions without lines. If a function makes what a list keeps for an
//! epoch, and on another line what is kept for good, both are one site. What is given back at many
//! ages looks like garbage collection, and its patience hides what the other line keeps. So such a
//! site is judged again, line by line. What a line keeps must be older than anything that the whole
//! site gave back.

use super::beside::{Beside, add};
use super::excuse::Excuses;
use super::judge::{self, Finding};
use super::report::LeakGroup;
use super::survivors::Survey;
use super::thresholds::MIN_BYTES;
use super::view::View;
use crate::fingerprint::Fingerprint;
use crate::site::{SiteKey, Sites, is_module_call, is_python};
use crate::stacks::{FxHashMap, StackIdx, Stacks};
use crate::watch::Stopped;

/// The lines that leak, of sites that are not judged to grow. The levels of other lines of these
/// sites are added to those of `beside` that give back everything now and then.
///
/// # Errors
/// [`Stopped`].
pub fn find(view: &View<'_>, beside: &mut Beside) -> Result<Vec<LeakGroup>, Stopped> {
    let kept = &view.survey.kept;
    let mut mixed = vec![false; kept.len()];
    for (site, kept) in kept.iter().enumerate() {
        view.watch.at_row(site, || 0)?;
        mixed[site] = kept
            .as_deref()
            .is_some_and(|kept| match judge::judge(kept, view.survey) {
                Finding::Bounded => judge::is_mixed(kept),
                Finding::TooFew(_) => judge::is_mixed(kept) || judge::is_filling(kept),
                Finding::Grows(_) => judge::is_filling(kept),
            });
    }
    if !mixed.contains(&true) {
        return Ok(Vec::new());
    }
    let lines = Lines::of(view, &mixed)?;
    let survey = Survey::new(&view.device.blocks, &lines.sites, view.ends, 0, view.watch)?;
    let by_line = View {
        sites: &lines.sites,
        survey: &survey,
        ..*view
    };
    let excuses = Excuses::new(&by_line);
    let mut grown = Vec::new();
    for (line, &site) in lines.site_of.iter().enumerate() {
        view.watch.look(0)?;
        // The first holds all other sites.
        let both = survey.kept[line].as_deref().zip(kept[site].as_deref());
        let Some((own, all)) = both.filter(|_| line > 0) else {
            continue;
        };
        match judge::of_line(own, all, view.survey) {
            Some(growth) if !judge::is_filling(own) && excuses.of(line, &growth).is_none() => {
                grown.push((line, growth));
            }
            _ if judge::is_emptied(own) => {
                // The young blocks of its site are among them already.
                let old = own.live.iter().zip(&own.new_bytes);
                let old: Vec<u64> = old.map(|(all, new)| all.saturating_sub(*new)).collect();
                add(&mut beside.emptied, &old);
            }
            _ => {}
        }
    }
    let at_once: f64 = grown
        .iter()
        .map(|(_, growth)| growth.bytes_per_growth)
        .sum();
    if at_once < MIN_BYTES.0 as f64 {
        return Ok(Vec::new());
    }
    let mut groups = by_line.groups(&grown)?;
    for (group, (line, _)) in groups.iter_mut().zip(&grown) {
        group.lines = Some(stacks_of(view, &lines.sites, *line));
    }
    Ok(groups)
}

/// The stacks of what one of some sites makes, ascending.
pub(super) fn stacks_of(view: &View<'_>, sites: &Sites, site: usize) -> Vec<StackIdx> {
    let kinds = view.device.blocks.kinds.iter().zip(&sites.of_kind);
    let own = kinds.filter(|(_, at)| **at as usize == site);
    let mut stacks: Vec<StackIdx> = own.map(|(kind, _)| kind.alloc_stack).collect();
    stacks.sort_unstable();
    stacks.dedup();
    stacks
}

/// The lines of some sites.
pub(super) struct Lines {
    /// Each line as a site, under the key of its shape. The first holds all other sites, and must
    /// not be judged.
    pub(super) sites: Sites,
    /// The site of each.
    pub(super) site_of: Vec<usize>,
}

impl Lines {
    pub(super) fn of(view: &View<'_>, mixed: &[bool]) -> Result<Lines, Stopped> {
        let mut lines = Lines {
            sites: Sites {
                of_kind: Vec::new(),
                keys: vec![SiteKey::Shape(0)],
                stacks: vec![StackIdx::NONE],
            },
            site_of: vec![0],
        };
        let mut known: FxHashMap<(u32, u64), u32> = FxHashMap::default();
        let mut hashes: FxHashMap<StackIdx, u64> = FxHashMap::default();
        let kinds = view.device.blocks.kinds.iter().zip(&view.sites.of_kind);
        for (at, (kind, &site)) in kinds.enumerate() {
            view.watch.at_row(at, || 0)?;
            if !mixed[site as usize] {
                lines.sites.of_kind.push(0);
                continue;
            }
            let stack = kind.alloc_stack;
            let hash = hashes.entry(stack);
            let hash = *hash.or_insert_with(|| hash_of(view.stacks, stack));
            let line = *known.entry((site, hash)).or_insert_with(|| {
                lines.sites.keys.push(view.sites.keys[site as usize]);
                lines.sites.stacks.push(stack);
                lines.site_of.push(site as usize);
                (lines.site_of.len() - 1) as u32
            });
            lines.sites.of_kind.push(line);
        }
        Ok(lines)
    }
}

/// The Python frames of a stack with their lines, as a hash.
fn hash_of(stacks: &Stacks, stack: StackIdx) -> u64 {
    let frames = stacks.frames(stack).iter();
    let python = frames.filter(|frame| {
        let frame = stacks.frame(**frame);
        is_python(stacks, frame) && !is_module_call(stacks, frame)
    });
    python.fold(0, |hash, frame| {
        let hash = Fingerprint::default().number(hash);
        hash.number(frame.index() as u64).key()
    })
}
