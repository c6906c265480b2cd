//! Connects a page's state with the query in the address bar. Only this code touches the history.
//!
//! Writing replaces the current entry, so "back" does not undo a zoom. What is like another page
//! (a tab, other runs) gets an entry of its own: [`Query::is_left_for`]. Panning changes the state
//! at every frame, but browsers refuse more than some 200 replacements in ten seconds. So the state
//! changes at once, and the address follows at most every [`WRITE_EVERY`].

use api::view_state::{BadViewState, ViewState};
use leptos::leptos_dom::helpers::{TimeoutHandle, set_timeout_with_handle};
use leptos::prelude::*;
use leptos_router::hooks::use_location;
use presentation::query::{Query, without_project};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Element, HtmlAnchorElement};

/// How often the address is updated at most.
pub const WRITE_EVERY: Duration = Duration::from_millis(200);

thread_local! {
    static STAYS: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The page that is open is built anew and shows the same. The router would give it the query from
/// before our own replacements.
pub fn stays() {
    STAYS.set(window().location().pathname().ok());
}

/// Something that can be read, now or whenever it changes.
pub trait Readable<T>:
    Get<Value = T>
    + GetUntracked<Value = T>
    + With<Value = T>
    + WithUntracked<Value = T>
    + Copy
    + Send
    + Sync
    + 'static
{
}

impl<T: Query> Readable<T> for RwSignal<T> {}

/// The state of a page, connected to its address. `Copy`: pass it to any part that needs it.
pub struct UrlState<T: Query> {
    state: RwSignal<T>,
    notes: RwSignal<Vec<BadViewState>>,
    writer: StoredValue<Writer>,
}

impl<T: Query> Clone for UrlState<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Query> Copy for UrlState<T> {}

impl<T: Query> UrlState<T> {
    /// The state, to be read. It is the signal itself: wrapping it for each page took
    /// 2.3 KB (packed) of code.
    pub fn state(self) -> impl Readable<T> {
        self.state
    }

    /// The parts of the page's first address that were not understood.
    pub fn notes(self) -> RwSignal<Vec<BadViewState>> {
        self.notes
    }

    /// Replaces the state; the address follows. Does nothing once the page was left: an answer may
    /// come later.
    pub fn set(self, state: T) {
        let leaves = |old: &T| (*old != state).then(|| old.is_left_for(&state));
        let Some(leaves) = self.state.try_with_untracked(leaves).flatten() else {
            return;
        };
        let query = state.write();
        self.state.set(state);
        match leaves {
            true => step(self.writer, query),
            false => schedule(self.writer, query),
        }
    }

    /// Changes the state in place; the address follows.
    pub fn update(self, change: impl FnOnce(&mut T)) {
        if let Some(mut state) = self.state.try_get_untracked() {
            change(&mut state);
            self.set(state);
        }
    }
}

/// The state of the run page.
pub fn use_view_state() -> UrlState<ViewState> {
    use_url_state()
}

/// The state of the page that calls it; call once per page.
pub fn use_url_state<T: Query>() -> UrlState<T> {
    let (opened, writer) = opened();
    let (first, first_notes) = T::read(&opened);
    let state = RwSignal::new(first);
    let notes = RwSignal::new(first_notes);
    follow(
        writer,
        Rc::new(move |query| {
            let (read, read_notes) = T::read(query);
            notes.set(read_notes);
            state.set(read);
        }),
    );
    UrlState {
        state,
        notes,
        writer,
    }
}

/// The query with which the page was opened, and what writes to it. What does not depend on the
/// state is outside of the generic function, so that its code exists once.
fn opened() -> (String, StoredValue<Writer>) {
    let location = use_location();
    let path = location.pathname.get_untracked();
    // Reads the router's query, not the browser's: a page is built before the address bar changes.
    let opened = match STAYS.take().as_ref() == Some(&path) {
        true => current_query(),
        false => location
            .search
            .with_untracked(|query| without_project(query)),
    };
    let writer = StoredValue::new(Writer {
        path,
        written: opened.clone(),
        pending: None,
    });
    on_cleanup(move || flush(writer));
    (opened, writer)
}

/// A link to the same page with another query, or back and forward.
fn follow(writer: StoredValue<Writer>, read: Rc<dyn Fn(&str)>) {
    follow_links(writer, Rc::clone(&read));
    follow_steps(writer, Rc::clone(&read));
    let location = use_location();
    Effect::new(move |_| {
        let query = location.search.with(|query| without_project(query));
        let elsewhere = writer.with_value(|w| location.pathname.get_untracked() != w.path);
        if elsewhere || writer.with_value(|w| w.written == query || w.pending.is_some()) {
            return;
        }
        if current_query() != query {
            // The router still has the query from before our own replacements.
            return;
        }
        read(&query);
        writer.update_value(|w| w.written = query);
    });
}

/// Follows a link to the query with which the page was opened. The router knows nothing of our own
/// replacements, so it takes such a link for one that leads nowhere.
fn follow_links(writer: StoredValue<Writer>, read: Rc<dyn Fn(&str)>) {
    // The router listens before this does: what it takes as its own is prevented.
    let clicked = window_event_listener(leptos::ev::click, move |event| {
        let target = event.target().and_then(|t| t.dyn_into::<Element>().ok());
        let link = target.and_then(|t| t.closest("a[href]").ok().flatten());
        let link = link.and_then(|link| link.dyn_into::<HtmlAnchorElement>().ok());
        let Some(link) = link.filter(|link| event.default_prevented() && link.hash().is_empty())
        else {
            return;
        };
        let search = link.search();
        let query = without_project(search.strip_prefix('?').unwrap_or_default());
        let path = link.pathname();
        let is_here = writer.try_with_value(|w| w.path == path && w.newest() != query);
        if is_here == Some(true) {
            writer.update_value(|w| w.say(&query));
            replace(&path, &query);
            read(&query);
        }
    });
    on_cleanup(move || clicked.remove());
}

/// Back and forward between entries that the page made: the router knows nothing of these either.
fn follow_steps(writer: StoredValue<Writer>, read: Rc<dyn Fn(&str)>) {
    let moved = window_event_listener(leptos::ev::popstate, move |_| {
        let query = current_query();
        let path = window().location().pathname().unwrap_or_default();
        let is_here = writer.try_with_value(|w| w.path == path && w.newest() != query);
        if is_here == Some(true) {
            writer.update_value(|w| w.say(&query));
            read(&query);
        }
    });
    on_cleanup(move || moved.remove());
}

/// The address of one page.
struct Writer {
    /// The page's path: a late write must not change the next page.
    path: String,
    /// The query in the address bar.
    written: String,
    /// A query to be written, and its timer.
    pending: Option<(String, Option<TimeoutHandle>)>,
}

impl Writer {
    /// The query of the page's state.
    fn newest(&self) -> &str {
        self.pending
            .as_ref()
            .map_or(&self.written, |(query, _)| query)
    }

    /// The address has this query now, and nothing else is to be written.
    fn say(&mut self, query: &str) {
        if let Some((_, Some(timer))) = self.pending.take() {
            timer.clear();
        }
        query.clone_into(&mut self.written);
    }
}

fn schedule(writer: StoredValue<Writer>, query: String) {
    let waiting = writer.with_value(|w| w.pending.is_some());
    if waiting {
        writer.update_value(|w| {
            if let Some((pending, _)) = &mut w.pending {
                *pending = query;
            }
        });
        return;
    }
    let timer = set_timeout_with_handle(move || flush(writer), WRITE_EVERY).ok();
    writer.update_value(|w| w.pending = Some((query, timer)));
}

/// Writes a query at once, to an entry of its own; the last one keeps what it showed.
fn step(writer: StoredValue<Writer>, query: String) {
    flush(writer);
    writer.update_value(|w| w.say(&query));
    if let Ok(history) = window().history() {
        let state = history.state().unwrap_or(JsValue::NULL);
        // Refused, it stays the entry of the last one: `replace` below.
        let _ = history.push_state_with_url(&state, "", None);
    }
    replace(&writer.with_value(|w| w.path.clone()), &query);
}

fn flush(writer: StoredValue<Writer>) {
    let flushed = writer.try_update_value(|w| {
        let (query, timer) = w.pending.take()?;
        if let Some(timer) = timer {
            timer.clear();
        }
        w.written.clone_from(&query);
        Some((w.path.clone(), query))
    });
    if let Some(Some((path, query))) = flushed {
        replace(&path, &query);
    }
}

fn replace(path: &str, query: &str) {
    let location = window().location();
    if location.pathname().ok().as_deref() != Some(path) {
        return;
    }
    let address = match query {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    };
    if let Ok(history) = window().history() {
        let state = history.state().unwrap_or(JsValue::NULL);
        // The browser refuses too many writes; the next one will succeed.
        let _ = history.replace_state_with_url(&state, "", Some(&address));
    }
}

fn current_query() -> String {
    let search = window().location().search().unwrap_or_default();
    without_project(search.strip_prefix('?').unwrap_or_default())
}
