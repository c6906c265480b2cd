//! The card: one picture of 1200 × 630 pixels that stands for a run or a comparison in places
//! without the page, such as a pull request or a chat.
//!
//! The card is a scene like any other, so the picture in it is painted by the same code as on the
//! page.

mod table;

pub use table::Row;

use crate::colours::{Palette, Rgba};
use crate::plot::PxRect;
use crate::scene::{Anchor, Scene, Text, fitted, text_width};

/// Width and height in pixels, the size that chats ask for.
pub const SIZE: (i32, i32) = (1200, 630);

/// Space around everything.
const MARGIN: i32 = 40;

/// The lower end of every picture; the sites are below it.
const PICTURE_END: i32 = 502;

/// Height of the verdict, between the numbers and the picture.
const VERDICT: i32 = 48;

/// Height of the line about the peak, if the picture then still has enough height.
const PEAK_LINE: i32 = 22;
const MIN_PICTURE: i32 = 180;

/// Device pixels per CSS pixel of the picture: people see cards at half their size.
pub const PICTURE_SCALE: f64 = 1.6;

/// Lines below the picture.
pub const MAX_SITES: usize = 3;

/// The tone of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Neutral.
    Plain,
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
            (Theme::Light, Tone::Plain) => (0x16202b, 0xeef1f4),
            (Theme::Dark, Tone::Plain) => (0xe4eaf0, 0x1b242e),
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

/// The numbers of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Of a run: name and value, four at most.
    Headline(Vec<(String, String)>),
    /// Of a comparison: the titles of the columns, and a row for each run.
    Runs(Vec<String>, Vec<Row>),
}

impl Numbers {
    /// The lower end of the numbers.
    fn end(&self) -> i32 {
        match self {
            Numbers::Headline(_) => 174,
            Numbers::Runs(_, rows) => table::end(rows.len()),
        }
    }

    /// Height of the line about the peak; 0 if many runs leave no room for it.
    fn peak_line(&self) -> i32 {
        match PICTURE_END - self.end() - VERDICT - PEAK_LINE >= MIN_PICTURE {
            true => PEAK_LINE,
            false => 0,
        }
    }

    /// Where the picture is, on a card with these numbers.
    pub fn picture(&self) -> PxRect {
        PxRect {
            x0: MARGIN,
            y0: self.end() + VERDICT + self.peak_line(),
            x1: SIZE.0 - MARGIN,
            y1: PICTURE_END,
        }
    }
}

/// What a card says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Name of the run or comparison.
    pub title: String,
    /// One line about it.
    pub subtitle: String,
    /// The numbers.
    pub numbers: Numbers,
    /// The answer in a word or two.
    pub verdict: String,
    /// The tone of the verdict.
    pub tone: Tone,
    /// Why, in a sentence.
    pub reason: String,
    /// What the peak consists of, in a line; empty where that is not known.
    pub at_peak: String,
    /// What the lines below are.
    pub sites_title: String,
    /// Amount and place, [`MAX_SITES`] at most.
    pub sites: Vec<(String, String)>,
}

/// The card as a scene, around pictures of the size of [`Numbers::picture`], painted over each
/// other.
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
        theme,
    };
    match &card.numbers {
        Numbers::Headline(numbers) => {
            writer.title((52, 34.0), card);
            let width = SIZE.0 - 2 * MARGIN;
            writer.fitted((MARGIN, 90), 19.0, palette.muted, &card.subtitle, width);
            writer.headline(numbers);
        }
        Numbers::Runs(columns, rows) => {
            writer.title((44, 27.0), card);
            writer.table(&card.subtitle, columns, rows);
        }
    }
    writer.verdict(card);
    writer.sites(card);
    let picture = card.numbers.picture();
    for scene in pictures {
        writer.scene.place(scene, (picture.x0, picture.y0));
    }
    scene
}

