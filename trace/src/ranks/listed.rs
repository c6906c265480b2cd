//! Ranks by name.

use super::{Rank, RankRow};

/// How many ranks are named one by one.
const NAMED: usize = 4;

/// Whether the ranks that are told of are all that the job has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Extent {
    #[default]
    Whole,
    /// Others are missing, or cannot be read: nothing is said of all.
    Part,
}

impl Extent {
    /// What is said behind the ranks: of others nothing is known.
    pub(super) fn that_were_read(self, n: usize) -> &'static str {
        match (self, n) {
            (Extent::Whole, _) => "",
            (Extent::Part, 1) => " that was read",
            (Extent::Part, _) => " that were read",
        }
    }
}

pub(super) fn named(rows: &[&RankRow]) -> String {
    let ranks: Vec<Rank> = rows.iter().map(|row| row.rank).collect();
    listed(&ranks)
}

/// `Rank 3`, `Ranks 1, 2 and 7`, `12 ranks (0, 1, 2, 3, …)`.
pub(super) fn listed(ranks: &[Rank]) -> String {
    match ranks {
        [] => "No rank".to_owned(),
        [one] => format!("Rank {one}"),
        _ if ranks.len() <= NAMED => {
            let all: Vec<String> = ranks.iter().map(Rank::to_string).collect();
            format!("Ranks {}", listed_words(&all))
        }
        _ => {
            let first: Vec<String> = ranks.iter().take(NAMED).map(Rank::to_string).collect();
            format!("{} ranks ({}, …)", ranks.len(), first.join(", "))
        }
    }
}

/// `1, 2 and 7`.
pub(super) fn listed_words(words: &[String]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => words.concat(),
    }
}

/// What the other ranks do: `the other rank does not`, `the other 7 ranks do not`.
pub(super) fn others(n: usize, extent: Extent, [one, several]: [&str; 2]) -> String {
    let read = extent.that_were_read(n);
    match n {
        0 => String::new(),
        1 => format!("; the other rank{read} {one}"),
        n => format!("; the other {n} ranks{read} {several}"),
    }
}

/// All ranks that there are, or all that were read.
pub(super) fn all_ranks(n: usize, extent: Extent) -> String {
    match (n, extent) {
        (2, Extent::Whole) => "Both ranks".to_owned(),
        (n, Extent::Whole) => format!("All {n} ranks"),
        (n, Extent::Part) => format!("The {n} ranks{}", extent.that_were_read(n)),
    }
}

/// The same within a sentence: `ranks 1 and 2`.
pub(super) fn lower(named: &str) -> String {
    let mut letters = named.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}
