//! Differences by stack: filtered, searched, sorted, and named.

use crate::letters::lower;
use api::compare_view::{CompareState, Rows, SiteOrder};
use api::ids::RunId;
use api::routes;
use api::view_state::{Selection, ViewState};
use timeline::order;
use trace::alive::Wanted;
use trace::code::file_name;
use trace::compare::sites::{SiteChange, SiteDelta};
use trace::device::DeviceIdx;
use trace::units::Bytes;

/// The rows that a state shows, in its order.
pub fn arranged(sites: &[SiteDelta], state: &CompareState) -> Vec<SiteDelta> {
    let wanted = Wanted::new(&lower(&state.search));
    let is_found = |site: &SiteDelta| wanted.as_ref().is_none_or(|wanted| matches(site, wanted));
    let mut rows: Vec<SiteDelta> = sites
        .iter()
        .filter(|site| is_in(site.change, state.rows) && is_found(site))
        .cloned()
        .collect();
    let key = |site: &SiteDelta| match state.order {
        SiteOrder::Largest => site.weight() as f64,
        SiteOrder::Peak => site.peak.unsigned_abs() as f64,
        SiteOrder::AtPeak => site.at_peak.unsigned_abs() as f64,
        SiteOrder::End => site.at_end.unsigned_abs() as f64,
        SiteOrder::Growth => site.growth.abs(),
    };
    order::sort_by(&mut rows, |a, b| key(b).total_cmp(&key(a)));
    rows
}

/// Whether a filter shows a change.
pub fn is_in(change: SiteChange, rows: Rows) -> bool {
    match rows {
        Rows::All => true,
        Rows::Grown => change == SiteChange::Grown,
        Rows::Shrunk => change == SiteChange::Shrunk,
        Rows::New => change == SiteChange::New,
        Rows::Gone => change == SiteChange::Gone,
    }
}

/// Whether a row's title or one of its frames is looked for.
fn matches(site: &SiteDelta, wanted: &Wanted) -> bool {
    let (name, place) = title(site);
    let sides = site.base.iter().chain(&site.new);
    let mut frames = sides.flat_map(|side| &side.frames);
    wanted.is_label(&lower(&[&*name, " ", &*place].concat()))
        || frames.any(|frame| {
            let (name, file) = (lower(&frame.name), lower(&frame.filename));
            wanted.is_frame(&name, &file, frame.line)
        })
}

/// A change in a word, and the classes of that word.
pub const fn change_word(change: SiteChange) -> (&'static str, &'static str) {
    match change {
        SiteChange::Grown => ("grown", "site-change more"),
        SiteChange::Shrunk => ("shrunk", "site-change less"),
        SiteChange::New => ("new", "site-change more"),
        SiteChange::Gone => ("gone", "site-change less"),
        SiteChange::Shifted => ("at peak", "site-change"),
    }
}

/// Function, and file with line; if there is no stack, the size.
pub fn title(site: &SiteDelta) -> (String, String) {
    match site.place() {
        Some(place) => {
            let file = file_name(&place.filename);
            // If a function has no line, its C++ file says nothing.
            let place_in_file = match place.line {
                0 => String::new(),
                line => format!("{file}:{line}"),
            };
            (place.name.clone(), place_in_file)
        }
        None => {
            let size = site.told().map_or(Bytes::ZERO, |side| side.size);
            ("no stack recorded".to_owned(), format!("{size} each"))
        }
    }
}

/// What tells a row apart from others with the same title, if anything does.
pub fn apart(site: &SiteDelta, sites: &[SiteDelta]) -> Option<String> {
    Some(site.apart(sites)?.told())
}

/// The page of a run with the band of this stack selected.
pub fn band_page(run: &RunId, device: DeviceIdx, stack: u32) -> String {
    let state = ViewState {
        device: Some(device),
        selection: Some(Selection::Group(stack)),
        ..ViewState::default()
    };
    format!("{}?{state}", routes::run_page(run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::compare::profile::Place;
    use trace::compare::sites::{Matched, SiteSide};

    fn site(name: &str, change: SiteChange, peak: i64, end: i64) -> SiteDelta {
        let side = SiteSide {
            stack: 3,
            place: None,
            frames: vec![Place {
                name: name.to_owned(),
                filename: "/a/b.py".to_owned(),
                line: 1,
            }],
            count: 1,
            made: Bytes(1),
            peak: Bytes(1),
            at_peak: Bytes(1),
            at_end: Bytes(1),
            growth: 0.0,
            leaks: false,
            size: Bytes(1),
        };
        SiteDelta {
            id: name.to_owned(),
            change,
            matched: Matched::Exactly,
            peak,
            at_peak: 0,
            at_end: end,
            growth: end as f64,
            base: Some(side),
            new: None,
        }
    }

    #[test]
    fn rows_with_one_title_are_told_apart_by_their_stacks() {
        let of = |id: &str, callers: &[u32]| {
            let mut site = site(id, SiteChange::Grown, 1, 1);
            let side = site.base.as_mut().unwrap();
            let at = |line: u32| Place {
                name: format!("layer{line}"),
                filename: "/a/model.py".to_owned(),
                line,
            };
            side.place = Some(at(1));
            side.frames = [1].iter().chain(callers).map(|&line| at(line)).collect();
            site
        };
        let told = |sites: &[SiteDelta]| -> Vec<Option<String>> {
            sites.iter().map(|site| apart(site, sites)).collect()
        };
        let [some, other] = [of("s1", &[7, 9]), of("s2", &[8, 9])];
        assert_eq!(told(std::slice::from_ref(&some)), [None]);
        let expected = ["in layer7 (model.py:7)", "in layer8 (model.py:8)"];
        assert_eq!(
            told(&[some.clone(), other]),
            expected.map(|t| Some(t.to_owned()))
        );
        let same = of("s3", &[7, 9]);
        assert_eq!(told(&[some, same]), [None, None]);
    }

    #[test]
    fn rows_are_filtered_searched_and_sorted() {
        let sites = [
            site("keep", SiteChange::Grown, 5, 0),
            site("forward", SiteChange::Gone, -9, -1),
            site("backward", SiteChange::Gone, -2, -7),
        ];
        let names = |state: &CompareState| -> Vec<String> {
            arranged(&sites, state)
                .into_iter()
                .map(|site| site.id)
                .collect()
        };
        let state = CompareState::default();
        assert_eq!(names(&state), ["forward", "backward", "keep"]);
        let gone = CompareState {
            rows: Rows::Gone,
            order: SiteOrder::End,
            ..state.clone()
        };
        assert_eq!(names(&gone), ["backward", "forward"]);
        let searched = CompareState {
            search: " WARD".to_owned(),
            ..state.clone()
        };
        assert_eq!(names(&searched), ["forward", "backward"]);
        let found = |search: &str| {
            let state = CompareState {
                search: search.to_owned(),
                ..state.clone()
            };
            names(&state)
        };
        assert_eq!(found("b.py").len(), 3);
        assert_eq!(found("a/b.py:1").len(), 3);
        assert_eq!(found("Keep (b.py:1)"), ["keep"]);
        assert_eq!(found("keep b.py:1"), ["keep"]);
        assert_eq!(found("no stack recorded").len(), 3);
        assert_eq!(found("b.py:11"), [""; 0]);
    }

    #[test]
    fn a_band_has_an_address() {
        let run = "run_a".parse().unwrap();
        assert_eq!(
            band_page(&run, DeviceIdx(1), 17),
            "/runs/run_a?v=5&dev=1&sel=g17"
        );
    }
}
