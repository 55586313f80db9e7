//! The argument block of a kernel launch: inline bytes, the offset of each argument, and for each
//! pointer the span behind it and how the kernel uses it. Comparable and patchable as plain data.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::device::memory::Span;
use bytemuck::NoUninit;
use smallvec::SmallVec;

/// The most bytes of arguments. The hardware allows 4 KiB; the shipped kernels need under 128.
pub const BYTES_MAX: usize = 256;
/// The most arguments, a span counting twice (address and length).
pub const ARGS_MAX: usize = 32;

/// A span passed to a kernel.
#[derive(Debug, Clone)]
pub struct SpanArg {
    /// The index of the address among the arguments; the length follows it.
    pub index: usize,
    /// The memory.
    pub span: Span,
    /// What the kernel does with it.
    pub mode: Mode,
    /// The size of one element in bytes.
    pub element_bytes: u64,
}

/// The arguments of one launch.
#[derive(Debug, Clone)]
pub struct ArgBlock {
    data: [u8; BYTES_MAX],
    len: usize,
    offsets: [u16; ARGS_MAX],
    count: usize,
    spans: SmallVec<[SpanArg; 6]>,
}

impl Default for ArgBlock {
    fn default() -> Self {
        Self {
            data: [0; BYTES_MAX],
            len: 0,
            offsets: [0; ARGS_MAX],
            count: 0,
            spans: SmallVec::new(),
        }
    }
}

impl ArgBlock {
    /// Appends a scalar, aligned to its own size as the kernel ABI wants it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    pub fn push_scalar<T: NoUninit>(&mut self, value: T) -> Result<()> {
        let size = size_of::<T>();
        let at = self.len.next_multiple_of(align_of::<T>().max(1));
        if at + size > BYTES_MAX || self.count == ARGS_MAX {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "launch",
                format!("more than {ARGS_MAX} arguments or {BYTES_MAX} bytes of them"),
            ));
        }
        self.data[at..at + size].copy_from_slice(bytemuck::bytes_of(&value));
        self.offsets[self.count] = u16::try_from(at).unwrap_or(u16::MAX);
        self.count += 1;
        self.len = at + size;
        Ok(())
    }

    /// Appends the address of `span` and its length in elements: pointers travel with lengths.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    pub fn push_span(&mut self, span: Span, mode: Mode, element_bytes: u64) -> Result<()> {
        let index = self.count;
        let elements = span.bytes() / element_bytes;
        self.push_scalar(span.address())?;
        self.push_scalar(elements)?;
        self.spans.push(SpanArg { index, span, mode, element_bytes });
        Ok(())
    }

    /// The number of arguments as the kernel counts them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes from argument `index` on.
    #[must_use]
    pub fn bytes_at(&self, index: usize) -> &[u8] {
        &self.data[usize::from(self.offsets[index])..self.len]
    }

    /// The spans in argument order.
    #[must_use]
    pub fn spans(&self) -> &[SpanArg] {
        &self.spans
    }
}
