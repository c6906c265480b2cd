//! Sentences that name code between backticks, as the server's problems do.

use leptos::prelude::*;

/// A piece of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Words(&'a str),
    Code(&'a str),
}

/// Splits at backticks; one without a partner stands for itself.
fn pieces(sentence: &str) -> Vec<Piece<'_>> {
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

/// The sentence, with its code set as code.
#[component]
pub fn Prose(#[prop(into)] text: String) -> impl IntoView {
    let view = |piece: &Piece<'_>| match *piece {
        Piece::Words(words) => words.to_owned().into_any(),
        Piece::Code(code) => view! { <code>{code.to_owned()}</code> }.into_any(),
    };
    pieces(&text).iter().map(view).collect_view()
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
