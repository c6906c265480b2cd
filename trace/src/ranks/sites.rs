//! The same allocation site in all ranks.
//!
//! Sites are matched by their key ([`crate::site`]), the first way in which comparisons match them:
//! all ranks run one program, so nothing is renamed between them but the files that `torch.compile`
//! writes (the module `together`). A rank that does not have a site holds 0 of it. If its smallest
//! sites were left out, it may hold up to its floor; a difference below that does not count. Nor
//! does one that is no larger than the differences between the steps of a rank, at their peaks or
//! at their ends, whichever is compared; unless the ranks that hold less never hold nearly as much.
//! Nor does one that may lie in what a rank holds from before its recording ([`super::begin`]), or
//! in what it holds of that site on another device ([`super::other_devices`]).
//! Ends are not compared where a rank ran out of memory and ends within a step.
//!
//! What a site holds at the peaks of its ranks is compared only if these are the same moment of the
//! program ([`super::moment`]). Otherwise the most that the site itself holds is compared, which
//! does not depend on a moment.

use super::Rank;
use super::begin::more_than_least;
use super::moment::{Apart, Moment};
use super::profile::RankProfile;
use super::rank_site::RankSite;
use crate::compare::noise;
use crate::compare::profile::Place;
use crate::median;
use crate::site::size_of_id;
use crate::stacks::FxHashMap;
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// How many sites of all ranks together are looked at. Only a file that was made to be large has
/// more.
const MAX_KNOWN: usize = 1 << 15;
/// Rows, the largest differences first.
pub const MAX_ROWS: usize = 1000;
/// Ranks named in a row.
pub const MAX_NAMED: usize = 8;

/// When a site holds what is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = HoldsWhen))]
pub enum When {
    /// At the peak of *allocated*.
    #[default]
    Peak,
    /// Where the site itself stands highest: the peaks are different moments.
    Most,
    /// After the last event.
    End,
}

impl When {
    /// The same for a person, of one rank.
    pub const fn words(self) -> &'static str {
        match self {
            When::Peak => "at its peak",
            When::Most => "at most",
            When::End => "at its end",
        }
    }

    /// What is held then, of what is held at the peak, at most, and at the end.
    fn of<T>(self, at_peak: T, most: T, at_end: T) -> T {
        match self {
            When::Peak => at_peak,
            When::Most => most,
            When::End => at_end,
        }
    }
}

/// One site in all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SiteAcross {
    /// Names the row: equal in all ranks, and in comparisons too where none of its code was
    /// generated.
    pub id: String,
    /// The innermost line of the program, or the frame that a person would recognise; absent
    /// without a stack.
    pub place: Option<Place>,
    /// The outermost function of the program on the way to it, if that is another one.
    #[serde(default)]
    pub caller: Option<Place>,
    /// What that line called: `mm`, or the innermost function of PyTorch. Where rows would read
    /// alike without it, it also stands in the name of the place.
    #[serde(default)]
    pub operation: Option<String>,
    /// Live when *allocated* of the rank stood highest: smallest, median, largest of all ranks.
    pub at_peak: [Bytes; 3],
    /// Live after the last event, the same.
    pub at_end: [Bytes; 3],
    /// The most that the site holds at any moment, the same.
    #[serde(default)]
    pub most: [Bytes; 3],
    /// Which of these three is compared: where a rank is farthest from the median.
    #[serde(default)]
    pub when: When,
    /// Ranks that have the site.
    pub ranks: u32,
    /// Ranks in which it is found to leak.
    pub leaks: u32,
    /// How far a rank is from the median at most, in what is compared (`when`). Rows are sorted by
    /// it.
    pub difference: Bytes,
    /// The ranks that differ most from the median, the farthest first.
    pub farthest: Vec<RankHolds>,
}

impl SiteAcross {
    /// What is told of it where it has no stack: `no stack, 4.00 MiB each`.
    pub fn without_stack(&self) -> String {
        match size_of_id(&self.id) {
            Some(size) => format!("no stack, {size} each"),
            None => "no stack".to_owned(),
        }
    }

    /// The three levels that are compared.
    pub fn shown(&self) -> [Bytes; 3] {
        self.when.of(self.at_peak, self.most, self.at_end)
    }
}

