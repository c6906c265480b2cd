//! What a chat shows of a link: OpenGraph and Twitter tags in the head of a page.

use api::ids::RunId;

/// What a run's page shows.
pub const ABOUT_RUN: &str = "Where GPU memory stood at every moment of this run";

/// What a comparison's page shows.
pub fn about_comparison(runs: &[RunId]) -> String {
    format!("What changed in GPU memory between {} runs", runs.len())
}

/// The preview of a page in a chat.
pub struct Preview {
    /// What it is called.
    pub title: String,
    /// What the page shows.
    pub description: String,
    /// The card, absolute.
    pub image: Option<String>,
}

impl Preview {
    /// Its tags, for the head of the page.
    pub fn tags(&self) -> String {
        let (title, description) = (self.title.as_str(), self.description.as_str());
        let mut tags = vec![
            ("property", "og:type", "website"),
            ("property", "og:site_name", "Tidemark"),
            ("property", "og:title", title),
            ("property", "og:description", description),
            ("name", "description", description),
            ("name", "twitter:title", title),
            ("name", "twitter:description", description),
        ];
        if let Some(image) = &self.image {
            tags.extend([
                ("property", "og:image", image.as_str()),
                ("property", "og:image:type", "image/png"),
                ("property", "og:image:width", "1200"),
                ("property", "og:image:height", "630"),
                ("property", "og:image:alt", "Memory over time"),
                ("name", "twitter:card", "summary_large_image"),
                ("name", "twitter:image", image),
            ]);
        }
        let tags = tags.into_iter();
        tags.map(|(kind, name, content)| meta(kind, name, content))
            .collect()
    }
}

fn meta(kind: &str, name: &str, content: &str) -> String {
    format!(
        "<meta {kind}=\"{name}\" content=\"{}\">\n",
        escaped(content)
    )
}

/// A text, escaped for a quoted attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
