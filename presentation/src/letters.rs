//! Lower and upper case. The browser knows the letters of all languages; Rust's own tables would
//! make the front end several kilobytes larger.

/// The text in lower case.
pub fn lower(text: &str) -> String {
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
