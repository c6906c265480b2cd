//! Every path of the API and of the pages, built in one place.
//!
//! Pictures carry the version of their encoding (`?v=`), so that browsers may keep them for ever.

use crate::alive::AllocationFilter;
use crate::compare_view::CompareState;
use crate::contents::Contents;
use crate::history::BEFORE;
use crate::ids::{
    BenchId, BenchRowId, ComparisonId, JobId, LiveId, PersonId, RunId, SessionId, ShareId, TokenId,
    UploadId, ViewId,
};
use crate::labels::{self, Label};
use crate::leaks::Leaks;
use crate::projects::ProjectName;
use crate::query::encode;
use crate::timeline::Marks;
use crate::what_if::Conditions;
use trace::alive::Dimension;
use trace::device::DeviceIdx;
use trace::ranks::Rank;
use trace::tiles::{self, GroupBy, TileId};
use trace::trace::BlockIdx;
use trace::units::EventIdx;

/// What is asked about a device of a run.
fn of_device(run: &RunId, device: DeviceIdx) -> String {
    format!("/api/runs/{run}/devices/{device}")
}

/// An address with one more parameter.
fn with(path: &str, key: &str, value: &str) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    format!("{path}{joint}{key}={}", encode(value))
}

/// The OpenAPI document.
pub const OPENAPI: &str = "/api/openapi.json";
/// `GET`: measurements, as text for Prometheus.
pub const METRICS: &str = "/metrics";
/// `POST`: messages of the Model Context Protocol.
pub const MCP: &str = "/api/mcp";
/// `GET`: version, limits, whether a token is needed.
pub const SERVER: &str = "/api/server";
/// `POST {token}`: type the access token once; answers with a cookie. `DELETE`: forget it.
pub const SESSION: &str = "/api/session";
/// `GET`: the sessions that have not ended ([`crate::runs::Sessions`]). `DELETE`: ends all of them
/// except the one of this request.
pub const SESSIONS: &str = "/api/sessions";

/// `DELETE`: ends a session.
pub fn session(session: &SessionId) -> String {
    format!("{SESSIONS}/{session}")
}

/// `GET`: everybody ([`crate::people::Person`]). `POST` [`crate::people::NewPerson`]: add one.
pub const PEOPLE: &str = "/api/people";
/// `GET`: the person's own tokens ([`crate::people::PersonalToken`]). `POST`
/// [`crate::people::NewToken`]: make one.
pub const TOKENS: &str = "/api/tokens";

/// `PATCH` [`crate::people::ChangePerson`]: changes what a person may do.
pub fn person(person: &PersonId) -> String {
    format!("{PEOPLE}/{person}")
}

/// `DELETE`: ends a token.
pub fn token(token: &TokenId) -> String {
    format!("{TOKENS}/{token}")
}

/// The page to sign in; `POST` is its form.
pub const SIGN_IN_PAGE: &str = "/sign-in";
/// Begins to sign in at a provider of OpenID Connect; takes `?next=`.
pub const OIDC_PAGE: &str = "/sign-in/oidc";
/// Where the provider sends the browser back.
pub const OIDC_CALLBACK: &str = "/sign-in/oidc/callback";
/// `POST`: signs out.
pub const SIGN_OUT_PAGE: &str = "/sign-out";
/// `POST`: signs out all other browsers of the person.
pub const END_OTHER_SESSIONS_PAGE: &str = "/account/sessions/end-others";
/// The page with the person's tokens and sessions.
pub const ACCOUNT_PAGE: &str = "/account";
/// `POST`: makes a token.
pub const TOKENS_PAGE: &str = "/account/tokens";
/// The page with everybody, for admins; `POST` adds somebody.
pub const PEOPLE_PAGE: &str = "/people";
/// The page with what was done, for admins.
pub const AUDIT_PAGE: &str = "/audit";
/// `GET`: what takes the disk ([`crate::usage::Usage`]), for admins.
pub const USAGE: &str = "/api/usage";
/// The page that shows it.
pub const USAGE_PAGE: &str = "/usage";

/// The page that says how to find one's way, and how to send a snapshot from a shell.
pub const HELP_PAGE: &str = "/help";
/// The page that lists jobs.
pub const JOBS_PAGE: &str = "/jobs";
/// The page with the team's own categories; `POST` tries them or keeps them.
pub const CATEGORIES_PAGE: &str = "/categories";
/// That page, with what the rules take of a run; `""` for none.
pub fn categories_page(run: &str) -> String {
    format!("{CATEGORIES_PAGE}?run={}", encode(run))
}

