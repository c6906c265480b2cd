//! Shared links: what they open, what they refuse, and what they leave out.

use super::{Answer, Server, packed_snapshot, request};
use crate::who::server_token::Token;
use api::people::AddedPerson;
use api::problem::ProblemCode;
use api::routes;
use api::runs::{FinishedUpload, RunDetail, RunSummary};
use api::shares::{
    CreatedShare, NewShare, Redaction, RedactionPreview, Share, ShareKind, ShareState, ShareTarget,
};
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::{Value, json};
use trace::device::DeviceIdx;
use trace::tiles::{GroupBy, TileId};
use trace::trace::BlockIdx;

pub const TOKEN: &str = "correct-horse-battery-staple-0001";

/// A query in version 1 of the view state. It must never change.
const QUERY_V1: &str = "v=1&dev=0&from=12.5&to=480&low=4096&high=8388608&axis=time&group=file\
                        &show=mountain&sel=b7";

pub async fn guarded() -> (Server, RunSummary) {
    let server = Server::with(|config| config.token = Some(Token::new(TOKEN).unwrap())).await;
    let run = team(
        &server,
        Method::POST,
        &routes::sample("leak_hook_cache"),
        "",
    )
    .await
    .read::<FinishedUpload>()
    .run;
    (server, run)
}

/// A request by someone who knows the token.
pub async fn team(server: &Server, method: Method, path: &str, json: &str) -> Answer {
    let request = request(method, path)
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
        .header(header::CONTENT_TYPE, "application/json");
    server
        .send(request.body(Body::from(json.to_owned())).unwrap())
        .await
}

/// A block for a pull request that leads to a link, made by somebody who may see all names.
async fn block_above(server: &Server, created: &CreatedShare, path: &str) -> String {
    let join = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{join}link={}", slug(created));
    let answer = team(server, Method::GET, &path, "").await;
    let block = String::from_utf8(answer.expect(StatusCode::OK).body.to_vec()).unwrap();
    assert!(block.contains(&created.url), "{block}");
    block
}

/// A request by someone who knows nothing but some cookies.
pub async fn stranger(server: &Server, method: Method, path: &str, cookie: &str) -> Answer {
    let request = request(method, path).header(header::COOKIE, cookie);
    server.send(request.body(Body::empty()).unwrap()).await
}

pub fn capability(run: &RunSummary) -> NewShare {
    NewShare {
        kind: ShareKind::Capability,
        target: ShareTarget::Run {
            run: run.id.clone(),
        },
        query: QUERY_V1.to_owned(),
        redaction: Redaction::None,
        note: "for the review".to_owned(),
        created_by: "Kim".to_owned(),
        expires_in_s: Some(3600),
    }
}

pub async fn create(server: &Server, new: &NewShare) -> CreatedShare {
    let body = serde_json::to_string(new).unwrap();
    let answer = team(server, Method::POST, routes::SHARES, &body).await;
    answer.expect(StatusCode::CREATED).read()
}

pub fn slug(created: &CreatedShare) -> &str {
    created.url.rsplit('/').next().unwrap()
}

