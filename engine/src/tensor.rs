//! What the offloader can know about a tensor: storage, layout, element type, class.
//!
//! Nothing here owns memory. A [`SavedTensor`] is the description that `saved_tensors_hooks` would
//! see in Python. The runtime that gives it out decides who keeps the storage alive.

use serde::Serialize;
use smallvec::SmallVec;
use trace::units::{Bytes, DeviceAddr};

/// Element type of a tensor, under PyTorch's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DType {
    /// 64-bit float.
    Float64,
    /// 32-bit float.
    Float32,
    /// 16-bit IEEE float.
    Float16,
    /// 16-bit brain float.
    Bfloat16,
    /// 8-bit float, 4 exponent bits.
    Float8E4m3fn,
    /// 8-bit float, 5 exponent bits.
    Float8E5m2,
    /// 64-bit integer.
    Int64,
    /// 32-bit integer.
    Int32,
    /// 16-bit integer.
    Int16,
    /// 8-bit integer.
    Int8,
    /// 8-bit unsigned integer.
    Uint8,
    /// Boolean, one byte each.
    Bool,
    /// Pair of 32-bit floats.
    Complex64,
    /// Pair of 64-bit floats.
    Complex128,
}

impl DType {
    /// Every element type with the name that `str(tensor.dtype)` prints.
    const NAMES: [(DType, &'static str); 14] = [
        (DType::Float64, "torch.float64"),
        (DType::Float32, "torch.float32"),
        (DType::Float16, "torch.float16"),
        (DType::Bfloat16, "torch.bfloat16"),
        (DType::Float8E4m3fn, "torch.float8_e4m3fn"),
        (DType::Float8E5m2, "torch.float8_e5m2"),
        (DType::Int64, "torch.int64"),
        (DType::Int32, "torch.int32"),
        (DType::Int16, "torch.int16"),
        (DType::Int8, "torch.int8"),
        (DType::Uint8, "torch.uint8"),
        (DType::Bool, "torch.bool"),
        (DType::Complex64, "torch.complex64"),
        (DType::Complex128, "torch.complex128"),
    ];

    /// Size of one element.
    pub const fn size(self) -> Bytes {
        Bytes(match self {
            DType::Complex128 => 16,
            DType::Float64 | DType::Int64 | DType::Complex64 => 8,
            DType::Float32 | DType::Int32 => 4,
            DType::Float16 | DType::Bfloat16 | DType::Int16 => 2,
            DType::Float8E4m3fn | DType::Float8E5m2 | DType::Int8 | DType::Uint8 | DType::Bool => 1,
        })
    }

    /// PyTorch's name, as in `torch.bfloat16`.
    pub fn torch_name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(dtype, _)| *dtype == self)
            .map(|(_, name)| *name)
            .expect("NAMES lists every variant; a test counts them")
    }

    /// The element type that prints as `name`, if there is one.
    pub fn from_torch_name(name: &str) -> Option<DType> {
        Self::NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(dtype, _)| *dtype)
    }
}

/// How many dimensions a tensor may have here; PyTorch allows 64, models use up to 5.
const MAX_DIMS: usize = 6;

/// One number for each dimension, stored inline and small. A step makes tens of thousands of
/// tensors, and the time of a simulated step depends on how many of them fit into a cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims {
    /// After the last dimension all values are 1, which changes no product.
    values: [u32; MAX_DIMS],
    len: u8,
}

impl Default for Dims {
    fn default() -> Dims {
        Dims {
            values: [1; MAX_DIMS],
            len: 0,
        }
    }
}

