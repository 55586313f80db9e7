//! Accesses of the host to page-locked memory, which the recorder noted while a copy could still
//! use the memory.

use super::{CallReader, LedgerPart, Step, THREAD};
use crate::call_stack::CallStack;
use trijet_ledger::base::id::{DeviceId, LaneId, Position};
use trijet_ledger::base::ledger::{Access, Accesses, Engine, HostStep, Mode, Op, Place};

impl CallReader {
    /// An access of one byte. Whether it accesses other bytes is not known.
    pub(super) fn host_access(
        &self,
        address: u64,
        is_write: bool,
        stack: Option<u32>,
        add: &mut impl FnMut(Step),
    ) {
        let nowhere = Position { lane: LaneId(0), seq: 0 };
        let mut op = Op::new(HostStep::Access, Engine::None, DeviceId(0), nowhere);
        (op.thread, op.label) = (THREAD, "host".into());
        let mode = if is_write { Mode::Write } else { Mode::Read };
        let range = address..address.saturating_add(1);
        self.memory.accesses(&range, mode, Place::Pageable, &mut |access| op.accesses.push(access));
        let stack = stack.map(CallStack::of_entry);
        add(Step { op, possible: Accesses::new(), stack, part: LedgerPart::Program });
    }

    /// Whether one of the accesses is to memory that the host can also read.
    pub(super) fn is_shared(&self, accesses: &[Access]) -> bool {
        let is_shared =
            |one: &Access| one.place != Place::Device || self.managed.contains(&one.block);
        accesses.iter().any(is_shared)
    }
}
