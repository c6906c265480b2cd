//! Pictures of pages: storing them as small files in the repository, and measuring how much two of
//! them differ.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use png::{BitDepth, ColorType, Compression, Decoder, Encoder, Filter, Transformations};

/// Most colours of a stored picture.
const COLOURS: usize = 256;

/// How far storing may move a colour at first: a fifth of a visible difference.
const FIRST_REACH: f64 = 0.02;

/// Smallest visible difference of brightness and colour (YIQ, weighted as eyes weigh them): a tenth
/// of the way from black to white. The changes made by a palette are much smaller.
const SEEN: f64 = 0.1;

/// Pixels in a million that may differ visibly: as many as one small letter on a whole page.
/// Different text, a missing button or a shift of one pixel changes hundreds to thousands.
pub const TOLERANCE_PPM: f64 = 25.0;

/// Red, green and blue of each pixel, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    pixels: Vec<[u8; 3]>,
}

/// Rows without a difference that part two bands.
const APART: u32 = 16;

/// Rows of a picture, one below the other, in which pixels differ visibly. Where the pictures
/// themselves are out of reach, the bands say where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The first and the last row.
    pub rows: (u32, u32),
    /// The first and the last column.
    pub columns: (u32, u32),
    /// Pixels that differ visibly.
    pub pixels: usize,
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((top, bottom), (left, right)) = (self.rows, self.columns);
        let pixels = self.pixels;
        write!(
            f,
            "{pixels} in rows {top} to {bottom}, columns {left} to {right}"
        )
    }
}

/// The difference between two pictures.
#[derive(Debug)]
pub struct Difference {
    /// Pixels that differ visibly.
    pub pixels: usize,
    /// Visibly different pixels in a million.
    pub ppm: f64,
    /// Where they are, from top to bottom.
    pub bands: Vec<Band>,
    /// The second picture, pale, with the differences in red.
    pub marked: Picture,
}

impl Difference {
    /// Whether it is within [`TOLERANCE_PPM`].
    pub fn is_tolerated(&self) -> bool {
        self.ppm <= TOLERANCE_PPM
    }
}

impl Picture {
    /// Reads a PNG.
    ///
    /// # Panics
    /// If the bytes are not a PNG.
    pub fn from_png(bytes: &[u8]) -> Self {
        let mut decoder = Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().expect("a PNG");
        let size = reader
            .output_buffer_size()
            .expect("a picture of this world");
        let mut buffer = vec![0; size];
        let frame = reader.next_frame(&mut buffer).expect("a whole PNG");
        let bytes = &buffer[..frame.buffer_size()];
        let pixels = match frame.color_type {
            ColorType::Rgb => bytes.as_chunks().0.to_vec(),
            ColorType::Rgba => bytes.chunks_exact(4).map(|p| [p[0], p[1], p[2]]).collect(),
            other => panic!("pictures of pages have colours, not {other:?}"),
        };
        Self {
            width: frame.width,
            height: frame.height,
            pixels,
        }
    }

    /// The stored picture; `None` if there is none.
    pub fn load(path: &Path) -> Option<Self> {
        fs::read(path).ok().map(|bytes| Self::from_png(&bytes))
    }

    /// Saves the picture with a palette.
    pub fn save(&self, path: &Path) {
        let folder = path.parent().expect("a file in a folder");
        fs::create_dir_all(folder).expect("a folder for the pictures");
        let file = File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (palette, indices) = self.indexed();
        let mut encoder = Encoder::new(BufWriter::new(file), self.width, self.height);
        encoder.set_color(ColorType::Indexed);
        encoder.set_depth(BitDepth::Eight);
        encoder.set_palette(palette);
        encoder.set_compression(Compression::High);
        encoder.set_filter(Filter::NoFilter);
        let mut writer = encoder.write_header().expect("the picture is saved");
        writer
            .write_image_data(&indices)
            .expect("the picture is saved");
    }

