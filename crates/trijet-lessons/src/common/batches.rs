//! Batches in page-locked memory that the host fills, as a loader fills them with decoded samples.
#![forbid(unsafe_code)]

use super::desk::Desk;
use super::ground::cut;
use std::mem::replace;
use std::sync::{Mutex, MutexGuard};
use trijet::{PinnedBuffer, Result};

/// A fill copies the first words of a batch: this fraction of all its words. The copy then takes
/// about as long as an upload of the batch.
const FILLED: usize = 16;

/// The batches, and what the host copies into them. Several threads fill different batches.
pub(crate) struct Batches {
    decoded: Vec<u32>,
    batches: Vec<Mutex<PinnedBuffer<u32>>>,
    words: usize,
}

impl Batches {
    /// Takes the source of a desk.
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
        self.batches[number].lock().expect("no panic under this lock")
    }

    /// Overwrites the words that fills will copy.
    pub(crate) fn empty(&self) -> Result<()> {
        let part = ..self.words / FILLED;
        (0..self.len()).try_for_each(|number| {
            self.lock(number).write()?[part].fill(0xdead_beef);
            Ok(())
        })
    }

    /// Fills a batch, and returns its number.
    pub(crate) fn fill(&self, number: usize) -> Result<usize> {
        let (start, len) = (number * self.words, self.words / FILLED);
        self.lock(number).write()?[..len].copy_from_slice(&self.decoded[start..start + len]);
        Ok(number)
    }
}
