//! The calls of a process that still runs, whose file grows.
//!
//! The accesses of kernels come after the launch, when the kernels are complete. So a launch whose
//! accesses are still to come holds back all calls from it on.

use crate::file::{CallFile, Entry, FileError, whole_blocks};
use crate::judged::{CheckedCalls, Judged};
use crate::seen::SeenAccesses;
use std::ops::ControlFlow;
use trijet_cupti::call_file::HEADER;
use trijet_cupti::file::HEAD_BYTES;
use trijet_ledger::check::Assume;

/// The number of bytes that are kept for the next piece.
const PIECE_BYTES: usize = 1 << 20;

/// The verdict about the calls that a process has made so far.
#[derive(Debug, Clone)]
pub struct GrowingCalls {
    assume: Assume,
    checked: CheckedCalls,
    /// The number of the process, once its header was read.
    process: Option<u32>,
    /// The bytes from the first block that was not judged.
    rest: Vec<u8>,
    /// The number of them whose accesses of kernels were noted.
    noted: usize,
    /// The number of entries and of findings at the last look.
    entries: u64,
    found: usize,
    /// The number of findings that were not kept at the last look.
    more: u64,
}

impl GrowingCalls {
    /// No calls.
    #[must_use]
    pub fn new(assume: Assume) -> Self {
        Self {
            assume,
            checked: CheckedCalls::new(assume, SeenAccesses::default()),
            process: None,
            rest: Vec::new(),
            noted: 0,
            entries: 0,
            found: 0,
            more: 0,
        }
    }

    /// Reads further bytes of the file.
    ///
    /// # Errors
    /// The file is no call file, or contradicts itself.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.rest.extend_from_slice(bytes);
        if self.process.is_none() {
            if self.rest.len() < HEAD_BYTES + HEADER.1 {
                return Ok(());
            }
            self.process = Some(CallFile::new(&self.rest)?.process);
            self.rest.drain(..HEAD_BYTES + HEADER.1);
        }
        let read = self.judge();
        // Blocks that were read are not read again.
        let judged = *read.as_ref().unwrap_or(&self.rest.len());
        self.rest.drain(..judged);
        self.rest.shrink_to(PIECE_BYTES);
        self.noted = self.noted.saturating_sub(judged);
        read.map(drop)
    }

    /// Judges the blocks up to the first launch whose accesses are still to come. Returns the
    /// number of their bytes.
    fn judge(&mut self) -> Result<usize, FileError> {
        let checked = &mut self.checked;
        self.noted += whole_blocks(&self.rest[self.noted..], |entry| {
            checked.note_accesses(entry);
            ControlFlow::Continue(())
        })?;
        whole_blocks(&self.rest[..self.noted], |entry| match entry {
            Entry::Launches(launches) if checked.waits_for(*launches) => ControlFlow::Break(()),
            _ => {
                checked.read(entry);
                ControlFlow::Continue(())
            }
        })
    }

    /// Whether calls are held back, because the accesses of a kernel are still to come.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.noted > 0
    }

    /// The verdict about the calls since the last look: errors and possible conflicts whose second
    /// call is new, and the number of new ones that are not kept. `None` if there is no such
    /// finding.
    pub fn look(&mut self) -> Option<Judged> {
        let before = std::mem::replace(&mut self.entries, self.checked.entries());
        let found = self.checked.found();
        if std::mem::replace(&mut self.found, found) == found {
            return None;
        }
        let process = self.process.unwrap_or(0);
        let mut judged = self.checked.clone().finish(process, self.assume, before);
        judged.more -= std::mem::replace(&mut self.more, judged.more).min(judged.more);
        let is_none = judged.errors.is_empty() && judged.possible.is_empty() && judged.more == 0;
        (!is_none).then_some(judged)
    }

    /// The reasons why something was not recorded.
    #[must_use]
    pub fn troubles(&self) -> &[String] {
        self.checked.troubles()
    }

    /// The number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.checked.calls()
    }
}
