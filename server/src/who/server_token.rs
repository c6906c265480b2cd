//! The access token of a server: whoever has it may do everything.

/// The access token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A token that could be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the access token must hold at least {} random bits, in at most {} printable ASCII characters \
     without spaces; make one with `tidemark token` or `openssl rand -hex 32`",
    Token::BITS,
    Token::LONGEST
)]
pub struct BadToken;

impl Token {
    const BITS: u32 = 128;
    const LONGEST: usize = 512;

    /// A random token has at least this many different characters: of 32 random hexadecimal digits,
    /// only one token in a billion has fewer.
    const FEWEST_DIFFERENT: usize = 7;

    /// A token from text, without a line break at its end.
    ///
    /// # Errors
    /// When it has too few bits, is too long, or cannot be sent in a header.
    pub fn new(text: &str) -> Result<Token, BadToken> {
        let text = text.trim_end_matches(['\r', '\n']);
        let sendable = text.len() <= Token::LONGEST && text.bytes().all(|b| b.is_ascii_graphic());
        match sendable && bits_of(text) >= f64::from(Token::BITS) {
            true => Ok(Token(text.to_owned())),
            false => Err(BadToken),
        }
    }

    /// A new one, of 256 random bits.
    pub fn random() -> Token {
        Token(crate::identity::secret())
    }

    /// The secret itself.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

/// The bits of a text, if its characters were chosen at random from the smallest alphabet that
/// contains them.
fn bits_of(text: &str) -> f64 {
    let has = |is: fn(&u8) -> bool| text.as_bytes().iter().any(is);
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let different: std::collections::HashSet<u8> = text.bytes().collect();
    let letters = match text.bytes().all(is_hex) {
        true => 16 - 10,
        false => 26,
    };
    let alphabet = [
        (has(u8::is_ascii_digit), 10),
        (has(u8::is_ascii_lowercase), letters),
        (has(u8::is_ascii_uppercase), 26),
        // Base 64 adds two characters; counting all punctuation would overrate passphrases.
        (has(u8::is_ascii_punctuation), 2),
    ];
    let size: u32 = alphabet
        .iter()
        .filter(|(has, _)| *has)
        .map(|(_, n)| n)
        .sum();
    match different.len() < Token::FEWEST_DIFFERENT {
        true => 0.0,
        false => text.len() as f64 * f64::from(size).log2(),
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "correct-horse-battery-staple-0001";

    #[test]
    fn a_token_cannot_be_guessed_can_be_sent_and_is_never_printed() {
        let check = |text: &str, ok: bool| assert_eq!(Token::new(text).is_ok(), ok, "{text}");
        check(GOOD, true);
        check("0123456789abcdef0123456789abcdef\n", true);
        check("0123456789abcdef0123456789abcde", false);
        check("AZaz09-_AZaz09-_bcdefg", true);
        check("correct-horse", false);
        check("correct-horse-battery-staple", true);
        check("12345678901234567890123456789012", false);
        check(&"ab".repeat(100), false);
        check("", false);
        check(&format!("{GOOD} {GOOD}"), false);
        check(&GOOD.repeat(50), false);
        let said = Token::new("short").unwrap_err().to_string();
        assert!(said.contains("`tidemark token`"), "{said}");
        assert!(said.contains("`openssl rand -hex 32`"), "{said}");
        let token = Token::random();
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert!(Token::new(token.secret()).is_ok());
        assert_ne!(token, Token::random());
    }
}
