//! The extra steps of an operation on the slow path: the record of the previous operation, and the
//! waits, timed events and ledger entries of this operation.
#![forbid(unsafe_code)]

use super::lane::{Records, State};
use super::lane_ref::LaneRef;
use super::mark::Marks;
use super::submission::{Submission, accesses};
use super::track::NeededPositions;
use crate::base::error::Result;
use crate::base::id::Position;
use crate::base::ledger::{Declared, Engine, Op, StreamClass};
use crate::device::culprit;
use crate::log::entry::calls_in;
use crate::log::instant::Instant;
use crate::log::reading::Reading;
use crate::log::{task_name, thread};
use std::sync::Arc;

/// Results of the steps before an operation, for the steps after the operation.
#[derive(Default)]
pub(super) struct Prologue {
    /// The positions for which waits were left out on request.
    pub(super) left_out: NeededPositions,
    /// The timed event before the operation, in a lane that is traced.
    pub(super) begin: Option<Arc<Instant>>,
    /// The time at which the call began.
    pub(super) called: Option<Reading>,
    /// The tag under which the operation is enqueued, if a tracer wants the engines' times.
    pub(super) tag: Option<u64>,
    /// Whether the position of the operation was set for errors, so that an error can name it.
    pub(super) is_named: bool,
}

impl LaneRef {
    /// Enqueues the steps before an operation in its lane: the record of the previous operation,
    /// the waits, and the timed event of the start.
    #[inline(never)]
    pub(super) fn before(
        &self,
        state: &mut State,
        submission: &Submission<'_>,
        needs: &NeededPositions,
        marks: &Marks,
        prologue: &mut Prologue,
    ) -> Result<()> {
        prologue.called = state.called(self.driver());
        // A record in the legacy stream may hold the blocking streams back (law A14). So an event
        // is recorded in the legacy stream only when a consumer needs the event.
        if state.last_shared && state.class != StreamClass::Legacy && state.recorded() < state.seq {
            state.record(self.gate(), self.id)?;
        }
        if submission.has_host_fn {
            state.record_before_host(self.gate(), self.id)?;
        }
        self.wait_for(state, submission, needs, marks, &mut prologue.left_out)?;
        let engine = submission.action.engine();
        prologue.begin = self.timed_begin(state, engine)?;
        if engine != Engine::None {
            prologue.tag = state.tracers.iter().find_map(|tracer| tracer.tag());
        }
        // The tag and the name are set last, because they concern this operation alone.
        if prologue.tag.is_some() {
            self.tag(prologue.tag);
        }
        prologue.is_named = !state.tracers.is_empty();
        if prologue.is_named {
            culprit::set(Some(Position { lane: self.id, seq: state.seq + 1 }));
        }
        Ok(())
    }

    /// Removes the tag and the name of an operation after the call of the driver.
    #[inline]
    pub(super) fn enqueued(&self, prologue: &Prologue) {
        if prologue.tag.is_some() {
            self.tag(None);
        }
        if prologue.is_named {
            culprit::set(None);
        }
    }

    /// Sets the tag for the operations that this thread enqueues from now on.
    fn tag(&self, tag: Option<u64>) {
        if let Some(profiler) = self.driver().profiler() {
            profiler.activity_tag(tag);
        }
    }

    /// Passes the entry of the operation that was enqueued to the tracers of the lane.
    #[inline(never)]
    pub(super) fn after(
        &self,
        state: &mut State,
        submission: &Submission<'_>,
        position: Position,
        Prologue { begin, called, tag, .. }: &Prologue,
    ) {
        let end = begin.as_ref().and_then(|_| self.timed_end(state));
        let called = called.map(|begin| (begin, Reading::now(self.driver())));
        let engine = submission.action.engine();
        for tracer in &mut state.tracers {
            let index = tracer.ledger.append(self.entry(submission, position));
            if let (Some(called), true) = (called, tracer.is_timed()) {
                let pair = begin.as_ref().zip(end.as_ref());
                let pair = pair.filter(|_| tracer.wants_pair(engine));
                tracer.time(index, called, pair.map(|(b, e)| (Arc::clone(b), Arc::clone(e))));
            }
            if let Some(tag) = tag {
                tracer.bears(index, *tag);
            }
        }
        state.last_end = end;
        if state.records == Records::AtOnce
            && let Err(error) = state.record(self.gate(), self.id)
        {
            // The operation is enqueued nevertheless. Until the next record, a call that needs an
            // event of the operation fails.
            drop(error);
        }
    }

    /// The event before a timed operation: the event after the previous operation, or a new event.
    fn timed_begin(&self, state: &mut State, engine: Engine) -> Result<Option<Arc<Instant>>> {
        let mut tracers = state.tracers.iter();
        if engine == Engine::None || !tracers.any(|r| r.wants_pair(engine)) {
            return Ok(None);
        }
        match state.last_end.take() {
            Some(end) => Ok(Some(end)),
            None => self.instant(state).map(Some),
        }
    }

    /// Records the event after a timed operation. The operation is already enqueued, so its call
    /// does not fail if the record fails. The tracers keep the error for the call that takes the
    /// trace.
    fn timed_end(&self, state: &mut State) -> Option<Arc<Instant>> {
        match self.instant(state) {
            Ok(end) => Some(end),
            Err(error) => {
                state.tracers.iter().for_each(|tracer| tracer.fail(&error));
                None
            }
        }
    }

    /// The ledger entry of an operation.
    #[inline]
    fn entry(&self, submission: &Submission<'_>, position: Position) -> Op {
        let action = &submission.action;
        calls_in(&self.gate().log.tracers);
        Op {
            stream: self.class(),
            accesses: accesses(submission.uses),
            bytes: action.bytes(),
            route: action.route(),
            graph: action.graph(),
            label: task_name::labelled(action.entry_label()),
            chunk: submission.chunk,
            site: Some(submission.site.into()),
            thread: thread::number(),
            thread_known: thread::written(self.gate().log.domain),
            kind: action.kind(),
            engine: action.engine(),
            device: self.device,
            position,
            declared: Declared::All,
            call: None,
            times: None,
        }
    }
}
