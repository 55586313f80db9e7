//! The objects that the steps of an exploration touch. Two steps of different actors depend on each
//! other if they touch the same object and one of them changes it.
#![forbid(unsafe_code)]

use smallvec::SmallVec;
use std::ops::Range;

/// An object that a step can touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::device::host) enum Object {
    /// The end of the queue of the stream in this slot.
    Queue(u32),
    /// The progress of the stream in this slot, which a query sees.
    Progress(u32),
    Event(u64),
    /// The barrier of the legacy stream of the device with this number.
    Legacy(u32),
    /// The state of all pools.
    Pools,
    /// The memory that host functions and host threads share.
    Host,
    /// Bytes of a region of memory: the number of the region, and the range of bytes. The region is
    /// not identified by its address, because the address can differ in a repeated run.
    Bytes(u32, Range<u64>),
}

#[derive(Debug, Clone)]
pub(in crate::device::host) struct Touch {
    pub(in crate::device::host) object: Object,
    pub(in crate::device::host) write: bool,
}

/// The objects that one step touches.
#[derive(Debug, Clone, Default)]
pub(in crate::device::host) struct Touches {
    list: SmallVec<[Touch; 4]>,
    /// A bit for each object that is read or changed. Several objects share a bit.
    pub(in crate::device::host) any: u64,
    /// A bit for each object that is changed.
    pub(in crate::device::host) writes: u64,
}

impl Touches {
    pub(in crate::device::host) fn push(&mut self, touch: Touch) {
        let bit = 1 << touch.object.hash();
        self.any |= bit;
        if touch.write {
            self.writes |= bit;
        }
        self.list.push(touch);
    }
}

impl Touches {
    /// Whether the step is a call of a host function.
    pub(in crate::device::host) fn calls_host(&self) -> bool {
        self.list.iter().any(|touch| touch.object == Object::Host && touch.write)
    }
}

impl Object {
    /// Whether steps of streams touch the object. Other objects are touched only by steps of host
    /// threads.
    pub(in crate::device::host) fn is_of_streams(&self) -> bool {
        matches!(self, Self::Progress(_) | Self::Host | Self::Bytes(..))
    }

    /// A number below 64. Objects that can conflict have equal numbers.
    fn hash(&self) -> u32 {
        let (kind, number) = match self {
            Self::Queue(slot) => (8, *slot),
            Self::Progress(slot) => (20, *slot),
            Self::Event(event) => (32, u32::try_from(event % 64).unwrap_or(0)),
            Self::Legacy(device) => (44, *device),
            Self::Pools => (0, 0),
            Self::Host => (1, 0),
            Self::Bytes(region, _) => (50, *region),
        };
        number.wrapping_add(kind) % 64
    }
}

fn conflict(a: &Touch, b: &Touch) -> bool {
    if !a.write && !b.write {
        return false;
    }
    match (&a.object, &b.object) {
        (Object::Bytes(r, a), Object::Bytes(s, b)) => {
            r == s && a.start.max(b.start) < a.end.min(b.end)
        }
        (a, b) => a == b,
    }
}

pub(in crate::device::host) fn depend(a: &Touches, b: &Touches) -> bool {
    // The comparison of the bits excludes most pairs of steps.
    (a.writes & b.any) | (a.any & b.writes) != 0
        && a.list.iter().any(|x| b.list.iter().any(|y| conflict(x, y)))
}

/// Whether both steps touch the same bytes and at least one of the steps changes these bytes. Then
/// one step may happen in the middle of the other step.
pub(in crate::device::host) fn may_tear(a: &Touches, b: &Touches) -> bool {
    let bytes = |touch: &&Touch| matches!(touch.object, Object::Bytes(..));
    let of_b = |x: &Touch| b.list.iter().filter(bytes).any(|y| conflict(x, y));
    a.list.iter().filter(bytes).any(of_b)
}
