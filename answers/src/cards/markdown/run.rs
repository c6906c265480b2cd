//! A run as Markdown.

use super::{Links, Names, code, escaped};
use crate::cards::RunCard;
use std::fmt::Write;
use timeline::card::{Card, MAX_SITES};

/// The block, with links if there is a page that its readers can open.
pub fn run(run: &RunCard, links: Option<&Links>, names: Names) -> String {
    let RunCard { card, memory, .. } = run;
    let mut out = match names {
        Names::Told => format!("### {memory}: {}\n\n", escaped(&card.title)),
        Names::Withheld => format!("### {memory}\n\n"),
    };
    for [fault, about] in &run.faults {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "**{fault}.** {}\n", escaped(about));
    }
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
    if let Some((name, growth)) = &run.growth {
        let _ = writeln!(out, "| {name} | {growth} | |");
    }
    let (verdict, reason) = &run.verdict;
    let _ = writeln!(out, "\n**{verdict}.** {}", escaped(reason));
    if let Some(oom) = &run.out_of_memory {
        let _ = write!(out, "\n**Out of memory.** {}", oom.said);
        let asker = oom.asker.as_ref().filter(|_| names == Names::Told);
        let _ = match asker {
            Some(asker) => writeln!(out, " Asked by {}.", code(asker)),
            None => writeln!(out),
        };
    }
    if !card.at_peak.is_empty() {
        let _ = writeln!(out, "\n{}.", card.at_peak);
    }
    if names == Names::Told {
        tell(&mut out, card);
    }
    if let Some(links) = links {
        out.push('\n');
        out += &links.lines("Open in Tidemark", names);
    }
    out
}

fn tell(out: &mut String, card: &Card) {
    if !card.sites.is_empty() {
        let _ = writeln!(out, "\n{}:\n", escaped(&card.sites_title));
    }
    for (amount, place) in card.sites.iter().take(MAX_SITES) {
        let _ = writeln!(out, "1. **{amount}** {}", code(place));
    }
}
