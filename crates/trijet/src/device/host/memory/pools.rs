//! The memory of host devices: pools with their attributes, limits and access, and device memory
//! that belongs to no stream. The laws of reuse (A21 to A26) are here. The bytes of a pool are in
//! its `heap`.
#![forbid(unsafe_code)]

use super::heap::{After, Extent, Heap, growth};
use super::mapped::Ranges;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{PoolAccess, PoolAttribute, PoolHandle};
use crate::device::host::engine::ids::{NodeId, Point, SlotId};
use crate::device::host::engine::queues::Queues;
use crate::device::host::engine::refuse;
use crate::device::host::engine::table::Table;
use crate::device::host::order::May;
use crate::device::memory::{Memory, Space};
use crate::device::region::HostBytes;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Sizes of allocations are rounded up to a multiple of this, as on a GPU (512 bytes measured).
const GRANULE: u64 = 512;

#[derive(Debug)]
pub(super) struct Pool {
    device: DeviceId,
    /// Maximum number of bytes that the pool takes from the device; 0 for no limit.
    max: u64,
    is_default: bool,
    follow: bool,
    opportunistic: bool,
    internal: bool,
    threshold: u64,
    used: u64,
    used_high: u64,
    reserved_high: u64,
    heap: Heap,
    access: BTreeMap<DeviceId, PoolAccess>,
    destroyed: bool,
}

/// The memory of all devices of a host driver.
#[derive(Debug)]
pub(in crate::device::host) struct Pools {
    capacity: u64,
    pools: Table<Pool>,
    defaults: Vec<PoolHandle>,
    current: Vec<PoolHandle>,
    /// The live stream-ordered allocations by address.
    live: BTreeMap<u64, LiveAllocation>,
    /// The addresses of live page-locked memory.
    pinned: BTreeSet<u64>,
    /// The device memory that belongs to no stream, by address: the device and the size in bytes.
    plain: BTreeMap<u64, (DeviceId, u64)>,
    /// Pairs of devices: the first device can use the memory of the second device in `plain` (law
    /// A39).
    peers: Vec<(DeviceId, DeviceId)>,
    pub(in crate::device::host) ranges: Ranges,
}

/// A live stream-ordered allocation.
#[derive(Debug)]
struct LiveAllocation {
    pool: PoolHandle,
    extent: Extent,
    /// The requested size, which the statistics count (measured).
    bytes: u64,
}

/// The result of an allocation.
pub(in crate::device::host) struct Found {
    pub(in crate::device::host) memory: Memory,
    /// The streams whose progress decided which block was found.
    pub(in crate::device::host) depends_on: SmallVec<[SlotId; 2]>,
    /// The frees that the stream has to wait for: a dependency that the driver inserts (law A23).
    pub(in crate::device::host) waits: After,
}

/// The reason why a stream may allocate a free block (law A23). The strongest reason comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PoolReuse {
    /// The block was freed earlier in the same stream, or the host has seen the free complete.
    Own,
    /// The block was freed in another stream. The allocating stream follows the free by events or
    /// by the legacy stream.
    Following,
    /// The next operation of the allocating stream follows the free by the legacy stream. A wait
    /// for the free is added to the stream, because the next user of the memory may be an operation
    /// of another stream.
    Behind,
    /// The free happens to be complete.
    Finished,
    /// The driver inserts a dependency on the free.
    Internal,
}

impl Pool {
    fn new(device: DeviceId, max: u64, is_default: bool) -> Self {
        Self {
            device,
            max,
            is_default,
            follow: true,
            opportunistic: true,
            internal: true,
            threshold: 0,
            used: 0,
            used_high: 0,
            reserved_high: 0,
            heap: Heap::default(),
            access: BTreeMap::new(),
            destroyed: false,
        }
    }

    /// Law A23: the reason why `slot` may allocate a block that follows the frees `after`.
    fn law_a23_reuse(&self, queues: &Queues, slot: SlotId, after: &After) -> PoolReuse {
        let all = after.iter().map(|point| self.reuse_after(queues, slot, point));
        all.max().unwrap_or(PoolReuse::Own)
    }

    /// The reason why `slot` may allocate a block that follows the free at `point`.
    fn reuse_after(&self, queues: &Queues, slot: SlotId, point: &Point) -> PoolReuse {
        let position = point.position();
        let behind = |clock: &VectorClock| clock.covers(position);
        if point.slot == slot || queues.slots[point.slot.index()].seen >= point.seq {
            PoolReuse::Own
        } else if self.follow && queues.slots[slot.index()].knows.covers(position) {
            PoolReuse::Following
        } else if self.follow && queues.barrier_before(slot).is_some_and(behind) {
            PoolReuse::Behind
        } else if self.opportunistic && queues.completed(*point) {
            PoolReuse::Finished
        } else {
            PoolReuse::Internal
        }
    }

