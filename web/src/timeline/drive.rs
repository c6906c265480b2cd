//! The frame loop: draws when something changed, fetches missing tiles, and reports what is under
//! the pointer. Otherwise it sleeps.

use super::canvas::{self, Surface};
use super::frames;
use crate::client;
use crate::url_state::UrlState;
use ::timeline::colours::Rgba;
use ::timeline::minimap::{self, Minimap};
use ::timeline::model::{Extents, Model, Motion, TileRequest};
use ::timeline::readout::{self, Readout};
use ::timeline::viewport::Action;
use api::ids::RunId;
use api::problem::Problem;
use api::routes;
use api::view_state::{Picture, Selection, ViewState};
use leptos::leptos_dom::helpers::{TimeoutHandle, set_timeout_with_handle};
use leptos::prelude::*;
use leptos::task::spawn_local;
use presentation::response;
use presentation::timeline::input::{Command, FLAT_BOX, Glide};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use trace::device::DeviceIdx;
use trace::tiles::{MountainTile, SeriesTile};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;

/// What could not be fetched is asked for again after this time.
pub const AGAIN: Duration = Duration::from_millis(3200);

/// The place in the plot that is still in its last column.
const LAST_COLUMN: f64 = 0.9995;

/// What must be painted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Dirt {
    #[default]
    Nothing,
    Overlay,
    Everything,
}

/// The run and device whose tiles are fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The run.
    pub run: RunId,
    /// CUDA ordinal of the device.
    pub device: DeviceIdx,
    /// The key of the loop whose iterations are the steps; `None` for the one that Tidemark finds.
    pub steps: Option<String>,
}

impl Source {
    /// A path for a question about this device, with the chosen steps.
    pub fn asks(&self, path: String) -> String {
        routes::with_steps(path, self.steps.as_deref())
    }
}

/// What the loop reports to the components.
#[derive(Clone, Copy)]
pub struct Outputs {
    /// What is under the pointer.
    pub readout: RwSignal<Option<Readout>>,
    /// Whether keys moved there, and no pointer.
    pub by_keys: RwSignal<bool>,
    /// The four series at the pointer, for the legend.
    pub extents: RwSignal<Option<Extents>>,
    /// Whether anything on screen will become finer when tiles arrive.
    pub waiting: RwSignal<bool>,
    /// Whether there is a picture at all.
    pub drawn: RwSignal<bool>,
    /// The problem of the last tile that could not be fetched.
    pub problem: RwSignal<Option<Problem>>,
    /// Raised when tiles arrive or the window settles: facts about groups may have changed.
    pub settled: RwSignal<u32>,
}

impl Outputs {
    /// Nothing known yet.
    pub fn new() -> Outputs {
        Outputs {
            readout: RwSignal::new(None),
            by_keys: RwSignal::new(false),
            extents: RwSignal::new(None),
            waiting: RwSignal::new(true),
            drawn: RwSignal::new(false),
            problem: RwSignal::new(None),
            settled: RwSignal::new(0),
        }
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Outputs::new()
    }
}

/// The canvases.
struct Surfaces {
    base: Surface,
    overlay: Surface,
}

struct Inner {
    model: RefCell<Model>,
    surfaces: RefCell<Option<Surfaces>>,
    minimap: RefCell<Option<Surface>>,
    /// CSS size of the minimap.
    minimap_size: Cell<(f64, f64)>,
    size: Cell<(f64, f64)>,
    source: Source,
    view: UrlState<ViewState>,
    outputs: Outputs,
    dirt: Cell<Dirt>,
    scheduled: Cell<bool>,
    alive: Cell<bool>,
    last_frame_ms: Cell<Option<f64>>,
    pointer: Cell<Option<(f64, f64)>>,
    settle_timer: Cell<Option<TimeoutHandle>>,
    glides: RefCell<Vec<Glide>>,
}

/// The loop of one timeline.
#[derive(Clone)]
pub struct Driver(Rc<Inner>);

