//! The byte ranges of a chunk in the input and in the output of a run.
#![forbid(unsafe_code)]

use crate::base::units::Bytes;
use crate::pipeline::describe::stage::Stages;
use crate::pipeline::plan::Chunk;
use std::ops::Range;

/// Computes which bytes of the input and of the output belong to a chunk.
pub(super) struct Spans<'a>(pub(super) &'a Stages<'a>);

impl Spans<'_> {
    /// The range of the bytes that the first stage reads.
    pub(super) fn input(&self, chunk: &Chunk) -> Range<usize> {
        let row = self.0.row_in();
        Bytes(chunk.input.start * row).to_usize()..Bytes(chunk.input.end * row).to_usize()
    }

    /// The range of the bytes that the last stage writes.
    pub(super) fn output(&self, chunk: &Chunk) -> Range<usize> {
        let row = self.0.row_out();
        Bytes(chunk.rows.start * row).to_usize()..Bytes(chunk.rows.end * row).to_usize()
    }
}
