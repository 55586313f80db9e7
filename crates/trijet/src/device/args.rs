//! The argument block of a kernel launch: the words of all arguments, the size of each one, and for
//! each pointer its span and its access mode.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::device::arg_type::ArgType;
use crate::device::memory::Span;
use crate::device::tiling::{MAP_BYTES, TiledArg, TiledElement, Tiling};
use arrayvec::ArrayVec;
use bytemuck::NoUninit;
use smallvec::SmallVec;

/// Maximum number of bytes of arguments. The hardware allows 4 KiB. The shipped kernels need two
/// tilings of 128 bytes, and less than 128 bytes for all other arguments.
pub(crate) const BYTES_MAX: usize = 640;
/// Maximum number of arguments. A span counts twice, as its address and its length.
pub(crate) const ARGS_MAX: usize = 32;
const WORDS_MAX: usize = BYTES_MAX / 8;
/// Maximum number of spans.
pub(crate) const SPANS_MAX: usize = ARGS_MAX / 2;
/// Maximum number of tilings.
pub(crate) const TILED_MAX: usize = 4;

/// A span passed to a kernel.
#[derive(Debug, Clone)]
pub struct SpanArg {
    /// The index of the span's address among the arguments. The argument after the address is the
    /// length of the span, unless the kernel takes the pointer alone or a
    /// [tiling](ArgBlock::tiled).
    pub index: usize,
    /// The memory that the kernel uses.
    pub(crate) span: Span,
    /// Whether the kernel reads the memory, writes the memory, or both.
    pub mode: Mode,
    /// The length of the span in elements. The length is stored, because a division of the bytes by
    /// the size of an element costs more than all other work for an argument.
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

/// The arguments of one launch. Every argument starts at the boundary of a 64-bit word, so that it
/// is aligned.
#[derive(Debug, Clone, Default)]
pub struct ArgBlock {
    words: ArrayVec<u64, WORDS_MAX>,
    /// The size of each argument in bytes.
    sizes: ArrayVec<u16, ARGS_MAX>,
    /// The type of each argument.
    types: ArrayVec<ArgType, ARGS_MAX>,
    spans: ArrayVec<SpanArg, SPANS_MAX>,
    tiled: ArrayVec<TiledArg, TILED_MAX>,
    signature: u64,
}

/// The number of words that an argument of `size` bytes occupies.
#[inline(always)]
fn words_of(size: u16) -> usize {
    usize::from(size).div_ceil(8)
}

#[cold]
fn full() -> Error {
    let cause = format!(
        "too many arguments: a launch has at most {ARGS_MAX} arguments of {BYTES_MAX} bytes in \
         all, {SPANS_MAX} spans and {TILED_MAX} tilings"
    );
    Error::new(ErrorKind::InvalidValue, "launch", cause)
}

/// The arguments of a launch in a graph. Unlike [`ArgBlock`], this type uses only as much memory as
/// the arguments need, because a graph has many launches.
#[derive(Debug, Clone)]
pub(crate) struct KeptArgs {
    words: SmallVec<[u64; 8]>,
    sizes: SmallVec<[u16; 8]>,
    types: SmallVec<[ArgType; 8]>,
    spans: SmallVec<[KeptSpan; 3]>,
    tiled: Box<[TiledArg]>,
    signature: u64,
}

/// A span of [`KeptArgs`], without its memory.
#[derive(Debug, Clone, Copy)]
struct KeptSpan {
    index: usize,
    /// The index of the span's address in [`KeptArgs::words`].
    word: usize,
    mode: Mode,
    elements: u64,
    element_bytes: u64,
}

/// The arguments of a launch in the form that [`KeptArgs::differ`] compares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArgValues<'a> {
    words: &'a [u64],
    sizes: &'a [u16],
    tiled: &'a [TiledArg],
}

