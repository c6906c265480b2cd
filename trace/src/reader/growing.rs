//! Lists of frames that come in more than one batch.
//!
//! Picklers write a list in batches of a thousand items. A stack of many thousand frames must not
//! cost its depth squared: so its frames wait here, and it becomes a stack once its dictionary is
//! complete. Lists of frames come one after the other, so the frames of one list are enough.

use super::ReadErrorKind;
use super::interner::Interner;
use super::values::Result;
use crate::footprint::of_vec;
use crate::stacks::{FrameIdx, StackIdx};

/// All lists that came in more than one batch.
#[derive(Default)]
pub struct Growing {
    /// Per list, the stack that it was when it was last asked for.
    known: Vec<StackIdx>,
    /// The list whose frames wait below.
    open: Option<u32>,
    frames: Vec<FrameIdx>,
    /// How many long lists were taken up again.
    taken_up: u32,
}

/// Frames of a list that may be taken up again as often as a file likes: the first batch of a deep
/// stack is taken up once.
const SHORT: usize = 1 << 11;

/// Limit for taking up longer lists, which no pickler does: a few bytes would cost the time of a
/// deep stack.
const MAX_TAKEN_UP: u32 = 1000;

impl Growing {
    /// A new list: `start` followed by `more`.
    ///
    /// # Errors
    /// As [`Interner::stack`].
    pub fn begin(
        &mut self,
        interner: &mut Interner,
        start: StackIdx,
        more: &[FrameIdx],
    ) -> Result<u32> {
        let list = self.known.len() as u32;
        self.known.push(start);
        self.extend(interner, list, more)?;
        Ok(list)
    }

    /// Appends to a list.
    ///
    /// # Errors
    /// As [`Interner::stack`].
    pub fn extend(&mut self, interner: &mut Interner, list: u32, more: &[FrameIdx]) -> Result<()> {
        if self.open != Some(list) {
            self.close(interner)?;
            let before = interner.stacks.frames(self.known[list as usize]);
            self.taken_up += u32::from(before.len() > SHORT);
            if self.taken_up > MAX_TAKEN_UP {
                return Err(ReadErrorKind::Limit(
                    "number of long lists that are taken up again",
                    u64::from(MAX_TAKEN_UP),
                ));
            }
            self.frames.extend_from_slice(before);
            self.open = Some(list);
        }
        interner.check_depth(self.frames.len() + more.len())?;
        self.frames.extend_from_slice(more);
        Ok(())
    }

    /// The stack that a list is by now.
    ///
    /// # Errors
    /// As [`Interner::stack`].
    pub fn stack(&mut self, interner: &mut Interner, list: u32) -> Result<StackIdx> {
        if self.open == Some(list) {
            self.close(interner)?;
        }
        Ok(self.known[list as usize])
    }

    /// The stack that a list began with.
    pub fn start(&self, list: u32) -> StackIdx {
        self.known[list as usize]
    }

    fn close(&mut self, interner: &mut Interner) -> Result<()> {
        if let Some(list) = self.open.take() {
            self.known[list as usize] = interner.stack(&self.frames)?;
            self.frames.clear();
        }
        Ok(())
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        of_vec(&self.known) + of_vec(&self.frames)
    }
}
