//! Temporaries that an optimizer of PyTorch makes for all gradients at once.

use super::super::Look;
use super::ALL;
use super::by_file::{held_in, is_update};
use api::explain::{Advice, Basis, Moment};
use trace::categories::{self, Category, Named};
use trace::trace::BlockIdx;
use trace::units::Bytes;

/// Temporaries of an optimizer are mentioned from this share of the peak on.
const UPDATE: f64 = 0.1;

/// What makes none of these temporaries, or fewer.
pub fn of_update(look: &Look<'_>, peak: &Moment) -> Option<Advice> {
    let alive = categories::alive(look.device, peak.event);
    let is_temporary = |block: &BlockIdx| look.categories.found(*block) == Category::Temporary;
    let temporaries: Vec<BlockIdx> = alive.filter(is_temporary).collect();
    let bytes = held_in(look, &temporaries, is_update);
    let gradients = of_category(peak, Category::Gradient);
    let is_all = bytes.0 as f64 >= ALL * gradients.0 as f64 && gradients > Bytes::ZERO;
    let is_large = bytes.0 as f64 >= UPDATE * peak.allocated.0 as f64;
    (is_all && is_large).then(|| Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{bytes} are temporaries of the optimizer's step, as large as all gradients. \
             `fused=True` makes none of them, `foreach=False` those of one weight at a time."
        ),
    })
}

/// Bytes of a category at a moment.
fn of_category(peak: &Moment, category: Category) -> Bytes {
    let mut shares = peak.categories.iter();
    let share = shares.find(|share| share.category == Named::Ours(category));
    share.map_or(Bytes::ZERO, |share| share.bytes)
}
