//! The thread that writes the list of calls to the call file.

use super::{CallRecorder, List, Phase, guarded};
use crate::call_file;
use crate::disk::{Disk, Stop};
use crate::system;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// The longest time between two writes.
const PERIOD: Duration = Duration::from_millis(200);
/// Maximum time for which the program waits at its start for the file, and at its exit for the last
/// write.
const EXIT_WAIT: Duration = Duration::from_secs(10);
/// The stack size of the thread.
const STACK_BYTES: usize = 256 << 10;

/// The blocks to write.
struct StagedBlocks {
    bytes: Vec<u8>,
    /// Whether the process exits.
    is_ending: bool,
    /// The number of requests to write, which are fulfilled with these blocks.
    flushes: u64,
}

impl CallRecorder {
    /// Starts the thread that writes to `disk`.
    pub(super) fn run(&'static self, disk: Disk) {
        *self.disk() = Some(disk);
        let started = system::with_blocked_signals(|| {
            std::thread::Builder::new()
                .name("trijet-check".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(|| guarded(|| self.write()))
        });
        if started.is_ok() {
            // The program may close or limit its descriptors from now on.
            let is_starting = |list: &mut List| list.phase == Phase::Starting;
            drop(self.changed.wait_timeout_while(self.list(), EXIT_WAIT, is_starting));
        } else if let Err(error) = started {
            let words = format!("the thread of the recorder was not started: {error}");
            let mut list = self.list();
            list.phase = Phase::Done;
            call_file::trouble(&mut list.staged, &words);
            call_file::end(&mut list.staged, 0, 0);
            let staged = std::mem::take(&mut list.staged);
            drop(list);
            if let Some(disk) = self.disk().as_mut() {
                // Without the end, the reader reports that the file is incomplete.
                let _written = disk.append_now(&staged);
            }
        }
    }

    fn disk(&self) -> MutexGuard<'_, Option<Disk>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) {
        let private = system::with_private_files();
        if let Some(disk) = self.disk().as_mut()
            && private
        {
            disk.keep_open();
        }
        let mut list = self.list();
        if list.phase == Phase::Starting {
            list.phase = Phase::Running;
        }
        drop(list);
        self.changed.notify_all();
        let stopped = loop {
            let StagedBlocks { bytes: staged, is_ending, flushes } = self.staged();
            let written = match self.disk().as_mut() {
                Some(disk) if disk.is_wanted() => disk.append(&staged),
                Some(_) => Err(Stop::Ended),
                None => Err(Stop::Lost),
            };
            if written.is_err() || is_ending {
                break written.err();
            }
            self.list().flushed = flushes;
            self.changed.notify_all();
        };
        self.finish(stopped);
    }

    /// Waits for calls, and takes them.
    fn staged(&self) -> StagedBlocks {
        let is_idle = |list: &mut List| {
            let is_due = list.staged.len() >= super::STAGED_BYTES || list.flushes > list.flushed;
            list.phase == Phase::Running && !is_due
        };
        let waited = self.changed.wait_timeout_while(self.list(), PERIOD, is_idle);
        let (mut list, _) = waited.unwrap_or_else(PoisonError::into_inner);
        StagedBlocks {
            bytes: std::mem::take(&mut list.staged),
            is_ending: list.phase != Phase::Running,
            flushes: list.flushes,
        }
    }

    /// Makes the thread write what is staged, and waits for it. Returns whether it was written.
    pub(super) fn flush(&self) -> bool {
        let mut list = self.list();
        list.flushes += 1;
        let wanted = list.flushes;
        self.changed.notify_all();
        let is_writing = |list: &mut List| list.phase == Phase::Running && list.flushed < wanted;
        let waited = self.changed.wait_timeout_while(list, EXIT_WAIT, is_writing);
        let (list, _) = waited.unwrap_or_else(PoisonError::into_inner);
        list.flushed >= wanted
    }

    /// Ends the file. `stopped` is the reason if it cannot or need not be continued.
    fn finish(&self, stopped: Option<Stop>) {
        let mut list = self.list();
        list.phase = Phase::Done;
        let mut staged = std::mem::take(&mut list.staged);
        let (calls, lost) = (list.calls, list.lost);
        drop(list);
        if stopped == Some(Stop::Full) {
            staged.clear();
            call_file::trouble(
                &mut staged,
                "the disk is nearly full; later calls were not recorded",
            );
        }
        call_file::end(&mut staged, calls, lost);
        if let Some(mut disk) = self.disk().take() {
            match stopped {
                None | Some(Stop::Full) => {
                    // Without the end, the reader reports that the file is incomplete.
                    let _written = disk.append_now(&staged);
                }
                Some(Stop::Ended) => disk.remove(),
                Some(Stop::Lost) => {}
            }
        }
        self.changed.notify_all();
    }

    /// Makes the thread write the remaining calls and the end of the file, and waits for it.
    pub(super) fn end(&self) {
        let mut list = self.list();
        if matches!(list.phase, Phase::Starting | Phase::Running) {
            list.phase = Phase::Ending;
        }
        self.changed.notify_all();
        let is_writing = |list: &mut List| list.phase != Phase::Done;
        // After this time the process goes on in any case.
        drop(self.changed.wait_timeout_while(list, EXIT_WAIT, is_writing));
    }
}
