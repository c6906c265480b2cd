//! The tooltip: where it stands, and what the event under the pointer did.

use api::timeline::Moment;
use trace::trace::Action;

/// The style of the tooltip's room, which is the screen beside the pointer. The tooltip is to the
/// right of the pointer and below it; in the right half of the picture to its left, in the lower
/// half of the screen above it. Row `tip` is the tooltip; the row between it and the edge shrinks,
/// so that a tooltip without room slides along the pointer. `at` is where the pointer is in the
/// picture; left edge, top and width of the picture are those on the screen. All are pixels.
pub fn placed(at: (f64, f64), [left, top, width]: [f64; 3], screen: (f64, f64)) -> String {
    let (x, y) = (left + at.0, top + at.1);
    let across = match at.0 > width / 2.0 {
        true => format!("right: {:.0}px; justify-content: end", screen.0 - x + 14.0),
        false => format!("left: {:.0}px", x + 14.0),
    };
    let rows = match y > screen.1 / 2.0 {
        true => format!(
            "[tip] auto minmax(0, {:.0}px); align-content: end",
            screen.1 - y + 10.0
        ),
        false => format!("minmax(0, {:.0}px) [tip] auto", y + 14.0),
    };
    format!("{across}; grid-template-rows: {rows}")
}

/// The name of an action.
const fn action_name(action: Action) -> &'static str {
    match action {
        Action::Alloc => "alloc",
        Action::FreeRequested => "free requested",
        Action::FreeCompleted => "free completed",
        Action::SegmentAlloc => "segment alloc",
        Action::SegmentFree => "segment free",
        Action::SegmentMap => "segment map",
        Action::SegmentUnmap => "segment unmap",
        Action::Snapshot => "snapshot",
        Action::Oom => "out of memory",
        Action::Annotate => "annotate",
        Action::Unknown => "unknown action",
    }
}

/// What an event did, in a line.
pub fn moment_text(moment: &Moment) -> String {
    let mut text = action_name(moment.action).to_owned();
    if moment.size.get() > 0 {
        text += &format!(" {}", moment.size);
    }
    if let Some(addr) = moment.addr {
        text += &format!(" at {addr}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tooltip_gives_up_its_distance_before_it_leaves_the_screen() {
        let check = |at, top, expected: &str| {
            let told = placed(at, [30.0, top, 800.0], (1280.0, 720.0));
            assert_eq!(told, expected);
        };
        let upper = "left: 144px; grid-template-rows: minmax(0, 254px) [tip] auto";
        check((100.0, 140.0), 100.0, upper);
        let lower = "right: 564px; justify-content: end; \
                     grid-template-rows: [tip] auto minmax(0, 30px); align-content: end";
        check((700.0, 140.0), 560.0, lower);
    }
}
