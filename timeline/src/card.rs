//! The card: one picture of 1200 × 630 pixels that stands for a run or a comparison where there
//! is no page, as in a pull request or a chat.
//!
//! A scene like any other, so that the picture in it is painted by the code that paints the page.

use crate::colours::{Palette, Rgba};
use crate::plot::PxRect;
use crate::scene::{Anchor, Scene, Text, fitted, text_width};

/// Width and height in pixels, the size that chats ask for.
pub const SIZE: (i32, i32) = (1200, 630);

/// Space around everything.
const MARGIN: i32 = 40;

/// Where the picture is.
const PICTURE: PxRect = PxRect {
    x0: MARGIN,
    y0: 222,
    x1: SIZE.0 - MARGIN,
    y1: 502,
};

/// Device pixels per CSS pixel of the picture: cards are looked at half their size.
pub const PICTURE_SCALE: f64 = 1.6;

/// Lines below the picture.
pub const MAX_SITES: usize = 3;

/// How a verdict is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All is well.
    Good,
    /// Something is wrong.
    Bad,
    /// Nothing can be said.
    Unknown,
}

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Dark on light.
    #[default]
    Light,
    /// Light on dark.
    Dark,
}

impl Theme {
    /// What is painted with.
    pub fn palette(self) -> Palette {
        match self {
            Theme::Light => Palette::light(),
            Theme::Dark => Palette::dark(),
        }
    }

    /// Ink and paper of a verdict, as in the design tokens.
    fn tone(self, tone: Tone) -> (Rgba, Rgba) {
        let (ink, paper) = match (self, tone) {
            (Theme::Light, Tone::Good) => (0x15734a, 0xe0f2e9),
            (Theme::Light, Tone::Bad) => (0xb0261c, 0xfce8e6),
            (Theme::Light, Tone::Unknown) => (0x855400, 0xfcf0d6),
            (Theme::Dark, Tone::Good) => (0x5fce98, 0x10301f),
            (Theme::Dark, Tone::Bad) => (0xff8a80, 0x3d1a17),
            (Theme::Dark, Tone::Unknown) => (0xf0bc5a, 0x33270d),
        };
        (Rgba::from_rgb(ink), Rgba::from_rgb(paper))
    }
}

/// What a card says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Name of the run or comparison.
    pub title: String,
    /// One line about it.
    pub subtitle: String,
    /// Name and value of the headline numbers, four at most.
    pub numbers: Vec<(String, String)>,
    /// The answer in a word or two.
    pub verdict: String,
    /// How it is meant.
    pub tone: Tone,
    /// Why, in a sentence.
    pub reason: String,
    /// What the lines below are.
    pub sites_title: String,
    /// Amount and place, [`MAX_SITES`] at most.
    pub sites: Vec<(String, String)>,
}

/// Width and height of the picture in it, in CSS pixels at [`PICTURE_SCALE`].
pub fn picture_size() -> (f64, f64) {
    (
        f64::from(PICTURE.width()) / PICTURE_SCALE,
        f64::from(PICTURE.height()) / PICTURE_SCALE,
    )
}

/// The card as a scene, around pictures of [`picture_size`], one painted over the other.
pub fn scene(card: &Card, pictures: &[Scene], theme: Theme) -> Scene {
    let palette = theme.palette();
    let mut scene = Scene::new(SIZE);
    let all = PxRect {
        x0: 0,
        y0: 0,
        x1: SIZE.0,
        y1: SIZE.1,
    };
    scene.fill(all, palette.surface);
    let mut writer = Writer {
        scene: &mut scene,
        palette: &palette,
    };
    writer.head(card);
    writer.numbers(&card.numbers);
    writer.verdict(card, theme.tone(card.tone));
    writer.sites(card);
    for picture in pictures {
        scene.place(picture, (PICTURE.x0, PICTURE.y0));
    }
    scene
}

struct Writer<'a> {
    scene: &'a mut Scene,
    palette: &'a Palette,
}