    /// The frees that the stream has to wait for before it uses a block.
    fn waits(&self, queues: &Queues, slot: SlotId, after: &After) -> After {
        let held = |point: &&Point| {
            matches!(self.reuse_after(queues, slot, point), PoolReuse::Behind | PoolReuse::Internal)
        };
        after.iter().filter(held).copied().collect()
    }

    /// A block of at least `size` bytes that `slot` may allocate. Of the reasons in `reasons`, the
    /// block has the strongest.
    fn find(
        &self,
        queues: &Queues,
        slot: SlotId,
        size: u64,
        reasons: RangeInclusive<PoolReuse>,
    ) -> Option<Candidate> {
        let ranked = self.heap.candidates(size).map(|(extent, after)| {
            (self.law_a23_reuse(queues, slot, after), extent, after.clone())
        });
        ranked.filter(|(reuse, ..)| reasons.contains(reuse)).min_by_key(|(reuse, ..)| *reuse)
    }

    /// The streams whose progress decides which block `slot` may allocate.
    fn depends_on(&self, queues: &Queues, slot: SlotId, size: u64) -> SmallVec<[SlotId; 2]> {
        let others = self
            .heap
            .candidates(size)
            .filter(|(_, after)| self.law_a23_reuse(queues, slot, after) > PoolReuse::Behind);
        others.flat_map(|(_, after)| after.iter().map(|point| point.slot)).collect()
    }

    /// Takes `more` bytes from the device, and returns a block of `size` bytes in them. `None` if
    /// the system cannot allocate `more` bytes.
    fn grow(&mut self, more: u64, size: u64) -> Option<Extent> {
        if !self.heap.grow(more) {
            return None;
        }
        self.reserved_high = self.reserved_high.max(self.heap.reserved);
        let blocks = self.heap.candidates(size);
        blocks.map(|(extent, _)| extent).max_by_key(|extent| extent.segment())
    }
}

/// A block, the reason why it may be allocated, and the frees that it follows.
type Candidate = (PoolReuse, Extent, After);

/// Whether the low 32 bits, read as an `int`, are not negative.
fn is_int(value: u64) -> bool {
    value & 0x8000_0000 == 0
}

impl Pools {
    pub(in crate::device::host) fn new(capacity: Bytes, devices: u32) -> Self {
        let mut pools = Table::default();
        let of = |id| PoolHandle(pools.insert(Pool::new(DeviceId(id), 0, true)));
        let defaults: Vec<PoolHandle> = (0..devices).map(of).collect();
        Self {
            capacity: capacity.0,
            pools,
            current: defaults.clone(),
            defaults,
            live: BTreeMap::new(),
            pinned: BTreeSet::new(),
            plain: BTreeMap::new(),
            peers: Vec::new(),
            ranges: Ranges::default(),
        }
    }

    pub(in crate::device::host) fn create(&mut self, device: DeviceId, max: Bytes) -> PoolHandle {
        PoolHandle(self.pools.insert(Pool::new(device, max.0, false)))
    }

    fn get(&mut self, op: &'static str, pool: PoolHandle) -> Result<&mut Pool> {
        self.pools
            .get_mut(pool.0)
            .filter(|p| !p.destroyed)
            .ok_or_else(|| refuse::value(op, "the pool does not exist, or was destroyed"))
    }

    /// Law A26: the memory of the pool is released when its last allocation is freed. If it is the
    /// current pool, the default pool becomes current.
    pub(in crate::device::host) fn destroy(&mut self, pool: PoolHandle) -> Result<()> {
        let found = self.get("pool destroy", pool)?;
        if found.is_default {
            return Err(refuse::value("pool destroy", "a default pool cannot be destroyed"));
        }
        found.destroyed = true;
        for (current, default) in self.current.iter_mut().zip(&self.defaults) {
            if *current == pool {
                *current = *default;
            }
        }
        self.drop_empty(pool);
        Ok(())
    }

    fn drop_empty(&mut self, pool: PoolHandle) {
        let lives = self.live.values().any(|live| live.pool == pool);
        if !lives && self.pools.get(pool.0).is_some_and(|p| p.destroyed) {
            self.pools.remove(pool.0);
        }
    }

    pub(in crate::device::host) fn default_of(&self, device: DeviceId) -> PoolHandle {
        self.defaults[device.0 as usize]
    }

    pub(in crate::device::host) fn current_of(&self, device: DeviceId) -> PoolHandle {
        self.current[device.0 as usize]
    }

