//! Asks a provider who somebody is, with the crate `openidconnect`.

use super::allow::verified_email;
use super::{Attempt, Identity, OidcError, Rule, Settings};
use crate::system::causes;
use api::people::Role;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClientAuthMethod,
    CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreRevocableToken, CoreRevocationErrorResponse,
    CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, AuthType, AuthorizationCode, Client, ClientId, ClientSecret, CsrfToken,
    EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, HttpRequest,
    HttpResponse, IdTokenFields, IssuerUrl, Nonce, OAuth2TokenResponse, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, Scope, StandardErrorResponse, StandardTokenResponse,
    TokenResponse, UserInfoClaims,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use ureq::http::Uri;

/// How long the provider may take for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The largest answer of a provider; keys and claims take a few KB.
const LARGEST: u64 = 1 << 20;

/// How long the provider's addresses and keys are kept. Providers change keys more seldom, and show
/// a new one before they use it.
const KEPT: Duration = Duration::from_secs(10 * 60);

/// How many sign-ins may ask the provider at a time.
const AT_ONCE: usize = 8;

/// All claims that OpenID Connect does not define.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Others(Map<String, Value>);

impl AdditionalClaims for Others {}

type Tokens = StandardTokenResponse<
    IdTokenFields<
        Others,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

/// The crate's `CoreClient`, with all claims.
type Party = Client<
    Others,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// A provider. It is asked only when somebody signs in, so the server starts without it.
pub struct Provider {
    inner: Arc<Inner>,
    places: Arc<Semaphore>,
}

struct Inner {
    settings: Settings,
    issuer: IssuerUrl,
    host: String,
    agent: ureq::Agent,
    /// Its addresses and keys, and when they were read.
    known: Mutex<Option<(Instant, CoreProviderMetadata)>>,
}

/// Why a request to the provider failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Http(#[from] ureq::Error),
    #[error("its answer is not understood")]
    Answer(#[from] ureq::http::Error),
}

impl Provider {
    /// A provider with these settings.
    ///
    /// # Errors
    /// What is wrong with its address.
    pub fn new(settings: Settings) -> Result<Provider, String> {
        let wrong = |why: &str| format!("--oidc-issuer {}: {why}", settings.issuer);
        let uri: Uri = settings.issuer.parse().map_err(|_| wrong("no address"))?;
        let host = uri.host().ok_or_else(|| wrong("no host in it"))?.to_owned();
        let here =
            crate::who::host_names::Authority::parse(&host).is_some_and(|host| host.is_loopback());
        let encrypted = uri.scheme_str() == Some("https");
        let on_this_machine = here && uri.scheme_str() == Some("http");
        if !encrypted && !on_this_machine {
            return Err(wrong(
                "it must begin with https:// (http:// on this machine only)",
            ));
        }
        let issuer = IssuerUrl::new(settings.issuer.clone());
        let issuer = issuer.map_err(|error| wrong(&error.to_string()))?;
        // Its answers name further addresses. A redirect could lead to another one.
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .https_only(encrypted)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("tidemark/", env!("CARGO_PKG_VERSION")));
        Ok(Provider {
            inner: Arc::new(Inner {
                settings,
                issuer,
                host,
                agent: agent.build().new_agent(),
                known: Mutex::default(),
            }),
            places: Arc::new(Semaphore::new(AT_ONCE)),
        })
    }

    /// Its host, for people.
    pub fn host(&self) -> &str {
        &self.inner.host
    }

    /// The role of people who come for the first time.
    pub fn newcomers(&self) -> Role {
        self.inner.settings.newcomers
    }

    /// Begins a sign-in. Returns the address at the provider to which the browser goes, and what
    /// the browser keeps. From there it comes back to `redirect`.
    ///
    /// # Errors
    /// [`OidcError`].
    pub async fn begin(&self, redirect: String) -> Result<(String, Attempt), OidcError> {
        self.ask(move |inner| inner.begin(&redirect)).await
    }

    /// Ends a sign-in, with the code that the browser brought back to `redirect`.
    ///
    /// # Errors
    /// [`OidcError`].
    pub async fn finish(
        &self,
        redirect: String,
        attempt: Attempt,
        code: String,
    ) -> Result<Identity, OidcError> {
        self.ask(move |inner| inner.finish(&redirect, attempt, code))
            .await
    }

    /// Asks on a thread that may wait.
    async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Inner) -> Result<T, OidcError> + Send + 'static,
    ) -> Result<T, OidcError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| OidcError::Busy)?;
        let inner = Arc::clone(&self.inner);
        let asking = tokio::task::spawn_blocking(move || {
            let _place = place;
            ask(&inner)
        });
        let panicked = |_| OidcError::Provider {
            host: self.inner.host.clone(),
            why: "reading its answer failed".to_owned(),
        };
        asking.await.map_err(panicked)?
    }
}

