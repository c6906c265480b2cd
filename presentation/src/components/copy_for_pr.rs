//! The Markdown block of a run or a comparison: who can open what it leads to.

use api::runs::Access;

/// Who can open what the block leads to. `access` is the server's, if it has answered.
pub fn hint(markdown: &str, access: Option<Access>) -> Option<&'static str> {
    if !markdown.is_empty() && !markdown.contains("](http") {
        return Some(
            "The recording is open in this tab only, so the block leads nowhere. Share tells how \
             to make a link, and has a block with it.",
        );
    }
    let here = ["://127.", "://localhost", "://[::1]"];
    let is_local = here.iter().any(|here| markdown.contains(here));
    match access? {
        _ if is_local => Some(
            "The picture and the link lead to this computer, where nobody else can open them. For \
             others, start the server with --listen and --public-url.",
        ),
        Access::Open => None,
        Access::Granted | Access::TokenNeeded => Some(
            "The picture and the link need this server's login. For a review outside the team, \
             make a link without login under Share and copy its block there.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_says_who_can_open_it() {
        let check = |address: &str, access: Access, expected: &str| {
            let block = format!("[run]({address}/runs/a)");
            let said = hint(&block, Some(access)).unwrap_or_default();
            let is_said = match expected {
                "" => said.is_empty(),
                expected => said.contains(expected),
            };
            assert!(is_said, "{address}: {said}");
        };
        check("http://127.0.0.1:7878", Access::Open, "nobody else");
        check("http://localhost:7878", Access::Granted, "nobody else");
        check("https://tidemark.example", Access::Granted, "login");
        check("https://tidemark.example", Access::Open, "");
        // What is asked of the server: nothing on a page that has none.
        let alone = hint("### Peak memory 1 GiB", None).unwrap_or_default();
        assert!(alone.contains("leads nowhere"), "{alone}");
        assert_eq!(hint("", None), None);
    }
}
