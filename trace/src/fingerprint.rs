//! Keys that are kept in databases and in links: every build computes the same ones.
//!
//! Hash tables may change their hash whenever another one is faster, and the standard library may
//! feed a string to a hasher in another way. Neither may change a stored key. So this module
//! defines exactly how keys are hashed, and the tests hold values that must never change.

/// A hash over numbers and texts, in the order in which they are added.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fingerprint(u64);

/// Follows each text, so that `ab`, `c` is not `a`, `bc`. UTF-8 has no such byte.
const END: u8 = 0xff;

impl Fingerprint {
    /// Adds a number.
    #[must_use]
    pub fn number(self, number: u64) -> Fingerprint {
        const K: u64 = 0x517c_c1b7_2722_0a95;
        Fingerprint((self.0.rotate_left(5) ^ number).wrapping_mul(K))
    }

    /// Adds a text: words of eight bytes, low byte first, then the rest byte by byte.
    #[must_use]
    pub fn text(self, text: &str) -> Fingerprint {
        let words = text.as_bytes().chunks_exact(8);
        let rest = words.remainder().iter().chain([&END]);
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .rfold(0, |word, &byte| word << 8 | u64::from(byte))
        };
        let added = words.fold(self, |so_far, bytes| so_far.number(word(bytes)));
        rest.fold(added, |so_far, &byte| so_far.number(u64::from(byte)))
    }

    /// The key.
    pub fn key(self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written down on 22 November 2026; databases and links hold such keys.
    #[test]
    fn keys_never_change() {
        let check = |texts: &[&str], expected: u64| {
            let all = texts
                .iter()
                .fold(Fingerprint::default(), |all, text| all.text(text));
            assert_eq!(all.key(), expected, "{texts:?}: {:#018x}", all.key());
        };
        check(&[], 0);
        check(&[""], 0x2b44_f56e_a0cf_2114);
        check(&["train.py", "step"], 0xeebe_7cb8_0221_b39b);
        check(
            &["torch/nn/modules/linear.py", "forward"],
            0x2e01_2b3d_2574_f45a,
        );
        check(&["größe"], 0x17c2_7fe2_ded8_0990);
        assert_eq!(
            Fingerprint::default().number(7).key(),
            0x3a69_4c03_c2a4_2a03
        );
    }

    #[test]
    fn where_a_text_ends_counts() {
        let both = |a: &str, b: &str| Fingerprint::default().text(a).text(b).key();
        assert_ne!(both("ab", "c"), both("a", "bc"));
        assert_ne!(both("", "abc"), both("abc", ""));
    }

    /// Keys in older databases were made by the hash function of the hash tables, which was this
    /// same function.
    #[test]
    fn keys_of_older_databases_stay_right() {
        let before = crate::stacks::fx_hash(&(5_u64, "torch/nn/modules/linear.py", "forward"));
        let now = Fingerprint::default().number(5);
        let now = now.text("torch/nn/modules/linear.py").text("forward");
        assert_eq!(now.key(), before);
    }
}