struct Writer<'a> {
    scene: &'a mut Scene,
    palette: &'a Palette,
    theme: Theme,
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

    /// As much of a text as fits.
    fn fitted(&mut self, at: (i32, i32), size: f64, colour: Rgba, text: &str, width: i32) {
        if let Some(text) = fitted(text, size, width) {
            self.text(at, Anchor::Left, size, colour, &text);
        }
    }

    fn title(&mut self, (y, size): (i32, f64), card: &Card) {
        let (right, palette) = (SIZE.0 - MARGIN, self.palette);
        self.fitted((MARGIN, y), size, palette.text, &card.title, 960);
        self.text((right, y), Anchor::Right, 24.0, palette.accent, "Tidemark");
    }

    fn headline(&mut self, numbers: &[(String, String)]) {
        let palette = self.palette;
        let step = (SIZE.0 - 2 * MARGIN) / 4;
        for (at, (name, value)) in numbers.iter().take(4).enumerate() {
            let x = MARGIN + at as i32 * step;
            self.fitted((x, 126), 17.0, palette.muted, name, step - 16);
            self.fitted((x, 156), 30.0, palette.text, value, step - 16);
        }
    }

    fn verdict(&mut self, card: &Card) {
        const SIZE_PX: f64 = 19.0;
        let (ink, paper) = self.theme.tone(card.tone);
        let top = card.numbers.end() + 6;
        let width = text_width(&card.verdict, SIZE_PX) + 24;
        let chip = PxRect {
            x0: MARGIN,
            y0: top,
            x1: MARGIN + width,
            y1: top + 30,
        };
        self.scene.fill(chip, paper);
        let at = (MARGIN + width / 2, top + 15);
        self.text(at, Anchor::Middle, SIZE_PX, ink, &card.verdict);
        let (x, palette) = (chip.x1 + 14, self.palette);
        let room = SIZE.0 - MARGIN - x;
        // A long sentence gets a smaller font rather than being cut, because the important part may
        // come last.
        let mut sizes = [SIZE_PX, 17.0].into_iter();
        let size = sizes.find(|size| text_width(&card.reason, *size) <= room);
        let size = size.unwrap_or(15.0);
        self.fitted((x, top + 15), size, palette.text, &card.reason, room);
        if card.numbers.peak_line() > 0 {
            let (at, room) = ((MARGIN, top + 47), SIZE.0 - 2 * MARGIN);
            self.fitted(at, 16.0, palette.muted, &card.at_peak, room);
        }
    }

    fn sites(&mut self, card: &Card) {
        let palette = self.palette;
        let (mut y, right) = (PICTURE_END + 22, SIZE.0 - MARGIN);
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
            numbers: Numbers::Headline(vec![("peak".to_owned(), "5.03 GiB".to_owned()); 4]),
            verdict: "Leak".to_owned(),
            tone: Tone::Bad,
            reason: "8.00 MiB are kept in every step since step 1 ".repeat(5),
            at_peak: "At the peak: activations 7.00 GiB · ".repeat(5),
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

    fn comparison(runs: usize) -> Card {
        let cell = ("1023 GiB".to_owned(), "\u{2212}1000 GiB".to_owned());
        let row = Row {
            name: "A name that is far too long for a row ".repeat(4),
            cells: vec![cell; 3],
            word: "baseline".to_owned(),
            tone: Tone::Bad,
        };
        let columns = ["peak allocated", "allocated at the end", "growth a step"];
        Card {
            numbers: Numbers::Runs(columns.map(str::to_owned).to_vec(), vec![row; runs]),
            ..card()
        }
    }

    #[test]
    fn every_text_stays_on_the_card() {
        for card in [card(), comparison(2), comparison(8)] {
            let scene = scene(&card, &[], Theme::Dark);
            assert!(scene.texts.len() >= 12);
            for text in &scene.texts {
                let PxRect { x0, x1, .. } = bounds(text);
                assert!(x0 >= MARGIN && x1 <= SIZE.0, "{text:?}");
                assert!(text.y > 0 && text.y < SIZE.1 - 10, "{text:?}");
            }
        }
    }

    #[test]
    fn no_text_lies_on_another_and_the_picture_keeps_its_room() {
        for runs in 2..=8 {
            let card = comparison(runs);
            assert!(card.numbers.picture().height() >= MIN_PICTURE);
            let scene = scene(&card, &[], Theme::Light);
            let boxes: Vec<PxRect> = scene.texts.iter().map(bounds).collect();
            for (at, a) in boxes.iter().enumerate() {
                let over = |b: &PxRect| a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
                let hit = boxes[at + 1..].iter().position(over);
                let hit = hit.map(|hit| &scene.texts[at + 1 + hit]);
                assert_eq!(hit, None, "{runs} runs: on {:?}", scene.texts[at]);
            }
        }
    }

    fn bounds(text: &Text) -> PxRect {
        let width = text_width(&text.text, text.size);
        let x0 = match text.anchor {
            Anchor::Left => text.x,
            Anchor::Middle => text.x - width / 2,
            Anchor::Right => text.x - width,
        };
        let half = (text.size * 0.5) as i32;
        PxRect {
            x0,
            y0: text.y - half,
            x1: x0 + width,
            y1: text.y + half,
        }
    }

    #[test]
    fn verdicts_are_in_the_colours_of_the_design_tokens() {
        let sheet = include_str!("../../../web/style/tokens.css");
        let (light, dark) = sheet
            .split_once("@media (prefers-color-scheme: dark)")
            .unwrap();
        for (sheet, theme) in [(light, Theme::Light), (dark, Theme::Dark)] {
            let token = |name: &str| {
                let (_, rest) = sheet.split_once(&format!("{name}: ")).unwrap();
                Rgba::from_hex(rest.split_once(';').unwrap().0).unwrap()
            };
            for (tone, ink, paper) in [
                (Tone::Plain, "--text", "--surface-2"),
                (Tone::Good, "--ok", "--ok-soft"),
                (Tone::Bad, "--danger", "--danger-soft"),
                (Tone::Unknown, "--warn", "--warn-soft"),
            ] {
                let expected = (token(ink), token(paper));
                assert_eq!(theme.tone(tone), expected, "{ink}");
            }
        }
    }
}