/// The page with the history of runs; takes labels like [`history`].
pub const HISTORY_PAGE: &str = "/history";
/// The page with the labels of a run; `POST` changes one.
pub fn labels_page(run: &RunId) -> String {
    format!("/runs/{run}/labels")
}

/// The page with the saved views; `POST` saves one.
pub const VIEWS_PAGE: &str = "/views";
/// That page, ready to save an address.
pub fn save_view_page(path: &str) -> String {
    format!("{VIEWS_PAGE}?path={}", encode(path))
}
/// `GET`: the badge of a saved view of a history, as SVG.
pub fn view_badge(view: &ViewId) -> String {
    format!("{VIEWS_PAGE}/{view}/badge.svg")
}
/// `POST`: forgets a saved view.
pub fn forget_view_page(view: &ViewId) -> String {
    format!("{VIEWS_PAGE}/{view}/forget")
}

/// The page with the trainings that report while they run.
pub const LIVE_PAGE: &str = "/live";
/// The page of one of them.
pub fn live_page(live: &LiveId) -> String {
    format!("{LIVE_PAGE}/{live}")
}
/// `POST`: asks it for a snapshot of its next steps.
pub fn live_capture_page(live: &LiveId) -> String {
    format!("{LIVE_PAGE}/{live}/capture")
}
/// `POST`: deletes it, with all its processes.
pub fn delete_live_page(live: &LiveId) -> String {
    format!("{LIVE_PAGE}/{live}/delete")
}

/// `GET`: the projects. `POST`: make one.
pub const PROJECTS: &str = "/api/projects";
/// The page of all projects.
pub const PROJECTS_PAGE: &str = "/projects";

/// `PATCH`: change a project.
pub fn project(name: &ProjectName) -> String {
    format!("{PROJECTS}/{name}")
}

/// `GET`: the members of a project.
pub fn project_members(name: &ProjectName) -> String {
    format!("{PROJECTS}/{name}/members")
}

/// `PUT`: what a person may do in a project. `DELETE`: take them out.
pub fn project_member(name: &ProjectName, person: &PersonId) -> String {
    format!("{PROJECTS}/{name}/members/{person}")
}

/// The page of a project. `POST`: change it.
pub fn project_page(name: &str) -> String {
    format!("{PROJECTS_PAGE}/{name}")
}

/// `POST`: change who is in a project.
pub fn project_members_page(name: &ProjectName) -> String {
    format!("{PROJECTS_PAGE}/{name}/members")
}

/// What would be deleted in a project.
pub fn project_plan_page(name: &ProjectName) -> String {
    format!("{PROJECTS_PAGE}/{name}/plan")
}

/// Shows a project from now on. A path of the page may follow.
pub fn enter_project(name: &ProjectName) -> String {
    format!("/p/{name}/")
}

/// The page with every push to a pull request; lists them without `?pr=`.
pub const PULLS_PAGE: &str = "/pull-requests";

/// The page with the history of the runs with these labels.
pub fn history_page(labels: &[Label]) -> String {
    format!("{HISTORY_PAGE}{}", labelled(labels))
}

/// The page of a pull request.
pub fn pull_page(pr: &str) -> String {
    format!("{PULLS_PAGE}?pr={}", encode(pr))
}

/// The page to sign in, which then goes on to `next`.
pub fn sign_in_page(next: &str) -> String {
    format!("{SIGN_IN_PAGE}?next={}", encode(next))
}

/// `POST`: ends a token.
pub fn end_token_page(token: &TokenId) -> String {
    format!("{TOKENS_PAGE}/{token}/end")
}

/// `POST`: signs another browser out.
pub fn end_session_page(session: &SessionId) -> String {
    format!("{ACCOUNT_PAGE}/sessions/{session}/end")
}

/// `POST`: changes what a person may do.
pub fn person_page(person: &PersonId) -> String {
    format!("{PEOPLE_PAGE}/{person}")
}

/// `POST`: makes a token with which somebody signs in.
pub fn person_token_page(person: &PersonId) -> String {
    format!("{PEOPLE_PAGE}/{person}/token")
}

