//! The ledger: a log with one entry for each call that orders work or uses memory.
//!
//! The tracers append to it; the timeline and the checker read it. The entries are the calls that
//! the driver got, not the calls that the ordering of the library meant to make. So the ledger
//! shows a mistake of the ordering. While a lane is not traced, each of its operations costs one
//! branch.
#![forbid(unsafe_code)]

pub use super::op::{
    Access, Accesses, Declared, Engine, Mode, Op, OrderedBy, Place, Route, Site, StreamClass, Times,
};
pub use super::op_kind::{
    Asked, Effect, Handled, HostStep, LedgerNote, MemoryCall, Named, OpKind, SignalStep, Signalled,
    SourceOrder, StreamMark, StreamWork, WaitOutcome, Waited,
};
use crate::base::units::Nanos;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard};

/// When a ledger gets its first entry, it makes room for this many entries.
const FIRST_OPS: usize = 128;

/// A function that gets each entry once, in order.
type EntryReader = Box<dyn FnMut(Op) + Send>;

#[derive(Default)]
struct LedgerInner {
    ops: VecDeque<Op>,
    /// The index of the first entry that is still in `ops`.
    first: usize,
    reader: Option<EntryReader>,
    /// The indices of the waits that have not ended. The reader does not get these entries yet, and
    /// gets no entry after the first of these waits.
    open: BTreeSet<usize>,
}

/// A list of entries, in the order of the driver's calls of each lane.
#[derive(Default)]
pub struct Ledger(Mutex<LedgerInner>);

