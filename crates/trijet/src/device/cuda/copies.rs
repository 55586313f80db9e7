//! Copies and fills.

use super::api::need;
use super::context::{CudaDriver, cu, raw};
use super::error::check;
use crate::base::error::Result;
use crate::device::driver::StreamHandle;
use crate::device::memory::{Space, Span};
use std::ffi::c_void;

impl CudaDriver {
    pub(super) fn copy(&self, stream: StreamHandle, dst: &Span, src: &Span) -> Result<()> {
        self.enter_of("copy", stream.0)?;
        let bytes = usize::try_from(dst.bytes().min(src.bytes())).unwrap_or(usize::MAX);
        let (to, from, stream) = (dst.address(), src.address(), raw(stream.0));
        match (src.memory().space(), dst.memory().space()) {
            (Space::Pinned, Space::Device(_)) => cu!(
                self,
                "cuMemcpyHtoDAsync",
                copy_up(to, from as *const c_void, bytes, stream),
                "two live spans of at least `bytes`; the source is page-locked and outlives it"
            ),
            (Space::Device(_), Space::Pinned) => cu!(
                self,
                "cuMemcpyDtoHAsync",
                copy_down(to as *mut c_void, from, bytes, stream),
                "two live spans of at least `bytes`; the target is page-locked and outlives it"
            ),
            _ => cu!(
                self,
                "cuMemcpyAsync",
                copy(to, from, bytes, stream),
                "two live spans of at least `bytes` in unified addressing"
            ),
        }
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
}