/// `GET`: server-sent [`crate::progress::ServerEvent`]s.
pub const EVENTS: &str = "/api/events";
/// `GET`: list of runs.
pub const RUNS: &str = "/api/runs";
/// `GET`: the same, for one of many who ask after each change: they wait for one answer.
pub const RUNS_SHARED: &str = "/api/runs?wait=true";
/// `GET`: runs that were deleted and can still be restored.
pub const DELETED_RUNS: &str = "/api/runs?deleted=true";
/// `POST`: announce an upload.
pub const UPLOADS: &str = "/api/uploads";
/// `GET`: bundled sample runs.
pub const SAMPLES: &str = "/api/samples";

/// `PUT` with the file as body: upload and answer with the run, for `curl -T file URL/api/upload/`
/// (curl appends the file's name to a URL that ends with a slash).
pub fn upload_named(name: &str) -> String {
    format!("/api/upload/{name}")
}

/// The same, as a rank of a job.
pub fn upload_into(name: &str, job: &JobId, rank: Rank) -> String {
    format!("{}?job={job}&rank={rank}", upload_named(name))
}

/// `GET`: jobs, newest first ([`crate::jobs::JobSummary`]). `POST` [`crate::jobs::NewJob`]: make
/// one.
pub const JOBS: &str = "/api/jobs";

/// `GET`: how the ranks of a job differ ([`crate::jobs::JobDetail`]). `DELETE`: forget it; its
/// runs stay.
pub fn job(id: &JobId) -> String {
    format!("{JOBS}/{id}")
}

/// `DELETE`: forget a job and delete its runs, which can be restored for a while.
pub fn job_with_runs(id: &JobId) -> String {
    format!("{}?runs=delete", job(id))
}

/// `GET`: sites that differ between ranks ([`trace::ranks::sites::SiteAcross`]), the largest
/// difference first, `limit` of them from the `offset`-th on.
pub fn job_sites(id: &JobId, offset: usize, limit: usize) -> String {
    format!("{}/sites?offset={offset}&limit={limit}", job(id))
}

/// `GET`: the curve of a rank ([`crate::jobs::RankCurve`]).
pub fn job_curve(id: &JobId, rank: Rank) -> String {
    format!("{}/curves/{rank}", job(id))
}

/// Page: the ranks of a job.
pub fn job_page(id: &JobId) -> String {
    format!("/jobs/{id}")
}

/// `PUT`: the body of an announced upload. `GET`: how it stands. `DELETE`: cancel it.
pub fn upload(id: &UploadId) -> String {
    format!("/api/uploads/{id}")
}

/// `GET`: server-sent [`crate::progress::UploadProgress`].
pub fn upload_events(id: &UploadId) -> String {
    format!("/api/uploads/{id}/events")
}

/// `POST`: make a run of a bundled sample.
pub fn sample(name: &str) -> String {
    format!("/api/samples/{name}")
}

/// `GET`: the run. `PATCH {name}`: rename it. `DELETE`: delete it, for a while undoable.
pub fn run(id: &RunId) -> String {
    format!("/api/runs/{id}")
}

/// `GET`: a list of this run, if it is there. To look at it often costs little.
pub fn run_alone(id: &RunId) -> String {
    format!("{RUNS}?run={id}")
}

/// `GET`: runs that have all of these labels, newest first.
pub fn runs_with(labels: &[Label]) -> String {
    format!("{RUNS}{}", labelled(labels))
}

/// `GET`: the same runs, oldest first, and which numbers changed for good.
pub fn history(labels: &[Label]) -> String {
    format!("/api/history{}", labelled(labels))
}

/// The part of a history before this run; of the answer, and of its page.
pub fn before(history: &str, run: &RunId) -> String {
    with(history, BEFORE, run.as_str())
}

/// The query for these labels.
fn labelled(labels: &[Label]) -> String {
    let named = labels.iter().enumerate().map(|(at, label)| {
        let sign = if at == 0 { '?' } else { '&' };
        format!("{sign}{}={}", labels::PARAMETER, encode(&label.to_string()))
    });
    named.collect()
}

/// `PATCH`: change labels of all ranks of a job.
pub fn job_labels(id: &JobId) -> String {
    format!("/api/jobs/{id}/labels")
}

/// `PATCH`: change labels.
pub fn run_labels(id: &RunId) -> String {
    format!("/api/runs/{id}/labels")
}