/// What a rank holds of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RankHolds {
    /// Which rank.
    pub rank: Rank,
    /// Live when *allocated* stood highest.
    pub at_peak: Bytes,
    /// Live after the last event.
    pub at_end: Bytes,
    /// The most that the site holds at any moment.
    #[serde(default)]
    pub most: Bytes,
    /// Whether it is found to leak there.
    pub leaks: bool,
}

impl RankHolds {
    /// What it holds then.
    pub fn held(&self, when: When) -> Bytes {
        when.of(self.at_peak, self.most, self.at_end)
    }
}

/// Why a rank does not say where most of its memory was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silent {
    LostEvents,
    NoStacks,
}

/// What was found.
pub(super) struct Found {
    pub rows: Vec<SiteAcross>,
    pub left_out: u32,
    pub same: u32,
    pub unclear: u32,
    /// Sites that differ, but by no more than ranks hold of them on other devices.
    pub on_other_devices: u32,
    /// The ranks that were compared.
    pub compared: Vec<Rank>,
    /// Ranks that could not be compared.
    pub silent: Vec<(Rank, Silent)>,
    /// Whether their peaks are different moments of the program.
    pub moments_differ: bool,
    /// Ranks that peak at another moment than most.
    pub elsewhere: Vec<Rank>,
}

/// Collects what each rank holds.
#[derive(Default)]
pub(super) struct Across {
    ranks: Vec<Rank>,
    /// Of each rank, why it cannot be compared.
    silent: Vec<Option<Silent>>,
    /// Of each rank, where it stands highest.
    moments: Vec<Moment>,
    /// Of each rank, what it holds from before its recording.
    before: Vec<Bytes>,
    /// Whether a rank ends with a failed allocation: at another place of the program than others.
    ends_differ: bool,
    floor: Bytes,
    sites: FxHashMap<String, Site>,
    /// By site, the most that ranks hold of it on other devices: positions among the ranks.
    elsewhere: FxHashMap<String, Vec<(u32, Bytes)>>,
}

#[derive(Default)]
struct Site {
    place: Option<Place>,
    caller: Option<Place>,
    operation: Option<String>,
    /// Whether ranks name different lines of it.
    has_lines: bool,
    wobble: Bytes,
    end_wobble: Bytes,
    /// Positions among the ranks, rising.
    held: Vec<Held>,
}

#[derive(Clone, Copy)]
struct Held {
    at: u32,
    at_peak: Bytes,
    at_end: Bytes,
    most: Bytes,
    leaks: bool,
}

impl Held {
    fn level(&self, when: When) -> Bytes {
        when.of(self.at_peak, self.most, self.at_end)
    }
}

impl Across {
    pub fn add(&mut self, rank: Rank, profile: &RankProfile) {
        let at = self.ranks.len() as u32;
        self.ranks.push(rank);
        let mut ids = profile.sites.iter().map(|site| &site.id);
        let has_no_stacks = ids.len() > 0 && ids.all(|id| size_of_id(id).is_some());
        self.silent.push(match profile.wrapped {
            true => Some(Silent::LostEvents),
            false => has_no_stacks.then_some(Silent::NoStacks),
        });
        self.moments.push(profile.moment.clone());
        self.before.push(profile.from_before);
        self.ends_differ |= profile.oom.as_ref().is_some_and(|oom| oom.is_last);
        self.floor = self.floor.max(profile.floor);
        for site in &profile.sites {
            self.add_site(at, site);
        }
        for (id, most) in profile.others.iter().flat_map(|other| &other.sites) {
            if self.elsewhere.contains_key(id) || self.elsewhere.len() < MAX_KNOWN {
                self.elsewhere
                    .entry(id.clone())
                    .or_default()
                    .push((at, *most));
            }
        }
    }

    fn add_site(&mut self, at: u32, site: &RankSite) {
        if !self.sites.contains_key(&site.id) && self.sites.len() >= MAX_KNOWN {
            return;
        }
        let known = self.sites.entry(site.id.clone()).or_default();
        let leaks_already = known.held.iter().any(|held| held.leaks);
        known.has_lines |= is_another_line(known.place.as_ref(), site.place.as_ref());
        if known.place.is_none() || site.leaks && !leaks_already {
            known.place.clone_from(&site.place);
            known.caller.clone_from(&site.caller);
            known.operation.clone_from(&site.operation);
        }
        known.wobble = known.wobble.max(site.wobble);
        known.end_wobble = known.end_wobble.max(site.end_wobble);
        known.held.push(Held {
            at,
            at_peak: site.at_peak,
            at_end: site.at_end,
            most: site.most,
            leaks: site.leaks,
        });
    }

