//! What is read is what `serde_json` reads, and nothing makes it panic.

use super::*;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;

#[derive(Debug, PartialEq, Deserialize)]
struct Inner {
    n: u64,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Newtype(Inner);

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Variant {
    Unit,
    One(Inner),
    Two(u8, Inner),
    Named { inner: Inner },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Tagged {
    Some { inner: Inner },
    None,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Flat {
    #[serde(flatten)]
    inner: Inner,
    text: String,
}

#[derive(Debug, PartialEq, Deserialize)]
struct All {
    inner: Inner,
    option: Option<Inner>,
    list: Vec<Inner>,
    pair: (Inner, f64),
    map: BTreeMap<String, Inner>,
    newtype: Newtype,
    variants: Vec<Variant>,
    tagged: Vec<Tagged>,
    flat: Flat,
    #[serde(default)]
    missing: Option<bool>,
}

#[test]
fn what_is_read_is_what_is_read_without() {
    let json = r#"{"inner":{"n":1,"unknown":[{"n":[]}]},"option":{"n":2},"list":[{"n":3}],
        "pair":[{"n":4},0.5],"map":{"a b":{"n":5}},"newtype":{"n":6},
        "variants":["unit",{"one":{"n":7}},{"two":[8,{"n":9}]},{"named":{"inner":{"n":10}}}],
        "tagged":[{"kind":"some","inner":{"n":11}},{"kind":"none"}],
        "flat":{"n":12,"text":"ü"}}"#;
    let plain: All = serde_json::from_str(json).unwrap();
    assert_eq!(read::<All>(json).unwrap(), plain);
    assert_eq!(read::<Option<Inner>>("null").unwrap(), None);
}

#[test]
fn a_structure_is_no_array() {
    fn refused<T: DeserializeOwned + Debug>(json: &str) {
        serde_json::from_str::<T>(json).unwrap();
        let error = read::<T>(json).unwrap_err().to_string();
        assert!(error.starts_with("{ was expected"), "{error}");
    }
    refused::<Inner>("[1]");
    refused::<Vec<Inner>>("[[1]]");
    refused::<Variant>(r#"{"named":[{"n":1}]}"#);
}

fn same(json: &str) {
    let ours = read::<Value>(json).map_err(|error| error.to_string());
    let theirs = serde_json::from_str::<Value>(json);
    assert_eq!(ours.ok(), theirs.ok(), "{json}");
}

#[test]
fn values_are_those_of_serde_json() {
    for json in [
        "0",
        "-1",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "0.1",
        "-2.5e-3",
        "1E5",
        "123456789.125",
        " [ ] ",
        r#"{"a":[{},[],null,true,false,"b"],"c":{"d":0}}"#,
        r#""\u00fc \ud83d\ude00 \"\\\/\b\f\n\r\t ü""#,
    ] {
        assert!(read::<Value>(json).is_ok(), "{json}");
        same(json);
    }
}

#[test]
fn what_is_no_json_is_refused() {
    for json in [
        "",
        "nul",
        "[1,]",
        "[1 2]",
        "[,1]",
        "{1:2}",
        r#"{"a"}"#,
        r#"{"a":1,}"#,
        "[1",
        r#"{"a":1"#,
        "1 2",
        "-",
        "1.",
        "1e",
        "\"a",
        r#""\x""#,
        r#""\u12g4""#,
        r#""\ud83d""#,
        r#""\udc00""#,
        r#""\ud83d\u0041""#,
        "[}",
        "{]",
        "+1",
        r#""\u+123""#,
    ] {
        assert!(read::<Value>(json).is_err(), "{json}");
        same(json);
    }
    let deep = "[".repeat(100_000);
    assert!(read::<Value>(&deep).is_err());
    assert!(read::<All>(&format!(r#"{{"unknown":{deep}"#)).is_err());
    assert!(read::<Variant>(r#""one""#).is_err());
    assert!(read::<Variant>(r#"{"unit":1}"#).is_err());
    assert_eq!(read::<Variant>(r#"{"unit":null}"#).unwrap(), Variant::Unit);
}

#[test]
fn what_is_missing_is_named() {
    let error = read::<All>(r#"{"inner":{}}"#).unwrap_err().to_string();
    assert_eq!(error, "missing field `n`");
    let error = read::<Variant>(r#""three""#).unwrap_err().to_string();
    assert_eq!(error, "unknown variant three");
}

/// Any value.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC*|[\\x00-\\x7f]*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..5).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_written_is_read(value in values()) {
        prop_assert_eq!(&read::<Value>(&value.to_string()).unwrap(), &value);
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(read::<Value>(&pretty).unwrap(), value);
    }

    #[test]
    fn a_float_is_read_exactly(float in any::<f64>()) {
        prop_assume!(float.is_finite());
        prop_assert_eq!(read::<f64>(&format!("{float:e}")).unwrap(), float);
    }

    #[test]
    fn no_text_makes_it_panic(text in r#"[\[\]{}",:0-9a-fnrtu\\. -]*"#) {
        let _ = read::<Value>(&text);
        let _ = read::<All>(&text);
    }
}
