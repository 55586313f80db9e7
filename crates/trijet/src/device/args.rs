//! The argument block of a kernel launch: inline bytes, the offset of each argument, and for each
//! pointer the span behind it and how the kernel uses it. Comparable and patchable as plain data.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::device::memory::Span;
use arrayvec::ArrayVec;
use bytemuck::NoUninit;

/// The most bytes of arguments. The hardware allows 4 KiB; the shipped kernels need under 128.
pub const BYTES_MAX: usize = 256;
/// The most arguments, a span counting twice (address and length).
pub const ARGS_MAX: usize = 32;
const WORDS_MAX: usize = BYTES_MAX / 8;
/// The most spans.
pub(crate) const SPANS_MAX: usize = ARGS_MAX / 2;

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
    words: ArrayVec<u64, WORDS_MAX>,
    /// The word at which each argument begins.
    begins: ArrayVec<u8, ARGS_MAX>,
    spans: ArrayVec<SpanArg, SPANS_MAX>,
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
        const { assert!(size_of::<T>() > 0, "an argument has bytes") };
        let bytes = bytemuck::bytes_of(&value);
        let first = u8::try_from(self.words.len()).map_err(|_| full())?;
        self.begins.try_push(first).map_err(|_| full())?;
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.words.try_push(u64::from_ne_bytes(word)).map_err(|_| full())?;
        }
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
        let index = self.begins.len();
        self.push_scalar(span.address())?;
        self.push_scalar(elements)?;
        let arg = SpanArg { index, span, mode, elements, element_bytes };
        self.spans.try_push(arg).map_err(|_| full())
    }

    /// Becomes a copy of `other`, in the same memory.
    pub(in crate::device) fn copy_from(&mut self, other: &Self) {
        let Self { words, begins, spans } = other;
        self.clear();
        self.words.extend(words.iter().copied());
        self.begins.extend(begins.iter().copied());
        self.spans.extend(spans.iter().cloned());
    }

    /// Forgets all arguments, and with them the shares in memory.
    pub(in crate::device) fn clear(&mut self) {
        self.words.clear();
        self.begins.clear();
        self.spans.clear();
    }

    /// The number of arguments as the kernel counts them.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.begins.len()
    }

    /// The bytes from argument `index` on.
    ///
    /// # Panics
    /// When there is no such argument.
    #[must_use]
    #[inline]
    pub fn bytes_at(&self, index: usize) -> &[u8] {
        bytemuck::cast_slice(&self.words[usize::from(self.begins[index])..])
    }

    /// The words at which the arguments begin, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &u64> {
        self.begins.iter().map(|begin| &self.words[usize::from(*begin)])
    }

    /// The spans in argument order.
    #[must_use]
    #[inline]
    pub fn spans(&self) -> &[SpanArg] {
        &self.spans
    }
}
