//! The history of runs with the same labels, as a page.

use super::super::account::SignedIn;
use super::super::extract::{Query, labels_of};
use super::super::here::Here;
use super::super::history as answers;
use super::super::permits;
use super::super::shell::{date, page};
use super::chart::{Dot, Level, chart, levels};
use super::{known, leaks, marks};
use crate::problems::Error;
use api::history::{History, HistoryChange, HistoryRun, Measure};
use api::ids::RunId;
use api::labels::{Label, PARAMETER};
use api::leaks::Verdict;
use api::people::Scope;
use api::quality::told_peak;
use api::routes;
use axum::response::Response;
use maud::{Markup, html};
use std::collections::BTreeMap;
use trace::units::Bytes;

/// How many labels are offered to choose from.
const OFFERED: usize = 24;
/// How many further ones a browser may propose while somebody types.
const PROPOSED: usize = 1000;

/// The page.
pub async fn history(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Read)?;
    let labels = labels_of(&pairs)?;
    let history = answers::of(&app, labels.clone()).await?;
    let body = html! {
        p class="muted" {
            "Runs with the same labels: in the charts the oldest first, in the table the newest. A "
            "line is a level that lasts; where it steps, the number changed for good. The lower "
            "edge of a chart is zero. A large red dot is a run that leaks or ran out of memory."
        }
        @if !belong_together(&labels, &history.runs) {
            (choose_first(&history.runs))
        } @else {
            (of_labels(&labels, &history))
        }
    };
    Ok(page(&app, Some(&entry), "History", &body))
}

/// Whether the runs have something in common: the labels that were asked for, or one that all of
/// them have. Levels of unrelated runs would tell nothing.
fn belong_together(chosen: &[Label], runs: &[HistoryRun]) -> bool {
    let Some((first, others)) = runs.split_first() else {
        return !chosen.is_empty();
    };
    let is_shared = |(key, value): (&String, &String)| {
        makes_history(key) && others.iter().all(|run| run.labels.get(key) == Some(value))
    };
    !chosen.is_empty() || first.labels.iter().any(is_shared)
}

/// Whether runs with this label make a history. A commit belongs to one run.
fn makes_history(key: &str) -> bool {
    key != "commit"
}

/// Asks for a label; without one, the runs have nothing in common.
fn choose_first(runs: &[HistoryRun]) -> Markup {
    html! {
        h2 { "Which runs?" }
        @if runs.iter().any(|run| run.labels.keys().any(|key| makes_history(key))) {
            p { "Choose a label that the runs of one history have." }
            (chooser(&[], runs))
        } @else {
            p {
                "No run has a label yet. " code { "tidemark push FILE --label config=a" }
                " gives one; so does the link beside the name on the page of a run."
            }
        }
    }
}

fn of_labels(labels: &[Label], history: &History) -> Markup {
    html! {
        p { a href=(routes::save_view_page(&routes::history_page(labels))) { "Save this view" } }
        (chooser(labels, &history.runs))
        @if history.runs.is_empty() {
            p {
                "No run has these labels. " code { "tidemark push FILE --label config=a" }
                " gives some."
            }
        } @else {
            (changes(history))
            @for measure in Measure::ALL { (measured(history, measure)) }
            (rows(&history.runs))
        }
    }
}

/// The chosen labels, which can be removed, and the labels of these runs, which can be added.
fn chooser(chosen: &[Label], runs: &[HistoryRun]) -> Markup {
    let mut counted: BTreeMap<Label, usize> = BTreeMap::new();
    for run in runs {
        for (key, value) in &run.labels {
            if let Ok(label) = Label::new(key, value)
                && makes_history(key)
                && !chosen.contains(&label)
            {
                *counted.entry(label).or_default() += 1;
            }
        }
    }
    let mut offered: Vec<(Label, usize)> = counted.into_iter().collect();
    offered.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let others = offered.split_off(offered.len().min(OFFERED));
    let without = |gone: &Label| {
        let rest = chosen.iter().filter(|label| *label != gone);
        routes::history_page(&rest.cloned().collect::<Vec<_>>())
    };
    let with = |more: &Label| {
        let all = chosen.iter().chain([more]);
        routes::history_page(&all.cloned().collect::<Vec<_>>())
    };
    html! {
        p class="account-row" {
            @for label in chosen {
                a class="button" href=(without(label)) aria-label={ "Without " (label) } {
                    (label) " ×"
                }
            }
            @for (label, n) in &offered {
                a href=(with(label)) { (label) } span class="muted" { "(" (n) ")" }
            }
            @if !others.is_empty() { span class="muted" { "and " (others.len()) " more" } }
        }
        @if !others.is_empty() { (by_name(chosen, &others)) }
    }
}

