//! Sign-in by a provider of OpenID Connect: one in this process, which can also lie. The sign-in at
//! a real one is in the crate `tests`.

use super::{Answer, Server, request};
use crate::who::oidc::{Secret, Settings};
use api::people::{AuditEntry, ChangePerson, Me, NewPerson, Person, Role};
use api::query::encode;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, header};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openidconnect::core::{CoreEdDsaPrivateSigningKey, CoreJwsSigningAlgorithm};
use openidconnect::{JsonWebKeyId, PkceCodeChallenge, PkceCodeVerifier, PrivateSigningKey};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Keys that sign nothing outside of these tests.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEIEIzQ0WTyZbqTWi/iJtRWWNdgbuaF5DnT9oXHgX5AwbX\n\
                   -----END PRIVATE KEY-----\n";
const OTHER_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEIPksyct0wor9yVzqNRBoxZGO3q9EEaDnzaCddTBCjZyL\n\
                   -----END PRIVATE KEY-----\n";

/// What the provider says next, and what it was asked.
#[derive(Default)]
struct Script {
    issuer: String,
    /// From the address to which the browser was sent.
    nonce: String,
    challenge: String,
    /// Claims of the token that replace the right ones.
    token: Value,
    /// The answer about the person.
    about: Value,
    /// The algorithm in the token's head, and whether another key signs it.
    algorithm: Option<&'static str>,
    forged: bool,
    asked_for_tokens: u32,
}

/// Changes what the provider says.
type Lie = fn(&mut Script);

type Shared = Arc<Mutex<Script>>;

struct Provider {
    script: Shared,
    issuer: String,
}

fn signed(script: &Script, claims: &Value) -> String {
    let pem = if script.forged { OTHER_KEY } else { KEY };
    let key = CoreEdDsaPrivateSigningKey::from_ed25519_pem(pem, None).unwrap();
    let algorithm = script.algorithm.unwrap_or("EdDSA");
    let head = json!({ "alg": algorithm, "kid": "one", "typ": "JWT" });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&head), part(claims));
    let signature = key.sign(&CoreJwsSigningAlgorithm::EdDsa, message.as_bytes());
    let signature = match algorithm {
        "none" => String::new(),
        _ => URL_SAFE_NO_PAD.encode(signature.unwrap()),
    };
    format!("{message}.{signature}")
}

async fn discovery(State(script): State<Shared>) -> Json<Value> {
    let issuer = script.lock().unwrap().issuer.clone();
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "userinfo_endpoint": format!("{issuer}/me"),
        "jwks_uri": format!("{issuer}/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["EdDSA", "RS256"],
    }))
}

async fn keys() -> Json<Value> {
    let id = JsonWebKeyId::new("one".to_owned());
    let key = CoreEdDsaPrivateSigningKey::from_ed25519_pem(KEY, Some(id)).unwrap();
    Json(json!({ "keys": [key.as_verification_key()] }))
}

async fn token(
    State(script): State<Shared>,
    Form(form): Form<HashMap<String, String>>,
) -> (StatusCode, Json<Value>) {
    let mut script = script.lock().unwrap();
    script.asked_for_tokens += 1;
    let verifier = PkceCodeVerifier::new(form["code_verifier"].clone());
    let challenge = PkceCodeChallenge::from_code_verifier_sha256(&verifier);
    if form["code"] != "the-code" || challenge.as_str() != script.challenge {
        let refused = json!({ "error": "invalid_grant" });
        return (StatusCode::BAD_REQUEST, Json(refused));
    }
    let now = crate::system::clock::now_ms() / 1000;
    let mut claims = json!({
        "iss": script.issuer, "sub": script.about["sub"], "aud": "tidemark",
        "exp": now + 60, "iat": now, "nonce": script.nonce,
    });
    for (name, value) in script.token.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    let answer = json!({
        "access_token": "access", "token_type": "Bearer", "id_token": signed(&script, &claims),
    });
    (StatusCode::OK, Json(answer))
}

async fn about(State(script): State<Shared>) -> Json<Value> {
    let script = script.lock().unwrap();
    let mut about = script.about.clone();
    if let Some(sub) = about
        .as_object_mut()
        .and_then(|about| about.remove("other_sub"))
    {
        about["sub"] = sub;
    }
    Json(about)
}

