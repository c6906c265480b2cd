//! Comparisons of recordings, and their curves over one axis.

use crate::message::{MARKDOWN, Request, Response};
use crate::problems::{Refused, misasked};
use crate::questions::{links, names};
use crate::runs::{Run, Runs};
use answers::cards::markdown::{self, Names};
use answers::curves::{self, Axis};
use answers::decoded::Decoded;
use answers::questions::asked;
use api::compare::{Against, ComparedRun, Comparison, Curves, CurvesWanted};
use serde::Deserialize;
use std::sync::Arc;
use trace::compare::gate::Limits;
use trace::compare::pairs::Load;
use trace::watch::Watch;

/// Which runs.
#[derive(Deserialize)]
struct RunsQuery {
    runs: String,
}

/// What differs between a baseline and up to seven runs.
///
/// # Errors
/// When one of them is not open.
pub fn compared(runs: &Runs, request: &Request) -> Result<Response, Refused> {
    let RunsQuery { runs: named } = request.asked()?;
    Ok(Response::json(&comparison(&wanted_runs(runs, &named)?)))
}

/// The same as Markdown.
///
/// # Errors
/// As [`compared`].
pub fn card(runs: &Runs, request: &Request) -> Result<Response, Refused> {
    let RunsQuery { runs: named } = request.asked()?;
    let comparison = comparison(&wanted_runs(runs, &named)?);
    let links = links(request)?;
    let block = match names(request)? {
        Names::Told => markdown::comparison(&comparison, links.as_ref()),
        Names::Withheld => markdown::numbers_only(&comparison, links.as_ref()),
    };
    Ok(Response::bytes(MARKDOWN, block.into_bytes()))
}

/// The curves of the runs of a comparison.
///
/// # Errors
/// As [`compared`], and when the curves are not well described.
pub fn drawn(runs: &Runs, request: &Request) -> Result<Response, Refused> {
    let RunsQuery { runs: named } = request.asked()?;
    let wanted = asked::curves(&request.asked()?).map_err(misasked)?;
    let mut decoded = Vec::new();
    for run in wanted_runs(runs, &named)? {
        decoded.push(run.decoded(None)?);
    }
    Ok(Response::json(&over_one_axis(&decoded, wanted)))
}

fn comparison(runs: &[&Run]) -> Comparison {
    let compared = runs.iter().map(|run| ComparedRun {
        id: Some(run.id.clone()),
        name: run.called(),
        torch: run.detail().torch_guess,
    });
    let against = |new: &&Run| Against::of(runs[0].profile(), new.profile(), &Limits::default());
    Comparison {
        runs: compared.collect(),
        against: runs[1..].iter().map(against).collect(),
    }
}

fn over_one_axis(runs: &[Arc<Decoded>], wanted: CurvesWanted) -> Curves {
    let loads = |run: &Arc<Decoded>| run.trace.devices.iter().map(Load::of).collect();
    let loads: Vec<Vec<Load>> = runs.iter().map(loads).collect();
    let of_each = curves::of_each(&loads, wanted);
    let each = || runs.iter().zip(&of_each);
    let base = Watch::undisturbed(|watch| curves::rhythm(&runs[0], of_each[0], watch));
    let base_of = |at: usize| (at > 0).then_some(&base);
    let placed = each().enumerate();
    let placed = placed.map(|(at, (run, &wanted))| curves::placed(run, base_of(at), wanted));
    let axis = Axis::of(&placed.collect::<Vec<_>>(), wanted.align);
    let window = wanted.window.unwrap_or(axis.whole);
    let drawn = each().enumerate().map(|(at, (run, &wanted))| {
        let begins = axis.begins[at];
        let curve =
            |watch: Watch<'_>| curves::curve(run, base_of(at), wanted, window, begins, watch);
        Watch::undisturbed(curve)
    });
    Curves {
        whole: axis.whole,
        window,
        runs: drawn.collect(),
        begins: axis.begins,
    }
}

/// The runs of a comparison: 2 to 8, the baseline first.
fn wanted_runs<'r>(runs: &'r Runs, named: &str) -> Result<Vec<&'r Run>, Refused> {
    let ids = asked::compared(named.split(',').collect::<Vec<&str>>()).map_err(misasked)?;
    ids.into_iter().map(|id| runs.get(id)).collect()
}
