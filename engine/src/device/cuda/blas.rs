//! Matrix products by cuBLASLt, if its library is found when the first device is opened.
//!
//! The library is about half a gigabyte and not part of a driver, so a machine may not have it.
//! Then a stand-in kernel reads and writes the operands for as long as the model says, and results
//! say so ([`Compute`]). Only the functions that are called here are loaded, and nothing here
//! panics.
//!
//! A product is scaled so that chains of products neither vanish nor overflow. The factor is
//! different in every launch, so that no two launches leave the same bytes: this shows stale bytes.

use std::collections::HashMap;
use std::error::Error as _;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::Library;
use trace::units::{Bytes, DeviceAddr};

use super::super::{DeviceError, Product, ProductSizes, StreamId};
use super::CudaDevice;

/// Names of the library, newest first. The last name exists if CUDA's toolkit is installed.
const NAMES: [&str; 3] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];

// Values of cublasLt.h, cublas_api.h and library_types.h, the same in versions 11 to 13.
const COMPUTE_32F: c_int = 68;
const R_32F: c_int = 0;
const R_16BF: c_int = 14;
const TRANSPOSED: c_int = 1;
const DESC_TRANSA: c_int = 3;
const DESC_TRANSB: c_int = 4;
const LAYOUT_BATCH_COUNT: c_int = 5;
const LAYOUT_BATCH_OFFSET: c_int = 6;
const PREFERENCE_WORKSPACE: c_int = 1;
/// Least alignment of A, B, C and D.
const PREFERENCE_ALIGNMENTS: [c_int; 4] = [5, 6, 7, 8];

/// Size of an operand's element.
const BF16: Bytes = Bytes(2);

/// Mean square of the numbers that `write_span` of kernels.cu writes: from 0.5 to 2, equally often
/// below and above 1.
const MEAN_SQUARE: f64 = (7.0 / 12.0 + 7.0 / 3.0) / 2.0;

/// A handle, a description or a layout.
type Opaque = *mut c_void;
type Status = c_int;

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Heuristic {
    algorithm: [u64; 8],
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

/// `cublasLtMatmul`.
type Matmul = unsafe extern "C" fn(
    Opaque,
    Opaque,
    *const c_void,
    *const c_void,
    Opaque,
    *const c_void,
    Opaque,
    *const c_void,
    *const c_void,
    Opaque,
    *mut c_void,
    Opaque,
    *const [u64; 8],
    *mut c_void,
    usize,
    *mut c_void,
) -> Status;

/// `cublasLtMatmulAlgoGetHeuristic`.
type GetHeuristic = unsafe extern "C" fn(
    Opaque,
    Opaque,
    Opaque,
    Opaque,
    Opaque,
    Opaque,
    Opaque,
    c_int,
    *mut Heuristic,
    *mut c_int,
) -> Status;

/// `…SetAttribute`: the object, the attribute, its value, and the size of the value.
type SetAttribute = unsafe extern "C" fn(Opaque, c_int, *const c_void, usize) -> Status;
/// `…Destroy`.
type Destroy = unsafe extern "C" fn(Opaque) -> Status;

/// The library's functions, as far as they are called here.
pub(super) struct Lt {
    /// The version, as in 130100 for 13.1.0.
    pub version: u64,
    create: unsafe extern "C" fn(*mut Opaque) -> Status,
    destroy: Destroy,
    create_description: unsafe extern "C" fn(*mut Opaque, c_int, c_int) -> Status,
    set_description: SetAttribute,
    destroy_description: Destroy,
    create_layout: unsafe extern "C" fn(*mut Opaque, c_int, u64, u64, i64) -> Status,
    set_layout: SetAttribute,
    destroy_layout: Destroy,
    create_preference: unsafe extern "C" fn(*mut Opaque) -> Status,
    set_preference: SetAttribute,
    destroy_preference: Destroy,
    heuristic: GetHeuristic,
    matmul: Matmul,
    /// Keeps the functions in memory.
    _library: Library,
}

impl Lt {
    /// The library of the process, which is looked for once, or a sentence that says why there is
    /// none.
    pub fn find() -> Result<&'static Lt, &'static str> {
        static LT: OnceLock<Result<Lt, String>> = OnceLock::new();
        let found = LT.get_or_init(|| Lt::load(&NAMES));
        found.as_ref().map_err(String::as_str)
    }

    /// The first library with one of these names that has all functions.
    fn load(names: &[&str]) -> Result<Lt, String> {
        let mut why = "no name was given".to_owned();
        for name in names {
            match Lt::open(name) {
                Ok(found) => return Ok(found),
                // The linker's message names the file or the function. If there is none, say what
                // failed.
                Err(error) => {
                    why = match error.source() {
                        Some(detail) => detail.to_string(),
                        None => format!("{name}: {error}"),
                    };
                }
            }
        }
        Err(format!("cuBLASLt cannot be used: {why}"))
    }

    fn open(name: &str) -> Result<Lt, libloading::Error> {
        // SAFETY: loading a library runs its initialisers, as in any program linked to it. The
        // types of the functions are those of cublasLt.h, which are the same in versions 11 to 13.
        unsafe {
            let library = Library::new(name)?;
            let version = library.get::<unsafe extern "C" fn() -> usize>("cublasLtGetVersion")?;
            Ok(Lt {
                version: version() as u64,
                create: *library.get("cublasLtCreate")?,
                destroy: *library.get("cublasLtDestroy")?,
                create_description: *library.get("cublasLtMatmulDescCreate")?,
                set_description: *library.get("cublasLtMatmulDescSetAttribute")?,
                destroy_description: *library.get("cublasLtMatmulDescDestroy")?,
                create_layout: *library.get("cublasLtMatrixLayoutCreate")?,
                set_layout: *library.get("cublasLtMatrixLayoutSetAttribute")?,
                destroy_layout: *library.get("cublasLtMatrixLayoutDestroy")?,
                create_preference: *library.get("cublasLtMatmulPreferenceCreate")?,
                set_preference: *library.get("cublasLtMatmulPreferenceSetAttribute")?,
                destroy_preference: *library.get("cublasLtMatmulPreferenceDestroy")?,
                heuristic: *library.get("cublasLtMatmulAlgoGetHeuristic")?,
                matmul: *library.get("cublasLtMatmul")?,
                _library: library,
            })
        }
    }
}

/// What decides how a product is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Way {
    sizes: ProductSizes,
    /// Alignment of right operand, left operand and result on the card.
    alignments: [Bytes; 3],
    workspace: Bytes,
}