/// `POST`: undo a deletion.
pub fn run_restore(id: &RunId) -> String {
    format!("/api/runs/{id}/restore")
}

/// `GET`: a series tile, binary (`trace::tiles`).
pub fn series_tile(run: &RunId, device: DeviceIdx, tile: TileId) -> String {
    format!(
        "{}/series/{}/{}?v={}",
        of_device(run, device),
        tile.level,
        tile.index,
        tiles::VERSION
    )
}

/// `GET`: a mountain tile, binary (`trace::tiles`).
pub fn mountain_tile(run: &RunId, device: DeviceIdx, group: GroupBy, tile: TileId) -> String {
    format!(
        "{}/mountain/{}/{}/{}?v={}",
        of_device(run, device),
        group.name(),
        tile.level,
        tile.index,
        tiles::VERSION
    )
}

/// `GET`: steps, annotation bands, capacity and OOM marks ([`crate::timeline::Marks`]).
pub fn marks(run: &RunId, device: DeviceIdx) -> String {
    format!("{}/marks?v={}", of_device(run, device), Marks::VERSION)
}

/// `GET`: what the recording holds ([`Contents`]).
pub fn contents(run: &RunId, device: DeviceIdx) -> String {
    format!(
        "{}/contents?v={}",
        of_device(run, device),
        Contents::VERSION
    )
}

/// `GET`: the run in words, as a page of Markdown. If the request asks for JSON, an
/// [`crate::explain::Explanation`].
pub fn explain(run: &RunId, device: DeviceIdx, steps: Option<&str>) -> String {
    with_steps(format!("/api/runs/{run}/explain?device={device}"), steps)
}

/// The same question, under a limit of what the process could reserve, such as `24GiB`.
pub fn explain_under(run: &RunId, device: DeviceIdx, limit: &str) -> String {
    format!("{}&limit={}", explain(run, device, None), encode(limit))
}

/// The same question, with the iterations of another loop as the steps: `level` is the key of a
/// [`trace::steps::choices::LoopChoice`].
pub fn with_steps(path: String, level: Option<&str>) -> String {
    match level {
        Some(level) => with(&path, "steps", level),
        None => path,
    }
}

/// `GET`: one block ([`crate::timeline::BlockDetail`]).
pub fn block(run: &RunId, device: DeviceIdx, block: BlockIdx) -> String {
    format!("{}/blocks/{}", of_device(run, device), block.0)
}

/// `GET`: one event and the four levels there ([`crate::timeline::Moment`]).
pub fn moment(run: &RunId, device: DeviceIdx, event: EventIdx) -> String {
    format!("{}/events/{event}", of_device(run, device))
}

/// Page: list of runs.
pub const RUNS_PAGE: &str = "/";

/// Page: one run. The view state is its query.
pub fn run_page(run: &RunId) -> String {
    format!("/runs/{run}")
}

/// `GET`: the verdict and what accumulates ([`Leaks`]).
pub fn leaks(run: &RunId, device: DeviceIdx) -> String {
    let version = Leaks::VERSION;
    format!("{}/leaks?v={version}", of_device(run, device))
}

/// `GET`: what is alive at the end of each step, by group ([`crate::alive::Growth`]).
pub fn growth(run: &RunId, device: DeviceIdx, by: Dimension) -> String {
    let by = by.name();
    format!("{}/growth?by={by}", of_device(run, device))
}

/// `GET`: what is alive at an event, or in a state without events ([`crate::alive::Alive`]).
pub fn alive(
    run: &RunId,
    device: DeviceIdx,
    at: impl Into<Option<EventIdx>>,
    by: Dimension,
) -> String {
    let at = at.into().map(|at| format!("at={at}&")).unwrap_or_default();
    format!("{}/alive?{at}by={}", of_device(run, device), by.name())
}

/// `GET`: what was there before the first event ([`crate::alive::Alive`]).
pub fn alive_at_start(run: &RunId, device: DeviceIdx, by: Dimension) -> String {
    let by = by.name();
    format!("{}/alive?start=true&by={by}", of_device(run, device))
}

/// `GET`: where memory lies after an event, or in a state without events
/// ([`crate::memory_map::MemoryMap`]).
pub fn memory_map(run: &RunId, device: DeviceIdx, at: impl Into<Option<EventIdx>>) -> String {
    let at = at.into().map(|at| format!("?at={at}")).unwrap_or_default();
    format!("{}/memory-map{at}", of_device(run, device))
}

