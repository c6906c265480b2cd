//! How many call sites differ, between two runs or between the ranks of a job.

use timeline::format::{count, doing};

/// Call sites that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Those that differ and are listed.
    pub listed: u64,
    /// Those that differ too, but are left out because they are the smallest of too many.
    pub left_out: u64,
    /// Those that hold the same.
    pub same: u64,
}

impl Compared {
    /// In words; `among` says between what, such as ` between ranks`.
    pub fn in_words(self, among: &str) -> String {
        let all = self.listed + self.left_out;
        match (all, self.same) {
            (0, 0) => return "There is nothing to compare by stack".to_owned(),
            (0, 1) => return "The one site holds the same".to_owned(),
            (0, same) => return ["All ", &count(same), " sites hold the same"].concat(),
            _ => {}
        }
        let differ = doing(all, "site differs", "sites differ");
        let left_out = match self.left_out {
            0 => String::new(),
            1 => ", the smallest is not listed".to_owned(),
            n => [", the ", &count(n), " smallest are not listed"].concat(),
        };
        let same = doing(self.same, "holds the same", "hold the same");
        [&differ, among, &left_out, "; ", &same].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_several_sites_are_told_apart() {
        let check = |listed, left_out, same, expected: &str| {
            let compared = Compared {
                listed,
                left_out,
                same,
            };
            assert_eq!(compared.in_words(" between ranks"), expected);
        };
        check(0, 0, 0, "There is nothing to compare by stack");
        check(0, 0, 1, "The one site holds the same");
        check(0, 0, 1200, "All 1,200 sites hold the same");
        check(1, 0, 29, "1 site differs between ranks; 29 hold the same");
        check(2, 0, 1, "2 sites differ between ranks; 1 holds the same");
        let text = "9 sites differ between ranks, the smallest is not listed; 0 hold the same";
        check(8, 1, 0, text);
        let text = "12 sites differ between ranks, the 4 smallest are not listed; 1 holds the same";
        check(8, 4, 1, text);
    }
}
