//! The uses that a task declares.
#![forbid(unsafe_code)]

use super::record::StreamBody;
use crate::base::ledger::Mode;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Data with a copy on each of several devices.
pub(super) trait Replicated: Send + Sync {
    /// The function of a task that copies bytes from the copy of one device to that of another.
    fn transfer(self: Arc<Self>, from: usize, to: usize, bytes: Range<u64>) -> StreamBody;
}

/// A use that a task declares: bytes of a datum.
#[derive(Clone)]
pub(super) struct Declared {
    pub(super) number: u32,
    pub(super) range: Range<u64>,
    pub(super) mode: Mode,
    /// Whether it combines a part into what is there.
    pub(super) reduces: bool,
    /// The tasks of the datum.
    pub(super) core: u64,
    /// The device of the datum. `None` for host memory.
    pub(super) home: Option<usize>,
    /// The datum, if it may have copies on other devices.
    pub(super) replicated: Option<Arc<dyn Replicated>>,
}

/// All declared uses of a task.
#[derive(Default)]
#[expect(unnameable_types, reason = "only this crate declares uses")]
pub struct AllDeclared(SmallVec<[Declared; 3]>);

impl fmt::Debug for AllDeclared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|one| (one.number, &one.range, one.mode))).finish()
    }
}

impl AllDeclared {
    pub(super) fn push(&mut self, one: Declared) {
        self.0.push(one);
    }

    pub(super) fn all(&self) -> &[Declared] {
        &self.0
    }
}
