//! The canvases on the page, and the events that reach them.

use super::Handle;
use super::canvas::Surface;
use super::observe;
use crate::components::keys;
use ::timeline::minimap::{Grip, Strip};
use ::timeline::model::Motion;
use ::timeline::neighbours::Neighbour;
use ::timeline::viewport::Action;
use api::view_state::Selection;
use leptos::ev;
use leptos::html::{Canvas, Div};
use leptos::prelude::*;
use presentation::timeline::input::{
    self, Command, Focus, Glide, KeyCommand, Pointer, Pointers, Tool, Wheel,
};
use wasm_bindgen::JsCast;
use web_sys::{
    Element, HtmlCanvasElement, HtmlDivElement, KeyboardEvent, MouseEvent, Node, PointerEvent,
    WheelEvent,
};

/// The two canvases of the picture.
#[component]
pub fn Stage(handle: Handle, children: Children) -> impl IntoView {
    let (base, overlay) = (NodeRef::<Canvas>::new(), NodeRef::<Canvas>::new());
    let stage = NodeRef::<Div>::new();
    let pointers = StoredValue::new_local(Pointers::default());
    let boxing = RwSignal::new(false);

    Effect::new(move |_| {
        if let (Some(base), Some(overlay), Some(stage)) = (base.get(), overlay.get(), stage.get()) {
            attach(handle, base, overlay, &stage);
        }
    });
    listen_to_keys(handle, stage, pointers, boxing);

    let down = move |event: PointerEvent| press(handle, pointers, &event);
    let moved = move |event: PointerEvent| {
        let commands = pointers.try_update_value(|p| p.moved(pointer(&event)));
        perform(handle, commands.unwrap_or_default());
    };
    let up = move |event: PointerEvent| {
        release(handle, pointers, &event);
        boxing.set(pointers.with_value(|p| p.tool() == Tool::Box));
    };
    let cancel = move |_| {
        perform(
            handle,
            pointers.try_update_value(Pointers::cancel).flatten(),
        );
    };
    let leave = move || perform(handle, [Command::Leave]);
    let wheel = move |event: WheelEvent| {
        let command = input::wheel(wheel_of(handle, &event));
        let window = || handle.with(|driver| driver.ask(|model| *model.target()));
        let before = window();
        perform(handle, [command]);
        // Where everything is shown already, the wheel belongs to the page.
        let pinched = event.ctrl_key() || event.meta_key();
        if pinched || !command.zooms_out() || window() != before {
            event.prevent_default();
        }
    };
    let double = move |event: MouseEvent| show_what_is_there(handle, &event);
    view! {
        <div
            class="timeline-stage"
            class:boxing=move || boxing.get()
            node_ref=stage
            tabindex="0"
            role="application"
            aria-label="Timeline"
            aria-describedby="timeline-summary timeline-window timeline-keys"
            on:blur=move |_| leave()
        >
            <canvas class="timeline-canvas" node_ref=base aria-hidden="true"></canvas>
            <canvas
                class="timeline-canvas timeline-overlay"
                node_ref=overlay
                aria-hidden="true"
                on:pointerdown=down
                on:pointermove=moved
                on:pointerup=up
                on:pointercancel=cancel
                on:pointerleave=move |_| leave()
                on:wheel=wheel
                on:dblclick=double
            ></canvas>
            {children()}
        </div>
    }
}

/// Connects the canvases, and changes around them, to the loop.
fn attach(
    handle: Handle,
    base: HtmlCanvasElement,
    overlay: HtmlCanvasElement,
    stage: &HtmlDivElement,
) {
    if let (Some(base), Some(overlay)) = (Surface::new(base), Surface::new(overlay)) {
        handle.with(|driver| driver.attach(base, overlay));
    }
    observe::size(stage, move |width, height| {
        handle.with(|driver| driver.resize(width, height));
    });
    observe::theme(move || {
        handle.with(|driver| driver.repaint());
    });
}

/// The state of the pointers on the picture.
type StoredPointers = StoredValue<Pointers, LocalStorage>;

fn press(handle: Handle, pointers: StoredPointers, event: &PointerEvent) {
    if event.button() != 0 {
        return;
    }
    hold(event);
    let command = pointers.try_update_value(|p| p.down(pointer(event)));
    perform(handle, command.flatten());
}

fn release(handle: Handle, pointers: StoredPointers, event: &PointerEvent) {
    let command = pointers.try_update_value(|p| p.up(pointer(event)));
    perform(handle, command.flatten());
    if event.pointer_type() == "touch" {
        perform(handle, [Command::Leave]);
    }
}

