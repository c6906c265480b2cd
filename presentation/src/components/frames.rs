//! The frames of a stack, as pages name them.

use api::frames::FrameText;
use trace::code::last_components;

/// A stack as text, innermost first, with frames in Python's notation.
pub fn stack_text(frames: &[FrameText]) -> String {
    let lines = frames
        .iter()
        .map(|f| format!("{} ({}:{})", f.name, f.filename, f.line));
    lines.collect::<Vec<_>>().join("\n")
}

/// The last part of a path, which distinguishes files.
pub fn short_path(path: &str) -> &str {
    last_components(path, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::code::is_framework;

    #[test]
    fn a_path_keeps_its_telling_end() {
        assert_eq!(short_path("/a/b/models/llama.py"), "models/llama.py");
        assert_eq!(short_path("train.py"), "train.py");
        assert!(is_framework("/x/site-packages/torch/nn/functional.py", 9));
        assert!(!is_framework("/home/me/train.py", 9));
    }
}