    pub(in crate::device::host) fn set_current(
        &mut self,
        device: DeviceId,
        pool: PoolHandle,
    ) -> Result<()> {
        let home = self.home("set current pool", pool)?;
        if home != device {
            let cause = format!("the pool belongs to {home}, not to {device}");
            return Err(refuse::value("set current pool", cause));
        }
        self.current[device.0 as usize] = pool;
        Ok(())
    }

    pub(in crate::device::host) fn home(
        &mut self,
        op: &'static str,
        pool: PoolHandle,
    ) -> Result<DeviceId> {
        Ok(self.get(op, pool)?.device)
    }

    pub(in crate::device::host) fn attribute(
        &mut self,
        pool: PoolHandle,
        what: PoolAttribute,
    ) -> Result<u64> {
        let op = "pool attribute";
        let found = self.get(op, pool)?;
        Ok(match what {
            PoolAttribute::REUSE_FOLLOW_EVENTS => u64::from(found.follow),
            PoolAttribute::REUSE_OPPORTUNISTIC => u64::from(found.opportunistic),
            PoolAttribute::REUSE_INTERNAL => u64::from(found.internal),
            PoolAttribute::THRESHOLD => found.threshold,
            PoolAttribute::RESERVED => found.heap.reserved,
            PoolAttribute::RESERVED_HIGH => found.reserved_high,
            PoolAttribute::USED => found.used,
            PoolAttribute::USED_HIGH => found.used_high,
            PoolAttribute(number) => {
                return Err(refuse::value(op, format!("a pool has no attribute {number}")));
            }
        })
    }

    pub(in crate::device::host) fn set_attribute(
        &mut self,
        pool: PoolHandle,
        what: PoolAttribute,
        value: u64,
    ) -> Result<()> {
        let op = "pool attribute";
        let found = self.get(op, pool)?;
        match what {
            // The driver reads the value as an `int` and refuses a negative value.
            PoolAttribute::REUSE_FOLLOW_EVENTS if is_int(value) => found.follow = value != 0,
            PoolAttribute::REUSE_OPPORTUNISTIC if is_int(value) => {
                found.opportunistic = value != 0;
            }
            PoolAttribute::REUSE_INTERNAL if is_int(value) => found.internal = value != 0,
            PoolAttribute::THRESHOLD => found.threshold = value,
            PoolAttribute::RESERVED_HIGH if value == 0 => found.reserved_high = found.heap.reserved,
            PoolAttribute::USED_HIGH if value == 0 => found.used_high = found.used,
            PoolAttribute(number) => {
                let cause = format!("attribute {number} cannot be set to {value}");
                return Err(refuse::value(op, cause));
            }
        }
        Ok(())
    }

    /// The free and the total memory of `device`.
    pub(in crate::device::host) fn free_bytes(&self, device: DeviceId) -> (Bytes, Bytes) {
        let pools = self.pools.values().filter(|p| p.device == device).map(|p| p.heap.reserved);
        let plain = self.plain.values().filter(|(home, _)| *home == device).map(|(_, size)| *size);
        let held = pools.chain(plain).sum::<u64>() + self.ranges.mapped(device);
        (Bytes(self.capacity - held.min(self.capacity)), Bytes(self.capacity))
    }

    /// The number of bytes that the pool has to take from the device for a block of `size` bytes.
    /// `None` if the device has too few free bytes, or the pool would exceed its limit.
    fn growth(&mut self, pool: PoolHandle, size: u64) -> Result<Option<u64>> {
        let found = self.get("alloc", pool)?;
        let own = if found.max == 0 { u64::MAX } else { found.max - found.heap.reserved };
        let device = found.device;
        Ok(growth(size, self.free_bytes(device).0.0.min(own)))
    }

