//! Sources of blocks. A source supplies the memory of a block, and gets the memory back when the
//! block is dropped.
#![forbid(unsafe_code)]

use crate::device::memory::Memory;
use crate::order::track::Track;
use crate::stream::shared::OpenDevice;
use std::fmt;
use std::sync::Arc;

/// A source of blocks. The function that makes the blocks of a source is in the same file as the
/// implementation of this trait.
pub(crate) trait BlockSource: fmt::Debug + Send + Sync {
    /// The device that the blocks belong to.
    fn device(&self) -> &OpenDevice;

    /// A counted handle of the device that the blocks belong to.
    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice>;

    /// Takes the memory of a block back. The caller has dropped the last buffer of the block. The
    /// operations in `track` may still use the memory; this function does not wait for them.
    /// `number` is the number of the block in this source.
    fn give_back(self: Arc<Self>, memory: &Memory, track: &mut Track, number: u32);
}