    /// A palette of at most [`COLOURS`], and the index of each pixel in it. No colour is moved
    /// farther than needed; frequent colours are not moved.
    fn indexed(&self) -> (Vec<u8>, Vec<u8>) {
        let mut counts: HashMap<[u8; 3], u32> = HashMap::new();
        for pixel in &self.pixels {
            *counts.entry(*pixel).or_default() += 1;
        }
        let mut colours: Vec<([u8; 3], u32)> = counts.into_iter().collect();
        colours.sort_unstable_by_key(|&(colour, count)| (Reverse(count), colour));
        let colours: Vec<[u8; 3]> = colours.into_iter().map(|(colour, _)| colour).collect();
        let mut reach = FIRST_REACH;
        let (palette, places) = loop {
            if let Some(found) = cover(&colours, reach) {
                break found;
            }
            reach *= 1.25;
        };
        let places: HashMap<[u8; 3], u8> = colours.into_iter().zip(places).collect();
        let indices = self.pixels.iter().map(|pixel| places[pixel]).collect();
        (palette.concat(), indices)
    }

    /// The visible differences of `now`. An area that only one of the pictures has is wholly
    /// different.
    pub fn difference(&self, now: &Self) -> Difference {
        let (width, height) = (self.width.max(now.width), self.height.max(now.height));
        let mut marked = Vec::with_capacity(width as usize * height as usize);
        let mut pixels = 0;
        let mut bands = Vec::new();
        for y in 0..height {
            for x in 0..width {
                let (was, is) = (self.pixel(x, y), now.pixel(x, y));
                let differs = match (was, is) {
                    (Some(was), Some(is)) if was == is => false,
                    (Some(was), Some(is)) => {
                        distance(was, is) > SEEN && !self.is_shimmer(now, x, y)
                    }
                    _ => true,
                };
                if differs {
                    pixels += 1;
                    note(&mut bands, x, y);
                }
                marked.push(match (differs, is) {
                    (true, _) => [230, 20, 20],
                    (false, is) => is.unwrap_or_default().map(|part| 192 + part / 4),
                });
            }
        }
        let ppm = pixels as f64 * 1e6 / marked.len() as f64;
        let marked = Self {
            width,
            height,
            pixels: marked,
        };
        Difference {
            pixels,
            ppm,
            bands,
            marked,
        }
    }

    fn pixel(&self, x: u32, y: u32) -> Option<[u8; 3]> {
        let inside = x < self.width && y < self.height;
        inside.then(|| self.pixels[y as usize * self.width as usize + x as usize])
    }

    /// Whether a pixel differs only as the smoothed edge of a shape does. That is so if, for both
    /// pictures, the pixel in the one lies between its neighbours in the other, and is like one of
    /// them.
    fn is_shimmer(&self, now: &Self, x: u32, y: u32) -> bool {
        let is_near = |one: &Self, other: &Self| {
            let Some(here) = other.pixel(x, y) else {
                return false;
            };
            let mut around = one.around(x, y).map(brightness).collect::<Vec<_>>();
            around.sort_by(f64::total_cmp);
            let (Some(darkest), Some(brightest)) = (around.first(), around.last()) else {
                return false;
            };
            let between = *darkest < brightness(here) && brightness(here) < *brightest;
            between && one.around(x, y).any(|pixel| distance(pixel, here) <= SEEN)
        };
        is_near(self, now) && is_near(now, self)
    }

    fn around(&self, x: u32, y: u32) -> impl Iterator<Item = [u8; 3]> {
        let near = |at: u32| at.saturating_sub(1)..=at + 1;
        near(y)
            .flat_map(move |row| near(x).map(move |column| (column, row)))
            .filter(move |&place| place != (x, y))
            .filter_map(|(column, row)| self.pixel(column, row))
    }
}

/// Adds a pixel to the last band, or begins one. Pixels come row by row.
fn note(bands: &mut Vec<Band>, x: u32, y: u32) {
    match bands.last_mut() {
        Some(band) if y <= band.rows.1 + APART => {
            let (left, right) = band.columns;
            band.rows.1 = y;
            band.columns = (left.min(x), right.max(x));
            band.pixels += 1;
        }
        _ => bands.push(Band {
            rows: (y, y),
            columns: (x, x),
            pixels: 1,
        }),
    }
}

/// Chooses some of `colours`, so that each colour is within `reach` of a chosen one. Returns them,
/// and for each colour the index of its chosen one; `None` if that takes more than [`COLOURS`].
fn cover(colours: &[[u8; 3]], reach: f64) -> Option<(Vec<[u8; 3]>, Vec<u8>)> {
    let mut palette: Vec<([u8; 3], [f64; 3])> = Vec::new();
    let mut places = Vec::with_capacity(colours.len());
    for &colour in colours {
        let here = yiq(colour);
        let near = palette
            .iter()
            .position(|(_, one)| apart(*one, here) <= reach);
        if near.is_none() {
            palette.push((colour, here));
        }
        places.push(near.unwrap_or(palette.len() - 1) as u8);
        if palette.len() > COLOURS {
            return None;
        }
    }
    Some((
        palette.into_iter().map(|(colour, _)| colour).collect(),
        places,
    ))
}