impl Inner {
    fn begin(&self, redirect: &str) -> Result<(String, Attempt), OidcError> {
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let party = self.party(redirect)?;
        let address = party
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                CsrfToken::new_random,
                Nonce::new_random,
            )
            .add_scope(Scope::new("email".to_owned()))
            .add_scope(Scope::new("profile".to_owned()))
            .set_pkce_challenge(challenge);
        let (address, state, nonce) = address.url();
        let attempt = Attempt {
            state: state.into_secret(),
            nonce: nonce.secret().clone(),
            verifier: verifier.into_secret(),
        };
        Ok((address.to_string(), attempt))
    }

    fn finish(
        &self,
        redirect: &str,
        attempt: Attempt,
        code: String,
    ) -> Result<Identity, OidcError> {
        let party = self.party(redirect)?;
        let send = |request| self.send(request);
        let tokens = party
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|error| self.broken(&error))?
            .set_pkce_verifier(PkceCodeVerifier::new(attempt.verifier))
            .request(&send)
            .map_err(|error| self.refused(&error))?;
        let token = tokens.id_token();
        let token = token.ok_or_else(|| self.not_signed_in("it sent no ID token"))?;
        let nonce = Nonce::new(attempt.nonce);
        let verifier = party.id_token_verifier();
        let claims = token
            .claims(&verifier, &nonce)
            .map_err(|error| self.refused(&error))?;
        let mut said = object(claims);
        // Providers may send address and name only from there. It must be the same person.
        let subject = claims.subject().clone();
        if let Ok(request) = party.user_info(tokens.access_token().clone(), Some(subject.clone())) {
            let more: Result<UserInfoClaims<Others, CoreGenderClaim>, _> = request.request(&send);
            let more = more.map_err(|error| self.refused(&error))?;
            for (name, value) in object(&more) {
                said.entry(name).or_insert(value);
            }
        }
        self.admitted(subject.as_str(), &said)
    }

    /// Whoever a rule lets in.
    fn admitted(&self, subject: &str, said: &Map<String, Value>) -> Result<Identity, OidcError> {
        let email = verified_email(said).map(str::to_owned);
        let name = |claim: &str| said.get(claim).and_then(Value::as_str);
        let names = ["preferred_username", "name", "nickname"];
        let names = names.into_iter().filter_map(name).chain([subject]);
        let names: Vec<String> = names.map(str::to_owned).collect();
        if !self
            .settings
            .allow
            .iter()
            .any(|rule: &Rule| rule.holds(said))
        {
            let who = email.unwrap_or_else(|| names[0].clone());
            let host = self.host.clone();
            return Err(OidcError::NotAllowed { who, host });
        }
        Ok(Identity {
            issuer: self.settings.issuer.clone(),
            subject: subject.to_owned(),
            email,
            names,
        })
    }

    fn party(&self, redirect: &str) -> Result<Party, OidcError> {
        let metadata = self.metadata()?;
        let methods = metadata.token_endpoint_auth_methods_supported();
        // Without a list, a provider takes the first of these.
        let basic = methods.is_none_or(|m| m.contains(&CoreClientAuthMethod::ClientSecretBasic));
        let settings = &self.settings;
        let secret = settings.secret.as_ref();
        let redirect = RedirectUrl::new(redirect.to_owned());
        let party = Party::from_provider_metadata(
            metadata,
            ClientId::new(settings.client.clone()),
            secret.map(|secret| ClientSecret::new(secret.0.clone())),
        )
        .set_auth_type(match basic {
            true => AuthType::BasicAuth,
            false => AuthType::RequestBody,
        });
        Ok(party.set_redirect_uri(redirect.map_err(|error| self.broken(&error))?))
    }

    /// The provider's addresses and keys. While one sign-in reads them, the others wait.
    fn metadata(&self) -> Result<CoreProviderMetadata, OidcError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, metadata)) = &*known
            && at.elapsed() < KEPT
        {
            return Ok(metadata.clone());
        }
        let read = CoreProviderMetadata::discover(&self.issuer, &|request| self.send(request));
        let metadata = read.map_err(|error| self.broken(&error))?;
        *known = Some((Instant::now(), metadata.clone()));
        Ok(metadata)
    }

    fn send(&self, request: HttpRequest) -> Result<HttpResponse, Failure> {
        let answer = self.agent.run(request)?;
        let (head, mut body) = answer.into_parts();
        let body = body.with_config().limit(LARGEST).read_to_vec()?;
        Ok(HttpResponse::from_parts(head, body))
    }

    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> OidcError {
        OidcError::Provider {
            host: self.host.clone(),
            why: causes::in_one_line(error),
        }
    }

    fn refused(&self, error: &(dyn std::error::Error + 'static)) -> OidcError {
        self.not_signed_in(&causes::in_one_line(error))
    }

    fn not_signed_in(&self, why: &str) -> OidcError {
        OidcError::NotSignedIn {
            host: self.host.clone(),
            why: why.to_owned(),
        }
    }
}

/// Claims as JSON.
fn object(claims: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(claims) {
        Ok(Value::Object(claims)) => claims,
        // Claims are an object: their types say so.
        _ => Map::new(),
    }
}