impl LedgerInner {
    /// Passes the entry to the reader. Keeps the entry instead if this entry or an earlier entry is
    /// a wait that has not ended.
    fn read(&mut self, op: Op, index: usize) {
        if matches!(op.kind, OpKind::Host(HostStep::Sync { outcome: WaitOutcome::Pending, .. })) {
            self.open.insert(index);
        }
        match &mut self.reader {
            Some(reader) if self.open.is_empty() => {
                reader(op);
                self.first += 1;
            }
            _ => self.ops.push_back(op),
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl Ledger {
    /// A ledger that passes its entries on: `reader` gets each entry as soon as the outcomes of all
    /// waits up to that entry are known. `reader` must not call this crate.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use trijet::trace::{DeviceId, LaneId, Position};
    /// use trijet::trace::{Engine, Ledger, Op, StreamWork};
    ///
    /// let (send, receive) = channel();
    /// let ledger = Ledger::read_by(Box::new(move |op| send.send(op).expect("it is read")));
    /// let position = Position { lane: LaneId(1), seq: 1 };
    /// ledger.append(Op::new(StreamWork::Kernel, Engine::Compute, DeviceId(0), position));
    /// assert_eq!(receive.try_recv().map(|op| op.kind), Ok(StreamWork::Kernel.into()));
    /// assert!(ledger.take().is_empty());
    /// ```
    #[must_use]
    pub fn read_by(reader: Box<dyn FnMut(Op) + Send>) -> Self {
        Self(Mutex::new(LedgerInner { reader: Some(reader), ..LedgerInner::default() }))
    }

    /// Appends an entry and returns its index.
    ///
    /// # Panics
    /// Never: no code panics under the ledger's lock.
    #[inline]
    pub fn append(&self, op: Op) -> usize {
        let mut inner = self.lock();
        let index = inner.first + inner.ops.len();
        if inner.reader.is_some() {
            inner.read(op, index);
            return index;
        }
        if inner.ops.capacity() == 0 {
            // With this room, a short trace allocates once.
            inner.ops.reserve(FIRST_OPS);
        }
        inner.ops.push_back(op);
        index
    }

    /// Sets the outcome of the wait at `index`, which has ended. `now` is the time at which the
    /// wait ended with success; `None` if the wait failed.
    ///
    /// # Panics
    /// Never: no code panics under the ledger's lock.
    pub fn settle(&self, index: usize, now: Option<Nanos>) {
        let mut inner = self.lock();
        // If the entries were taken meanwhile, the wait stays pending in the taken entries.
        let op = index.checked_sub(inner.first).and_then(|at| inner.ops.get_mut(at));
        if let Some(Op { kind: OpKind::Host(HostStep::Sync { outcome, .. }), call, .. }) = op {
            *outcome = if now.is_some() { WaitOutcome::Complete } else { WaitOutcome::Failed };
            if let (Some(call), Some(now)) = (call, now) {
                call.end = now;
            }
        }
        let LedgerInner { ops, first, reader: Some(reader), open } = &mut *inner else { return };
        open.remove(&index);
        while open.first() != Some(&*first) {
            let Some(op) = ops.pop_front() else { break };
            reader(op);
            *first += 1;
        }
    }

    /// Calls `look` with the entries that the reader has not received yet: the first wait that has
    /// not ended, and all entries after it. Without a reader, these are all entries.
    #[doc(hidden)]
    pub fn held<R>(&self, look: impl FnOnce(&VecDeque<Op>) -> R) -> R {
        look(&self.lock().ops)
    }

    /// Takes all entries out, and leaves the ledger empty.
    ///
    /// # Panics
    /// Never: no code panics under the ledger's lock.
    #[must_use]
    pub fn take(&self) -> Vec<Op> {
        let mut inner = self.lock();
        inner.first += inner.ops.len();
        std::mem::take(&mut inner.ops).into()
    }

    fn lock(&self) -> MutexGuard<'_, LedgerInner> {
        self.0.lock().expect("no code panics under the ledger's lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::{DeviceId, LaneId, Position};
    use std::sync::mpsc::{Receiver, channel};

    fn op(kind: impl Into<OpKind>, seq: u64) -> Op {
        let position = Position { lane: LaneId(1), seq };
        Op::new(kind, Engine::None, DeviceId(0), position)
    }

    fn wait(seq: u64) -> Op {
        op(HostStep::Sync { what: Waited::Stream, outcome: WaitOutcome::Pending }, seq)
    }

    fn read_along() -> (Ledger, Receiver<Op>) {
        let (send, receive) = channel();
        (Ledger::read_by(Box::new(move |op| send.send(op).expect("it is read"))), receive)
    }

    /// The entry of a wait is made at the call, but the outcome is known only when the wait ends.
    /// The reader gets the entry together with the outcome.
    #[test]
    fn a_reader_sees_nothing_behind_a_wait_that_has_not_ended() {
        let (ledger, read) = read_along();
        let seen = || read.try_iter().map(|op| op.position.seq).collect::<Vec<_>>();
        ledger.append(op(HostStep::Access, 1));
        let (first, second) = (ledger.append(wait(2)), ledger.append(wait(3)));
        ledger.append(op(HostStep::Access, 4));
        assert_eq!(seen(), [1]);
        ledger.settle(second, None);
        assert!(seen().is_empty());
        ledger.settle(first, Some(Nanos(7)));
        assert_eq!(seen(), [2, 3, 4]);
        ledger.append(op(HostStep::Access, 5));
        assert_eq!(seen(), [5]);
    }

    #[test]
    fn a_wait_is_complete_only_if_it_succeeded() {
        let (ledger, read) = read_along();
        let (good, bad) = (ledger.append(wait(1)), ledger.append(wait(2)));
        ledger.settle(good, Some(Nanos(7)));
        ledger.settle(bad, None);
        let outcome = |op: Op| match op.kind {
            OpKind::Host(HostStep::Sync { outcome, .. }) => outcome,
            other => panic!("{other:?}"),
        };
        let outcomes: Vec<WaitOutcome> = read.try_iter().map(outcome).collect();
        assert_eq!(outcomes, [WaitOutcome::Complete, WaitOutcome::Failed]);
    }

    /// A wait may end after its entry was taken. Its index then belongs to no other entry.
    #[test]
    fn a_wait_that_outlives_its_entry_changes_no_other() {
        let ledger = Ledger::default();
        let early = ledger.append(wait(1));
        assert_eq!(ledger.take().len(), 1);
        ledger.append(wait(2));
        ledger.settle(early, Some(Nanos(7)));
        let pending =
            OpKind::Host(HostStep::Sync { what: Waited::Stream, outcome: WaitOutcome::Pending });
        assert_eq!(ledger.take()[0].kind, pending);
    }
}
