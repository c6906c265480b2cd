//! Colours of the picture. They come from the page's design tokens. A group always has the same
//! colour: at every zoom, in every tile and behind every link.

use trace::trace::Series;

/// Red, green, blue and opacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rgba(pub u8, pub u8, pub u8, pub u8);

impl Rgba {
    /// An opaque colour from `0xrrggbb`.
    pub const fn from_rgb(hex: u32) -> Rgba {
        Rgba((hex >> 16) as u8, (hex >> 8) as u8, hex as u8, 255)
    }

    /// Reads `#rgb`, `#rrggbb` or `#rrggbbaa`, as design tokens are written.
    pub fn from_hex(text: &str) -> Option<Rgba> {
        let digits = text.trim().strip_prefix('#')?;
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let nibble = |at: usize| u8::from_str_radix(digits.get(at..at + 1)?, 16).ok();
        match digits.len() {
            3 => Some(Rgba(nibble(0)? * 17, nibble(1)? * 17, nibble(2)? * 17, 255)),
            6 => Some(Rgba(byte(0)?, byte(2)?, byte(4)?, 255)),
            8 => Some(Rgba(byte(0)?, byte(2)?, byte(4)?, byte(6)?)),
            _ => None,
        }
    }

    /// The same colour with another opacity, 0 to 1.
    pub fn with_alpha(self, alpha: f64) -> Rgba {
        Rgba(
            self.0,
            self.1,
            self.2,
            (alpha.clamp(0.0, 1.0) * 255.0).round() as u8,
        )
    }

    /// A share of `other` mixed in, 0 to 1; the opacity stays.
    pub fn mixed(self, other: Rgba, share: f64) -> Rgba {
        let mix =
            |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
        Rgba(
            mix(self.0, other.0),
            mix(self.1, other.1),
            mix(self.2, other.2),
            self.3,
        )
    }

    /// Perceived brightness, 0 (black) to 1 (white): WCAG's relative luminance.
    pub fn luminance(self) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// Black or white, whichever reads better on this colour.
    pub fn ink(self) -> Rgba {
        // At this luminance, the WCAG contrast with black equals that with white.
        const BALANCE: f64 = 0.179;
        if self.luminance() > BALANCE {
            Rgba(0, 0, 0, 255)
        } else {
            Rgba(255, 255, 255, 255)
        }
    }
}

/// Colours for groups.
pub const N_GROUP_COLOURS: usize = 12;

/// How often they begin again, each time in other shades.
pub const TURNS: usize = 3;

/// All colours that are used for painting.
#[derive(Clone, Debug, PartialEq)]
pub struct Palette {
    /// Behind the picture.
    pub surface: Rgba,
    /// Lanes and the empty part of the minimap.
    pub surface_raised: Rgba,
    /// Text.
    pub text: Rgba,
    /// Secondary text.
    pub muted: Rgba,
    /// Grid.
    pub line: Rgba,
    /// Axis and frames.
    pub line_strong: Rgba,
    /// Selection and brush.
    pub accent: Rgba,
    /// Lines of requested, allocated, active, reserved.
    pub series: [Rgba; 4],
    /// Pinned memory of the host.
    pub pinned: Rgba,
    /// Freed, but not yet reusable.
    pub pending: Rgba,
    /// Capacity of the device.
    pub capacity: Rgba,
    /// A failed allocation.
    pub oom: Rgba,
    /// Groups.
    pub groups: [Rgba; N_GROUP_COLOURS],
    /// Everything that is left out, and the base.
    pub rest: Rgba,
}

/// The group that stands for all others.
pub const OTHER_KEY: u32 = trace::tiles::OTHER;