impl KeptArgs {
    pub(crate) fn values(&self) -> ArgValues<'_> {
        ArgValues { words: &self.words, sizes: &self.sizes, tiled: &self.tiled }
    }

    /// Whether `other` differs from these arguments in the size of an argument, in a value or in a
    /// tiling. The addresses of spans are not compared.
    pub(crate) fn differ(&self, other: &ArgValues<'_>) -> bool {
        let mut words = self.words.iter().zip(other.words).enumerate();
        self.sizes[..] != *other.sizes
            || self.tiled[..] != *other.tiled
            || words.any(|(at, (a, b))| a != b && self.spans.iter().all(|span| span.word != at))
    }

    /// Makes the arguments of a launch that uses other memory. `memory` has the spans of the launch
    /// in argument order.
    pub(crate) fn with_memory(&self, memory: impl Iterator<Item = Span>) -> ArgBlock {
        let mut args = ArgBlock::default();
        args.words.extend(self.words.iter().copied());
        args.sizes.extend(self.sizes.iter().copied());
        args.types.extend(self.types.iter().copied());
        args.tiled.extend(self.tiled.iter().copied());
        args.signature = self.signature;
        for (kept, span) in self.spans.iter().zip(memory) {
            let KeptSpan { index, word, mode, elements, element_bytes } = *kept;
            args.words[word] = span.address();
            args.spans.push(SpanArg { index, span, mode, elements, element_bytes });
        }
        args
    }
}

// The methods that append an argument are inlined into the launch. In the inlined code, the sizes
// of all arguments are constants, so the signature is a constant too.
impl ArgBlock {
    #[inline(always)]
    fn push_size(&mut self, bytes: usize, of: ArgType) -> Result<()> {
        /// The prime of the hash FNV-1a.
        const PRIME: u64 = 0x0100_0000_01b3;
        let size = u16::try_from(bytes).map_err(|_| full())?;
        self.sizes.try_push(size).map_err(|_| full())?;
        self.types.try_push(of).map_err(|_| full())?;
        self.signature = (self.signature ^ u64::from(size)).wrapping_mul(PRIME);
        Ok(())
    }

    /// Appends a scalar, aligned as the kernel ABI demands.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline(always)]
    pub(crate) fn push_scalar<T: NoUninit>(&mut self, value: T) -> Result<()> {
        const { assert!(align_of::<T>() <= 8, "the alignment of an argument is at most 8 bytes") };
        const { assert!(size_of::<T>() > 0, "an argument has bytes") };
        self.push_value(value, ArgType::of::<T>())
    }

