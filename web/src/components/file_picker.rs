//! A button that opens the file dialog.

use crate::components::icon::{Icon, IconView};
use crate::context::expect_context;
use crate::upload::driver::Uploads;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{File, FileList, HtmlInputElement};

/// The files of a list.
pub fn files_of(list: Option<FileList>) -> Vec<File> {
    let Some(list) = list else { return Vec::new() };
    (0..list.length()).filter_map(|i| list.get(i)).collect()
}

/// A file input that looks like a button: reachable by keyboard, named by its label.
#[component]
pub fn FilePicker(
    /// Its text.
    label: &'static str,
) -> impl IntoView {
    let uploads: Uploads = expect_context();
    let chosen = move |event: web_sys::Event| {
        let input = event
            .target()
            .and_then(|target| target.dyn_into::<HtmlInputElement>().ok());
        if let Some(input) = input {
            uploads.add(files_of(input.files()));
            // Without this, choosing the same file again would not be a change.
            input.set_value("");
        }
    };
    view! {
        <label class="button primary file-picker">
            <IconView icon=Icon::Upload/>
            <span>{label}</span>
            <input class="visually-hidden" type="file" multiple on:change=chosen/>
        </label>
    }
}