impl Driver {
    /// A loop without canvases.
    pub fn new(
        source: Source,
        model: Model,
        view: UrlState<ViewState>,
        outputs: Outputs,
    ) -> Driver {
        Driver(Rc::new(Inner {
            model: RefCell::new(model),
            surfaces: RefCell::new(None),
            minimap: RefCell::new(None),
            minimap_size: Cell::new((0.0, 0.0)),
            size: Cell::new((0.0, 0.0)),
            source,
            view,
            outputs,
            dirt: Cell::new(Dirt::Nothing),
            scheduled: Cell::new(false),
            alive: Cell::new(true),
            last_frame_ms: Cell::new(None),
            pointer: Cell::new(None),
            settle_timer: Cell::new(None),
            glides: RefCell::new(Vec::new()),
        }))
    }

    /// Asks for what the first picture needs, before there is anything to draw on.
    pub fn begin(&self) {
        self.fetch(now_ms());
    }

    /// Gives it canvases.
    pub fn attach(&self, base: Surface, overlay: Surface) {
        *self.0.surfaces.borrow_mut() = Some(Surfaces { base, overlay });
        self.set_palette();
    }

    /// Gives it the canvas of the minimap.
    pub fn attach_minimap(&self, minimap: Surface) {
        *self.0.minimap.borrow_mut() = Some(minimap);
        self.wake(Dirt::Everything);
    }

    /// Ends it; tiles that arrive later are dropped.
    pub fn stop(&self) {
        self.0.alive.set(false);
        *self.0.surfaces.borrow_mut() = None;
        *self.0.minimap.borrow_mut() = None;
    }

    /// Reads the theme's colours.
    pub fn set_palette(&self) {
        self.change(|model| model.set_palette(canvas::palette()));
    }

    /// Paints with the theme's colours at once: paper is printed before there is a next frame.
    pub fn repaint(&self) {
        self.set_palette();
        self.frame();
    }

    /// The canvas has this many CSS pixels.
    pub fn resize(&self, width: f64, height: f64) {
        self.0.size.set((width, height));
        self.wake(Dirt::Everything);
    }

    /// The minimap has this many CSS pixels.
    pub fn resize_minimap(&self, width: f64, height: f64) {
        self.0.minimap_size.set((width, height));
        self.wake(Dirt::Everything);
    }

    /// Changes the model and draws it.
    pub fn change(&self, change: impl FnOnce(&mut Model)) {
        change(&mut self.0.model.borrow_mut());
        self.wake(Dirt::Everything);
    }

    /// Changes only what the overlay shows.
    pub fn change_overlay(&self, change: impl FnOnce(&mut Model)) {
        change(&mut self.0.model.borrow_mut());
        self.wake(Dirt::Overlay);
    }

    /// Whose tiles are fetched.
    pub fn source(&self) -> &Source {
        &self.0.source
    }

    /// Asks the model.
    pub fn ask<T>(&self, ask: impl FnOnce(&Model) -> T) -> T {
        ask(&self.0.model.borrow())
    }

    /// Does a person's action, and updates the address.
    pub fn act(&self, action: Action, motion: Motion) {
        let motion = if reduced_motion() {
            Motion::Direct
        } else {
            motion
        };
        self.change(|model| model.act(action, motion));
        self.write_view();
    }

    /// Selects something, and updates the address.
    pub fn select(&self, selection: Option<Selection>) {
        self.change(|model| model.select(selection));
        self.write_view();
    }

    /// Shows the selection. If it is shown already, or nothing is selected, shows everything.
    pub fn fit(&self) {
        let before = self.ask(|model| *model.target());
        self.show_selection();
        if self.ask(|model| *model.target()) == before {
            self.act(Action::Fit, Motion::Eased);
        }
    }

    /// Shows the selected allocation: its life and its band.
    pub fn show_selection(&self) {
        self.change(|model| {
            model.frame_selection();
        });
        self.write_view();
    }

    /// Zooms vertically to the levels that change.
    pub fn fit_levels(&self) {
        self.change(Model::frame_activity);
        self.write_view();
    }

