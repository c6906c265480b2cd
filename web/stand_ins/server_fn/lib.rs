//! The items of `server_fn` that `leptos` and `leptos_server` name. They call functions of a server
//! that is a Leptos program, too. Tidemark's is not, so nothing has a value of these types.
#![forbid(unsafe_code)]

use client::Client;
use error::FromServerFnError;
use std::marker::PhantomData;

/// A function of the server that the page calls.
pub trait ServerFn: Send + Sized {
    /// Where it is.
    const PATH: &'static str;

    /// Who sends the request.
    type Client: Client<Self::Error>;

    /// How requests and answers are written.
    type Protocol;

    /// What it returns.
    type Output: Send;

    /// What it returns if it fails.
    type Error: FromServerFnError + Send + Sync;

    /// Where it is.
    fn url() -> &'static str {
        Self::PATH
    }

    /// Calls it.
    fn run_on_client(self) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// Requests and answers over HTTP.
pub struct Http<Input, Output>(PhantomData<(Input, Output)>);

/// Who sends requests.
pub mod client {
    use crate::request::ClientReq;

    /// Sends requests.
    pub trait Client<E> {
        /// What is sent.
        type Request: ClientReq<E>;
    }
}

/// What is sent.
pub mod request {
    /// A request.
    pub trait ClientReq<E> {
        /// The content of a form.
        type FormData;
    }
}

/// How requests are written.
pub mod codec {
    /// As a form.
    pub enum PostUrl {}
}

/// What can go wrong.
pub mod error {
    use std::fmt::Debug;
    use std::marker::PhantomData;

    /// An error of the framework.
    #[derive(Clone, Debug)]
    pub enum ServerFnErrorErr {
        /// The arguments could not be written.
        Serialization(String),
    }

    /// An error of a function, unless it has one of its own.
    #[derive(Clone, Debug)]
    pub enum ServerFnError {}

    /// An error that can hold one of the framework.
    pub trait FromServerFnError: Debug + Sized + 'static {
        /// Holds it.
        fn from_server_fn_error(error: ServerFnErrorErr) -> Self;
    }

    /// What becomes an error of a function.
    pub trait IntoAppError<E> {
        /// That error.
        fn into_app_error(self) -> E;
    }

    impl<E: FromServerFnError> IntoAppError<E> for ServerFnErrorErr {
        fn into_app_error(self) -> E {
            E::from_server_fn_error(self)
        }
    }

    /// An error in an address.
    pub struct ServerFnUrlError<E>(PhantomData<E>);

    impl<E: FromServerFnError> ServerFnUrlError<E> {
        /// The error.
        pub fn decode_err(text: &str) -> E {
            ServerFnErrorErr::Serialization(text.to_owned()).into_app_error()
        }
    }
}

/// Answers that lead elsewhere.
pub mod redirect {
    /// Says what to do about them; an error if that was said before.
    ///
    /// # Errors
    /// None: nothing leads elsewhere.
    pub fn set_redirect_hook(_hook: impl Fn(&str) + Send + Sync + 'static) -> Result<(), ()> {
        Ok(())
    }
}
