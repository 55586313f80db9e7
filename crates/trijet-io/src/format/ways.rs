//! Writes rows to a file in one of two ways: by write calls, or through a mapping. A measurement
//! chooses the faster way.
//!
//! The faster way depends on the file system, on whether the pages of the file exist, and on the
//! number of threads. Write calls are faster for a new file on most disks. A mapping is faster for
//! a file system in memory and over existing pages. The advantage of a mapping grows with the
//! number of threads.

use super::mapping::Mapping;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The size of a block of the trial at the start of a run. The two ways write the blocks of the
/// trial alternately.
const BLOCK_BYTES: u64 = 16 << 20;
/// The number of blocks of the trial. A file with fewer bytes than these blocks is written by calls
/// only.
const BLOCKS: u64 = 8;

/// A way to write rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A `pwrite` call.
    Call,
    /// A copy into a mapping of the file.
    Mapping,
}

const WAYS: [Way; 2] = [Way::Call, Way::Mapping];

/// The measurement of both ways. `bytes` is the number of bytes for which a way was chosen so far.
/// `done` has a pair for each of [`WAYS`]: the number of bytes that were written in this way, and
/// the seconds that all threads together took for them.
#[derive(Debug, Default)]
struct Trial {
    bytes: u64,
    done: [(u64, f64); 2],
}

impl Trial {
    /// Chooses the way in which the next `bytes` bytes are written.
    fn next(&mut self, bytes: u64) -> Way {
        let block = self.bytes / BLOCK_BYTES;
        self.bytes += bytes;
        if block < BLOCKS { WAYS[usize::from(block % 2 == 1)] } else { self.fastest() }
    }

    /// The way that has written more bytes per second of a thread. For write calls, the time
    /// includes the waits of threads for the lock of the file.
    fn fastest(&self) -> Way {
        let [calls, mapping] = self.done.map(|(bytes, seconds)| bytes as f64 / seconds);
        if mapping > calls { Way::Mapping } else { Way::Call }
    }

    fn took(&mut self, way: Way, bytes: u64, seconds: f64) {
        let done = &mut self.done[usize::from(way == Way::Mapping)];
        *done = (done.0 + bytes, done.1 + seconds);
    }
}

/// The ways to write one file.
#[derive(Debug)]
pub(super) struct Ways {
    file_bytes: u64,
    mapping: Mapping,
    /// Whether the mapping may be used. False for a small file, for a small limit of memory, and
    /// after an error of the mapping.
    can_map: AtomicBool,
    trial: Mutex<Trial>,
}

impl Ways {
    /// Prepares both ways for a file of `file_bytes` bytes. The file already has this size.
    pub(super) fn new(file_bytes: u64) -> Self {
        let can_map = AtomicBool::new(file_bytes >= BLOCKS * BLOCK_BYTES);
        let mapping = Mapping::new(file_bytes);
        Self { file_bytes, mapping, can_map, trial: Mutex::default() }
    }

    /// Limits the total size of the mapped parts of the file to `bytes` bytes. Must be called
    /// before the first write.
    pub(super) fn limit_memory(&self, bytes: u64) {
        if !self.mapping.limit_memory(bytes) {
            self.can_map.store(false, Ordering::Relaxed);
        }
    }

    /// Writes by calls only. Must be called before the first write.
    pub(super) fn use_calls_only(&self) {
        self.can_map.store(false, Ordering::Relaxed);
    }

    /// Writes `bytes` at `offset`. Several threads may write at once.
    ///
    /// # Errors
    /// Errors of the system; `UnexpectedEof` for a file that another program has cut off.
    pub(super) fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !self.can_map.load(Ordering::Relaxed) {
            return file.write_all_at(bytes, offset);
        }
        let way = self.trial().next(bytes.len() as u64);
        let begin = Instant::now();
        match way {
            Way::Call => file.write_all_at(bytes, offset)?,
            Way::Mapping => self.map(file, bytes, offset)?,
        }
        self.trial().took(way, bytes.len() as u64, begin.elapsed().as_secs_f64());
        Ok(())
    }

    /// Writes through the mapping. After an error of the mapping, writes by a call, which succeeds
    /// or returns the cause of the error.
    fn map(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.mapping.write_at(file, bytes, offset).is_ok() {
            return Ok(());
        }
        self.can_map.store(false, Ordering::Relaxed);
        // Another program has cut the file off. A write call would make the file longer again, and
        // the rows that were cut off would be a hole of zeros.
        if file.metadata()?.len() < self.file_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_all_at(bytes, offset)
    }

    fn trial(&self) -> std::sync::MutexGuard<'_, Trial> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a trial in which a thread writes `calls` bytes per second by write calls, and `mapping`
    /// bytes per second through the mapping. Returns the way that is used after the trial.
    fn chosen(calls: f64, mapping: f64) -> Way {
        let mut trial = Trial::default();
        for piece in 0..2 * BLOCKS * 16 {
            let way = trial.next(1 << 20);
            if piece < BLOCKS * 16 {
                assert_eq!(way, WAYS[usize::from(piece / 16 % 2 == 1)], "piece {piece}");
            }
            let rate = if way == Way::Call { calls } else { mapping };
            trial.took(way, 1 << 20, (1 << 20) as f64 / rate);
        }
        trial.next(1)
    }

    #[test]
    fn the_faster_way_is_kept() {
        assert_eq!(chosen(5e9, 2e9), Way::Call);
        assert_eq!(chosen(0.5e9, 2e9), Way::Mapping);
    }

    #[test]
    fn a_cut_file_is_not_made_longer_again() {
        let file = tempfile::tempfile().unwrap();
        let bytes = BLOCKS * BLOCK_BYTES;
        file.set_len(bytes).unwrap();
        let ways = Ways::new(bytes);
        file.set_len(4096).unwrap();
        let error = ways.map(&file, &[7; 4096], bytes / 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(file.metadata().unwrap().len(), 4096);
    }

    #[test]
    fn both_ways_write_the_same_bytes() {
        let file = tempfile::tempfile().unwrap();
        let bytes = 2 * BLOCKS * BLOCK_BYTES;
        file.set_len(bytes).unwrap();
        let ways = Ways::new(bytes);
        let piece = BLOCK_BYTES / 2 + 1000;
        let pattern = |n: u64| (n % 253) as u8;
        let mut at = 0;
        while at < bytes {
            let end = bytes.min(at + piece);
            let data: Vec<u8> = (at..end).map(pattern).collect();
            ways.write_at(&file, &data, at).unwrap();
            at = end;
        }
        let mut found = vec![0; usize::try_from(bytes).unwrap()];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!((0..bytes).zip(&found).all(|(n, byte)| pattern(n) == *byte));
        assert!(
            ways.trial().done.iter().all(|(bytes, _)| *bytes > 0),
            "the trial did not use both ways"
        );
    }
}
