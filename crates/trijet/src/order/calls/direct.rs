//! Work that other code enqueues directly in a stream. The library learns of it afterwards.
//!
//! The library enqueues nothing for such work. The work gets one position, which stands for
//! everything that the stream contains when the position is assigned. Only an event that is
//! recorded later stands for the position, so no query or wait finds the position complete too
//! early. The call takes no turn in the order with the legacy stream. The library enqueues no
//! operation, so no other stream has to wait. The library claims no order beyond its waits.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::Position;
use crate::base::ledger::Mode;
use crate::device::driver::Action;
use crate::log::thread;
use crate::order::lane::Records;
use crate::order::lane_ref::LaneRef;
use crate::order::mark::Marks;
use crate::order::submission::Submission;
use crate::order::track::{NeededPositions, Track};
use std::ops::Range;
use std::panic::Location;

impl LaneRef {
    /// Makes all later work of the stream follow every operation that uses the memory, including
    /// the users of the bytes before this allocation.
    pub(crate) fn follow_users(
        &self,
        track: &Track,
        range: Range<u64>,
        site: &'static Location<'static>,
    ) -> Result<()> {
        self.admit_direct("follow users", track)?;
        let implied = |user: Position| user.lane == self.id;
        let mut needs = NeededPositions::new();
        track.all_users(&range, Mode::Write, implied, &mut needs);
        track.users_before(implied, &mut needs);
        if needs.is_empty() {
            return Ok(());
        }
        thread::with_known(self.domain.id(), |known| needs.retain(|user| !known.covers(*user)));
        let mut marks = Marks::new();
        let waited = self.marks(None, &mut needs, &mut marks).and_then(|()| {
            let run = |_| Ok(());
            let action = Action::Foreign { work: "direct work".into(), run: &run, touches: &[] };
            let mut left_out = NeededPositions::new();
            let mut state = self.lane().lock();
            let submission = Submission::new(action, &[], site);
            let waited = self.wait_for(&mut state, &submission, &needs, &marks, &mut left_out);
            drop(state);
            track.keep_unstamped(&left_out);
            waited
        });
        waited.map_err(|error| self.domain.failed(self.device, error))
    }

    /// Notes that work already in the stream uses the memory.
    pub(crate) fn note_user(&self, track: &Track) -> Result<()> {
        self.admit_direct("note user", track)?;
        let mut state = self.lane().lock();
        let position = self.count(&mut state);
        // Work of other code came after the timed event at the end of the last operation, so this
        // event is not the start of the next operation.
        state.last_end = None;
        let recorded = match state.records {
            Records::OnDemand => Ok(()),
            Records::AtOnce => state.record(self.gate(), self.id).map(drop),
        };
        drop(state);
        track.keep_unstamped(&[position]);
        recorded.map_err(|error| self.domain.failed(self.device, error))
    }

    fn admit_direct(&self, op: &'static str, track: &Track) -> Result<()> {
        self.refuse_recorded(op)?;
        self.domain.own(op, track.domain)?;
        self.legacy.as_ref().map_or(Ok(()), |legacy| legacy.demand_own_thread(op))
    }
}