/// `GET`: reserved memory over a recording ([`crate::memory_map::RoomOverTime`]).
pub fn room_over_time(run: &RunId, device: DeviceIdx) -> String {
    format!("{}/room-over-time", of_device(run, device))
}

/// `GET`: what would happen under other conditions ([`crate::what_if::WhatIfDrawn`]).
pub fn what_if(run: &RunId, device: DeviceIdx, conditions: &Conditions) -> String {
    let query = conditions.query();
    let query = query.trim_start_matches('&');
    format!("{}/what-if?{query}", of_device(run, device))
}

/// `GET`: what was allocated and freed between two events ([`crate::alive::Changes`]).
pub fn changes(
    run: &RunId,
    device: DeviceIdx,
    (from, to): (EventIdx, EventIdx),
    by: Dimension,
) -> String {
    let by = by.name();
    let device = of_device(run, device);
    format!("{device}/changes?from={from}&to={to}&by={by}")
}

/// `GET`: allocations ([`crate::alive::AllocationPage`]), `limit` of them from the `offset`-th on.
pub fn allocations(
    run: &RunId,
    device: DeviceIdx,
    filter: &AllocationFilter,
    offset: u64,
    limit: usize,
) -> String {
    let filter = filter.query();
    let device = of_device(run, device);
    format!("{device}/allocations?offset={offset}&limit={limit}{filter}")
}

/// `GET`: the allocations before and after one ([`crate::alive::AllocationPage`]).
pub fn beside(run: &RunId, device: DeviceIdx, block: BlockIdx) -> String {
    format!("{}/beside", self::block(run, device, block))
}

/// `GET`: benches, newest first. `POST` [`crate::bench::StartBench`]: start one.
pub const BENCHES: &str = "/api/bench";
/// `GET`: what can be run ([`crate::bench::BenchCatalog`]).
pub const BENCH_CATALOG: &str = "/api/bench/catalog";
/// `GET`: every offloader on every configuration ([`crate::bench::OffloaderGrid`]).
pub const BENCH_OFFLOADERS: &str = "/api/bench/offloaders";
/// `GET`: peak against step time, for every offloader ([`crate::bench::Frontier`]).
pub const BENCH_FRONTIER: &str = "/api/bench/frontier";
/// Page: benches.
pub const BENCH_PAGE: &str = "/bench";

/// `GET`: a bench with its rows ([`crate::bench::Bench`]). `DELETE`: forget it; its runs stay.
pub fn bench(id: &BenchId) -> String {
    format!("/api/bench/{id}")
}

/// `POST`: cancel the rows that are not finished.
pub fn bench_cancel(id: &BenchId) -> String {
    format!("/api/bench/{id}/cancel")
}

/// `POST`: cancel a row.
pub fn bench_row_cancel(id: &BenchRowId) -> String {
    format!("/api/bench/rows/{id}/cancel")
}

/// `POST`: run a finished row again.
pub fn bench_row_rerun(id: &BenchRowId) -> String {
    format!("/api/bench/rows/{id}/rerun")
}

/// `GET`: the run as a file for other tools; `pickle`, `parquet` or `perfetto`.
pub fn run_export(id: &RunId, format: &str) -> String {
    format!("/api/runs/{id}/export?format={format}")
}

/// `GET`: which tensors a row keeps alive and another row does not, in both directions
/// ([`crate::bench::TensorChanges`]).
pub fn bench_row_tensors(id: &BenchRowId, before: &BenchRowId) -> String {
    format!("/api/bench/rows/{id}/tensors?before={before}")
}

/// `GET ?runs=A,B,…`: the comparison ([`crate::compare::Comparison`]); the first is the baseline.
pub const COMPARE: &str = "/api/compare";

/// `GET ?runs=A,B,…&align=…`: curves over one axis ([`crate::compare::Curves`]).
pub const COMPARE_CURVES: &str = "/api/compare/curves";

/// `GET`: recorded comparisons, newest first. `POST`: record one.
pub const COMPARISONS: &str = "/api/comparisons";

/// Page: two to eight runs compared. [`CompareState`] is its query.
pub const COMPARE_PAGE: &str = "/compare";

/// `GET`: the comparison of these runs.
pub fn compare(runs: &[RunId]) -> String {
    format!("{COMPARE}?runs={}", crate::compare::listed(runs))
}

