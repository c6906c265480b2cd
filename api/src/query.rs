//! Text in a query: percent-encoding, both ways.

/// Percent-encodes all but letters, digits and `-._~`; a space becomes `+`.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte as char);
            }
            b' ' => out.push('+'),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// The other way around of [`encode`]; a broken escape stands for itself.
pub fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let escaped = (bytes[i] == b'%')
            .then(|| bytes.get(i + 1..i + 3))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[i], escaped) {
            (_, Some(byte)) => {
                out.push(byte);
                i += 3;
                continue;
            }
            (b'+', None) => out.push(b' '),
            (byte, None) => out.push(byte),
        }
        i += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
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