impl Provider {
    async fn start() -> Provider {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let script: Shared = Arc::default();
        script.lock().unwrap().issuer = issuer.clone();
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/me", get(about))
            .with_state(Arc::clone(&script));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Provider { script, issuer }
    }

    fn settings(&self) -> Settings {
        Settings {
            issuer: self.issuer.clone(),
            client: "tidemark".to_owned(),
            secret: Some(Secret("hush".to_owned())),
            allow: vec!["email=*@example.com".parse().unwrap()],
            newcomers: Role::Reader,
        }
    }

    async fn server(&self) -> Server {
        let settings = self.settings();
        Server::with(|config| config.oidc = Some(settings)).await
    }

    /// Lies in this way from now on.
    fn lies(&self, lie: impl FnOnce(&mut Script)) {
        lie(&mut self.script.lock().unwrap());
    }

    /// A browser signs in: it is sent to the provider, and comes back.
    async fn sign_in(&self, server: &Server, about: Value) -> Answer {
        let (state, cookie) = self.begin(server, "/account").await;
        self.lies(|script| script.about = about);
        finish(server, Some(&cookie), &state).await
    }

    async fn begin(&self, server: &Server, next: &str) -> (String, String) {
        let begun = server
            .get(&format!("/sign-in/oidc?next={}", encode(next)))
            .await;
        assert_eq!(begun.status, StatusCode::SEE_OTHER, "{begun:?}");
        let to = begun.headers[header::LOCATION].to_str().unwrap();
        assert!(
            to.starts_with(&format!("{}/authorize?", self.issuer)),
            "{to}"
        );
        let Query(query): Query<HashMap<String, String>> =
            Query::try_from_uri(&to.parse().unwrap()).unwrap();
        assert_eq!(query["code_challenge_method"], "S256");
        assert_eq!(
            query["redirect_uri"],
            "http://localhost:7878/sign-in/oidc/callback"
        );
        self.lies(|script| {
            script.nonce = query["nonce"].clone();
            script.challenge = query["code_challenge"].clone();
        });
        let cookie = begun.headers[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        (query["state"].clone(), cookie)
    }
}

async fn finish(server: &Server, cookie: Option<&str>, state: &str) -> Answer {
    let path = format!("/sign-in/oidc/callback?code=the-code&state={state}");
    let mut back = request(Method::GET, &path).header("sec-fetch-site", "cross-site");
    if let Some(cookie) = cookie {
        back = back.header(header::COOKIE, cookie);
    }
    server.send(back.body(Body::empty()).unwrap()).await
}

fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}

/// The cookie of the session, if there is one.
fn session(answer: &Answer) -> Option<String> {
    let cookies = answer.headers.get_all(header::SET_COOKIE).iter();
    let mut cookies = cookies.map(|cookie| cookie.to_str().unwrap());
    let session = cookies.find(|cookie| cookie.starts_with("tidemark_session="))?;
    Some(session.split(';').next().unwrap().to_owned())
}

async fn person(server: &Server, answer: &Answer) -> Person {
    let cookie = session(answer).expect("a session");
    let ask = request(Method::GET, "/api/me").header(header::COOKIE, cookie);
    let me: Me = server.send(ask.body(Body::empty()).unwrap()).await.read();
    me.person.unwrap()
}

