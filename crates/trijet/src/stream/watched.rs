//! The allocations that a device watches for undeclared writes: live allocations with red zones
//! around them, and dropped allocations. The memory of a dropped allocation is checked before it
//! can be allocated again.
#![forbid(unsafe_code)]

use crate::base::units::Bytes;
use crate::device::memory::Span;
use crate::order::track::Track;
use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};

/// An allocation with red zones.
#[derive(Debug, Clone)]
pub(crate) struct Zoned {
    /// The span of the buffer with the red zones around it.
    pub(crate) whole: Span,
    /// The size of the buffer in bytes.
    pub(crate) bytes: u64,
    /// The call that allocated the buffer.
    pub(crate) site: &'static Location<'static>,
    /// Whether the fills of the red zones were enqueued. Before the fills, the zones cannot be
    /// checked.
    pub(crate) is_filled: Arc<AtomicBool>,
}

/// An allocation whose buffer was dropped.
#[derive(Debug)]
pub(crate) struct Dropped {
    pub(crate) of: Zoned,
    /// The stamps of the allocation, which name its last users.
    pub(crate) track: Track,
    /// The number of the allocation in the heap.
    pub(crate) number: u32,
    /// Whether, since the drop, the red zones were checked and the bytes of the buffer were filled
    /// with poison.
    pub(crate) is_poisoned: bool,
}

/// The allocations whose buffers were dropped.
#[derive(Debug, Default)]
struct DroppedOnes {
    all: Vec<Dropped>,
    /// The total size of these allocations in bytes, including their red zones.
    bytes: u64,
}

/// A weak reference to the block of a live allocation. This module does not know the type of the
/// block.
type LiveBlock = Weak<dyn Any + Send + Sync>;

/// The allocations that a device watches.
#[derive(Default)]
pub(crate) struct Watched {
    live: Mutex<Vec<(LiveBlock, Zoned)>>,
    dropped: Mutex<DroppedOnes>,
    /// The damage that was found and not yet reported.
    pub(crate) found: Mutex<Vec<Damage>>,
}

/// Bytes that were written although no operation declared the write, see
/// [`Device::check_memory`](crate::Device::check_memory).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Where the damaged bytes are.
    pub place: DamagePlace,
    /// The first and the last damaged byte, counted from the start of the buffer. Bytes before the
    /// buffer have negative numbers.
    pub bytes: (i64, i64),
    /// The size of the buffer.
    pub size: Bytes,
    /// The call that allocated the buffer.
    pub site: &'static Location<'static>,
}

/// The place of [`Damage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DamagePlace {
    /// Before the first byte of the buffer.
    Before,
    /// After the last byte of the buffer.
    Behind,
    /// In the memory of the buffer, after its drop.
    AfterDrop,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes: (from, to), size, site, place } = self;
        let how = match place {
            DamagePlace::Before => "before the start",
            DamagePlace::Behind => "after the end",
            DamagePlace::AfterDrop => "after the drop",
        };
        write!(
            f,
            "bytes {from} to {to} were written {how} of a buffer of {} bytes, which was allocated at {site}",
            size.0
        )
    }
}

impl Watched {
    /// Watches a live allocation.
    pub(crate) fn watch(&self, block: Arc<dyn Any + Send + Sync>, of: Zoned) {
        let mut live = self.live.lock().expect("no thread panicked while it held this lock");
        if live.len() == live.capacity() {
            live.retain(|(block, _)| block.strong_count() > 0);
        }
        live.push((Arc::downgrade(&block), of));
    }

    /// The live blocks, with the spans of their red zones.
    pub(crate) fn live(&self) -> Vec<(Arc<dyn Any + Send + Sync>, Zoned)> {
        let live = self.live.lock().expect("no thread panicked while it held this lock");
        live.iter().filter_map(|(block, of)| Some((block.upgrade()?, of.clone()))).collect()
    }

    /// Watches allocations whose buffers were dropped.
    pub(crate) fn add_dropped(&self, more: impl IntoIterator<Item = Dropped>) {
        let mut dropped = self.dropped.lock().expect("no thread panicked while it held this lock");
        for one in more {
            dropped.bytes += one.of.whole.bytes();
            dropped.all.push(one);
        }
    }

    pub(crate) fn take_dropped(&self) -> Vec<Dropped> {
        std::mem::take(
            &mut *self.dropped.lock().expect("no thread panicked while it held this lock"),
        )
        .all
    }

    /// The total size of the dropped allocations in bytes, including their red zones.
    pub(crate) fn dropped_bytes(&self) -> u64 {
        self.dropped.lock().expect("no thread panicked while it held this lock").bytes
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}
