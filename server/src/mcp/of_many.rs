//! Answers about two recordings, and about what a dashboard holds.

use super::answer::{Answer, Page, Row, document};
use super::arguments::{OfRuns, OfTwo};
use super::asker::{Asker, Refusal};
use super::library::{MOST_RUNS, Recording};
use answers::benched;
use answers::cards::{markdown, place_among};
use api::bench::Fault;
use api::compare::{Against, ComparedRun, Comparison};
use api::leaks::Verdict;
use api::quality::is_least;
use api::runs::RunSummary;
use serde_json::{Value, json};
use timeline::format::doing;
use trace::compare::Difference;
use trace::compare::gate::Limits;
use trace::compare::profile::Profile;
use trace::compare::words::signed;
use trace::steps::Word;
use trace::trace::Series;

pub(super) fn compare(asker: Asker<'_>, asked: OfTwo) -> Result<Page, Refusal> {
    let [base, new] = [&asked.base, &asked.new].map(|name| {
        let recording = asker.recording(name)?;
        let profile = Profile::judged_while(recording.trace(), asker.watch, asker.watch)?;
        Ok::<_, Refusal>((profile, recording))
    });
    let ((base, base_of), (new, new_of)) = (base?, new?);
    let held = base.heap_bytes() + new.heap_bytes();
    let watch = asker.watch.beside(held);
    let recorded = Against::while_watched(&base, &new, &Limits::default(), watch)?;
    let rows = [&base_of, &new_of].map(|recording| recording.bench_row.as_ref());
    let against = benched::laid_over(&recorded, rows[0], rows[1]).unwrap_or(recorded);
    let comparison = Comparison {
        runs: vec![compared(base_of, &base), compared(new_of, &new)],
        against: vec![against],
    };
    let mut answer = Answer {
        text: markdown::comparison(&comparison, None),
        ..Answer::default()
    };
    let against = &comparison.against[0];
    answer.field(
        "gate",
        &json!({
            "outcome": against.gate.outcome, "reason": against.gate.reason,
        }),
    );
    let Some(difference) = against.difference() else {
        return Ok(answer.page(asked.offset));
    };
    answer.field("device", &difference.new.device);
    let others = against.others().take(OTHER_DEVICES);
    let others: Vec<Value> = others.map(changed_device).collect();
    answer.field("other_devices", &others);
    answer.field("change", &difference.change);
    answer.field("headline", &difference.headline);
    answer.field("leaks", &difference.leaks);
    answer.field("conditions", &difference.conditions);
    for (name, series) in [
        ("allocated", Series::Allocated),
        ("reserved", Series::Reserved),
    ] {
        answer.field(name, difference.series(series));
    }
    answer.field("peak_is_least", &peak_is_least(difference));
    let sites = difference.sites.iter().map(|site| {
        let place = place_among(site, &difference.sites);
        let text = format!(
            "{} at its own peak, {} at the peak of the run, {} at the end: {}\n",
            signed(site.peak as f64),
            signed(site.at_peak as f64),
            signed(site.at_end as f64),
            place
        );
        let value = json!({
            "place": place, "change": site.change, "peak": site.peak,
            "at_peak": site.at_peak, "end": site.at_end,
        });
        Row::new(text, &value)
    });
    answer.rows = sites.collect();
    Ok(answer.page(asked.offset))
}

/// Devices told besides the one whose places are listed.
const OTHER_DEVICES: usize = 15;

/// A device besides the one whose places are listed.
fn changed_device(difference: &Difference) -> Value {
    json!({
        "device": difference.new.device, "change": difference.change,
        "headline": difference.headline, "leaks": difference.leaks,
        "allocated": difference.series(Series::Allocated),
        "reserved": difference.series(Series::Reserved),
        "peak_is_least": peak_is_least(difference),
    })
}

/// Whether the peaks of the runs are only known to be no lower. Then their difference is a bound.
fn peak_is_least(difference: &Difference) -> Value {
    json!({ "base": difference.base.is_least(), "new": difference.new.is_least() })
}

fn compared(recording: Recording, profile: &Profile) -> ComparedRun {
    ComparedRun {
        id: recording.place.map(|place| place.run),
        name: recording.name,
        torch: profile.torch.clone(),
    }
}

pub(super) fn runs(asker: Asker<'_>, asked: OfRuns) -> Result<Page, Refusal> {
    let wanted = asked.name.to_lowercase();
    let mut runs = asker.recordings.runs()?;
    let mut answer = Answer::default();
    if runs.len() >= MOST_RUNS as usize {
        answer.text += &format!("Of the newest {MOST_RUNS} runs:\n");
    }
    // A rank is also found by the name of its file.
    let has = |name: &str| name.to_lowercase().contains(&wanted);
    runs.retain(|run| has(&run.name) || has(&run.called()));
    if runs.is_empty() {
        answer.text += "No run has such a name.\n";
    }
    answer.rows = runs.iter().map(run_row).collect();
    Ok(answer.page(asked.offset))
}

fn run_row(run: &RunSummary) -> Row {
    let verdict = run.leaks.as_ref().map(|leaks| leaks.verdict);
    let leaks = match verdict {
        Some(Verdict::Leak) => ", leaks",
        Some(Verdict::Clean) => ", no leak",
        Some(Verdict::CannotTell) => ", leaks: cannot tell",
        None => "",
    };
    let wrong = run.went_wrong();
    let failing = match Fault::in_words(&wrong) {
        none if none.is_empty() => none,
        words => format!(", {words}"),
    };
    let (id, name, steps) = (&run.id, &run.name, run.steps);
    let word = run
        .leaks
        .as_ref()
        .map_or(Word::Step, |leaks| Word::called(&leaks.step));
    let of = doing(u64::from(steps), word.one(), word.many());
    let (called, peak) = (run.called(), run.peak());
    let text = format!("{id}  {called}: peak {peak}, {of}{leaks}{failing}\n");
    let mut told = document(&run.leaks);
    if verdict == Some(Verdict::CannotTell) {
        told["bytes_per_step"] = Value::Null;
    }
    let value = json!({
        "id": id, "name": name, "created_ms": run.created_ms,
        "peak_allocated": run.peak_allocated, "peak_is_least": is_least(&run.quality),
        "steps": steps, "leaks": told, "out_of_memory": wrong.contains(&Fault::OutOfMemory),
        "faults": wrong, "quality": run.quality, "job": run.job,
    });
    Row::new(text, &value)
}
