//! The table of routes, and the layers for every request.

mod account;
mod addresses;
mod alive;
mod assets;
mod audience;
mod audited;
mod bench;
mod bounds;
mod cards;
mod categories;
mod compare;
mod comparisons;
mod cookies;
mod credentials;
mod document;
mod early;
mod events;
mod explain;
mod export;
mod extract;
mod health;
mod help;
mod here;
mod history;
mod jobs;
mod labels;
mod layers;
mod leaks;
mod live;
mod mcp;
mod metrics;
mod packed;
mod page;
mod people;
mod permits;
mod pictures;
mod preview;
mod projects;
mod question;
mod runs;
mod samples;
mod session;
mod shares;
mod shell;
#[cfg(test)]
mod tests;
mod trends;
mod unfold;
mod uploads;
mod usage;
mod views;
mod what_if;

pub use layers::serve::Listening;

use layers::parameters::{self, Parameters};
use layers::{cors, guard, hang_up, log, measure, problem_page};

use crate::app::App;
use crate::problems::Error;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::HeaderMap;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;
use tower::ServiceBuilder;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Largest JSON body; uploads have a limit of their own.
const JSON_LIMIT: usize = 64 << 10;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidemark",
        description = "Where GPU memory stood at every moment of a run, and what kept it there. \
                       Errors are application/problem+json.",
    ),
    tags(
        (name = "runs", description = "Stored runs"),
        (name = "uploads", description = "Snapshots on their way in"),
        (name = "samples", description = "Bundled runs"),
        (name = "timeline", description = "What a picture of a run needs"),
        (name = "leaks", description = "Whether a run leaks, and how it grew"),
        (name = "alive", description = "What is alive at a moment, and single allocations"),
        (name = "shares", description = "Links that are handed on"),
        (name = "bench", description = "The engine: configurations and patches, one row each"),
        (name = "compare", description = "Runs against one another"),
        (name = "jobs", description = "Many ranks of one program"),
        (name = "people", description = "Who may do what, and what was done"),
        (name = "projects", description = "Runs that belong together, with people of their own"),
        (name = "server", description = "The server itself"),
    )
)]
struct Document;

/// The routes for trainings that report while they run.
fn live() -> OpenApiRouter<Arc<App>> {
    let reports = OpenApiRouter::new()
        .routes(routes!(live::report))
        .layer(DefaultBodyLimit::max(live::REPORT_LIMIT));
    OpenApiRouter::new()
        .routes(routes!(live::list::list, live::begin))
        .routes(routes!(live::get, live::delete::delete))
        .routes(routes!(live::end))
        .routes(routes!(live::capture))
        .merge(reports)
}

/// The routes for the team: its people, and its own categories.
fn team() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(people::me))
        .routes(routes!(people::list, people::add))
        .routes(routes!(people::change))
        .routes(routes!(people::tokens, people::make_token))
        .routes(routes!(people::end_token))
        .routes(routes!(people::audit))
        .routes(routes!(usage::usage))
        .routes(routes!(categories::get, categories::put))
        .routes(routes!(categories::preview))
        .merge(live())
        .routes(routes!(projects::list, projects::create))
        .routes(routes!(projects::change))
        .routes(routes!(projects::members))
        .routes(routes!(projects::set_member, projects::remove_member))
        .routes(routes!(projects::plan))
        .routes(routes!(views::list, views::save))
        .routes(routes!(views::forget))
}