    /// The sites that differ.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn finish(mut self, watch: Watch<'_>) -> Result<Found, Stopped> {
        let silent = self.without_silent();
        let apart = Apart::of(&self.moments);
        let first = match apart.differ {
            true => When::Most,
            false => When::Peak,
        };
        let times: &[When] = match self.ends_differ {
            true => &[first],
            false => &[first, When::End],
        };
        let hidden = more_than_least(&self.before);
        let Across {
            ranks,
            floor,
            sites,
            elsewhere: on_others,
            ..
        } = self;
        let elsewhere = apart.odd.iter().map(|&at| ranks[at]).collect();
        let n = sites.len();
        let mut rows: Vec<SiteAcross> = Vec::new();
        let (mut unclear, mut on_other_devices) = (0, 0);
        for (at, (id, site)) in sites.into_iter().enumerate() {
            watch.at_row(at, || 0)?;
            let mut hidden = hidden.clone();
            let more = on_others.get(&id);
            for &(at, most) in more.into_iter().flatten() {
                hidden[at as usize] = hidden[at as usize].saturating_add(most);
            }
            match row(id, site, (&ranks, times), (floor, &hidden)) {
                Compared::Differs(row) => rows.push(*row),
                Compared::Unclear if more.is_some() => on_other_devices += 1,
                Compared::Unclear => unclear += 1,
                Compared::Same => {}
            }
        }
        let differ = rows.len();
        rows.sort_by(|a, b| {
            b.difference
                .cmp(&a.difference)
                .then_with(|| a.id.cmp(&b.id))
        });
        rows.truncate(MAX_ROWS);
        tell_apart(&mut rows, ranks.len());
        Ok(Found {
            left_out: (differ - rows.len()) as u32,
            same: (n - differ) as u32 - unclear - on_other_devices,
            unclear,
            on_other_devices,
            rows,
            silent,
            moments_differ: apart.differ,
            elsewhere,
            compared: ranks,
        })
    }

    /// Leaves out ranks that would seem to hold nothing at sites of others, because they were
    /// recorded without stacks or their rings wrapped. If all ranks are like that, none is.
    fn without_silent(&mut self) -> Vec<(Rank, Silent)> {
        if self.silent.iter().all(Option::is_some) {
            return Vec::new();
        }
        let silent = std::mem::take(&mut self.silent);
        // The new position of each rank that stays.
        let mut place = Vec::with_capacity(silent.len());
        let mut kept = 0;
        for why in &silent {
            place.push(why.is_none().then_some(kept));
            kept += u32::from(why.is_none());
        }
        self.sites.retain(|_, site| {
            site.held.retain_mut(|held| match place[held.at as usize] {
                Some(at) => {
                    held.at = at;
                    true
                }
                None => false,
            });
            !site.held.is_empty()
        });
        self.elsewhere.retain(|_, held| {
            held.retain_mut(|(at, _)| match place[*at as usize] {
                Some(new) => {
                    *at = new;
                    true
                }
                None => false,
            });
            !held.is_empty()
        });
        self.moments = kept_of(std::mem::take(&mut self.moments), &silent);
        self.before = kept_of(std::mem::take(&mut self.before), &silent);
        let ranks = std::mem::take(&mut self.ranks);
        let out = ranks.iter().zip(&silent);
        let out = out
            .filter_map(|(&rank, why)| Some((rank, (*why)?)))
            .collect();
        self.ranks = kept_of(ranks, &silent);
        if self.ranks.len() < 2 {
            self.sites.clear();
        }
        out
    }
}

/// What belongs to the ranks that can be compared.
fn kept_of<T>(all: Vec<T>, silent: &[Option<Silent>]) -> Vec<T> {
    let all = all.into_iter().zip(silent);
    all.filter(|(_, why)| why.is_none())
        .map(|(own, _)| own)
        .collect()
}

/// Whether these are two lines of one function.
fn is_another_line(one: Option<&Place>, other: Option<&Place>) -> bool {
    one.zip(other).is_some_and(|(one, other)| {
        (&one.name, &one.filename) == (&other.name, &other.filename) && one.line != other.line
    })
}

