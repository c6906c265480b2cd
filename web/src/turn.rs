//! Work that only one tab of a browser does at a time. The tabs take turns with a lock of the
//! browser ("Web Locks"). Browsers have such locks for pages from localhost and over TLS; elsewhere
//! every tab gets its turn at once.

use js_sys::{Function, Object, Promise, Reflect};
use leptos::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::AbortController;

/// A turn, or the wait for one.
pub struct Turn {
    waiting: Option<AbortController>,
    state: Rc<RefCell<State>>,
}

/// How far a turn has come. The browser may hand out the lock in the moment when the wait is
/// cancelled. Then its answer is on the way, and the wait can no longer be cancelled.
enum State {
    Waiting,
    /// The turn lasts until this function of the browser is called.
    Begun(Option<Function>),
    GivenUp,
}

impl Turn {
    /// Runs `begin` when it is this tab's turn. The turn lasts until it is given up or the tab is
    /// closed.
    pub fn take(name: &str, begin: impl FnOnce() + 'static) -> Turn {
        let state = Rc::new(RefCell::new(State::Waiting));
        let Some((locks, request)) = locks() else {
            state.replace(State::Begun(None));
            begin();
            return Turn {
                waiting: None,
                state,
            };
        };
        let waiting = AbortController::new().ok();
        let options = Object::new();
        if let Some(abort) = &waiting {
            // Cannot fail for a plain object.
            let _ = Reflect::set(&options, &"signal".into(), &abort.signal());
        }
        let begun = Rc::clone(&state);
        let granted = Closure::once_into_js(move |_lock: JsValue| {
            if matches!(*begun.borrow(), State::GivenUp) {
                return JsValue::UNDEFINED;
            }
            let held = Promise::new(&mut |resolve, _| {
                begun.replace(State::Begun(Some(resolve)));
            });
            begin();
            held.into()
        });
        let asking = request.call3(&locks, &name.into(), &options, &granted);
        if let Some(asking) = asking
            .ok()
            .and_then(|value| value.dyn_into::<Promise>().ok())
        {
            leptos::task::spawn_local(async move {
                // A cancelled wait ends with an error, which is not shown.
                let _ = wasm_bindgen_futures::JsFuture::from(asking).await;
            });
        }
        Turn { waiting, state }
    }

    /// Lets another tab have it.
    pub fn give_up(self) {
        match self.state.replace(State::GivenUp) {
            // If the browser's own function fails, nothing can be done.
            State::Begun(Some(end)) => drop(end.call0(&JsValue::NULL)),
            State::Waiting => {
                if let Some(abort) = self.waiting {
                    abort.abort();
                }
            }
            State::Begun(None) | State::GivenUp => {}
        }
    }
}

/// The browser's locks and the function that asks for one.
fn locks() -> Option<(JsValue, Function)> {
    let locks = Reflect::get(&window().navigator(), &"locks".into()).ok()?;
    let request = Reflect::get(&locks, &"request".into()).ok()?;
    Some((locks, request.dyn_into().ok()?))
}
