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
const WORDS_MAX: usize = BYTES_MAX / 8;

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

/// The arguments of one launch. Every argument begins a word of its own, which aligns it.
#[derive(Debug, Clone, Default)]
pub struct ArgBlock {
    words: [u64; WORDS_MAX],
    /// The word at which each argument begins.
    begins: [u8; ARGS_MAX],
    /// Words that are taken.
    len: usize,
    count: usize,
    spans: SmallVec<[SpanArg; 6]>,
}

#[cold]
fn full() -> Error {
    let cause = format!("more than {ARGS_MAX} arguments or {BYTES_MAX} bytes of them");
    Error::new(ErrorKind::InvalidValue, "launch", cause)
}

// What appends is compiled into the launch: there the places of all arguments are constants.
impl ArgBlock {
    /// Appends a scalar, aligned as the kernel ABI wants it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline(always)]
    pub fn push_scalar<T: NoUninit>(&mut self, value: T) -> Result<()> {
        const { assert!(align_of::<T>() <= 8, "a word aligns its argument") };
        let (begin, end) = (self.len, self.len + size_of::<T>().div_ceil(8));
        let (Some(words), Some(place), Ok(first)) =
            (self.words.get_mut(begin..end), self.begins.get_mut(self.count), u8::try_from(begin))
        else {
            return Err(full());
        };
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        *place = first;
        self.count += 1;
        self.len = end;
        Ok(())
    }

    /// Appends the address of `span` and its length in elements of `element_bytes`: pointers
    /// travel with lengths.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline(always)]
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

    /// Becomes a copy of `other`, in the same memory.
    pub(in crate::device) fn copy_from(&mut self, other: &Self) {
        let Self { words, begins, len, count, spans } = other;
        self.words[..*len].copy_from_slice(&words[..*len]);
        (self.begins, self.len, self.count) = (*begins, *len, *count);
        self.spans.clear();
        for span in spans {
            self.spans.push(span.clone());
        }
    }

    /// Forgets all arguments, and with them the shares in memory.
    pub(in crate::device) fn clear(&mut self) {
        (self.len, self.count) = (0, 0);
        self.spans.clear();
    }

    /// The number of arguments as the kernel counts them.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes from argument `index` on.
    ///
    /// # Panics
    /// When there is no such argument.
    #[must_use]
    #[inline]
    pub fn bytes_at(&self, index: usize) -> &[u8] {
        bytemuck::cast_slice(&self.words[usize::from(self.begins[..self.count][index])..])
    }

    /// The words at which the arguments begin, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &u64> {
        self.begins[..self.count].iter().map(|begin| &self.words[usize::from(*begin)])
    }

    /// The spans in argument order.
    #[must_use]
    #[inline]
    pub fn spans(&self) -> &[SpanArg] {
        &self.spans
    }
}