    /// Law A21: allocates memory for `slot`, at the call. Three sources are tried in this order: a
    /// free block that the laws of reuse allow, the device, and a free block with an inserted
    /// dependency. `may` decides whether a block that another stream freed is used.
    pub(in crate::device::host) fn alloc(
        &mut self,
        queues: &Queues,
        slot: SlotId,
        pool: PoolHandle,
        bytes: Bytes,
        mut may: impl FnMut(May) -> bool,
    ) -> Result<Found> {
        let device = self.get("alloc", pool)?.device;
        // An allocation of no bytes is still an allocation (measured).
        let size = bytes.0.max(1).checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
        let mut grown = self.growth(pool, size)?;
        if grown.is_none() {
            // Free segments that are too small are returned to the device first.
            let seen = |point: Point| queues.slots[point.slot.index()].seen >= point.seq;
            let found = self.get("alloc", pool)?;
            if found.find(queues, slot, size, PoolReuse::Own..=PoolReuse::Finished).is_none() {
                found.heap.shrink(0, seen);
            }
            grown = self.growth(pool, size)?;
        }
        let (free, total) = self.free_bytes(device);
        let found = self.get("alloc", pool)?;
        let wanted = |reuse, may: &mut dyn FnMut(May) -> bool| match reuse {
            PoolReuse::Own => true,
            PoolReuse::Following | PoolReuse::Behind => may(May::ReuseFollowing),
            PoolReuse::Finished => may(May::ReuseFinished),
            PoolReuse::Internal => false,
        };
        let own = found.find(queues, slot, size, PoolReuse::Own..=PoolReuse::Own);
        // Memory that the stream itself freed comes first. Then the driver may prefer memory that
        // another stream freed to memory that was never allocated (measured).
        let is_recycled = own.as_ref().is_some_and(|(.., after)| !after.is_empty());
        let of_others = PoolReuse::Following..=PoolReuse::Finished;
        let other = found.find(queues, slot, size, of_others).filter(|_| !is_recycled);
        let is_needed = own.is_none() && grown.is_none();
        let other = other.filter(|(reuse, ..)| is_needed || wanted(*reuse, &mut may));
        let free_block = other.or(own);
        let fresh = match free_block {
            Some((_, extent, after)) => Some((extent, found.waits(queues, slot, &after))),
            None => grown.and_then(|more| found.grow(more, size)).map(|p| (p, After::new())),
        };
        let internal = if found.internal { PoolReuse::Internal } else { PoolReuse::Finished };
        let (extent, waits) = match fresh {
            Some(fresh) => fresh,
            None => match found.find(queues, slot, size, PoolReuse::Own..=internal) {
                Some((_, extent, after)) => (extent, found.waits(queues, slot, &after)),
                None => {
                    let cause = format!("{bytes} requested, but only {free} of {total} are free");
                    return Err(refuse::memory("alloc", cause).on(device));
                }
            },
        };
        // Only an exploration needs to know on which streams the choice depends.
        let explores = queues.trail.is_some();
        let depends_on =
            if explores { found.depends_on(queues, slot, size) } else { SmallVec::new() };
        let Some(host) = found.heap.take(extent) else {
            return Err(refuse::memory("alloc", "the chosen free block does not exist"));
        };
        found.used += bytes.0;
        found.used_high = found.used_high.max(found.used);
        let address = host.address();
        self.live.insert(address, LiveAllocation { pool, extent, bytes: bytes.0 });
        let memory = Memory::new(Space::Device(device), address, bytes.0, Some(host));
        Ok(Found { memory, depends_on, waits })
    }

    /// Law A22: from this call on, operations after the free at `point` may use the block, so the
    /// block may be allocated. Without a point, the block is free at once (law A24).
    pub(in crate::device::host) fn release(&mut self, memory: &Memory, point: Option<Point>) {
        if let Some(LiveAllocation { pool, extent, bytes }) = self.live.remove(&memory.address()) {
            if let Some(found) = self.pools.get_mut(pool.0) {
                found.used -= bytes;
                found.heap.give_back(extent, point);
            }
            self.drop_empty(pool);
        }
        if point.is_none() {
            self.plain.remove(&memory.address());
        }
    }

    /// Removes memory that belongs to no stream, after its free in a stream is complete.
    pub(in crate::device::host) fn reached(&mut self, memory: &Memory) {
        self.plain.remove(&memory.address());
    }

    /// Whether the address is a live allocation of a pool.
    pub(in crate::device::host) fn holds(&self, memory: &Memory) -> bool {
        self.live.contains_key(&memory.address())
    }

    /// Whether the address is device memory that belongs to no stream.
    pub(in crate::device::host) fn holds_plain(&self, memory: &Memory) -> bool {
        self.plain.contains_key(&memory.address())
    }

    pub(in crate::device::host) fn pin(&mut self, address: u64) {
        self.pinned.insert(address);
    }

    /// Removes page-locked memory. Returns false if there was no such memory at the address.
    pub(in crate::device::host) fn unpin(&mut self, address: u64) -> bool {
        self.pinned.remove(&address)
    }

