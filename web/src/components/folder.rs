//! Dropped folders, and the files in them.

use js_sys::{Array, Function, Promise};
use presentation::upload::MOST;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{DataTransfer, File, FileSystemDirectoryEntry, FileSystemEntry, FileSystemFileEntry};

/// What was dropped, if it includes a folder.
pub fn dropped(data: &DataTransfer) -> Vec<FileSystemEntry> {
    let items = data.items();
    let entries = (0..items.length()).filter_map(|at| items.get(at));
    let entries = entries.filter_map(|item| item.webkit_get_as_entry().ok().flatten());
    let entries: Vec<FileSystemEntry> = entries.collect();
    match entries.iter().any(FileSystemEntry::is_directory) {
        true => entries,
        false => Vec::new(),
    }
}

/// All files in the entries, with their paths. Hidden files, and files that cannot be read, are
/// left out.
pub async fn files(entries: Vec<FileSystemEntry>) -> Vec<(String, File)> {
    let (mut found, mut open) = (Vec::new(), entries);
    while let Some(entry) = open.pop()
        && found.len() < MOST
    {
        if entry.name().starts_with('.') {
            continue;
        }
        if entry.is_directory() {
            open.extend(entries_of(entry.unchecked_ref()).await);
        } else if let Some(file) = file_of(entry.unchecked_ref()).await {
            found.push((entry.full_path().trim_start_matches('/').to_owned(), file));
        }
    }
    found
}

/// A folder's entries come in portions; an empty portion is the end.
async fn entries_of(folder: &FileSystemDirectoryEntry) -> Vec<FileSystemEntry> {
    let reader = folder.create_reader();
    let mut entries = Vec::new();
    loop {
        let some = called(|resolve, reject| {
            reader.read_entries_with_callback_and_callback(&resolve, &reject)
        });
        let Some(some) = some.await else {
            return entries;
        };
        let some: Array = some.unchecked_into();
        if some.length() == 0 {
            return entries;
        }
        entries.extend(some.iter().map(JsCast::unchecked_into::<FileSystemEntry>));
    }
}

async fn file_of(entry: &FileSystemFileEntry) -> Option<File> {
    let file = called(|resolve, reject| {
        entry.file_with_callback_and_callback(&resolve, &reject);
        Ok(())
    });
    file.await.map(JsCast::unchecked_into)
}

/// The value that a function passes to its callback; `None` if it fails.
async fn called(ask: impl FnOnce(Function, Function) -> Result<(), JsValue>) -> Option<JsValue> {
    let mut ask = Some(ask);
    let promise = Promise::new(&mut |resolve, reject| {
        if let Some(ask) = ask.take()
            && let Err(error) = ask(resolve, reject.clone())
        {
            // Fails only if the promise is settled already.
            let _ = reject.call1(&JsValue::UNDEFINED, &error);
        }
    });
    JsFuture::from(promise).await.ok()
}
