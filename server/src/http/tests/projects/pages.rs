//! Projects on pages: which one a page shows, and the forms.

use super::super::{Answer, request};
use super::{Asks, Team, headed, with};
use api::people::Role;
use api::projects::{Keep, Project};
use api::routes;
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_which_project_it_shows_and_the_browser_remembers_it() {
    let team = Team::start().await;
    let run = team.run_in("vision").await;
    let open = json!({ "token": team.ada });
    let session = team
        .ask(Asks::default(), Method::POST, routes::SESSION, open)
        .await;
    let session = session.headers[header::SET_COOKIE]
        .to_str()
        .unwrap()
        .to_owned();
    let session = session.split(';').next().unwrap().to_owned();
    let page = async |path: &str, cookies: &str| {
        let cookies = format!("{session}; {cookies}");
        let asks = Asks {
            cookie: Some(&cookies),
            ..Asks::default()
        };
        team.get(asks, path).await
    };
    let shown = |answer: Answer| {
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let cookie = answer.headers.get(header::SET_COOKIE).cloned();
        let cookie = cookie
            .map(|cookie| cookie.to_str().unwrap().to_owned())
            .unwrap_or_default();
        let project = text
            .split("data-project=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let remembered = cookie.split(';').next().unwrap_or_default().to_owned();
        (project.unwrap_or_default().to_owned(), remembered)
    };
    let text = |project: &str, cookie: &str| (project.to_owned(), cookie.to_owned());
    let first = page("/", "").await;
    // The program of these tests has no front end, so its page has no head to put a script into.
    assert_eq!(shown(first).1, "tidemark_project=main");
    let of_run = page(&routes::run_page(&run.id), "").await;
    assert_eq!(shown(of_run).1, "tidemark_project=vision");
    let entered = page("/p/secret/history?label=a%3Db", "").await;
    let entered = entered.expect(StatusCode::SEE_OTHER);
    assert_eq!(
        entered.headers[header::LOCATION],
        "/history?label=a%3Db&project=secret"
    );
    assert_eq!(shown(entered), text("", "tidemark_project=secret"));
    let away = page("/p/secret//evil.example/x", "")
        .await
        .expect(StatusCode::SEE_OTHER);
    assert_eq!(
        away.headers[header::LOCATION],
        "/evil.example/x?project=secret"
    );
    let body = |answer: Answer| String::from_utf8_lossy(&answer.body).into_owned();
    let history = body(page("/history", "tidemark_project=secret").await);
    assert!(
        history.contains("Project: <strong>secret</strong>"),
        "{history}"
    );
    let views = body(page("/views", "tidemark_project=secret").await);
    assert!(
        views.contains("action=\"/views?project=secret\""),
        "{views}"
    );
    let missing = page("/p/none/", "").await.expect(StatusCode::NOT_FOUND);
    assert!(body(missing).contains("There is no project none, or you may not enter it."));
}

/// The cookie may be another one when the page is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn the_address_that_enters_a_project_decides() {
    let team = Team::start().await;
    let run = team.run_in("vision").await;
    let of_run = routes::run_page(&run.id);
    for (entered, shown) in [
        ("/p/secret/".to_owned(), "/?project=secret".to_owned()),
        (
            format!("/p/vision{of_run}?v=1"),
            format!("{of_run}?v=1&project=vision"),
        ),
    ] {
        let ada = Asks {
            cookie: Some("tidemark_project=main"),
            ..with(&team.ada)
        };
        let entered = team.get(ada, &entered).await;
        assert_eq!(entered.headers[header::LOCATION], shown);
    }
}