fn yiq([r, g, b]: [u8; 3]) -> [f64; 3] {
    let [r, g, b] = [r, g, b].map(|part| f64::from(part) / 255.0);
    [
        0.298_895 * r + 0.586_622 * g + 0.114_483 * b,
        0.595_978 * r - 0.274_177 * g - 0.321_802 * b,
        0.211_470 * r - 0.522_617 * g + 0.311_147 * b,
    ]
}

fn brightness(pixel: [u8; 3]) -> f64 {
    yiq(pixel)[0]
}

/// 0 for the same colour, about 1 from black to white (Kotsarenko and Ramos, 2010).
fn distance(one: [u8; 3], other: [u8; 3]) -> f64 {
    apart(yiq(one), yiq(other))
}

fn apart(a: [f64; 3], b: [f64; 3]) -> f64 {
    let [y, i, q] = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    (y * y + 0.592 * i * i + 0.387 * q * q).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(width: u32, height: u32, ink: impl Fn(u32, u32) -> [u8; 3]) -> Picture {
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Picture {
            width,
            height,
            pixels: places.map(|(x, y)| ink(x, y)).collect(),
        }
    }

    const PAPER: [u8; 3] = [245, 247, 249];
    const INK: [u8; 3] = [22, 32, 43];

    fn button_at(left: u32) -> Picture {
        drawn(1440, 900, |x, y| {
            let across = (left..left + 60).contains(&x) && (400..430).contains(&y);
            let within = (left + 1..left + 59).contains(&x) && (401..429).contains(&y);
            if across && !within { INK } else { PAPER }
        })
    }

    #[test]
    fn a_thin_frame_that_is_gone_or_one_pixel_off_is_too_much() {
        let page = button_at(100);
        assert_eq!(page.difference(&page).pixels, 0);
        for other in [drawn(1440, 900, |_, _| PAPER), button_at(101)] {
            let found = page.difference(&other);
            assert!(!found.is_tolerated(), "{}", found.pixels);
        }
        let longer = drawn(1440, 901, |_, _| PAPER);
        assert!(
            !longer
                .difference(&drawn(1440, 900, |_, _| PAPER))
                .is_tolerated()
        );
    }

    #[test]
    fn where_pictures_differ_is_told_from_top_to_bottom() {
        let page = drawn(100, 300, |_, _| PAPER);
        let now = drawn(100, 300, |x, y| match (x, y) {
            (20..30, 7 | 23) | (90, 40) => INK,
            _ => PAPER,
        });
        let told: Vec<String> = page
            .difference(&now)
            .bands
            .iter()
            .map(Band::to_string)
            .collect();
        let expected = [
            "20 in rows 7 to 23, columns 20 to 29",
            "1 in rows 40 to 40, columns 90 to 90",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn smoothing_and_a_stray_pixel_are_tolerated() {
        // An edge whose smoothed column is a little lighter on another machine.
        let edge = |grey: u8| {
            drawn(1440, 900, move |x, _| match x {
                0..700 => INK,
                700 => [grey; 3],
                _ => PAPER,
            })
        };
        assert_eq!(edge(90).difference(&edge(100)).pixels, 0);
        let stray = drawn(1440, 900, |x, y| if (x, y) == (9, 9) { INK } else { PAPER });
        let found = stray.difference(&drawn(1440, 900, |_, _| PAPER));
        assert_eq!(found.pixels, 1);
        assert!(found.is_tolerated());
    }

    #[test]
    fn what_is_stored_looks_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.png");
        let few = button_at(7);
        few.save(&path);
        assert_eq!(Picture::load(&path), Some(few));
        let many = drawn(256, 256, |x, y| [x as u8, y as u8, 128]);
        many.save(&path);
        let stored = Picture::load(&path).unwrap();
        assert_eq!(many.difference(&stored).pixels, 0);
        let moved = many.pixels.iter().zip(&stored.pixels);
        let furthest = moved
            .map(|(was, is)| distance(*was, *is))
            .fold(0.0, f64::max);
        assert!(furthest < 0.7 * SEEN, "{furthest}");
    }
}
