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
    /// Its length in elements: kept, because dividing costs more than the rest of an argument.
    pub elements: u64,
    /// The size of one element in bytes.
    pub element_bytes: u64,
}

/// The bytes of the arguments. Aligned as the widest one, so that an offset says how it is aligned.
#[derive(Debug, Clone)]
#[repr(align(16))]
struct Data([u8; BYTES_MAX]);

/// The arguments of one launch.
#[derive(Debug, Clone)]
pub struct ArgBlock {
    data: Data,
    len: usize,
    offsets: [u8; ARGS_MAX],
    count: usize,
    spans: SmallVec<[SpanArg; 6]>,
}

impl Default for ArgBlock {
    fn default() -> Self {
        Self {
            data: Data([0; BYTES_MAX]),
            len: 0,
            offsets: [0; ARGS_MAX],
            count: 0,
            spans: SmallVec::new(),
        }
    }
}

#[cold]
fn full() -> Error {
    let cause = format!("more than {ARGS_MAX} arguments or {BYTES_MAX} bytes of them");
    Error::new(ErrorKind::InvalidValue, "launch", cause)
}

impl ArgBlock {
    /// Appends a scalar, aligned to its own size as the kernel ABI wants it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline]
    pub fn push_scalar<T: NoUninit>(&mut self, value: T) -> Result<()> {
        let at = self.len.next_multiple_of(align_of::<T>().max(1));
        let end = at + size_of::<T>();
        let (Some(bytes), Some(offset), Ok(start)) =
            (self.data.0.get_mut(at..end), self.offsets.get_mut(self.count), u8::try_from(at))
        else {
            return Err(full());
        };
        bytes.copy_from_slice(bytemuck::bytes_of(&value));
        *offset = start;
        self.count += 1;
        self.len = end;
        Ok(())
    }

    /// Appends the address of `span` and its length in elements of `element_bytes`: pointers
    /// travel with lengths.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline]
    pub fn push_span(
        &mut self,
        span: Span,
        mode: Mode,
        elements: u64,
        element_bytes: u64,
    ) -> Result<()> {
        let index = self.count;
        self.push_scalar(span.address())?;
        self.push_scalar(elements)?;
        self.spans.push(SpanArg { index, span, mode, elements, element_bytes });
        Ok(())
    }

    /// The number of arguments as the kernel counts them.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes from argument `index` on.
    #[must_use]
    #[inline]
    pub fn bytes_at(&self, index: usize) -> &[u8] {
        &self.data.0[usize::from(self.offsets[index])..self.len]
    }

    /// The spans in argument order.
    #[must_use]
    #[inline]
    pub fn spans(&self) -> &[SpanArg] {
        &self.spans
    }
}
