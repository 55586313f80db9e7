//! The verbs of pools, memory and peers.
#![forbid(unsafe_code)]

use super::machine::{Answer, Failure, FreedBy, Machine, Object, VerbResult};
use super::text::{Words, number, option};
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{Action, PoolAccess, PoolAttribute, PoolHandle};
use crate::device::memory::Memory;
use std::cell::Cell;

/// The attributes whose value the laws define: the three switches of reuse, and the threshold.
const DEFINED: std::ops::RangeInclusive<i32> = 1..=4;

impl Machine<'_> {
    fn pool_named(&self, name: &str) -> VerbResult<PoolHandle> {
        match self.named(name)? {
            Object::Pool(pool) => Ok(pool),
            _ => Err(Failure::Unclear),
        }
    }

    /// `pool NAME [max N] [on D]`
    pub(super) fn pool(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, options) = (words.word()?, words.rest());
        let device = self.device_of(&options)?;
        let max = match option(&options, "max") {
            Some(word) => number(word).ok_or(Failure::Unclear)?,
            None => 0,
        };
        let pool = self.driver.pool_create(device, Bytes(max))?;
        self.bind(name, Object::Pool(pool))
    }

    /// `default NAME [on D]`
    pub(super) fn pool_default(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, options) = (words.word()?, words.rest());
        let device = self.device_of(&options)?;
        let pool = self.driver.pool_default(device)?;
        self.lend(name, Object::Pool(pool))
    }

    /// `current NAME [on D]`
    pub(super) fn pool_current(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, options) = (words.word()?, words.rest());
        let device = self.device_of(&options)?;
        let pool = self.driver.pool_current(device)?;
        self.lend(name, Object::Pool(pool))
    }

    /// `set-current POOL [on D]`
    pub(super) fn pool_set_current(&mut self, words: &mut Words<'_>) -> Answer {
        let pool = self.pool_named(words.word()?)?;
        let device = self.device_of(&words.rest())?;
        self.driver.pool_set_current(device, pool)?;
        Ok(String::new())
    }

    /// `get POOL ATTRIBUTE`
    pub(super) fn pool_get(&self, words: &mut Words<'_>) -> Answer {
        let pool = self.pool_named(words.word()?)?;
        let attribute = PoolAttribute(words.small()?);
        let value = self.driver.pool_get(pool, attribute)?;
        let defined = DEFINED.contains(&attribute.0);
        Ok(if defined { value.to_string() } else { String::new() })
    }

    /// `set POOL ATTRIBUTE VALUE`
    pub(super) fn pool_set(&self, words: &mut Words<'_>) -> Answer {
        let pool = self.pool_named(words.word()?)?;
        let attribute = PoolAttribute(words.small()?);
        self.driver.pool_set(pool, attribute, words.number()?)?;
        Ok(String::new())
    }

    /// `compare POOL ATTRIBUTE VALUE`: less, equal or more.
    pub(super) fn pool_compare(&self, words: &mut Words<'_>) -> Answer {
        let pool = self.pool_named(words.word()?)?;
        let attribute = PoolAttribute(words.small()?);
        let value = self.driver.pool_get(pool, attribute)?;
        Ok(match value.cmp(&words.number()?) {
            std::cmp::Ordering::Less => "less",
            std::cmp::Ordering::Equal => "equal",
            std::cmp::Ordering::Greater => "more",
        }
        .to_owned())
    }

    /// `marks POOL`: compares statistics of a pool. The used bytes are compared with the reserved
    /// bytes, and each of the two with its maximum so far. The definitions of the statistics decide
    /// the results, so every driver must print the same.
    pub(super) fn pool_marks(&self, words: &mut Words<'_>) -> Answer {
        use PoolAttribute as A;
        let pool = self.pool_named(words.word()?)?;
        let of = |attribute| self.driver.pool_get(pool, attribute);
        let (reserved, reserved_high) = (of(A::RESERVED)?, of(A::RESERVED_HIGH)?);
        let (used, used_high) = (of(A::USED)?, of(A::USED_HIGH)?);
        let sign = |a: u64, b: u64| if a <= b { "<=" } else { ">" };
        Ok(format!(
            "used{}reserved used{}used-high reserved{}reserved-high",
            sign(used, reserved),
            sign(used, used_high),
            sign(reserved, reserved_high)
        ))
    }

    /// `trim POOL KEEP`
    pub(super) fn pool_trim(&self, words: &mut Words<'_>) -> Answer {
        let pool = self.pool_named(words.word()?)?;
        self.driver.pool_trim(pool, Bytes(words.number()?))?;
        Ok(String::new())
    }

    /// `set-access POOL DEVICE none|read|read-write`
    pub(super) fn pool_set_access(&mut self, words: &mut Words<'_>) -> Answer {
        let pool = self.pool_named(words.word()?)?;
        let device = DeviceId(words.small()?);
        self.use_device(device);
        let access = match words.word()? {
            "none" => PoolAccess::None,
            "read" => PoolAccess::Read,
            "read-write" => PoolAccess::ReadWrite,
            _ => return Err(Failure::Unclear),
        };
        self.driver.pool_set_access(pool, device, access)?;
        Ok(String::new())
    }

    /// `access POOL DEVICE`
    pub(super) fn pool_access(&self, words: &mut Words<'_>) -> Answer {
        let pool = self.pool_named(words.word()?)?;
        Ok(match self.driver.pool_access(pool, DeviceId(words.small()?))? {
            PoolAccess::None => "none",
            PoolAccess::Read => "read",
            PoolAccess::ReadWrite => "read-write",
        }
        .to_owned())
    }

    /// `same A B`: whether two names mean one pool, or two allocations have one address.
    pub(super) fn same(&self, words: &mut Words<'_>) -> Answer {
        let (a, b) = (self.named(words.word()?)?, self.named(words.word()?)?);
        let same = match (a, b) {
            (Object::Pool(a), Object::Pool(b)) => a == b,
            (Object::Memory(a, _), Object::Memory(b, _)) => a.address() == b.address(),
            _ => return Err(Failure::Unclear),
        };
        Ok(if same { "same" } else { "different" }.to_owned())
    }

    /// `alloc NAME STREAM BYTES [pool P]`
    pub(super) fn alloc(&mut self, words: &mut Words<'_>) -> Answer {
        let name = words.word()?;
        let (stream, _) = self.stream_named(words)?;
        let bytes = Bytes(words.number()?);
        let pool = option(&words.rest(), "pool").map(|name| self.pool_named(name)).transpose()?;
        let memory = Cell::new(None);
        self.driver.submit(stream, &Action::Alloc { pool, bytes, memory: &memory })?;
        let memory = memory.take().expect("the driver allocated the memory");
        self.bind(name, Object::Memory(memory, FreedBy::Ordered))
    }

    /// The memory with this name, even if it was freed.
    fn memory_named(&self, name: &str) -> VerbResult<Memory> {
        match self.named(name)? {
            Object::Memory(memory, _) => Ok(memory),
            _ => Err(Failure::Unclear),
        }
    }

    /// Notes that memory was freed. The name keeps a token of the memory, so that a sequence can
    /// free it again.
    fn gone(&mut self, name: &str, memory: Memory) -> Answer {
        self.bind(name, Object::Memory(memory, FreedBy::Gone))
    }

    /// `free NAME STREAM`
    pub(super) fn free(&mut self, words: &mut Words<'_>) -> Answer {
        let name = words.word()?;
        let memory = self.memory_named(name)?;
        let (stream, _) = self.stream_named(words)?;
        self.driver.submit(stream, &Action::Free(&memory))?;
        self.gone(name, memory)
    }

    /// `device-alloc NAME BYTES [on D]`
    pub(super) fn device_alloc(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, bytes) = (words.word()?, Bytes(words.number()?));
        let device = self.device_of(&words.rest())?;
        let memory = self.driver.device_alloc(device, bytes)?;
        self.bind(name, Object::Memory(memory, FreedBy::Device))
    }

    /// `device-free NAME`
    pub(super) fn device_free(&mut self, words: &mut Words<'_>) -> Answer {
        let name = words.word()?;
        let memory = self.memory_named(name)?;
        self.driver.device_free(&memory)?;
        self.gone(name, memory)
    }

    /// `pinned NAME BYTES [on D]`
    pub(super) fn pinned(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, bytes) = (words.word()?, Bytes(words.number()?));
        let device = self.device_of(&words.rest())?;
        let memory = self.driver.pinned_alloc(device, bytes)?;
        self.bind(name, Object::Memory(memory, FreedBy::Pinned))
    }

    /// `pinned-free NAME`
    pub(super) fn pinned_free(&mut self, words: &mut Words<'_>) -> Answer {
        let name = words.word()?;
        let memory = self.memory_named(name)?;
        self.driver.pinned_free(&memory)?;
        self.gone(name, memory)
    }

    /// `pageable NAME BYTES`
    pub(super) fn pageable(&mut self, words: &mut Words<'_>) -> Answer {
        let (name, bytes) = (words.word()?, Bytes(words.number()?));
        let memory = Memory::pageable(bytes)?;
        self.bind(name, Object::Memory(memory, FreedBy::Dropped))
    }

    fn pair(&mut self, words: &mut Words<'_>) -> VerbResult<(DeviceId, DeviceId)> {
        let (device, peer) = (DeviceId(words.small()?), DeviceId(words.small()?));
        self.use_device(device);
        self.use_device(peer);
        Ok((device, peer))
    }

    /// `peer-possible DEVICE PEER`
    pub(super) fn peer_possible(&mut self, words: &mut Words<'_>) -> Answer {
        let (device, peer) = self.pair(words)?;
        let possible = self.driver.peer_possible(device, peer)?;
        Ok(if possible { "possible" } else { "impossible" }.to_owned())
    }

    /// `peer-enable DEVICE PEER`
    pub(super) fn peer_enable(&mut self, words: &mut Words<'_>) -> Answer {
        let (device, peer) = self.pair(words)?;
        self.driver.peer_enable(device, peer)?;
        Ok(String::new())
    }

    /// `peer-disable DEVICE PEER`
    pub(super) fn peer_disable(&mut self, words: &mut Words<'_>) -> Answer {
        let (device, peer) = self.pair(words)?;
        self.driver.peer_disable(device, peer)?;
        Ok(String::new())
    }
}
