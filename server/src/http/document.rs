//! Adds to the API's document what the attributes of the handlers do not say.

use crate::problems;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, PathItem, RefOr};

/// Errors are problems; all of them have this media type.
const PROBLEM: &str = "application/problem+json";

/// Gives every operation a unique name. For each error, adds its meaning and that it is a problem;
/// the handlers only list its status.
pub fn finish(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            name(operation);
            describe_errors(operation);
        }
    }
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
