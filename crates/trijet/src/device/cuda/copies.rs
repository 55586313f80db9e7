//! Copies and fills.
//!
//! The layers above keep the tokens of page-locked and pageable memory until the operations that
//! use them are known to be complete. So an asynchronous copy may read or write the bytes after its
//! call has returned, whatever the kind of memory. A copy in a capture would use the bytes once for
//! each replay, when the tokens may be gone. So the layers above refuse a stream in a capture.

use super::api::{CopyAttributes, MemLocation, need};
use super::context::{CudaDriver, cu, raw};
use super::error::{INVALID_VALUE, check, refused};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::driver::{CopySpans, SourceOrder, StreamHandle};
use crate::device::memory::{self, Space, Span};
use std::ffi::{c_int, c_void};

/// The length of a copy.
///
/// # Errors
/// `InvalidValue` when the spans differ in length or overlap. The driver does not check the
/// lengths, and defines no result for spans that overlap.
fn length(op: &'static str, dst: &Span, src: &Span) -> Result<usize> {
    if dst.bytes() != src.bytes() || dst.overlaps(src) {
        return Err(mismatched(op, dst, src));
    }
    Ok(usize::try_from(dst.bytes()).unwrap_or(usize::MAX))
}

#[cold]
fn mismatched(op: &'static str, dst: &Span, src: &Span) -> Error {
    refused(op, INVALID_VALUE, memory::mismatch(dst, src))
}

/// `CUmemcpySrcAccessOrder`.
fn source_order(order: SourceOrder) -> c_int {
    match order {
        SourceOrder::Stream => 1,
        SourceOrder::DuringCall => 2,
        SourceOrder::Any => 3,
    }
}

impl CudaDriver {
    pub(super) fn copy(&self, stream: StreamHandle, dst: &Span, src: &Span) -> Result<()> {
        let _entered = self.enter_of("copy", stream.0)?;
        let bytes = length("copy", dst, src)?;
        let (to, from, stream) = (dst.address(), src.address(), raw(stream.0));
        match (src.memory().space(), dst.memory().space()) {
            (Space::Pinned | Space::Pageable, Space::Device(_)) => cu!(
                self,
                "cuMemcpyHtoDAsync",
                copy_up(to, from as *const c_void, bytes, stream),
                "both spans have `bytes` bytes by `length`, and their tokens outlive the copy: \
                 false for a source that is freed before the stream reaches the copy"
            ),
            (Space::Device(_), Space::Pinned | Space::Pageable) => cu!(
                self,
                "cuMemcpyDtoHAsync",
                copy_down(to as *mut c_void, from, bytes, stream),
                "both spans have `bytes` bytes by `length`, and their tokens outlive the copy: \
                 false for a target that is freed before the stream reaches the copy"
            ),
            (Space::Device(_), Space::Device(_))
            | (Space::Pinned | Space::Pageable, Space::Pinned | Space::Pageable) => cu!(
                self,
                "cuMemcpyAsync",
                copy(to, from, bytes, stream),
                "both spans have `bytes` bytes by `length`, and their tokens outlive the copy; \
                 unified addressing tells the driver both devices of a copy between devices"
            ),
        }
    }

    pub(super) fn copy_batch(
        &self,
        stream: StreamHandle,
        copies: &[CopySpans],
        order: SourceOrder,
    ) -> Result<()> {
        let _entered = self.enter_of("copy batch", stream.0)?;
        let mut sizes = Vec::with_capacity(copies.len());
        for copy in copies {
            sizes.push(length("copy batch", &copy.dst, &copy.src)?);
        }
        let mut targets: Vec<u64> = copies.iter().map(|copy| copy.dst.address()).collect();
        let mut sources: Vec<u64> = copies.iter().map(|copy| copy.src.address()).collect();
        let mut attributes = CopyAttributes {
            source_order: source_order(order),
            source_hint: MemLocation::default(),
            target_hint: MemLocation::default(),
            flags: 0,
        };
        // One structure of attributes applies to all copies. `first` is the index of the first copy
        // to which the structure applies.
        let mut first = 0usize;
        let (to, from, lengths) = (targets.as_mut_ptr(), sources.as_mut_ptr(), sizes.as_mut_ptr());
        let (attributes, first, count) = (&raw mut attributes, &raw mut first, copies.len());
        if self.api.copy_batch.is_some() {
            return cu!(
                self,
                "cuMemcpyBatchAsync",
                copy_batch(to, from, lengths, count, attributes, first, 1, raw(stream.0)),
                "the arrays have `count` entries, and the driver reads them during the call; the \
                 tokens of the spans outlive the batch, which is false if one is freed while the \
                 batch is pending"
            );
        }
        if self.api.copy_batch_12.is_none() {
            let cause = "batched copies need a CUDA 12.8 driver";
            return Err(Error::new(ErrorKind::Unsupported, "cuMemcpyBatchAsync", cause));
        }
        let mut failed = 0usize;
        cu!(
            self,
            "cuMemcpyBatchAsync",
            copy_batch_12(
                to,
                from,
                lengths,
                count,
                attributes,
                first,
                1,
                &raw mut failed,
                raw(stream.0)
            ),
            "the arrays have `count` entries and are read during the call, which also writes the \
             local variable `failed`; the tokens of the spans outlive the batch"
        )
    }

