//! All runs over one axis, and below it the difference of two: canvas, pointer, keys, values.

use super::Focus;
use super::curves::CurvesSource;
use crate::components::keys::is_shortcut;
use crate::components::problem_note::ProblemNote;
use crate::format;
use crate::timeline::picture::{UNMEASURED, paint_when_changed};
use crate::timeline::stage::turn_of;
use ::timeline::colours::Palette;
use ::timeline::overlay::{self, Canvas, Detail, Overlay, Places, Readout};
use api::compare::Curves;
use api::routes;
use api::view_state::ViewState;
use leptos::html;
use leptos::prelude::*;
use presentation::pages::compare::cards::change;
use presentation::pages::compare::picture::{aligned, exact_difference, shifted};
use presentation::timeline::input::{self, Command};
use trace::compare::curves::Align;
use trace::compare::words::signed;
use trace::trace::Series;
use wasm_bindgen::JsCast;
use web_sys::{Element, KeyboardEvent, PointerEvent, WheelEvent};

/// A drag shorter than this is a click, CSS pixels.
const CLICK: f64 = 5.0;

/// How many events are shown around a moment when a link opens it in a run.
const AROUND: f64 = 400.0;

/// What the picture shows and where the pointer is. `Copy`.
#[derive(Clone, Copy)]
struct Stage {
    focus: Focus,
    source: CurvesSource,
    size: RwSignal<Canvas>,
    /// The place on the axis whose exact values are shown.
    cursor: RwSignal<Option<f64>>,
    /// A drag: where it began and where it is now, CSS pixels.
    drag: RwSignal<Option<(f64, f64)>>,
}

/// The visible part of the axis.
#[derive(Clone, Copy)]
struct Frame {
    whole: (f64, f64),
    window: (f64, f64),
    align: Align,
}

impl Stage {
    fn places(self) -> Places {
        Places::of(self.size.get_untracked(), Detail::Full)
    }

    /// The visible window; `None` before there are curves.
    fn window(self, curves: &Curves) -> (f64, f64) {
        let wanted = self.focus.view.state().with(|state| state.window);
        wanted.unwrap_or(curves.whole)
    }

