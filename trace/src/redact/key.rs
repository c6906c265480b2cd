//! The key of a link's stand-ins.

use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;

/// What stand-ins depend on besides the text. Without it, one cannot tell which text a
/// stand-in stands for, not even by trying all that come to mind, and cannot tell whether two
/// stand-ins of different keys are the same text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 16]);

/// Letters of a word. No vowels: it spells nothing. No digits: those count scopes and steps.
const LETTERS: &[u8; 20] = b"bcdfghjkmnpqrstvwxyz";

/// Letters of a word: 20^8 are 35 bits, so that of a thousand names two are alike once in 50,000.
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
