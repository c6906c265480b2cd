//! The key from which a link's stand-ins are made.

use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;

/// Stand-ins depend on the text and on this key. Without the key nobody can tell which text a
/// stand-in stands for, not even by trying likely texts. Nor can anybody tell whether two stand-ins
/// of different keys are the same text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 16]);

/// Letters of a stand-in's word. There are no vowels, so that it spells nothing, and no digits,
/// because those number scopes and steps.
const LETTERS: &[u8; 20] = b"bcdfghjkmnpqrstvwxyz";

/// Letters of a word: 20^8 are 35 bits, so among a thousand names two are equal in one of 50,000
/// cases.
const WORD_LEN: usize = 8;

impl Key {
    /// A key of random bytes.
    pub const fn new(bytes: [u8; 16]) -> Key {
        Key(bytes)
    }

    /// Its bytes. They are secret.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The word that stands for a text.
    pub fn word(&self, text: &str) -> String {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(text.as_bytes());
        let mut rest = hasher.finish();
        let letters = std::iter::repeat_with(|| {
            let letter = LETTERS[(rest % LETTERS.len() as u64) as usize];
            rest /= LETTERS.len() as u64;
            char::from(letter)
        });
        letters.take(WORD_LEN).collect()
    }
}

/// Hides the bytes, which are secret.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}
