//! Small and capital letters. The browser knows those of all languages; Rust's own tables of them
//! would make the front end several kilobytes larger.

/// In small letters.
pub fn lower(text: &str) -> String {
    #[cfg(target_arch = "wasm32")]
    return js_sys::JsString::from(text).to_lower_case().into();
    #[cfg(not(target_arch = "wasm32"))]
    text.to_lowercase()
}

/// With a capital letter, where a sentence of ours begins.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}
