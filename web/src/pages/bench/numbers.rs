//! The kinds of numbers, each with a form and a word of its own, and the evidence for each.

use api::bench::{Evidence, EvidenceKind};
use leptos::prelude::*;
use presentation::pages::bench::figures::level;

/// If a loss ends at more than this multiple of its first value, data were damaged.
const DIVERGED: f64 = 1.5;

/// One number of a kind; a size to compare also has a bar.
pub fn number(kind: &'static str, text: String, title: String, share: Option<f64>) -> AnyView {
    view! {
        <span class=format!("kind {kind}") title=title>
            {bar(share)}
            <span class="kind-value">{text}</span>
            <span class="kind-name">{kind}</span>
        </span>
    }
    .into_any()
}

fn bar(share: Option<f64>) -> Option<AnyView> {
    let width = format!("{:.1}%", share? * 100.0);
    Some(
        view! {
            <span class="kind-track" aria-hidden="true">
                <span class="kind-fill" style:width=width></span>
            </span>
        }
        .into_any(),
    )
}

/// The class that gives a kind of number its colour and pattern.
fn class_of(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::Measured => "measured",
        EvidenceKind::EngineOnCard => "on-card",
        EvidenceKind::Published => "published",
    }
}

/// A number of another run, in a place where its evidence can already be opened.
pub fn told(known: &Evidence, text: String) -> AnyView {
    view! {
        <span class=format!("kind {}", class_of(known.kind)) title=known.source.clone()>
            <span class="kind-value">{text}</span>
            <span class="kind-name">{known.kind.word()}</span>
        </span>
    }
    .into_any()
}

/// A number of another run that opens its evidence.
pub fn evidence(known: &Evidence, text: String, share: Option<f64>) -> AnyView {
    let facts = facts(known).into_iter();
    let facts = facts.map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> });
    view! {
        <details class=format!("kind evidence {}", class_of(known.kind))>
            <summary>
                {bar(share)}
                <span class="kind-value">{text}</span>
                <span class="kind-name">{known.kind.word()}</span>
            </summary>
            <dl class="evidence-card">{facts.collect_view()}</dl>
        </details>
        {losses(known)}
    }
    .into_any()
}

/// The real run's loss, beside its memory: only the loss shows that data were damaged.
fn losses(known: &Evidence) -> Option<AnyView> {
    let losses = known.losses?;
    let text = format!("loss {:.3} → {:.3}", losses.first, losses.last);
    let class = match losses.last > DIVERGED * losses.first {
        true => "kind-loss bad-text",
        false => "kind-loss muted",
    };
    Some(view! { <span class=class>{text}</span> }.into_any())
}

/// The evidence for a number, line by line.
pub fn facts(known: &Evidence) -> Vec<(&'static str, String)> {
    let text = |name: &'static str, value: &Option<String>| value.clone().map(|v| (name, v));
    let losses = known.losses.map(|losses| {
        let (first, last) = (losses.first, losses.last);
        (
            "Loss",
            format!("{first:.3} at the first step, {last:.3} at the last"),
        )
    });
    [
        known
            .peak_allocated
            .map(|peak| ("Peak allocated", level(peak))),
        losses,
        text("Crash", &known.crash),
        text("Note", &known.note),
        known.steps.map(|steps| ("Steps", steps.to_string())),
        Some(("Source", known.source.clone())),
        text("File", &known.file),
        text("Machine", &known.machine),
        text("Program", &known.command),
        text("Date", &known.date),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a source says about the peak, in a few words. If it ran another number of steps, the text
/// says so, because a leak's peak grows with the steps.
pub fn peak_text(known: &Evidence, steps: Option<u32>) -> Option<String> {
    let Some(peak) = known.peak_allocated else {
        let ended = known.crash.as_ref().map(|_| "crashed".to_owned());
        let ended = ended.or(known.out_of_memory.then(|| "out of memory".to_owned()));
        return ended.or(known.note.clone());
    };
    let mut text = level(peak);
    if known.out_of_memory {
        text += ", out of memory";
    }
    match known.steps {
        Some(n) if steps.is_some_and(|own| own != n) => text += &format!(" ({n} steps)"),
        _ => {}
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::units::Bytes;

    #[test]
    fn a_peak_of_other_steps_says_so() {
        let known = |steps| Evidence {
            peak_allocated: Some(Bytes(10_741_697_536)),
            steps,
            ..Evidence::new(EvidenceKind::Measured, "TRL")
        };
        let check = |steps: Option<u32>, own: Option<u32>, expected: &str| {
            assert_eq!(peak_text(&known(steps), own).as_deref(), Some(expected));
        };
        check(Some(100), Some(100), "10.004 GiB");
        check(Some(100), Some(20), "10.004 GiB (100 steps)");
        check(None, Some(20), "10.004 GiB");
        let crashed = Evidence {
            crash: Some("raised".to_owned()),
            ..Evidence::new(EvidenceKind::Measured, "TRL")
        };
        assert_eq!(peak_text(&crashed, None).as_deref(), Some("crashed"));
    }
}
