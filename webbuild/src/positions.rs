//! Leaves out where in its line code stands that may panic.
//!
//! Each such place has a record of its file, line and column. A page has 2,500 of them, and packing
//! finds no rule in their columns. File and line are enough to find what panicked; in crates of
//! others, it is the message. Without the rest, names of their files included, the page is 6 KB
//! smaller on the wire.

use crate::fold::BadModule;
use std::ops::Range;
use wasmparser::{DataKind, Operator, Parser, Payload};

/// Bytes of a number in a module's memory.
const WORD: usize = 4;

/// A record: the address and the length of the file's name, a line, a column.
const RECORD: usize = 4 * WORD;

/// Longest name of a file.
const LONGEST: usize = 200;

/// Where paths to our own crates begin.
const OWN: [&str; 7] = [
    "answers/",
    "api/",
    "local/",
    "presentation/",
    "timeline/",
    "trace/",
    "web/",
];

/// The record of a place in a crate of others: an empty name, which needs an address above 0.
const NOWHERE: [u8; RECORD] = {
    let mut record = [0; RECORD];
    record[0] = 1;
    record
};

/// Takes the columns out of a module, and all of the places that are not ours.
///
/// # Errors
/// [`BadModule`] if it is no module.
pub fn shorten_positions(module: &mut [u8]) -> Result<(), BadModule> {
    for Place {
        record,
        name,
        is_own,
    } in found(module)?
    {
        if is_own {
            module[record + 3 * WORD..record + RECORD].fill(0);
        } else {
            module[record..record + RECORD].copy_from_slice(&NOWHERE);
            module[name].fill(0);
        }
    }
    Ok(())
}

/// A place that may panic.
struct Place {
    /// Where the module has its record.
    record: usize,
    /// Where the module has the name of its file.
    name: Range<usize>,
    /// Whether it is in a crate of ours.
    is_own: bool,
}

fn found(module: &[u8]) -> Result<Vec<Place>, BadModule> {
    let segments = segments(module)?;
    let offset = |bytes: &[u8]| bytes.as_ptr().addr() - module.as_ptr().addr();
    let mut found = Vec::new();
    for Segment { address, data } in &segments {
        let begin = offset(data);
        let first = address.next_multiple_of(WORD) - address;
        for at in (first..data.len()).step_by(WORD) {
            let Some(record) = data.get(at..at + RECORD) else {
                break;
            };
            let Some(file) = file_of(record, &segments) else {
                continue;
            };
            found.push(Place {
                record: begin + at,
                name: offset(file)..offset(file) + file.len(),
                is_own: OWN.iter().any(|own| file.starts_with(own.as_bytes())),
            });
        }
    }
    Ok(found)
}

/// The name of the file in a record, if it is one.
fn file_of<'a>(record: &[u8], segments: &[Segment<'a>]) -> Option<&'a [u8]> {
    let mut words = record.chunks_exact(WORD).map(|word| {
        let word: [u8; WORD] = word.try_into().unwrap_or_default();
        u32::from_le_bytes(word) as usize
    });
    let (address, length) = (words.next()?, words.next()?);
    let (line, column) = (words.next()?, words.next()?);
    let is_position = (1..50_000).contains(&line) && (1..1000).contains(&column);
    if !is_position || length > LONGEST {
        return None;
    }
    let name = segments.iter().find_map(|segment| {
        let from = address.checked_sub(segment.address)?;
        segment.data.get(from..from + length)
    });
    name.filter(|name| name.ends_with(b".rs"))
}

/// A part of the memory as the module fills it.
struct Segment<'a> {
    address: usize,
    data: &'a [u8],
}

fn segments(module: &[u8]) -> Result<Vec<Segment<'_>>, BadModule> {
    let mut segments = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        let Payload::DataSection(section) = payload? else {
            continue;
        };
        for data in section {
            let data = data?;
            let DataKind::Active { offset_expr, .. } = data.kind else {
                continue;
            };
            if let Operator::I32Const { value } = offset_expr.get_operators_reader().read()? {
                segments.push(Segment {
                    address: value.cast_unsigned() as usize,
                    data: data.data,
                });
            }
        }
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_encoder::{ConstExpr, DataSection, Module};

    #[test]
    fn lines_of_our_own_files_stay_and_all_others_go() {
        const AT: u32 = 1001;
        let mut memory = b"web/src/app.rsleptos-0.8/src/a.rsno file".to_vec();
        memory.resize(43, 0);
        let names = [(0, 14), (14, 19), (33, 7)];
        for (from, length) in names {
            for word in [AT + from, length, 77, 5] {
                memory.extend(word.to_le_bytes());
            }
        }
        let (mut data, mut module) = (DataSection::new(), Module::new());
        data.active(0, &ConstExpr::i32_const(AT as i32), memory.clone());
        module.section(&data);
        let mut module = module.finish();
        shorten_positions(&mut module).expect("a module");
        let segments = segments(&module).expect("a module");
        let kept = |nth: usize| {
            let record = &segments[0].data[43 + nth * RECORD..][..RECORD];
            [1, 2, 3].map(|word| record[word * WORD])
        };
        assert_eq!(
            [0, 1, 2].map(kept),
            [[14, 77, 0], [0, 0, 0], [7, 77, 5]],
            "length of the name, line, column"
        );
        let names: Vec<u8> = [&memory[..14], &[0; 19], &memory[33..43]].concat();
        assert_eq!(segments[0].data[..43], names);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(shorten_positions(&mut b"no module".to_vec()).is_err());
    }
}
