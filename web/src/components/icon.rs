//! Icons and the logo, drawn as inline SVG elements: no font, no sprite, no request.

use leptos::prelude::*;

/// A line icon on a 16 × 16 grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icon {
    /// An arrow into a tray.
    Upload,
    /// A cross.
    Close,
    /// A pencil.
    Rename,
    /// A bin.
    Delete,
    /// Two sheets.
    Copy,
    /// A tick.
    Done,
    /// A magnifying glass.
    Search,
    /// A half-filled disc: follows the system.
    ThemeAuto,
    /// A sun.
    ThemeLight,
    /// A moon.
    ThemeDark,
    /// An exclamation mark in a triangle.
    Warning,
    /// The letter i in a circle.
    Note,
    /// A circular arrow.
    Retry,
    /// A chevron to the right.
    Forward,
    /// An arrow out of a box.
    Share,
    /// Head and shoulders.
    Person,
}

impl Icon {
    /// The strokes, as an SVG path.
    const fn path(self) -> &'static str {
        match self {
            Icon::Upload => {
                "M8 10.5V2.5M4.8 5.5 8 2.3l3.2 3.2M2.5 10.5v2a1 1 0 0 0 1 1h9a1 1 0 0 0 1-1v-2"
            }
            Icon::Close => "M4 4l8 8M12 4l-8 8",
            Icon::Rename => "M10.8 2.8l2.4 2.4L6 12.4l-3 .6.6-3zM9.2 4.4l2.4 2.4",
            Icon::Delete => {
                "M2.8 4.3h10.4M6.3 4.3v-1.5h3.4v1.5M4.2 4.3l.6 9h6.4l.6-9M6.7 7v3.8M9.3 7v3.8"
            }
            Icon::Copy => {
                "M5.5 5.5v-2a1 1 0 0 1 1-1h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-2M3.5 5.5h6 \
                 a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1z"
            }
            Icon::Share => {
                "M8.8 2.5h4.7v4.7M13.2 2.8 7.5 8.5M11.5 9.5v3a1 1 0 0 1-1 1h-7a1 1 0 \
                 0 1-1-1v-7a1 1 0 0 1 1-1h3"
            }
            Icon::Person => {
                "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8zM2.8 13.5a5.2 5.2 0 0 1 10.4 0"
            }
            Icon::Done => "M3 8.5l3.3 3.3L13 4.7",
            Icon::Search => "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.4 3.4",
            Icon::ThemeAuto => {
                "M8 13.5a5.5 5.5 0 1 0 0-11zM8 2.5a5.5 5.5 0 0 0 0 11zM8 2.5v11M10 3v10M12 4.5v7"
            }
            Icon::ThemeLight => {
                "M8 10.7a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4zM8 1.5v1.6M8 12.9v1.6 \
                 M1.5 8h1.6M12.9 8h1.6M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M3.4 12.6 \
                 l1.1-1.1M11.5 4.5l1.1-1.1"
            }
            Icon::ThemeDark => "M13.3 9.6A5.8 5.8 0 0 1 6.4 2.7a5.8 5.8 0 1 0 6.9 6.9z",
            Icon::Warning => "M8 2.3l6.2 11H1.8zM8 6.5v3.3M8 11.5v.2",
            Icon::Retry => "M13 8a5 5 0 1 1-1.5-3.6M13.2 2.3v2.9h-2.9",
            Icon::Note => "M8 2.2a5.8 5.8 0 1 0 0 11.6 5.8 5.8 0 0 0 0-11.6M8 7.3v3.6M8 5v.2",
            Icon::Forward => "M6 3.5 10.5 8 6 12.5",
        }
    }
}

/// Draws an icon. Decoration only: the control around it carries the name.
#[component]
pub fn IconView(icon: Icon) -> impl IntoView {
    view! {
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
            <path d=icon.path()></path>
        </svg>
    }
}

/// The mark: water, and the line that high water left behind.
#[component]
pub fn LogoMark() -> impl IntoView {
    view! {
        <svg class="logo-mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
            <rect class="logo-night" width="32" height="32" rx="7"></rect>
            <path class="logo-tide" d="M4 12h24"></path>
            <path class="logo-wave" d="M4 21c4-5 8-5 12 0s8 5 12 0v4.5a3 3 0 0 1-3 3H7 \
                 a3 3 0 0 1-3-3z"></path>
        </svg>
    }
}
