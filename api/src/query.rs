//! Text in a query: percent-encoding, both ways.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters that are escaped. A space is one of them, and then becomes `+`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes everything except letters, digits and `-._~`; a space becomes `+`.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED)
        .to_string()
        .replace("%20", "+")
}

/// The inverse of [`encode`]; a broken escape stays as it is.
pub fn decode(text: &str) -> String {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8_lossy();
    decoded.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_a_query() {
        let check = |text: &str, query: &str| {
            assert_eq!(encode(text), query);
            assert_eq!(decode(query), text);
        };
        check("leak & grow=100%", "leak+%26+grow%3D100%25");
        check("größe+1", "gr%C3%B6%C3%9Fe%2B1");
        assert_eq!(decode("%zz%4"), "%zz%4");
    }
}
