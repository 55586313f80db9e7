//! The uses that a task declares.
#![forbid(unsafe_code)]

use crate::base::ledger::Mode;
use smallvec::SmallVec;
use std::ops::Range;

/// A use that a task declares: bytes of a datum.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    pub(super) number: u32,
    pub(super) range: Range<u64>,
    pub(super) mode: Mode,
    /// Whether it combines a part into what is there.
    pub(super) reduces: bool,
    /// The tasks of the datum.
    pub(super) core: u64,
}

/// All declared uses of a task.
#[derive(Debug, Default)]
#[expect(unnameable_types, reason = "only this crate declares uses")]
pub struct AllDeclared(SmallVec<[Declared; 3]>);

impl AllDeclared {
    pub(super) fn push(&mut self, one: Declared) {
        self.0.push(one);
    }

    pub(super) fn all(&self) -> &[Declared] {
        &self.0
    }
}