/// How a product is computed. Columns for the library are rows here, so its first operand is our
/// right one.
struct Plan {
    lt: &'static Lt,
    description: Opaque,
    /// Layouts of right operand, left operand and result.
    layouts: [Opaque; 3],
    algorithm: [u64; 8],
}

impl Plan {
    /// `None` if the library refuses.
    fn new(blas: &Blas, way: &Way) -> Option<Plan> {
        let mut plan = Plan {
            lt: blas.lt,
            description: null_mut(),
            layouts: [null_mut(); 3],
            algorithm: [0; 8],
        };
        plan.describe(&way.sizes)?;
        plan.choose(blas.handle, way)?;
        Some(plan)
    }

    fn describe(&mut self, sizes: &ProductSizes) -> Option<()> {
        let lt = self.lt;
        // SAFETY: the library writes one handle.
        ok(unsafe { (lt.create_description)(&raw mut self.description, COMPUTE_32F, R_32F) })?;
        let transposed = [
            (DESC_TRANSA, sizes.right_transposed),
            (DESC_TRANSB, sizes.left_transposed),
        ];
        for (attribute, _) in transposed.into_iter().filter(|(_, is)| *is) {
            // SAFETY: the description is alive, and the attribute is an integer.
            ok(unsafe { set(lt.set_description, self.description, attribute, &TRANSPOSED) })?;
        }
        let shapes = shapes(sizes);
        for (layout, (rows, columns)) in self.layouts.iter_mut().zip(shapes) {
            // SAFETY: the library writes one handle.
            ok(unsafe { (lt.create_layout)(layout, R_16BF, rows, columns, rows as i64) })?;
            if sizes.batch > 1 {
                let (count, offset) = (sizes.batch as i32, (rows * columns) as i64);
                // SAFETY: the layout is alive; the attributes are of 32 and of 64 bits.
                ok(unsafe { set(lt.set_layout, *layout, LAYOUT_BATCH_COUNT, &count) })?;
                // SAFETY: as above.
                ok(unsafe { set(lt.set_layout, *layout, LAYOUT_BATCH_OFFSET, &offset) })?;
            }
        }
        Some(())
    }

