//! Kernels, and the workspaces of the libraries that launch them.

use super::{Factors, RunError, Session};
use crate::autograd::Tensor;
use crate::device::Kernel;
use trace::units::Bytes;

/// One cuBLAS workspace on a Hopper card.
pub(crate) const CUBLAS_WORKSPACE: Bytes = Bytes::mib(32);
/// The workspace of cuBLASLt.
const CUBLAS_LT_WORKSPACE: Bytes = Bytes::mib(1);

/// The bytes that a kernel moves: it reads and writes each tensor once.
fn traffic(reads: &[&Tensor], writes: &[&Tensor]) -> Bytes {
    let touched = reads.iter().chain(writes);
    touched.map(|tensor| tensor.bytes()).sum()
}

impl Session {
    /// A kernel that is limited by memory: it reads and writes each tensor once.
    pub(crate) fn kernel_over(
        &mut self,
        reads: &[&Tensor],
        writes: &[&Tensor],
    ) -> Result<(), RunError> {
        self.kernel(reads, writes, 0.0)
    }

    pub(crate) fn kernel(
        &mut self,
        reads: &[&Tensor],
        writes: &[&Tensor],
        flops: f64,
    ) -> Result<(), RunError> {
        let kernel = Kernel {
            flops,
            traffic: traffic(reads, writes),
        };
        Ok(self.accelerator.launch(reads, writes, kernel, None)?)
    }

    /// A matrix product by cuBLAS. The first one on each thread takes a workspace that stays.
    pub(crate) fn cublas(
        &mut self,
        reads: &[&Tensor],
        out: &Tensor,
        flops: f64,
        factors: Option<Factors<'_>>,
    ) -> Result<(), RunError> {
        let thread = usize::from(self.in_backward());
        if self.workspaces[thread].is_none() {
            self.workspaces[thread] = Some(self.scratch(CUBLAS_WORKSPACE)?);
        }
        let workspace = &self.workspaces[thread];
        let product = factors
            .filter(|_| self.accelerator.keeps_contents())
            .zip(workspace.as_ref())
            .and_then(|(factors, workspace)| factors.product(out, workspace));
        let kernel = Kernel {
            flops,
            traffic: traffic(reads, &[out]),
        };
        Ok(self.accelerator.launch(reads, &[out], kernel, product)?)
    }

    /// A matrix product with a bias, by cuBLASLt.
    pub(crate) fn cublas_lt(
        &mut self,
        reads: &[&Tensor],
        out: &Tensor,
        flops: f64,
        factors: Option<Factors<'_>>,
    ) -> Result<(), RunError> {
        self.cublas(reads, out, flops, factors)?;
        if self.lt_workspace.is_none() {
            self.lt_workspace = Some(self.scratch(CUBLAS_LT_WORKSPACE)?);
        }
        Ok(())
    }
}
