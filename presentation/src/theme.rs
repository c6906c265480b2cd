//! Light, dark, or like the system.

/// Which theme the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Like the system.
    #[default]
    Auto,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

impl Theme {
    /// All three, in the order in which the switch shows them.
    pub const ALL: [Theme; 3] = [Theme::Auto, Theme::Light, Theme::Dark];

    /// The value of `data-theme`, which is also stored.
    pub const fn name(self) -> &'static str {
        match self {
            Theme::Auto => "auto",
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    /// The next one, for a button that cycles.
    pub const fn next(self) -> Theme {
        match self {
            Theme::Auto => Theme::Light,
            Theme::Light => Theme::Dark,
            Theme::Dark => Theme::Auto,
        }
    }

    /// The theme of that name; [`Theme::Auto`] for any other text.
    pub fn named(name: &str) -> Theme {
        let found = Theme::ALL.into_iter().find(|theme| theme.name() == name);
        found.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_cycle_cover_every_theme() {
        for theme in Theme::ALL {
            assert_eq!(Theme::named(theme.name()), theme);
            assert_ne!(theme.next(), theme);
        }
        assert_eq!(Theme::named("sepia"), Theme::Auto);
        assert_eq!(Theme::Auto.next().next().next(), Theme::Auto);
    }
}
