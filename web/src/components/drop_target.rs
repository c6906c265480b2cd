//! Files and folders dropped or pasted anywhere on the page are uploaded.

use crate::components::file_picker::files_of;
use crate::components::folder;
use crate::components::icon::LogoMark;
use crate::components::permits::may_upload;
use crate::components::toasts::Toasts;
use crate::context::expect_context;
use crate::opened_link::OpenedLink;
use crate::upload::driver::Uploads;
use leptos::ev;
use leptos::prelude::*;
use trace::ranks::names::Chosen;
use web_sys::{DataTransfer, DragEvent};

/// What readers are told who drop a file.
const MAY_NOT: &str = "You may look here, but not send: ask an admin.";

/// Whether the dragged things are files, not a link or a selection of this page.
fn holds_files(data: Option<&DataTransfer>) -> bool {
    data.is_some_and(|data| data.types().iter().any(|kind| kind == "Files"))
}

/// Uploads the dropped files, and the files in dropped folders.
fn take(uploads: Uploads, data: &DataTransfer) {
    // This must be read now: the browser forgets what was dropped when this event is over.
    let folders = folder::dropped(data);
    if folders.is_empty() {
        return uploads.add(files_of(data.files()));
    }
    leptos::task::spawn_local(async move {
        let files = folder::files(folders).await;
        uploads.add_paths(files, Chosen::Folder);
    });
}

/// Whether whoever looks at the page may send files.
pub fn takes(link: OpenedLink) -> bool {
    may_upload() && !link.is_all_here()
}

/// Listens on the whole page; shows a veil while files are dragged over it.
#[component]
pub fn DropTarget() -> impl IntoView {
    let uploads: Uploads = expect_context();
    let link: OpenedLink = expect_context();
    let toasts: Toasts = expect_context();
    // Entering a child fires `enter` before the parent's `leave`: count instead of toggling.
    let depth = RwSignal::new(0i32);
    let files_over = |event: &DragEvent| holds_files(event.data_transfer().as_ref());
    let handles = [
        window_event_listener(ev::dragenter, move |event| {
            if files_over(&event) && takes(link) {
                event.prevent_default();
                depth.update(|depth| *depth += 1);
            }
        }),
        window_event_listener(ev::dragover, move |event| {
            // Also where nobody may: else the browser would leave the page and open the file.
            if files_over(&event) {
                event.prevent_default();
            }
        }),
        window_event_listener(ev::dragleave, move |event| {
            if files_over(&event) {
                depth.update(|depth| *depth = (*depth - 1).max(0));
            }
        }),
        window_event_listener(ev::drop, move |event| {
            if files_over(&event) {
                event.prevent_default();
                depth.set(0);
                match event.data_transfer() {
                    _ if !may_upload() => toasts.show(MAY_NOT.to_owned(), None),
                    Some(data) if takes(link) => take(uploads, &data),
                    _ => {}
                }
            }
        }),
        window_event_listener(ev::paste, move |event| {
            let data = event.clipboard_data().filter(|_| takes(link));
            uploads.add(files_of(data.and_then(|data| data.files())));
        }),
    ];
    on_cleanup(move || handles.into_iter().for_each(|handle| handle.remove()));
    view! {
        <div class="drop-veil" class:shown=move || { depth.get() > 0 } aria-hidden="true">
            <div class="drop-veil-note">
                <LogoMark/>
                <p>"Drop to upload"</p>
            </div>
        </div>
    }
}
