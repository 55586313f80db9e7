//! Sources of blocks. A source supplies the memory of a block and takes it back.
#![forbid(unsafe_code)]

use crate::device::memory::Memory;
use crate::order::track::Track;
use crate::stream::shared::OpenDevice;
use std::fmt;
use std::sync::Arc;

/// A source of blocks. Each file that implements it also has the function that makes the blocks.
pub(crate) trait BlockSource: fmt::Debug + Send + Sync {
    /// The device that the blocks belong to.
    fn device(&self) -> &OpenDevice;

    /// A handle of the device that the blocks belong to.
    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice>;

    /// Takes the memory of a block back when its last buffer is dropped. Operations in `track` may
    /// still use the memory; this does not wait for them. `number` is the number that the source
    /// gave the block.
    fn give_back(self: Arc<Self>, memory: &Memory, track: &mut Track, number: u32);
}
