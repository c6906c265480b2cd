//! Server-sent events: what changed on the server, as it changes.
//!
//! The browser reconnects by itself when the connection drops, but gives up for good on an answer
//! that is no event stream (a proxy's error page, a restart). Then we try again, slower each time.
//! Events may be missed meanwhile: [`Notice::Back`] tells when to read everything anew.

use api::progress::ServerEvent;
use api::routes;
use leptos::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use wasm_bindgen::JsCast;
use wasm_bindgen::closure::Closure;
use web_sys::{EventSource, MessageEvent};

/// What a subscriber learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The server said something.
    Event(ServerEvent),
    /// The connection is there again after it was lost; events in between were missed.
    Back,
    /// The connection is lost; it will be tried again.
    Lost,
}

/// Listens to [`routes::EVENTS`] until the owner is cleaned up.
pub fn subscribe(react: impl Fn(Notice) + 'static) {
    let stream = Stream::open(routes::EVENTS, Rc::new(react));
    let stream = StoredValue::new_local(stream);
    on_cleanup(move || {
        stream.try_with_value(Stream::close);
    });
}

/// The pause before attempt `n` (from 0): half a second, doubling, at most half a minute.
fn pause_before(attempt: u32) -> Duration {
    Duration::from_millis(500u64.saturating_mul(1 << attempt.min(10)).min(30_000))
}

/// Reads the `data` of one event. Kinds from a newer server are skipped, not errors.
fn parse(data: &str) -> Option<ServerEvent> {
    serde_json::from_str(data).ok()
}

type React = Rc<dyn Fn(Notice)>;

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
        let mut inner = self.inner.borrow_mut();
        inner.closed = true;
        if let Some(source) = inner.source.take() {
            source.close();
        }
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

    fn tell(&self, notice: Notice) {
        let react = self.inner.borrow().react.clone();
        react(notice);
    }

    fn opened(&self) {
        let was_lost = {
            let mut inner = self.inner.borrow_mut();
            inner.attempts = 0;
            std::mem::take(&mut inner.lost)
        };
        if was_lost {
            self.tell(Notice::Back);
        }
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
            self.tell(Notice::Lost);
        }
        if given_up {
            self.connect_later();
        }
    }

    fn received(&self, event: &web_sys::Event) {
        let data = event
            .dyn_ref::<MessageEvent>()
            .and_then(|e| e.data().as_string());
        if let Some(event) = data.as_deref().and_then(parse) {
            self.tell(Notice::Event(event));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let pauses: Vec<u64> = (0..8).map(|n| pause_before(n).as_millis() as u64).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        assert_eq!(pause_before(u32::MAX), Duration::from_secs(30));
    }

    #[test]
    fn events_of_a_newer_server_are_skipped() {
        assert_eq!(
            parse(r#"{"kind":"runs_changed"}"#),
            Some(ServerEvent::RunsChanged)
        );
        assert_eq!(parse(r#"{"kind":"full_moon"}"#), None);
        assert_eq!(parse(""), None);
    }
}
