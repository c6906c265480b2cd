//! The single steps of a comparison.

/// `step 3` for `## step 3 ##` and the like; other names stay.
pub fn tidy(name: &str, index: u32) -> String {
    match name.trim_matches(|c: char| c == '#' || c.is_whitespace()) {
        "" => format!("step {index}"),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_decoration_only() {
        assert_eq!(tidy("## step 3 ##", 3), "step 3");
        assert_eq!(tidy("ProfilerStep#7", 0), "ProfilerStep#7");
        assert_eq!(tidy("##", 4), "step 4");
    }
}
