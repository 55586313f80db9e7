//! Blocks that are allocated in a recording. Only operations of the recorded graph use the memory.
#![forbid(unsafe_code)]

use super::block::Block;
use super::source::BlockSource;
use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::device::memory::Memory;
use crate::order::calls::recorder::{Home, Recorder, Temporary};
use crate::order::track::Track;
use crate::stream::Stream;
use crate::stream::shared::OpenDevice;
use std::sync::Arc;

#[derive(Debug)]
struct TemporarySource {
    device: Arc<OpenDevice>,
    home: Arc<dyn Home>,
}

/// Allocates `bytes` of memory for the graph that `recorder` records.
pub(super) fn alloc(stream: &Stream, recorder: &dyn Recorder, bytes: Bytes) -> Result<Arc<Block>> {
    let Temporary { span, track, home } = recorder.alloc(stream.device().id, bytes)?;
    let source = TemporarySource { device: Arc::clone(stream.device()), home };
    Ok(Block::with_track(Arc::new(source), span, track))
}

impl BlockSource for TemporarySource {
    fn device(&self) -> &OpenDevice {
        &self.device
    }

    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice> {
        Arc::clone(&self.device)
    }

    /// Makes the bytes available to later allocations of the recording. The memory stays with the
    /// graph.
    fn give_back(self: Arc<Self>, _: &Memory, track: &mut Track, _: u32) {
        self.home.give_back(track.id);
    }
}