impl Site {
    /// What each of so many ranks holds; those that do not have it hold nothing.
    fn in_all(&self, ranks: usize) -> Vec<Held> {
        let nothing = |at: u32| Held {
            at,
            at_peak: Bytes::ZERO,
            at_end: Bytes::ZERO,
            most: Bytes::ZERO,
            leaks: false,
        };
        let held = |at| match self.held.binary_search_by_key(&at, |held| held.at) {
            Ok(found) => self.held[found],
            Err(_) => nothing(at),
        };
        (0..ranks as u32).map(held).collect()
    }

    /// What it is called where ranks hold so much of it: least, median, most. A site is a function,
    /// not a line. If it leaks in a rank, it is called by the line that leaks there, unless ranks
    /// name several lines and the bytes are of all of them.
    fn told(&self, [_, usual, most]: [Bytes; 3]) -> Option<Place> {
        let mut place = self.place.clone()?;
        let leaks = self.held.iter().any(|held| held.leaks);
        let is_shared = usual.0 as f64 > noise::SITE_SHARE * most.0 as f64;
        if leaks && self.has_lines && is_shared {
            place.line = 0;
        }
        Some(place)
    }

    /// How much its ranks may differ then, because its steps do.
    fn wobble(&self, when: When) -> Bytes {
        when.of(self.wobble, self.wobble, self.end_wobble)
    }
}

/// Rows of one line that calls several operations would read alike: their names say which.
fn tell_apart(rows: &mut [SiteAcross], ranks: usize) {
    let words = |row: &SiteAcross| {
        let is_in_all = row.ranks as usize == ranks;
        let caller = row.caller.as_ref().filter(|_| !is_in_all);
        Some((row.place.as_ref()?.told(), caller.map(Place::told)))
    };
    let told: Vec<_> = rows.iter().map(words).collect();
    let mut seen: FxHashMap<_, u32> = FxHashMap::default();
    for words in told.iter().flatten() {
        *seen.entry(words).or_default() += 1;
    }
    for (row, words) in rows.iter_mut().zip(&told) {
        let are_several = words.as_ref().is_some_and(|words| seen[words] > 1);
        if let (true, Some(place), Some(operation)) = (are_several, &mut row.place, &row.operation)
        {
            place.name = format!("{}, {operation}", place.name);
        }
    }
}

/// Smallest, median and largest of what ranks hold then.
fn spread(all: &[Held], when: When) -> [Bytes; 3] {
    let levels = || all.iter().map(|held| held.level(when).0);
    let of_all = [levels().min(), median::mean(levels()), levels().max()];
    of_all.map(|level| Bytes(level.unwrap_or(0)))
}

/// What a rank may hold of a site at one time: as much as is seen, and what is not known of memory
/// from before its recording.
#[derive(Clone, Copy)]
struct Range {
    low: Bytes,
    high: Bytes,
}

impl Range {
    /// What has no stack may belong to any site; any site may hold more than is seen.
    fn of(level: Bytes, hidden: Bytes, has_stack: bool) -> Range {
        match has_stack {
            true => Range {
                low: level,
                high: level.saturating_add(hidden),
            },
            false => Range {
                low: level.saturating_sub(hidden),
                high: level,
            },
        }
    }

    /// How far it is at least from a value in another range.
    fn off(self, other: Range) -> Bytes {
        self.low
            .saturating_sub(other.high)
            .max(other.low.saturating_sub(self.high))
    }

    /// The median of several: that of their lowest values to that of their highest.
    fn median(all: &[Range]) -> Range {
        let of = |end: fn(&Range) -> Bytes| {
            let values = all.iter().map(|range| end(range).0);
            Bytes(median::mean(values).unwrap_or(0))
        };
        Range {
            low: of(|range| range.low),
            high: of(|range| range.high),
        }
    }
}

/// A site whose ranks are compared.
#[derive(Clone, Copy)]
struct Comparing<'a> {
    all: &'a [Held],
    /// What each rank holds more from before its recording than the one that holds least.
    hidden: &'a [Bytes],
    /// Blocks of one size, without a stack, are in one rank alone by chance.
    has_stack: bool,
    /// What a rank may hold of a site that it lacks.
    least: Bytes,
}