    /// Draws or asks with the current curves.
    fn with<T>(self, f: impl FnOnce(&Overlay<'_>) -> T) -> Option<T> {
        let curves = self.source.shown.curves.get()?;
        let runs: Vec<usize> = (0..curves.runs.len()).collect();
        let overlay = Overlay {
            curves: &curves,
            window: self.window(&curves),
            align: self.focus.view.state().with(|state| state.align),
            runs: &runs,
            against: self.focus.against.get(),
            band: None,
            filled: true,
            detail: Detail::Full,
            high: None,
        };
        Some(f(&overlay))
    }

    /// Shows another part of the axis; `None` for all of it.
    fn show(self, window: Option<(f64, f64)>) {
        self.focus.view.update(|state| state.window = window);
    }

    /// The visible part, without tracking.
    fn frame(self) -> Option<Frame> {
        let whole = self.source.shown.curves.get_untracked()?.whole;
        let state = self.focus.view.state().get_untracked();
        Some(Frame {
            whole,
            window: state.window.unwrap_or(whole),
            align: state.align,
        })
    }

    fn zoom(self, at: Option<f64>, factor: f64) {
        if let Some(Frame {
            whole,
            window,
            align,
        }) = self.frame()
        {
            let at = at.unwrap_or((window.0 + window.1) / 2.0);
            self.show(overlay::zoomed(window, whole, at, factor, align));
        }
    }

    fn pan(self, by: f64) {
        if let Some(Frame { whole, window, .. }) = self.frame() {
            self.show(overlay::panned(window, whole, by));
        }
    }

    fn axis_at(self, css_x: f64) -> Option<f64> {
        let Frame { window, .. } = self.frame()?;
        Some(self.places().axis_at(window, css_x))
    }

    /// Moves the cursor by a share of the window.
    fn move_cursor(self, by: f64) {
        let Some(Frame { window, .. }) = self.frame() else {
            return;
        };
        let at = self
            .cursor
            .get_untracked()
            .unwrap_or((window.0 + window.1) / 2.0);
        let at = (at + by * (window.1 - window.0)).clamp(window.0, window.1);
        self.cursor.set(Some(at));
    }
}

/// The picture with its controls.
#[component]
pub fn Picture(focus: Focus, source: CurvesSource) -> impl IntoView {
    let stage = Stage {
        focus,
        source,
        size: RwSignal::new(UNMEASURED),
        cursor: RwSignal::new(None),
        drag: RwSignal::new(None),
    };
    let retry = Callback::new(move |()| source.retry());
    let problem = move || {
        let problem = source.problem()?;
        Some(view! { <ProblemNote problem=problem retry=retry/> })
    };
    let shifted = move || {
        let by_steps = focus.view.state().with(|state| state.align == Align::Step);
        let curves = source.whole.curves.get().filter(|_| by_steps)?;
        let notes = shifted(&curves, |run| focus.name(run)).into_iter();
        let note = |text| view! { <p class="muted overlay-shift">{text}</p> };
        Some(notes.map(note).collect_view())
    };
    view! {
        <section class="overlay" aria-label="Memory over time, all runs">
            <Controls stage=stage/>
            {shifted}
            <Plot stage=stage/>
            <Values stage=stage/>
            {problem}
        </section>
    }
}

#[component]
fn Controls(stage: Stage) -> impl IntoView {
    let view = stage.focus.view;
    let state = view.state();
    let align = Align::ALL.map(|align| {
        let name = match align {
            Align::Step => "Steps",
            Align::Event => "Events",
            Align::Time => "Time",
        };
        let pressed = move || state.with(|state| state.align == align);
        let choose = move |_| {
            stage.cursor.set(None);
            view.update(|state| *state = aligned(state, align));
        };
        view! {
            <button
                class="segment"
                class:pressed=pressed
                aria-pressed=move || pressed().to_string()
                on:click=choose
            >
                {name}
            </button>
        }
    });
    let series = Series::ALL.map(|series| {
        let selected = move || state.with(|state| state.series == series);
        view! { <option value=series.name() prop:selected=selected>{series.name()}</option> }
    });
    let choose_series = move |event: web_sys::Event| {
        let name = event_target_value(&event);
        if let Some(series) = Series::ALL.into_iter().find(|series| series.name() == name) {
            view.update(|state| state.series = series);
        }
    };
    view! {
        <div class="controls" role="toolbar" aria-label="Picture">
            <div class="control segmented" role="group" aria-label="Aligned by">{align}</div>
            <label class="control">
                "Series"
                <select class="input" on:change=choose_series>{series}</select>
            </label>
            <div class="control zoom-buttons">
                <button class="button" aria-label="Zoom out" title="Zoom out (−)"
                    on:click=move |_| stage.zoom(None, 0.5)>"−"</button>
                <button class="button" aria-label="Zoom in" title="Zoom in (+)"
                    on:click=move |_| stage.zoom(None, 2.0)>"+"</button>
                <button class="button" title="Show everything (F)"
                    on:click=move |_| stage.show(None)>"Fit all"</button>
            </div>
        </div>
    }
}

#[component]
fn Plot(stage: Stage) -> impl IntoView {
    let canvas_ref = NodeRef::<html::Canvas>::new();
    let holder = NodeRef::<html::Div>::new();
    ask_for_parts(stage);
    let scene =
        move |size, palette: &Palette| stage.with(|overlay| overlay::scene(overlay, size, palette));
    paint_when_changed((canvas_ref, holder), stage.size, Box::new(scene));
    let down = move |event: PointerEvent| press(stage, &event);
    let moved = move |event: PointerEvent| {
        let x = f64::from(event.offset_x());
        stage
            .drag
            .update(|drag| *drag = drag.map(|(from, _)| (from, x)));
        stage.cursor.set(stage.axis_at(x));
    };
    let up = move |_: PointerEvent| release(stage);
    let wheel = move |event: WheelEvent| roll(stage, &event);
    let keys = move |event: KeyboardEvent| act_on_key(stage, &event);
    let busy = move || stage.source.shown.waiting.get().to_string();
    view! {
        <div
            class="overlay-stage"
            node_ref=holder
            tabindex="0"
            role="application"
            aria-label="Curves of all runs, and the difference below"
            aria-describedby="overlay-summary"
            aria-busy=busy
            title="Drag or Ctrl + wheel to zoom, double click for everything"
            on:keydown=keys
        >
            <canvas
                class="overlay-canvas"
                node_ref=canvas_ref
                aria-hidden="true"
                on:pointerdown=down
                on:pointermove=moved
                on:pointerup=up
                on:pointercancel=move |_| stage.drag.set(None)
                on:wheel=wheel
                on:dblclick=move |_| stage.show(None)
            ></canvas>
            <Cursor stage=stage/>
            <div
                class="skeleton-row overlay-skeleton"
                class:shown=move || stage.source.shown.curves.with(Option::is_none)
            ></div>
        </div>
        <p id="overlay-summary" class="visually-hidden">{move || summary(stage)}</p>
    }
}

/// A drag begins; a finger scrolls the page instead.
fn press(stage: Stage, event: &PointerEvent) {
    if event.button() != 0 || event.pointer_type() == "touch" {
        return;
    }
    let target = event.target().and_then(|t| t.dyn_into::<Element>().ok());
    if let Some(target) = target {
        // A pointer that no longer exists may refuse.
        let _ = target.set_pointer_capture(event.pointer_id());
    }
    let x = f64::from(event.offset_x());
    stage.drag.set(Some((x, x)));
}

/// A drag ends: the dragged range is shown.
fn release(stage: Stage) {
    let drag = stage.drag.get_untracked();
    stage.drag.set(None);
    let Some((from, to)) = drag.filter(|(from, to)| (to - from).abs() > CLICK) else {
        return;
    };
    if let (Some(from), Some(to)) = (stage.axis_at(from.min(to)), stage.axis_at(from.max(to)))
        && from < to
    {
        stage.show(Some((from, to)));
    }
}

/// Zooms or, with shift, pans; without a modifier the page scrolls.
fn roll(stage: Stage, event: &WheelEvent) {
    let turn = turn_of(event);
    if !(turn.ctrl || turn.shift) {
        return;
    }
    event.prevent_default();
    match input::wheel(turn) {
        Command::ZoomX(x, factor) => stage.zoom(stage.axis_at(x), factor),
        Command::Drag(by, _) => {
            let size = stage.size.get_untracked();
            stage.pan(-by * size.scale / size.width);
        }
        _ => {}
    }
}

fn act_on_key(stage: Stage, event: &KeyboardEvent) {
    if !is_shortcut(event) {
        return;
    }
    const NEAR: f64 = 1.0 / 200.0;
    match (event.key().as_str(), event.shift_key()) {
        ("ArrowLeft", false) => stage.move_cursor(-NEAR),
        ("ArrowRight", false) => stage.move_cursor(NEAR),
        ("ArrowLeft", true) => stage.pan(-0.2),
        ("ArrowRight", true) => stage.pan(0.2),
        ("Home", _) => stage.move_cursor(-1.0),
        ("End", _) => stage.move_cursor(1.0),
        ("+" | "=", _) => stage.zoom(stage.cursor.get_untracked(), 2.0),
        ("-", _) => stage.zoom(stage.cursor.get_untracked(), 0.5),
        ("f" | "0", _) => stage.show(None),
        ("Escape", _) => stage.cursor.set(None),
        _ => return,
    }
    event.prevent_default();
}

/// Asks for as many parts as the picture has pixels; nobody could see more.
fn ask_for_parts(stage: Stage) {
    Effect::new(move |_| {
        let size = stage.size.get();
        if size == UNMEASURED {
            return;
        }
        let parts = (size.width as u32).clamp(200, 1600);
        if stage.source.parts.get_untracked() != parts {
            stage.source.parts.set(parts);
        }
    });
}

/// The line under the pointer, and the range that is being dragged.
#[component]
fn Cursor(stage: Stage) -> impl IntoView {
    let x = move || {
        let size = stage.size.get();
        let at = stage.cursor.get()?;
        stage.with(|overlay| {
            let places = Places::of(size, Detail::Full);
            places.x(overlay.window, at) / size.scale
        })
    };
    let left = move || format!("{}px", x().unwrap_or(-9.0));
    let hidden = move || x().is_none();
    let range = move || {
        let (from, to) = stage.drag.get().unwrap_or_default();
        (from.min(to), (to - from).abs())
    };
    view! {
        <div class="overlay-cursor" class:hidden=hidden style:left=left></div>
        <div
            class="overlay-range"
            class:hidden=move || range().1 <= CLICK
            style:left=move || format!("{}px", range().0)
            style:width=move || format!("{}px", range().1)
        ></div>
    }
}

/// The legend, with exact values at the cursor.
#[component]
fn Values(stage: Stage) -> impl IntoView {
    let n = stage.focus.comparison().runs.len();
    let readout = Memo::new(move |_| {
        let at = stage.cursor.get()?;
        stage
            .with(|overlay| overlay::readout(overlay, at))
            .flatten()
    });
    let rows = (0..n).map(|run| view! { <ValueRow stage=stage run=run readout=readout/> });
    let rows = rows.collect_view();
    let place = move || {
        readout.with(|readout| match readout {
            Some(readout) => readout.place.clone(),
            None => "Point at the picture for exact values".to_owned(),
        })
    };
    let difference = move || {
        let delta = readout.with(|readout| readout.as_ref().and_then(|r| r.difference))?;
        let name = stage.focus.name(stage.focus.against.get());
        Some(view! {
            <p title=exact_difference(delta)>
                {format!("{name} holds ")}
                <strong>{change(delta as f64)}</strong>
                " against the baseline here"
            </p>
        })
    };
    view! {
        <div class="values" aria-live="polite">
            <p class="values-place">{place}</p>
            <ul class="values-rows">{rows}</ul>
            {difference}
        </div>
    }
}

#[component]
fn ValueRow(stage: Stage, run: usize, readout: Memo<Option<Readout>>) -> impl IntoView {
    let row = move || {
        readout.with(|readout| {
            let rows = readout.as_ref().map(|readout| readout.rows.clone())?;
            rows.into_iter().find(|row| row.run == run)
        })
    };
    let level = move || match row() {
        None => String::new(),
        Some(row) => match row.levels {
            None => "not running".to_owned(),
            Some((_, max)) => format::bytes(max),
        },
    };
    let exact = move || {
        let levels = row().and_then(|row| row.levels);
        levels.map(|(min, max)| {
            format!(
                "{} at most, {} at least",
                format::exact_bytes(max),
                format::exact_bytes(min)
            )
        })
    };
    let page = move || {
        let event = row()
            .filter(|row| row.levels.is_some())
            .map(|row| row.event);
        run_page(stage.focus, run, event)
    };
    view! {
        <li>
            <span class=format!("run-swatch run-{run}") aria-hidden="true"></span>
            <a class="values-name" href=page title="Open this moment in the run">
                {stage.focus.name(run)}
            </a>
            <span class="values-level" title=exact>{level}</span>
        </li>
    }
}

/// The page of a run, around an event if there is one.
fn run_page(focus: Focus, run: usize, event: Option<u32>) -> Option<String> {
    let id = focus.page_of(run)?;
    let difference = focus.difference()?;
    let device = if run == 0 {
        difference.base.device
    } else {
        difference.new.device
    };
    let window = event.map(|event| {
        let from = (f64::from(event) - AROUND).max(0.0);
        (from, from + 2.0 * AROUND)
    });
    let state = ViewState {
        device: Some(device),
        window,
        ..ViewState::default()
    };
    Some(format!("{}?{state}", routes::run_page(&id)))
}

/// The picture in words.
fn summary(stage: Stage) -> String {
    let Some(difference) = stage.focus.difference() else {
        return String::new();
    };
    let (align, series) = stage
        .focus
        .view
        .state()
        .with(|state| (state.align.name(), state.series));
    let delta = difference.series(series);
    let bounded = difference.bounded_change(series);
    format!(
        "{} of {} runs, aligned by {align}. {} against {}: peak {} to {}, {}. {}. Arrow keys read \
         values, plus and minus zoom, shift with arrows pans.",
        series.name(),
        stage.focus.comparison().runs.len(),
        stage.focus.name(stage.focus.against.get()),
        stage.focus.name(0),
        difference.base.peak(delta.base.peak),
        difference.new.peak(delta.new.peak),
        bounded.unwrap_or_else(|| signed(delta.peak as f64)),
        difference.headline
    )
}
