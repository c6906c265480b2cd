//! Whether two recordings are of one program that was changed, or of two.

use super::profile::{DeviceProfile, SiteProfile};
use super::sites::Matching;
use super::stays;
use crate::code;
use crate::site::SiteKey;
use crate::stacks::Frame;

/// Whether a site has a stack.
pub(super) fn has_stack(site: &SiteProfile) -> bool {
    matches!(site.key, SiteKey::Shape(_))
}

/// Whether a site has a Python frame. Its key is then of those alone.
fn has_python(device: &DeviceProfile, site: &SiteProfile) -> bool {
    let is_python = |frame: &Frame| code::is_python(device.names.filename(*frame), frame.line);
    site.frames.iter().any(is_python)
}

/// Which sites with a stack count.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Counts {
    /// All of them.
    All,
    /// Those that a function of the program itself calls.
    Own,
}

/// Of what each run allocates with a stack, the share of the bytes at sites that the other one has,
/// too. `None` where stacks do not say: a run has none. If only one has C++ frames, what has no
/// Python frame has a stack in that one alone, and does not count.
pub(super) fn shares(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
    counts: Counts,
) -> Option<[f64; 2]> {
    let only_python = base.has_native != new.has_native || counts == Counts::Own;
    let made = |device: &DeviceProfile, site: &SiteProfile| {
        let is_own = counts == Counts::All || site.own.is_some();
        let counts = is_own && has_stack(site) && (!only_python || has_python(device, site));
        if counts { site.made.0 as f64 } else { 0.0 }
    };
    let total = |device: &DeviceProfile| {
        let sites = device.sites.iter();
        sites.map(|site| made(device, site)).sum::<f64>()
    };
    let (all_base, all_new) = (total(base), total(new));
    let pairs = matching.pairs.iter();
    let (both_base, both_new) = pairs.fold((0.0, 0.0), |(of_base, of_new), &(b, n, _)| {
        let (b, n) = (made(base, &base.sites[b]), made(new, &new.sites[n]));
        (of_base + b, of_new + n)
    });
    (all_base > 0.0 && all_new > 0.0).then(|| [both_base / all_base, both_new / all_new])
}

/// Where the product of the two shares is less than this, the runs are of two programs. Framework
/// code such as an optimizer may be common to both, and be half of one of them. Recordings of one
/// program that was changed have 98 % of their bytes in common, or more, in all pairs at hand.
const OTHER_PROGRAM: f64 = 0.1;

/// If so much of what stays between the steps of one run stays in the other one too, and at least
/// so much the other way round, they are of one program, whatever compiled its code. One of them
/// may leak, or have no optimizer state.
const SAME_STAYS: f64 = 0.95;
const SAME_STAYS_LEAST: f64 = 0.5;

/// If less stays in both, and the product of the shares of what the program's own functions
/// allocate is less than the second, they are of two programs: the framework and the optimizer are
/// common, and nothing else.
const OTHER_STAYS: f64 = 0.75;
const OWN_CODE: f64 = 0.6;

/// Whether they look like runs of two programs.
pub(super) fn is_other_program(
    base: &DeviceProfile,
    new: &DeviceProfile,
    matching: &Matching,
) -> bool {
    let stays = stays::shares(&base.stays, &new.stays);
    let [least, most] = stays.map_or([0.0; 2], |[a, b]| [a.min(b), a.max(b)]);
    if most >= SAME_STAYS && least >= SAME_STAYS_LEAST {
        return false;
    }
    let both = |counts: Counts| {
        let shares = shares(base, new, matching, counts);
        shares.map(|[base, new]| base * new)
    };
    let hardly = both(Counts::All).is_some_and(|both| both < OTHER_PROGRAM);
    let own = both(Counts::Own).is_some_and(|both| both < OWN_CODE);
    hardly || stays.is_some() && most < OTHER_STAYS && own
}