/// A field for one of the labels that are not offered: there may be one for each pull request.
fn by_name(chosen: &[Label], others: &[(Label, usize)]) -> Markup {
    html! {
        form class="account-row" method="get" action=(routes::HISTORY_PAGE) {
            @for label in chosen { input type="hidden" name=(PARAMETER) value=(label); }
            label for="other" { "Another label" }
            input id="other" class="input" name=(PARAMETER) required list="others"
                autocomplete="off" placeholder="key=value";
            datalist id="others" {
                @for (label, _) in others.iter().take(PROPOSED) { option value=(label); }
            }
            button class="button" type="submit" { "Add" }
        }
    }
}

fn position(runs: &[HistoryRun], id: &RunId) -> usize {
    runs.iter().position(|run| run.run == *id).unwrap_or(0)
}

/// The lasting changes, in words, the newest first.
fn changes(history: &History) -> Markup {
    let run = |id: &RunId| &history.runs[position(&history.runs, id)];
    let level = |change: &HistoryChange, level: Bytes, id: &RunId| match change.measure {
        Measure::Peak => told_peak(level, &run(id).quality),
        _ => level.to_string(),
    };
    html! {
        @if history.changes.is_empty() {
            p { "Nothing changed for good." }
        } @else {
            h2 { "What changed for good" }
            ul class="trend-changes" { @for change in history.changes.iter().rev() { li {
                a href=(routes::compare_page(&[change.before.clone(), change.first.clone()])) {
                    "Since " (run(&change.first).called())
                }
                ": " (change.measure.label()) " " (level(change, change.from, &change.before))
                " → " strong { (level(change, change.to, &change.first)) }
                (lasting(change))
                (marks(run(&change.first)))
            } } }
        }
    }
}

fn lasting(change: &HistoryChange) -> &'static str {
    match change.runs {
        1 => ", seen once",
        _ => "",
    }
}

fn measured(history: &History, measure: Measure) -> Markup {
    let runs = &history.runs;
    let dots: Vec<Dot> = runs
        .iter()
        .map(|run| Dot {
            name: run.called(),
            href: routes::run_page(&run.run),
            value: known(run, measure),
            bad: run.out_of_memory || run.verdict == Some(Verdict::Leak),
        })
        .collect();
    let of_measure = history.changes.iter().filter(|c| c.measure == measure);
    let steps: Vec<(usize, Bytes, Bytes)> = of_measure
        .map(|change| (position(runs, &change.first), change.from, change.to))
        .collect();
    let found: Vec<Level> = levels(runs.len(), &steps, usual(&dots));
    chart(measure.label(), &dots, &found)
}

/// The common level of runs without changes.
fn usual(dots: &[Dot]) -> Option<Bytes> {
    trace::median::lower(dots.iter().filter_map(|dot| dot.value.level()))
}

