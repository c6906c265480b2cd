//! The id of a run: it is made from the bytes of its file, so equal files have equal ids,
//! everywhere.

use api::ids::RunId;

/// Characters of an id after its prefix: 16 of base 62 are 95 bits.
pub const DIGITS: usize = 16;

/// The id of the run that is made from bytes with this hash (BLAKE3).
pub fn run_id(hash: &[u8; 32]) -> RunId {
    let digits = base62(leading(hash), DIGITS);
    let text = format!("{}{digits}", RunId::PREFIX);
    text.parse().expect("base 62 digits are an id")
}

/// The first 128 bits of a hash.
pub fn leading(hash: &[u8; 32]) -> u128 {
    let (first, _) = hash.split_first_chunk::<16>().expect("a hash has 32 bytes");
    u128::from_be_bytes(*first)
}

/// The last digits of a number in base 62.
pub fn base62(mut number: u128, n_digits: usize) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut digits = String::with_capacity(n_digits);
    for _ in 0..n_digits {
        digits.push(char::from(ALPHABET[(number % 62) as usize]));
        number /= 62;
    }
    digits
}
