//! Copies of all weights.

use super::super::Look;
use super::ALL;
use crate::cards::markdown::code;
use crate::places::Places;
use api::explain::{Advice, Basis, Moment};
use std::collections::HashMap;
use trace::categories::{self, Category};
use trace::units::Bytes;

/// Copies of the weights are mentioned from this share of the peak on.
const COPIES: f64 = 0.2;

/// That one line made copies of all weights, which are not known to be of use on the device.
pub fn copies(look: &Look<'_>, places: &mut Places<'_>, peak: &Moment) -> Option<Advice> {
    let device = look.device;
    let leaking = look.leaking();
    let mut weights: HashMap<Bytes, u64> = HashMap::new();
    let mut others: HashMap<String, HashMap<Bytes, u64>> = HashMap::new();
    for block in categories::alive(device, peak.event) {
        let size = device.blocks.kind(block).size;
        match look.categories.found(block) {
            Category::Parameter => *weights.entry(size).or_default() += 1,
            Category::Unknown if !leaking.has(block) => {
                let place = places.of(block);
                if place.frame.is_some() {
                    let sizes = others.entry(place.name).or_default();
                    *sizes.entry(size).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    let all = sum(&weights);
    let found = others.into_iter().filter_map(|(place, sizes)| {
        let copies = (sum(&sizes).0 as f64 / all.0.max(1) as f64).round() as u64;
        let common = sizes.iter().map(|(size, count)| {
            let own = weights.get(size).copied().unwrap_or(0) * copies;
            Bytes(size.0 * own.min(*count))
        });
        let common: Bytes = common.sum();
        let is_all = |whole: Bytes| common.0 as f64 >= ALL * whole.0 as f64;
        let is_copy = copies > 0 && is_all(Bytes(all.0 * copies)) && is_all(sum(&sizes));
        (is_copy && weights.len() > 1).then_some((common, copies, place))
    });
    let (bytes, copies, place) = found.max()?;
    let is_large = bytes.0 as f64 >= COPIES * peak.allocated.0 as f64;
    let copies = match copies {
        1 => "a copy of all weights".to_owned(),
        n => format!("{n} copies of all weights"),
    };
    is_large.then(|| Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{bytes} are as large as {copies}, made by {} (inferred). What lowers that: keeping \
             what not every step reads in memory of the host, or a lower precision.",
            code(&place)
        ),
    })
}

fn sum(sizes: &HashMap<Bytes, u64>) -> Bytes {
    sizes
        .iter()
        .map(|(size, count)| Bytes(size.0 * count))
        .sum()
}