impl Writer<'_> {
    fn text(&mut self, at: (i32, i32), anchor: Anchor, size: f64, colour: Rgba, text: &str) {
        let (x, y) = at;
        self.scene.texts.push(Text {
            x,
            y,
            anchor,
            size,
            colour,
            text: text.to_owned(),
        });
    }

    /// As much of a text as there is room for.
    fn fitted(&mut self, at: (i32, i32), size: f64, colour: Rgba, text: &str, width: i32) {
        if let Some(text) = fitted(text, size, width) {
            self.text(at, Anchor::Left, size, colour, &text);
        }
    }

    fn head(&mut self, card: &Card) {
        let (right, palette) = (SIZE.0 - MARGIN, self.palette);
        self.fitted((MARGIN, 52), 34.0, palette.text, &card.title, 900);
        self.text((right, 52), Anchor::Right, 24.0, palette.accent, "Tidemark");
        let width = right - MARGIN;
        self.fitted((MARGIN, 90), 19.0, palette.muted, &card.subtitle, width);
    }

    fn numbers(&mut self, numbers: &[(String, String)]) {
        let palette = self.palette;
        let step = (SIZE.0 - 2 * MARGIN) / 4;
        for (at, (name, value)) in numbers.iter().take(4).enumerate() {
            let x = MARGIN + at as i32 * step;
            self.fitted((x, 126), 17.0, palette.muted, name, step - 16);
            self.fitted((x, 156), 30.0, palette.text, value, step - 16);
        }
    }

    fn verdict(&mut self, card: &Card, (ink, paper): (Rgba, Rgba)) {
        const SIZE_PX: f64 = 19.0;
        let width = text_width(&card.verdict, SIZE_PX) + 24;
        let chip = PxRect {
            x0: MARGIN,
            y0: 180,
            x1: MARGIN + width,
            y1: 210,
        };
        self.scene.fill(chip, paper);
        let at = (MARGIN + width / 2, 195);
        self.text(at, Anchor::Middle, SIZE_PX, ink, &card.verdict);
        let (x, palette) = (chip.x1 + 14, self.palette);
        let room = SIZE.0 - MARGIN - x;
        self.fitted((x, 195), SIZE_PX, palette.text, &card.reason, room);
    }

    fn sites(&mut self, card: &Card) {
        let palette = self.palette;
        let (mut y, right) = (PICTURE.y1 + 22, SIZE.0 - MARGIN);
        self.fitted(
            (MARGIN, y),
            16.0,
            palette.muted,
            &card.sites_title,
            right - MARGIN,
        );
        for (amount, place) in card.sites.iter().take(MAX_SITES) {
            y += 27;
            self.text((MARGIN, y), Anchor::Left, 19.0, palette.text, amount);
            let x = MARGIN + 240;
            self.fitted((x, y), 19.0, palette.muted, place, right - x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        Card {
            title: "A name that is far too long for a card ".repeat(4),
            subtitle: "device 0".to_owned(),
            numbers: vec![("peak allocated".to_owned(), "5.03 GiB".to_owned()); 4],
            verdict: "Leak".to_owned(),
            tone: Tone::Bad,
            reason: "8.00 MiB are kept in every step since step 1 ".repeat(5),
            sites_title: "What accumulates".to_owned(),
            sites: vec![
                (
                    "+8.00 MiB a step".to_owned(),
                    "hook train.py:12 ".repeat(20)
                );
                5
            ],
        }
    }

    #[test]
    fn every_text_stays_on_the_card() {
        for theme in [Theme::Light, Theme::Dark] {
            let scene = scene(&card(), &[], theme);
            assert!(scene.texts.len() >= 12);
            for text in &scene.texts {
                let width = text_width(&text.text, text.size);
                let (left, right) = match text.anchor {
                    Anchor::Left => (text.x, text.x + width),
                    Anchor::Middle => (text.x - width / 2, text.x + width / 2),
                    Anchor::Right => (text.x - width, text.x),
                };
                assert!(left >= MARGIN && right <= SIZE.0, "{text:?}");
                assert!(text.y > 0 && text.y < SIZE.1 - 10, "{text:?}");
            }
        }
    }

    #[test]
    fn verdicts_are_in_the_colours_of_the_design_tokens() {
        let sheet = include_str!("../../web/style/tokens.css");
        let (light, dark) = sheet
            .split_once("@media (prefers-color-scheme: dark)")
            .unwrap();
        for (sheet, theme) in [(light, Theme::Light), (dark, Theme::Dark)] {
            let token = |name: &str| {
                let (_, rest) = sheet.split_once(&format!("{name}: ")).unwrap();
                Rgba::from_hex(rest.split_once(';').unwrap().0).unwrap()
            };
            for (tone, name) in [
                (Tone::Good, "--ok"),
                (Tone::Bad, "--danger"),
                (Tone::Unknown, "--warn"),
            ] {
                let expected = (token(name), token(&format!("{name}-soft")));
                assert_eq!(theme.tone(tone), expected, "{name}");
            }
        }
    }
}