pub async fn open(server: &Server, slug: &str) -> Answer {
    let body = format!(r#"{{"token":"{slug}"}}"#);
    server.json(Method::POST, routes::OPEN_SHARE, &body).await
}

/// The address of a link's card, without the format.
fn slug_card(created: &CreatedShare) -> String {
    let card = routes::share_card(slug(created));
    card.trim_end_matches(".png").to_owned()
}

/// Opens a link and returns the cookie as a browser would send it.
pub async fn session(server: &Server, created: &CreatedShare) -> String {
    let answer = open(server, slug(created)).await.expect(StatusCode::OK);
    let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_without_login_opens_its_run_and_nothing_else() {
    let (server, run) = guarded().await;
    let other = team(&server, Method::POST, &routes::sample("plain_lm"), "").await;
    let other = other.read::<FinishedUpload>().run.id;
    let created = create(&server, &capability(&run)).await;
    assert_eq!(slug(&created).len(), 22);
    let cookie = session(&server, &created).await;
    let tile = TileId::covering(0, u64::from(run.devices[0].events));
    for path in [
        routes::run(&run.id),
        routes::marks(&run.id, DeviceIdx(0)),
        routes::contents(&run.id, DeviceIdx(0)),
        routes::series_tile(&run.id, DeviceIdx(0), tile),
        routes::mountain_tile(&run.id, DeviceIdx(0), GroupBy::Stack, tile),
        routes::block(&run.id, DeviceIdx(0), BlockIdx(7)),
    ] {
        let named = format!(
            "{path}{}share={}",
            if path.contains('?') { '&' } else { '?' },
            created.share.id
        );
        for path in [path, named] {
            let answer = stranger(&server, Method::GET, &path, &cookie).await;
            answer.expect(StatusCode::OK);
        }
    }
    let run_path = routes::run(&run.id);
    let refused = [
        (Method::GET, routes::RUNS.to_owned()),
        (Method::GET, routes::run(&other)),
        (Method::GET, routes::marks(&other, DeviceIdx(0))),
        (Method::GET, routes::SHARES.to_owned()),
        (Method::GET, routes::SAMPLES.to_owned()),
        (Method::GET, routes::EVENTS.to_owned()),
        (Method::GET, routes::OPENAPI.to_owned()),
        (Method::GET, routes::redaction_preview(&run.id)),
        (Method::GET, format!("{run_path}/export")),
        (Method::GET, "/api/bench".to_owned()),
        (Method::GET, routes::history(&[])),
        (Method::PATCH, run_path.clone()),
        (Method::PATCH, routes::run_labels(&run.id)),
        (Method::DELETE, run_path.clone()),
        (Method::POST, routes::run_restore(&run.id)),
        (Method::POST, routes::SHARES.to_owned()),
        (Method::DELETE, routes::share(&created.share.id)),
        (Method::POST, routes::UPLOADS.to_owned()),
        (Method::PUT, routes::upload_named("x")),
        (Method::POST, routes::sample("plain_lm")),
    ];
    for (method, path) in refused {
        // If the request does not name the link, the client is still asked for the token.
        let answer = stranger(&server, method.clone(), &path, &cookie).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path}");
        answer.problem();
        let named = routes::for_link(&path, &created.share.id);
        let answer = stranger(&server, method.clone(), &named, &cookie).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method} {named}");
        answer.problem();
    }
    let no_cookie = stranger(&server, Method::GET, &run_path, "other=1").await;
    no_cookie.expect(StatusCode::UNAUTHORIZED);
    let forged = format!("{}x", cookie);
    stranger(&server, Method::GET, &run_path, &forged)
        .await
        .expect(StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_is_told_once_and_kept_only_as_a_hash() {
    let (server, run) = guarded().await;
    let created = create(&server, &capability(&run)).await;
    let secret = slug(&created);
    let listed = team(&server, Method::GET, &routes::shares_of(&run.id), "").await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(secret));
    let listed: Vec<Share> = listed.read();
    assert_eq!(listed, std::slice::from_ref(&created.share));
    for entry in std::fs::read_dir(server.data()).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let secret = secret.as_bytes();
        let found = bytes.windows(secret.len()).any(|window| window == secret);
        assert!(!found, "{:?}", entry.path());
    }
    // The short id is only a name: it opens nothing.
    let id = created.share.id.as_str().trim_start_matches("shr_");
    let answer = open(&server, id).await;
    assert_eq!(answer.problem().code, ProblemCode::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_link_needs_the_login() {
    let (server, run) = guarded().await;
    let new = NewShare {
        kind: ShareKind::Team,
        ..capability(&run)
    };
    let created = create(&server, &new).await;
    assert_eq!(slug(&created).len(), 10);
    let answer = open(&server, slug(&created)).await;
    assert_eq!(answer.problem().code, ProblemCode::Unauthorized);
    let body = format!(r#"{{"token":"{}"}}"#, slug(&created));
    let answer = team(&server, Method::POST, routes::OPEN_SHARE, &body).await;
    let answer = answer.expect(StatusCode::OK);
    assert!(!answer.headers.contains_key(header::SET_COOKIE));
    assert_eq!(answer.read::<Share>().query, QUERY_V1);
    let page = server.get(&routes::share_page(slug(&created))).await;
    let page = String::from_utf8_lossy(&page.expect(StatusCode::OK).body).into_owned();
    assert!(
        !page.contains("og:title"),
        "it says nothing before the login"
    );
}

/// Labels belong to the team: even a link that shows all names does not show them.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_does_not_show_labels() {
    let (server, run) = guarded().await;
    let labels = r#"{"labels":{"branch":"main"}}"#;
    let path = routes::run_labels(&run.id);
    let labelled = team(&server, Method::PATCH, &path, labels).await;
    assert_eq!(labelled.read::<RunSummary>().labels.len(), 1);
    let created = create(&server, &capability(&run)).await;
    let cookie = session(&server, &created).await;
    let seen = stranger(&server, Method::GET, &routes::run(&run.id), &cookie).await;
    let seen: RunDetail = seen.expect(StatusCode::OK).read();
    assert_eq!(seen.summary.name, run.name);
    assert!(seen.summary.labels.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_does_not_show_who_uploaded_the_run() {
    let server = Server::with(|config| config.token = Some(Token::new(TOKEN).unwrap())).await;
    let upload = request(Method::PUT, &routes::upload_named("a.pickle"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
    let sent = server.send(upload.body(Body::from(packed_snapshot())).unwrap());
    let sent: FinishedUpload = sent.await.expect(StatusCode::CREATED).read();
    let path = routes::run(&sent.run.id);
    let seen: RunDetail = team(&server, Method::GET, &path, "").await.read();
    assert_eq!(
        seen.summary.uploaded_by.as_deref(),
        Some("the server's token")
    );
    for redaction in [Redaction::None, Redaction::Redacted] {
        let wanted = NewShare {
            redaction,
            ..capability(&sent.run)
        };
        let created = create(&server, &wanted).await;
        let cookie = session(&server, &created).await;
        let seen = stranger(&server, Method::GET, &path, &cookie).await;
        let seen: Value = seen.expect(StatusCode::OK).read();
        assert_eq!(seen.get("uploaded_by"), None, "{seen}");
        let page = routes::labels_page(&sent.run.id);
        let page = stranger(&server, Method::GET, &page, &cookie).await;
        assert_ne!(page.status, StatusCode::OK);
        let listed = stranger(&server, Method::GET, routes::RUNS, &cookie).await;
        listed.expect(StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_link_says_who_and_when_and_closes_open_sessions() {
    let (server, run) = guarded().await;
    let created = create(&server, &capability(&run)).await;
    let cookie = session(&server, &created).await;
    let revoke = format!("{}?by=Lee", routes::share(&created.share.id));
    let revoked = team(&server, Method::DELETE, &revoke, "").await;
    let revoked: Share = revoked.expect(StatusCode::OK).read();
    assert_eq!(revoked.state, ShareState::Revoked);
    let plain = routes::run(&run.id);
    let answer = stranger(&server, Method::GET, &plain, &cookie).await;
    answer.expect(StatusCode::UNAUTHORIZED);
    let named = routes::for_link(&plain, &created.share.id);
    let answer = stranger(&server, Method::GET, &named, &cookie).await;
    assert_eq!(answer.problem().code, ProblemCode::Gone);
    let gone = open(&server, slug(&created)).await.expect(StatusCode::GONE);
    let detail = gone.problem().detail;
    for part in [
        "revoked on 2",
        "UTC by Lee",
        "by Kim",
        "for the review",
        &run.name,
    ] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    // Revoking it again changes nothing.
    let again = format!("{}?by=Mo", routes::share(&created.share.id));
    let again: Share = team(&server, Method::DELETE, &again, "").await.read();
    assert_eq!(again.revoked_by.as_deref(), Some("Lee"));
    assert_eq!(again.revoked_ms, revoked.revoked_ms);
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_links_a_browser_has_opened_the_newest_opens() {
    let (server, run) = guarded().await;
    // A browser sends the oldest cookie first.
    let mut kept: Vec<(String, String)> = Vec::new();
    for _ in 0..34 {
        let created = create(&server, &capability(&run)).await;
        let sent: Vec<String> = kept
            .iter()
            .map(|(name, is)| format!("{name}={is}"))
            .collect();
        let body = json!({ "token": slug(&created) }).to_string();
        let opening = request(Method::POST, routes::OPEN_SHARE)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::COOKIE, sent.join("; "));
        let opened = server.send(opening.body(Body::from(body)).unwrap()).await;
        let opened = opened.expect(StatusCode::OK);
        for cookie in opened.headers.get_all(header::SET_COOKIE) {
            let (pair, rest) = cookie.to_str().unwrap().split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            match rest.contains("Max-Age=0;") || rest.ends_with("Max-Age=0") {
                true => kept.retain(|(known, _)| known != name),
                false => kept.push((name.to_owned(), value.to_owned())),
            }
        }
        let named = routes::for_link(&routes::run(&run.id), &created.share.id);
        let sent: Vec<String> = kept
            .iter()
            .map(|(name, is)| format!("{name}={is}"))
            .collect();
        let answer = stranger(&server, Method::GET, &named, &sent.join("; ")).await;
        answer.expect(StatusCode::OK);
    }
    assert_eq!(kept.len(), 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_link_says_so() {
    let (server, run) = guarded().await;
    let new = NewShare {
        expires_in_s: Some(1),
        ..capability(&run)
    };
    let created = create(&server, &new).await;
    let cookie = session(&server, &created).await;
    server.app.store.pass_ms(1100);
    let plain = routes::run(&run.id);
    let answer = stranger(&server, Method::GET, &plain, &cookie).await;
    answer.expect(StatusCode::UNAUTHORIZED);
    let named = routes::for_link(&plain, &created.share.id);
    let answer = stranger(&server, Method::GET, &named, &cookie).await;
    assert_eq!(answer.problem().code, ProblemCode::Gone);
    let detail = open(&server, slug(&created)).await.problem().detail;
    assert!(detail.contains("It expired on 2"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redacted_link_shows_no_paths_names_or_settings() {
    let (server, run) = guarded().await;
    let rename = r#"{"name":"alice apollo"}"#;
    team(&server, Method::PATCH, &routes::run(&run.id), rename).await;
    let new = NewShare {
        redaction: Redaction::Redacted,
        ..capability(&run)
    };
    let created = create(&server, &new).await;
    let cookie = session(&server, &created).await;
    let detail: RunDetail = stranger(&server, Method::GET, &routes::run(&run.id), &cookie)
        .await
        .read();
    assert!(detail.summary.name.starts_with("Run "));
    let full: RunDetail = team(&server, Method::GET, &routes::run(&run.id), "")
        .await
        .read();
    assert_eq!(detail.settings, full.settings, "numbers and switches");
    assert!(detail.summary.content_hash.is_empty() && detail.summary.created_ms == 0);
    let tile = TileId::covering(0, u64::from(run.devices[0].events));
    let mut paths = vec![
        routes::run(&run.id),
        routes::marks(&run.id, DeviceIdx(0)),
        routes::contents(&run.id, DeviceIdx(0)),
    ];
    paths.extend(["svg", "md"].map(|format| routes::card(&run.id, format)));
    paths.extend(
        GroupBy::ALL.map(|group| routes::mountain_tile(&run.id, DeviceIdx(0), group, tile)),
    );
    paths.extend((0..200).map(|block| routes::block(&run.id, DeviceIdx(0), BlockIdx(block))));
    paths.extend(
        (0..200).map(|event| routes::moment(&run.id, DeviceIdx(0), trace::units::EventIdx(event))),
    );
    let mut told = 0;
    for path in paths {
        let full = team(&server, Method::GET, &path, "").await;
        told += usize::from(tells(&full.body));
        // The team's answer is not given to others, whichever of the two was drawn first.
        for cached in [&path, &path] {
            let answer = stranger(&server, Method::GET, cached, &cookie).await;
            assert!(!tells(&answer.expect(StatusCode::OK).body), "{path}");
        }
        // When the team uses the link, it sees what the link shows.
        let named = format!(
            "{path}{}share={}",
            if path.contains('?') { '&' } else { '?' },
            created.share.id
        );
        let answer = team(&server, Method::GET, &named, "").await;
        assert!(!tells(&answer.expect(StatusCode::OK).body), "{named}");
    }
    assert!(told > 50, "the check must be able to fail: {told}");
    let md = routes::card(&run.id, "md");
    let block = block_above(&server, &created, &md).await;
    assert!(
        !tells(block.as_bytes()) && block.contains("Run "),
        "{block}"
    );
    let open_to_all = create(&server, &capability(&run)).await;
    let block = block_above(&server, &open_to_all, &md).await;
    assert!(tells(block.as_bytes()), "the check must be able to fail");
    let gone = format!("{}?by=Lee", routes::share(&created.share.id));
    team(&server, Method::DELETE, &gone, "").await;
    let card = server.get(&routes::share_card(slug(&created))).await;
    card.expect(StatusCode::GONE);
    assert!(!tells(&open(&server, slug(&created)).await.body));
}

fn tells(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    ["/home/", "/srv/", "alice", "apollo"]
        .iter()
        .any(|word| text.contains(word))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_preview_tells_what_redaction_changes() {
    let (server, run) = guarded().await;
    let path = routes::redaction_preview(&run.id);
    let preview: RedactionPreview = team(&server, Method::GET, &path, "").await.read();
    assert!(preview.changed as usize >= preview.examples.len());
    let of = |what: &str| preview.examples.iter().find(|text| text.what == what);
    assert_eq!(of("name").unwrap().before, run.name);
    let file = of("file").unwrap();
    assert!(file.before.starts_with('/') && !file.after.starts_with('/'));
}

#[tokio::test(flavor = "multi_thread")]
async fn links_work_without_any_token_too() {
    let server = Server::start().await;
    let answer = server
        .json(Method::POST, &routes::sample("leak_hook_cache"), "")
        .await;
    let run = answer.read::<FinishedUpload>().run;
    let body = serde_json::to_string(&NewShare {
        redaction: Redaction::Redacted,
        ..capability(&run)
    });
    let created: CreatedShare = server
        .json(Method::POST, routes::SHARES, &body.unwrap())
        .await
        .read();
    open(&server, slug(&created)).await.expect(StatusCode::OK);
    let path = format!("{}?share={}", routes::run(&run.id), created.share.id);
    let detail: RunDetail = server.get(&path).await.read();
    assert!(detail.summary.name.starts_with("Run "));
    // A link does not open the list, even if everybody may see it.
    let list = format!("{}?share={}", routes::RUNS, created.share.id);
    server.get(&list).await.expect(StatusCode::FORBIDDEN);
}

/// On a server with one project, a guest is in none.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_who_is_signed_in_opens_a_link_as_everybody_does() {
    let (server, run) = guarded().await;
    let mut secrets = Vec::new();
    for body in [
        r#"{"name":"ada","role":"admin"}"#,
        r#"{"name":"eve","role":"guest"}"#,
    ] {
        let added = team(&server, Method::POST, routes::PEOPLE, body).await;
        let added: AddedPerson = added.expect(StatusCode::CREATED).read();
        secrets.push(added.token.secret);
    }
    let created = create(&server, &capability(&run)).await;
    let link = session(&server, &created).await;
    let signed_in = json!({ "token": secrets[1] }).to_string();
    let signed_in = server.json(Method::POST, routes::SESSION, &signed_in).await;
    let eve = signed_in.headers[header::SET_COOKIE].to_str().unwrap();
    let eve = eve.split(';').next().unwrap();
    let path = format!("{}?share={}", routes::run(&run.id), created.share.id);
    let both = format!("{eve}; {link}");
    stranger(&server, Method::GET, &path, &both)
        .await
        .expect(StatusCode::OK);
    let list = format!("{}?share={}", routes::RUNS, created.share.id);
    for (path, cookies) in [
        (path.as_str(), eve),
        (&list, &both),
        (&routes::run(&run.id), &both),
    ] {
        let refused = stranger(&server, Method::GET, path, cookies).await;
        assert!(
            refused.status.is_client_error(),
            "{path}: {}",
            refused.status
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_unfolds_in_a_chat() {
    let (server, run) = guarded().await;
    let rename = r#"{"name":"\"<b>\" & co"}"#;
    team(&server, Method::PATCH, &routes::run(&run.id), rename).await;
    let created = create(&server, &capability(&run)).await;
    let answer = server.get(&routes::share_page(slug(&created))).await;
    let page = String::from_utf8_lossy(&answer.expect(StatusCode::OK).body).into_owned();
    let title = r#"<meta property="og:title" content="&quot;&lt;b&gt;&quot; &amp; co">"#;
    assert!(page.contains(title), "{page}");
    assert!(page.contains("for the review"));
    let image = format!("http://localhost:7878/s/{}/card.png", slug(&created));
    assert!(page.contains(&format!(r#"<meta property="og:image" content="{image}">"#)));
    let path = image.trim_start_matches("http://localhost:7878");
    let image = server.get(path).await.expect(StatusCode::OK);
    assert_eq!(image.headers[header::CONTENT_TYPE], "image/png");
    let team_link = NewShare {
        kind: ShareKind::Team,
        ..capability(&run)
    };
    let team_link = create(&server, &team_link).await;
    let path = routes::share_card(slug(&team_link));
    server.get(&path).await.expect(StatusCode::NOT_FOUND);
    let answer = server
        .get(&routes::share_page("0000000000000000000000"))
        .await;
    assert!(!String::from_utf8_lossy(&answer.expect(StatusCode::OK).body).contains("og:title"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_link_is_refused() {
    let (server, run) = guarded().await;
    let check = async |new: NewShare, status: StatusCode| {
        let body = serde_json::to_string(&new).unwrap();
        let answer = team(&server, Method::POST, routes::SHARES, &body).await;
        assert_eq!(answer.status, status, "{new:?}");
    };
    let bad = StatusCode::BAD_REQUEST;
    let good = capability(&run);
    let with = |change: fn(&mut NewShare)| {
        let mut new = good.clone();
        change(&mut new);
        new
    };
    check(with(|new| new.query = "v=99".to_owned()), bad).await;
    check(with(|new| new.query = "v=1\n".to_owned()), bad).await;
    check(with(|new| new.note = "x".repeat(201)), bad).await;
    let team_redacted = |new: &mut NewShare| {
        (new.kind, new.redaction) = (ShareKind::Team, Redaction::Redacted);
    };
    check(with(team_redacted), bad).await;
    let missing = |new: &mut NewShare| {
        let run = "run_0000000000000000".parse().unwrap();
        new.target = ShareTarget::Run { run };
    };
    check(with(missing), StatusCode::NOT_FOUND).await;
    let alone = |new: &mut NewShare| {
        let runs = new.target.runs().to_vec();
        new.target = ShareTarget::Comparison { runs };
    };
    check(with(alone), bad).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_a_comparison_opens_its_runs_redacted() {
    let (server, run) = guarded().await;
    let other = team(&server, Method::POST, &routes::sample("plain_lm"), "").await;
    let other = other.read::<FinishedUpload>().run;
    let third = team(&server, Method::POST, &routes::sample("streams"), "").await;
    let third = third.read::<FinishedUpload>().run.id;
    let runs = vec![run.id.clone(), other.id.clone()];
    let query = format!("v=1&runs={},{}&align=step&sel=s01ab", run.id, other.id);
    let created = create(
        &server,
        &NewShare {
            target: ShareTarget::Comparison { runs: runs.clone() },
            query: query.clone(),
            redaction: Redaction::Redacted,
            ..capability(&run)
        },
    )
    .await;
    assert_eq!(created.share.query, query);
    let cookie = session(&server, &created).await;
    let curves = format!("{}?runs={},{}", routes::COMPARE_CURVES, run.id, other.id);
    let pictures = ["svg", "png", "md"].map(|format| routes::compare_card(&query, format));
    let mut paths = vec![routes::compare(&runs), curves, routes::run(&other.id)];
    paths.extend(pictures);
    for path in paths {
        let full = team(&server, Method::GET, &path, "").await;
        full.expect(StatusCode::OK);
        let answer = stranger(&server, Method::GET, &path, &cookie).await;
        let answer = answer.expect(StatusCode::OK);
        assert!(!tells(&answer.body), "{path}");
        assert!(!String::from_utf8_lossy(&answer.body).contains(&run.name));
    }
    let block = block_above(&server, &created, &routes::compare_card(&query, "md")).await;
    assert!(
        !tells(block.as_bytes()) && !block.contains(&run.name),
        "{block}"
    );
    let full = team(&server, Method::GET, &routes::compare(&runs), "").await;
    assert!(tells(&full.body), "the check must be able to fail");
    let svg = routes::compare_card(&query, "svg");
    let full = team(&server, Method::GET, &svg, "").await.body;
    assert!(String::from_utf8_lossy(&full).contains(&run.name));
    let shown = server.get(&format!("{}.svg", slug_card(&created))).await;
    let shown = shown.expect(StatusCode::OK).body;
    assert_eq!(
        shown,
        stranger(&server, Method::GET, &svg, &cookie).await.body
    );
    let page = server.get(&routes::share_page(slug(&created))).await.body;
    let page = String::from_utf8_lossy(&page).into_owned();
    let image = format!("http://localhost:7878{}.png", slug_card(&created));
    assert!(page.contains(&format!(r#"<meta property="og:image" content="{image}">"#)));
    let numbers = routes::compare_markdown(&query, None, false);
    let numbers = team(&server, Method::GET, &numbers, "")
        .await
        .expect(StatusCode::OK);
    let numbers = String::from_utf8_lossy(&numbers.body).into_owned();
    assert!(numbers.contains("peak allocated") && !numbers.contains(&run.name));
    assert!(!numbers.contains("!["));
    let beyond = routes::compare(&[run.id.clone(), third]);
    for path in [beyond.as_str(), routes::COMPARISONS] {
        let named = routes::for_link(path, &created.share.id);
        let answer = stranger(&server, Method::GET, &named, &cookie).await;
        answer.expect(StatusCode::FORBIDDEN);
    }
}