fn rows(runs: &[HistoryRun]) -> Markup {
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr { th { "Run" } th { "Added" }
                @for number in ["Peak", "End", "Leak a step"] {
                    th class="account-number" { (number) }
                }
                th { "Verdict" } } }
            tbody { @for run in runs.iter().rev() { tr {
                td { a href=(routes::run_page(&run.run)) { (run.called()) } }
                td { (date(run.created_ms)) }
                td class="account-number" data-label="Peak" {
                    (run.peak()) @if run.out_of_memory { " (out of memory)" } (marks(run))
                }
                td class="account-number" data-label="End" { (run.end) }
                td class="account-number" data-label="Leak a step" {
                    (run.leaked().unwrap_or("–".to_owned()))
                }
                td data-label="Verdict" { (leaks(run.verdict)) }
            } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(labels: &[(&str, &str)]) -> HistoryRun {
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        HistoryRun {
            run: "run_a".parse().unwrap(),
            name: "a".to_owned(),
            labels: labels.collect(),
            created_ms: 0,
            peak: Bytes(1),
            end: Bytes(1),
            growth: None,
            growth_device: None,
            step: "step".to_owned(),
            unused: Bytes(0),
            out_of_memory: false,
            quality: Vec::new(),
            verdict: None,
        }
    }

    #[test]
    fn runs_belong_together_by_a_label() {
        let (a, b) = (("config", "a"), ("config", "b"));
        let main = ("branch", "main");
        let apart = [run(&[a, main]), run(&[b, main, ("x", "y")]), run(&[])];
        assert!(!belong_together(&[], &apart));
        assert!(belong_together(&[], &apart[..2]), "the branch");
        let label = Label::new("config", "a").unwrap();
        assert!(belong_together(&[label], &apart));
        let commit = [run(&[("commit", "c0ffee")])];
        assert!(!belong_together(&[], &commit), "of one run");
        assert!(!belong_together(&[], &[]));
    }

    #[test]
    fn a_run_that_is_not_whole_is_marked() {
        let cut = HistoryRun {
            quality: vec!["ring_wrapped".to_owned(), "no_stacks".to_owned()],
            ..run(&[])
        };
        let html = rows(&[run(&[]), cut]).into_string();
        assert_eq!(html.matches("badge caution").count(), 1, "{html}");
        assert!(html.contains("history cut"), "{html}");
    }

    #[test]
    fn of_a_state_no_peak_is_told() {
        let state = HistoryRun {
            quality: vec!["state_only".to_owned()],
            peak: Bytes::mib(520),
            end: Bytes::mib(520),
            unused: Bytes::gib(4),
            ..run(&[])
        };
        let history = History {
            runs: vec![run(&[]), state],
            changes: Vec::new(),
            project: None,
        };
        let charts = Measure::ALL.map(|measure| measured(&history, measure).into_string());
        let says = [
            "now at least 520 MiB, the highest at least 520 MiB",
            "now 520 MiB, at most 520 MiB",
            "cannot tell",
            "now cannot tell, at most 0 B",
        ];
        for (chart, says) in charts.iter().zip(says) {
            assert!(chart.contains(says), "{chart}");
        }
        let fell = HistoryChange {
            measure: Measure::Peak,
            before: "run_b".parse().unwrap(),
            first: "run_a".parse().unwrap(),
            from: Bytes::gib(2),
            to: Bytes::mib(520),
            runs: 1,
        };
        let mut before = run(&[]);
        before.run = "run_b".parse().unwrap();
        let state = history.runs[1].clone();
        let fallen = History {
            runs: vec![before, state],
            changes: vec![fell],
            project: None,
        };
        let html = changes(&fallen).into_string();
        let says = "peak 2.00 GiB → <strong>at least 520 MiB</strong>";
        assert!(html.contains(says), "{html}");
    }

    #[test]
    fn labels_that_are_not_offered_can_be_typed() {
        let few = [run(&[("branch", "main"), ("config", "a")])];
        assert!(!chooser(&[], &few).into_string().contains("<form"));
        let values: Vec<String> = (10..50).map(|n| n.to_string()).collect();
        let runs: Vec<HistoryRun> = values.iter().map(|n| run(&[("pr", n.as_str())])).collect();
        let html = chooser(&[Label::new("branch", "main").unwrap()], &runs).into_string();
        assert!(html.contains("and 16 more"), "{html}");
        assert_eq!(html.matches("<option").count(), 16, "{html}");
        assert!(html.contains("<option value=\"pr=49\">"), "{html}");
        let kept = "<input type=\"hidden\" name=\"label\" value=\"branch=main\">";
        assert!(html.contains(kept), "{html}");
    }

    #[test]
    fn without_a_label_one_is_asked_for() {
        let html = choose_first(&[run(&[("config", "a")])]).into_string();
        assert!(html.contains("Choose a label"), "{html}");
        assert!(html.contains("config=a"), "{html}");
        let html = choose_first(&[run(&[("commit", "c0ffee")])]).into_string();
        assert!(html.contains("No run has a label yet"), "{html}");
    }
}
