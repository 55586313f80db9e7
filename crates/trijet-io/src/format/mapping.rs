//! Writes a file through mappings of the file.
//!
//! A write call locks the whole file, so several threads write a file no faster than one or two
//! threads. Through a mapping, all threads write at the same time. But an access to mapped memory
//! raises a signal if the file was cut off or the disk is full, and the signal ends the process. So
//! the kernel copies the bytes, with `process_vm_writev` from this process to itself. In these
//! cases, that call returns an error instead of raising a signal.
//!
//! A file is mapped in windows. When all bytes of a window are written, the window is unmapped.
//! Otherwise every page of the file would count as memory of the process.

use memmap2::{MmapOptions, MmapRaw};
use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use nix::unistd::getpid;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of a window if memory is not limited. When the system maps or unmaps a window, it waits
/// for all copies in progress, so small windows cost time. Over existing pages, 16 threads wrote 17
/// GB/s through windows of 16 MiB, and 22 GB/s through windows of 128 MiB (`files-ways.txt`).
const WINDOW_BYTES: u64 = 64 << 20;
/// The size of the smallest window, a multiple of the size of any page.
const WINDOW_MIN: u64 = 1 << 20;
/// Maximum number of windows that are mapped at the same time. A resumed run writes only some rows,
/// so some windows never become full.
const WINDOWS_MAX: usize = 8;

/// A mapped part of a file, and the number of its bytes that were written.
#[derive(Debug)]
struct Window {
    map: Arc<MmapRaw>,
    written: u64,
    /// The number of the last write to this window. All writes to the file are numbered in one
    /// sequence.
    used: u64,
}

#[derive(Debug, Default)]
struct Open {
    /// The mapped windows. The key of a window is its index in the file, counted from 0.
    windows: BTreeMap<u64, Window>,
    writes: u64,
}

/// The windows of a file.
#[derive(Debug)]
pub(super) struct Mapping {
    file_bytes: u64,
    window_bytes: AtomicU64,
    open: Mutex<Open>,
}

impl Mapping {
    /// The windows of a file of `file_bytes` bytes. No window is mapped yet.
    pub(super) fn new(file_bytes: u64) -> Self {
        Self { file_bytes, window_bytes: AtomicU64::new(WINDOW_BYTES), open: Mutex::default() }
    }

    /// Limits the total size of all mapped windows to `bytes` bytes. Returns whether such a limit
    /// is possible. Must be called before a window is mapped.
    pub(super) fn limit_memory(&self, bytes: u64) -> bool {
        let most = bytes / WINDOWS_MAX as u64;
        let size = (1 << most.max(1).ilog2()).clamp(WINDOW_MIN, WINDOW_BYTES);
        self.window_bytes.store(size, Ordering::Relaxed);
        most >= WINDOW_MIN
    }