    /// Asks the library for its best algorithm.
    fn choose(&mut self, handle: Opaque, way: &Way) -> Option<()> {
        let lt = self.lt;
        let mut preference = null_mut();
        // SAFETY: the library writes one handle.
        ok(unsafe { (lt.create_preference)(&raw mut preference) })?;
        let [right, left, out] = way.alignments.map(|bytes| bytes.0 as u32);
        let workspace = way.workspace.0 as usize;
        // SAFETY: the preference is alive; the attribute is of 64 bits.
        unsafe {
            set(
                lt.set_preference,
                preference,
                PREFERENCE_WORKSPACE,
                &workspace,
            )
        };
        for (attribute, bytes) in PREFERENCE_ALIGNMENTS.iter().zip([right, left, out, out]) {
            // SAFETY: as above; the attribute is of 32 bits.
            unsafe { set(lt.set_preference, preference, *attribute, &bytes) };
        }
        let mut best = Heuristic {
            algorithm: [0; 8],
            workspace: 0,
            state: 0,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut found = 0;
        let [right, left, out] = self.layouts;
        // SAFETY: everything named is alive; the library writes one result and how many there are.
        let status = unsafe {
            (lt.heuristic)(
                handle,
                self.description,
                right,
                left,
                out,
                out,
                preference,
                1,
                &raw mut best,
                &raw mut found,
            )
        };
        // SAFETY: made above and used no more.
        unsafe { (lt.destroy_preference)(preference) };
        ok(status).filter(|()| found > 0)?;
        ok(best.state).filter(|()| best.workspace <= workspace)?;
        self.algorithm = best.algorithm;
        Some(())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: made by this plan, or never made. No launch refers to them any more, because the
        // library has read them when it was called.
        unsafe {
            for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                (self.lt.destroy_layout)(layout);
            }
            if !self.description.is_null() {
                (self.lt.destroy_description)(self.description);
            }
        }
    }
}

/// Rows and columns of right operand, left operand and result, as the library sees them (by
/// columns).
fn shapes(sizes: &ProductSizes) -> [(u64, u64); 3] {
    let &ProductSizes { m, n, k, .. } = sizes;
    let turned = |(rows, columns), is: bool| if is { (columns, rows) } else { (rows, columns) };
    [
        turned((n, k), sizes.right_transposed),
        turned((k, m), sizes.left_transposed),
        (n, m),
    ]
}

fn ok(status: Status) -> Option<()> {
    (status == 0).then_some(())
}

/// Sets an attribute.
///
/// # Safety
/// `of` must be alive and have such an attribute of this type.
unsafe fn set<T>(with: SetAttribute, of: Opaque, attribute: c_int, value: &T) -> Status {
    // SAFETY: the caller guarantees the attribute; the value is read before the call returns.
    unsafe { with(of, attribute, (&raw const *value).cast(), size_of::<T>()) }
}

/// The library, as used by one device.
pub(super) struct Blas {
    lt: &'static Lt,
    handle: Opaque,
    plans: HashMap<Way, Option<Plan>>,
}

impl Blas {
    /// `None` if the library is missing or does not start. The context of the device must be
    /// current.
    pub fn new() -> Option<Blas> {
        let lt = Lt::find().ok()?;
        let mut handle = null_mut();
        // SAFETY: the library writes one handle.
        ok(unsafe { (lt.create)(&raw mut handle) })?;
        Some(Blas {
            lt,
            handle,
            plans: HashMap::new(),
        })
    }

    /// The library's version.
    pub fn version(&self) -> u64 {
        self.lt.version
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.plans.clear();
        // SAFETY: made in `new`; the device has waited for all work.
        unsafe { (self.lt.destroy)(self.handle) };
    }
}