    /// Reacts to a key that moves the picture while it is held.
    pub fn glide(&self, glide: Glide, held: bool) {
        let mut glides = self.0.glides.borrow_mut();
        glides.retain(|g| *g != glide);
        if held {
            glides.push(glide);
            drop(glides);
            self.wake(Dirt::Everything);
        }
    }

    /// No key is held any more, for example because the window lost the focus.
    pub fn end_glides(&self) {
        self.0.glides.borrow_mut().clear();
    }

    /// Does a command from the pointer or the wheel.
    pub fn command(&self, command: Command) {
        match command {
            Command::Hover(x, y) => self.hover(Some((x, y))),
            Command::Leave => self.hover(None),
            Command::Drag(dx, dy) => {
                let (width, height) = self.0.size.get();
                let (x0, y0) = self.ask(|model| model.fractions(0.0, 0.0));
                let (x1, y1) = self.ask(|model| model.fractions(width, height));
                let dx = -dx * (x1 - x0) / width.max(1.0);
                let dy = dy * (y0 - y1) / height.max(1.0);
                self.act(Action::Pan { dx, dy }, Motion::Direct);
            }
            Command::ZoomX(x, factor) => {
                let at = self.ask(|model| model.fractions(x, 0.0)).0.clamp(0.0, 1.0);
                self.act(Action::ZoomX { x: at, factor }, Motion::Direct);
            }
            Command::ZoomY(y, factor) => {
                let at = self.ask(|model| model.fractions(0.0, y)).1.clamp(0.0, 1.0);
                self.act(Action::ZoomY { y: at, factor }, Motion::Direct);
            }
            Command::Rubber(a, b) => self.change_overlay(|model| {
                let flat = (a.1 - b.1).abs() < FLAT_BOX;
                let rubber = if flat {
                    ((a.0, 0.0), (b.0, 1e6))
                } else {
                    (a, b)
                };
                model.set_rubber(Some(rubber));
            }),
            Command::NoRubber => self.change_overlay(|model| model.set_rubber(None)),
            Command::Box(a, b) => self.zoom_to_box(a, b),
            Command::Click(x, y) => {
                self.change(|model| model.click(x, y));
                self.write_view();
            }
        }
    }

    fn zoom_to_box(&self, a: (f64, f64), b: (f64, f64)) {
        self.change_overlay(|model| model.set_rubber(None));
        let (start, end) = self.ask(|m| (m.fractions(a.0, a.1), m.fractions(b.0, b.1)));
        if (a.1 - b.1).abs() >= FLAT_BOX {
            let (x, y) = ((start.0, end.0), (start.1, end.1));
            return self.act(Action::Box { x, y }, Motion::Eased);
        }
        let (from, to) = self.ask(|model| {
            let event = |x: f64| model.target().event_at(x.clamp(0.0, 1.0), model.axis());
            (event(start.0.min(end.0)), event(start.0.max(end.0)))
        });
        self.act(Action::Events { from, to }, Motion::Eased);
    }

    /// Whether the picture is the lines alone.
    pub fn shows_lines(&self) -> bool {
        let state = self.0.view.state();
        state.with_untracked(|state| state.picture == Picture::Lines)
    }

    /// Moves the place whose values are shown by a share of the plot, as a pointer would. Without
    /// one, it begins in the middle.
    pub fn move_cursor(&self, by: f64) {
        let (width, height) = self.0.size.get();
        let plot = |x: f64| self.ask(|model| model.fractions(x, 0.0)).0;
        let (left, right) = (plot(0.0), plot(width));
        let before = self.0.pointer.get().map_or(0.5, |(x, _)| plot(x));
        let at = (before + by).clamp(0.0, LAST_COLUMN);
        let x = (at - left) / (right - left) * width;
        self.hover(Some((x, height / 2.0)));
        update(self.0.outputs.by_keys, true);
    }

    fn hover(&self, at: Option<(f64, f64)>) {
        update(self.0.outputs.by_keys, false);
        self.0.pointer.set(at);
        self.change_overlay(|model| model.set_pointer(at));
    }