/// Keeps a drag going when the pointer leaves the canvas. A pointer that no longer exists may
/// refuse.
fn hold(event: &PointerEvent) {
    let target = event.target().and_then(|t| t.dyn_into::<Element>().ok());
    if let Some(target) = target {
        let _ = target.set_pointer_capture(event.pointer_id());
    }
}

fn perform(handle: Handle, commands: impl IntoIterator<Item = Command>) {
    handle.with(|driver| {
        commands
            .into_iter()
            .for_each(|command| driver.command(command))
    });
}

fn pointer(event: &PointerEvent) -> Pointer {
    Pointer {
        id: event.pointer_id(),
        x: f64::from(event.offset_x()),
        y: f64::from(event.offset_y()),
        shift: event.shift_key(),
    }
}

fn wheel_of(handle: Handle, event: &WheelEvent) -> Wheel {
    let turn = turn_of(event);
    let left_of_plot =
        handle.with(|driver| driver.ask(|model| model.fractions(turn.x, turn.y).0 < 0.0));
    Wheel {
        on_levels: left_of_plot.unwrap_or(false),
        ..turn
    }
}

/// A turn of the wheel over a plot.
pub fn turn_of(event: &WheelEvent) -> Wheel {
    Wheel {
        x: f64::from(event.offset_x()),
        y: f64::from(event.offset_y()),
        dx: event.delta_x(),
        dy: event.delta_y(),
        in_lines: event.delta_mode() != WheelEvent::DOM_DELTA_PIXEL,
        shift: event.shift_key(),
        alt: event.alt_key(),
        ctrl: event.ctrl_key() || event.meta_key(),
        on_levels: false,
    }
}

/// A double click shows the allocation, annotation or step under the pointer.
fn show_what_is_there(handle: Handle, event: &MouseEvent) {
    let (x, y) = (f64::from(event.offset_x()), f64::from(event.offset_y()));
    handle.with(|driver| {
        let hit = driver.ask(|model| model.hit(x, y));
        let Some(hit) = hit else { return };
        let in_plot = driver.ask(|model| model.fractions(x, y).1 <= 1.0);
        let scope = match (&hit.annotation, &hit.step) {
            (Some(annotation), _) => Some(annotation.events),
            (None, Some(step)) if !in_plot => Some(step.events),
            _ => None,
        };
        match scope {
            Some(events) => {
                let (from, to) = (f64::from(events.start().0), f64::from(events.end().0));
                driver.act(Action::Events { from, to }, Motion::Eased);
            }
            None if in_plot => {
                driver.command(Command::Click(x, y));
                driver.show_selection();
            }
            None => {}
        }
    });
}

fn listen_to_keys(
    handle: Handle,
    stage: NodeRef<Div>,
    pointers: StoredPointers,
    boxing: RwSignal<bool>,
) {
    keys::on_key(move |event| {
        if !keys::is_shortcut(event) {
            return;
        }
        let Some(command) = input::key(&event.key(), focus(stage, event)) else {
            return;
        };
        if !matches!(command, KeyCommand::Escape) {
            event.prevent_default();
        }
        match command {
            KeyCommand::Box => {
                pointers.update_value(|p| p.set_tool(Tool::Box));
                boxing.set(true);
            }
            KeyCommand::Escape => {
                boxing.set(false);
                let drawing = pointers.with_value(|p| p.tool() == Tool::Box || p.is_busy());
                perform(
                    handle,
                    pointers.try_update_value(Pointers::cancel).flatten(),
                );
                perform(handle, [Command::Leave]);
                if !drawing {
                    handle.select(None);
                }
            }
            command => obey(handle, command, event.repeat()),
        }
    });
    let up = window_event_listener(ev::keyup, move |event| {
        if let Some(KeyCommand::Glide(glide)) = input::key(&event.key(), Focus::Elsewhere) {
            handle.with(|driver| driver.glide(glide, false));
        }
    });
    let blur = window_event_listener(ev::blur, move |_| {
        handle.with(|driver| driver.end_glides());
    });
    on_cleanup(move || {
        up.remove();
        blur.remove();
    });
}

/// The timeline has the focus if the focus is on the stage, or nowhere. So a link that was just
/// opened can be explored at once.
fn focus(stage: NodeRef<Div>, event: &KeyboardEvent) -> Focus {
    let target = event.target().and_then(|t| t.dyn_into::<Node>().ok());
    let inside = stage
        .get_untracked()
        .is_some_and(|stage| stage.contains(target.as_ref()));
    // The panel itself has it after something was selected there.
    let places = ["BODY", "MAIN", "ASIDE"];
    let nowhere = target.is_some_and(|t| places.contains(&t.node_name().as_str()));
    if inside || nowhere {
        Focus::Timeline
    } else {
        Focus::Elsewhere
    }
}

