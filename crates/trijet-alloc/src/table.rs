//! The live allocations of a device, by their addresses.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trijet::{Buffer, Result, Stream};

/// The number of shards of the table, a power of two. Each shard has its own lock.
const SHARDS: usize = 64;
/// The number of low address bits that are 0 for every block of a heap, because blocks begin at
/// multiples of 256 bytes.
const GRANULE_BITS: u32 = 8;

/// A live allocation.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) buffer: Buffer<u8>,
    /// The streams that were recorded for the allocation. Work in these streams may use the memory,
    /// and work in the stream that frees the allocation may use it too.
    pub(crate) others: Vec<Arc<Stream>>,
}

type Shard = HashMap<u64, Block>;

/// The live allocations of a device.
#[derive(Debug)]
pub(crate) struct Table([Mutex<Shard>; SHARDS]);

impl Default for Table {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Table {
    /// Locks the shard for an address. No code of the caller runs under the lock.
    pub(crate) fn shard(&self, address: u64) -> MutexGuard<'_, Shard> {
        // The addresses of neighbouring blocks differ in low bits. The multiplication moves these
        // bits to the top.
        let mixed = (address >> GRANULE_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (mixed >> (u64::BITS - SHARDS.ilog2())) as usize;
        self.0[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, address: u64, block: Block) {
        self.shard(address).insert(address, block);
    }

    /// Calls `run` with each live allocation. Stops at the first error of `run`, and returns this
    /// error.
    pub(crate) fn each(&self, mut run: impl FnMut(&mut Block) -> Result<()>) -> Result<()> {
        for shard in &self.0 {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.values_mut().try_for_each(&mut run)?;
        }
        Ok(())
    }

    pub(crate) fn has(&self, address: u64) -> bool {
        self.shard(address).contains_key(&address)
    }
}
