//! The argument block of a kernel launch: the words of all arguments, the word at which each one
//! begins, and for each pointer its span and how the kernel uses it.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::device::memory::Span;
use arrayvec::ArrayVec;
use bytemuck::{NoUninit, Pod};

/// The most bytes of arguments. The hardware allows 4 KiB; the shipped kernels need under 128.
pub(crate) const BYTES_MAX: usize = 256;
/// The most arguments. A span counts twice, as its address and its length.
pub(crate) const ARGS_MAX: usize = 32;
const WORDS_MAX: usize = BYTES_MAX / 8;
/// The most spans.
pub(crate) const SPANS_MAX: usize = ARGS_MAX / 2;

/// A span passed to a kernel.
#[derive(Debug, Clone)]
pub struct SpanArg {
    /// The index of the address among the arguments. Unless the kernel takes the pointer alone, the
    /// length follows it.
    pub index: usize,
    /// The memory.
    pub(crate) span: Span,
    /// The use of the memory by the kernel.
    pub mode: Mode,
    /// The length in elements. It is kept because a division costs more than the rest of an
    /// argument.
    pub elements: u64,
    /// The size of one element in bytes.
    pub element_bytes: u64,
}

impl SpanArg {
    /// The size of the span in bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.span.bytes()
    }
}

/// The arguments of one launch. Every argument begins at a word boundary, which aligns it.
#[derive(Debug, Clone, Default)]
pub struct ArgBlock {
    words: ArrayVec<u64, WORDS_MAX>,
    /// The word at which each argument begins.
    begins: ArrayVec<u8, ARGS_MAX>,
    spans: ArrayVec<SpanArg, SPANS_MAX>,
}

#[cold]
fn full() -> Error {
    let cause = format!(
        "a launch holds at most {ARGS_MAX} arguments of {BYTES_MAX} bytes in all, and {SPANS_MAX} spans"
    );
    Error::new(ErrorKind::InvalidValue, "launch", cause)
}

// The methods that append are inlined into the launch, where the offsets of all arguments are
// constants.
impl ArgBlock {
    /// Appends a scalar, aligned as the kernel ABI demands.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline(always)]
    pub(crate) fn push_scalar<T: NoUninit>(&mut self, value: T) -> Result<()> {
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

    /// Appends the address of `span` and its length in elements of `element_bytes` each.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline(always)]
    pub(crate) fn push_span(
        &mut self,
        span: Span,
        mode: Mode,
        elements: u64,
        element_bytes: u64,
    ) -> Result<()> {
        let index = self.begins.len();
        let second = u8::try_from(self.words.len() + 1).map_err(|_| full())?;
        self.begins.try_extend_from_slice(&[second - 1, second]).map_err(|_| full())?;
        self.words.try_extend_from_slice(&[span.address(), elements]).map_err(|_| full())?;
        let arg = SpanArg { index, span, mode, elements, element_bytes };
        self.spans.try_push(arg).map_err(|_| full())
    }

    /// Appends the address of `span` without its length.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline(always)]
    pub(crate) fn push_pointer(
        &mut self,
        span: Span,
        mode: Mode,
        elements: u64,
        element_bytes: u64,
    ) -> Result<()> {
        let index = self.begins.len();
        self.push_scalar(span.address())?;
        let arg = SpanArg { index, span, mode, elements, element_bytes };
        self.spans.try_push(arg).map_err(|_| full())
    }

    /// Replaces all arguments by those of `other`, without an allocation.
    pub(in crate::device) fn copy_from(&mut self, other: &Self) {
        let Self { words, begins, spans } = other;
        self.clear();
        self.words.extend(words.iter().copied());
        self.begins.extend(begins.iter().copied());
        self.spans.extend(spans.iter().cloned());
    }

    /// Removes all arguments, and drops their shares of memory.
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

    /// The bytes from argument `index` to the end of the block.
    ///
    /// # Panics
    /// When there is no such argument.
    #[must_use]
    #[inline]
    pub fn bytes_at(&self, index: usize) -> &[u8] {
        bytemuck::cast_slice(&self.words[usize::from(self.begins[index])..])
    }

    /// The scalar at argument `index`. A pointer and its length are two arguments.
    ///
    /// # Panics
    /// When there is no such argument.
    #[must_use]
    pub fn scalar<T: Pod>(&self, index: usize) -> T {
        bytemuck::pod_read_unaligned(&self.bytes_at(index)[..size_of::<T>()])
    }

    /// The first word of each argument, in order.
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
