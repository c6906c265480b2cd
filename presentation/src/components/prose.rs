//! Sentences that name code between backticks, as the server's problems do.

/// A piece of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Words.
    Words(&'a str),
    /// Code, without its backticks.
    Code(&'a str),
}

/// Splits at backticks; one without a partner stands for itself.
pub fn pieces(sentence: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, after)) = after.split_once('`') else {
            break;
        };
        out.push(Piece::Words(before));
        out.push(Piece::Code(code));
        rest = after;
    }
    out.push(Piece::Words(rest));
    out.retain(|piece| !matches!(piece, Piece::Words("")));
    out
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
}
