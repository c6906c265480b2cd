//! Who may come in: `claim=value` rules on what the provider says of a person.

use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// One rule. A person may come in if one of the rules holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Everybody whom the provider signs in.
    Anybody,
    /// Whose verified address of mail is this, or ends with this (`@example.com`).
    Email(String),
    /// Of whom the provider says this: the claim is the value, or a list with the value in it. A
    /// name with dots also leads into objects (`realm_access.roles`).
    Claim {
        /// Name of the claim.
        name: String,
        /// What it must be.
        value: String,
    },
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` does not say who may come in: write email=*@example.com, email=ada@example.com, \
     groups=ml-systems (any claim of the provider), or any for everybody whom it signs in"
)]
pub struct BadRule(String);

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Rule, BadRule> {
        if text == "any" {
            return Ok(Rule::Anybody);
        }
        let bad = || BadRule(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(bad)?;
        if name.is_empty() || value.is_empty() {
            return Err(bad());
        }
        if name != "email" {
            return Ok(Rule::Claim {
                name: name.to_owned(),
                value: value.to_owned(),
            });
        }
        let end = value.strip_prefix('*').unwrap_or(value);
        // `*example.com` would also take `eve@badexample.com`, and `*` everybody.
        let whole = end.matches('@').count() == 1 && !end.contains('*') && !end.ends_with('@');
        let wild = end.len() < value.len();
        match whole && wild == end.starts_with('@') {
            true => Ok(Rule::Email(end.to_lowercase())),
            false => Err(bad()),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Anybody => f.write_str("any"),
            Rule::Email(end) if end.starts_with('@') => write!(f, "email=*{end}"),
            Rule::Email(address) => write!(f, "email={address}"),
            Rule::Claim { name, value } => write!(f, "{name}={value}"),
        }
    }
}

impl Rule {
    /// Whether it holds for a person with these claims.
    pub fn holds(&self, claims: &Map<String, Value>) -> bool {
        match self {
            Rule::Anybody => true,
            Rule::Email(wanted) => verified_email(claims).is_some_and(|email| {
                let email = email.to_lowercase();
                match wanted.starts_with('@') {
                    true => email.ends_with(wanted.as_str()),
                    false => email == *wanted,
                }
            }),
            Rule::Claim { name, value } => {
                let found = claims.get(name).or_else(|| within(claims, name));
                found.is_some_and(|found| is(found, value))
            }
        }
    }
}

/// The address of mail, if the provider has verified it: anybody can claim an address.
pub fn verified_email(claims: &Map<String, Value>) -> Option<&str> {
    let verified = match claims.get("email_verified")? {
        Value::Bool(verified) => *verified,
        // Some providers send it as a text.
        Value::String(text) => text == "true",
        _ => false,
    };
    let email = claims.get("email")?.as_str()?;
    // One @, so that `eve@evil.example@example.com` ends with nobody's domain.
    (verified && email.matches('@').count() == 1).then_some(email)
}

fn within<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.split_once('.')?;
    rest.split('.')
        .try_fold(claims.get(first)?, |value, part| value.get(part))
}

fn is(found: &Value, value: &str) -> bool {
    match found {
        Value::String(text) => text == value,
        Value::Bool(found) => value == if *found { "true" } else { "false" },
        Value::Number(found) => found.to_string() == value,
        Value::Array(list) => list.iter().any(|one| !one.is_array() && is(one, value)),
        Value::Null | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_are_read_and_written() {
        for text in [
            "any",
            "email=*@example.com",
            "email=ada@example.com",
            "groups=ml systems",
            "realm_access.roles=a=b",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "example.com",
            "email=",
            "=x",
            "email=example.com",
            "email=*",
            "email=*example.com",
            "email=@example.com",
            "email=*ada@example.com",
            "email=*@*",
            "email=*@",
            "email=*@a@b",
        ] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_rule_holds_for_whom_it_names() {
        let check = |rule: &str, claims: Value, holds: bool| {
            let rule: Rule = rule.parse().unwrap();
            let claims = claims.as_object().unwrap();
            assert_eq!(rule.holds(claims), holds, "{rule} {claims:?}");
        };
        let mail = |address: &str| json!({ "email": address, "email_verified": true });
        check("any", json!({}), true);
        check("email=*@example.com", mail("Ada@Example.com"), true);
        check("email=*@example.com", mail("ada@badexample.com"), false);
        check("email=*@example.com", mail("ada@example.com.evil"), false);
        check("email=*@example.com", mail("eve@evil@example.com"), false);
        check("email=ada@example.com", mail("ada@example.com"), true);
        check("email=ada@example.com", mail("bada@example.com"), false);
        let claimed =
            |verified: Value| json!({ "email": "a@example.com", "email_verified": verified });
        check("email=*@example.com", claimed(json!(false)), false);
        check("email=*@example.com", claimed(json!("true")), true);
        check("email=*@example.com", claimed(json!(1)), false);
        check(
            "email=*@example.com",
            json!({ "email": "a@example.com" }),
            false,
        );
        check("groups=ml", json!({ "groups": ["ops", "ml"] }), true);
        check("groups=ml", json!({ "groups": "ml" }), true);
        check("groups=ml", json!({ "groups": ["mlx", ["ml"]] }), false);
        check("groups=ml", json!({ "groups": { "ml": true } }), false);
        check(
            "roles.here=ml",
            json!({ "roles": { "here": ["ml"] } }),
            true,
        );
        check("roles.here=ml", json!({ "roles.here": "ml" }), true);
        check("roles.here=ml", json!({ "roles": "here" }), false);
        check("staff=true", json!({ "staff": true }), true);
    }
}