    /// Makes a synchronous copy. The host waits as law A18 demands. `legacy` is the legacy stream
    /// of a device.
    pub(super) fn copy_sync(&self, legacy: StreamHandle, dst: &Span, src: &Span) -> Result<()> {
        if is_linked(src, dst) || is_linked(dst, src) {
            self.copy(legacy, dst, src)?;
            return self.stream_synchronize(legacy);
        }
        let _entered = self.enter_of("synchronous copy", legacy.0)?;
        let bytes = length("synchronous copy", dst, src)?;
        cu!(
            self,
            "cuMemcpy",
            copy_sync(dst.address(), src.address(), bytes),
            "both spans have `bytes` bytes by `length`. Between two devices the copy may run after \
             the call has returned, and the tokens outlive it"
        )
    }

    pub(super) fn fill(&self, stream: StreamHandle, dst: &Span, value: u8) -> Result<()> {
        let _entered = self.enter_of("fill", stream.0)?;
        let bytes = usize::try_from(dst.bytes()).unwrap_or(usize::MAX);
        cu!(
            self,
            "cuMemsetD8Async",
            fill(dst.address(), value, bytes, raw(stream.0)),
            "the span has `bytes` bytes, and its token outlives the fill: false if the memory is \
             freed before the stream reaches the fill"
        )
    }

    /// Makes a synchronous fill. The host waits as law A18 demands. `legacy` is the legacy stream
    /// of a device.
    pub(super) fn fill_sync(&self, legacy: StreamHandle, dst: &Span, value: u8) -> Result<()> {
        if dst.memory().space() == Space::Pinned {
            self.fill(legacy, dst, value)?;
            return self.stream_synchronize(legacy);
        }
        let _entered = self.enter_of("synchronous fill", legacy.0)?;
        let bytes = usize::try_from(dst.bytes()).unwrap_or(usize::MAX);
        cu!(
            self,
            "cuMemsetD8",
            fill_sync(dst.address(), value, bytes),
            "the span has `bytes` bytes. Device memory is filled after the call has returned, and \
             the token outlives that"
        )
    }
}

/// Whether `one` is page-locked memory and `other` is device memory. This library makes a
/// synchronous copy between the two as an asynchronous copy and a wait (law A18). `cuMemcpy` has
/// the same effect. But while `cuMemcpy` waits, the driver delays other threads that create
/// streams, events or page-locked memory (measured on an H200, driver 580).
fn is_linked(one: &Span, other: &Span) -> bool {
    let spaces = (one.memory().space(), other.memory().space());
    matches!(spaces, (Space::Pinned, Space::Device(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Bytes;
    use crate::device::memory::Memory;
    use cudarc::driver::sys::CUmemcpySrcAccessOrder as Theirs;

    #[test]
    fn source_orders_have_the_numbers_of_the_reference_binding() {
        let theirs = [
            Theirs::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
            Theirs::CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
            Theirs::CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
        ];
        let ours = [SourceOrder::Stream, SourceOrder::DuringCall, SourceOrder::Any];
        let ours = ours.map(|order| u32::try_from(source_order(order)).expect("a small number"));
        assert_eq!(ours, theirs.map(|order| order as u32));
    }

    #[test]
    fn spans_that_differ_in_length_or_overlap_are_refused() {
        let memory = Memory::pageable(Bytes(64)).expect("a few bytes");
        let refused = |dst, src| {
            let error = length("copy", &memory.span(dst), &memory.span(src)).expect_err("refused");
            (error.kind(), error.code())
        };
        assert_eq!(refused(0..8, 8..17), (ErrorKind::InvalidValue, Some(INVALID_VALUE)));
        assert_eq!(refused(0..8, 7..15), (ErrorKind::InvalidValue, Some(INVALID_VALUE)));
        assert_eq!(length("copy", &memory.span(0..8), &memory.span(8..16)).expect("apart"), 8);
    }
}
