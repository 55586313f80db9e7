//! Copies and fills.
//!
//! Page-locked and pageable bytes are tokens of the floors above, which give none back before the
//! operations that use it are known to be complete. So an asynchronous copy may read or write
//! them after the call, whatever the kind of memory.

use super::api::{CopyAttributes, MemLocation, need};
use super::context::{CudaDriver, cu, raw};
use super::error::{INVALID_VALUE, check, refused};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::driver::{CopySpans, SourceOrder, StreamHandle};
use crate::device::memory::{Space, Span};
use std::ffi::{c_int, c_void};

/// The length of a copy.
///
/// # Errors
/// `InvalidValue` when the spans differ in length, which the driver has no means to see, or
/// overlap, which it leaves undefined.
fn length(op: &'static str, dst: &Span, src: &Span) -> Result<usize> {
    if dst.bytes() != src.bytes() || dst.overlaps(src) {
        return Err(mismatch(op, dst, src));
    }
    Ok(usize::try_from(dst.bytes()).unwrap_or(usize::MAX))
}

#[cold]
fn mismatch(op: &'static str, dst: &Span, src: &Span) -> Error {
    let cause = format!("{} bytes into {}, or overlapping", src.bytes(), dst.bytes());
    refused(op, INVALID_VALUE, cause)
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
        self.enter_of("copy", stream.0)?;
        let bytes = length("copy", dst, src)?;
        let (to, from, stream) = (dst.address(), src.address(), raw(stream.0));
        match (src.memory().space(), dst.memory().space()) {
            (Space::Pinned | Space::Pageable, Space::Device(_)) => cu!(
                self,
                "cuMemcpyHtoDAsync",
                copy_up(to, from as *const c_void, bytes, stream),
                "two live spans of `bytes`; the source's token outlives the copy"
            ),
            (Space::Device(_), Space::Pinned | Space::Pageable) => cu!(
                self,
                "cuMemcpyDtoHAsync",
                copy_down(to as *mut c_void, from, bytes, stream),
                "two live spans of `bytes`; the target's token outlives the copy"
            ),
            (Space::Device(_), Space::Device(_))
            | (Space::Pinned | Space::Pageable, Space::Pinned | Space::Pageable) => cu!(
                self,
                "cuMemcpyAsync",
                copy(to, from, bytes, stream),
                "two live spans of `bytes` in unified addressing, whose tokens outlive the copy"
            ),
        }
    }

    pub(super) fn copy_batch(
        &self,
        stream: StreamHandle,
        copies: &[CopySpans],
        order: SourceOrder,
    ) -> Result<()> {
        self.enter_of("copy batch", stream.0)?;
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
        // One set of attributes, from the first copy on.
        let mut first = 0usize;
        let (to, from, lengths) = (targets.as_mut_ptr(), sources.as_mut_ptr(), sizes.as_mut_ptr());
        let (attributes, first, count) = (&raw mut attributes, &raw mut first, copies.len());
        if self.api.copy_batch.is_some() {
            return cu!(
                self,
                "cuMemcpyBatchAsync",
                copy_batch(to, from, lengths, count, attributes, first, 1, raw(stream.0)),
                "arrays of `count` live spans, read during the call; the tokens outlive the batch"
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
            "as for the newer form, and the index of the failed copy to write"
        )
    }

    /// `legacy` is the legacy stream of a device.
    pub(super) fn copy_now(&self, legacy: StreamHandle, dst: &Span, src: &Span) -> Result<()> {
        if is_linked(src, dst) || is_linked(dst, src) {
            self.copy(legacy, dst, src)?;
            return self.stream_synchronize(legacy);
        }
        self.enter_of("copy now", legacy.0)?;
        let bytes = length("copy now", dst, src)?;
        cu!(
            self,
            "cuMemcpy",
            copy_now(dst.address(), src.address(), bytes),
            "two live spans of `bytes` in unified addressing, whose tokens outlive the copy"
        )
    }

    pub(super) fn fill(&self, stream: StreamHandle, dst: &Span, value: u8) -> Result<()> {
        self.enter_of("fill", stream.0)?;
        let bytes = usize::try_from(dst.bytes()).unwrap_or(usize::MAX);
        cu!(
            self,
            "cuMemsetD8Async",
            fill(dst.address(), value, bytes, raw(stream.0)),
            "a live span of `bytes`"
        )
    }

    /// `legacy` is the legacy stream of a device.
    pub(super) fn fill_now(&self, legacy: StreamHandle, dst: &Span, value: u8) -> Result<()> {
        if dst.memory().space() == Space::Pinned {
            self.fill(legacy, dst, value)?;
            return self.stream_synchronize(legacy);
        }
        self.enter_of("fill now", legacy.0)?;
        let bytes = usize::try_from(dst.bytes()).unwrap_or(usize::MAX);
        cu!(
            self,
            "cuMemsetD8",
            fill_now(dst.address(), value, bytes),
            "a live span of `bytes`; its token outlives the fill"
        )
    }
}

/// Between page-locked memory and a device a copy at once is an asynchronous one that is waited for
/// (law A18). `cuMemcpy` means the same, but while it waits the driver holds up other threads that
/// create streams, events or page-locked memory (seen on an H200, driver 580).
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
