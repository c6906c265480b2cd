//! The parameters that each operation of the API takes: those that its document names. Another one
//! is a mistake; if it were passed over, `?labl=…` would answer what nobody asked for. Only the
//! project that is meant, and the link through which a reader came, may be named everywhere.

use crate::problems::Error;
use api::{projects, routes};
use axum::extract::{self, MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::sync::Arc;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, PathItem, RefOr};

/// What every operation takes.
const EVERYWHERE: [&str; 2] = [projects::PARAMETER, routes::SHARE_PARAMETER];

/// Each name with its value.
type Query = extract::Query<Vec<(String, String)>>;

/// The names of the parameters, by method and route.
pub struct Parameters(HashMap<(Method, String), Vec<String>>);

impl Parameters {
    /// Those that the document names.
    pub fn of(document: &OpenApi) -> Parameters {
        let paths = document.paths.paths.iter();
        let all = paths.flat_map(|(path, item)| {
            operations(item).map(|(method, found)| ((method, path.clone()), names(found)))
        });
        Parameters(all.collect())
    }

    /// What to say of a query with a parameter that this operation does not take.
    fn fault(&self, method: &Method, route: &str, query: &Query) -> Option<String> {
        let method = match *method {
            Method::HEAD => Method::GET,
            ref other => other.clone(),
        };
        let known = self.0.get(&(method, route.to_owned()))?;
        if is_card(route) {
            return None;
        }
        let given = query.0.iter().map(|(name, _)| name);
        let mut given = given.filter(|name| !EVERYWHERE.contains(&name.as_str()));
        let unknown = given.find(|name| !known.contains(name))?;
        let known = known.iter().map(|name| format!("`{name}`"));
        let takes = match known.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "it takes none".to_owned(),
            names => format!("it takes {names}"),
        };
        Some(format!("there is no parameter `{unknown}` here; {takes}"))
    }
}

/// Whether this is a card. It draws a view, and takes all parameters of that view's page.
fn is_card(route: &str) -> bool {
    let file = route.rsplit('/').next();
    file.is_some_and(|file| file.starts_with("card."))
}

fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::DELETE, &item.delete),
        (Method::PATCH, &item.patch),
    ];
    all.into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

fn names(operation: &Operation) -> Vec<String> {
    let all = operation.parameters.iter().flatten();
    let of_query = all.filter_map(|parameter| match parameter {
        RefOr::T(found) if found.parameter_in == ParameterIn::Query => Some(found.name.clone()),
        RefOr::T(_) | RefOr::Ref(_) => None,
    });
    of_query.collect()
}

/// Refuses a request with a parameter that its operation does not take.
pub async fn check(parameters: Arc<Parameters>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str);
    let fault = Query::try_from_uri(request.uri())
        .ok()
        .and_then(|query| parameters.fault(request.method(), route, &query));
    match fault {
        Some(fault) => Error::BadRequest(fault).into_response(),
        None => next.run(request).await,
    }
}
