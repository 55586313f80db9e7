//! Captures of streams of a host device: the calls that become part of a capture or are refused,
//! and the graph that results.
#![forbid(unsafe_code)]

use super::captured::{At, OpenCapture, State};
use super::graphs::launches_graph;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::device::driver::{
    Action, CaptureMode, CaptureState, Captures, EventHandle, GraphHandle, Graphs, StreamHandle,
};
use crate::device::host::HostDriver;
use std::sync::MutexGuard;

impl HostDriver {
    fn captured(&self) -> Option<MutexGuard<'_, State>> {
        if !self.captures.any() || launches_graph() {
            return None;
        }
        Some(self.captures.lock())
    }

    fn at(&self, op: &'static str, stream: StreamHandle) -> Result<At> {
        let mut guard = self.enter();
        let state = &mut *guard;
        let thread = state.baton.thread_key();
        let slot = state.queues.resolve(op, stream, || thread)?;
        let found = &state.queues.slots[slot.index()];
        Ok(At { slot, device: found.device, kind: found.kind, thread })
    }

    /// If the stream is captured, adds the operation to the capture and returns true.
    pub(super) fn capture_takes(&self, stream: StreamHandle, action: &Action<'_>) -> Result<bool> {
        if self.captured().is_none() {
            return Ok(false);
        }
        let at = self.at(action.label(), stream)?;
        self.captures.lock().add(at, action)
    }

    /// If the stream is captured, adds the record to the capture and returns true.
    pub(super) fn capture_records(&self, event: EventHandle, stream: StreamHandle) -> Result<bool> {
        if self.captured().is_none() {
            return Ok(false);
        }
        let at = self.at("event record", stream)?;
        self.captures.lock().record(at, event)
    }

    /// If the stream is captured, or the event was recorded in a capture, makes the wait a part of
    /// the capture and returns true.
    pub(super) fn capture_waits(&self, stream: StreamHandle, event: EventHandle) -> Result<bool> {
        if self.captured().is_none() {
            return Ok(false);
        }
        let at = self.at("stream wait", stream)?;
        let was_recorded = self.enter().queues.snapshot("stream wait", event)?.is_some();
        self.captures.lock().wait(at, event, was_recorded)
    }

    pub(super) fn refuse_captured(&self, op: &'static str, stream: StreamHandle) -> Result<()> {
        if self.captured().is_none() {
            return Ok(());
        }
        let at = self.at(op, stream)?;
        self.captures.lock().refuse_stream(op, at)
    }

    pub(super) fn refuse_captured_event(&self, op: &'static str, event: EventHandle) -> Result<()> {
        self.captured().map_or(Ok(()), |mut state| state.refuse_event(op, event))
    }

    pub(super) fn refuse_captured_device(&self, device: DeviceId) -> Result<()> {
        self.captured().map_or(Ok(()), |mut state| state.refuse_device(device))
    }

    pub(super) fn forget_captured_event(&self, event: EventHandle) {
        if let Some(mut state) = self.captured() {
            state.forget(event);
        }
    }
}

impl Captures for HostDriver {
    fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> Result<()> {
        let at = self.at("capture begin", stream)?;
        self.captures.note();
        self.captures.lock().begin(at, mode)
    }

    fn capture_end(&self, stream: StreamHandle) -> Result<GraphHandle> {
        let at = self.at("capture end", stream)?;
        let OpenCapture { device, nodes, .. } = self.captures.lock().end(at)?;
        let graph = self.graph_create(device)?;
        for (work, after) in &nodes {
            self.graph_add(graph, device, work.node(), after)?;
        }
        self.graph_ready(graph)?;
        Ok(graph)
    }

    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState> {
        if self.captured().is_none() {
            return Ok(CaptureState::None);
        }
        let at = self.at("capture state", stream)?;
        self.captures.lock().state(at)
    }
}
