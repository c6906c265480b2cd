//! A frame as text.

use crate::code::file_name;
use crate::stacks::{Frame, Stacks};
use serde::{Deserialize, Serialize};

/// A frame as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Place {
    /// Function.
    pub name: String,
    /// File, as recorded.
    pub filename: String,
    /// Line; a hint, since edits move it. 0 when unknown.
    pub line: u32,
}

impl Place {
    /// Of a frame of a trace.
    pub(crate) fn of(stacks: &Stacks, frame: Frame) -> Place {
        Place {
            name: stacks.str(frame.name).to_owned(),
            filename: stacks.str(frame.filename).to_owned(),
            line: frame.line,
        }
    }

    /// The function and where it stands: `save (train.py:7)`.
    pub fn told(&self) -> String {
        let file = file_name(&self.filename);
        match (file, self.line) {
            ("" | "??", _) => self.name.clone(),
            (file, 0) => format!("{} ({file})", self.name),
            (file, line) => format!("{} ({file}:{line})", self.name),
        }
    }
}
