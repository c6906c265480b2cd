//! The tensors of a tape: any number of dimensions, any element type.
//!
//! A recording may have tensors that no model of the engine has. Here a layout is only what the
//! offloader asks about it, and an element type is a name and a size.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use super::TapeError;
use super::line::PackLine;
use crate::offload::{Element, View};
use crate::tensor::{DType, Placement, SavedTensor, StorageInfo, TensorClass};
use trace::units::Bytes;

/// A tensor of a tape.
pub type TapeTensor = SavedTensor<TapeLayout, TapeType>;

/// PyTorch allows no more dimensions.
const MOST_DIMENSIONS: usize = 64;

/// No count of elements or bytes, and no position, reaches this; so sums of them stay exact.
const MOST: u64 = 1 << 48;

/// What the offloader asks about a recorded layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapeLayout {
    offset: u64,
    elements: u64,
    required: u64,
    is_contiguous: bool,
    is_broadcast: bool,
    is_strided: bool,
}

impl TapeLayout {
    /// The layout with these sizes and strides; `None` if it is too large to be counted.
    pub fn new(shape: &[u64], stride: &[u64], offset: u64) -> Option<TapeLayout> {
        if shape.len() != stride.len() || shape.len() > MOST_DIMENSIONS || offset >= MOST {
            return None;
        }
        let mut dense = 1;
        let mut reach = offset;
        let mut is_contiguous = true;
        for (&size, &step) in shape.iter().zip(stride).rev() {
            let steps = size.saturating_sub(1);
            reach = bounded(steps.checked_mul(step)?.checked_add(reach)?)?;
            is_contiguous &= size == 1 || step == dense;
            dense = bounded(size.max(1).checked_mul(dense)?)?;
        }
        let is_empty = shape.contains(&0);
        Some(TapeLayout {
            offset,
            elements: if is_empty { 0 } else { dense },
            required: if is_empty { 0 } else { reach + 1 },
            is_contiguous: is_contiguous || is_empty,
            is_broadcast: stride.contains(&0),
            is_strided: true,
        })
    }

    /// The layout of a dense copy.
    #[must_use]
    pub fn dense(self) -> TapeLayout {
        TapeLayout {
            offset: 0,
            required: self.elements,
            is_contiguous: true,
            is_broadcast: false,
            ..self
        }
    }
}

fn bounded(count: u64) -> Option<u64> {
    (count < MOST).then_some(count)
}

impl View for TapeLayout {
    fn offset(&self) -> u64 {
        self.offset
    }

    fn elements(&self) -> u64 {
        self.elements
    }

    fn is_dense_from_start(&self) -> bool {
        self.offset == 0 && self.is_contiguous
    }

    fn is_broadcast(&self) -> bool {
        self.is_broadcast
    }

    fn required_elements(&self) -> u64 {
        self.required
    }

    fn is_strided(&self) -> bool {
        self.is_strided
    }
}

/// An element type of a tape. Types are equal if they have one name, so one number; an empty tensor
/// does not show its element size.
#[derive(Debug, Clone, Copy)]
pub struct TapeType {
    number: usize,
    size: Bytes,
}

impl PartialEq for TapeType {
    fn eq(&self, other: &TapeType) -> bool {
        self.number == other.number
    }
}

impl Eq for TapeType {}

impl Hash for TapeType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl Element for TapeType {
    const ANY: TapeType = TapeType {
        number: usize::MAX,
        size: Bytes(1),
    };

    fn size(self) -> Bytes {
        self.size
    }
}

/// The names of element types that the tape has used so far, numbered.
#[derive(Debug, Default)]
pub struct TapeTypes(HashMap<String, usize>);

impl TapeTypes {
    /// The type `name`. If this engine does not know it, its size follows from the bytes of a
    /// tensor with so many elements.
    fn named(&mut self, name: &str, bytes: Bytes, elements: u64) -> TapeType {
        let next = self.0.len();
        let number = match self.0.get(name) {
            Some(&number) => number,
            None => *self.0.entry(name.to_owned()).or_insert(next),
        };
        let known = DType::from_torch_name(name).map(DType::size);
        let size = known.unwrap_or_else(|| bytes / elements.max(1));
        TapeType {
            number,
            size: size.max(Bytes(1)),
        }
    }

