//! The sites of a rank, as all ranks have them.
//!
//! A graph of `torch.compile` is a site of its own, since its file is. In the other ranks that file
//! has another name ([`site::key_in_ranks`]), and nobody can tell which graph is which: so those
//! that are called alike are one site here.

use super::rank_site::RankSite;
use crate::compare::profile::DeviceProfile;
use crate::levels::{Effect, GivenBack};
use crate::site::{self, OfSites, SiteKey};
use crate::stacks::{FxHashMap, Stacks};
use crate::trace::{BlockIdx, DeviceTrace};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};

/// Sites of one rank that are one site among all ranks.
pub(super) struct Together {
    /// Their own keys, at least one.
    pub keys: Vec<SiteKey>,
    /// What they hold.
    pub held: RankSite,
}

/// All sites of a device, in their order.
///
/// # Errors
/// [`Stopped`].
pub(super) fn sites(
    profile: &DeviceProfile,
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<Vec<Together>, Stopped> {
    let mut found: Vec<Together> = Vec::with_capacity(profile.sites.len());
    let mut known: FxHashMap<SiteKey, usize> = FxHashMap::default();
    for (row, site) in profile.sites.iter().enumerate() {
        watch.at_row(row, || 0)?;
        let key = site::key_in_ranks(stacks, site.stack, site.key);
        match known.get(&key) {
            Some(&at) => {
                found[at].keys.push(site.key);
                found[at].held.add(RankSite::of(site.key, site, stacks));
            }
            None => {
                known.insert(key, found.len());
                found.push(Together {
                    keys: vec![site.key],
                    held: RankSite::of(key, site, stacks),
                });
            }
        }
    }
    let several: Vec<usize> = (0..found.len())
        .filter(|&at| found[at].keys.len() > 1)
        .collect();
    let groups = several.iter().map(|&at| &found[at].keys[..]).collect();
    for (at, most) in several.iter().zip(most(groups, device, stacks, watch)?) {
        found[*at].held.most = most;
    }
    Ok(found)
}

/// The most that sites hold together, of each group of them.
fn most(
    groups: Vec<&[SiteKey]>,
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<Vec<Bytes>, Stopped> {
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let keyed = groups.iter().enumerate();
    let keyed = keyed.flat_map(|(group, keys)| keys.iter().map(move |&key| (key, group)));
    let of_kind = keyed.collect::<OfSites<usize>>();
    let of_kind = of_kind.of_kinds(&device.blocks, stacks);
    let group = |block: u32| {
        let kind = device.blocks.kind.get(block as usize)?.index();
        Some((of_kind[kind]?, device.blocks.kinds[kind].size.0))
    };
    let mut live = vec![0_u64; groups.len()];
    let before = (0..device.blocks.n_preexisting)
        .filter(|&block| device.given_back(BlockIdx(block)) != GivenBack::Before);
    for (group, size) in before.filter_map(group) {
        live[group] += size;
    }
    let mut most = live.clone();
    for event in 0..device.events.len() {
        watch.at_row(event as usize, || 0)?;
        let effect = device.effect(EventIdx(event));
        let is_freed = matches!(effect, Effect::FreeRequested { .. } | Effect::Free { .. });
        if !is_freed && !matches!(effect, Effect::Alloc { .. }) {
            continue;
        }
        let Some((group, size)) = group(device.events.target[event as usize]) else {
            continue;
        };
        live[group] = match is_freed {
            true => live[group].saturating_sub(size),
            false => live[group] + size,
        };
        most[group] = most[group].max(live[group]);
    }
    Ok(most.into_iter().map(Bytes).collect())
}
