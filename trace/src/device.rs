//! Which device a trace, a note or a question is about.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A device of a recording: a card by its CUDA ordinal, as the process saw it, or the pinned memory
/// of the host, which stands beside them under a number that no card has. On the wire, in addresses
/// and in stored bytes it is the plain number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct DeviceIdx(pub u32);

impl DeviceIdx {
    /// The pinned memory of the host. The reader accepts only ordinals below it.
    pub const PINNED: DeviceIdx = DeviceIdx(128);

    /// Whether it is the pinned memory of the host, which is no device: it has no allocator that
    /// takes memory from a card, and no question about all devices counts it.
    pub const fn is_pinned(self) -> bool {
        self.0 == DeviceIdx::PINNED.0
    }

    /// As an index into the devices of a file.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// What it is called in a sentence.
    pub fn name(self) -> String {
        match self {
            DeviceIdx::PINNED => "pinned host memory".to_owned(),
            DeviceIdx(ordinal) => format!("device {ordinal}"),
        }
    }
}

/// The plain number, as addresses have it. In a sentence it is [`DeviceIdx::name`].
impl fmt::Display for DeviceIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for DeviceIdx {
    type Err = ParseIntError;
    fn from_str(number: &str) -> Result<DeviceIdx, ParseIntError> {
        Ok(DeviceIdx(number.parse()?))
    }
}
