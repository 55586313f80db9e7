//! The accesses of kernels, as blocks of the call file.

use super::{CallRecorder, Phase};
use crate::call_file::{self, RANGES_MAX, Touch};
use trijet_sanitizer::table::Touched;

impl CallRecorder {
    /// Appends the accesses of a launch of a call. `None` if they could not be read.
    pub(super) fn append_touched(&self, call: u64, touched: Option<&Touched>) {
        let cut = |out: &mut Vec<u8>| call_file::touched(out, call, Touch::Cut, &[]);
        let Some(one) = touched else { return self.stage(cut) };
        for (what, ranges) in [(Touch::Read, &one.reads), (Touch::Write, &one.writes)] {
            for part in ranges.chunks(RANGES_MAX) {
                self.stage(|out| call_file::touched(out, call, what, part));
            }
        }
        let tensors = [(Touch::MapRead, &one.maps_read), (Touch::MapWrite, &one.maps_written)];
        for (what, addresses) in tensors {
            let first_byte = |address: &u64| *address..address.saturating_add(1);
            let ranges: Vec<_> = addresses.iter().map(first_byte).collect();
            for part in ranges.chunks(RANGES_MAX) {
                self.stage(|out| call_file::touched(out, call, what, part));
            }
        }
        if one.is_cut {
            return self.stage(cut);
        }
        self.stage(|out| call_file::touched(out, call, Touch::End, &[]));
    }

    /// Appends the reason why something is not recorded.
    pub(super) fn append_trouble(&self, words: &str) {
        self.stage(|out| call_file::trouble(out, words));
    }

    /// Appends a block that is no call, if there is room. A launch whose end is lost counts as one
    /// whose accesses are not known.
    fn stage(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut list = self.list();
        if list.phase != Phase::Done && list.has_room() {
            write(&mut list.staged);
        }
        let is_due = list.staged.len() >= super::STAGED_BYTES;
        drop(list);
        if is_due {
            self.changed.notify_all();
        }
    }
}
