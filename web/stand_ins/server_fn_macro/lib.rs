//! What `leptos_macro` calls for the attribute `#[server]`, which this page does not use.
#![forbid(unsafe_code)]

use proc_macro2::{Span, TokenStream};
use syn::{Error, Path, Type};

/// Makes a function of the server of an ordinary one.
///
/// # Errors
/// Always: see `web/stand_ins/README.md`.
pub fn server_macro_impl(
    _args: TokenStream,
    _body: TokenStream,
    _server_fn_path: Option<Path>,
    _default_path: &str,
    _preset_server: Option<Type>,
    _default_protocol: Option<Type>,
) -> Result<TokenStream, Error> {
    let told = "this page has no functions of a server: see web/stand_ins/README.md";
    Err(Error::new(Span::call_site(), told))
}
