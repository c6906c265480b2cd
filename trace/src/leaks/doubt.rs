//! What may grow though no place is seen to grow: the last look before a program is called clean.
//!
//! Three things may hide it, and all can only leave a doubt:
//!
//! * A place is a function, not a line. If one of its lines keeps blocks for a few steps, or holds
//!   one in a variable, what another line keeps is not old enough to be told from these. But what a
//!   line has given back says what becomes of that line's blocks, and nothing of the others'.
//! * Where the program had run before the first whole step that was recorded, the part of a step
//!   before it is no part of that step: what was kept there came earlier.
//! * What is kept in that part, and again after the last whole step, is seen in no step. If the
//!   first of it is still there when more comes, both are kept.

use super::excuse::Excuses;
use super::found::Found;
use super::judge::{self, Finding, Growth};
use super::lines::Lines;
use super::survivors::{Ends, Kept, Survey};
use super::thresholds::MIN_BYTES;
use super::view::View;
use crate::watch::Stopped;

/// Growth that may go on.
pub(super) struct Doubt {
    /// In periods. If there is a part before the first whole step, it is the first one.
    pub(super) growth: Growth,
    /// Bytes of all such growth, whenever it grows.
    pub(super) bytes: f64,
    /// How many periods come before the steps.
    pub(super) before: usize,
}

impl Doubt {
    /// The growth of most bytes speaks for all.
    fn of(all: Vec<Growth>, before: usize) -> Option<Doubt> {
        let bytes = all.iter().map(|growth| growth.bytes_per_growth).sum();
        let most = |a: &Growth, b: &Growth| a.bytes_per_growth.total_cmp(&b.bytes_per_growth);
        let growth = all.into_iter().max_by(most)?;
        (bytes >= MIN_BYTES.0 as f64).then_some(Doubt {
            growth,
            bytes,
            before,
        })
    }
}

/// What leaves a doubt where nothing is seen to grow. `ran_before`: something of the program is
/// older than the recording.
///
/// # Errors
/// [`Stopped`].
pub(super) fn find(view: &View<'_>, ran_before: bool) -> Result<Option<Doubt>, Stopped> {
    let ends = view.ends.as_slice();
    let start = view.steps.first().map_or(0, |first| first.events.start().0);
    if !ran_before || start == 0 {
        return Ok(Doubt::of(of_lines(view)?, 0));
    }
    let mut ends = [&[start], ends].concat();
    let found = from_before(view, &ends, |_| true)?;
    let Some(until) = goes_on_until(view, start).filter(|_| found.is_none()) else {
        return Ok(found);
    };
    let after = ends.len();
    ends.push(until);
    from_before(view, &ends, |growth| growth.last == after)
}

/// What leaves a doubt where the part of a step before the first whole one is a period of its own.
/// What came later than that is judged without it.
fn from_before(
    view: &View<'_>,
    ends: &[u32],
    counts: impl Fn(&Growth) -> bool,
) -> Result<Option<Doubt>, Stopped> {
    let ends = Ends::new(ends.to_vec());
    let blocks = &view.device.blocks;
    let mut survey = Survey::new(blocks, view.sites, &ends, 0, view.watch)?;
    survey.ran_before();
    let earlier = View {
        ends: &ends,
        survey: &survey,
        ..*view
    };
    let found = Found::of(&earlier)?;
    let all = found.unsure.into_iter().chain(found.grown);
    let own = all.map(|(_, growth)| growth);
    let own = own.filter(|growth| growth.first == 0 && counts(growth));
    let found = Doubt::of(own.collect(), 1);
    if found.is_some() {
        return Ok(found);
    }
    let lines = of_lines(&earlier)?.into_iter().filter(|g| counts(g));
    Ok(Doubt::of(lines.collect(), 1))
}

/// Until when the program goes on after its last whole step: until it gives back something that is
/// older than the recorded steps, or to the end. `None` if nothing follows, or if a step does that
/// was cut off: what it holds is not known to stay.
fn goes_on_until(view: &View<'_>, start: u32) -> Option<u32> {
    let (device, last) = (view.device, *view.ends.as_slice().last()?);
    let freed = device.blocks.free_requested.iter();
    let older = device.blocks.alloc.partition_point(|&made| made < start);
    let gone = freed.take(older).filter(|&&event| event >= last).min();
    let until = gone.map_or(device.events.len(), |&event| event.min(device.events.len()));
    (until > last && view.steps.len() == device.steps.len()).then_some(until)
}

/// The growth of lines that have given back nothing beyond its own step, of places that are bounded
/// only because what they keep is no older than what they gave back. A list that two lines fill is
/// emptied at once, so what a line keeps must be there after other lines gave back theirs.
fn of_lines(view: &View<'_>) -> Result<Vec<Growth>, Stopped> {
    let mut hiding = vec![false; view.survey.kept.len()];
    for (site, kept) in view.survey.kept.iter().enumerate() {
        view.watch.at_row(site, || 0)?;
        hiding[site] = kept.as_deref().is_some_and(|kept| {
            judge::may_hide_a_line(kept) && judge::judge(kept, view.survey) == Finding::Bounded
        });
    }
    if !hiding.contains(&true) {
        return Ok(Vec::new());
    }
    let lines = Lines::of(view, &hiding)?;
    let mut survey = Survey::new(&view.device.blocks, &lines.sites, view.ends, 0, view.watch)?;
    if view.survey.ran_before {
        survey.ran_before();
    }
    let by_line = View {
        sites: &lines.sites,
        survey: &survey,
        ..*view
    };
    let excuses = Excuses::new(&by_line);
    let mut found = Vec::new();
    // The first holds all other sites.
    for (line, kept) in survey.kept.iter().enumerate().skip(1) {
        view.watch.look(0)?;
        let site = view.survey.kept[lines.site_of[line]].as_deref();
        let Some((kept, site)) = kept.as_deref().zip(site) else {
            continue;
        };
        if !gave_nothing_back(kept) || !outlives_others(kept, site) {
            continue;
        }
        match judge::judge(kept, &survey) {
            Finding::Grows(growth) | Finding::TooFew(growth)
                if growth.growths > 1 && excuses.of(line, &growth).is_none() =>
            {
                found.push(growth);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Whether all that has outlived its own period is there at the last end.
fn gave_nothing_back(kept: &Kept) -> bool {
    kept.new_count.iter().sum::<u32>() == kept.survivor_count.iter().sum::<u32>()
}

/// Whether a line keeps something that is older than the last time at which its place gave back old
/// blocks. What variables held for one step goes in the next, so that is enough there.
fn outlives_others(line: &Kept, site: &Kept) -> bool {
    let emptied = match site.old_gone.iter().rposition(|&n| n > 0) {
        Some(emptied) => emptied,
        None => line.survivor_count.len() - 1,
    };
    line.survivor_count[..emptied].iter().any(|&n| n > 0)
}
