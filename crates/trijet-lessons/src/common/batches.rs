//! Batches in page-locked memory that the host fills, as a loader fills them with decoded samples.
#![forbid(unsafe_code)]

use super::desk::Desk;
use super::ground::cut;
use std::mem::replace;
use std::sync::{Mutex, MutexGuard};
use trijet::{PinnedBuffer, Result};

/// A fill copies only the first 1 / `FILLED` of the words of a batch. This copy by the host then
/// takes about as long as an upload of the whole batch.
const FILLED: usize = 16;

/// The batches in page-locked memory, and the words `decoded` that the host copies into the
/// batches. Several threads may fill different batches at the same time.
pub(crate) struct Batches {
    decoded: Vec<u32>,
    batches: Vec<Mutex<PinnedBuffer<u32>>>,
    words: usize,
}

impl Batches {
    /// Takes the source array of `desk` and cuts it into batches. `decoded` gets a copy of the
    /// source.
    pub(crate) fn of(desk: &mut Desk) -> Result<Self> {
        let source = replace(&mut desk.arrays.source, desk.device.pinned(1)?);
        let (decoded, words) = (source.read()?.to_vec(), desk.words);
        let batches = cut(source, words).into_iter().map(Mutex::new).collect();
        Ok(Self { decoded, batches, words })
    }

    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(crate) fn lock(&self, number: usize) -> MutexGuard<'_, PinnedBuffer<u32>> {
        self.batches[number].lock().expect("no thread panicked while it held this lock")
    }

    /// Overwrites the words of all batches that [`fill`](Self::fill) will write.
    pub(crate) fn empty(&self) -> Result<()> {
        let part = ..self.words / FILLED;
        (0..self.len()).try_for_each(|number| {
            self.lock(number).write()?[part].fill(0xdead_beef);
            Ok(())
        })
    }

    /// Copies the first decoded words of a batch into the batch. Returns the number of the batch.
    pub(crate) fn fill(&self, number: usize) -> Result<usize> {
        let (start, len) = (number * self.words, self.words / FILLED);
        self.lock(number).write()?[..len].copy_from_slice(&self.decoded[start..start + len]);
        Ok(number)
    }
}
