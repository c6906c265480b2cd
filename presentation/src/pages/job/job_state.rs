//! What is chosen on the page of a job, as the query of its address: a link shows the same.
//!
//! `v=1&rank=3&base=0&new=3&all=1`; defaults are left out.

use crate::query::Query;
use api::view_state::BadViewState;
use trace::ranks::Rank;

/// The version written.
const VERSION: u32 = 1;

/// What is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobState {
    /// The rank whose line is drawn; without it the oddest.
    pub rank: Option<Rank>,
    /// The ranks to compare, the baseline first; without one the least odd and the oddest.
    pub pair: [Option<Rank>; 2],
    /// Whether the table has all ranks.
    pub all: bool,
}

/// All methods take the ranks of the job, the oddest first.
impl JobState {
    /// The rank whose line is drawn.
    pub fn drawn(&self, odd: &[Rank]) -> Rank {
        let asked = self.rank.filter(|rank| odd.contains(rank));
        asked.or(odd.first().copied()).unwrap_or(Rank(0))
    }

    /// The ranks to compare: two different ones, if there are two.
    pub fn compared(&self, odd: &[Rank]) -> [Rank; 2] {
        let usual = [odd.last(), odd.first()].map(|rank| rank.copied().unwrap_or(Rank(0)));
        let asked = self.pair.map(|rank| rank.filter(|rank| odd.contains(rank)));
        let [base, new] = [0, 1].map(|side| asked[side].unwrap_or(usual[side]));
        if base != new {
            return [base, new];
        }
        // If one of them was asked for, the other gives way.
        match asked {
            [Some(base), None] => [base, usual[0]],
            [None, Some(new)] => [usual[1], new],
            _ => usual,
        }
    }

    /// The state after a choice for one side of the comparison. A rank is not compared with itself:
    /// the sides change places instead.
    pub fn chosen(&self, odd: &[Rank], side: usize, rank: Rank) -> JobState {
        let mut pair = self.compared(odd);
        if pair[1 - side] == rank {
            pair[1 - side] = pair[side];
        }
        pair[side] = rank;
        JobState {
            pair: pair.map(Some),
            ..self.clone()
        }
    }
}

impl Query for JobState {
    fn read(query: &str) -> (JobState, Vec<BadViewState>) {
        let mut state = JobState::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let rank = value.parse().ok().map(Rank);
            match key {
                "rank" => state.rank = rank,
                "base" => state.pair[0] = rank,
                "new" => state.pair[1] = rank,
                "all" => state.all = value == "1",
                _ => {}
            }
        }
        (state, Vec::new())
    }

    fn write(&self) -> String {
        let [base, new] = self.pair;
        let all = self.all.then_some(Rank(1));
        let parts = [
            ("rank", self.rank),
            ("base", base),
            ("new", new),
            ("all", all),
        ];
        let mut query = String::new();
        for (key, value) in parts {
            if let Some(Rank(value)) = value {
                query += &format!("&{key}={value}");
            }
        }
        match query.is_empty() {
            true => query,
            false => format!("v={VERSION}{query}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_its_query() {
        let check = |query: &str| {
            let (state, notes) = JobState::read(query);
            assert_eq!((state.write().as_str(), notes.len()), (query, 0));
        };
        check("");
        check("v=1&rank=3");
        check("v=1&rank=3&base=0&new=2&all=1");
        assert_eq!(JobState::read("rank=x&all=yes").0, JobState::default());
    }

    const ODD: [Rank; 4] = [Rank(2), Rank(0), Rank(3), Rank(1)];

    #[test]
    fn a_rank_is_not_compared_with_itself() {
        let check = |query: &str, expected: [u32; 2]| {
            let (state, _) = JobState::read(query);
            assert_eq!(state.compared(&ODD), expected.map(Rank), "{query}");
        };
        check("", [1, 2]);
        check("base=3", [3, 2]);
        check("base=2", [2, 1]);
        check("new=1", [2, 1]);
        check("base=3&new=3", [1, 2]);
        check("base=77&new=0", [1, 0]);
        let (state, _) = JobState::read("base=3&new=0");
        let swapped = state.chosen(&ODD, 0, Rank(0));
        assert_eq!(swapped.compared(&ODD), [0, 3].map(Rank));
        let other = state.chosen(&ODD, 1, Rank(2));
        assert_eq!(other.compared(&ODD), [3, 2].map(Rank));
    }

    #[test]
    fn a_rank_that_is_not_there_is_not_drawn() {
        let check = |query: &str, expected: u32| {
            assert_eq!(JobState::read(query).0.drawn(&ODD), Rank(expected));
        };
        check("", 2);
        check("rank=3", 3);
        check("rank=77", 2);
    }
}