/// `GET`: the curves of these runs over a window of the axis.
pub fn compare_curves(runs: &[RunId], wanted: &crate::compare::CurvesWanted) -> String {
    let mut path = format!(
        "{COMPARE_CURVES}?runs={}&align={}&series={}&pair={}&parts={}",
        crate::compare::listed(runs),
        wanted.align.name(),
        wanted.series.name(),
        wanted.pair,
        wanted.parts
    );
    if let Some((from, to)) = wanted.window {
        path += &format!("&from={from}&to={to}");
    }
    path
}

/// `GET`: a recorded comparison. `DELETE`: forget it.
pub fn comparison(id: &ComparisonId) -> String {
    format!("{COMPARISONS}/{id}")
}

/// Page: these runs compared.
pub fn compare_page(runs: &[RunId]) -> String {
    let state = CompareState {
        runs: runs.to_vec(),
        ..CompareState::default()
    };
    format!("{COMPARE_PAGE}?{state}")
}

/// `GET ?run=`: links, newest first. `POST`: make one.
pub const SHARES: &str = "/api/shares";

/// `POST {token}`: exchange the last part of a link's address for a session of that link.
pub const OPEN_SHARE: &str = "/api/shares/open";

/// The links to a run, alone or in a comparison.
pub fn shares_of(run: &RunId) -> String {
    format!("{SHARES}?run={run}")
}

/// `DELETE ?by=NAME`: revoke a link.
pub fn share(id: &ShareId) -> String {
    format!("{SHARES}/{id}")
}

/// The address that revokes a link in someone's name.
pub fn revoke_share(id: &ShareId, by: &str) -> String {
    with(&share(id), "by", by)
}

/// The end of a request's address when the request is made with a link.
pub const SHARE_PARAMETER: &str = "share";

/// An address of the API for a request that is made with a link.
pub fn for_link(path: &str, link: &ShareId) -> String {
    with(path, SHARE_PARAMETER, link.as_str())
}

/// `GET`: what redaction changes in a run ([`crate::shares::RedactionPreview`]).
pub fn redaction_preview(run: &RunId) -> String {
    format!("/api/runs/{run}/redaction")
}

/// Page: whatever a link opens; the last part is its secret, or a team link's short id.
pub fn share_page(token: &str) -> String {
    format!("/s/{token}")
}

/// `GET`: the card of a run; `format` is `svg`, `png` or `md`.
pub fn card(run: &RunId, format: &str) -> String {
    format!("/api/runs/{run}/card.{format}")
}

/// `GET`: the card of a run as Markdown, for a pull request. With a link, it leads there.
pub fn card_markdown(run: &RunId, view: &str, link: Option<&str>, names: bool) -> String {
    markdown(format!("{}?{view}", card(run, "md")), link, names)
}

/// `GET`: the card of a comparison, as the query of its page (the view) shows it; `format` is
/// `svg`, `png` or `md`.
pub fn compare_card(view: &str, format: &str) -> String {
    format!("{COMPARE}/card.{format}?{view}")
}

/// `GET`: a comparison as Markdown, for a pull request. With a link, it leads there. The view names
/// the runs.
pub fn compare_markdown(view: &str, link: Option<&str>, names: bool) -> String {
    markdown(compare_card(view, "md"), link, names)
}

fn markdown(mut path: String, link: Option<&str>, names: bool) -> String {
    if !names {
        path += "&numbers_only=1";
    }
    if let Some(link) = link {
        path += &format!("&link={link}");
    }
    path
}

/// `GET`: the card of what a link opens, as PNG.
pub fn share_card(token: &str) -> String {
    format!("/s/{token}/card.png")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_links_travel_in_addresses() {
        let id: ShareId = "shr_a".parse().unwrap();
        assert_eq!(
            revoke_share(&id, "Kim & Jo"),
            "/api/shares/shr_a?by=Kim+%26+Jo"
        );
        assert_eq!(
            for_link("/api/runs/run_a", &id),
            "/api/runs/run_a?share=shr_a"
        );
        assert_eq!(for_link("/a?v=1", &id), "/a?v=1&share=shr_a");
        let run: RunId = "run_a".parse().unwrap();
        assert_eq!(
            card_markdown(&run, "v=1", Some("x"), false),
            "/api/runs/run_a/card.md?v=1&numbers_only=1&link=x"
        );
    }
}