    pub(in crate::device::host) fn plain_alloc(
        &mut self,
        device: DeviceId,
        bytes: Bytes,
    ) -> Result<Memory> {
        let op = "device alloc";
        if bytes.0 == 0 {
            return Err(refuse::value(op, "0 bytes requested; request at least 1 byte"));
        }
        let (free, total) = self.free_bytes(device);
        let size = bytes.0.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
        let cause = || format!("{bytes} requested, but only {free} of {total} are free");
        let out = || refuse::memory(op, cause()).on(device);
        let host = if size <= free.0 { HostBytes::zeroed(bytes.0) } else { None };
        let host = host.ok_or_else(out)?;
        self.plain.insert(host.address(), (device, size));
        Ok(Memory::new(Space::Device(device), host.address(), bytes.0, Some(host)))
    }

    /// Law A25: at a synchronisation, the pool returns free memory above its threshold to the
    /// device, if the host has seen the frees complete.
    pub(in crate::device::host) fn synchronised(&mut self, queues: &Queues) {
        let seen = |point: Point| queues.slots[point.slot.index()].seen >= point.seq;
        for pool in self.pools.values_mut() {
            pool.heap.forget(seen);
            pool.heap.shrink(pool.threshold, seen);
        }
    }

    pub(in crate::device::host) fn trim(
        &mut self,
        queues: &Queues,
        pool: PoolHandle,
        keep: Bytes,
        keeps_unseen: bool,
    ) -> Result<()> {
        let gone = |point: Point| {
            queues.slots[point.slot.index()].seen >= point.seq
                || (!keeps_unseen && queues.completed(point))
        };
        self.get("pool trim", pool)?.heap.shrink(keep.0, gone);
        Ok(())
    }

    /// Law A39: sets the access of a device to existing and future allocations of a pool.
    pub(in crate::device::host) fn set_access(
        &mut self,
        pool: PoolHandle,
        device: DeviceId,
        access: PoolAccess,
    ) -> Result<()> {
        let op = "pool access";
        if device.0 as usize >= self.defaults.len() {
            return Err(refuse::device(op, format!("{device} does not exist")));
        }
        let found = self.get(op, pool)?;
        if found.device == device {
            return match access {
                PoolAccess::ReadWrite => Ok(()),
                PoolAccess::None => {
                    Err(refuse::device(op, "a device cannot lose access to its own pool"))
                }
                PoolAccess::Read => Err(refuse::unsupported(
                    op,
                    "read-only access is not supported; use read-write access",
                )),
            };
        }
        if access == PoolAccess::Read {
            return Err(refuse::unsupported(
                op,
                "read-only access is not supported; use read-write access",
            ));
        }
        found.access.insert(device, access);
        Ok(())
    }

    pub(in crate::device::host) fn access(
        &mut self,
        pool: PoolHandle,
        device: DeviceId,
    ) -> Result<PoolAccess> {
        if device.0 as usize >= self.defaults.len() {
            return Err(refuse::value("pool access", format!("{device} does not exist")));
        }
        let found = self.get("pool access", pool)?;
        if found.device == device {
            return Ok(PoolAccess::ReadWrite);
        }
        Ok(found.access.get(&device).copied().unwrap_or(PoolAccess::None))
    }

    pub(in crate::device::host) fn peer_enable(
        &mut self,
        device: DeviceId,
        peer: DeviceId,
    ) -> Result<()> {
        let op = "peer enable";
        if device == peer {
            return Err(refuse::other(op, 217, "a device cannot be its own peer"));
        }
        if self.peers.contains(&(device, peer)) {
            return Err(refuse::other(
                op,
                704,
                format!("access of {device} to {peer} is enabled already"),
            ));
        }
        self.peers.push((device, peer));
        Ok(())
    }

    pub(in crate::device::host) fn peer_disable(
        &mut self,
        device: DeviceId,
        peer: DeviceId,
    ) -> Result<()> {
        let Some(index) = self.peers.iter().position(|pair| *pair == (device, peer)) else {
            return Err(refuse::other(
                "peer disable",
                705,
                format!("access of {device} to {peer} is not enabled"),
            ));
        };
        self.peers.swap_remove(index);
        Ok(())
    }

    /// Law A39: whether a kernel of `device` can use the memory.
    pub(in crate::device::host) fn reaches(&self, device: DeviceId, memory: &Memory) -> bool {
        let Space::Device(home) = memory.space() else { return memory.space() == Space::Pinned };
        if home == device {
            return true;
        }
        match self.live.get(&memory.address()) {
            Some(live) => self.pools.get(live.pool.0).is_some_and(|pool| {
                !matches!(pool.access.get(&device), None | Some(PoolAccess::None))
            }),
            None => self.peers.contains(&(device, home)),
        }
    }

    /// The operations that the frees in `waits` belong to.
    pub(in crate::device::host) fn nodes_of(queues: &Queues, waits: &After) -> Vec<NodeId> {
        waits.iter().filter_map(|point| queues.node_at(*point)).collect()
    }
}