    #[inline(always)]
    fn push_value<T: NoUninit>(&mut self, value: T, of: ArgType) -> Result<()> {
        let bytes = bytemuck::bytes_of(&value);
        self.push_size(bytes.len(), of)?;
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.words.try_push(u64::from_ne_bytes(word)).map_err(|_| full())?;
        }
        Ok(())
    }

    /// Appends the address of `span` and its length in elements of `T`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline(always)]
    pub(crate) fn push_span<T: 'static>(
        &mut self,
        span: Span,
        mode: Mode,
        elements: u64,
    ) -> Result<()> {
        let (index, element_bytes) = (self.sizes.len(), size_of::<T>() as u64);
        self.push_size(8, ArgType::of::<T>())?;
        self.push_size(8, ArgType::LENGTH)?;
        self.words.try_extend_from_slice(&[span.address(), elements]).map_err(|_| full())?;
        let arg = SpanArg { index, span, mode, elements, element_bytes };
        self.spans.try_push(arg).map_err(|_| full())
    }

    /// Appends the address of `span` without its length.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    #[inline(always)]
    pub(crate) fn push_pointer<T: 'static>(
        &mut self,
        span: Span,
        mode: Mode,
        elements: u64,
    ) -> Result<()> {
        let (index, element_bytes) = (self.sizes.len(), size_of::<T>() as u64);
        self.push_value(span.address(), ArgType::of::<T>())?;
        let arg = SpanArg { index, span, mode, elements, element_bytes };
        self.spans.try_push(arg).map_err(|_| full())
    }

    /// Appends `span` as a matrix. The argument has room for the encoded tiling, and begins with
    /// the address of `span`. A driver encodes the tiling when it gets the arguments.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] when the block is full.
    pub(crate) fn push_tiled<T: TiledElement>(
        &mut self,
        span: Span,
        mode: Mode,
        elements: u64,
        tiling: Tiling,
    ) -> Result<()> {
        let (index, element) = (self.sizes.len(), T::TYPE);
        let element_bytes = element.bytes();
        let mut words = [0; MAP_BYTES / 8];
        words[0] = span.address();
        self.push_size(MAP_BYTES, ArgType::of::<T>())?;
        self.words.try_extend_from_slice(&words).map_err(|_| full())?;
        self.tiled.try_push(TiledArg { index, tiling, element }).map_err(|_| full())?;
        let arg = SpanArg { index, span, mode, elements, element_bytes };
        self.spans.try_push(arg).map_err(|_| full())
    }

    pub(crate) fn values(&self) -> ArgValues<'_> {
        ArgValues { words: &self.words, sizes: &self.sizes, tiled: &self.tiled }
    }

    /// A copy of the arguments for a graph, without the memory of the spans.
    pub(crate) fn kept(&self) -> KeptArgs {
        let span = |arg: &SpanArg| {
            let word = self.sizes[..arg.index].iter().map(|size| words_of(*size)).sum();
            let SpanArg { index, mode, elements, element_bytes, .. } = *arg;
            KeptSpan { index, word, mode, elements, element_bytes }
        };
        KeptArgs {
            words: self.words.as_slice().into(),
            sizes: self.sizes.as_slice().into(),
            types: self.types.as_slice().into(),
            spans: self.spans.iter().map(span).collect(),
            tiled: self.tiled.as_slice().into(),
            signature: self.signature,
        }
    }

    /// Replaces all arguments by the arguments of `other`, without an allocation.
    pub(in crate::device) fn copy_from(&mut self, other: &Self) {
        let Self { words, sizes, types, spans, tiled, signature } = other;
        self.clear();
        self.words.extend(words.iter().copied());
        self.sizes.extend(sizes.iter().copied());
        self.types.extend(types.iter().copied());
        self.spans.extend(spans.iter().cloned());
        self.tiled.extend(tiled.iter().copied());
        self.signature = *signature;
    }

    /// Removes all arguments, and drops the tokens of their memory.
    pub(in crate::device) fn clear(&mut self) {
        self.words.clear();
        self.sizes.clear();
        self.types.clear();
        self.spans.clear();
        self.tiled.clear();
        self.signature = 0;
    }

    /// The number of arguments. A span with a length counts as two.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// The size of each argument in bytes.
    #[must_use]
    pub(crate) fn sizes(&self) -> &[u16] {
        &self.sizes
    }

    /// The type of each argument.
    pub(in crate::device) fn types(&self) -> &[ArgType] {
        &self.types
    }

    /// A hash of the sizes of all arguments.
    #[must_use]
    #[inline]
    pub(crate) fn signature(&self) -> u64 {
        self.signature
    }

    /// The bytes from argument `index` to the end of the block.
    ///
    /// # Panics
    /// When there is no such argument.
    #[must_use]
    #[inline]
    pub fn bytes_at(&self, index: usize) -> &[u8] {
        assert!(index < self.sizes.len(), "there is no argument {index}");
        let first: usize = self.sizes[..index].iter().map(|size| words_of(*size)).sum();
        bytemuck::cast_slice(&self.words[first..])
    }

    /// The first word of each argument, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &u64> {
        let mut next = 0;
        self.sizes.iter().map(move |size| {
            let word = &self.words[next];
            next += words_of(*size);
            word
        })
    }

    /// The spans in argument order.
    #[must_use]
    #[inline]
    pub fn spans(&self) -> &[SpanArg] {
        &self.spans
    }

    /// The tilings in argument order. Each tiling is one argument. The memory of each tiling is
    /// also in [`ArgBlock::spans`].
    #[must_use]
    #[inline]
    pub fn tiled(&self) -> &[TiledArg] {
        &self.tiled
    }
}
