//! The uses that a task declares.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::ledger::Mode;
use crate::memory::{View, ViewMut};
use crate::stream::Stream;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A function that enqueues the work of a task on a stream. It owns the uses of the task.
pub(super) type StreamBody = Box<dyn FnOnce(&Stream) -> Result<()> + Send>;

/// A datum of any type.
pub(super) trait AnyDatum: Send + Sync {
    /// All bytes of the copy on the device `place`, to read.
    fn read_all(&self, place: usize) -> View<'_, u8>;
    /// All bytes of the copy on the device `place`, to write. Only one thread at a time may enqueue
    /// operations that use these bytes.
    fn write_all(&self, place: usize) -> ViewMut<'_, u8>;
    /// The function of a task that copies bytes from the copy on device `from` to the copy on
    /// device `to`.
    fn transfer(self: Arc<Self>, from: usize, to: usize, bytes: Range<u64>) -> StreamBody;
}

/// The name of a datum in texts: the name of its buffer. If the buffer has no name, the name of the
/// datum is its number among the data of its tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DatumName {
    pub(super) number: u32,
    pub(super) given: Option<Arc<str>>,
}

impl fmt::Display for DatumName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.given {
            Some(name) => write!(f, "data `{name}`"),
            None => write!(f, "data {}", self.number),
        }
    }
}

/// A use that a task declares: a range of bytes of a datum, and the mode of access.
#[derive(Clone)]
pub(super) struct DeclaredUse {
    pub(super) number: u32,
    pub(super) name: DatumName,
    pub(super) range: Range<u64>,
    pub(super) mode: Mode,
    /// Whether the use is a reduction: the library combines a part that the task computes into the
    /// bytes.
    pub(super) reduces: bool,
    /// The id of the [`Tasks`](super::Tasks) that the datum belongs to.
    pub(super) core: u64,
    /// The number of the device of the datum. `None` for host memory.
    pub(super) home: Option<usize>,
    /// The datum. `None` if the datum cannot have copies on other devices and the task belongs to
    /// no region.
    pub(super) datum: Option<Arc<dyn AnyDatum>>,
}

/// All declared uses of a task.
#[derive(Default)]
#[expect(unnameable_types, reason = "only this crate declares uses")]
pub struct AllDeclared {
    all: SmallVec<[DeclaredUse; 3]>,
    /// Whether each use stores its datum, because the task belongs to a region.
    keeps_data: bool,
}

impl fmt::Debug for AllDeclared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.all.iter().map(|one| (one.number, &one.range, one.mode)))
            .finish()
    }
}

impl AllDeclared {
    pub(super) fn new(keeps_data: bool) -> Self {
        Self { all: SmallVec::new(), keeps_data }
    }

    pub(super) fn keeps_data(&self) -> bool {
        self.keeps_data
    }

    pub(super) fn push(&mut self, one: DeclaredUse) {
        self.all.push(one);
    }

    pub(super) fn all(&self) -> &[DeclaredUse] {
        &self.all
    }
}