/// How far an arrow key goes on the lines, as a share of the plot.
const NEAR: f64 = 1.0 / 200.0;

fn obey(handle: Handle, command: KeyCommand, repeated: bool) {
    handle.with(|driver| match command {
        KeyCommand::Glide(glide) if !repeated => start_gliding(driver, glide),
        KeyCommand::Glide(_) | KeyCommand::Box | KeyCommand::Escape => {}
        KeyCommand::Act(action) => driver.act(action, Motion::Eased),
        KeyCommand::Fit => driver.fit(),
        KeyCommand::FitLevels => driver.fit_levels(),
        KeyCommand::ShowSelection => driver.show_selection(),
        KeyCommand::Step(towards) if driver.shows_lines() => match towards {
            Neighbour::Earlier => driver.move_cursor(-NEAR),
            Neighbour::Later => driver.move_cursor(NEAR),
            Neighbour::Above | Neighbour::Below => {}
        },
        KeyCommand::Step(towards) => {
            if let Some(block) = driver.ask(|model| model.neighbour(towards)) {
                driver.select(Some(Selection::Block(block)));
            }
        }
    });
}

/// A short press makes a small move; holding the key continues it.
fn start_gliding(driver: &super::drive::Driver, glide: Glide) {
    const TAP_MS: f64 = 60.0;
    driver.act(glide.action(0.5, TAP_MS), Motion::Direct);
    driver.glide(glide, true);
}

/// The text about the minimap.
const MINIMAP_HINT: &str =
    "Drag the window or its ends; drag beside it to draw a new one; double click for everything";

/// The strip with the whole trace.
#[component]
pub fn MinimapStrip(handle: Handle) -> impl IntoView {
    let canvas = NodeRef::<Canvas>::new();
    let strip = NodeRef::<Div>::new();
    let grip = RwSignal::new(None::<(Grip, f64)>);
    Effect::new(move |_| {
        let (Some(canvas), Some(strip)) = (canvas.get(), strip.get()) else {
            return;
        };
        if let Some(surface) = Surface::new(canvas) {
            handle.with(|driver| driver.attach_minimap(surface));
        }
        observe::size(&strip, move |width, height| {
            handle.with(|driver| driver.resize_minimap(width, height));
        });
    });
    let width = move || {
        strip
            .get_untracked()
            .map_or(1.0, |s| f64::from(s.client_width()))
    };
    let down = move |event: PointerEvent| {
        hold(&event);
        let x = f64::from(event.offset_x());
        let held = on_strip(handle, width(), |strip, view| strip.grip(view, x));
        grip.set(held.map(|held| (held, x)));
    };
    let moved = move |event: PointerEvent| {
        let Some((held, _)) = grip.get_untracked() else {
            return;
        };
        let x = f64::from(event.offset_x());
        let action = on_strip(handle, width(), |strip, view| strip.dragged(held, view, x));
        if let Some(action) = action.flatten() {
            handle.with(|driver| driver.act(action, Motion::Direct));
        }
    };
    let up = move |event: PointerEvent| {
        let x = f64::from(event.offset_x());
        let held = grip.get_untracked();
        grip.set(None);
        // A click beside the window moves the window there.
        if let Some((Grip::New { .. }, from)) = held
            && (x - from).abs() < 3.0
        {
            let action = on_strip(handle, width(), |strip, view| strip.clicked(view, x));
            if let Some(action) = action {
                handle.with(|driver| driver.act(action, Motion::Eased));
            }
        }
    };
    let cancel = move |_| grip.set(None);
    let fit = move |_| {
        handle.with(|driver| driver.act(Action::Fit, Motion::Eased));
    };
    view! {
        <div class="timeline-minimap" node_ref=strip title=MINIMAP_HINT>
            <canvas
                node_ref=canvas
                aria-hidden="true"
                on:pointerdown=down
                on:pointermove=moved
                on:pointerup=up
                on:pointercancel=cancel
                on:dblclick=fit
            ></canvas>
        </div>
    }
}

fn on_strip<T>(
    handle: Handle,
    width: f64,
    ask: impl FnOnce(Strip<'_>, &::timeline::viewport::Viewport) -> T,
) -> Option<T> {
    handle.with(|driver| {
        driver.ask(|model| {
            let strip = Strip {
                width,
                n_events: f64::from(model.n_events()),
                axis: model.axis(),
            };
            ask(strip, model.target())
        })
    })
}
