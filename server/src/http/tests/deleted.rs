//! A deleted run: nothing of it answers any more, whoever asks and whatever was kept of it.

use super::redaction::addresses;
use super::shares::{TOKEN, capability, create, guarded, session, slug, stranger, team};
use super::{Answer, Server, request};
use crate::http::audience::is_within;
use api::ids::RunId;
use api::routes;
use axum::body::Body;
use axum::http::{Method, StatusCode, header};
use serde_json::Value;

/// For each route that reads a run: an address that answers, and the tag of that answer.
async fn answered(server: &Server, run: &RunId) -> Vec<(String, Option<String>)> {
    let document: Value = team(server, Method::GET, routes::OPENAPI, "").await.read();
    let mut all = vec![(routes::labels_page(run), None)];
    for (path, methods) in document["paths"].as_object().unwrap() {
        let Some(route) = methods.get("get").filter(|_| path.contains("{run}")) else {
            continue;
        };
        let mut found = None;
        for address in addresses(path, route, run.as_str()) {
            let answer = team(server, Method::GET, &address, "").await;
            if answer.status.is_success() {
                let tag = answer.headers.get(header::ETAG);
                let tag = tag.map(|tag| tag.to_str().unwrap().to_owned());
                found = Some((address, tag));
                break;
            }
        }
        all.push(found.unwrap_or_else(|| panic!("no address of {path} answers")));
    }
    all
}

/// The answer to somebody of the team who has an answer with this tag.
async fn again(server: &Server, address: &str, tag: &str) -> Answer {
    let request = request(Method::GET, address)
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
        .header(header::IF_NONE_MATCH, tag);
    server.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_deleted_run_answers_any_more() {
    let (server, run) = guarded().await;
    let link = create(&server, &capability(&run)).await;
    let cookie = session(&server, &link).await;
    let known = answered(&server, &run.id).await;
    assert!(known.len() > 20, "{known:?}");
    let opens = |address: &str| {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        is_within(path, query, std::slice::from_ref(&run.id))
    };
    for (address, _) in known.iter().filter(|(address, _)| opens(address)) {
        let told = stranger(&server, Method::GET, address, &cookie).await;
        assert_eq!(told.status, StatusCode::OK, "{address}");
    }
    team(&server, Method::DELETE, &routes::run(&run.id), "").await;
    // Whoever can restore it is told until when, wherever they ask; with a link, nobody can.
    let gone = |answer: Answer, whose: &str, address: &str| {
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{whose}: {address}");
        let told = answer.problem().detail;
        assert!(
            told.contains("it was deleted"),
            "{whose}: {address}: {told}"
        );
        let says_until = told.contains("it was deleted, and can be restored until ");
        assert_eq!(says_until, whose != "link", "{whose}: {address}: {told}");
    };
    for (address, tag) in &known {
        let told = team(&server, Method::GET, address, "").await;
        gone(told, "team", address);
        if let Some(tag) = tag {
            gone(again(&server, address, tag).await, "known", address);
        }
        if opens(address) {
            let told = stranger(&server, Method::GET, address, &cookie).await;
            gone(told, "link", address);
        }
    }
    let page = server.get(&routes::share_page(slug(&link))).await;
    let page = String::from_utf8_lossy(&page.body).into_owned();
    assert!(!page.contains(&run.name), "{page}");
    let card = server.get(&routes::share_card(slug(&link))).await;
    gone(card, "link", "its card");
}