impl CudaDevice {
    /// Enqueues a product. Returns `false`, and has done nothing, if the library is missing or has
    /// no algorithm for it, or if an operand is not wholly in its segment.
    pub(super) fn multiply(
        &mut self,
        stream: StreamId,
        product: &Product,
    ) -> Result<bool, DeviceError> {
        let sizes = product.sizes;
        let spans = [product.right, product.left, product.out].map(|span| self.on_card(span));
        let workspace = self.on_card(product.workspace);
        let whole = shapes(&sizes)
            .iter()
            .zip(spans)
            .all(|(&(rows, columns), span)| span.bytes == BF16 * (rows * columns * sizes.batch));
        if !whole {
            return Ok(false);
        }
        let way = Way {
            sizes,
            alignments: spans.map(|span| alignment(span.start)),
            workspace: workspace.bytes,
        };
        let queue = self.stream(stream);
        let launches = self.launches;
        let Some(blas) = &mut self.blas else {
            return Ok(false);
        };
        if !blas.plans.contains_key(&way) {
            let plan = Plan::new(blas, &way);
            blas.plans.insert(way, plan);
        }
        let Some(Some(plan)) = blas.plans.get(&way) else {
            return Ok(false);
        };
        let (alpha, beta) = (scale(sizes.k, launches), 0.0f32);
        let [right, left, out] = spans.map(|span| span.start.0 as *mut c_void);
        let [right_layout, left_layout, out_layout] = plan.layouts;
        // SAFETY: the plan's handles are alive. Each operand lies inside a segment and is as long
        // as its layout says. Segments are freed only after all work is done. The workspace is as
        // long as the algorithm was told, and is used on one stream.
        let status = unsafe {
            (plan.lt.matmul)(
                blas.handle,
                plan.description,
                (&raw const alpha).cast(),
                right,
                right_layout,
                left,
                left_layout,
                (&raw const beta).cast(),
                out,
                out_layout,
                out,
                out_layout,
                &raw const plan.algorithm,
                workspace.start.0 as *mut c_void,
                workspace.bytes.0 as usize,
                queue.cast(),
            )
        };
        if status != 0 {
            let what = format!("cuBLASLt refused a product (status {status})");
            return Err(DeviceError::Fault(what));
        }
        self.launches += 1;
        Ok(true)
    }
}

/// The largest power of two, up to 256, that divides the address. The library needs no more than
/// 256.
fn alignment(address: DeviceAddr) -> Bytes {
    const MOST: u64 = 256;
    Bytes(1 << (address.0 | MOST).trailing_zeros())
}

/// The factor of a product. With it, results are about as large as operands: up to a quarter more
/// or less, which differs from launch to launch.
fn scale(inner: u64, launches: u64) -> f32 {
    // Multiples of the golden ratio spread evenly.
    let spread = (launches as f64 * 0.618_033_988_749_895).fract();
    ((0.75 + 0.5 * spread) / (MEAN_SQUARE * inner as f64).sqrt()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer is the library, or a sentence if it is missing.
    #[test]
    fn a_machine_without_the_library_says_so() {
        match Lt::find() {
            Ok(found) => assert!(found.version > 100_000, "{}", found.version),
            Err(why) => assert!(why.starts_with("cuBLASLt cannot be used: "), "{why}"),
        }
    }

    #[test]
    fn a_library_that_is_missing_or_another_one_is_refused() {
        let check = |names: &[&str], expected: &str| {
            let why = Lt::load(names).err().unwrap();
            assert!(why.starts_with("cuBLASLt cannot be used: "), "{why}");
            assert!(why.contains(expected), "{why}");
        };
        check(&[], "no name was given");
        check(&["libno-such-library.so.1"], "libno-such-library.so.1");
        // This library exists, but does not have the functions.
        check(
            &["libno-such-library.so.1", "libm.so.6"],
            "cublasLtGetVersion",
        );
    }

    /// By columns, as in memory: `x · wᵀ`, and the products of its backward pass.
    #[test]
    fn operands_lie_as_the_library_reads_them() {
        let check = |left_transposed, right_transposed, expected| {
            let sizes = ProductSizes {
                batch: 1,
                m: 2,
                n: 3,
                k: 5,
                left_transposed,
                right_transposed,
            };
            assert_eq!(shapes(&sizes), expected);
        };
        check(false, true, [(5, 3), (5, 2), (3, 2)]);
        check(false, false, [(3, 5), (5, 2), (3, 2)]);
        check(true, false, [(3, 5), (2, 5), (3, 2)]);
    }

    #[test]
    fn alignments_are_powers_of_two_up_to_256() {
        let check = |address, expected| {
            assert_eq!(
                alignment(DeviceAddr(address)),
                Bytes(expected),
                "{address:#x}"
            );
        };
        check(0x7f00_0000_0000, 256);
        check(0x7f00_0000_0040, 64);
        check(0x7f00_0000_0002, 2);
        check(0, 256);
    }

    /// Two launches in a row never have similar factors, and the mean of all factors is as
    /// expected.
    #[test]
    fn every_launch_scales_otherwise() {
        let scales: Vec<f32> = (0..1000).map(|launch| scale(4096, launch)).collect();
        for pair in scales.windows(2) {
            assert!((pair[0] / pair[1] - 1.0).abs() > 0.1, "{pair:?}");
        }
        let mean = scales.iter().map(|scale| f64::from(*scale)).sum::<f64>() / 1000.0;
        let expected = 1.0 / (MEAN_SQUARE * 4096.0).sqrt();
        assert!((mean / expected - 1.0).abs() < 0.01, "{mean} {expected}");
    }
}
