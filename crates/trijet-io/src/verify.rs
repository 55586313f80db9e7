//! Verifies the rows of a partial output before a run continues it.
//!
//! For every range of rows that was written, the journal has a hash. After a loss of power, the
//! bytes of a range may not match the hash, because the system brings files to the disk in any
//! order. The bytes may also differ because another program has changed the partial output.

use crate::format::Writer;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use trijet::pipeline::Layout;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// The number of bytes that a thread reads at once.
const PIECE_BYTES: u64 = 4 << 20;
/// Maximum number of threads that read the rows. With more threads, most disks are not read faster.
const THREADS_MAX: usize = 16;

/// A range of rows that one call wrote, with a hash of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub(crate) rows: Range<u64>,
    /// The hash of the bytes of the range.
    pub(crate) hash: u64,
}

impl Written {
    /// The range `rows`, which consists of the bytes `bytes`.
    #[must_use]
    pub fn new(rows: Range<u64>, bytes: &[u8]) -> Self {
        Self { rows, hash: xxh3_64(bytes) }
    }
}

/// The ranges of `written` that cannot be read or do not match their hash, in ascending order.
/// `layout` is the layout of the output. Its granule is a multiple of the granule of the writer.
pub(crate) fn differing(
    writer: &dyn Writer,
    written: &[Written],
    layout: Layout,
) -> Vec<Range<u64>> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let verify = || {
        let mut buffer = Vec::new();
        while let Some(one) = written.get(next.fetch_add(1, Ordering::Relaxed)) {
            if hash_of(writer, &one.rows, layout, &mut buffer) != Some(one.hash) {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.push(one.rows.clone());
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    thread::scope(|scope| {
        for _ in 1..threads.min(written.len()) {
            // If the system cannot start a thread, the other threads verify its ranges.
            drop(thread::Builder::new().spawn_scoped(scope, verify));
        }
        verify();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|rows| (rows.start, rows.end));
    found
}

/// The hash of the bytes of `rows`. The rows are read in pieces. `None` if they cannot be read.
fn hash_of(
    writer: &dyn Writer,
    rows: &Range<u64>,
    layout: Layout,
    buffer: &mut Vec<u8>,
) -> Option<u64> {
    let granules = (PIECE_BYTES / layout.row_bytes.max(1) / layout.granule).max(1);
    let mut hash = Xxh3Default::new();
    let mut start = rows.start;
    while start < rows.end {
        let end = rows.end.min(start + granules * layout.granule);
        let bytes = usize::try_from((end - start) * layout.row_bytes).ok()?;
        buffer.resize(buffer.len().max(bytes), 0);
        writer.read(start..end, &mut buffer[..bytes]).ok()?;
        hash.update(&buffer[..bytes]);
        start = end;
    }
    Some(hash.digest())
}
