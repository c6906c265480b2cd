//! What the script of the worker calls (`page/worker.js`).

use crate::message::{Request, Response};
use crate::routes::Local;
use api::progress::Phase;
use wasm_bindgen::prelude::wasm_bindgen;

/// The server of a tab.
#[wasm_bindgen]
pub struct Server {
    local: Local,
    origin: String,
    server: Option<String>,
}

/// An answer.
#[wasm_bindgen]
pub struct Answer(Response);

#[wasm_bindgen]
impl Answer {
    /// The status.
    #[wasm_bindgen(getter)]
    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// The media type.
    #[wasm_bindgen(getter)]
    pub fn kind(&self) -> String {
        self.0.kind.to_owned()
    }

    /// The body; the answer has none after that.
    pub fn body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0.body)
    }
}

#[wasm_bindgen]
impl Server {
    /// A server for a page of this origin; another one may make its links.
    #[wasm_bindgen(constructor)]
    pub fn new(origin: String, server: Option<String>) -> Server {
        Server {
            local: Local::new(),
            origin,
            server,
        }
    }

    /// Answers a request, at a time in milliseconds.
    pub fn answer(
        &mut self,
        method: String,
        path: String,
        accept: String,
        body: String,
        now: f64,
    ) -> Answer {
        Answer(self.local.answer(&Request {
            method,
            path,
            accept,
            body,
            ..self.now(now)
        }))
    }

    /// Begins to take the bytes of a file; answers if it is refused.
    pub fn begin(&mut self, upload: &str) -> Option<Answer> {
        self.local.begin(upload).err().map(Answer)
    }

    /// Takes the next bytes; answers if the file is refused.
    pub fn push(&mut self, upload: &str, bytes: &[u8]) -> Option<Answer> {
        self.local.push(upload, bytes).err().map(Answer)
    }

    /// All bytes were read, and the next call of `replay` will take a while.
    pub fn replaying(&mut self, upload: &str) {
        self.local.tell(upload, Phase::Replaying);
    }

    /// Some more bytes were read.
    pub fn receiving(&mut self, upload: &str) {
        self.local.tell(upload, Phase::Receiving);
    }

    /// Reads what the bytes of a file mean; answers if it is refused.
    pub fn replay(&mut self, upload: &str) -> Option<Answer> {
        self.local.replay(upload).err().map(Answer)
    }

    /// Ends a file that was replayed.
    pub fn finish(&mut self, upload: &str, now: f64) -> Answer {
        let request = self.now(now);
        Answer(self.local.finish(upload, &request))
    }

    /// Looks for the verdict of a run that has none.
    pub fn judge(&mut self) -> bool {
        self.local.judge_one()
    }

    /// What open pages are to be told, each a document.
    pub fn notices(&mut self) -> Vec<String> {
        let notices = self.local.notices().into_iter();
        let text = |notice| serde_json::to_string(&notice).expect("notices are plain data");
        notices.map(text).collect()
    }

    fn now(&self, now: f64) -> Request {
        Request {
            origin: self.origin.clone(),
            server: self.server.clone(),
            now_ms: now as i64,
            ..Request::default()
        }
    }
}
