//! Colours of bands: a group that the picture above shows has its colour there.

use api::alive::Growth;
use std::collections::BTreeMap;
use timeline::colours::{N_GROUP_COLOURS, Palette, TURNS};

/// The orders of groups of stacks in the picture. An order gives a colour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Orders {
    stacks: BTreeMap<u32, u32>,
    /// Of the first group with a name, by its [`hash`].
    lines: BTreeMap<u32, u32>,
}

/// FNV-1a: maps by text would be more code to load. Two names that share one would share a colour.
fn hash(line: &str) -> u32 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    line.bytes().fold(0x811c_9dc5, mix)
}

impl Orders {
    /// The picture shows a stack.
    pub fn add(&mut self, stack: u32, line: &str, order: u32) {
        if self.stacks.insert(stack, order).is_none() {
            let line = hash(line);
            let first = self
                .lines
                .get(&line)
                .map_or(order, |&first| order.min(first));
            self.lines.insert(line, first);
        }
    }

    /// That of a line of code, with who called it where other groups have the same line.
    pub fn of_line(&self, line: &str) -> Option<u32> {
        self.lines.get(&hash(line)).copied()
    }
}

/// The colour of the first group in the picture, which is what was there before the recording.
const BEFORE: usize = 0;

/// The colours of all bands, as a style sheet writes them.
pub fn colours(growth: &Growth, orders: &Orders) -> Vec<String> {
    let mut taken: Vec<Option<(usize, usize)>> = Vec::new();
    for band in &growth.bands {
        let order = band.stack.and_then(|stack| orders.stacks.get(&stack));
        let colour = order.map(|&order| of(order as usize));
        // Two bands that lie on one another must differ.
        taken.push(colour.filter(|colour| !taken.contains(&Some(*colour))));
    }
    let is_free = |&colour: &usize| {
        let near = |taken: &(usize, usize)| taken.0 == colour;
        colour != BEFORE && !taken.iter().flatten().any(near)
    };
    let mut free: Vec<usize> = (0..N_GROUP_COLOURS).filter(is_free).collect();
    if free.is_empty() {
        free = (BEFORE + 1..N_GROUP_COLOURS).collect();
    }
    let mut free = free.into_iter().cycle();
    let bands = growth.bands.iter().zip(&taken);
    bands
        .map(|(band, colour)| match colour {
            _ if band.key.is_empty() => "var(--cat-rest)".to_owned(),
            &Some((colour, turn)) => css(turn * N_GROUP_COLOURS + colour),
            None => css(free.next().unwrap_or(BEFORE + 1)),
        })
        .collect()
}

/// The colour of this order in the picture.
fn css(order: usize) -> String {
    Palette::group_css(0, order as u32)
}

/// The colour of an order, and how often all colours were used before.
fn of(order: usize) -> (usize, usize) {
    (order % N_GROUP_COLOURS, order / N_GROUP_COLOURS % TURNS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::areas::tests::growth;

    #[test]
    fn a_band_has_the_colour_of_the_picture() {
        let mut growth = growth(&[
            ("a", &[1]),
            ("b", &[1]),
            ("c", &[1]),
            ("d", &[1]),
            ("", &[1]),
        ]);
        for (band, stack) in growth.bands.iter_mut().zip([7, 8, 9]) {
            band.stack = Some(stack);
        }
        let mut orders = Orders::default();
        for (stack, order) in [(7, 15), (8, 1), (9, 1)] {
            orders.add(stack, "", order);
        }
        assert_eq!(
            colours(&growth, &orders),
            [
                "color-mix(in srgb, var(--cat-3) 75%, var(--surface))",
                "var(--cat-1)",
                "var(--cat-2)",
                "var(--cat-4)",
                "var(--cat-rest)"
            ],
            "what has none gets one that nothing else has"
        );
        let unknown = colours(&growth, &Orders::default());
        assert_eq!(unknown[..2], ["var(--cat-1)", "var(--cat-2)"]);
    }
}