    /// Writes `bytes` at the offset `offset` of the file. All bytes lie within the size of the
    /// file.
    ///
    /// # Errors
    /// Errors of the system: the file cannot be mapped, or a page of the file cannot be written
    /// because the file was cut off or the disk is full.
    pub(super) fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut rest = bytes;
        let mut at = offset;
        while !rest.is_empty() {
            let number = at / self.window_bytes.load(Ordering::Relaxed);
            let window = self.range(number);
            let here = usize::try_from(window.end.saturating_sub(at)).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(rest.len().min(here));
            let map = self.window(file, number)?;
            let inside = usize::try_from(at - window.start).unwrap_or(usize::MAX);
            copy(now, &map, inside)?;
            self.wrote(number, now.len() as u64);
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// The byte range of the window with this number.
    fn range(&self, number: u64) -> Range<u64> {
        let bytes = self.window_bytes.load(Ordering::Relaxed);
        let start = number * bytes;
        start..(start + bytes).min(self.file_bytes)
    }

    /// The map of the window with this number. Maps the window if it is not mapped.
    fn window(&self, file: &File, number: u64) -> io::Result<Arc<MmapRaw>> {
        let mut open = self.open();
        open.writes += 1;
        let used = open.writes;
        if let Some(window) = open.windows.get_mut(&number) {
            window.used = used;
            return Ok(Arc::clone(&window.map));
        }
        if open.windows.len() == WINDOWS_MAX {
            let oldest = open.windows.iter().min_by_key(|(_, window)| window.used);
            let oldest = oldest.map(|(number, _)| *number);
            // If a write still uses this window, the window is unmapped when that write ends.
            oldest.and_then(|number| open.windows.remove(&number));
        }
        let range = self.range(number);
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let map = Arc::new(MmapOptions::new().offset(range.start).len(len).map_raw(file)?);
        open.windows.insert(number, Window { map: Arc::clone(&map), written: 0, used });
        Ok(map)
    }

    /// Adds `bytes` to the number of bytes that were written to a window, and unmaps the window if
    /// it is full.
    fn wrote(&self, number: u64, bytes: u64) {
        let range = self.range(number);
        let mut open = self.open();
        let full = open.windows.get_mut(&number).is_some_and(|window| {
            window.written += bytes;
            window.written >= range.end - range.start
        });
        let unmapped = full.then(|| open.windows.remove(&number));
        // Unmapping a window takes milliseconds. Other threads should not wait for the lock during
        // this time.
        drop(open);
        drop(unmapped);
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies `bytes` into a mapping, at the offset `offset`. The mapping must have room for the bytes.
fn copy(bytes: &[u8], map: &MmapRaw, offset: usize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let left = &bytes[done..];
        let base = map.as_mut_ptr().addr() + offset + done;
        let to = RemoteIoVec { base, len: left.len() };
        match process_vm_writev(getpid(), &[IoSlice::new(left)], &[to])? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => done += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn bytes_arrive_at_their_places_across_windows() {
        let bytes = WINDOW_BYTES + 5000;
        let file = file(bytes);
        let mapping = Mapping::new(bytes);
        for (offset, len) in [(0, 10), (WINDOW_BYTES - 7, 4000), (bytes - 900, 900), (4095, 2)] {
            let data: Vec<u8> = (0u8..=250)
                .cycle()
                .skip(1 + usize::try_from(offset % 7).unwrap())
                .take(len)
                .collect();
            mapping.write_at(&file, &data, offset).unwrap();
            let mut found = vec![0; data.len()];
            file.read_exact_at(&mut found, offset).unwrap();
            assert!(found == data, "{offset}");
        }
        assert_eq!(file.metadata().unwrap().len(), bytes);
    }

    #[test]
    fn a_window_is_unmapped_when_it_is_full() {
        let file = file(3 * WINDOW_BYTES / 2);
        let mapping = Mapping::new(3 * WINDOW_BYTES / 2);
        let half = vec![1; usize::try_from(WINDOW_BYTES / 2).unwrap()];
        let open = || mapping.open().windows.keys().copied().collect::<Vec<_>>();
        for (part, left) in [(1, vec![0]), (2, vec![0]), (0, vec![])] {
            mapping.write_at(&file, &half, part * WINDOW_BYTES / 2).unwrap();
            assert_eq!(open(), left, "after part {part}");
        }
    }

    #[test]
    fn few_windows_are_mapped_at_once() {
        let file = file(40 * WINDOW_BYTES);
        let mapping = Mapping::new(40 * WINDOW_BYTES);
        for number in 0..40 {
            mapping.write_at(&file, &[7], number * WINDOW_BYTES).unwrap();
        }
        assert_eq!(mapping.open().windows.len(), WINDOWS_MAX);
    }

    #[test]
    fn all_windows_together_stay_within_a_limit() {
        for (limit, size) in [(1 << 40, 64), (512, 64), (511, 32), (50, 4), (8, 1)] {
            let bytes = 40 * WINDOW_MIN;
            let (file, mapping) = (file(bytes), Mapping::new(bytes));
            assert!(mapping.limit_memory(limit << 20));
            assert_eq!(mapping.window_bytes.load(Ordering::Relaxed), size << 20, "{limit} MiB");
            for number in 0..40 {
                mapping.write_at(&file, &[7], number * WINDOW_MIN).unwrap();
            }
            let open = mapping.open();
            let mapped: usize = open.windows.values().map(|window| window.map.len()).sum();
            assert!(mapped as u64 <= limit << 20, "{limit} MiB: {mapped} bytes");
        }
        assert!(!Mapping::new(1 << 30).limit_memory((8 << 20) - 1));
    }

    /// A direct access to the mapped memory would raise SIGBUS, which ends the process.
    #[test]
    fn a_file_that_was_cut_is_an_error() {
        let file = file(1 << 20);
        let mapping = Mapping::new(1 << 20);
        mapping.write_at(&file, &[7], 0).unwrap();
        file.set_len(4096).unwrap();
        mapping.write_at(&file, &[7; 4096], 0).unwrap();
        let error = mapping.write_at(&file, &[7; 8192], 1 << 19).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::libc::EFAULT), "{error}");
    }
}