    /// Writes the model's window and selection to the view state.
    pub fn write_view(&self) {
        let model = self.0.model.borrow();
        let mut state = self.0.view.state().get_untracked();
        model.write_view(&mut state);
        drop(model);
        self.0.view.set(state);
    }

    fn wake(&self, dirt: Dirt) {
        self.0.dirt.set(self.0.dirt.get().max(dirt));
        if self.0.scheduled.replace(true) {
            return;
        }
        let driver = self.clone();
        request_animation_frame(move || driver.frame());
    }

    fn frame(&self) {
        let inner = &self.0;
        inner.scheduled.set(false);
        if !inner.alive.get() {
            return;
        }
        let now = now_ms();
        let elapsed = inner
            .last_frame_ms
            .get()
            .map_or(16.0, |last| (now - last).min(50.0));
        let gliding = self.apply_glides(elapsed);
        let moving = inner.model.borrow_mut().advance(elapsed);
        let dirt = inner.dirt.replace(Dirt::Nothing);
        if dirt > Dirt::Nothing {
            self.paint(dirt);
        }
        self.fetch(now);
        self.report(dirt == Dirt::Everything && !moving);
        frames::record(now, now_ms() - now);
        inner.last_frame_ms.set((moving || gliding).then_some(now));
        if moving || gliding {
            self.wake(Dirt::Everything);
        }
    }

    fn apply_glides(&self, elapsed_ms: f64) -> bool {
        let glides = self.0.glides.borrow().clone();
        if glides.is_empty() {
            return false;
        }
        let mut model = self.0.model.borrow_mut();
        let pointer = self.0.pointer.get();
        let at = pointer.map_or(0.5, |(x, y)| model.fractions(x, y).0.clamp(0.0, 1.0));
        for glide in glides {
            model.act(glide.action(at, elapsed_ms), Motion::Direct);
        }
        drop(model);
        self.write_view();
        self.0.dirt.set(Dirt::Everything);
        true
    }

    fn paint(&self, dirt: Dirt) {
        let mut surfaces = self.0.surfaces.borrow_mut();
        let Some(surfaces) = surfaces.as_mut() else {
            return;
        };
        let mut model = self.0.model.borrow_mut();
        let (width, height) = self.0.size.get();
        // Without a tile the page shows a skeleton. To paint axes below it would delay the tile.
        if width < 1.0 || height < 1.0 || model.is_blank() {
            return;
        }
        let scale = canvas::pixel_ratio();
        let clear = Rgba(0, 0, 0, 0);
        let mut painted = Ok(());
        if dirt == Dirt::Everything {
            model.resize(width, height, scale);
            let scene = model.base_scene();
            painted = surfaces.base.paint(&scene, model.palette().surface);
            painted = painted.and(self.paint_minimap(&model, scale));
        }
        painted = painted.and(surfaces.overlay.paint(&model.overlay_scene(), clear));
        if let Err(error) = painted {
            leptos::logging::error!("the timeline cannot be painted: {error:?}");
        }
    }

    fn paint_minimap(&self, model: &Model, scale: f64) -> Result<(), JsValue> {
        let mut minimap = self.0.minimap.borrow_mut();
        let Some(minimap) = minimap.as_mut() else {
            return Ok(());
        };
        let (width, height) = self.0.minimap_size.get();
        let map = Minimap {
            tile: model.whole().map(Rc::as_ref),
            n_events: f64::from(model.n_events()),
            high: model.high(),
            axis: model.axis(),
            viewport: model.drawn(),
            palette: model.palette(),
        };
        let size = |css: f64| ((css * scale) as i32).max(1);
        let scene = minimap::scene(map, size(width), size(height), scale);
        minimap.paint(&scene, Rgba(0, 0, 0, 0))
    }

