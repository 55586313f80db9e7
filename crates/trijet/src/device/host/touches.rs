//! What the steps of an exploration touch. Two steps of different actors depend on each other when
//! they touch the same object and one of them changes it.
#![forbid(unsafe_code)]

use smallvec::SmallVec;
use std::ops::Range;

/// What a step may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Object {
    /// The end of a stream's queue.
    Queue(u32),
    /// What has been completed of a stream, seen by a query.
    Progress(u32),
    Event(u64),
    /// The barrier of a device's legacy stream.
    Legacy(u32),
    /// The books of all pools.
    Pools,
    /// Whatever host functions and host threads share.
    Host,
    /// Bytes of a region of memory, which has a number that a repeated run gives again. Addresses
    /// differ between runs.
    Bytes(u32, Range<u64>),
}

#[derive(Debug, Clone)]
pub(super) struct Touch {
    pub(super) object: Object,
    pub(super) write: bool,
}

/// What one step touches.
#[derive(Debug, Clone, Default)]
pub(super) struct Touches {
    list: SmallVec<[Touch; 4]>,
    /// A bit for each object that is read or changed, several objects to a bit.
    pub(super) any: u64,
    /// The same for those that are changed.
    pub(super) writes: u64,
}

impl Touches {
    pub(super) fn push(&mut self, touch: Touch) {
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
    pub(super) fn calls_host(&self) -> bool {
        self.list.iter().any(|touch| touch.object == Object::Host && touch.write)
    }
}

impl Object {
    /// Whether steps of streams touch it: else those of host threads only.
    pub(super) fn is_of_streams(&self) -> bool {
        matches!(self, Self::Progress(_) | Self::Host | Self::Bytes(..))
    }

    /// A number below 64: what may be in conflict has the same one.
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

pub(super) fn depend(a: &Touches, b: &Touches) -> bool {
    // Most pairs have nothing in common.
    (a.writes & b.any) | (a.any & b.writes) != 0
        && a.list.iter().any(|x| b.list.iter().any(|y| conflict(x, y)))
}

/// Whether both touch the same bytes, and one of them changes them: then one may happen in the middle
/// of the other.
pub(super) fn may_tear(a: &Touches, b: &Touches) -> bool {
    let bytes = |touch: &&Touch| matches!(touch.object, Object::Bytes(..));
    let of_b = |x: &Touch| b.list.iter().filter(bytes).any(|y| conflict(x, y));
    a.list.iter().filter(bytes).any(of_b)
}