impl Palette {
    /// Reads the tokens with `token("--name")`; a missing one keeps its light default.
    pub fn from_tokens(token: impl Fn(&str) -> Option<String>) -> Palette {
        let light = Palette::light();
        let read = |name: &str, default: Rgba| {
            token(name)
                .and_then(|text| Rgba::from_hex(&text))
                .unwrap_or(default)
        };
        let series =
            Series::ALL.map(|s| read(&format!("--series-{}", s.name()), light.series[s as usize]));
        Palette {
            surface: read("--surface", light.surface),
            surface_raised: read("--surface-2", light.surface_raised),
            text: read("--text", light.text),
            muted: read("--muted", light.muted),
            line: read("--line", light.line),
            line_strong: read("--line-strong", light.line_strong),
            accent: read("--accent", light.accent),
            series,
            pinned: read("--series-pinned", light.pinned),
            pending: read("--pending", light.pending),
            capacity: read("--capacity", light.capacity),
            oom: read("--oom", light.oom),
            groups: std::array::from_fn(|i| read(&format!("--cat-{i}"), light.groups[i])),
            rest: read("--cat-rest", light.rest),
        }
    }

    /// The light theme, as in the design tokens.
    pub fn light() -> Palette {
        let rgb = Rgba::from_rgb;
        Palette {
            surface: rgb(0xffffff),
            surface_raised: rgb(0xeef1f4),
            text: rgb(0x16202b),
            muted: rgb(0x566372),
            line: rgb(0xdde2e8),
            line_strong: rgb(0xbfc8d1),
            accent: rgb(0x0b659b),
            series: [rgb(0x009e73), rgb(0x0072b2), rgb(0xd55e00), rgb(0x5d6977)],
            pinned: rgb(0xa3266f),
            pending: rgb(0xb97f00),
            capacity: rgb(0xb0261c),
            oom: rgb(0xb0261c),
            groups: [
                0x3659ac, 0xe37651, 0x1f8463, 0xeaea7b, 0x9f699d, 0x7bb1ea, 0x26542b, 0xd87f91,
                0xacbf36, 0x45366e, 0xeab3cb, 0x562a42,
            ]
            .map(rgb),
            rest: rgb(0xb9c2cb),
        }
    }

    /// The dark theme, as in the design tokens.
    pub fn dark() -> Palette {
        let rgb = Rgba::from_rgb;
        Palette {
            surface: rgb(0x141b23),
            surface_raised: rgb(0x1b242e),
            text: rgb(0xe4eaf0),
            muted: rgb(0x97a5b3),
            line: rgb(0x232e39),
            line_strong: rgb(0x3a4753),
            accent: rgb(0x5bb8f0),
            series: [rgb(0x33cfa2), rgb(0x55b4f2), rgb(0xff9b52), rgb(0x9aa8b6)],
            pinned: rgb(0xf08cc4),
            pending: rgb(0xf2c14e),
            capacity: rgb(0xff8a80),
            oom: rgb(0xff8a80),
            groups: [
                0x5a80d4, 0xe69568, 0x38b898, 0xe6eb94, 0xae5e9d, 0x91bbed, 0x437549, 0xe06573,
                0x8b762c, 0x5c37c5, 0xedc0d8, 0x8a305e,
            ]
            .map(rgb),
            rest: rgb(0x46535f),
        }
    }

    /// The colour of a group, from its rank by first allocation: neighbours in the stack have
    /// neighbouring ranks, so they differ. After the last colour they begin again, lighter, then
    /// darker.
    pub fn group(&self, key: u32, order: u32) -> Rgba {
        if key == OTHER_KEY {
            return self.rest;
        }
        let base = self.groups[order as usize % N_GROUP_COLOURS];
        match order as usize / N_GROUP_COLOURS % TURNS {
            0 => base,
            1 => base.mixed(self.surface, 0.25),
            _ => base.mixed(self.text, 0.25),
        }
    }

    /// The same colour as a style sheet writes it: it follows the theme, also onto paper.
    pub fn group_css(key: u32, order: u32) -> String {
        if key == OTHER_KEY {
            return "var(--cat-rest)".to_owned();
        }
        let colour = order as usize % N_GROUP_COLOURS;
        let other = match order as usize / N_GROUP_COLOURS % TURNS {
            0 => return format!("var(--cat-{colour})"),
            1 => "surface",
            _ => "text",
        };
        format!("color-mix(in srgb, var(--cat-{colour}) 75%, var(--{other}))")
    }

