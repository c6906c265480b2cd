//! The address space of expandable segments.
//!
//! PyTorch reserves an area of addresses for each stream and pool, maps pages in it, and grows from
//! its lower end. Areas are larger than the device's memory, so pages of two of them never touch.

use super::matching::Matched;
use crate::footprint::of_vec;
use crate::snapshot::{EventKind, RawSegment};
use crate::trace::Action;

/// Addresses of one expandable segment: where pages were ever mapped side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    start: u64,
    end: u64,
    /// Whether the recording says which pool it is of.
    is_named: bool,
}

/// All areas of a device, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Areas(Vec<Area>);

impl Areas {
    /// The areas that the events and the segments of the end show.
    pub fn of(
        kinds: &[EventKind],
        rows: &[u32],
        matched: &Matched,
        final_segments: &[&RawSegment],
    ) -> Areas {
        let rows_and_segments = matched.segment_events.iter().zip(&matched.events.segments);
        let pages = rows_and_segments.filter_map(|(&event, segment)| {
            let kind = &kinds[rows[event as usize] as usize];
            let of_pages = matches!(kind.action, Action::SegmentMap | Action::SegmentUnmap);
            of_pages.then(|| range(segment.addr.0, kind.size.0, kind.pool.is_some()))
        });
        let at_the_end = final_segments.iter().filter(|s| s.is_expandable);
        let at_the_end = at_the_end.map(|s| range(s.addr.0, s.total_size.0, true));
        let mut areas: Vec<Area> = pages.chain(at_the_end).collect();
        areas.sort_unstable_by_key(|range| range.start);
        areas.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            if touches {
                last.end = last.end.max(next.end);
                last.is_named |= next.is_named;
            }
            touches
        });
        areas.shrink_to_fit();
        Areas(areas)
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.0)
    }

    /// The start of the area that holds an address.
    pub fn holding(&self, addr: u64) -> Option<u64> {
        self.area(addr).map(|area| area.start)
    }

    /// The same, if nothing says which pool it is of.
    pub fn unnamed(&self, addr: u64) -> Option<u64> {
        let area = self.area(addr).filter(|area| !area.is_named);
        area.map(|area| area.start)
    }

    fn area(&self, addr: u64) -> Option<&Area> {
        let above = self.0.partition_point(|area| area.start <= addr);
        let below = self.0[..above].last();
        below.filter(|area| addr < area.end)
    }
}

fn range(start: u64, size: u64, is_named: bool) -> Area {
    Area {
        start,
        end: start.saturating_add(size),
        is_named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_one_area() {
        let area = |start, end, is_named| Area {
            start,
            end,
            is_named,
        };
        let areas = Areas(vec![area(10, 20, true), area(50, 60, false)]);
        let check = |addr, holding, unnamed| {
            assert_eq!(areas.holding(addr), holding, "{addr}");
            assert_eq!(areas.unnamed(addr), unnamed, "{addr}");
        };
        check(9, None, None);
        check(10, Some(10), None);
        check(19, Some(10), None);
        check(20, None, None);
        check(50, Some(50), Some(50));
        check(60, None, None);
    }
}