    fn report(&self, settled: bool) {
        let outputs = self.0.outputs;
        let model = self.0.model.borrow();
        let pointer = self.0.pointer.get();
        let readout = pointer.and_then(|(x, y)| readout::at(&model, x, y));
        let extents = pointer
            .and_then(|(x, _)| model.extents(x))
            .map(|(extents, _)| extents);
        let (waiting, drawn) = (model.is_waiting(), model.has_picture());
        drop(model);
        update(outputs.readout, readout);
        update(outputs.extents, extents);
        update(outputs.waiting, waiting);
        if drawn && !outputs.drawn.try_get_untracked().unwrap_or(true) {
            mark_first_picture();
        }
        update(outputs.drawn, drawn);
        if settled {
            self.settle_soon();
        }
    }

    /// Reports once, when nothing has been painted for a moment. Parts that depend on it (lists
    /// beside the picture, words for screen readers) must not cost time in every frame.
    fn settle_soon(&self) {
        const CALM: Duration = Duration::from_millis(140);
        let settled = self.0.outputs.settled;
        let timer = set_timeout_with_handle(
            move || {
                let _ = settled.try_update(|n| *n = n.wrapping_add(1));
            },
            CALM,
        );
        if let Some(before) = self.0.settle_timer.replace(timer.ok()) {
            before.clear();
        }
    }

    fn fetch(&self, now: f64) {
        for request in self.0.model.borrow_mut().take_requests(now) {
            let driver = self.clone();
            spawn_local(async move { driver.fetch_tile(request).await });
        }
    }

    async fn fetch_tile(&self, request: TileRequest) {
        let Source { run, device, .. } = &self.0.source;
        let path = match request {
            TileRequest::Series(id) => routes::series_tile(run, *device, id),
            TileRequest::Mountain(group, id) => routes::mountain_tile(run, *device, group, id),
        };
        let answer = client::get_bytes(&path).await;
        // Decoding and layout take some milliseconds, so they get an event-loop turn that no other
        // answer shares.
        next_turn().await;
        if !self.0.alive.get() {
            return;
        }
        match answer.and_then(|bytes| self.arrived(request, &bytes)) {
            Ok(()) => update(self.0.outputs.problem, None),
            Err(problem) => {
                self.0.model.borrow_mut().tile_failed(request, now_ms());
                update(self.0.outputs.problem, Some(problem));
                self.retry_later();
            }
        }
        self.wake(Dirt::Everything);
        // The first picture does not wait for the browser's next frame.
        if !self.0.model.borrow().has_picture() {
            self.frame();
        }
    }

    fn arrived(&self, request: TileRequest, bytes: &[u8]) -> Result<(), Problem> {
        let mut model = self.0.model.borrow_mut();
        match request {
            TileRequest::Series(_) => SeriesTile::decode(bytes).map(|t| model.series_arrived(t)),
            TileRequest::Mountain(..) => {
                MountainTile::decode(bytes).map(|t| model.mountain_arrived(t))
            }
        }
        .map_err(|error| response::not_understood(&error))
    }

    fn retry_later(&self) {
        let driver = self.clone();
        set_timeout(move || driver.wake(Dirt::Everything), AGAIN);
    }
}

/// Sets a signal if the value is different; signals of a page that was left are ignored.
fn update<T: PartialEq + Send + Sync + 'static>(signal: RwSignal<T>, value: T) {
    if signal.try_with_untracked(|old| *old != value) == Some(true) {
        signal.set(value);
    }
}

fn now_ms() -> f64 {
    window().performance().map_or(0.0, |p| p.now())
}

/// Notes the moment among the browser's own measurements of the page, for `./bench` and for people
/// who look there.
fn mark_first_picture() {
    if let Some(performance) = window().performance() {
        // A browser that keeps no marks draws all the same.
        let _ = performance.mark("first-picture");
    }
}

/// Whether the person asked the system for less movement.
pub fn reduced_motion() -> bool {
    let query = window().match_media("(prefers-reduced-motion: reduce)");
    query.ok().flatten().is_some_and(|query| query.matches())
}

/// Waits for the next turn of the event loop.
async fn next_turn() {
    let promise = js_sys::Promise::new(&mut |resolve, _| {
        let _ = window().set_timeout_with_callback(&resolve);
    });
    // The promise is never rejected.
    let _ = JsFuture::from(promise).await;
}