/// The ranks that differ from the median at one time.
struct Differing {
    when: When,
    /// How far the farthest is.
    difference: Bytes,
    /// The farthest first.
    farthest: Vec<Held>,
}

impl Comparing<'_> {
    fn range(&self, held: &Held, level: Bytes) -> Range {
        Range::of(level, self.hidden[held.at as usize], self.has_stack)
    }

    /// The ranks that differ then by more than the wobble; `None` if none does. The wobble does not
    /// excuse what is out of reach.
    fn at(&self, when: When, wobble: Bytes) -> Option<Differing> {
        let range = |held: &Held| self.range(held, held.level(when));
        let ranges: Vec<Range> = self.all.iter().map(range).collect();
        let usual = Range::median(&ranges);
        let off = |held: &Held| range(held).off(usual);
        // Among equally distant ranks, those that hold more come first, then the lower ranks.
        let mut farthest = self.all.to_vec();
        let rank = |held: &Held| Reverse(held.at);
        farthest.sort_by_key(|held| Reverse((off(held), held.level(when), rank(held))));
        let middle = spread(self.all, when)[1];
        let wobble = match self.has_stack && self.is_out_of_reach(&farthest, when, middle) {
            true => Bytes::ZERO,
            false => wobble,
        };
        let tolerance = noise::site(middle, middle, wobble).max(self.least);
        farthest.retain(|held| off(held) > tolerance);
        Some(Differing {
            when,
            difference: off(farthest.first()?),
            farthest,
        })
    }

    /// Whether the farthest rank holds what the others never do, or never does what they hold: not
    /// even half of it. No step of theirs is like that, however much their steps differ.
    fn is_out_of_reach(&self, farthest: &[Held], when: When, middle: Bytes) -> bool {
        let never = |held: &Held, level: Bytes| {
            let most = self.range(held, held.most).high;
            most.0.saturating_mul(2) < level.0
        };
        let Some((first, others)) = farthest.split_first() else {
            return false;
        };
        match first.level(when) {
            level if level > middle => others.iter().all(|other| never(other, level)),
            _ => never(first, middle),
        }
    }
}

/// What comparing the ranks of a site gives.
enum Compared {
    Differs(Box<SiteAcross>),
    /// It differs, but by no more than ranks hold from before.
    Unclear,
    Same,
}

/// Compares a site at these times. `floor` is the most that a site may hold which is not
/// among those of its rank; `hidden` is what each rank holds more from before than others.
fn row(
    id: String,
    site: Site,
    (ranks, times): (&[Rank], &[When]),
    (floor, hidden): (Bytes, &[Bytes]),
) -> Compared {
    let all = site.in_all(ranks.len());
    let is_in_all = site.held.len() == ranks.len();
    let comparing = Comparing {
        all: &all,
        hidden,
        has_stack: size_of_id(&id).is_none(),
        least: if is_in_all { Bytes::ZERO } else { floor },
    };
    let farther = |comparing: Comparing<'_>| {
        let seen = times.iter();
        let seen = seen.filter_map(|&when| comparing.at(when, site.wobble(when)));
        seen.reduce(|then, end| match end.difference > then.difference {
            true => end,
            false => then,
        })
    };
    let Some(seen) = farther(comparing) else {
        let none_hidden = vec![Bytes::ZERO; hidden.len()];
        let seen = farther(Comparing {
            hidden: &none_hidden,
            ..comparing
        });
        return match seen {
            Some(_) => Compared::Unclear,
            None => Compared::Same,
        };
    };
    let farthest = seen.farthest.iter().take(MAX_NAMED);
    Compared::Differs(Box::new(SiteAcross {
        id,
        place: site.told(spread(&all, seen.when)),
        caller: site.caller.clone(),
        operation: site.operation.clone(),
        at_peak: spread(&all, When::Peak),
        at_end: spread(&all, When::End),
        most: spread(&all, When::Most),
        when: seen.when,
        ranks: site.held.len() as u32,
        leaks: site.held.iter().filter(|held| held.leaks).count() as u32,
        difference: seen.difference,
        farthest: farthest
            .map(|held| RankHolds {
                rank: ranks[held.at as usize],
                at_peak: held.at_peak,
                at_end: held.at_end,
                most: held.most,
                leaks: held.leaks,
            })
            .collect(),
    }))
}
