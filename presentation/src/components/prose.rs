//! Sentences that name code between backticks, as the server's problems do, and parts of a page
//! between asterisks, as explanations do.

/// A piece of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Words.
    Words(&'a str),
    /// Code, without its backticks.
    Code(&'a str),
    /// A name, without its asterisks.
    Name(&'a str),
}

/// Splits at backticks and asterisks; one without a partner stands for itself.
pub fn pieces(sentence: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, after)) = after.split_once('`') else {
            break;
        };
        push_words(before, &mut out);
        out.push(Piece::Code(code));
        rest = after;
    }
    push_words(rest, &mut out);
    out.retain(|piece| !matches!(piece, Piece::Words("")));
    out
}

/// Words without code: a name begins and ends with a letter, so that `2 * 3` has none.
fn push_words<'a>(words: &'a str, out: &mut Vec<Piece<'a>>) {
    let mut rest = words;
    let is_name = |name: &str| {
        let mut ends = name.chars().next().into_iter().chain(name.chars().last());
        !name.is_empty() && ends.all(char::is_alphabetic)
    };
    while let Some((before, after)) = rest.split_once('*') {
        let Some((name, after)) = after.split_once('*').filter(|(name, _)| is_name(name)) else {
            break;
        };
        out.push(Piece::Words(before));
        out.push(Piece::Name(name));
        rest = after;
    }
    out.push(Piece::Words(rest));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_stands_between_two_backticks() {
        use Piece::{Code, Words};
        assert_eq!(pieces("no code"), [Words("no code")]);
        assert_eq!(
            pieces("`a` and `b`."),
            [Code("a"), Words(" and "), Code("b"), Words(".")]
        );
        assert_eq!(pieces("a lone ` stays"), [Words("a lone ` stays")]);
        assert_eq!(pieces(""), []);
    }

    #[test]
    fn names_are_what_stands_between_two_asterisks() {
        use Piece::{Code, Name, Words};
        assert_eq!(
            pieces("ask *What if* of `*.pickle`"),
            [
                Words("ask "),
                Name("What if"),
                Words(" of "),
                Code("*.pickle")
            ]
        );
        assert_eq!(pieces("2 * 3 * 4"), [Words("2 * 3 * 4")]);
        assert_eq!(pieces("a lone * stays"), [Words("a lone * stays")]);
    }
}