/// A browser in which another tab showed `main` last, in a tab of `vision`.
#[tokio::test(flavor = "multi_thread")]
async fn a_tab_stays_in_its_project_whatever_other_tabs_show() {
    let team = Team::start().await;
    let ada = Asks {
        cookie: Some("tidemark_project=main"),
        ..with(&team.ada)
    };
    let ask = async |method: Method, path: &str, body: &str| {
        let request = headed(request(method, path), ada)
            .header(header::ACCEPT, "text/html,*/*;q=0.8")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        team.server
            .send(request.body(Body::from(body.to_owned())).unwrap())
            .await
    };
    for path in ["/jobs", "/live", "/account", "/projects", "/people"] {
        let page = ask(Method::GET, &format!("{path}?project=vision"), "").await;
        let page = String::from_utf8_lossy(&page.expect(StatusCode::OK).body).into_owned();
        assert!(page.contains("Project: <strong>vision</strong>"), "{page}");
        let links = page
            .split(" href=\"/")
            .chain(page.split(" action=\"/"))
            .skip(1);
        for link in links.map(|link| link.split('"').next().unwrap()) {
            let stays = link.contains("project=vision") || link.starts_with("p/");
            assert!(
                stays || link == "sign-out" || link.starts_with("<!"),
                "{link}"
            );
        }
    }
    let rules = "rules=attention+function%3Dattend&run=&action=keep";
    let kept = ask(Method::POST, "/categories?project=vision", rules).await;
    let to = kept.expect(StatusCode::SEE_OTHER).headers[header::LOCATION].clone();
    assert_eq!(to, "/categories?run=&project=vision");
    let rules = async |project| {
        let own = team
            .get(with(&team.ada).of(project), "/api/categories")
            .await;
        own.read::<serde_json::Value>()["rules"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(rules("main").await, "");
    assert_eq!(rules("vision").await, "attention function=attend");
    // The address of a page says which project it shows, so that loading it again changes nothing.
    let unnamed = ask(Method::GET, "/history?label=a%3Db", "").await;
    let to = unnamed.expect(StatusCode::SEE_OTHER).headers[header::LOCATION].clone();
    assert_eq!(to, "/history?label=a%3Db&project=main");
    // A page about a project says that one, and so does closing it.
    let about = ask(Method::GET, "/projects/vision?project=main", "").await;
    let about = String::from_utf8_lossy(&about.body).into_owned();
    assert!(
        about.contains("Project: <strong>vision</strong>"),
        "{about}"
    );
    let closed = ask(
        Method::POST,
        "/projects/vision?project=vision",
        "what=close",
    )
    .await;
    let to = closed.expect(StatusCode::SEE_OTHER).headers[header::LOCATION].clone();
    let shown = ask(Method::GET, to.to_str().unwrap(), "")
        .await
        .expect(StatusCode::OK);
    assert!(String::from_utf8_lossy(&shown.body).contains("It was closed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_project_is_there_since_the_beginning() {
    let team = Team::start().await;
    let list = team.get(with(&team.ada), "/projects").await;
    let list = String::from_utf8(list.expect(StatusCode::OK).body.to_vec()).unwrap();
    assert!(
        list.contains("data-label=\"Since\">the beginning</td>"),
        "{list}"
    );
}

/// The forms do what the API does.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_is_made_and_looked_after_on_its_pages() {
    let team = Team::start().await;
    let form = async |token: &str, path: &str, body: &str| {
        let request = headed(request(Method::POST, path), with(token))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        team.server
            .send(request.body(Body::from(body.to_owned())).unwrap())
            .await
    };
    let made = form(
        &team.ada,
        "/projects",
        "name=audio&everybody=reader&quota=2+GiB",
    )
    .await;
    assert_eq!(
        made.expect(StatusCode::SEE_OTHER).headers[header::LOCATION],
        "/projects/audio"
    );
    let twice = form(&team.ada, "/projects", "name=audio")
        .await
        .expect(StatusCode::CONFLICT);
    assert!(String::from_utf8_lossy(&twice.body).contains("called audio already"));
    let bad = form(&team.ada, "/projects", "name=Audio+2").await;
    assert!(String::from_utf8_lossy(&bad.expect(StatusCode::BAD_REQUEST).body).contains("dashes"));
    form(&team.bo.token.secret, "/projects", "name=mine")
        .await
        .expect(StatusCode::FORBIDDEN);
    let who = format!("person={}&role=admin", team.bo.person.id);
    form(&team.ada, "/projects/audio/members", &who)
        .await
        .expect(StatusCode::SEE_OTHER);
    let bo = &team.bo.token.secret;
    let saved = form(bo, "/projects/audio", "what=access&everybody=").await;
    saved.expect(StatusCode::SEE_OTHER);
    let kept = form(
        bo,
        "/projects/audio",
        "what=keep&newest=3&per=branch%2C+config",
    )
    .await;
    kept.expect(StatusCode::SEE_OTHER);
    form(bo, "/projects/audio", "what=close")
        .await
        .expect(StatusCode::FORBIDDEN);
    kept_as_asked(&team).await;
}

/// What the forms above asked for, in the API and on the pages.
async fn kept_as_asked(team: &Team) {
    let bo = &team.bo.token.secret;
    let seen: Vec<Project> = team.get(with(bo), routes::PROJECTS).await.read();
    let audio = seen
        .iter()
        .find(|project| project.name.as_str() == "audio")
        .unwrap();
    assert_eq!(audio.role, Role::Admin);
    assert_eq!(audio.settings.everybody, None);
    assert_eq!(audio.settings.quota.map(|quota| quota.get()), Some(2 << 30));
    let keep = audio.settings.keep.as_ref().unwrap();
    assert_eq!(keep.per, ["branch", "config"]);
    // A form without the field, of a page from before.
    assert_eq!(keep.pull_request_days, Some(Keep::PULL_REQUEST_DAYS));
    let page = team
        .get(with(bo), "/projects/audio")
        .await
        .expect(StatusCode::OK);
    let text = String::from_utf8_lossy(&page.body).into_owned();
    assert!(
        text.contains("the newest 3 runs of each branch and config"),
        "{text}"
    );
    let plan = team
        .get(with(bo), "/projects/audio/plan?newest=1&per=")
        .await;
    let text = String::from_utf8_lossy(&plan.expect(StatusCode::OK).body).into_owned();
    assert!(text.contains("No run would be deleted now"), "{text}");
    team.get(with(&team.eve.token.secret), "/projects/audio")
        .await
        .expect(StatusCode::NOT_FOUND);
}

/// A form that is refused comes back with what was typed, and the reason at its field.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_typed_about_a_project_is_not_lost() {
    let team = Team::start().await;
    let check = async |(method, path): (Method, &str), body: &str, status: u16, shown: &[&str]| {
        let request = headed(request(method, path), with(&team.ada))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let page = team.server.send(request).await;
        let text = String::from_utf8_lossy(&page.body).into_owned();
        assert_eq!(page.status.as_u16(), status, "{path} {body}: {text}");
        for part in shown {
            assert!(text.contains(part), "{path} {body}: no {part} in {text}");
        }
    };
    let post = |path| (Method::POST, path);
    let wrong = "aria-invalid=\"true\"";
    let quota =
        format!("name=\"quota\" placeholder=\"20 GiB; empty: no limit\" value=\"much\" {wrong}");
    let name = format!("between them\" value=\"Audio 2\" {wrong}");
    let reader = "value=\"reader\" selected";
    let body = "name=audio&everybody=reader&quota=much";
    let shown = ["value=\"audio\"", reader, &quota];
    check(post("/projects"), body, 400, &shown).await;
    let body = "name=Audio+2&everybody=reader&quota=2+GiB";
    check(post("/projects"), body, 400, &[&name, "value=\"2 GiB\""]).await;
    let known = format!("between them\" value=\"vision\" {wrong}");
    check(
        post("/projects"),
        "name=vision&quota=9+GiB",
        409,
        &[&known, "value=\"9 GiB\""],
    )
    .await;
    let body = "what=access&everybody=reader&quota=1";
    let quota = format!("value=\"1\" {wrong}");
    check(
        post("/projects/vision"),
        body,
        400,
        &[reader, &quota, "A quota is at least"],
    )
    .await;

    let newest = format!("value=\"none\" {wrong}");
    let plan = "/projects/vision/plan?newest=none&per=branch";
    check((Method::GET, plan), "", 400, &[&newest, "value=\"branch\""]).await;
    let per = format!("value=\"a=b\" {wrong}");
    let plan = "/projects/vision/plan?newest=3&per=a%3Db";
    check((Method::GET, plan), "", 400, &[&per, "value=\"3\""]).await;
    check(
        post("/projects/vision"),
        "what=keep&newest=&per=branch",
        400,
        &["1 or more"],
    )
    .await;
    // Back from the plan, the rule stands in the form although it is not kept.
    let back = "href=\"/projects/vision?newest=3&amp;per=branch%2C+config";
    let plan = "/projects/vision/plan?newest=3&per=branch%2C+config";
    check((Method::GET, plan), "", 200, &[back]).await;
    let again = "/projects/vision?newest=3&per=branch%2C+config";
    let shown = ["value=\"3\"", "value=\"branch, config\"", "All runs stay"];
    check((Method::GET, again), "", 200, &shown).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rule_for_old_runs_says_for_how_long_pull_requests_keep_theirs() {
    let team = Team::start().await;
    let ada = with(&team.ada);
    let check = async |path: &str, status: StatusCode, shown: &[&str]| {
        let page = team.get(ada, path).await.expect(status);
        let text = String::from_utf8_lossy(&page.body).into_owned();
        for part in shown {
            assert!(text.contains(part), "{path}: no {part} in {text}");
        }
    };
    let field = |days: &str| format!("placeholder=\"empty: for ever\" value=\"{days}\"");
    let hidden = |days: &str| format!("name=\"pull_request_days\" value=\"{days}\"");
    let page = "/projects/vision";
    check(page, StatusCode::OK, &["All runs stay", &field("30")]).await;
    let plan = "/projects/vision/plan?newest=3&per=";
    let back = "newest=3&amp;per=&amp;pull_request_days=7";
    let plan = async |days: &str, status: StatusCode, shown: &[&str]| {
        check(&format!("{plan}&pull_request_days={days}"), status, shown).await;
    };
    let told = "showed in the last 7 days";
    plan("7", StatusCode::OK, &[told, &hidden("7"), back]).await;
    let all = "and all that pull requests showed";
    plan("", StatusCode::OK, &[all, &hidden("")]).await;
    let refused = "or nothing: for ever";
    plan("soon", StatusCode::BAD_REQUEST, &[refused, &field("soon")]).await;
    // Kept for ever, it stays empty in the form.
    let keep = json!({ "keep": { "newest": 3, "pull_request_days": null } });
    let kept = team
        .ask(ada, Method::PATCH, "/api/projects/vision", keep)
        .await;
    kept.expect(StatusCode::OK);
    check(page, StatusCode::OK, &[all, &field("")]).await;
}
