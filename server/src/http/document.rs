//! Adds to the API's document what the attributes of the handlers do not say.

use crate::problems;
use api::bench::{BenchRow, TensorChanges};
use api::routes;
use api::shares::NewShare;
use api::timeline::Marks;
use serde_json::Value;
use trace::layout::MOST_MOMENTS;
use trace::trace::Series;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, PathItem, Ref, RefOr, Response, ResponseBuilder};

/// Errors are problems; all of them have this media type.
const PROBLEM: &str = "application/problem+json";

/// The file that an upload sends.
const FILE: &str = "application/octet-stream";

/// The name of the way in which a program signs in.
const TOKEN: &str = "token";

/// Gives every operation a unique name. For each error, adds its meaning and that it is a problem;
/// the handlers only list the statuses that mean something of their own.
pub fn finish(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            name(operation);
            add_errors(operation);
            describe_errors(operation);
            describe_file(operation);
        }
    }
    add_token(document);
}

/// How a program signs in. Where nobody signs in, no token is needed.
fn add_token(document: &mut OpenApi) {
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A person's token, made on the page `/account`, or the server's. Not needed where \
             nobody signs in.",
        ))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(TOKEN, SecurityScheme::Http(token));
    let no_scopes: [&str; 0] = [];
    document.security = Some(vec![
        SecurityRequirement::default(),
        SecurityRequirement::new(TOKEN, no_scopes),
    ]);
}

/// The document in the words of its readers, who do not see the code that it is made from.
pub fn in_words(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" || name == "summary" => {
                        *text = words(text);
                    }
                    value => in_words(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(in_words),
        _ => {}
    }
}

fn words(text: &str) -> String {
    let of_code = [
        ("[`NewShare::MAX_TEXT`]", NewShare::MAX_TEXT.to_string()),
        (
            "[`BenchRow::SPARK_POINTS`]",
            BenchRow::SPARK_POINTS.to_string(),
        ),
        ("[`TensorChanges::MOST`]", TensorChanges::MOST.to_string()),
        (
            "[`Marks::MAX_ANNOTATIONS`]",
            Marks::MAX_ANNOTATIONS.to_string(),
        ),
        ("[`Marks::MAX_OOMS`]", Marks::MAX_OOMS.to_string()),
        ("[`Marks::MAX_STAYS`]", Marks::MAX_STAYS.to_string()),
        ("[`trace::layout::MOST_MOMENTS`]", MOST_MOMENTS.to_string()),
        ("[`Series::ALL`]", Series::ALL.map(Series::name).join(", ")),
        (
            "[`Pattern::EveryNth`]",
            "the pattern `every_nth`".to_owned(),
        ),
        (
            "[`crate::routes::upload`]",
            "`/api/uploads/{upload}`".to_owned(),
        ),
        (
            "[`crate::routes::upload_events`]",
            "`/api/uploads/{upload}/events`".to_owned(),
        ),
        ("[`crate::routes::EVENTS`]", format!("`{}`", routes::EVENTS)),
        ("`None`", "`null`".to_owned()),
        ("`i64::MAX`", i64::MAX.to_string()),
        (", because SQLite stores `i64`", String::new()),
    ];
    let mut text = text.to_owned();
    for (theirs, ours) in of_code {
        text = text.replace(theirs, &ours);
    }
    // The names of other types are those of schemas.
    text.replace("[`", "`").replace("`]", "`")
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem {
        get,
        put,
        post,
        delete,
        patch,
        ..
    } = item;
    [get, put, post, delete, patch].into_iter().flatten()
}

/// `list` of the tag `runs` becomes `runs_list`: several tags have a `list`.
fn name(operation: &mut Operation) {
    let tag = operation.tags.as_ref().and_then(|tags| tags.first());
    if let (Some(tag), Some(name)) = (tag, &operation.operation_id) {
        operation.operation_id = Some(format!("{tag}_{name}"));
    }
}

/// What any operation of its kind answers, where the handler says nothing else of it.
fn add_errors(operation: &mut Operation) {
    let takes_json = match &operation.request_body {
        Some(RefOr::T(body)) => !body.content.contains_key(FILE),
        Some(RefOr::Ref(_)) | None => false,
    };
    let may_be_malformed = operation.parameters.is_some() || operation.request_body.is_some();
    let mut add = |status: &str, description: &str| {
        let responses = &mut operation.responses.responses;
        let problem = || RefOr::T(problem(description));
        responses.entry(status.to_owned()).or_insert_with(problem);
    };
    if may_be_malformed {
        add("400", "");
    }
    if takes_json {
        add(
            "422",
            "The body has not the form that is described here. `detail` says where.",
        );
    }
    add(
        "default",
        "Another problem: `status` says of which kind, `code` and `detail` which.",
    );
}

fn problem(description: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description(description)
        .content(PROBLEM, content)
        .build()
}

/// A file is bytes, and no list of numbers.
fn describe_file(operation: &mut Operation) {
    if let Some(RefOr::T(body)) = &mut operation.request_body
        && let Some(content) = body.content.get_mut(FILE)
    {
        *content = RefOr::T(ContentBuilder::new().build());
    }
}

fn describe_errors(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        let (RefOr::T(response), Some(meaning)) = (response, problems::meaning(status)) else {
            continue;
        };
        if response.description.is_empty() {
            meaning.clone_into(&mut response.description);
        }
        if let Some(content) = response.content.shift_remove("application/json") {
            response.content.insert(PROBLEM.to_owned(), content);
        }
    }
}
