//! Inputs as users see them: a name, a value, and its source.

use api::bench::{BenchInput, Provenance};

/// An input from the source of the published numbers.
pub fn published(name: &str, value: impl Into<String>) -> BenchInput {
    input(name, value.into(), Provenance::Published)
}

/// An input from the public source of the model or the program.
pub fn source(name: &str, value: impl Into<String>) -> BenchInput {
    input(name, value.into(), Provenance::Source)
}

/// An input that is assumed here, because nobody published it.
pub fn assumed(name: &str, value: impl Into<String>) -> BenchInput {
    input(name, value.into(), Provenance::Assumed)
}

fn input(name: &str, value: String, provenance: Provenance) -> BenchInput {
    BenchInput {
        name: name.to_owned(),
        value,
        provenance,
    }
}

/// A number with a space before every three digits from the right: `7 615 616 512`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        let check = |number, expected: &str| assert_eq!(grouped(number), expected);
        check(0, "0");
        check(999, "999");
        check(16_384, "16 384");
        check(7_615_616_512, "7 615 616 512");
    }
}
