//! Calls that wait: copies at once, copies within the host and of pageable memory, and whatever is
//! enqueued in a stream that may be full (laws A17, A18 and A41).
//!
//! The driver may keep such a call until other work is done, so no lock is held meanwhile: neither
//! that of the lane, nor the turn of the legacy stream. Other threads go on, in the same stream too.
//! Whether the driver takes their operations before or after this one is not known, and so nothing is
//! claimed of it:
//!
//! 1. What the operation follows is what the lane knew before the call.
//! 2. It gets its number after the call. What was numbered meanwhile may still be pending although
//!    this operation is complete; then the thread does not learn its number, which would stand for
//!    theirs as well.
//! 3. Blocking streams come after it from the return on, and the legacy stream before the call.
//!
//! A call that fails because the device is lost, or because nothing can go on, may have enqueued its
//! operation all the same. Its memory is stamped then, so that no guard lends it, and nothing else is
//! claimed. Any other refusal enqueued nothing, and leaves everything as it was.
#![forbid(unsafe_code)]

use super::around::Aside;
use super::default::{Barrier, LegacyOrder, Turn};
use super::enqueue::{Returns, Spec, stamp, stamp_late};
use super::lane::{LaneRef, State};
use super::noted::{accesses, plain};
use super::track::Use;
use crate::base::clock::VectorClock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::Position;
use crate::base::ledger::{Engine, HostCall, Op, OpKind};
use crate::base::mutant;
use crate::device::driver::{Driver, StreamHandle};
use std::borrow::Cow;
use std::sync::MutexGuard;

/// What was true before the call.
struct Before {
    seq: u64,
    /// What the operation follows, if the legacy stream or the calling thread learns it: an operation
    /// that others only wait for allocates nothing.
    follows: Option<VectorClock>,
    barrier: Option<Barrier>,
}

impl Before {
    fn of(state: &State, turn: Option<&Turn<'_>>, returns: Returns) -> Self {
        let barrier = turn.map(Turn::barrier);
        let learnt = barrier.is_some() || returns.completes_earlier();
        let follows = learnt.then(|| {
            let mut follows = state.vector.clone();
            if let Some(barrier) = &barrier {
                follows.join(barrier.clock());
            }
            follows
        });
        Self { seq: state.seq, follows, barrier }
    }
}

impl LaneRef {
    /// Enqueues an operation whose waits are enqueued, without the locks that are handed in.
    #[inline(never)]
    pub(super) fn enqueue_waiting<R>(
        &self,
        (spec, uses, crossed): (&Spec, &[Use<'_>], bool),
        (turn, state): (Option<Turn<'_>>, MutexGuard<'_, State>),
        aside: &Aside,
        run: impl FnOnce(&dyn Driver, StreamHandle, Position) -> Result<R>,
    ) -> Result<(Position, R)> {
        let before = Before::of(&state, turn.as_ref(), spec.returns);
        state.note(|| Op {
            accesses: accesses(uses),
            // Law A38: a copy between devices follows the work of both.
            engine: if spec.engine == Engine::Peer { Engine::Peer } else { Engine::None },
            ..self.host_op(spec, before.seq, OpKind::Begin)
        });
        drop(state);
        let held = mutant::on(40, "a call that waits keeps the turn of its stream").then_some(turn);
        let next = Position { lane: self.id, seq: before.seq + 1 };
        let result = run(self.driver(), self.stream, next);
        drop(held);
        self.enqueued(aside);
        let result = match result {
            Ok(result) => result,
            Err(error) => return Err(self.not_done(spec, uses, error)),
        };
        let turn = self.legacy.as_ref().map(LegacyOrder::bare_turn);
        let mut state = self.lane().lock();
        let is_next = state.seq == before.seq;
        let position = self.count(&mut state);
        state.last_shared = crossed;
        self.after(&mut state, spec, uses, position, aside);
        let is_work = !matches!(spec.kind, OpKind::Alloc);
        if let (Some(barrier), true) = (&before.barrier, is_work) {
            barrier.teach(&mut state);
        }
        let mut follows = before.follows;
        if mutant::on(41, "a call that waits stands for what came meanwhile") {
            follows.iter_mut().for_each(|follows| follows.join(&state.vector));
        }
        if let (Some(turn), Some(follows), true) = (&turn, &follows, is_work) {
            let mut held_back = follows.clone();
            held_back.raise(position);
            turn.hold_back(&held_back);
        }
        let is_done = spec.returns == Returns::Done;
        let late = if is_done { 0 } else { stamp(uses, position, spec.returns) };
        drop((state, turn));
        stamp_late(uses, position, late, &aside.left_out);
        if is_done {
            self.done(uses);
        }
        if let Some(mut follows) = follows.filter(|_| spec.returns.completes_earlier()) {
            if is_done && is_next {
                follows.raise(position);
            }
            self.universe.learn(&follows);
        }
        Ok((position, result))
    }

    /// The call failed with `error`.
    #[cold]
    fn not_done(&self, spec: &Spec, uses: &[Use<'_>], error: Error) -> Error {
        let mut state = self.lane().lock();
        let kind = OpKind::Call(HostCall::Failed);
        state.note(|| self.host_op(spec, state.seq, kind.clone()));
        let is_open = error.is_loss() || error.kind() == ErrorKind::Stalled;
        if is_open && !mutant::on(42, "an operation whose wait failed leaves no stamp") {
            let position = self.count(&mut state);
            let late = stamp(uses, position, Returns::AtOnce);
            drop(state);
            stamp_late(uses, position, late, &[]);
        }
        error
    }

    /// What the operation wrote is complete, and so is everything before it: nothing is left to be
    /// waited for. What the operation only read has the uses that it had.
    fn done(&self, uses: &[Use<'_>]) {
        for access in uses.iter().filter(|access| access.mode.writes()) {
            access.track.settle(&access.range);
        }
    }

    /// An entry of what the calling thread does about an operation.
    fn host_op(&self, spec: &Spec, seq: u64, kind: OpKind) -> Op {
        let at = (self.universe.id, Position { lane: self.id, seq });
        Op {
            label: Cow::Borrowed(spec.label),
            site: Some(spec.site.into()),
            chunk: spec.chunk,
            ..plain(kind, self.device, self.class(), at)
        }
    }
}
