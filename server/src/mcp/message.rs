//! What is sent instead of a message of the protocol, and how that is answered.

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcError, RequestId};
use serde::Deserialize;
use serde_json::Value;

/// Methods whose parameters have a form; that of others is not known.
const OF_A_FORM: [&str; 4] = ["initialize", "ping", "tools/call", "tools/list"];

/// The error that a body is answered with; `None` if it is a message.
pub fn refusal(body: &[u8]) -> Option<JsonRpcError> {
    if serde_json::from_slice::<ClientJsonRpcMessage>(body).is_ok() {
        return None;
    }
    let (id, error) = match serde_json::from_slice::<Value>(body) {
        Err(why) => {
            let why = format!("the body is not JSON: {why}");
            (None, ErrorData::parse_error(why, None))
        }
        Ok(Value::Array(_)) => {
            let why = "this is an array: send one message at a time";
            (None, ErrorData::invalid_request(why, None))
        }
        Ok(other) => {
            let id = other
                .get("id")
                .and_then(|id| RequestId::deserialize(id).ok());
            let why = "this is no message of JSON-RPC 2.0: it has `jsonrpc`, `method` and, as a \
                       request, an `id` that is a number or a text";
            (id, ErrorData::invalid_request(why, None))
        }
    };
    Some(JsonRpcError::new(id, error))
}

/// The error of a request that is none of those that are known, as far as its form goes.
pub fn unknown(method: &str) -> ErrorData {
    match OF_A_FORM.contains(&method) {
        true => {
            let why = format!("the parameters of {method} do not have their form");
            let why = match method {
                "tools/call" => why + ": `name` is a text and `arguments` an object",
                _ => why,
            };
            ErrorData::invalid_params(why, None)
        }
        false => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_no_message_is_refused_by_the_rules_of_json_rpc() {
        let check = |body: &str, code: i32, id: Value| {
            let error = refusal(body.as_bytes()).expect(body);
            let told = serde_json::to_value(error).unwrap();
            assert_eq!(told["error"]["code"], code, "{body}: {told}");
            assert_eq!(told["id"], id, "{body}: {told}");
            assert_eq!(told["jsonrpc"], "2.0");
        };
        check("", -32700, Value::Null);
        check("{\"jsonrpc\":", -32700, Value::Null);
        check("[]", -32600, Value::Null);
        check("7", -32600, Value::Null);
        check(r#"{"id":7,"method":"ping"}"#, -32600, json!(7));
        check(r#"{"jsonrpc":"2.0","id":"a"}"#, -32600, json!("a"));
        check(
            r#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#,
            -32600,
            Value::Null,
        );
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":[]}}"#,
        ] {
            assert_eq!(refusal(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn wrong_parameters_are_not_an_unknown_method() {
        assert_eq!(unknown("tools/call").code, ErrorCode::INVALID_PARAMS);
        assert_eq!(unknown("tools/list").code, ErrorCode::INVALID_PARAMS);
        assert_eq!(unknown("tools/none").code, ErrorCode::METHOD_NOT_FOUND);
    }
}
