//! Which ranks run the same code. Trainers may stand beside ranks that generate text: what one of
//! these needs says nothing of the other.

use super::MAX_GROUPS;
use super::rank_site::RankSite;
use crate::fingerprint::Fingerprint;
use crate::site::size_of_id;

/// With fewer sites than this nobody can tell.
const LEAST: usize = 4;
/// The sites of a rank that have a stack, hashed, rising.
pub(super) struct Code(Vec<u64>);

impl Code {
    pub fn of(sites: &[RankSite]) -> Code {
        let ids = sites
            .iter()
            .map(|site| &site.id)
            .filter(|id| size_of_id(id).is_none());
        let mut ids: Vec<u64> = ids
            .map(|id| Fingerprint::default().text(id).key())
            .collect();
        ids.sort_unstable();
        Code(ids)
    }

    /// Whether at least half of the sites of the one that has fewer are the other's, too.
    fn is_like(&self, other: &Code) -> bool {
        let (few, many) = match self.0.len() < other.0.len() {
            true => (&self.0, &other.0),
            false => (&other.0, &self.0),
        };
        let common = few.iter().filter(|id| many.binary_search(id).is_ok());
        2 * common.count() >= few.len()
    }
}

/// A number for each rank: the same for those that run the same code, and 0 for the first of them.
/// What nobody can tell apart is as most are.
pub(super) fn groups(ranks: &[Code]) -> Vec<u32> {
    // Of each group its first rank, and how many there are.
    let mut groups: Vec<(&Code, usize)> = Vec::new();
    let mut found: Vec<Option<usize>> = Vec::with_capacity(ranks.len());
    for code in ranks {
        if code.0.len() < LEAST {
            found.push(None);
            continue;
        }
        let known = groups.iter().position(|(first, _)| first.is_like(code));
        let at = known.unwrap_or_else(|| {
            groups.push((code, 0));
            groups.len() - 1
        });
        if groups.len() > MAX_GROUPS {
            return vec![0; ranks.len()];
        }
        groups[at].1 += 1;
        found.push(Some(at));
    }
    let largest = (0..groups.len()).rev().max_by_key(|&at| groups[at].1);
    let group = |at: Option<usize>| at.or(largest).unwrap_or(0) as u32;
    found.into_iter().map(group).collect()
}
