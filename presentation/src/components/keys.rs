//! Which key press means what outside of text fields.

/// Whether an element of this name (`Element.tagName`) takes text that is typed.
pub fn takes_text(tag_name: &str) -> bool {
    ["INPUT", "TEXTAREA", "SELECT"].contains(&tag_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_is_no_shortcut() {
        assert!(takes_text("INPUT"));
        assert!(!takes_text("BUTTON"));
    }
}
