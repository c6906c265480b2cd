//! The badge of a saved view of a history: how the newest run stands, as a small picture for a page
//! elsewhere. Programs that show such a picture cannot sign in, so its address is all that it
//! needs; it tells numbers, and no names.

use super::super::extract::{Client, Path, labels_of};
use super::super::history;
use crate::app::App;
use crate::limits::asking::Asker;
use crate::problems::Error;
use api::bench::Fault;
use api::history::{History, HistoryChange, Measure};
use api::ids::ViewId;
use api::leaks::Verdict;
use api::routes;
use api::views::View;
use axum::extract::{Query, State};
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use std::sync::Arc;
use timeline::scene::text_width;
use trace::leaks;
use trace::steps::Word;

/// What stands on the left.
const SUBJECT: &str = "GPU memory";
/// Sizes in pixels.
const HEIGHT: i32 = 20;
const LETTERS: f64 = 11.0;
const PAD: i32 = 6;

/// What a badge says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Standing {
    words: String,
    tone: Tone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Good,
    Bad,
    /// Nothing is known that is good or bad.
    Plain,
}

impl Tone {
    /// White letters on it have a contrast of at least 4.5.
    const fn colour(self) -> &'static str {
        match self {
            Tone::Good => "#2c7a33",
            Tone::Bad => "#b3261e",
            Tone::Plain => "#5a6572",
        }
    }
}

/// The picture.
pub async fn badge(
    State(main): State<Arc<App>>,
    client: Client,
    Path(view): Path<String>,
) -> Result<Response, Error> {
    let unknown = || Error::NotFound(format!("badge of a view {view}"));
    let id: ViewId = view.parse().map_err(|_| unknown())?;
    let (app, saved) = find(&main, id).await?.ok_or_else(unknown)?;
    let address = Some(saved).filter(|view| has_badge(&view.path));
    let address: Uri = address
        .and_then(|view| view.path.parse().ok())
        .ok_or_else(unknown)?;
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(&address);
    let Query(pairs) = pairs.map_err(|_| unknown())?;
    let labels = labels_of(&pairs)?;
    // Nobody signs in for it, so it has the places of cards, and is drawn again only after
    // something has changed.
    let key = format!("badge {} {address} {}", app.project, app.store.commits());
    let draw = async {
        let history = history::of(&app, labels, None).await?;
        Ok::<_, Error>(picture(&standing(&history)).into_string().into_bytes())
    };
    let shelf = app.cards.of(Asker::Link);
    let svg = shelf.get(&key, client.address, draw).await?;
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        // Programs that show it in the name of others keep it for weeks unless they are told.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    Ok((headers, svg.to_vec()).into_response())
}

/// A view, and the project that it is in.
async fn find(main: &Arc<App>, id: ViewId) -> Result<Option<(Arc<App>, View)>, Error> {
    for app in main.projects.all_open(main) {
        let id = id.clone();
        if let Some(view) = app.store.read(move |reader| reader.view(&id)).await? {
            return Ok(Some((app, view)));
        }
    }
    Ok(None)
}

/// Whether a view is of a history: others have no badge.
pub fn has_badge(path: &str) -> bool {
    let page = path.split(['?', '#']).next();
    page == Some(routes::HISTORY_PAGE)
}

/// How the newest run stands.
fn standing(history: &History) -> Standing {
    let said = |words: String, tone| Standing { words, tone };
    let Some(newest) = history.runs.last() else {
        return said("no runs".to_owned(), Tone::Plain);
    };
    let wrong = newest.went_wrong();
    if !wrong.is_empty() {
        return said(Fault::in_words(&wrong), Tone::Bad);
    }
    if newest.verdict == Some(Verdict::Leak) {
        let word = Word::called(&newest.step);
        let words = newest.growth.map(|bytes| leaks::in_words(bytes, word));
        return said(words.unwrap_or("leaks".to_owned()), Tone::Bad);
    }
    let rises = |change: &&HistoryChange| {
        change.measure == Measure::Peak && change.first == newest.run && change.to > change.from
    };
    if let Some(change) = history.changes.iter().find(rises) {
        let words = format!("peak {}, was {}", newest.peak(), change.from);
        return said(words, Tone::Bad);
    }
    match newest.verdict {
        Some(Verdict::Clean) => said(format!("peak {}, no leak", newest.peak()), Tone::Good),
        _ => said(format!("peak {}", newest.peak()), Tone::Plain),
    }
}

