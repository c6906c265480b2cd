//! Server-sent events: changes on the server, as they happen.
//!
//! The browser reconnects by itself when the connection drops, but gives up for good on an answer
//! that is not an event stream (a proxy's error page, a restart). Then this module tries again,
//! more slowly each time. Events may be missed in between: [`Notice::Back`] tells when to read
//! everything again.

use crate::turn::Turn;
use api::routes;
use leptos::prelude::*;
use presentation::events::{BACK, LOST, Notice, notice_of, pause_before};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{BroadcastChannel, EventSource, MessageEvent};

/// The name of the lock for which the tabs of a browser compete, and of the channel on which the
/// tab that listens informs the others.
const LOCK: &str = "tidemark-events";
const CHANNEL: &str = "tidemark-events";

/// Listens to [`routes::EVENTS`] until the owner is cleaned up, as long as the page is visible. If
/// the browser can choose one tab, only that tab listens, for all of them. Browsers hold at most
/// six connections to a server of HTTP/1.1, so with a stream for each tab the seventh would wait.
pub fn subscribe(react: impl Fn(Notice) + 'static) {
    let tab = Tab::open(Rc::new(move |word: &str| {
        if let Some(notice) = notice_of(word) {
            react(notice);
        }
    }));
    let tab = StoredValue::new_local(tab);
    on_cleanup(move || {
        tab.try_with_value(Tab::close);
    });
}

type React = Rc<dyn Fn(&str)>;

/// The stream, once it is this tab's turn.
type Place = Rc<RefCell<Option<Stream>>>;

/// One of the browser's tabs.
struct Tab {
    react: React,
    channel: Option<BroadcastChannel>,
    leading: RefCell<Option<(Turn, Place)>>,
    /// Kept alive for as long as the browser may call them.
    handlers: Vec<Closure<dyn Fn(web_sys::Event)>>,
}

impl Tab {
    fn open(react: React) -> Rc<Tab> {
        let channel = BroadcastChannel::new(CHANNEL).ok();
        let tab = Rc::new_cyclic(|this: &Weak<Tab>| {
            let heard = {
                let react = Rc::clone(&react);
                Closure::<dyn Fn(web_sys::Event)>::new(move |event: web_sys::Event| {
                    let message = event.dyn_ref::<MessageEvent>();
                    if let Some(word) = message.and_then(|message| message.data().as_string()) {
                        react(&word);
                    }
                })
            };
            if let Some(channel) = &channel {
                channel.set_onmessage(Some(heard.as_ref().unchecked_ref()));
            }
            let this = Weak::clone(this);
            let seen = Closure::<dyn Fn(web_sys::Event)>::new(move |_| {
                if let Some(tab) = this.upgrade() {
                    tab.seen();
                }
            });
            // Cannot fail for an event with a name.
            let _ = document().add_event_listener_with_callback(
                "visibilitychange",
                seen.as_ref().unchecked_ref(),
            );
            Tab {
                react,
                channel,
                leading: RefCell::default(),
                handlers: vec![heard, seen],
            }
        });
        if !document().hidden() {
            tab.listen();
        }
        tab
    }

    /// The tab was hidden, or is visible again.
    fn seen(&self) {
        match document().hidden() {
            true => self.rest(),
            false if self.leading.borrow().is_some() => {}
            false => {
                // Events in between were missed.
                (self.react)(BACK);
                self.listen();
            }
        }
    }

    /// Waits until no other tab listens, then listens for all of them. What a page read before the
    /// stream was open may have changed until then, so the first [`BACK`] counts, too.
    fn listen(&self) {
        let stream = Place::default();
        let (react, channel, place) = (
            Rc::clone(&self.react),
            self.channel.clone(),
            Rc::clone(&stream),
        );
        let turn = Turn::take(LOCK, move || {
            let tell = move |word: &str| {
                react(word);
                if let Some(channel) = &channel {
                    // Fails only for a closed channel.
                    let _ = channel.post_message(&JsValue::from_str(word));
                }
            };
            place.replace(Some(Stream::open(routes::EVENTS, Rc::new(tell))));
        });
        self.leading.replace(Some((turn, stream)));
    }