/// Every route of the API.
fn api() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(team())
        .routes(routes!(session::server))
        .routes(routes!(session::open, session::close))
        .routes(routes!(session::list, session::revoke_others))
        .routes(routes!(session::revoke))
        .routes(routes!(events::all))
        .routes(routes!(runs::list))
        .routes(routes!(runs::get, runs::rename, runs::delete))
        .routes(routes!(runs::restore))
        .routes(routes!(uploads::announce))
        .routes(routes!(uploads::send, uploads::get, uploads::cancel))
        .routes(routes!(uploads::watch))
        .routes(routes!(uploads::send_named))
        .routes(routes!(samples::list))
        .routes(routes!(samples::open))
        .routes(routes!(pictures::series))
        .routes(routes!(pictures::mountain))
        .routes(routes!(pictures::marks))
        .routes(routes!(pictures::contents))
        .routes(routes!(pictures::block))
        .routes(routes!(pictures::moment))
        .routes(routes!(leaks::leaks))
        .routes(routes!(leaks::growth))
        .routes(routes!(alive::alive))
        .routes(routes!(alive::changes))
        .routes(routes!(alive::memory_map))
        .routes(routes!(alive::room_over_time))
        .routes(routes!(alive::allocations))
        .routes(routes!(alive::beside))
        .routes(routes!(labels::change))
        .routes(routes!(history::history))
        .routes(routes!(shares::list, shares::create))
        .routes(routes!(shares::open))
        .routes(routes!(shares::revoke))
        .routes(routes!(shares::preview))
        .routes(routes!(cards::svg))
        .routes(routes!(cards::png))
        .routes(routes!(cards::md))
        .routes(routes!(cards::comparison::svg))
        .routes(routes!(cards::comparison::png))
        .routes(routes!(cards::comparison::md))
        .routes(routes!(explain::explain))
        .routes(routes!(what_if::what_if))
        .routes(routes!(export::export))
        .routes(routes!(bench::catalog))
        .routes(routes!(bench::offloaders))
        .routes(routes!(bench::frontier))
        .routes(routes!(bench::list, bench::start))
        .routes(routes!(bench::get, bench::delete))
        .routes(routes!(bench::cancel))
        .routes(routes!(bench::cancel_row))
        .routes(routes!(bench::rerun_row))
        .routes(routes!(bench::steps))
        .routes(routes!(bench::tensors))
        .routes(routes!(compare::compare))
        .routes(routes!(compare::curves))
        .routes(routes!(comparisons::list, comparisons::record))
        .routes(routes!(comparisons::get, comparisons::forget))
        .routes(routes!(jobs::list, jobs::create))
        .routes(routes!(jobs::get, jobs::delete))
        .routes(routes!(jobs::sites))
        .routes(routes!(jobs::curve))
        .routes(routes!(labels::change_ranks))
}

/// Serves everything until `app.stopping` fires.
pub async fn serve(listening: Listening, app: Arc<App>) {
    let service = router(Arc::clone(&app));
    layers::serve::serve(listening, app, service).await;
}

/// The whole server, as a service.
pub fn router(app: Arc<App>) -> Router {
    let (routes, mut document) = api().split_for_parts();
    document::finish(&mut document);
    let parameters = Arc::new(Parameters::of(&document));
    let mut document = bounds::stated(&document);
    document::in_words(&mut document);
    let openapi = move |headers: HeaderMap| async move { packed::json(&headers, &document) };
    // The outermost comes first.
    let guards = ServiceBuilder::new()
        .layer(from_fn(guard::harden))
        .layer(from_fn_with_state(Arc::clone(&app), measure::measure))
        .layer(from_fn(log::log))
        .layer(from_fn_with_state(Arc::clone(&app), guard::identify))
        // Twice: what the guards refuse is a page, too.
        .layer(from_fn_with_state(Arc::clone(&app), problem_page::show))
        .layer(from_fn_with_state(Arc::clone(&app), guard::check_host))
        .layer(from_fn_with_state(Arc::clone(&app), cors::admit))
        .layer(from_fn_with_state(Arc::clone(&app), guard::check_origin))
        .layer(from_fn_with_state(Arc::clone(&app), here::find))
        .layer(from_fn_with_state(Arc::clone(&app), guard::check_token))
        .layer(from_fn_with_state(Arc::clone(&app), audited::note))
        .layer(from_fn_with_state(Arc::clone(&app), problem_page::show))
        .layer(from_fn(hang_up::end_questions));
    routes
        .route_layer(from_fn(move |request, next| {
            parameters::check(Arc::clone(&parameters), request, next)
        }))
        .route(api::routes::OPENAPI, get(openapi))
        .route(api::routes::MCP, post(mcp::ask))
        .route(api::routes::COMPARE_PAGE, get(unfold::compare))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route(api::routes::METRICS, get(metrics::all))
        .merge(account_pages())
        .merge(project_pages())
        .route("/runs", get(unfold::runs))
        .route("/runs/", get(unfold::runs))
        .route("/runs/{run}", get(unfold::run))
        .route("/s/{token}", get(shares::page))
        .route("/s/{token}/{file}", get(cards::of_share))
        .method_not_allowed_fallback(wrong_method)
        .fallback(assets::serve)
        .layer(DefaultBodyLimit::max(JSON_LIMIT))
        .layer(guards)
        .with_state(app)
}

