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
    /// A half-filled disc: as the system says.
    ThemeAuto,
    /// A sun.
    ThemeLight,
    /// A moon.
    ThemeDark,
    /// An exclamation mark in a triangle.
    Warning,
    /// A circular arrow.
    Retry,
    /// A chevron to the right.
    Forward,
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
                "M2.8 4.3h10.4M6.3 4.3v-1.500h3.400v1.500M4.2 4.300l.6 9h6.400l.6-9M6.700 7v3.800M9.300 7v3.800"
            }
            Icon::Copy => {
                "M5.500 5.500v-2a1 1 0 0 1 1-1h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-2M3.500 5.500h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1z"
            }
            Icon::Done => "M3 8.500l3.300 3.300L13 4.700",
            Icon::Search => {
                "M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.300 10.300l3.400 3.400"
            }
            Icon::ThemeAuto => {
                "M8 13.500a5.500 5.500 0 1 0 0-11zM8 2.500a5.500 5.500 0 0 0 0 11zM8 2.500v11M10 3v10M12 4.500v7"
            }
            Icon::ThemeLight => {
                "M8 10.700a2.700 2.700 0 1 0 0-5.400 2.700 2.700 0 0 0 0 5.400zM8 1.500v1.600M8 12.900v1.600M1.500 8h1.600M12.900 8h1.600M3.400 3.400l1.100 1.100M11.500 11.500l1.100 1.100M3.400 12.600l1.100-1.100M11.500 4.500l1.100-1.100"
            }
            Icon::ThemeDark => {
                "M13.300 9.600A5.800 5.800 0 0 1 6.400 2.700a5.800 5.800 0 1 0 6.900 6.900z"
            }
            Icon::Warning => "M8 2.300l6.200 11H1.800zM8 6.500v3.300M8 11.500v.2",
            Icon::Retry => "M13 8a5 5 0 1 1-1.500-3.600M13.200 2.300v2.900h-2.900",
            Icon::Forward => "M6 3.500 10.500 8 6 12.500",
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

/// The mark: water, and the line that high water left.
#[component]
pub fn LogoMark() -> impl IntoView {
    view! {
        <svg class="logo-mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
            <rect class="logo-night" width="32" height="32" rx="7"></rect>
            <path class="logo-tide" d="M4 12h24"></path>
            <path class="logo-wave" d="M4 21c4-5 8-5 12 0s8 5 12 0v4.500a3 3 0 0 1-3 3H7a3 3 0 0 1-3-3z"></path>
        </svg>
    }
}
