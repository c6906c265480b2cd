//! An order for functions in which each stands beside one that is like it.
//!
//! Packing takes less for what is like its neighbour. Generic code is compiled to functions that
//! differ in a few instructions, somewhere. To compare all with all would take minutes, so each is
//! known by a sketch (MinHash): every [`PIECE`] bytes of its shape in a row get a number from each
//! of [`HASHES`] hash functions, and of each hash function the least number is kept. The more
//! pieces two functions share, the more of these are equal.

use wasmparser::{BinaryReaderError, FunctionBody};

/// How many numbers a sketch has. With 32 the packed page is 2 KB larger.
const HASHES: usize = 64;

/// How many bytes of a shape are looked at together.
const PIECE: usize = 6;

/// The first bytes of instructions whose operands belong to the shape: constants, and what reads
/// or writes memory.
const CONSTANT: u8 = 0x41;
const FIRST_ACCESS: u8 = 0x28;
const LAST_ACCESS: u8 = 0x3e;

type Sketch = [u16; HASHES];

/// The order: those of one type are together, and each is followed by the one that is most like it
/// of those that are left.
///
/// # Errors
/// If one is no function.
pub fn order(functions: &[(u32, FunctionBody<'_>)]) -> Result<Vec<usize>, BinaryReaderError> {
    let shapes = functions.iter().map(|(_, body)| shape(body));
    let shapes = shapes.collect::<Result<Vec<_>, _>>()?;
    let sketches: Vec<Sketch> = shapes.iter().map(|shape| sketch(shape)).collect();
    let mut sorted: Vec<usize> = (0..functions.len()).collect();
    sorted.sort_by_key(|&at| (functions[at].0, &shapes[at]));
    let mut order = Vec::with_capacity(sorted.len());
    for of_type in sorted.chunk_by(|&a, &b| functions[a].0 == functions[b].0) {
        let mut left = of_type.to_vec();
        let mut next = 0;
        while !left.is_empty() {
            let last = left.remove(next);
            order.push(last);
            next = nearest(&sketches[last], left.iter().map(|&at| &sketches[at]));
        }
    }
    Ok(order)
}

/// The instructions without what they are about: functions that call others, or use other locals,
/// have the same shape.
fn shape(body: &FunctionBody<'_>) -> Result<Vec<u8>, BinaryReaderError> {
    let (bytes, start) = (body.as_bytes(), body.range().start);
    let mut instructions = body.get_operators_reader()?;
    let mut shape = Vec::new();
    while !instructions.eof() {
        let from = instructions.original_position() - start;
        instructions.read()?;
        let instruction = &bytes[from..instructions.original_position() - start];
        let kept = match instruction[0] {
            CONSTANT | FIRST_ACCESS..=LAST_ACCESS => instruction.len(),
            _ => 1,
        };
        shape.extend_from_slice(&instruction[..kept]);
    }
    // The end of the shortest function, too, is a whole piece.
    shape.extend_from_slice(&[0; PIECE - 1]);
    Ok(shape)
}

fn sketch(shape: &[u8]) -> Sketch {
    let mut least = [u32::MAX; HASHES];
    for piece in shape.windows(PIECE) {
        let mut hash = piece.iter().fold(0x811c_9dc5_u32, |hash, &byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        for (nth, least) in least.iter_mut().enumerate() {
            hash = hash.wrapping_mul(0x85eb_ca6b).wrapping_add(nth as u32);
            *least = (*least).min(hash ^ (hash >> 13));
        }
    }
    // Half of each is compared sooner, and equal by chance too rarely to matter.
    least.map(|hash| hash as u16)
}

/// Which sketch has most in common with `sketch`; the first of them.
fn nearest<'a>(sketch: &Sketch, others: impl Iterator<Item = &'a Sketch>) -> usize {
    let (mut nearest, mut most) = (0, 0);
    for (at, other) in others.enumerate() {
        let pairs = sketch.iter().zip(other);
        let equal = pairs.map(|(a, b)| u16::from(a == b)).sum::<u16>();
        if equal > most {
            (nearest, most) = (at, equal);
        }
        if usize::from(equal) == HASHES {
            break;
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sketch of the numbers from `first` on.
    fn numbers(first: u8) -> Sketch {
        let all: Vec<u8> = (first..first + 100).collect();
        sketch(&all)
    }

    #[test]
    fn the_nearest_is_what_shares_most() {
        let others = [numbers(90), numbers(20), numbers(5), numbers(120)];
        assert_eq!(nearest(&numbers(0), others.iter()), 2);
        let equal = [numbers(1), numbers(0), numbers(0)];
        assert_eq!(nearest(&numbers(0), equal.iter()), 1);
    }
}
