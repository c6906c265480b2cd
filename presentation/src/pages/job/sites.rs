//! The same allocation site in all ranks: which of them differ.

use trace::ranks::Rank;
use trace::ranks::sites::{MAX_NAMED, SiteAcross, When};

/// Groups that are told of.
const GROUPS: usize = 3;

/// The ranks that differ most, those that hold the same together:
/// `ranks 0 to 3: 64.9 MiB · rank 6: 0 B`. `ranks` is how many the job has.
pub fn differs_most(site: &SiteAcross, ranks: usize) -> String {
    let mut groups: Vec<(String, Vec<Rank>)> = Vec::new();
    for holds in &site.farthest {
        let leaks = if holds.leaks { ", leaks" } else { "" };
        let held = holds.held(site.when).to_string() + leaks;
        match groups.iter_mut().find(|(other, _)| *other == held) {
            Some((_, alike)) => alike.push(holds.rank),
            None => groups.push((held, vec![holds.rank])),
        }
    }
    let all = ranks <= MAX_NAMED || site.farthest.len() < MAX_NAMED;
    let last = groups.len();
    let told = groups.into_iter().enumerate().take(GROUPS);
    let told = told.map(|(at, (held, mut alike))| {
        alike.sort();
        // More ranks than those that are named may hold what the last of them does.
        let more = if all || at + 1 < last { "" } else { ", …" };
        [&listed(&alike), more, ": ", &held].concat()
    });
    let told = told.collect::<Vec<_>>().join(" · ");
    match site.when {
        When::End => told + " at its end",
        When::Peak | When::Most => told,
    }
}

/// `rank 3`, `ranks 1 and 7`, `ranks 0 to 3 and 6`.
fn listed(ranks: &[Rank]) -> String {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some([_, last]) if rank.0 == *last + 1 => *last = rank.0,
            _ => runs.push([rank.0; 2]),
        }
    }
    let told = runs.iter().flat_map(|&[first, last]| match last - first {
        0 => vec![first.to_string()],
        1 => vec![first.to_string(), last.to_string()],
        _ => vec![format!("{first} to {last}")],
    });
    let told: Vec<String> = told.collect();
    match &told[..] {
        [one] if ranks.len() == 1 => ["rank ", one].concat(),
        [before @ .., last] if !before.is_empty() => {
            ["ranks ", &before.join(", "), " and ", last].concat()
        }
        _ => ["ranks ", &told.concat()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::ranks::sites::RankHolds;
    use trace::units::Bytes;

    #[test]
    fn ranks_that_hold_the_same_are_told_of_together() {
        let check = |holds: &[(u32, u64, bool)], ranks: usize, expected: &str| {
            let farthest = holds.iter().map(|&(rank, mib, leaks)| RankHolds {
                rank: Rank(rank),
                at_peak: Bytes(mib << 20),
                at_end: Bytes(0),
                most: Bytes(0),
                leaks,
            });
            let site = SiteAcross {
                id: "s1".to_owned(),
                place: None,
                caller: None,
                operation: None,
                at_peak: [Bytes(0); 3],
                at_end: [Bytes(0); 3],
                most: [Bytes(0); 3],
                when: When::Peak,
                ranks: 4,
                leaks: 0,
                difference: Bytes(0),
                farthest: farthest.collect(),
            };
            assert_eq!(differs_most(&site, ranks), expected);
        };
        check(&[(2, 7, true)], 4, "rank 2: 7.00 MiB, leaks");
        let halves: Vec<_> = (0..8)
            .map(|rank| (rank, u64::from(rank < 4), false))
            .collect();
        check(&halves, 8, "ranks 0 to 3: 1.00 MiB · ranks 4 to 7: 0 B");
        let alike: Vec<_> = (0..8).map(|rank| (rank, 1, false)).collect();
        check(&alike, 64, "ranks 0 to 7, …: 1.00 MiB");
        let some = [(6, 9, false), (4, 3, false), (0, 3, false), (5, 3, true)];
        check(
            &some,
            8,
            "rank 6: 9.00 MiB · ranks 0 and 4: 3.00 MiB · rank 5: 3.00 MiB, leaks",
        );
        let runs = [(9, 1, false), (0, 1, false), (1, 1, false), (2, 1, false)];
        check(&runs, 16, "ranks 0 to 2 and 9: 1.00 MiB");
    }
}
