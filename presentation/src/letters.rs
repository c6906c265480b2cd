//! Lower and upper case, one and several. The browser knows the letters of all languages; Rust's
//! own tables would make the front end several kilobytes larger.

/// The text in lower case.
pub fn lower(text: &str) -> String {
    // The filter asks for the letters of some ten thousand texts at each key.
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    #[cfg(target_arch = "wasm32")]
    return js_sys::JsString::from(text).to_lower_case().into();
    #[cfg(not(target_arch = "wasm32"))]
    text.to_lowercase()
}

/// The text with a capital first letter, for the beginning of our own sentences.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// One of what a recording's steps are called, with its article: `a token`, `an epoch`.
pub fn a(step: &str) -> String {
    let n = if step.starts_with(['e', 'i']) {
        "n"
    } else {
        ""
    };
    ["a", n, " ", step].concat()
}

/// Several of them: `tokens`, `micro-batches`.
pub fn several(step: &str) -> String {
    let e = if step.ends_with("tch") { "e" } else { "" };
    [step, e, "s"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_called_what_the_recording_calls_them() {
        let named = ["step", "epoch", "image", "micro-batch", "denoising step"];
        let expected = [
            "a step",
            "an epoch",
            "an image",
            "a micro-batch",
            "a denoising step",
        ];
        assert_eq!(named.map(a), expected);
        let expected = [
            "steps",
            "epochs",
            "images",
            "micro-batches",
            "denoising steps",
        ];
        assert_eq!(named.map(several), expected);
    }
}