/// The pages that are plain HTML.
fn account_pages() -> Router<Arc<App>> {
    let sign_in = get(account::sign_in_page).post(account::sign_in);
    let people = get(account::people).post(account::add_person);
    Router::new()
        .route(api::routes::SIGN_IN_PAGE, sign_in)
        .route(api::routes::OIDC_PAGE, get(account::begin_oidc))
        .route(api::routes::OIDC_CALLBACK, get(account::finish_oidc))
        .route(api::routes::SIGN_OUT_PAGE, post(account::sign_out))
        .route(api::routes::ACCOUNT_PAGE, get(account::account))
        .route(api::routes::TOKENS_PAGE, post(account::make_token))
        .route("/account/tokens/{token}/end", post(account::end_token))
        .route(
            api::routes::END_OTHER_SESSIONS_PAGE,
            post(account::end_other_sessions),
        )
        .route(
            "/account/sessions/{session}/end",
            post(account::end_session),
        )
        .route(api::routes::PEOPLE_PAGE, people)
        .route("/people/{person}", post(account::change_person))
        .route("/people/{person}/token", post(account::new_token))
        .route(api::routes::AUDIT_PAGE, get(account::audit))
        .route(api::routes::HELP_PAGE, get(help::help_page))
        .route(
            "/runs/{run}/labels",
            get(labels::labels_page).post(labels::change_on_page),
        )
        .route(
            api::routes::CATEGORIES_PAGE,
            get(categories::categories_page).post(categories::save_on_page),
        )
        .route(
            api::routes::VIEWS_PAGE,
            get(views::views_page).post(views::save_on_page),
        )
        .route("/views/{view}/forget", post(views::forget_on_page))
        .route("/views/{view}/badge.svg", get(views::badge))
        .route(api::routes::LIVE_PAGE, get(live::live_page))
        .route("/live/{live}", get(live::live_run_page))
        .route("/live/{live}/capture", post(live::ask_on_page))
        .route("/live/{live}/delete", post(live::delete::delete_on_page))
        .route(live::LIVE_SCRIPT, get(live::script))
        .route(shell::SCRIPT, get(shell::script))
        .route(api::routes::JOBS_PAGE, get(trends::jobs))
        .route(api::routes::HISTORY_PAGE, get(trends::history))
        .route(api::routes::PULLS_PAGE, get(trends::pull_requests))
}

/// The pages about projects.
fn project_pages() -> Router<Arc<App>> {
    let all = get(projects::projects_page).post(projects::create_on_page);
    let one = get(projects::project_page).post(projects::change_on_page);
    Router::new()
        .route(api::routes::PROJECTS_PAGE, all)
        .route(api::routes::USAGE_PAGE, get(usage::usage_page))
        .route("/projects/{project}", one)
        .route(
            "/projects/{project}/members",
            post(projects::set_member_on_page),
        )
        .route("/projects/{project}/plan", get(projects::plan_page))
        .route("/p/{project}/", get(projects::enter))
        .route("/p/{project}/{*rest}", get(projects::enter_at))
        .route(shell::PROJECT_SCRIPT, get(projects::script))
}

async fn wrong_method(request: Request) -> Response {
    Error::Method(request.method().to_string()).into_response()
}
