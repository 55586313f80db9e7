//! Page-locked memory in mappings of this library: several threads create the pages, and one call
//! locks them.
//!
//! `cuMemHostAlloc` creates and locks pages at 2.6 GB/s, however many threads call it. To lock huge
//! pages that exist already takes a tenth of the time of `cuMemHostAlloc` (`files-ways.txt`). This
//! matters because a pipeline locks hundreds of megabytes before its first chunk.
//!
//! A mapping is unlocked before it is unmapped. Otherwise the driver would mistake a later mapping
//! at the same addresses for the pages that it has locked. So a mapping that cannot be unlocked is
//! never unmapped.
#![forbid(unsafe_code)]

use memmap2::{Advice, MmapMut};
use std::collections::HashMap;
use std::mem::forget;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder, available_parallelism};

/// Memory of at least this size is allocated here. The driver allocates smaller memory, because for
/// small memory the start of threads takes too long.
pub(super) const MAPPED_MIN: usize = 8 << 20;
/// The size of a huge page.
const HUGE_BYTES: usize = 2 << 20;
/// Maximum number of threads that create the pages of one mapping.
const THREADS_MAX: usize = 8;

/// Mappings whose pages are locked, by address.
#[derive(Debug, Default)]
pub(super) struct LockedPages(Mutex<HashMap<u64, MmapMut>>);

impl LockedPages {
    /// Keeps a mapping whose pages are locked.
    pub(super) fn keep(&self, mapping: MmapMut) {
        let mut mappings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = mappings.insert(mapping.as_ptr() as u64, mapping) {
            // This does not happen, because two mappings never have the same address.
            forget(other);
        }
    }

    /// Takes the mapping at `address`, to unlock and unmap it.
    pub(super) fn take(&self, address: u64) -> Option<MmapMut> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&address)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes all mappings out of the table.
    pub(super) fn take_all(&self) -> Vec<MmapMut> {
        let mut mappings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mappings.drain().map(|(_, mapping)| mapping).collect()
    }
}

impl Drop for LockedPages {
    fn drop(&mut self) {
        self.take_all().into_iter().for_each(forget);
    }
}

/// Maps at least `bytes` bytes of zeroed memory, and creates all its pages. `None` if the system
/// cannot map the memory.
pub(super) fn pages(bytes: usize) -> Option<MmapMut> {
    let mapping = MmapMut::map_anon(bytes).ok()?;
    // If the system does not know the advice for huge pages, the pages are small.
    drop(mapping.advise(Advice::HugePage));
    let threads = available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let part = bytes.div_ceil(threads).next_multiple_of(HUGE_BYTES);
    let populate = |start: usize| {
        let len = part.min(bytes - start);
        drop(mapping.advise_range(Advice::PopulateWrite, start, len));
    };
    thread::scope(|scope| {
        for start in (0..bytes).step_by(part).skip(1) {
            // If the system starts no more threads, the call that locks the pages creates the
            // missing pages.
            drop(Builder::new().spawn_scoped(scope, move || populate(start)));
        }
        populate(0);
    });
    Some(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The kilobytes of the mapping at `address` that have pages.
    fn resident_kb(address: usize) -> usize {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| {
            let range = line.split_once(' ').map_or("", |(range, _)| range);
            let bounds = range.split_once('-').map(|(start, end)| {
                [start, end].map(|bound| usize::from_str_radix(bound, 16).unwrap_or(0))
            });
            !bounds.is_some_and(|[start, end]| (start..end).contains(&address))
        });
        let rss = lines.find(|line| line.starts_with("Rss:")).expect("the mapping has `Rss:`");
        rss.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }

    #[test]
    fn every_page_exists_and_is_zero() {
        let bytes = MAPPED_MIN + HUGE_BYTES + 4096;
        let mapping = pages(bytes).expect("memory");
        assert!(resident_kb(mapping.as_ptr() as usize) * 1024 >= bytes);
        assert!(mapping.len() >= bytes && mapping.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_mapping_is_taken_once() {
        let locked = LockedPages::default();
        let mapping = pages(MAPPED_MIN).expect("memory");
        let address = mapping.as_ptr() as u64;
        locked.keep(mapping);
        assert!(locked.take(address + 4096).is_none());
        assert!(locked.take(address).is_some());
        assert!(locked.take(address).is_none());
    }

    /// The pages of a mapping that was not taken may still be locked, so the mapping is not
    /// unmapped.
    #[test]
    fn a_mapping_that_was_not_taken_stays_mapped() {
        let locked = LockedPages::default();
        let mapping = pages(MAPPED_MIN).expect("memory");
        let address = mapping.as_ptr() as usize;
        locked.keep(mapping);
        drop(locked);
        assert!(resident_kb(address) * 1024 >= MAPPED_MIN);
    }
}
