//! Who asks, and what answers have in common: refusals, devices, links, sentences.

use super::library::{Library, Recording};
use api::view_state::{Tab, ViewState};
use trace::device::DeviceIdx;
use trace::main_device;
use trace::trace::{DeviceTrace, Trace};
use trace::watch::{Stopped, Watch};

/// The source of recordings for a question, and its limits.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) recordings: &'a dyn Library,
    pub(super) watch: Watch<'a>,
}

impl Asker<'_> {
    /// A recording. To read it takes time, so nobody begins that for a client that has gone.
    pub(super) fn recording(&self, name: &str) -> Result<Recording, Refusal> {
        self.watch.look(0)?;
        Ok(self.recordings.recording(name)?)
    }
}

/// Why a tool has no answer.
pub(super) enum Refusal {
    /// The question was wrong; the text says what to do.
    Told(String),
    /// It was stopped.
    Stopped,
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal::Told(why)
    }
}

impl From<Stopped> for Refusal {
    fn from(Stopped: Stopped) -> Refusal {
        Refusal::Stopped
    }
}

pub(super) fn device(trace: &Trace, ordinal: Option<u32>) -> Result<&DeviceTrace, String> {
    let Some(ordinal) = ordinal.map(DeviceIdx) else {
        return main_device::of(trace)
            .ok_or_else(|| "No device holds memory or events.".to_owned());
    };
    let mut devices = trace.with_pinned();
    devices
        .find(|device| device.device == ordinal)
        .ok_or_else(|| {
            let known: Vec<String> = trace.with_pinned().map(|d| d.device.to_string()).collect();
            format!(
                "The recording holds nothing of device {ordinal}; it holds {}.",
                known.join(", ")
            )
        })
}

pub(super) fn view(
    recording: &Recording,
    device: Option<&DeviceTrace>,
    tab: Tab,
) -> Option<String> {
    recording.link(&ViewState {
        device: device.map(|device| device.device),
        tab,
        ..ViewState::default()
    })
}

/// A reason as a sentence.
pub(super) fn sentence(reason: &str) -> String {
    let mut chars = reason.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    ended(&(first.unwrap_or_default() + chars.as_str()))
}

/// A reason with a full stop.
pub(super) fn ended(reason: &str) -> String {
    match reason.ends_with('.') {
        true => reason.to_owned(),
        false => format!("{reason}."),
    }
}
