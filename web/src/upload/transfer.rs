//! Sends one file with `XMLHttpRequest`, because `fetch` cannot tell how much of a body is sent.

use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, ProgressEvent, XmlHttpRequest};

/// The result of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server answered.
    Http {
        /// With this status.
        status: u16,
        /// And this body.
        body: String,
        /// Its header about trying again.
        retry: Option<String>,
    },
    /// The connection was lost, refused, or closed early by the server.
    Lost,
    /// We aborted it.
    Aborted,
}

/// A file on its way.
#[derive(Clone)]
pub struct Transfer {
    request: XmlHttpRequest,
    aborted: Rc<RefCell<bool>>,
}

impl Transfer {
    /// Prepares to `PUT` to `path`.
    ///
    /// # Errors
    /// When the browser refuses to open the request.
    pub fn to(path: &str) -> Result<Transfer, JsValue> {
        let request = XmlHttpRequest::new()?;
        request.open_with_async("PUT", path, true)?;
        request.set_request_header("Content-Type", "application/octet-stream")?;
        Ok(Transfer {
            request,
            aborted: Rc::new(RefCell::new(false)),
        })
    }

    /// Stops it; [`Transfer::send`] then answers [`Answer::Aborted`].
    pub fn abort(&self) {
        self.aborted.replace(true);
        // An error means that it is over already.
        let _ = self.request.abort();
    }

    /// Sends `file`, and tells `sent` how many bytes are sent.
    pub async fn send(&self, file: &Blob, sent: impl Fn(u64) + 'static) -> Answer {
        let progress = Closure::<dyn Fn(ProgressEvent)>::new(move |event: ProgressEvent| {
            sent(event.loaded() as u64);
        });
        if let Ok(upload) = self.request.upload() {
            upload.set_onprogress(Some(progress.as_ref().unchecked_ref()));
        }
        let ended = js_sys::Promise::new(&mut |resolve, _| {
            self.request.set_onloadend(Some(&resolve));
        });
        if self.request.send_with_opt_blob(Some(file)).is_err() {
            return Answer::Lost;
        }
        // Never rejects: only its resolving function is used.
        let _ = JsFuture::from(ended).await;
        self.request.set_onloadend(None);
        if let Ok(upload) = self.request.upload() {
            upload.set_onprogress(None);
        }
        self.answer()
    }

    fn answer(&self) -> Answer {
        if *self.aborted.borrow() {
            return Answer::Aborted;
        }
        match self.request.status().unwrap_or(0) {
            0 => Answer::Lost,
            status => {
                let body = self.request.response_text().ok().flatten();
                let retry = self.request.get_response_header("Retry-After");
                Answer::Http {
                    status,
                    body: body.unwrap_or_default(),
                    retry: retry.ok().flatten(),
                }
            }
        }
    }
}
