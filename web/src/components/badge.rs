//! Quality notes as badges: what to keep in mind about the data.

use leptos::prelude::*;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Some numbers are incomplete or cannot be told.
    Caution,
    /// Good to know; the numbers stand.
    Info,
}

/// How a quality code is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    /// A word or two.
    pub label: String,
    /// What it means, for the tooltip.
    pub about: &'static str,
    /// How much it matters.
    pub weight: Weight,
}

/// The badge of a quality code. A code from a newer server shows as its own words.
pub fn badge(code: &str) -> Badge {
    let (label, about, weight) = match code {
        "ring_wrapped" => (
            "history cut",
            "The recorder's ring wrapped: the beginning of the run is missing.",
            Weight::Caution,
        ),
        "no_stacks" => (
            "no stacks",
            "Recorded without call stacks: allocations cannot be grouped by code.",
            Weight::Caution,
        ),
        "oom" => (
            "OOM",
            "An allocation failed: the run went out of memory.",
            Weight::Caution,
        ),
        _ => {
            return Badge {
                label: code.replace('_', " "),
                about: "",
                weight: Weight::Info,
            };
        }
    };
    Badge {
        label: label.to_owned(),
        about,
        weight,
    }
}

/// One badge.
#[component]
pub fn BadgeView(badge: Badge) -> impl IntoView {
    let about = (!badge.about.is_empty()).then_some(badge.about);
    view! {
        <span class="badge" class:caution=badge.weight == Weight::Caution title=about>
            {badge.label}
        </span>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_code_shows_as_its_own_words() {
        let unknown = badge("clock_went_back");
        assert_eq!(
            (unknown.label.as_str(), unknown.weight),
            ("clock went back", Weight::Info)
        );
        assert_eq!(badge("ring_wrapped").weight, Weight::Caution);
    }
}
