//! The accesses of kernels, as blocks of the call file.

use super::{CallRecorder, List, Phase, STAGED_MAX};
use crate::call_file::{self, RANGES_MAX, Touch};
use std::sync::PoisonError;
use std::time::Duration;
use trijet_sanitizer::table::Touched;

/// Maximum time for which the thread that reads accesses waits for the writer.
const ROOM_WAIT: Duration = Duration::from_secs(10);

impl CallRecorder {
    /// Appends the accesses of a launch of a call. `None` if they could not be read.
    pub(super) fn append_touched(&self, call: u64, touched: Option<&Touched>) {
        let is_whole = touched.is_some_and(|one| !one.is_cut && self.append_ranges(call, one));
        // A launch whose end is lost counts as one whose accesses are not known.
        let end = if is_whole { Touch::End } else { Touch::Cut };
        let _is_staged = self.stage(|out| call_file::touched(out, call, end, &[]));
    }

    /// Appends ranges. Returns whether there was room for all.
    fn append_ranges(&self, call: u64, one: &Touched) -> bool {
        let first_byte = |address: &u64| *address..address.saturating_add(1);
        let first_bytes = |list: &[u64]| list.iter().map(first_byte).collect();
        let (maps_read, maps_written): (Vec<_>, Vec<_>) =
            (first_bytes(&one.maps_read), first_bytes(&one.maps_written));
        let lists = [
            (Touch::Read, &one.reads),
            (Touch::Write, &one.writes),
            (Touch::MapRead, &maps_read),
            (Touch::MapWrite, &maps_written),
        ];
        lists.iter().all(|(what, ranges)| {
            let mut parts = ranges.chunks(RANGES_MAX);
            parts.all(|part| self.stage(|out| call_file::touched(out, call, *what, part)))
        })
    }

    /// Appends the reason why something is not recorded. For threads of the program, which wait for
    /// nothing.
    pub(super) fn append_trouble(&self, words: &str) {
        let mut list = self.list();
        if list.phase != Phase::Done && list.has_room() {
            call_file::trouble(&mut list.staged, words);
        }
    }

    /// Appends accesses, and returns whether there was room. Accesses may not take the room of
    /// calls, so the thread that reads them waits for the writer.
    fn stage(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let is_full = |list: &mut List| {
            list.staged.len() > STAGED_MAX / 2 && matches!(list.phase, Phase::Running)
        };
        let waited = self.changed.wait_timeout_while(self.list(), ROOM_WAIT, is_full);
        let (mut list, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let has_room = !is_full(&mut list) && list.phase != Phase::Done && list.has_room();
        if has_room {
            write(&mut list.staged);
        }
        let is_due = list.staged.len() >= super::STAGED_BYTES;
        drop(list);
        if is_due {
            self.changed.notify_all();
        }
        has_room
    }
}