impl Dims {
    /// The dimensions; `None` if there are more than six, or if one is not below 2^32.
    pub fn new(values: &[u64]) -> Option<Dims> {
        let mut dims = Dims {
            len: u8::try_from(values.len()).ok()?,
            ..Dims::default()
        };
        for (narrow, &wide) in dims.values.get_mut(..values.len())?.iter_mut().zip(values) {
            *narrow = u32::try_from(wide).ok()?;
        }
        Some(dims)
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.len)
    }

    /// The numbers, one after another.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
        self.values[..self.rank()]
            .iter()
            .map(|&value| u64::from(value))
    }

    /// The number of one dimension; 0 is the first.
    ///
    /// # Panics
    /// If there is no such dimension.
    pub fn at(&self, dim: usize) -> u64 {
        u64::from(self.values[..self.rank()][dim])
    }

    /// The number of the last dimension, if there is one.
    pub fn last(&self) -> Option<u64> {
        self.iter().next_back()
    }

    /// The same with another last dimension; unchanged if there are no dimensions.
    ///
    /// # Panics
    /// As for the conversion from sizes.
    pub fn with_last(mut self, last: u64) -> Dims {
        let rank = self.rank();
        if let Some(value) = self.values[..rank].last_mut() {
            *value = narrow(last);
        }
        self
    }

    /// The last `rank` dimensions; `None` if there are fewer.
    pub fn last_dims(&self, rank: usize) -> Option<Dims> {
        let skipped = self.rank().checked_sub(rank)?;
        let mut dims = Dims::default();
        dims.values[..rank].copy_from_slice(&self.values[skipped..][..rank]);
        dims.len = rank as u8;
        Some(dims)
    }

    /// The same number of zeros: the strides of an element that is repeated everywhere.
    pub fn zeros(&self) -> Dims {
        let mut zeros = Dims::default();
        zeros.values[..self.rank()].fill(0);
        zeros.len = self.len;
        zeros
    }

    /// The shape of a result of two operands; missing dimensions count as 1.
    pub fn broadcast(&self, other: &Dims) -> Dims {
        let (mut wide, narrow) = if self.len >= other.len {
            (*self, other)
        } else {
            (*other, self)
        };
        let missing = wide.rank() - narrow.rank();
        for (dim, &value) in narrow.values[..narrow.rank()].iter().enumerate() {
            let mine = &mut wide.values[missing + dim];
            *mine = (*mine).max(value);
        }
        wide
    }

    /// The product: the number of elements of a shape.
    pub fn product(&self) -> u64 {
        self.values.iter().map(|&value| u64::from(value)).product()
    }
}

/// # Panics
/// For dimensions that [`Dims::new`] refuses: here shapes come from this engine's own models.
impl<S: AsRef<[u64]> + ?Sized> From<&S> for Dims {
    fn from(values: &S) -> Dims {
        Dims::new(values.as_ref()).expect("the models' tensors have few and modest dimensions")
    }
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).expect("no dimension and no stride of a model here reaches 2^32")
}

impl std::fmt::Debug for Dims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Shape, strides and offset of a view, all counted in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Size of each dimension.
    pub shape: Dims,
    /// Elements to skip for one step in each dimension.
    pub stride: Dims,
    /// First element within the storage.
    pub offset: u64,
}

impl Layout {
    /// A row-major layout that starts at the beginning of its storage.
    ///
    /// # Panics
    /// For strides of 2^32 elements or more.
    pub fn contiguous(shape: impl Into<Dims>) -> Layout {
        let dense = Layout::dense(shape.into());
        dense.expect("no stride of a model here reaches 2^32")
    }

    /// The same for any shape; `None` for strides of 2^32 elements or more.
    pub fn dense(shape: Dims) -> Option<Layout> {
        Some(Layout {
            shape,
            stride: row_major(&shape)?,
            offset: 0,
        })
    }

