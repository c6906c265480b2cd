//! The items of `gloo_net` that `leptos_router` names. Its component `Form` sends requests with
//! them, and this page does not use it.
#![forbid(unsafe_code)]

use std::fmt;

/// Why a request failed.
#[derive(Debug)]
pub struct Error;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this page sends no requests in this way: see web/stand_ins/README.md")
    }
}

impl std::error::Error for Error {}

/// Requests and answers.
pub mod http {
    use super::Error;
    use wasm_bindgen::JsValue;
    use web_sys::RequestRedirect;

    /// A request.
    pub struct Request;

    impl Request {
        /// Begins one.
        pub fn post(_url: &str) -> RequestBuilder {
            RequestBuilder
        }

        /// Fails always.
        ///
        /// # Errors
        /// Always.
        pub async fn send(self) -> Result<Response, Error> {
            Err(Error)
        }
    }

    /// A request that is not yet complete.
    pub struct RequestBuilder;

    impl RequestBuilder {
        /// Adds a header.
        pub fn header(self, _name: &str, _value: &str) -> Self {
            self
        }

        /// Says what to do where an answer leads elsewhere.
        pub fn redirect(self, _redirect: RequestRedirect) -> Self {
            self
        }

        /// Adds what is sent.
        ///
        /// # Errors
        /// None.
        pub fn body(self, _body: impl Into<JsValue>) -> Result<Request, Error> {
            Ok(Request)
        }
    }

    /// An answer: there is none.
    pub enum Response {}

    impl From<Response> for web_sys::Response {
        fn from(answer: Response) -> Self {
            match answer {}
        }
    }
}