fn ada() -> Value {
    json!({ "sub": "u1", "email": "Ada@example.com", "email_verified": true, "name": "Ada" })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_signs_people_in() {
    let provider = Provider::start().await;
    let server = provider.server().await;
    server
        .get("/api/runs")
        .await
        .expect(StatusCode::UNAUTHORIZED);
    let form = server.get("/sign-in?next=/account").await;
    assert!(
        text(&form).contains("/sign-in/oidc?next=%2Faccount"),
        "{}",
        text(&form)
    );
    let done = provider.sign_in(&server, ada()).await;
    assert_eq!(done.status, StatusCode::OK, "{}", text(&done));
    assert!(text(&done).contains("url=/account"), "{}", text(&done));
    let first = person(&server, &done).await;
    assert_eq!(
        (first.name.as_str(), first.role),
        ("Ada@example.com", Role::Admin)
    );
    // Subjects stay, and addresses change.
    let mut married = ada();
    married["email"] = json!("lovelace@example.com");
    let again = provider.sign_in(&server, married).await;
    assert_eq!(person(&server, &again).await.id, first.id);
    let bo = json!({ "sub": "u2", "email": "bo@example.com", "email_verified": true });
    let signed_in = provider.sign_in(&server, bo).await;
    let bo = person(&server, &signed_in).await;
    assert_eq!(
        (bo.name.as_str(), bo.role),
        ("bo@example.com", Role::Reader)
    );
    let ask = request(Method::GET, "/api/audit").header(header::COOKIE, session(&again).unwrap());
    let audit: Vec<AuditEntry> = server.send(ask.body(Body::empty()).unwrap()).await.read();
    let who: Vec<(&str, &str)> = audit
        .iter()
        .map(|e| (e.who.as_str(), e.action.as_str()))
        .collect();
    assert_eq!(who[0], ("bo@example.com", "sign_in"));
    // Whose access ended does not come in again.
    let left = ChangePerson {
        left: Some(true),
        role: None,
    };
    server
        .app
        .gate
        .change_person(&bo.id, &left, 1)
        .await
        .unwrap();
    let about = json!({ "sub": "u2", "email": "bo@example.com", "email_verified": true });
    let refused = provider.sign_in(&server, about).await;
    assert!(refused.status.is_client_error() && session(&refused).is_none());
    assert!(refused.problem().detail.contains("access has ended"));
    // Who is let in again signs in again: the old cookie stays dead.
    let again = ChangePerson {
        left: Some(false),
        role: None,
    };
    let gate = &server.app.gate;
    gate.change_person(&bo.id, &again, 2).await.unwrap();
    let ask = request(Method::GET, "/api/me").header(header::COOKIE, session(&signed_in).unwrap());
    let old = server.send(ask.body(Body::empty()).unwrap()).await;
    old.expect(StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_verified_address_leads_to_a_person_who_was_added() {
    let provider = Provider::start().await;
    let server = Server::with(|config| {
        let mut settings = provider.settings();
        settings.allow = vec!["any".parse().unwrap()];
        config.oidc = Some(settings);
    });
    let server = server.await;
    let people = &server.app.gate.people;
    for (name, role) in [("root", Role::Admin), ("ada@example.com", Role::Member)] {
        let name = name.to_owned();
        people.add(&NewPerson { name, role }, 1).await.unwrap();
    }
    let named = async |about: Value| {
        let done = provider.sign_in(&server, about).await;
        let person = person(&server, &done).await;
        (person.name, person.role)
    };
    let unverified =
        json!({ "sub": "e", "email": "ada@example.com", "preferred_username": "root" });
    assert_eq!(
        named(unverified).await,
        ("root (2)".to_owned(), Role::Reader)
    );
    let posing = json!({ "sub": "f", "preferred_username": "ada@example.com" });
    assert_eq!(
        named(posing).await,
        ("ada at example.com".to_owned(), Role::Reader)
    );
    assert_eq!(
        named(ada()).await,
        ("ada@example.com".to_owned(), Role::Member)
    );
    // The address was given to somebody else.
    let mut next = ada();
    next["sub"] = json!("u9");
    assert_eq!(
        named(next).await,
        ("Ada@example.com (2)".to_owned(), Role::Reader)
    );
    let hiding = json!({ "sub": "g", "name": "a\u{202e}b" });
    assert_eq!(named(hiding).await, ("ab".to_owned(), Role::Reader));
    let long = json!({ "sub": "x".repeat(200) });
    assert_eq!(named(long).await.0, "x".repeat(58));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_for_this_sign_in_signs_nobody_in() {
    let mut lies: Vec<(&str, Lie, StatusCode)> = Vec::new();
    let mut lie = |name, lie: Lie| lies.push((name, lie, StatusCode::UNAUTHORIZED));
    lie("nonce", |script| {
        script.token = json!({ "nonce": "another" })
    });
    lie("no nonce", |script| script.token = json!({ "nonce": null }));
    lie("audience", |script| {
        script.token = json!({ "aud": "another" })
    });
    lie("audiences", |script| {
        script.token = json!({ "aud": ["tidemark", "another"] })
    });
    lie("issuer", |script| {
        script.token = json!({ "iss": "https://evil.example" })
    });
    lie("expired", |script| {
        script.token = json!({ "exp": 1000, "iat": 900 })
    });
    lie("signature", |script| script.forged = true);
    lie("no algorithm", |script| script.algorithm = Some("none"));
    lie("another algorithm", |script| {
        script.algorithm = Some("HS256")
    });
    lie("verifier", |script| script.challenge = "another".to_owned());
    lie("somebody else", |script| {
        script.about["other_sub"] = json!("u2")
    });
    let mut not_allowed = |name, lie: Lie| lies.push((name, lie, StatusCode::FORBIDDEN));
    not_allowed("domain", |script| {
        script.about["email"] = json!("a@evil.example")
    });
    not_allowed("unverified", |script| {
        script.about["email_verified"] = json!(false)
    });
    for (name, lie, status) in lies {
        let provider = Provider::start().await;
        let server = provider.server().await;
        let (state, cookie) = provider.begin(&server, "/").await;
        provider.lies(|script| {
            script.about = ada();
            lie(script);
        });
        let refused = finish(&server, Some(&cookie), &state).await;
        assert_eq!(refused.status, status, "{name}: {}", text(&refused));
        assert_eq!(session(&refused), None, "{name}");
        assert!(server.app.gate.people.is_empty(), "{name}");
        assert!(text(&refused).contains("role=\"alert\""), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_browser_that_began_a_sign_in_ends_it() {
    let provider = Provider::start().await;
    let server = provider.server().await;
    let (state, cookie) = provider.begin(&server, "//evil.example/").await;
    provider.lies(|script| script.about = ada());
    let (_, others) = provider.begin(&server, "/").await;
    for (cookie, state) in [
        (None, state.as_str()),
        (Some(others.as_str()), &state),
        (Some(&cookie), ""),
        (Some("tidemark_sign_in=..|"), ""),
        (Some("tidemark_sign_in=|"), ""),
    ] {
        let refused = finish(&server, cookie, state).await;
        assert_eq!(
            refused.status,
            StatusCode::UNAUTHORIZED,
            "{cookie:?} {state:?}"
        );
        assert_eq!(session(&refused), None);
    }
    assert_eq!(provider.script.lock().unwrap().asked_for_tokens, 0);
    // What the provider says instead of a code is shown, and nothing of it obeyed.
    let said = "/sign-in/oidc/callback?error=access_denied&error_description=No%3Cb%3E&state=";
    let back = request(Method::GET, &format!("{said}{state}")).header(header::COOKIE, &cookie);
    let refused = server.send(back.body(Body::empty()).unwrap()).await;
    assert!(text(&refused).contains("No&lt;b&gt;"), "{}", text(&refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_away_is_named() {
    let settings = Settings {
        issuer: "http://127.0.0.1:9".to_owned(),
        ..Provider::start().await.settings()
    };
    let server = Server::with(|config| config.oidc = Some(settings)).await;
    let away = server.get("/sign-in/oidc").await;
    assert_eq!(away.status, StatusCode::BAD_GATEWAY);
    assert!(
        text(&away).contains("127.0.0.1 does not answer"),
        "{}",
        text(&away)
    );
    let without = Server::start().await;
    without
        .get("/sign-in/oidc")
        .await
        .expect(StatusCode::NOT_FOUND);
}

#[test]
fn a_provider_must_be_reached_over_tls() {
    let check = |issuer: &str, fine: bool| {
        let settings = Settings {
            issuer: issuer.to_owned(),
            client: String::new(),
            secret: None,
            allow: Vec::new(),
            newcomers: Role::Member,
        };
        assert_eq!(
            crate::who::oidc::Provider::new(settings).is_ok(),
            fine,
            "{issuer}"
        );
    };
    check("https://login.example.com/realm", true);
    check("http://127.0.0.1:8080", true);
    check("http://localhost:8080", true);
    check("http://login.example.com", false);
    check("ftp://127.0.0.1", false);
    check("login.example.com", false);
    check("", false);
}
