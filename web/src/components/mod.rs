//! Components that several pages use, one per file.

pub mod account;
pub mod badge;
pub mod clipboard;
pub mod copy_as_markdown;
pub mod copy_button;
pub mod copy_for_pr;
pub mod dialog;
pub mod drafts;
pub mod drop_target;
pub mod file_picker;
pub mod floating;
pub mod focus;
pub mod folder;
pub mod header;
pub mod help;
pub mod icon;
pub mod keys;
pub mod no_match;
pub mod permits;
pub mod problem_note;
pub mod prose;
pub mod share;
pub mod toasts;
pub mod token_dialog;
pub mod upload_tray;