    /// Shape, strides and offset, one after another.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let (shape, stride) = (self.shape, self.stride);
        let dims = shape.values.into_iter().chain(stride.values);
        let head = [self.shape.rank() as u64, self.offset];
        head.into_iter().chain(dims.map(u64::from))
    }

    /// Number of elements of the view.
    pub fn elements(&self) -> u64 {
        self.shape.product()
    }

    /// PyTorch's `is_contiguous()`: dimensions of size 1 do not matter, and an empty tensor always
    /// is.
    pub fn is_contiguous(&self) -> bool {
        if self.elements() == 0 {
            return true;
        }
        let mut expected = 1;
        for (size, stride) in self.shape.iter().zip(self.stride.iter()).rev() {
            if size == 1 {
                continue;
            }
            if stride != expected {
                return false;
            }
            expected *= size;
        }
        true
    }

    /// Whether the elements lie in logical order from the start of the storage, without gaps.
    pub fn is_dense_from_start(&self) -> bool {
        self.offset == 0 && self.is_contiguous()
    }

    /// PyTorch's `is_non_overlapping_and_dense()`: the elements fill one piece of memory, in any
    /// order of the dimensions, and none lies there twice.
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        if self.elements() == 0 {
            return true;
        }
        let dims = self.shape.iter().zip(self.stride.iter());
        let mut dims: SmallVec<[(u64, u64); MAX_DIMS]> = dims
            .map(|(size, step)| (step, size))
            .filter(|&(_, size)| size > 1)
            .collect();
        dims.sort_unstable();
        let mut expected = 1;
        dims.iter().all(|&(step, size)| {
            let fits = step == expected;
            expected *= size;
            fits
        })
    }

    /// The same view at the start of a storage.
    #[must_use]
    pub fn from_start(self) -> Layout {
        Layout { offset: 0, ..self }
    }

    /// Whether both show the same elements of a storage in the same order, whatever their shapes.
    pub fn shows_as(&self, other: &Layout) -> bool {
        self.offset == other.offset && self.walk() == other.walk()
    }

    /// The last two dimensions swapped, like `t()` and `transpose(-1, -2)`.
    #[must_use]
    pub fn transposed(mut self) -> Layout {
        if let Some(last) = self.shape.rank().checked_sub(2) {
            self.shape.values.swap(last, last + 1);
            self.stride.values.swap(last, last + 1);
        }
        self
    }

    /// Sizes and steps, the innermost first. If a dimension only continues where the one inside it
    /// ends, both become one. So two layouts with the same result go through the same elements.
    fn walk(&self) -> SmallVec<[(u64, u64); MAX_DIMS]> {
        let mut walk: SmallVec<[(u64, u64); MAX_DIMS]> = SmallVec::new();
        for (size, step) in self.shape.iter().zip(self.stride.iter()).rev() {
            match walk.last_mut() {
                _ if size == 1 => {}
                Some((inner, by)) if step == *inner * *by => *inner *= size,
                _ => walk.push((size, step)),
            }
        }
        walk
    }

    /// Whether a dimension repeats the same elements (`0 in tensor.stride()`).
    pub fn is_broadcast(&self) -> bool {
        self.stride.iter().any(|step| step == 0)
    }

    /// How many elements a storage must hold so that every index of the view lies inside it.
    ///
    /// This is the bound that `as_strided` checks before it complains about `setStorage`.
    pub fn required_elements(&self) -> u64 {
        let mut reach = 0;
        // After the last dimension all sizes are 1, so a step there adds nothing.
        for (&size, &step) in self.shape.values.iter().zip(&self.stride.values) {
            let Some(steps) = u64::from(size).checked_sub(1) else {
                return 0;
            };
            reach += steps * u64::from(step);
        }
        self.offset + reach + 1
    }
}

fn row_major(shape: &Dims) -> Option<Dims> {
    let mut stride = *shape;
    let mut step: u64 = 1;
    for (dim, size) in shape.iter().enumerate().rev() {
        stride.values[dim] = u32::try_from(step).ok()?;
        // The product is below 2^64, because both are below 2^32.
        step *= size.max(1);
    }
    Some(stride)
}

/// Where a tensor lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Memory of the accelerator.
    Accelerator,
    /// Host memory.
    Host,
}