    /// Stops listening, so that another tab may listen.
    fn rest(&self) {
        if let Some((turn, stream)) = self.leading.take() {
            if let Some(stream) = stream.take() {
                stream.close();
            }
            turn.give_up();
        }
    }

    fn close(self: &Rc<Tab>) {
        self.rest();
        if let Some(channel) = &self.channel {
            channel.set_onmessage(None);
            channel.close();
        }
        if let Some(seen) = self.handlers.last() {
            let seen = seen.as_ref().unchecked_ref();
            // Cannot fail for an event with a name.
            let _ = document().remove_event_listener_with_callback("visibilitychange", seen);
        }
    }
}

#[derive(Clone)]
struct Stream {
    inner: Rc<RefCell<Inner>>,
}

struct Inner {
    path: &'static str,
    react: React,
    source: Option<EventSource>,
    /// Failed attempts since the last success.
    attempts: u32,
    lost: bool,
    closed: bool,
    /// Kept alive for as long as the source may call them.
    handlers: Vec<Closure<dyn Fn(web_sys::Event)>>,
}

impl Inner {
    fn close(&mut self) {
        self.closed = true;
        if let Some(source) = self.source.take() {
            source.set_onopen(None);
            source.set_onerror(None);
            source.set_onmessage(None);
            source.close();
        }
    }
}

impl Drop for Inner {
    /// The browser keeps an open source alive, and would call handlers that no longer exist.
    fn drop(&mut self) {
        self.close();
    }
}

impl Stream {
    fn open(path: &'static str, react: React) -> Stream {
        let inner = Inner {
            path,
            react,
            source: None,
            attempts: 0,
            lost: false,
            closed: false,
            handlers: Vec::new(),
        };
        let stream = Stream {
            inner: Rc::new(RefCell::new(inner)),
        };
        stream.connect();
        stream
    }

    fn close(&self) {
        self.inner.borrow_mut().close();
    }

    fn connect(&self) {
        if self.inner.borrow().closed {
            return;
        }
        let path = self.inner.borrow().path;
        let Ok(source) = EventSource::new(path) else {
            return self.connect_later();
        };
        let on_open = self.handler(|stream, _| stream.opened());
        let on_error = self.handler(|stream, _| stream.failed());
        let on_message = self.handler(|stream, event| stream.received(&event));
        source.set_onopen(Some(on_open.as_ref().unchecked_ref()));
        source.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        source.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        let mut inner = self.inner.borrow_mut();
        inner.source = Some(source);
        inner.handlers = vec![on_open, on_error, on_message];
    }

    fn handler(
        &self,
        handle: impl Fn(&Stream, web_sys::Event) + 'static,
    ) -> Closure<dyn Fn(web_sys::Event)> {
        let weak = Rc::downgrade(&self.inner);
        Closure::new(move |event| {
            if let Some(inner) = weak.upgrade() {
                handle(&Stream { inner }, event);
            }
        })
    }

    fn tell(&self, word: &str) {
        let react = self.inner.borrow().react.clone();
        react(word);
    }

    fn opened(&self) {
        {
            let mut inner = self.inner.borrow_mut();
            inner.attempts = 0;
            inner.lost = false;
        }
        self.tell(BACK);
    }

    fn failed(&self) {
        let (first, given_up) = {
            let mut inner = self.inner.borrow_mut();
            let first = !std::mem::replace(&mut inner.lost, true);
            let source = inner.source.as_ref();
            (
                first,
                source.is_some_and(|s| s.ready_state() == EventSource::CLOSED),
            )
        };
        if first {
            self.tell(LOST);
        }
        if given_up {
            self.connect_later();
        }
    }

    fn received(&self, event: &web_sys::Event) {
        let data = event
            .dyn_ref::<MessageEvent>()
            .and_then(|e| e.data().as_string());
        if let Some(data) = data {
            self.tell(&data);
        }
    }

    fn connect_later(&self) {
        let pause = {
            let mut inner = self.inner.borrow_mut();
            inner.attempts += 1;
            pause_before(inner.attempts - 1)
        };
        let weak = Rc::downgrade(&self.inner);
        set_timeout(
            move || {
                if let Some(inner) = weak.upgrade() {
                    Stream { inner }.connect();
                }
            },
            pause,
        );
    }
}
