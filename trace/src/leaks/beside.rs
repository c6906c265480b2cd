//! What of the level is no growth of the leaks: other sites that grow, and those that only hold.

use super::found::Found;
use super::judge;
use super::report::LeakGroup;
use super::view::View;
use crate::phases::Role;
use crate::site::SiteKey;
use std::collections::HashSet;

/// What of *allocated* at the ends of steps is no growth, in sites outside of the groups.
#[derive(Default)]
pub(super) struct Beside {
    /// What each step has made itself: it may be the results of longer and longer data, which the
    /// next step replaces.
    pub(super) young: Vec<u64>,
    /// The same, and all that sites hold that give it all back now and then: where such a site
    /// stands in its saw-tooth at the end is no growth.
    pub(super) emptied: Vec<u64>,
    /// Sites whose growth has ended, if they are left out of both.
    pub(super) ended: Vec<(usize, judge::Ended)>,
}

pub(super) fn beside(view: &View<'_>, groups: &[LeakGroup]) -> Beside {
    let known: HashSet<SiteKey> = groups.iter().map(|g| g.site).collect();
    let sites = view.sites.keys.iter().zip(&view.survey.kept);
    let outside = sites.filter(|(key, _)| !known.contains(key));
    let none = vec![0_u64; view.ends.len()];
    let mut beside = Beside {
        young: none.clone(),
        emptied: none,
        ended: Vec::new(),
    };
    for kept in outside.filter_map(|(_, kept)| kept.as_deref()) {
        add(&mut beside.young, &kept.new_bytes);
        add(
            &mut beside.emptied,
            match judge::is_emptied(kept) {
                true => &kept.live,
                false => &kept.new_bytes,
            },
        );
    }
    beside
}

pub(super) fn add(levels: &mut [u64], more: &[u64]) {
    for (level, more) in levels.iter_mut().zip(more) {
        *level = level.saturating_add(*more);
    }
}

impl Beside {
    /// Leaves out sites whose growth has ended, apart from those that are `covered` by groups, and
    /// from those that may go on: a line through their levels would rise all the same.
    pub(super) fn leave_out_what_has_ended(
        &mut self,
        view: &View<'_>,
        covered: &[bool],
        found: &Found,
    ) {
        let unsure = found.unsure.iter().map(|(site, _)| *site);
        let excused = found.excused.iter().map(|(_, site, _)| *site);
        let known: HashSet<usize> = unsure.chain(excused).collect();
        for (site, ended) in ended(view) {
            let kept = view.survey.kept[site].as_deref();
            let Some(kept) = kept.filter(|kept| !judge::is_mixed(kept)) else {
                continue;
            };
            if covered[site] || known.contains(&site) {
                continue;
            }
            // What is young is among them already.
            let old = kept.live.iter().zip(&kept.new_bytes);
            let old: Vec<u64> = old.map(|(all, new)| all.saturating_sub(*new)).collect();
            add(&mut self.young, &old);
            add(&mut self.emptied, &old);
            self.ended.push((site, ended));
        }
    }
}

/// Sites whose growth has ended.
pub(super) fn ended(view: &View<'_>) -> impl Iterator<Item = (usize, judge::Ended)> {
    let sites = view.survey.kept.iter().zip(&view.sites.stacks).enumerate();
    let own = sites.filter(|(_, (_, stack))| {
        // Optimizers make state when a parameter is used for the first time.
        !matches!(
            view.roles.get(**stack),
            Role::Optimizer | Role::OptimizerSetup
        )
    });
    own.filter_map(|(site, (kept, _))| Some((site, judge::ended(kept.as_deref()?)?)))
}
