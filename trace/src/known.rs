//! Which levels of the four series a recording does not show.
//!
//! Where one is not known, the number that stands in its place is a bound, or nothing at all: the
//! level at the end of a state without history is only no higher than its peak.

use crate::device::DeviceIdx;
use crate::quality_code;
use crate::series::Series;
use crate::trace::QualityNote;
use crate::units::EventIdx;
use serde::{Deserialize, Serialize};

/// A moment at which a level is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// Before the first event.
    Start,
    /// Where it is highest.
    Peak,
    /// After the last event.
    End,
}

/// What stands in place of a level that is not known.
pub const NOT_KNOWN: &str = "unknown";

/// The levels that are not known, by series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Unknown {
    /// Of *requested*.
    #[cfg_attr(feature = "openapi", schema(max_items = 3))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requested: Vec<Point>,
    /// Of *allocated*.
    #[cfg_attr(feature = "openapi", schema(max_items = 3))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allocated: Vec<Point>,
    /// Of *active*.
    #[cfg_attr(feature = "openapi", schema(max_items = 3))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    active: Vec<Point>,
    /// Of *reserved*.
    #[cfg_attr(feature = "openapi", schema(max_items = 3))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reserved: Vec<Point>,
    /// Whether a peak may have been higher: a ring of events no longer holds all of the run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
}

/// Findings that say so: of which series, and which levels.
const SAID: [(&str, &[Series], &[Point]); 6] = [
    (
        quality_code::NO_EVENTS,
        &Series::ALL,
        &[Point::Start, Point::Peak],
    ),
    (
        quality_code::STATE_ONLY,
        &Series::ALL,
        &[Point::Start, Point::Peak],
    ),
    (
        quality_code::EVENTS_LEFT_OUT,
        &Series::ALL,
        &[Point::Start, Point::Peak],
    ),
    (
        quality_code::SEGMENTS_NOT_RECORDED,
        &[Series::Reserved],
        &[Point::Start, Point::Peak],
    ),
    (
        quality_code::SEGMENT_FREES_NOT_RECORDED,
        &[Series::Reserved],
        &[Point::Start, Point::Peak, Point::End],
    ),
    (
        quality_code::MADE_OF_PROFILE,
        &[Series::Reserved],
        &[Point::Start, Point::Peak, Point::End],
    ),
];

impl Unknown {
    /// Of a device, by the findings about the data.
    pub fn of(device: DeviceIdx, notes: &[QualityNote]) -> Unknown {
        let is_cut =
            |note: &QualityNote| note.code == quality_code::RING_WRAPPED && note.concerns(device);
        let mut unknown = Unknown {
            is_cut: notes.iter().any(is_cut),
            ..Unknown::default()
        };
        for (code, series, points) in SAID {
            let says = |note: &QualityNote| note.code == code && note.concerns(device);
            if notes.iter().any(says) {
                let each = series.iter();
                each.for_each(|&series| unknown.add(series, points));
            }
        }
        unknown
    }

    fn add(&mut self, series: Series, points: &[Point]) {
        let known = match series {
            Series::Requested => &mut self.requested,
            Series::Allocated => &mut self.allocated,
            Series::Active => &mut self.active,
            Series::Reserved => &mut self.reserved,
        };
        known.extend(points);
        known.sort();
        known.dedup();
    }

    fn of_series(&self, series: Series) -> &[Point] {
        match series {
            Series::Requested => &self.requested,
            Series::Allocated => &self.allocated,
            Series::Active => &self.active,
            Series::Reserved => &self.reserved,
        }
    }

    /// Whether a level is not known.
    pub fn has(&self, series: Series, point: Point) -> bool {
        self.of_series(series).contains(&point)
    }

    /// Whether a peak is only known to have been no lower.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether the beginning of a step is missing, whose first event this is: the ring wrapped
    /// within it.
    pub fn cuts(&self, first: EventIdx) -> bool {
        self.is_cut && first.0 == 0
    }

    /// Whether all are known.
    pub fn is_empty(&self) -> bool {
        let mut all = Series::ALL.into_iter();
        !self.is_cut && all.all(|series| self.of_series(series).is_empty())
    }

