//! Cards as blocks of Markdown, for pull requests and job summaries.

mod comparison;
mod run;

pub use comparison::{comparison, gate, numbers_only};
pub use run::run;

use crate::texts::Texts;
pub(crate) use trace::plain::code;
use trace::plain::marked;

/// How much a block shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Names, places, and the picture.
    Told,
    /// Only numbers, for private projects.
    Withheld,
}

impl Names {
    /// What a query asks for by `numbers_only`.
    pub const fn asked(numbers_only: u8) -> Names {
        match numbers_only {
            0 => Names::Told,
            _ => Names::Withheld,
        }
    }

    /// The texts of a block: of numbers alone, the team's own categories are not told either.
    pub const fn texts(self, texts: Texts) -> Texts {
        match self {
            Names::Told => texts,
            Names::Withheld => texts.without_own(),
        }
    }
}

/// The links of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// The page, absolute.
    pub page: String,
    /// The card as a picture, absolute; `None` if readers of the block cannot fetch it.
    pub image: Option<String>,
}

impl Links {
    /// The last lines of a block: the card (unless names are withheld) and the link to the page.
    fn lines(&self, label: &str, names: Names) -> String {
        let page = &self.page;
        let image = self.image.as_ref().filter(|_| names == Names::Told);
        let picture = image.map_or_else(String::new, |image| {
            format!("[![Memory over time]({image})]({page})\n\n")
        });
        format!("{picture}[{label}]({page})\n")
    }
}

/// A text from a snapshot, escaped so that it cannot become Markdown markup. Forges look for people
/// (`@name`) after they have read the Markdown, so a backslash does not keep them from that; an
/// empty comment behind the sign does. A reference to an issue (`#1`) calls nobody, and `#` is in
/// the names of many scopes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in marked(text).chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("\\@<!-- -->"),
            c if "\\`*_{}[]#|~!".contains(c) => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out() {
        let text = "<img src=x> a|b *c* [x](y)\nd";
        let literal = "&lt;img src=x> a\\|b \\*c\\* \\[x\\](y) d";
        assert_eq!(escaped(text), literal);
        // Nor call a person.
        assert_eq!(escaped("@octocat"), "\\@<!-- -->octocat");
        assert_eq!(code("a`b|c\nd"), "`a'b¦c d`");
        // Nor may it reorder the text beside it.
        assert_eq!(escaped("a\u{202e}b"), "a\u{fffd}b");
        assert_eq!(code("a\u{202e}b"), "`a\u{fffd}b`");
    }
}
