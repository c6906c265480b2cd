//! The history of runs with the same labels, as a page.

use super::super::account::SignedIn;
use super::super::extract::{Query, labels_of};
use super::super::here::Here;
use super::super::history as answers;
use super::super::permits;
use super::super::shell::{date, page};
use super::chart::{Dot, Level, Part, chart, levels};
use super::{known, leaks, marks, wrong};
use crate::problems::Error;
use api::bench::Fault;
use api::history::{History, HistoryChange, HistoryRun, Measure};
use api::ids::RunId;
use api::labels::{Label, PARAMETER};
use api::leaks::Verdict;
use api::people::Scope;
use api::quality::told_peak;
use api::routes;
use axum::response::Response;
use maud::{Markup, html};
use timeline::format::count;
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
    let (labels, before) = (labels_of(&pairs)?, answers::before_of(&pairs)?);
    let part = match before {
        None => Part::Newest,
        Some(_) => Part::Older,
    };
    let history = answers::of(&app, labels.clone(), before).await?;
    let wanted = labels.clone();
    let counted = app.store.read(move |reader| reader.history_labels(&wanted));
    let offered = offered(&labels, counted.await?);
    let body = html! {
        p class="muted" {
            "Runs with the same labels: in the charts the oldest first, in the table the newest. A "
            "line is a level that lasts; where it steps, the number changed for good. The lower "
            "edge of a chart is zero. A large red dot is a run that leaks, ran out of memory, or "
            "went wrong in its bench."
        }
        @if !belong_together(&labels, &history.runs) {
            (choose_first(&offered))
        } @else {
            (of_labels(&labels, &offered, part, &history))
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
fn choose_first(offered: &[(Label, u32)]) -> Markup {
    html! {
        h2 { "Which runs?" }
        @if !offered.is_empty() {
            p { "Choose a label that the runs of one history have." }
            (chooser(&[], offered))
        } @else {
            p {
                "No run has a label yet. " code { "tidemark push FILE --label config=a" }
                " gives one; so does the link beside the name on the page of a run."
            }
        }
    }
}

fn of_labels(labels: &[Label], offered: &[(Label, u32)], part: Part, history: &History) -> Markup {
    html! {
        p { a href=(routes::save_view_page(&routes::history_page(labels))) { "Save this view" } }
        (chooser(labels, offered))
        (which_part(labels, part, history))
        @if history.runs.is_empty() && part == Part::Older {
            p { "There are no older runs." }
        } @else if history.runs.is_empty() {
            p {
                "No run has these labels. " code { "tidemark push FILE --label config=a" }
                " gives some."
            }
        } @else {
            (changes(history))
            @for measure in Measure::ALL { (measured(history, part, measure)) }
            (rows(&history.runs))
        }
    }
}

/// How many of the runs these are, where they are not all, and the way to the others.
fn which_part(labels: &[Label], part: Part, history: &History) -> Markup {
    let [shown, all] = [history.runs.len() as u64, u64::from(history.total)].map(count);
    let newest = routes::history_page(labels);
    let older = (history.older.as_ref()).map(|run| routes::before(&newest, run));
    html! {
        @if part == Part::Older || older.is_some() {
            p {
                @match part {
                    Part::Newest => { "The newest " (shown) " of " (all) " runs." }
                    Part::Older => { "Older runs: " (shown) " of " (all) "." }
                }
            }
            nav class="account-row" aria-label="Parts of the history" {
                @if part == Part::Older { a href=(newest) { "Newest" } }
                @if let Some(older) = &older { a href=(older) { "Older" } }
            }
        }
    }
}

/// Of the labels of all runs of a history, with their numbers, those that can be added.
fn offered(chosen: &[Label], mut counted: Vec<(Label, u32)>) -> Vec<(Label, u32)> {
    counted.retain(|(label, _)| makes_history(&label.key) && !chosen.contains(label));
    counted
}

/// The chosen labels, which can be removed, and those that can be added, the most usual first.
fn chooser(chosen: &[Label], offered: &[(Label, u32)]) -> Markup {
    let (offered, others) = offered.split_at(offered.len().min(OFFERED));
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
            @for (label, n) in offered {
                a href=(with(label)) { (label) } span class="muted" { "(" (n) ")" }
            }
            @if !others.is_empty() { span class="muted" { "and " (others.len()) " more" } }
        }
        @if !others.is_empty() { (by_name(chosen, others)) }
    }
}

