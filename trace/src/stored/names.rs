//! Strings, frames and stacks.

use super::columns::{Chunks, RowWriter};
use super::head::Head;
use super::{Chunk, Column, Damage, StoredError};
use crate::stacks::{Frame, FrameIdx, StackIdx, Stacks, StrIdx};
use crate::varint::{Cursor, put, put_difference, put_text};

pub(super) fn encode(stacks: &Stacks, emit: &mut dyn FnMut(Chunk)) {
    let mut rows = RowWriter::new(emit, None, Column::Strings);
    for idx in 0..stacks.strings.len() as u32 {
        put_text(rows.row(), stacks.str(StrIdx(idx)));
    }
    rows.finish();
    let mut rows = RowWriter::new(emit, None, Column::Frames);
    for idx in 0..stacks.n_frames() as u32 {
        let frame = stacks.frame(FrameIdx(idx));
        let row = rows.row();
        put(row, u64::from(frame.name.0));
        put(row, u64::from(frame.filename.0));
        put(row, u64::from(frame.line));
    }
    rows.finish();
    let mut rows = RowWriter::new(emit, None, Column::Stacks);
    for idx in 1..stacks.len() as u32 {
        let members = stacks.frames(StackIdx(idx));
        let row = rows.row();
        put(row, members.len() as u64);
        let mut last = 0;
        for member in members {
            put_difference(row, last, u64::from(member.0));
            last = u64::from(member.0);
        }
    }
    rows.finish();
}

pub(super) fn decode(chunks: &mut Chunks, head: &Head) -> Result<Stacks, StoredError> {
    let mut stacks = Stacks::default();
    chunks.read(None, Column::Strings, |cursor| {
        let text = cursor.text()?;
        // The table's offsets are 32 bits wide.
        if stacks.strings.text_len() + text.len() > u32::MAX as usize {
            return Err(Damage::Rows);
        }
        stacks.strings.push(text);
        Ok(())
    })?;
    Column::Strings.check_rows(stacks.strings.len(), head.n_strings)?;
    chunks.read(None, Column::Frames, |cursor| {
        let frame = read_frame(cursor)?;
        let known = stacks.strings.len();
        if frame.name.index() >= known || frame.filename.index() >= known {
            return Err(Damage::Index);
        }
        stacks.push_frame(frame);
        Ok(())
    })?;
    Column::Frames.check_rows(stacks.n_frames(), head.n_frames)?;
    let mut members = Vec::new();
    chunks.read(None, Column::Stacks, |cursor| {
        members.clear();
        let mut last = 0;
        for _ in 0..cursor.number()? {
            last = cursor.after(last)?;
            if last >= stacks.n_frames() as u64 {
                return Err(Damage::Index);
            }
            members.push(FrameIdx(last as u32));
        }
        stacks.push_stack(&members);
        Ok(())
    })?;
    Column::Stacks.check_rows(stacks.len(), head.n_stacks)?;
    Ok(stacks)
}

fn read_frame(cursor: &mut Cursor) -> Result<Frame, Damage> {
    Ok(Frame {
        name: StrIdx(cursor.number32()?),
        filename: StrIdx(cursor.number32()?),
        line: cursor.number32()?,
    })
}
