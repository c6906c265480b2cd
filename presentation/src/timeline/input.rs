//! Translates pointer, wheel and keys into commands. Pure: events of the browser come in as plain
//! numbers.

use ::timeline::neighbours::Neighbour;
use ::timeline::viewport::Action;

/// A command for the timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command {
    /// The pointer is here, CSS pixels.
    Hover(f64, f64),
    /// The pointer is gone.
    Leave,
    /// Move by CSS pixels.
    Drag(f64, f64),
    /// Zoom horizontally about a point by a factor.
    ZoomX(f64, f64),
    /// Zoom vertically about a point by a factor.
    ZoomY(f64, f64),
    /// A box zoom is being drawn.
    Rubber((f64, f64), (f64, f64)),
    /// The box is complete.
    Box((f64, f64), (f64, f64)),
    /// The box was cancelled.
    NoRubber,
    /// A click.
    Click(f64, f64),
}

impl Command {
    /// Whether it shows more than before, unless everything is shown already.
    pub fn zooms_out(self) -> bool {
        matches!(self, Command::ZoomX(_, factor) | Command::ZoomY(_, factor) if factor < 1.0)
    }
}

/// A pointer event, CSS pixels on the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pointer {
    /// Which pointer: fingers have different ones.
    pub id: i32,
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
    /// Whether shift is held.
    pub shift: bool,
}

/// What the next drag does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tool {
    /// Moves the picture.
    #[default]
    Pan,
    /// Draws a box to zoom to.
    Box,
}