/// A field for one of the labels that are not offered: there may be one for each pull request.
fn by_name(chosen: &[Label], others: &[(Label, u32)]) -> Markup {
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

fn measured(history: &History, part: Part, measure: Measure) -> Markup {
    let runs = &history.runs;
    let dots: Vec<Dot> = runs
        .iter()
        .map(|run| Dot {
            name: told(run),
            href: routes::run_page(&run.run),
            value: known(run, measure),
            bad: is_bad(run),
        })
        .collect();
    let of_measure = history.changes.iter().filter(|c| c.measure == measure);
    let steps: Vec<(usize, Bytes, Bytes)> = of_measure
        .map(|change| (position(runs, &change.first), change.from, change.to))
        .collect();
    let found: Vec<Level> = levels(runs.len(), &steps, usual(&dots));
    chart(measure.label(), &dots, part, &found)
}

/// What a run is called, with what went wrong in it.
fn told(run: &HistoryRun) -> String {
    let name = run.called();
    match Fault::in_words(&run.went_wrong()) {
        none if none.is_empty() => name,
        wrong => format!("{name} ({wrong})"),
    }
}

/// Whether a run is one to look at.
fn is_bad(run: &HistoryRun) -> bool {
    !run.went_wrong().is_empty() || run.verdict == Some(Verdict::Leak)
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
                    (run.peak()) (wrong(run)) (marks(run))
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
            faults: Vec::new(),
            quality: Vec::new(),
            verdict: None,
        }
    }

    fn of_runs(runs: Vec<HistoryRun>) -> History {
        History {
            total: runs.len() as u32,
            older: None,
            runs,
            changes: Vec::new(),
            project: None,
        }
    }

    fn label(text: &str) -> Label {
        text.parse().unwrap()
    }

    #[test]
    fn a_history_that_is_longer_says_so_and_leads_to_the_rest() {
        let main = [label("branch=main")];
        let told = |part, total, older: Option<&str>| {
            let history = History {
                total,
                older: older.map(|run| run.parse().unwrap()),
                ..of_runs(vec![run(&[]), run(&[])])
            };
            which_part(&main, part, &history).into_string()
        };
        assert_eq!(told(Part::Newest, 2, None), "", "these are all");
        let newest = told(Part::Newest, 1600, Some("run_b"));
        assert!(newest.contains("The newest 2 of 1,600 runs."), "{newest}");
        let link = "/history?label=branch%3Dmain&amp;before=run_b\">Older<";
        assert!(
            newest.contains(link) && !newest.contains(">Newest<"),
            "{newest}"
        );
        let oldest = told(Part::Older, 1600, None);
        assert!(oldest.contains("Older runs: 2 of 1,600."), "{oldest}");
        assert!(
            oldest.contains("/history?label=branch%3Dmain\">Newest<"),
            "{oldest}"
        );
        assert!(!oldest.contains(">Older<"), "{oldest}");
    }

    #[test]
    fn what_was_chosen_and_a_commit_is_not_offered() {
        let counted = ["branch=main", "config=a", "commit=c0ffee"].map(|text| (label(text), 3));
        let left = offered(&[label("branch=main")], counted.to_vec());
        assert_eq!(left, [(label("config=a"), 3)]);
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
    fn a_bench_run_that_went_wrong_is_marked() {
        let ended = |faults: &[Fault]| HistoryRun {
            faults: faults.to_vec(),
            ..run(&[])
        };
        assert!(!is_bad(&ended(&[])));
        assert!(is_bad(&ended(&[Fault::Corruption])));
        assert_eq!(told(&ended(&[])), "a");
        assert_eq!(
            told(&ended(&Fault::ALL[1..])),
            "a (crashed, corrupted data)"
        );
        let html = rows(&[ended(&[]), ended(&Fault::ALL[1..])]).into_string();
        for label in ["crashed", "corrupted data"] {
            let badge = format!("<span class=\"badge bad\">{label}</span>");
            assert_eq!(html.matches(&badge).count(), 1, "{html}");
        }
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
        let history = of_runs(vec![run(&[]), state]);
        let charts = Measure::ALL.map(|measure| {
            let chart = measured(&history, Part::Newest, measure);
            chart.into_string()
        });
        let says = [
            "now at least 520 MiB, the highest at least 520 MiB",
            "now 520 MiB, at most 520 MiB",
            "cannot tell",
            "now cannot tell, at most 0 B",
        ];
        for (chart, says) in charts.iter().zip(says) {
            assert!(chart.contains(says), "{chart}");
        }
        let older = measured(&history, Part::Older, Measure::End).into_string();
        assert!(older.contains("last 520 MiB, at most"), "{older}");
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
            changes: vec![fell],
            ..of_runs(vec![before, state])
        };
        let html = changes(&fallen).into_string();
        let says = "peak 2.00 GiB → <strong>at least 520 MiB</strong>";
        assert!(html.contains(says), "{html}");
    }

    #[test]
    fn labels_that_are_not_offered_can_be_typed() {
        let few = [(label("branch=main"), 1), (label("config=a"), 1)];
        assert!(!chooser(&[], &few).into_string().contains("<form"));
        let many = (10..50).map(|n| (label(&format!("pr={n}")), 1));
        let many: Vec<(Label, u32)> = many.collect();
        let html = chooser(&[label("branch=main")], &many).into_string();
        assert!(html.contains("and 16 more"), "{html}");
        assert_eq!(html.matches("<option").count(), 16, "{html}");
        assert!(html.contains("<option value=\"pr=49\">"), "{html}");
        let kept = "<input type=\"hidden\" name=\"label\" value=\"branch=main\">";
        assert!(html.contains(kept), "{html}");
    }

    #[test]
    fn without_a_label_one_is_asked_for() {
        let html = choose_first(&[(label("config=a"), 1)]).into_string();
        assert!(html.contains("Choose a label"), "{html}");
        assert!(html.contains("config=a"), "{html}");
        let html = choose_first(&[]).into_string();
        assert!(html.contains("No run has a label yet"), "{html}");
    }
}
