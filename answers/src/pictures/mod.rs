//! Pictures of a run: tiles and marks, what the recording holds, and details of single blocks and
//! moments.

pub mod details;
mod marks;

pub use marks::{marks, marks_beside_host};

use crate::contents;
use crate::decoded::Decoded;
use api::contents::Contents;
use api::timeline::Marks;
use trace::tiles::{GroupBy, TileId};
use trace::trace::DeviceTrace;
use trace::watch::{Stopped, Watch};

/// One picture of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Picture {
    /// The four lines.
    Series(TileId),
    /// Live allocations, stacked.
    Mountain(GroupBy, TileId),
    /// Steps, scopes, failed allocations.
    Marks,
    /// What the recording holds.
    Contents,
}

impl Picture {
    /// The pictures that are drawn when a run is stored.
    pub fn overviews(n_events: u32) -> [Picture; 3] {
        let whole = TileId::covering(0, u64::from(n_events));
        [
            Picture::Series(whole),
            Picture::Mountain(GroupBy::Stack, whole),
            Picture::Marks,
        ]
    }

    /// What it shows, and the tile of it; anything but a tile is whole.
    pub fn kind(self) -> (String, TileId) {
        let origin = TileId { level: 0, index: 0 };
        match self {
            Picture::Series(id) => ("series".to_owned(), id),
            Picture::Mountain(group, id) => (format!("mountain/{}", group.name()), id),
            Picture::Marks => ("marks".to_owned(), origin),
            Picture::Contents => ("contents".to_owned(), origin),
        }
    }

    /// Whether it has texts. Lines have none, so they are the same for everybody.
    pub fn has_texts(self) -> bool {
        !matches!(self, Picture::Series(_))
    }

    /// Whether it names categories, so that a team's own rules change it.
    pub fn has_categories(self) -> bool {
        match self {
            Picture::Series(_) => false,
            Picture::Mountain(group, _) => group == GroupBy::Category,
            Picture::Marks | Picture::Contents => true,
        }
    }

    /// Version of its encoding.
    pub fn version(self) -> u32 {
        match self {
            Picture::Series(_) | Picture::Mountain(..) => u32::from(trace::tiles::VERSION),
            Picture::Marks => Marks::VERSION,
            Picture::Contents => Contents::VERSION,
        }
    }

    /// Draws it: the encoded bytes.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn draw(
        self,
        decoded: &Decoded,
        device: &DeviceTrace,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>, Stopped> {
        watch.look(0)?;
        Ok(match self {
            Picture::Series(id) => decoded.trace.series_tile_while(device, id, watch)?.encode(),
            Picture::Mountain(group, id) => {
                let index = decoded.mountain_index(device, group);
                watch.look(0)?;
                device.mountain_tile_while(id, &index, watch)?.encode()
            }
            Picture::Marks => {
                let marks = marks_beside_host(device, &decoded.trace, watch)?;
                serde_json::to_vec(&marks).expect("marks are plain data")
            }
            Picture::Contents => {
                let contents = contents::contents(device, &decoded.trace.stacks, watch)?;
                serde_json::to_vec(&contents).expect("contents are plain data")
            }
        })
    }
}
