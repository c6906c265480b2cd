//! A card as a block of Markdown, for a pull request.

use super::RunCard;
use std::fmt::Write;
use timeline::card::MAX_SITES;

/// How much the block tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Names, places, and the picture.
    Told,
    /// Numbers alone, for private projects.
    Withheld,
}

/// Where the block leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// The page, absolute.
    pub page: String,
    /// The card as a picture, absolute.
    pub image: String,
}

/// The block.
pub fn markdown(run: &RunCard, links: &Links, names: Names) -> String {
    let card = &run.card;
    let mut out = match names {
        Names::Told => format!("### GPU memory: {}\n\n", escaped(&card.title)),
        Names::Withheld => "### GPU memory\n\n".to_owned(),
    };
    // Writing to a string cannot fail.
    let _ = write!(out, "| |");
    for (series, ..) in &run.levels {
        let _ = write!(out, " {} |", series.name());
    }
    let _ = writeln!(out, "\n|---|--:|--:|");
    for (row, value) in [("peak", 0), ("end", 1)] {
        let _ = write!(out, "| {row} |");
        for (_, peak, end) in &run.levels {
            let _ = write!(out, " {} |", [peak, end][value]);
        }
        out.push('\n');
    }
    if let Some((name, growth)) = card.numbers.last() {
        let _ = writeln!(out, "| {name} | {growth} | |");
    }
    let _ = writeln!(out, "\n**{}.** {}", card.verdict, escaped(&card.reason));
    if names == Names::Told {
        tell(&mut out, run, links);
    }
    let _ = writeln!(out, "\n[Open in Tidemark]({})", links.page);
    out
}

fn tell(out: &mut String, run: &RunCard, links: &Links) {
    let card = &run.card;
    if !card.sites.is_empty() {
        let _ = writeln!(out, "\n{}:\n", escaped(&card.sites_title));
    }
    for (amount, place) in card.sites.iter().take(MAX_SITES) {
        let _ = writeln!(out, "1. **{amount}** {}", code(place));
    }
    let _ = writeln!(
        out,
        "\n[![Memory over time]({})]({})",
        links.image, links.page
    );
}

/// A text that Markdown takes literally.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_{}[]()<>#|~!&".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A text as code. Code spans take everything but their own quotes, and end a table's cell at a
/// bar, so there are none.
fn code(text: &str) -> String {
    format!("`{}`", text.replace(['`', '|', '\n'], "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out() {
        assert_eq!(escaped("a|b [x](y)"), "a\\|b \\[x\\]\\(y\\)");
        assert_eq!(code("a`b|c"), "`a'b'c`");
    }
}
