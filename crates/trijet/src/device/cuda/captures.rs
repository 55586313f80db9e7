//! Captures of streams into graphs.

use super::api::need;
use super::context::{CudaDriver, cu, device_of, pack, raw};
use super::error::check;
use super::graph::CudaGraph;
use crate::base::error::Result;
use crate::device::driver::{CaptureMode, CaptureState, GraphHandle, StreamHandle};
use std::ffi::c_int;
use std::ptr::null_mut;

/// Members of `CUstreamCaptureStatus`.
const ACTIVE: c_int = 1;
const INVALIDATED: c_int = 2;

fn number(mode: CaptureMode) -> c_int {
    match mode {
        CaptureMode::Global => 0,
        CaptureMode::ThreadLocal => 1,
        CaptureMode::Relaxed => 2,
    }
}

impl CudaDriver {
    pub(super) fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> Result<()> {
        let _entered = self.enter_of("capture begin", stream.0)?;
        cu!(
            self,
            "cuStreamBeginCapture",
            capture_begin(raw(stream.0), number(mode)),
            "the stream is live; from here on its calls become a graph, which its owner wants"
        )
    }

    pub(super) fn capture_end(&self, stream: StreamHandle) -> Result<GraphHandle> {
        let device = device_of(stream.0);
        let _entered = self.enter_of("capture end", stream.0)?;
        let mut graph = null_mut();
        cu!(
            self,
            "cuStreamEndCapture",
            capture_end(raw(stream.0), &raw mut graph),
            "the stream is live; the call writes the local variable `graph`"
        )?;
        let graph = CudaGraph {
            device,
            graph: pack(device, graph),
            nodes: Vec::new(),
            exec: None,
            is_uploaded: false,
        };
        let graph = self.graphs.add(graph);
        if let Err(error) = self.graph_ready(graph) {
            self.graph_destroy(graph)?;
            return Err(error);
        }
        Ok(graph)
    }

    pub(super) fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState> {
        let _entered = self.enter_of("capture state", stream.0)?;
        let mut status: c_int = 0;
        cu!(
            self,
            "cuStreamIsCapturing",
            stream_is_capturing(raw(stream.0), &raw mut status),
            "the stream is live; the call writes the local variable `status`"
        )?;
        Ok(match status {
            ACTIVE => CaptureState::Active,
            INVALIDATED => CaptureState::Invalidated,
            _ => CaptureState::None,
        })
    }
}