/// What `type(tensor)` says, as far as the offloader needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorClass {
    /// An ordinary tensor.
    Plain,
    /// `torch.nn.Parameter`.
    Parameter,
    /// `torch.nn.Buffer`.
    Buffer,
    /// One of TorchAO's fp8 wrappers, recognised only by its class name.
    Float8Wrapper,
}

impl TensorClass {
    /// Class from the Python class name.
    pub fn from_class_name(name: &str) -> TensorClass {
        match name {
            "Parameter" => TensorClass::Parameter,
            "Buffer" => TensorClass::Buffer,
            "Float8TrainingTensor" | "ScaledMMConfig" | "LinearMMConfig" => {
                TensorClass::Float8Wrapper
            }
            _ => TensorClass::Plain,
        }
    }

    /// Class of a view: a view of a parameter or of a buffer is an ordinary tensor.
    pub fn of_view(self) -> TensorClass {
        match self {
            TensorClass::Parameter | TensorClass::Buffer => TensorClass::Plain,
            TensorClass::Plain | TensorClass::Float8Wrapper => self,
        }
    }
}

/// The storage under a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StorageInfo {
    /// Base address; `None` where `data_ptr()` raises (a sharded parameter without local data).
    pub base: Option<DeviceAddr>,
    /// Bytes of the whole storage; a view may use only a part of them.
    pub bytes: Bytes,
}

/// A tensor as the pack hook sees it. Recorded tensors have layouts and types of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SavedTensor<L = Layout, D = DType> {
    /// The storage under it.
    pub storage: StorageInfo,
    /// The view on that storage.
    pub layout: L,
    /// Element type.
    pub dtype: D,
    /// Host or accelerator.
    pub placement: Placement,
    /// Class of the Python object.
    pub class: TensorClass,
    /// Identity of the tensor object (Python's `id`).
    pub object: u64,
}