/// A press that moves less than this is a click, CSS pixels.
const CLICK_SLOP: f64 = 4.0;
/// A box flatter than this zooms horizontally only, CSS pixels.
pub const FLAT_BOX: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Finger {
    id: i32,
    x: f64,
    y: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Gesture {
    #[default]
    None,
    /// Pressed, and not yet moved far enough to be a drag.
    Press {
        at: (f64, f64),
        tool: Tool,
    },
    Pan,
    Rubber {
        from: (f64, f64),
    },
    Pinch,
}

/// The state of all pointers on the canvas.
#[derive(Clone, Debug, Default)]
pub struct Pointers {
    fingers: Vec<Finger>,
    gesture: Gesture,
    tool: Tool,
}

impl Pointers {
    /// What the next drag does.
    pub fn tool(&self) -> Tool {
        self.tool
    }

    /// Chooses what the next drag does.
    pub fn set_tool(&mut self, tool: Tool) {
        self.tool = tool;
    }

    /// Whether a gesture is under way.
    pub fn is_busy(&self) -> bool {
        self.gesture != Gesture::None
    }

    /// A button or finger went down.
    pub fn down(&mut self, pointer: Pointer) -> Option<Command> {
        let Pointer { id, x, y, shift } = pointer;
        self.fingers.retain(|f| f.id != id);
        self.fingers.push(Finger { id, x, y });
        if self.fingers.len() > 1 {
            let drew = matches!(self.gesture, Gesture::Rubber { .. });
            self.gesture = Gesture::Pinch;
            return drew.then_some(Command::NoRubber);
        }
        let tool = if shift { Tool::Box } else { self.tool };
        self.gesture = Gesture::Press { at: (x, y), tool };
        None
    }

    /// A pointer moved.
    pub fn moved(&mut self, pointer: Pointer) -> Vec<Command> {
        let Pointer { id, x, y, .. } = pointer;
        let Some(index) = self.fingers.iter().position(|f| f.id == id) else {
            return vec![Command::Hover(x, y)];
        };
        let before = self.fingers.clone();
        let old = self.fingers[index];
        (self.fingers[index].x, self.fingers[index].y) = (x, y);
        match self.gesture {
            Gesture::None => vec![Command::Hover(x, y)],
            Gesture::Press { at, tool } => {
                if (x - at.0).abs().max((y - at.1).abs()) < CLICK_SLOP {
                    return vec![];
                }
                match tool {
                    Tool::Pan => {
                        self.gesture = Gesture::Pan;
                        vec![Command::Leave, Command::Drag(x - at.0, y - at.1)]
                    }
                    Tool::Box => {
                        self.gesture = Gesture::Rubber { from: at };
                        vec![Command::Leave, Command::Rubber(at, (x, y))]
                    }
                }
            }
            Gesture::Pan => vec![Command::Drag(x - old.x, y - old.y)],
            Gesture::Rubber { from } => vec![Command::Rubber(from, (x, y))],
            Gesture::Pinch => pinch(&before, &self.fingers),
        }
    }

    /// A button or finger went up.
    pub fn up(&mut self, pointer: Pointer) -> Option<Command> {
        let Pointer { id, x, y, .. } = pointer;
        if !self.fingers.iter().any(|f| f.id == id) {
            return None;
        }
        self.fingers.retain(|f| f.id != id);
        let gesture = self.gesture;
        // When one finger of a pinch is lifted, the other goes on as a pan.
        self.gesture = match (gesture, self.fingers.is_empty()) {
            (Gesture::Pinch, false) => Gesture::Pan,
            _ => Gesture::None,
        };
        match gesture {
            Gesture::Press { .. } => Some(Command::Click(x, y)),
            Gesture::Rubber { from } => {
                self.tool = Tool::Pan;
                Some(Command::Box(from, (x, y)))
            }
            Gesture::None | Gesture::Pan | Gesture::Pinch => None,
        }
    }

    /// The browser cancelled the pointers, or the person pressed escape.
    pub fn cancel(&mut self) -> Option<Command> {
        let drew = matches!(self.gesture, Gesture::Rubber { .. });
        self.fingers.clear();
        self.gesture = Gesture::None;
        self.tool = Tool::Pan;
        drew.then_some(Command::NoRubber)
    }
}

/// Two fingers: the part of the picture between them stays between them.
fn pinch(before: &[Finger], after: &[Finger]) -> Vec<Command> {
    let (Some(&[a0, b0]), Some(&[a1, b1])) = (before.first_chunk::<2>(), after.first_chunk::<2>())
    else {
        return vec![];
    };
    let spread = |a: Finger, b: Finger| (a.x - b.x).hypot(a.y - b.y).max(1.0);
    let middle = |a: Finger, b: Finger| ((a.x + b.x) / 2.0, (a.y + b.y) / 2.0);
    let (from, to) = (middle(a0, b0), middle(a1, b1));
    vec![
        Command::Drag(to.0 - from.0, to.1 - from.1),
        Command::ZoomX(to.0, spread(a1, b1) / spread(a0, b0)),
    ]
}

/// A turn of the wheel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wheel {
    /// Where the pointer is, CSS pixels.
    pub x: f64,
    /// Where the pointer is, CSS pixels.
    pub y: f64,
    /// Sideways, pixels.
    pub dx: f64,
    /// Downwards, pixels.
    pub dy: f64,
    /// Lines instead of pixels.
    pub in_lines: bool,
    /// Shift: sideways.
    pub shift: bool,
    /// Alt: vertical zoom.
    pub alt: bool,
    /// Control: the browser reports a pinch on a touch pad this way.
    pub ctrl: bool,
    /// Whether the pointer is left of the plot, on the labels of the levels.
    pub on_levels: bool,
}

/// A turn of at least so many pixels is a notch of a mouse wheel, also with Control.
const NOTCH: f64 = 50.0;

/// What a turn of the wheel means.
pub fn wheel(wheel: Wheel) -> Command {
    let unit = if wheel.in_lines { 20.0 } else { 1.0 };
    let (dx, dy) = (wheel.dx * unit, wheel.dy * unit);
    let sideways = dx.abs() > dy.abs();
    let factor = |dy: f64| {
        // A notch of a mouse wheel is 100 to 120 pixels: that zooms by about a fifth. A pinch on a
        // touch pad comes in much smaller portions.
        let is_pinch = wheel.ctrl && dy.abs() < NOTCH;
        let speed = if is_pinch { 0.012 } else { 0.0018 };
        (-dy.clamp(-300.0, 300.0) * speed).exp()
    };
    match () {
        () if wheel.alt || wheel.on_levels => {
            let turn = if sideways { dx } else { dy };
            Command::ZoomY(wheel.y, factor(turn))
        }
        () if wheel.shift && !wheel.ctrl => {
            let turn = if sideways { dx } else { dy };
            Command::Drag(-turn, 0.0)
        }
        () if sideways && !wheel.ctrl => Command::Drag(-dx, 0.0),
        () => Command::ZoomX(wheel.x, factor(dy)),
    }
}

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyCommand {
    /// Zoom or move; goes on while the key is held.
    Glide(Glide),
    /// Do it, with a smooth movement.
    Act(Action),
    /// Show the selection; if it is shown already, or there is none, everything.
    Fit,
    /// Zoom vertically to the levels that change.
    FitLevels,
    /// The next drag draws a box.
    Box,
    /// Give up the box, or the selection.
    Escape,
    /// Select an allocation next to the selected one.
    Step(Neighbour),
    /// Show the selected allocation.
    ShowSelection,
}