    /// The colour of one block of a group that is drawn `height` pixels high. Blocks of a group
    /// differ a little in shade. The difference grows slowly with their height, so that no block
    /// changes colour suddenly.
    pub fn block(&self, group: Rgba, block: u32, height: f64) -> Rgba {
        /// How much of the surface colour is mixed in.
        const SHADES: [f64; 4] = [0.0, 0.16, 0.08, 0.24];
        let grown = ((height - 1.5) / 6.0).clamp(0.0, 1.0);
        group.mixed(self.surface, SHADES[block as usize % 4] * grown)
    }

    /// The thin line between two blocks.
    pub fn seam(&self, fill: Rgba) -> Rgba {
        fill.mixed(self.surface, 0.55)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_are_written() {
        assert_eq!(Rgba::from_hex(" #0b659b "), Some(Rgba(11, 101, 155, 255)));
        assert_eq!(Rgba::from_hex("#fff"), Some(Rgba(255, 255, 255, 255)));
        assert_eq!(Rgba::from_hex("#14202ccc"), Some(Rgba(20, 32, 44, 204)));
        assert_eq!(Rgba::from_hex("rgb(1, 2, 3)"), None);
        let dark = Palette::from_tokens(|name| (name == "--surface").then(|| "#141b23".into()));
        assert_eq!(dark.surface, Rgba(20, 27, 35, 255));
        assert_eq!(dark.groups, Palette::light().groups);
    }

    #[test]
    fn the_palettes_are_those_of_the_design_tokens() {
        let sheet = include_str!("../../web/style/tokens.css");
        let dark = "@media (prefers-color-scheme: dark)";
        let (light, dark) = sheet.split_once(dark).unwrap();
        let check = |sheet: &str, palette: Palette| {
            let token = |name: &str| {
                let (_, rest) = sheet.split_once(&format!("{name}: "))?;
                Some(rest.split_once(';')?.0.to_owned())
            };
            assert!(token("--cat-11").is_some());
            assert_eq!(Palette::from_tokens(token), palette);
        };
        check(light, Palette::light());
        check(dark, Palette::dark());
    }

    #[test]
    fn a_style_sheet_names_the_colour_that_is_painted() {
        let palette = Palette::dark();
        let hex = |name: &str| match name {
            "surface" => palette.surface,
            "text" => palette.text,
            "cat-rest" => palette.rest,
            group => {
                palette.groups[group
                    .strip_prefix("cat-")
                    .unwrap()
                    .parse::<usize>()
                    .unwrap()]
            }
        };
        let names = |css: &str| -> Vec<String> {
            let names = css.split("var(--").skip(1);
            names
                .map(|name| name.split(')').next().unwrap().to_owned())
                .collect()
        };
        for (key, order) in [(0, 3), (7, 15), (7, 29), (7, 39), (OTHER_KEY, 4)] {
            let named = names(&Palette::group_css(key, order));
            let painted = match named.as_slice() {
                [one] => hex(one),
                [one, other] => hex(one).mixed(hex(other), 0.25),
                other => panic!("{other:?}"),
            };
            assert_eq!(painted, palette.group(key, order), "{key} {order}");
        }
    }

    #[test]
    fn ink_reads_on_every_group_colour() {
        let palette = Palette::light();
        for fill in palette.groups {
            let (a, b) = (fill.luminance() + 0.05, fill.ink().luminance() + 0.05);
            assert!(a.max(b) / a.min(b) >= 4.5, "{fill:?}");
        }
    }

    #[test]
    fn neighbouring_groups_differ_in_lightness_too() {
        let palette = Palette::light();
        for order in 0..36 {
            let (a, b) = (palette.group(1, order), palette.group(2, order + 1));
            let (a, b) = (a.luminance() + 0.05, b.luminance() + 0.05);
            assert!(
                a.max(b) / a.min(b) >= 1.15,
                "ranks {order} and {}",
                order + 1
            );
        }
    }
}
