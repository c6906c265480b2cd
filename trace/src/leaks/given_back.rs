//! What accumulates until the last step gives it back.
//!
//! An evaluation that collects its results on the GPU holds more after each batch, and less than
//! ever once its loop has ended, which is in the last step of a recording. At that end nothing
//! seems to have accumulated, though the peak has grown with every step.

use super::found::Found;
use super::judge::{Growth, MUCH};
use super::report::Pattern;
use super::survivors::{Ends, Survey};
use super::view::View;
use crate::watch::Stopped;

/// The bytes a step by which buffers are enlarged, judged as if the recording had ended before the
/// last step, where that step gives most of them back. `levels` are *allocated* at the ends of
/// steps. `None` if *allocated* does not fall at the last end, or if no buffer grows.
///
/// # Errors
/// [`Stopped`].
pub(super) fn by_the_last_step(view: &View<'_>, levels: &[u64]) -> Result<Option<f64>, Stopped> {
    let Some(fall) = fall_at_the_last_end(levels) else {
        return Ok(None);
    };
    let ends = view.ends.as_slice();
    let ends = Ends::new(ends[..ends.len() - 1].to_vec());
    let blocks = &view.device.blocks;
    let survey = Survey::new(blocks, view.sites, &ends, 0, view.watch)?;
    let found = Found::of(&View {
        steps: &view.steps[..ends.len()],
        ends: &ends,
        survey: &survey,
        ..*view
    })?;
    let grown = found.grown.iter().map(|(_, growth)| growth);
    // What grows with the data, or as the cache of one request does, is given back all the same.
    let excused = found.excused.iter().map(|(.., growth)| growth);
    // Where blocks pile up and go at once, Python may have looked for reference cycles.
    let is_buffer = |growth: &&Growth| growth.pattern == Pattern::Enlarged;
    let buffers = grown.chain(excused).filter(is_buffer);
    let a_step: f64 = buffers.map(|growth| growth.bytes_per_period).sum();
    let accumulated = a_step * ends.len() as f64;
    Ok((accumulated * 2.0 >= fall as f64).then_some(a_step))
}

/// By how much *allocated* falls at the last end: by most of what it rose since the first one, and
/// to less than it was in the middle.
fn fall_at_the_last_end(levels: &[u64]) -> Option<u64> {
    let (&last, before) = levels.split_last()?;
    let (&first, &highest) = (before.first()?, before.last()?);
    let fall = highest.checked_sub(last)?;
    let is_most = fall * 2 >= highest.saturating_sub(first);
    let is_new = last < before[before.len() / 2];
    (fall >= MUCH.0 && is_most && is_new).then_some(fall)
}
