//! Lines of a site that grows which are bounded: a queue beside the leak.
//!
//! A site is a shape of calls, not a line, so a function that fills a queue on one line, and keeps
//! something for good on another, is one site. It grows, but the queue does not: what is alive of
//! it at the end is no part of the leak, is not named for it, and stays where the leak is mended.
//! Only a line that shows its bound is left out, and only if the other lines grow without it.

use super::beside::{Beside, add};
use super::excuse::Excuses;
use super::judge::{self, Finding, Growth};
use super::lines::{Lines, stacks_of};
use super::report::LeakGroup;
use super::survivors::{Kept, Survey};
use super::view::View;
use crate::site::{SiteKey, Sites};
use crate::stacks::StackIdx;
use crate::watch::Stopped;

/// Sites that grow, without their lines that are bounded.
pub(super) struct Unbounded {
    /// The sites, at their positions, and last the bounded lines of all of them, not to be judged.
    sites: Sites,
    survey: Survey,
    /// The sites that have bounded lines.
    parted: Vec<usize>,
}

impl Unbounded {
    /// Looks for bounded lines of these sites, and makes their growth that of the other lines,
    /// if that is slower. `None` if there are none.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(super) fn of(
        view: &View<'_>,
        grown: &mut [(usize, Growth)],
    ) -> Result<Option<Unbounded>, Stopped> {
        let mut parted = vec![false; view.sites.keys.len()];
        for (site, _) in &*grown {
            let kept = view.survey.kept[*site].as_deref();
            let has_stack = matches!(view.sites.keys[*site], SiteKey::Shape(_));
            parted[*site] = has_stack && kept.is_some_and(judge::gives_back_its_own);
        }
        let Some(bounded) = bounded_kinds(view, &mut parted)? else {
            return Ok(None);
        };
        let mut without = Unbounded::without(view, &bounded, &parted)?;
        let is_parted = without.judge_again(view, grown, &mut parted);
        if !parted.contains(&true) {
            return Ok(None);
        }
        if !is_parted {
            without = Unbounded::without(view, &bounded, &parted)?;
        }
        Ok(Some(without))
    }

    /// The sites without what is bounded in those that are parted.
    fn without(view: &View<'_>, bounded: &[bool], parted: &[bool]) -> Result<Unbounded, Stopped> {
        let aside = view.sites.keys.len() as u32;
        let of_kind = view.sites.of_kind.iter().zip(bounded);
        let of_kind =
            of_kind.map(
                |(&site, &is_bounded)| match is_bounded && parted[site as usize] {
                    true => aside,
                    false => site,
                },
            );
        let sites = Sites {
            of_kind: of_kind.collect(),
            keys: [&view.sites.keys[..], &[SiteKey::Shape(0)]].concat(),
            stacks: [&view.sites.stacks[..], &[StackIdx::NONE]].concat(),
        };
        let survey = Survey::new(&view.device.blocks, &sites, view.ends, 0, view.watch)?;
        let parted = (0..parted.len()).filter(|&site| parted[site]);
        Ok(Unbounded {
            sites,
            survey,
            parted: parted.collect(),
        })
    }

    /// Judges the parted sites by their other lines. Where these do not grow alone, the site is not
    /// parted; returns whether all are.
    fn judge_again(
        &self,
        view: &View<'_>,
        grown: &mut [(usize, Growth)],
        parted: &mut [bool],
    ) -> bool {
        let view = self.view(view);
        let excuses = Excuses::new(&view);
        let mut all = true;
        for (site, growth) in grown {
            if !parted[*site] {
                continue;
            }
            let found = self.survey.kept[*site].as_deref();
            match found.map(|kept| judge::judge(kept, &self.survey)) {
                Some(Finding::Grows(alone)) if excuses.of(*site, &alone).is_none() => {
                    // What the last step made itself is young among all blocks of the site only.
                    let alone = alone.apart().0;
                    if alone.bytes_per_period < growth.bytes_per_period {
                        *growth = alone;
                    }
                }
                _ => (parted[*site], all) = (false, false),
            }
        }
        all
    }

    /// The same look at a device, without the bounded lines.
    pub(super) fn view<'a>(&'a self, view: &View<'a>) -> View<'a> {
        View {
            sites: &self.sites,
            survey: &self.survey,
            ..*view
        }
    }

    /// Tells the groups of parted sites which stacks they have.
    pub(super) fn narrow(&self, view: &View<'_>, groups: &mut [LeakGroup]) {
        for &site in &self.parted {
            let own = groups
                .iter_mut()
                .filter(|g| g.site == self.sites.keys[site]);
            own.for_each(|group| group.lines = Some(stacks_of(view, &self.sites, site)));
        }
    }

    /// What the bounded lines hold is no growth.
    pub(super) fn add_to(&self, beside: &mut Beside) {
        if let Some(kept) = self.survey.kept.last().and_then(Option::as_deref) {
            add(&mut beside.young, &kept.live);
            add(&mut beside.emptied, &kept.live);
        }
    }
}

/// Which kinds of blocks are of lines that are bounded; `None` if none are. A site of which no line
/// is, or all, is not `parted`.
fn bounded_kinds(view: &View<'_>, parted: &mut [bool]) -> Result<Option<Vec<bool>>, Stopped> {
    if !parted.contains(&true) {
        return Ok(None);
    }
    let lines = Lines::of(view, parted)?;
    let survey = Survey::new(&view.device.blocks, &lines.sites, view.ends, 0, view.watch)?;
    let is_bounded = |line: &Kept| judge::is_bounded(line, view.survey);
    let mut bounded = vec![false; lines.site_of.len()];
    parted.fill(false);
    // The first holds all other sites.
    for (line, &site) in lines.site_of.iter().enumerate().skip(1) {
        view.watch.look(0)?;
        bounded[line] = survey.kept[line].as_deref().is_some_and(is_bounded);
        parted[site] |= bounded[line];
    }
    let of_kind = lines.sites.of_kind.iter();
    let kinds = of_kind.map(|&line| bounded[line as usize]).collect();
    Ok(bounded.contains(&true).then_some(kinds))
}