/// A movement that goes on while its key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glide {
    /// Zoom in.
    In,
    /// Zoom out.
    Out,
    /// Towards the start.
    Left,
    /// Towards the end.
    Right,
}

impl Glide {
    /// The action for a stretch of time; it zooms about a fraction of the width.
    pub fn action(self, at: f64, elapsed_ms: f64) -> Action {
        let turns = elapsed_ms / 1000.0;
        match self {
            Glide::In => Action::ZoomX {
                x: at,
                factor: (turns * 3.0).exp(),
            },
            Glide::Out => Action::ZoomX {
                x: at,
                factor: (turns * -3.0).exp(),
            },
            Glide::Left => Action::Pan {
                dx: -turns * 1.1,
                dy: 0.0,
            },
            Glide::Right => Action::Pan {
                dx: turns * 1.1,
                dy: 0.0,
            },
        }
    }
}

/// Some keys work only while the timeline has the focus: elsewhere they scroll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The timeline has it.
    Timeline,
    /// Something else has it.
    Elsewhere,
}

/// What a key (`KeyboardEvent.key`) means.
pub fn key(key: &str, focus: Focus) -> Option<KeyCommand> {
    let lower = key.to_ascii_lowercase();
    let anywhere = match lower.as_str() {
        "w" | "+" | "=" => Some(KeyCommand::Glide(Glide::In)),
        "s" | "-" => Some(KeyCommand::Glide(Glide::Out)),
        "a" => Some(KeyCommand::Glide(Glide::Left)),
        "d" => Some(KeyCommand::Glide(Glide::Right)),
        "f" => Some(KeyCommand::Fit),
        "0" => Some(KeyCommand::Act(Action::Fit)),
        "v" => Some(KeyCommand::FitLevels),
        "b" => Some(KeyCommand::Box),
        "escape" => Some(KeyCommand::Escape),
        _ => None,
    };
    let with_focus = match lower.as_str() {
        "arrowleft" => Some(KeyCommand::Step(Neighbour::Earlier)),
        "arrowright" => Some(KeyCommand::Step(Neighbour::Later)),
        "arrowup" => Some(KeyCommand::Step(Neighbour::Above)),
        "arrowdown" => Some(KeyCommand::Step(Neighbour::Below)),
        "enter" => Some(KeyCommand::ShowSelection),
        "home" => Some(KeyCommand::Act(Action::Pan { dx: -1e12, dy: 0.0 })),
        "end" => Some(KeyCommand::Act(Action::Pan { dx: 1e12, dy: 0.0 })),
        _ => None,
    };
    anywhere.or(with_focus.filter(|_| focus == Focus::Timeline))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(id: i32, x: f64, y: f64) -> Pointer {
        Pointer {
            id,
            x,
            y,
            shift: false,
        }
    }

    #[test]
    fn a_press_that_hardly_moves_is_a_click() {
        let mut pointers = Pointers::default();
        assert_eq!(pointers.down(at(1, 50.0, 50.0)), None);
        assert_eq!(pointers.moved(at(1, 52.0, 51.0)), vec![]);
        assert_eq!(
            pointers.up(at(1, 52.0, 51.0)),
            Some(Command::Click(52.0, 51.0))
        );
        assert_eq!(
            pointers.moved(at(1, 60.0, 51.0)),
            vec![Command::Hover(60.0, 51.0)]
        );
    }

    #[test]
    fn a_drag_moves_by_all_it_moved() {
        let mut pointers = Pointers::default();
        pointers.down(at(1, 50.0, 50.0));
        let first = pointers.moved(at(1, 60.0, 50.0));
        assert_eq!(first, vec![Command::Leave, Command::Drag(10.0, 0.0)]);
        assert_eq!(
            pointers.moved(at(1, 65.0, 48.0)),
            vec![Command::Drag(5.0, -2.0)]
        );
        assert_eq!(pointers.up(at(1, 65.0, 48.0)), None);
    }

    #[test]
    fn shift_or_the_tool_draws_a_box_once() {
        let mut pointers = Pointers::default();
        pointers.set_tool(Tool::Box);
        pointers.down(at(1, 50.0, 50.0));
        let drawn = pointers.moved(at(1, 90.0, 70.0));
        let rubber = Command::Rubber((50.0, 50.0), (90.0, 70.0));
        assert_eq!(drawn, vec![Command::Leave, rubber]);
        let done = pointers.up(at(1, 90.0, 70.0));
        assert_eq!(done, Some(Command::Box((50.0, 50.0), (90.0, 70.0))));
        assert_eq!(pointers.tool(), Tool::Pan);
    }

    #[test]
    fn two_fingers_pinch_and_one_left_pans() {
        let mut pointers = Pointers::default();
        pointers.down(at(1, 100.0, 50.0));
        pointers.down(at(2, 200.0, 50.0));
        let pinched = pointers.moved(at(2, 300.0, 50.0));
        assert_eq!(
            pinched,
            vec![Command::Drag(50.0, 0.0), Command::ZoomX(200.0, 2.0)]
        );
        pointers.up(at(1, 100.0, 50.0));
        assert_eq!(
            pointers.moved(at(2, 310.0, 50.0)),
            vec![Command::Drag(10.0, 0.0)]
        );
    }

    #[test]
    fn the_wheel_zooms_pans_and_zooms_upright() {
        let turn = Wheel {
            x: 10.0,
            y: 20.0,
            dx: 0.0,
            dy: -100.0,
            in_lines: false,
            shift: false,
            alt: false,
            ctrl: false,
            on_levels: false,
        };
        assert!(
            matches!(wheel(turn), Command::ZoomX(x, f) if x == 10.0 && (1.1..1.3).contains(&f))
        );
        assert_eq!(
            wheel(Wheel {
                shift: true,
                ..turn
            }),
            Command::Drag(100.0, 0.0)
        );
        assert_eq!(
            wheel(Wheel { dx: 300.0, ..turn }),
            Command::Drag(-300.0, 0.0)
        );
        assert!(matches!(wheel(Wheel { alt: true, ..turn }), Command::ZoomY(y, _) if y == 20.0));
        let levels = Wheel {
            on_levels: true,
            ..turn
        };
        assert!(matches!(wheel(levels), Command::ZoomY(..)));
        let factor = |turn| match wheel(turn) {
            Command::ZoomX(_, factor) => factor,
            other => panic!("{other:?}"),
        };
        let ctrl = |dy| Wheel {
            ctrl: true,
            dy,
            ..turn
        };
        assert_eq!(factor(ctrl(-100.0)), factor(turn), "a notch");
        assert!(factor(ctrl(-4.0)) > 1.04, "a pinch");
        assert!(!wheel(turn).zooms_out());
        assert!(wheel(Wheel { dy: 100.0, ..turn }).zooms_out());
        assert!(!wheel(Wheel { dx: 300.0, ..turn }).zooms_out(), "a pan");
    }

    #[test]
    fn arrows_belong_to_the_page_unless_the_timeline_has_the_focus() {
        assert_eq!(key("ArrowUp", Focus::Elsewhere), None);
        assert_eq!(
            key("ArrowUp", Focus::Timeline),
            Some(KeyCommand::Step(Neighbour::Above))
        );
        assert_eq!(
            key("W", Focus::Elsewhere),
            Some(KeyCommand::Glide(Glide::In))
        );
        assert_eq!(key("q", Focus::Timeline), None);
    }
}