impl SavedTensor {
    /// Whether both show the same elements in the same order, whatever their shapes.
    pub fn reads_as(&self, other: &SavedTensor) -> bool {
        let first = |of: &SavedTensor| {
            let base = of.storage.base.unwrap_or_default();
            base + of.dtype.size() * of.layout.offset
        };
        (self.dtype, first(self)) == (other.dtype, first(other))
            && self.layout.walk() == other.layout.walk()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(shape: &[u64], stride: &[u64], offset: u64) -> Layout {
        Layout {
            shape: Dims::new(shape).unwrap(),
            stride: Dims::new(stride).unwrap(),
            offset,
        }
    }

    #[test]
    fn every_dtype_has_a_name_that_reads_back() {
        for (dtype, name) in DType::NAMES {
            assert_eq!(DType::from_torch_name(name), Some(dtype));
            assert_eq!(dtype.torch_name(), name);
        }
        assert_eq!(DType::from_torch_name("torch.float7"), None);
    }

    #[test]
    fn contiguity_ignores_dimensions_of_size_one() {
        assert!(layout(&[4, 1, 8], &[8, 123, 1], 0).is_contiguous());
        assert!(!layout(&[4, 2, 8], &[8, 32, 1], 0).is_contiguous());
        assert!(layout(&[0, 7], &[3, 3], 0).is_contiguous());
        assert!(layout(&[], &[], 5).is_contiguous());
    }

    #[test]
    fn a_view_is_dense_where_its_elements_fill_one_piece() {
        let check = |layout: Layout, expected: bool| {
            assert_eq!(
                layout.is_non_overlapping_and_dense(),
                expected,
                "{layout:?}"
            );
            let mut places = elements(&layout);
            places.sort_unstable();
            let piece = (layout.offset..).take(places.len());
            assert_eq!(places.into_iter().eq(piece), expected, "{layout:?}");
        };
        let rows = Layout::contiguous(&[4, 8]);
        check(rows, true);
        check(rows.transposed(), true);
        // `permute(2, 0, 1)`, and the same with a step that nothing takes.
        check(layout(&[5, 3, 4], &[1, 20, 5], 0), true);
        check(layout(&[5, 1, 4], &[1, 99, 5], 0), true);
        check(layout(&[4, 8], &[8, 1], 32), true);
        check(layout(&[], &[], 0), true);
        check(layout(&[0, 7], &[3, 3], 0), true);
        // A chunk has gaps, a window overlaps the next one, an expanded view repeats.
        check(layout(&[4, 8], &[24, 1], 0), false);
        check(layout(&[8, 4], &[1, 24], 0), false);
        check(layout(&[4, 2], &[1, 1], 0), false);
        check(layout(&[4, 8], &[0, 1], 0), false);
    }

    #[test]
    fn required_elements_is_the_bound_of_as_strided() {
        assert_eq!(Layout::contiguous(&[4, 8]).required_elements(), 32);
        // One third of a chunked tensor: 4 rows of 8 elements from rows of 24, starting at 8.
        assert_eq!(
            layout(&[4, 8], &[24, 1], 8).required_elements(),
            8 + 3 * 24 + 7 + 1
        );
        assert_eq!(layout(&[4, 8], &[0, 1], 0).required_elements(), 8);
        assert_eq!(layout(&[0], &[1], 9).required_elements(), 0);
    }

    /// The elements that a layout shows, one after another.
    fn elements(layout: &Layout) -> Vec<u64> {
        let dims = layout.shape.iter().zip(layout.stride.iter());
        dims.fold(vec![layout.offset], |found, (size, step)| {
            let steps = |first: u64| (0..size).map(move |at| first + at * step);
            found.into_iter().flat_map(steps).collect()
        })
    }

    proptest::proptest! {
        /// Two views read alike if they show the same elements in the same order, and only then.
        #[test]
        fn views_read_alike_where_their_elements_do(
            dims in proptest::collection::vec((1_u64..4, 0_u64..7), 0..4),
            others in proptest::collection::vec((1_u64..4, 0_u64..7), 0..4),
        ) {
            let of = |dims: &[(u64, u64)]| {
                let (shape, stride): (Vec<u64>, Vec<u64>) = dims.iter().copied().unzip();
                layout(&shape, &stride, 3)
            };
            let saved = |layout: Layout| SavedTensor {
                storage: StorageInfo { base: Some(DeviceAddr(512)), bytes: Bytes(4096) },
                layout,
                dtype: DType::Bfloat16,
                placement: Placement::Accelerator,
                class: TensorClass::Plain,
                object: 0,
            };
            let (one, other) = (of(&dims), of(&others));
            let merged = Layout { shape: one.shape, ..Layout::contiguous(one.shape) };
            for (one, other) in [(one, other), (one, one), (one, one.transposed()), (one, merged)] {
                proptest::prop_assert_eq!(
                    saved(one).reads_as(&saved(other)),
                    elements(&one) == elements(&other)
                );
            }
        }
    }

    #[test]
    fn a_square_transpose_reads_otherwise_and_a_flat_view_alike() {
        let saved = |layout: Layout| SavedTensor {
            storage: StorageInfo {
                base: Some(DeviceAddr(512)),
                bytes: Bytes(128),
            },
            layout,
            dtype: DType::Bfloat16,
            placement: Placement::Accelerator,
            class: TensorClass::Plain,
            object: 0,
        };
        let square = Layout::contiguous(&[8, 8]);
        assert!(!saved(square).reads_as(&saved(square.transposed())));
        assert!(saved(square).reads_as(&saved(Layout::contiguous(&[2, 4, 8]))));
        let vector = Layout::contiguous(&[1, 8]);
        assert!(saved(vector).reads_as(&saved(vector.transposed())));
    }

    #[test]
    fn broadcast_is_any_zero_stride() {
        assert!(layout(&[3, 4], &[0, 1], 0).is_broadcast());
        assert!(!Layout::contiguous(&[3, 4]).is_broadcast());
    }
}
