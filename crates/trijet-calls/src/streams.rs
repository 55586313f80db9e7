//! The streams of the program: a lane of the ledger for each stream, with its class.

use std::collections::HashMap;
use trijet_cupti::stream_key::NON_BLOCKING;
use trijet_ledger::base::id::{DeviceId, LaneId, Position};
use trijet_ledger::base::ledger::StreamClass;

pub(crate) use trijet_cupti::stream_key::StreamKey;

/// A stream, with the number of its last operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamOf {
    pub(crate) class: StreamClass,
    pub(crate) device: DeviceId,
    pub(crate) position: Position,
}

/// The streams by what calls name.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamTable {
    by_key: HashMap<StreamKey, StreamOf>,
    /// The device of each context.
    devices: HashMap<u32, DeviceId>,
    lanes: u32,
}

impl StreamTable {
    /// Adds a context. The first context of a device has the number of the device, and a further
    /// one counts as another device, because each context has a legacy stream of its own.
    pub(crate) fn add_context(&mut self, context: u32, device: u32) {
        const APART: u32 = 1000;
        let is_taken = self.devices.values().any(|one| one.0 == device);
        let number = if is_taken { APART.saturating_add(context) } else { device };
        self.devices.entry(context).or_insert(DeviceId(number));
    }

    pub(crate) fn device(&self, context: u32) -> DeviceId {
        self.devices.get(&context).copied().unwrap_or(DeviceId(0))
    }

    /// Adds a stream that the program creates, in place of a former stream with its handle.
    pub(crate) fn create(&mut self, handle: u64, context: u32, flags: u64) -> StreamOf {
        let class = match flags & NON_BLOCKING {
            0 => StreamClass::Blocking,
            _ => StreamClass::NonBlocking,
        };
        self.insert(StreamKey::Created(handle), class, context)
    }

    fn insert(&mut self, key: StreamKey, class: StreamClass, context: u32) -> StreamOf {
        self.lanes += 1;
        let position = Position { lane: LaneId(self.lanes), seq: 0 };
        let made = StreamOf { class, device: self.device(context), position };
        self.by_key.insert(key, made);
        made
    }

    /// All streams.
    pub(crate) fn all(&self) -> Vec<StreamOf> {
        let mut all: Vec<_> = self.by_key.values().copied().collect();
        all.sort_by_key(|one| one.position.lane);
        all
    }

    pub(crate) fn destroy(&mut self, handle: u64) {
        self.by_key.remove(&StreamKey::Created(handle));
    }

    /// The stream of a key. A stream whose creation was not recorded counts as blocking, which
    /// orders more.
    pub(crate) fn of(&mut self, key: StreamKey, context: u32) -> StreamOf {
        if let Some(found) = self.by_key.get(&key) {
            return *found;
        }
        let class = match key {
            StreamKey::Legacy(_) => StreamClass::Legacy,
            StreamKey::OfThread(..) => StreamClass::PerThread,
            StreamKey::Created(_) => StreamClass::Blocking,
        };
        self.insert(key, class, context)
    }

    /// Counts an operation of a stream, and returns the stream with the number of the operation.
    pub(crate) fn count(&mut self, key: StreamKey, context: u32) -> StreamOf {
        let mut found = self.of(key, context);
        found.position.seq += 1;
        self.by_key.insert(key, found);
        found
    }
}