    /// A level in words: as it is told, or that it is a bound, or not known.
    pub fn told(&self, series: Series, point: Point, level: impl ToString) -> String {
        match (self.has(series, point), point) {
            (_, Point::Peak) if self.is_bound(series) => format!("≥ {}", level.to_string()),
            (true, _) => NOT_KNOWN.to_owned(),
            (false, _) => level.to_string(),
        }
    }

    /// Whether the peak of a series is only known to have been no lower: lists of runs say the same
    /// of it. Of a state alone, it was no lower than what is held there.
    fn is_bound(&self, series: Series) -> bool {
        match self.has(series, Point::Peak) {
            true => self.is_of_state() && !self.has(series, Point::End),
            false => self.is_cut,
        }
    }

    /// Whether nothing tells what was reserved at the moments that are told: at the peak, or in the
    /// only state.
    pub fn hides_reserved(&self) -> bool {
        let hides = |point| self.has(Series::Reserved, point);
        hides(Point::End) || hides(Point::Peak) && !self.is_of_state()
    }

    /// Whether nothing is known but what was held when the file was written.
    pub fn is_of_state(&self) -> bool {
        self.has(Series::Allocated, Point::Peak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_say_which_levels_are_not_known() {
        let of = |codes: &[(&str, &str)]| {
            let note = |&(code, detail): &(&str, &str)| QualityNote {
                code: code.to_owned(),
                detail: detail.to_owned(),
            };
            let notes: Vec<QualityNote> = codes.iter().map(note).collect();
            serde_json::to_string(&Unknown::of(DeviceIdx(1), &notes)).unwrap()
        };
        assert_eq!(of(&[("no_stacks", "10 %")]), "{}");
        assert_eq!(
            of(&[("segments_not_recorded", "device 1: why")]),
            r#"{"reserved":["start","peak"]}"#
        );
        assert_eq!(of(&[("segments_not_recorded", "device 0: why")]), "{}");
        assert_eq!(
            of(&[("events_left_out", "why")]),
            of(&[("no_events", "why")])
        );
        assert_eq!(
            of(&[("segment_frees_not_recorded", "why")]),
            r#"{"reserved":["start","peak","end"]}"#
        );
        let both = of(&[("made_of_profile", "why"), ("state_only", "why")]);
        let of_state = r#"["start","peak"]"#;
        let each = ["requested", "allocated", "active"];
        let each = each
            .map(|series| format!(r#""{series}":{of_state},"#))
            .concat();
        let reserved = r#""reserved":["start","peak","end"]"#;
        assert_eq!(both, format!("{{{each}{reserved}}}"));
        let notes = [QualityNote {
            code: "state_only".to_owned(),
            detail: String::new(),
        }];
        let unknown = Unknown::of(DeviceIdx(0), &notes);
        assert!(unknown.is_of_state() && !unknown.is_empty() && !unknown.hides_reserved());
        let told = |point| unknown.told(Series::Allocated, point, 7);
        assert_eq!([told(Point::Peak), told(Point::End)], ["≥ 7", "7"]);
        assert_eq!(told(Point::Start), "unknown");
        let notes = ["state_only", "made_of_profile"].map(|code| QualityNote {
            code: code.to_owned(),
            detail: String::new(),
        });
        let unknown = Unknown::of(DeviceIdx(0), &notes);
        assert_eq!(unknown.told(Series::Reserved, Point::Peak, 7), "unknown");
        let notes = [QualityNote {
            code: "ring_wrapped".to_owned(),
            detail: String::new(),
        }];
        let unknown = Unknown::of(DeviceIdx(0), &notes);
        let told = |point| unknown.told(Series::Reserved, point, 7);
        assert_eq!([told(Point::Peak), told(Point::End)], ["≥ 7", "7"]);
        assert!(!unknown.is_empty() && !unknown.is_of_state());
        assert!(unknown.cuts(EventIdx(0)) && !unknown.cuts(EventIdx(1)));
        assert!(!Unknown::default().cuts(EventIdx(0)));
    }
}
