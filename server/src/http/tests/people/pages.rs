//! The pages for people, and their forms.

use super::super::Server;
use super::super::shares::{capability, open, slug};
use super::{add, cookie_of, form, get, page, secret_in, send, with_admin};
use api::people::{AuditEntry, Me, Role};
use api::routes;
use api::runs::{FinishedUpload, Sessions};
use api::shares::CreatedShare;
use axum::http::{Method, StatusCode, header};

#[tokio::test(flavor = "multi_thread")]
async fn plain_pages_lead_to_help_which_says_how_to_send_a_snapshot() {
    let (server, ada) = with_admin().await;
    let lo = add(&server, Some(&ada), "lo", Role::Reader).await;
    let signed_in = async |token: &str| {
        cookie_of(&form(&server, "", "/sign-in", &format!("token={token}")).await)
    };
    let (ada, lo) = (signed_in(&ada).await, signed_in(&lo.token.secret).await);
    let (_, text) = page(&server, &ada, "/account").await;
    assert!(
        text.contains("href=\"/help\""),
        "every plain page leads to it"
    );
    let (_, text) = page(&server, &ada, "/help").await;
    for said in [
        "-T snapshot.pickle http://",
        "tidemark push",
        "Bearer $TIDEMARK_TOKEN",
    ] {
        assert!(
            text.replace("&quot;", "\"").contains(said),
            "{said}: {text}"
        );
    }
    let (_, text) = page(&server, &lo, "/help").await;
    assert!(
        text.contains("Find your way") && !text.contains("curl"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_lead_from_the_first_person_to_a_token_and_out() {
    let server = Server::start().await;
    // On this machine nobody needs to sign in: the first person is added, and is then signed in.
    let added = form(&server, "", "/people", "name=ada&role=admin").await;
    let (ada, first) = (cookie_of(&added), secret_in(&added));
    let (status, _) = page(&server, "", "/account").await;
    assert_eq!(
        status,
        StatusCode::SEE_OTHER,
        "who has not signed in is sent to"
    );
    let (status, text) = page(&server, &ada, "/account").await;
    assert!(
        status.is_success() && text.contains("You are <strong>ada"),
        "{text}"
    );
    // Signing in with the token leads on to the wanted page.
    let body = format!("token={first}&next=%2Fruns%2Frun_a%3Fat%3D3");
    let signed_in = form(&server, "", "/sign-in", &body).await;
    assert_eq!(signed_in.headers[header::LOCATION], "/runs/run_a?at=3");
    // Who is signed in and shows a wrong token has not signed in again.
    let wrong = form(&server, &ada, "/sign-in", "token=wrong&next=//evil.example").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    let audit: Vec<AuditEntry> = get(&server, &first, "/api/audit").await.read();
    let sign_ins = audit.iter().filter(|entry| entry.action == "sign_in");
    assert_eq!(sign_ins.count(), 1);
    let text = String::from_utf8(wrong.body.to_vec()).unwrap();
    assert!(
        text.contains("not a token of this server") && !text.contains("evil"),
        "{text}"
    );
    // A token for a program; it is shown once.
    let made = form(&server, &ada, "/account/tokens", "name=CI&upload=1&days=30").await;
    let secret = secret_in(&made);
    let me: Me = get(&server, &secret, "/api/me").await.read();
    assert_eq!(me.scopes.to_string(), "upload");
    let (_, text) = page(&server, &ada, "/account").await;
    assert!(text.contains("CI") && !text.contains(&secret), "{text}");
    // Another person who is no admin sees only their own page.
    let added = form(&server, &ada, "/people", "name=%3Cb%3Ebo&role=member").await;
    let text = String::from_utf8(added.body.to_vec()).unwrap();
    assert!(
        text.contains("&lt;b&gt;bo") && !text.contains("<b>bo"),
        "names are no markup"
    );
    let body = format!("token={}", secret_in(&added));
    let bo = cookie_of(&form(&server, "", "/sign-in", &body).await);
    for path in ["/people", "/audit"] {
        assert_eq!(
            page(&server, &bo, path).await.0,
            StatusCode::FORBIDDEN,
            "{path}"
        );
    }
    let (_, text) = page(&server, &ada, "/audit").await;
    assert!(
        text.contains("make token") && text.contains("CI (upload)"),
        "{text}"
    );
    let sessions: Sessions = get(&server, &first, "/api/sessions").await.read();
    assert_eq!(sessions.sessions.len(), 3);
    let out = form(&server, &bo, "/sign-out", "").await;
    assert_eq!(out.status, StatusCode::SEE_OTHER);
    assert_eq!(
        page(&server, &bo, "/account").await.0,
        StatusCode::SEE_OTHER
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_ends_the_token_of_this_browser_is_asked_before() {
    let server = Server::start().await;
    let added = form(&server, "", "/people", "name=ada&role=admin").await;
    let body = format!("token={}", secret_in(&added));
    let signed_in = cookie_of(&form(&server, "", "/sign-in", &body).await);
    form(
        &server,
        &signed_in,
        "/account/tokens",
        "name=CI&read=1&days=30",
    )
    .await;
    let (_, text) = page(&server, &signed_in, "/account").await;
    assert_eq!(
        text.matches("You are signed in with this token").count(),
        1,
        "{text}"
    );
    assert_eq!(
        text.matches("End the token").count(),
        3,
        "its question and its button, and CI's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_too_late_leads_back_to_its_page() {
    let (server, _) = with_admin().await;
    for (path, page) in [
        ("/people/person_a", "/people"),
        ("/people/person_a/token", "/people"),
        ("/account/tokens/token_a/end", "/account"),
        ("/views/view_a/forget", "/views"),
        ("/projects", "/projects"),
        ("/projects/vision", "/projects/vision"),
        ("/projects/vision/members", "/projects/vision"),
        ("/live/live_a/capture", "/live/live_a"),
        ("/live/live_a/delete", "/live/live_a"),
    ] {
        let answer = form(&server, "", path, "x=y").await;
        let to = answer.headers[header::LOCATION].to_str().unwrap();
        assert_eq!(to, routes::sign_in_page(page), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_keeps_what_was_typed() {
    let server = Server::start().await;
    let ada = cookie_of(&form(&server, "", "/people", "name=ada&role=admin").await);
    let none = form(&server, &ada, "/account/tokens", "name=CI&days=30").await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);
    let text = String::from_utf8(none.body.to_vec()).unwrap();
    assert!(
        text.contains("value=\"CI\"") && text.contains("value=\"30\" selected"),
        "{text}"
    );
    assert!(
        text.contains("A token must be good for something"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_let_in_again_gets_a_token_to_sign_in_with() {
    let server = Server::start().await;
    let ada = cookie_of(&form(&server, "", "/people", "name=ada&role=admin").await);
    let added = form(&server, &ada, "/people", "name=bo&role=reader").await;
    let first = secret_in(&added);
    let (_, text) = page(&server, &ada, "/people").await;
    let ask = text
        .find("<summary aria-label=\"End access of bo\"")
        .unwrap();
    let end = text[ask..].find("name=\"left\" value=\"true\"").unwrap();
    assert!(
        text[ask..ask + end].contains("shut out at once"),
        "it is asked first"
    );
    let me: Me = get(&server, &first, "/api/me").await.read();
    let bo = format!("/people/{}", me.person.unwrap().id);
    let token = format!("{bo}/token");
    let second = secret_in(&form(&server, &ada, &token, "").await);
    for secret in [&first, &second] {
        assert!(get(&server, secret, "/api/me").await.status.is_success());
    }
    let ended = form(&server, &ada, &bo, "left=true").await;
    assert_eq!(ended.status, StatusCode::SEE_OTHER);
    let none = form(&server, &ada, &token, "").await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);
    let again = form(&server, &ada, &bo, "left=false").await;
    assert_eq!(again.status, StatusCode::OK);
    let third = secret_in(&again);
    let me: Me = get(&server, &third, "/api/me").await.read();
    assert_eq!(me.person.unwrap().name, "bo");
    let refused = get(&server, &first, "/api/me").await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    // What was typed stays, and the error stands at the name.
    let twice = form(&server, &ada, "/people", "name=bo&role=guest").await;
    assert_eq!(twice.status, StatusCode::CONFLICT);
    let text = String::from_utf8(twice.body.to_vec()).unwrap();
    assert!(
        text.contains("value=\"bo\" aria-invalid=\"true\""),
        "{text}"
    );
    let form = &text[text.find("Add a person").unwrap()..];
    assert!(form.contains("value=\"guest\" selected"), "{form}");
    let (_, text) = page(&server, &ada, "/audit").await;
    assert!(text.contains("sign in of bo"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_in_no_project_is_offered_no_token() {
    let server = Server::start().await;
    let ada = cookie_of(&form(&server, "", "/people", "name=ada&role=admin").await);
    let account = async |role: &str| {
        let added = form(
            &server,
            &ada,
            "/people",
            &format!("name={role}&role={role}"),
        )
        .await;
        let body = format!("token={}", secret_in(&added));
        let cookie = cookie_of(&form(&server, "", "/sign-in", &body).await);
        page(&server, &cookie, "/account").await.1
    };
    let guest = account("guest").await;
    let told = "You may do nothing until somebody adds you to a project.";
    assert!(
        guest.contains(told) && guest.contains("nothing now"),
        "{guest}"
    );
    assert!(!guest.contains("Make a token"), "{guest}");
    let reader = account("reader").await;
    assert!(reader.contains("This browser may: read."), "{reader}");
    assert!(reader.contains("Make a token"), "{reader}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_shared_who_left_is_counted_and_can_be_revoked() {
    let (server, ada) = with_admin().await;
    let bo = add(&server, Some(&ada), "bo", Role::Member).await;
    let sample = routes::sample("leak_hook_cache");
    let sent = send(&server, Some(&ada), Method::POST, &sample, "").await;
    let run = sent.read::<FinishedUpload>().run;
    let make = async |token: &str| -> CreatedShare {
        let new = serde_json::to_string(&capability(&run)).unwrap();
        let made = send(&server, Some(token), Method::POST, "/api/shares", &new).await;
        made.expect(StatusCode::CREATED).read()
    };
    let (of_bo, of_ada) = (make(&bo.token.secret).await, make(&ada).await);
    let opens = async |link: &CreatedShare| open(&server, slug(link)).await.status;
    let cookie = cookie_of(&form(&server, "", "/sign-in", &format!("token={ada}")).await);
    let path = routes::person_page(&bo.person.id);
    let (_, text) = page(&server, &cookie, "/people").await;
    assert!(text.contains("stays open (1 link)"), "{text}");
    assert!(
        !text.contains("Revoke all"),
        "who may share is asked: {text}"
    );
    form(&server, &cookie, &path, "left=true").await;
    assert_eq!(opens(&of_bo).await, StatusCode::OK);
    let (_, text) = page(&server, &cookie, "/people").await;
    assert!(text.contains("1 link that they made: open."), "{text}");
    let done = form(&server, &cookie, &path, "links=revoke").await;
    let text = String::from_utf8(done.body.to_vec()).unwrap();
    assert!(text.contains("Revoked of bo: 1 link"), "{text}");
    assert!(!text.contains("Revoke all"), "{text}");
    assert_eq!(opens(&of_bo).await, StatusCode::GONE);
    assert_eq!(opens(&of_ada).await, StatusCode::OK, "others keep theirs");
    let audit: Vec<AuditEntry> = get(&server, &ada, "/api/audit").await.read();
    let told = audit
        .iter()
        .any(|entry| entry.subject == "bo: 1 link revoked");
    assert!(told, "{audit:?}");
}

/// A page that is loaded again sends its form again.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_makes_a_token_makes_one() {
    let (server, ada) = with_admin().await;
    let ada = cookie_of(&form(&server, "", "/sign-in", &format!("token={ada}")).await);
    let tokens = async || {
        let (_, text) = page(&server, &ada, "/account").await;
        text.matches("/end\"").count()
    };
    let before = tokens().await;
    let (sent, fields) = ("/account/tokens?form=form_a", "name=CI&upload=1&days=30");
    secret_in(&form(&server, &ada, sent, fields).await);
    let again = form(&server, &ada, sent, fields).await;
    assert!(String::from_utf8_lossy(&again.body).contains("This was sent before"));
    assert_eq!(tokens().await, before + 1);
    // One that was refused may be corrected.
    let refused = form(
        &server,
        &ada,
        "/account/tokens?form=form_b",
        "name=CI&days=30",
    )
    .await;
    assert!(!refused.status.is_success());
    secret_in(&form(&server, &ada, "/account/tokens?form=form_b", fields).await);
    assert_eq!(tokens().await, before + 2);

    let sent = "/people?form=form_c";
    secret_in(&form(&server, &ada, sent, "name=lo&role=reader").await);
    let again = form(&server, &ada, sent, "name=mo&role=reader").await;
    assert!(String::from_utf8_lossy(&again.body).contains("This was sent before"));
    assert!(!page(&server, &ada, "/people").await.1.contains(">mo<"));
}