    /// The tensor that line `number` packs.
    ///
    /// # Errors
    /// [`TapeError::Malformed`].
    pub fn tensor(&mut self, number: usize, line: &PackLine) -> Result<TapeTensor, TapeError> {
        let malformed = |reason: &str| TapeError::Malformed {
            line: number,
            reason: reason.to_owned(),
        };
        if line.shape.len() != line.stride.len() {
            return Err(malformed("shape and stride have different lengths"));
        }
        let too_large =
            || malformed("a tensor of more or larger dimensions than this reader handles");
        let layout = TapeLayout::new(&line.shape, &line.stride, line.offset);
        let mut layout = layout.ok_or_else(too_large)?;
        layout.is_strided = !line.is_sparse();
        let base = line.storage.unwrap_or_default();
        if line.bytes.0 >= MOST || base.0.checked_add(layout.offset).is_none() {
            return Err(too_large());
        }
        let class = match TensorClass::from_class_name(&line.class) {
            TensorClass::Plain if line.is_parameter => TensorClass::Parameter,
            class => class,
        };
        Ok(SavedTensor {
            storage: StorageInfo {
                base: line.storage,
                bytes: line.storage_bytes,
            },
            layout,
            dtype: self.named(&line.key.1, line.bytes, layout.elements),
            placement: placement(&line.device),
            class,
            // If no address can be read, the key is the identity of the object.
            object: line.key.0,
        })
    }
}

/// Where `device` is: `device.type`, or the whole device with its number (`cuda:0`).
fn placement(device: &str) -> Placement {
    match device.split(':').next() {
        Some("cuda" | "xpu" | "npu") => Placement::Accelerator,
        _ => Placement::Host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Dims, Layout};
    use proptest::prelude::*;

    fn asked(of: &impl View) -> (u64, u64, bool, bool, u64) {
        let (dense, broadcast) = (of.is_dense_from_start(), of.is_broadcast());
        let (offset, elements) = (of.offset(), of.elements());
        (offset, elements, dense, broadcast, of.required_elements())
    }

    proptest! {
        /// Where the engine's own tensors can have a layout, both answer the same.
        #[test]
        fn a_recorded_layout_answers_as_one_of_the_engine(
            dims in prop::collection::vec((0..5u64, 0..9u64), 0..6),
            offset in 0..3u64,
        ) {
            let (shape, stride): (Vec<u64>, Vec<u64>) = dims.into_iter().unzip();
            let recorded = TapeLayout::new(&shape, &stride, offset).unwrap();
            let (shape, stride) = (Dims::from(&shape), Dims::from(&stride));
            let own = Layout { shape, stride, offset };
            prop_assert_eq!(asked(&recorded), asked(&own));
            prop_assert_eq!(asked(&recorded.dense()), asked(&Layout::contiguous(shape)));
        }
    }

    #[test]
    fn layouts_of_any_rank_are_counted_and_endless_ones_are_refused() {
        let check = |shape: &[u64], stride: &[u64], expected: Option<u64>| {
            let layout = TapeLayout::new(shape, stride, 0);
            assert_eq!(layout.map(|of| of.elements()), expected, "{shape:?}");
        };
        check(&[2; 7], &[64, 32, 16, 8, 4, 2, 1], Some(128));
        check(&[1; 64], &[1; 64], Some(1));
        check(&[1; 65], &[1; 65], None);
        check(&[1, 8], &[1 << 40, 1], Some(8));
        check(&[1, 8], &[u64::MAX, 1], Some(8));
        check(&[2, 8], &[1 << 50, 1], None);
        check(&[u64::MAX, 0], &[1, 1], None);
        check(&[1 << 24, 1 << 24], &[1 << 24, 1], None);
    }

    #[test]
    fn an_element_type_without_a_known_name_has_the_size_of_its_bytes() {
        let mut types = TapeTypes::default();
        let mut check = |name: &str, bytes: u64, elements: u64, expected: u64| {
            let size = types.named(name, Bytes(bytes), elements).size();
            assert_eq!(size, Bytes(expected), "{name}");
        };
        check("torch.uint16", 64, 32, 2);
        check("torch.float8_e8m0fnu", 32, 32, 1);
        check("torch.complex32", 128, 32, 4);
        check("torch.bfloat16", 0, 0, 2);
        check("torch.uint16", 0, 0, 1);
        let mut named = |name| types.named(name, Bytes(8), 4);
        assert_eq!(named("torch.uint16"), named("torch.uint16"));
        assert_ne!(named("torch.uint16"), named("torch.float16"));
    }

    #[test]
    fn a_device_may_have_a_number() {
        let check = |device, expected| assert_eq!(placement(device), expected, "{device}");
        check("cuda", Placement::Accelerator);
        check("cuda:0", Placement::Accelerator);
        check("xpu:13", Placement::Accelerator);
        check("cpu", Placement::Host);
        check("cpu:0", Placement::Host);
    }
}
