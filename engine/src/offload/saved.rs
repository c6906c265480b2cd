//! What the offloader asks about a saved tensor's layout and element type.
//!
//! The engine's own tensors answer with [`Layout`] and [`DType`], which are small and fast. A
//! recorded tensor can have any number of dimensions and any type, so a tape brings its own.

use std::fmt::Debug;
use std::hash::Hash;

use crate::tensor::{DType, Layout, SavedTensor};
use trace::units::Bytes;

/// A layout: the part of a storage that a tensor shows.
pub trait View: Clone {
    /// First element within the storage.
    fn offset(&self) -> u64;
    /// Number of elements.
    fn elements(&self) -> u64;
    /// Whether the elements lie in logical order from the start of the storage, without gaps.
    fn is_dense_from_start(&self) -> bool;
    /// Whether a dimension repeats the same elements.
    fn is_broadcast(&self) -> bool;
    /// How many elements a storage must hold so that every index lies inside it.
    fn required_elements(&self) -> u64;
    /// Whether the layout is `torch.strided`. A sparse tensor has no storage; the strides of one in
    /// COO format are all 0, those of the others cannot be asked for.
    fn is_strided(&self) -> bool {
        true
    }
}

/// An element type, which is a part of a key.
pub trait Element: Copy + Eq + Hash + Debug {
    /// The type in every key if types are not told apart, which only a broken rule does.
    const ANY: Self;

    /// Size of one element.
    fn size(self) -> Bytes;
}

impl View for Layout {
    fn offset(&self) -> u64 {
        self.offset
    }

    fn elements(&self) -> u64 {
        Layout::elements(self)
    }

    fn is_dense_from_start(&self) -> bool {
        Layout::is_dense_from_start(self)
    }

    fn is_broadcast(&self) -> bool {
        Layout::is_broadcast(self)
    }

    fn required_elements(&self) -> u64 {
        Layout::required_elements(self)
    }
}

impl Element for DType {
    const ANY: DType = DType::Uint8;

    fn size(self) -> Bytes {
        DType::size(self)
    }
}

impl<L: View, D: Element> SavedTensor<L, D> {
    /// Logical bytes of the view; the size filter uses these.
    pub fn bytes(&self) -> Bytes {
        self.dtype.size() * self.layout.elements()
    }
}
