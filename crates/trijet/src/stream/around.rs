//! What an operation has around it: the record of the one before, its waits, the moments of its begin
//! and end, and its entries in the records. Mostly there is none of it.
#![forbid(unsafe_code)]

use super::enqueue::Submission;
use super::lane::{LaneRef, Marks, Records, State};
use super::timing::{Instant, Reading};
use super::track::Needs;
use crate::base::error::Result;
use crate::base::id::Position;
use crate::base::ledger::{Engine, Op, StreamClass};
use crate::base::mutant;
use crate::device::culprit;
use crate::device::driver::Driver;
use std::panic::Location;
use std::sync::Arc;

/// What an operation has beside itself, mostly nothing.
#[derive(Default)]
pub(super) struct Aside {
    /// Waits that were left out on request.
    pub(super) left_out: Needs,
    /// The moment before it, in a lane that is recorded.
    pub(super) begin: Option<Arc<Instant>>,
    /// When the call began.
    pub(super) called: Option<Reading>,
    /// What it is enqueued under, where a recorder wants the engines' times.
    pub(super) tag: Option<u64>,
    /// The device was told its position, which a record has: an error can name it.
    pub(super) is_named: bool,
}

impl State {
    /// Whether any record of this lane has times.
    fn is_timed(&self) -> bool {
        self.recorders.iter().any(|recorder| recorder.is_timed())
    }

    /// The host's clock, if any record of this lane has times.
    pub(super) fn called(&self, driver: &dyn Driver) -> Option<Reading> {
        self.is_timed().then(|| Reading::now(driver))
    }

    /// Appends a user's call about an event to the records of this lane, if there are any.
    pub(super) fn note_called(
        &self,
        driver: &dyn Driver,
        (begin, site): (Option<Reading>, &'static Location<'static>),
        op: impl Fn() -> Op,
    ) {
        let span = begin.map(|begin| (begin, Reading::now(driver)));
        for recorder in &self.recorders {
            let call = span.and_then(|span| recorder.call(span));
            recorder.ledger.append(Op { call, site: Some(site.into()), ..op() });
        }
    }

    /// Appends to the records of this lane, if there are any.
    pub(super) fn note(&self, op: impl Fn() -> Op) {
        for recorder in &self.recorders {
            recorder.ledger.append(op());
        }
    }
}

impl LaneRef {
    /// What comes before an operation in its lane: the record of the last one, its waits, and the
    /// moment of its begin.
    #[inline(never)]
    pub(super) fn before(
        &self,
        state: &mut State,
        submission: &Submission<'_>,
        (needs, marks): (&Needs, &Marks),
        aside: &mut Aside,
    ) -> Result<()> {
        aside.called = state.called(self.driver());
        // A record in the legacy stream may hold the blocking streams back (law A14): there it is made
        // when somebody needs it.
        if state.last_shared
            && state.class != StreamClass::Legacy
            && state.recorded() < state.seq
            && !mutant::on(1, "a producer is not recorded before the next operation")
        {
            state.record(&self.universe, self.id)?;
        }
        self.wait_for(state, submission, (needs, marks), &mut aside.left_out)?;
        let engine = submission.action.engine();
        aside.begin = self.timed_begin(state, engine)?;
        if engine != Engine::None {
            aside.tag = state.recorders.iter().find_map(|recorder| recorder.tag());
        }
        // Last, because the operation alone is enqueued under these.
        if aside.tag.is_some() {
            self.tag(aside.tag);
        }
        aside.is_named = !state.recorders.is_empty();
        if aside.is_named {
            culprit::set(Some(Position { lane: self.id, seq: state.seq + 1 }));
        }
        Ok(())
    }

    /// The driver's call is over: what the thread enqueues next is something else.
    #[inline]
    pub(super) fn enqueued(&self, aside: &Aside) {
        if aside.tag.is_some() {
            self.tag(None);
        }
        if aside.is_named {
            culprit::set(None);
        }
    }

    /// Puts what this thread enqueues under `tag`.
    fn tag(&self, tag: Option<u64>) {
        if let Some(profiler) = self.driver().profiler() {
            profiler.activity_tag(tag);
        }
    }

    /// Notes the operation that has just been enqueued in the records of its lane.
    #[inline(never)]
    pub(super) fn after(
        &self,
        state: &mut State,
        submission: &Submission<'_>,
        position: Position,
        Aside { begin, called, tag, .. }: &Aside,
    ) {
        let end = begin.as_ref().and_then(|_| self.timed_end(state));
        let called = called.map(|begin| (begin, Reading::now(self.driver())));
        let engine = submission.action.engine();
        for recorder in &mut state.recorders {
            let index = recorder.ledger.append(self.op(submission, position));
            if let (Some(called), true) = (called, recorder.is_timed()) {
                let pair = begin.as_ref().zip(end.as_ref());
                let pair = pair.filter(|_| recorder.wants_pair(engine));
                recorder.time(index, called, pair.map(|(b, e)| (Arc::clone(b), Arc::clone(e))));
            }
            if let Some(tag) = tag {
                recorder.bears(index, *tag);
            }
        }
        state.last_end = end;
        if state.records == Records::AtOnce
            && let Err(error) = state.record(&self.universe, self.id)
        {
            // It is enqueued all the same. Who needs it before the next record gets an error.
            drop(error);
        }
    }

    /// The moment before a timed operation: the end of the one before, or a new event.
    fn timed_begin(&self, state: &mut State, engine: Engine) -> Result<Option<Arc<Instant>>> {
        let mut recorders = state.recorders.iter();
        if engine == Engine::None || !recorders.any(|r| r.wants_pair(engine)) {
            return Ok(None);
        }
        match state.last_end.take() {
            Some(end) => Ok(Some(end)),
            None => self.instant(state).map(Some),
        }
    }

    /// The moment after a timed operation. That one is enqueued, so a failure here is none of
    /// its own: the recorders keep it for who takes the times.
    fn timed_end(&self, state: &mut State) -> Option<Arc<Instant>> {
        match self.instant(state) {
            Ok(end) => Some(end),
            Err(error) => {
                state.recorders.iter().for_each(|recorder| recorder.fail(&error));
                None
            }
        }
    }
}
