//! The API's document: reviewed, and valid OpenAPI 3.1.

use super::Server;
use api::problem::Problem;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The schema of OpenAPI 3.1 documents; `tests/fixtures/openapi-3.1.schema.md` has its source.
const OPENAPI: &str = include_str!("../../../../tests/fixtures/openapi-3.1.schema.json");

async fn document() -> Value {
    let server = Server::start().await;
    server.get(api::routes::OPENAPI).await.read()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_the_reviewed_one() {
    let mut document = document().await;
    document["info"]["version"] = "any".into();
    insta::assert_json_snapshot!("openapi", document);
}

/// What is not in the document is refused: passed over, it would answer what nobody asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_the_document_does_not_name_is_refused() {
    let server = Server::start().await;
    let check = async |path: &str, expected: &str| {
        let answer = server.get(path).await.expect(StatusCode::BAD_REQUEST);
        let problem: Problem = answer.read();
        assert!(
            problem.detail.contains(expected),
            "{path}: {}",
            problem.detail
        );
    };
    check(
        "/api/runs?labl=branch%3Dmain",
        "no parameter `labl` here; it takes `",
    )
    .await;
    check("/api/runs?limit=1&Limit=2", "no parameter `Limit` here").await;
    check("/api/server?limit=1", "it takes none").await;
    for path in ["/api/runs?limit=1", "/api/runs?project=main"] {
        server.get(path).await.expect(StatusCode::OK);
    }
    // Addresses of pages may have what others append to them.
    server.get("/?utm_source=x").await.expect(StatusCode::OK);
}

/// The page asks every question about a device with the loop that a person has chosen. Only tiles
/// are the same whatever the steps are.
#[tokio::test(flavor = "multi_thread")]
async fn every_question_about_a_device_takes_its_steps() {
    let document = document().await;
    let paths = document["paths"].as_object().expect("an object");
    let of_device = paths
        .iter()
        .filter(|(path, _)| path.contains("/devices/{device}/"));
    let lacking = of_device.filter(|(_, item)| {
        let parameters = item["get"]["parameters"].as_array();
        let mut parameters = parameters.into_iter().flatten();
        !parameters.any(|parameter| parameter["name"] == "steps")
    });
    let lacking: Vec<&str> = lacking.map(|(path, _)| path.as_str()).collect();
    let tiles = ["mountain/{group}", "series"]
        .map(|what| format!("/api/runs/{{run}}/devices/{{device}}/{what}/{{level}}/{{index}}"));
    assert_eq!(lacking, tiles);
}

/// Readers do not see the code that the document is made from.
#[tokio::test(flavor = "multi_thread")]
async fn descriptions_are_not_in_the_words_of_the_code() {
    let mut found = Vec::new();
    walk(&document().await, &mut |key, value| {
        // The snapshot's own name.
        let text = value
            .as_str()
            .unwrap_or_default()
            .replace("TraceEntry::action", "");
        let is_code = ["[`", "`None`", "::", "`Some`"]
            .iter()
            .any(|code| text.contains(code));
        if matches!(key, "description" | "summary") && is_code {
            found.push(text);
        }
    });
    assert_eq!(found, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_tells_of_its_errors() {
    let document = document().await;
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|item| item.as_object().unwrap().values());
    let mut seen = 0;
    for operation in operations.filter(|operation| operation["responses"].is_object()) {
        let responses = &operation["responses"];
        let name = &operation["operationId"];
        assert!(responses["default"].is_object(), "{name}");
        let takes_json = operation["requestBody"]["content"]["application/json"].is_object();
        assert!(!takes_json || responses["422"].is_object(), "{name}");
        seen += 1;
    }
    assert!(seen > 90, "{seen}");
    let file = "/paths/~1api~1uploads~1{upload}/put/requestBody/content";
    let file = document.pointer(file).unwrap();
    assert_eq!(file, &json!({ "application/octet-stream": {} }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_valid() {
    let document = document().await;
    assert_eq!(faults(&document), [""; 0]);

    let check = |pointer: &str, value: Option<Value>, expected: &str| {
        let mut broken = document.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = broken.pointer_mut(parent).unwrap();
        let parent = parent.as_object_mut().unwrap();
        match value {
            Some(value) => parent.insert(key.to_owned(), value),
            None => parent.remove(key),
        };
        let found = faults(&broken);
        assert!(
            found.iter().any(|fault| fault.contains(expected)),
            "{pointer}: {found:?}"
        );
    };
    let ok = "/paths/~1api~1runs/get/responses/200";
    check(&format!("{ok}/description"), None, "description");
    let schema = format!("{ok}/content/application~1json/schema");
    check(&schema, Some(json!({ "type": "list" })), "list");
    let nowhere = json!({ "$ref": "#/components/schemas/Nothing" });
    check(&schema, Some(nowhere), "schemas/Nothing");
    let taken = Some(json!("samples_list"));
    check("/paths/~1api~1runs/get/operationId", taken, "samples_list");
    let run = "/paths/~1api~1runs~1{run}/get/parameters";
    check(run, Some(json!([])), "get /api/runs/{run} takes {}");
}

/// What is wrong with a document: by the schema, and in the parts that the schema does not check
/// (JSON schemas, references, and names of operations).
fn faults(document: &Value) -> Vec<String> {
    let openapi = serde_json::from_str(OPENAPI).unwrap();
    let openapi = jsonschema::validator_for(&openapi).unwrap();
    let told = |error: jsonschema::ValidationError| format!("{}: {error}", error.instance_path());
    let mut faults: Vec<String> = openapi.iter_errors(document).map(told).collect();
    let mut names = BTreeSet::new();
    walk(document, &mut |key, value| match (key, value) {
        ("schema", schema) => {
            faults.extend(jsonschema::meta::validate(schema).err().map(told));
        }
        ("schemas", Value::Object(schemas)) => {
            for schema in schemas.values() {
                faults.extend(jsonschema::meta::validate(schema).err().map(told));
            }
        }
        ("$ref", Value::String(target)) => {
            let pointer = target.strip_prefix('#').unwrap_or_default();
            if pointer.is_empty() || document.pointer(pointer).is_none() {
                faults.push(format!("there is no {target}"));
            }
        }
        ("operationId", Value::String(name)) if !names.insert(name.clone()) => {
            faults.push(format!("two operations are called {name}"));
        }
        ("paths", Value::Object(paths)) => {
            faults.extend(paths.iter().flat_map(|(path, item)| strays(path, item)));
        }
        _ => {}
    });
    faults
}

/// Path parameters that are not in the path, and parts of a path without a parameter.
fn strays(path: &str, item: &Value) -> Vec<String> {
    let parts = path.split('/').filter_map(|part| part.strip_prefix('{'));
    let expected: BTreeSet<&str> = parts.map(|part| part.trim_end_matches('}')).collect();
    let operations = item.as_object().into_iter().flatten();
    let told = operations.filter_map(|(method, operation)| {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let in_path = parameters.filter(|parameter| parameter["in"] == "path");
        let found: BTreeSet<&str> = in_path.filter_map(|p| p["name"].as_str()).collect();
        (found != expected).then(|| format!("{method} {path} takes {found:?}"))
    });
    told.collect()
}

/// Every key and its value, at any depth.
fn walk(value: &Value, see: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                see(key, value);
                walk(value, see);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, see)),
        _ => {}
    }
}