fn picture(standing: &Standing) -> Markup {
    let widths = [SUBJECT, &standing.words].map(|text| text_width(text, LETTERS) + 2 * PAD);
    let [left, right] = widths;
    let label = format!("{SUBJECT}: {}", standing.words);
    let half = |x: i32, width: i32, colour: &str, text: &str| {
        html! {
            rect x=(x) width=(width) height=(HEIGHT) fill=(colour) {}
            text x=(x + width / 2) y="14" { (text) }
        }
    };
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(left + right) height=(HEIGHT) role="img"
            aria-label=(label) {
            title { (label) }
            clipPath id="r" { rect width=(left + right) height=(HEIGHT) rx="3" {} }
            g clip-path="url(#r)" fill="#fff" text-anchor="middle" font-size=(LETTERS)
                font-family="Verdana, 'DejaVu Sans', Geneva, sans-serif" {
                (half(0, left, "#3c4650", SUBJECT))
                (half(left, right, standing.tone.colour(), &standing.words))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::history::HistoryRun;
    use trace::units::Bytes;

    fn run(name: &str, verdict: Option<Verdict>) -> HistoryRun {
        HistoryRun {
            run: format!("run_{name}").parse().unwrap(),
            name: name.to_owned(),
            created_ms: 0,
            labels: Default::default(),
            peak: Bytes::gib(3),
            end: Bytes::gib(1),
            growth: Some(Bytes::mib(62)),
            growth_device: None,
            step: "step".to_owned(),
            unused: Bytes::ZERO,
            verdict,
            out_of_memory: false,
            faults: Vec::new(),
            quality: Vec::new(),
        }
    }

    fn says(runs: Vec<HistoryRun>, changes: Vec<HistoryChange>, words: &str, tone: Tone) {
        let words = words.to_owned();
        let found = standing(&History {
            total: runs.len() as u32,
            older: None,
            runs,
            changes,
            project: None,
        });
        assert_eq!(found, Standing { words, tone });
    }

    #[test]
    fn the_newest_run_speaks() {
        let [leaks, clean, unknown] = [Verdict::Leak, Verdict::Clean, Verdict::CannotTell];
        says(vec![], vec![], "no runs", Tone::Plain);
        let both = vec![run("a", Some(leaks)), run("b", Some(clean))];
        says(both, vec![], "peak 3.00 GiB, no leak", Tone::Good);
        let both = vec![run("a", Some(clean)), run("b", Some(leaks))];
        says(both, vec![], "leaks 62.0 MiB a step", Tone::Bad);
        says(
            vec![run("a", Some(unknown))],
            vec![],
            "peak 3.00 GiB",
            Tone::Plain,
        );
        says(vec![run("a", None)], vec![], "peak 3.00 GiB", Tone::Plain);
        let mut serves = run("a", Some(leaks));
        serves.step = "request".to_owned();
        let told = "leaks 62.0 MiB a request";
        says(vec![serves.clone()], vec![], told, Tone::Bad);
        serves.growth = Some(Bytes::ZERO);
        let told = "leaks within each request";
        says(vec![serves.clone()], vec![], told, Tone::Bad);
        serves.growth = None;
        says(vec![serves], vec![], "leaks", Tone::Bad);
        let mut out = run("a", Some(leaks));
        out.out_of_memory = true;
        says(vec![out.clone()], vec![], "out of memory", Tone::Bad);
        out.faults = vec![Fault::Corruption];
        let told = "out of memory, corrupted data";
        says(vec![out], vec![], told, Tone::Bad);
        let mut crashed = run("a", Some(clean));
        crashed.faults = vec![Fault::Crash];
        says(vec![crashed], vec![], "crashed", Tone::Bad);
    }

    #[test]
    fn only_a_rise_at_the_newest_run_is_told() {
        let runs = || vec![run("a", None), run("b", Some(Verdict::Clean))];
        let change = |first: &str, from: u64| HistoryChange {
            measure: Measure::Peak,
            before: "run_z".parse().unwrap(),
            first: format!("run_{first}").parse().unwrap(),
            from: Bytes::gib(from),
            to: Bytes::gib(3),
            runs: 1,
        };
        says(
            runs(),
            vec![change("b", 2)],
            "peak 3.00 GiB, was 2.00 GiB",
            Tone::Bad,
        );
        says(
            runs(),
            vec![change("b", 4)],
            "peak 3.00 GiB, no leak",
            Tone::Good,
        );
        says(
            runs(),
            vec![change("a", 2)],
            "peak 3.00 GiB, no leak",
            Tone::Good,
        );
    }

    #[test]
    fn the_picture_says_it_in_words_too() {
        let standing = Standing {
            words: "peak <3> GiB".to_owned(),
            tone: Tone::Good,
        };
        let svg = picture(&standing).into_string();
        assert!(
            svg.contains("aria-label=\"GPU memory: peak &lt;3&gt; GiB\""),
            "{svg}"
        );
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
    }

    #[test]
    fn only_histories_have_one() {
        assert!(has_badge("/history?label=branch%3Dmain"));
        assert!(has_badge("/history"));
        assert!(!has_badge("/runs/run_a?v=1"));
        assert!(!has_badge("/historyx"));
    }
}
