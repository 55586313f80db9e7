//! Recordings of parts of a program, which the program begins and ends itself.

use super::{Progress, RECORDER, Recorder, guarded};
use crate::disk::{Disk, EXTENSION};
use crate::opening::first_blocks;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// The recorder of this process, if CUPTI has accepted it.
fn subscribed() -> Option<&'static Recorder> {
    RECORDER.get().filter(|one| one.is_at_home() && one.is_subscribed.load(Ordering::Acquire))
}

/// Ends the recording of this process, as its exit does. Work that the GPU has not completed is
/// left out. Returns whether the trace file has its end. The function does nothing if nothing is
/// recorded.
#[must_use]
pub fn pause() -> bool {
    let mut is_done = false;
    guarded(|| {
        if let Some(recorder) = subscribed() {
            recorder.disable();
            is_done = recorder.end();
        }
    });
    is_done
}

/// Begins another recording of this process after [`pause`], in a file in `folder`. Returns whether
/// it did. The file of a recording that began has the reasons if a part of it fails.
#[must_use]
pub fn resume(folder: PathBuf) -> bool {
    let mut begun = false;
    guarded(|| {
        let Some(recorder) = subscribed().filter(|recorder| recorder.take_turn()) else { return };
        let Ok(mut disk) = Disk::create(folder, EXTENSION, &first_blocks(Some(recorder.api)))
        else {
            return recorder.give_up();
        };
        let mut words = Vec::new();
        recorder.enable(&mut words);
        if disk.append_now(&words).is_err() {
            recorder.disable();
            return recorder.give_up();
        }
        recorder.run(disk);
        begun = true;
    });
    begun
}

impl Recorder {
    /// Begins another recording, if the last one is done. Returns whether it was.
    fn take_turn(&self) -> bool {
        let mut handed = self.handed();
        let is_free = handed.progress == Progress::Done;
        if is_free {
            handed.progress = Progress::Starting;
            self.own_time.store(0, Ordering::Relaxed);
        }
        is_free
    }

    /// Takes back [`take_turn`](Self::take_turn).
    fn give_up(&self) {
        self.handed().progress = Progress::Done;
    }
}
