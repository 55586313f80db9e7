//! Outputs without the rows of damaged images.
//!
//! An output without the rows of damaged images gets its final name. Its journal is kept, and lists
//! the rows that the output has. A later run continues the output like a partial output. When that
//! run writes its first row, the output loses its final name.

use super::Output;
use super::overwrite::renamed;
use super::partial::Partial;
use super::place::Place;
use crate::damaged::SkippedImages;
use crate::file_error;
use crate::format::{is_at, state_of};
use crate::input::Input;
use crate::journal::Progress;
use crate::rows::Rows;
use crate::shown::shown;
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use trijet::Result;

impl Output {
    /// Leaves out the rows of images that `input` finds to be damaged. A folder of images gets no
    /// file for such an image, and any other output gets zeros.
    ///
    /// # Panics
    /// If several processes write the output.
    #[must_use]
    pub fn skipping(mut self, input: &Input) -> Self {
        assert!(
            self.target.shard().is_none(),
            "an output of several processes cannot leave out rows"
        );
        let rows = self.target.rows_per_index();
        self.damaged = input.skipped().map(|images| SkippedImages { images, rows });
        self
    }

    /// Writes `rows` of the output, and leaves out the rows of damaged images. The row `rows.start`
    /// of the output is the row `row` of the results of the whole input.
    pub(super) fn write_sound(
        &self,
        skipped: &SkippedImages,
        row: u64,
        rows: Range<u64>,
        bytes: &[u8],
    ) -> Result<()> {
        let (partial, row_bytes) = (self.partial()?, self.target.layout().row_bytes);
        let mut rest = bytes;
        for part in skipped.images.parts(&(row..row + rows.end - rows.start), skipped.rows) {
            let own = rows.start + part.rows.start - row..rows.start + part.rows.end - row;
            let length = usize::try_from((own.end - own.start) * row_bytes);
            let (bytes, after) = rest.split_at(length.expect("a part of `bytes` fits in `usize`"));
            rest = after;
            if part.is_damaged {
                partial.leave_out(own, &vec![0; bytes.len()])?;
            } else {
                partial.write(own, bytes)?;
            }
        }
        Ok(())
    }

    /// The rows of this run that are not in `done`. `done` has row numbers of the output, and the
    /// result has row numbers of the results of the whole input.
    pub(super) fn missing_beside(&self, done: &Rows) -> Vec<Range<u64>> {
        let (own, first) = (self.target.rows(), self.target.first_row());
        let all = done.missing(own.end).into_iter();
        let missing = all.map(|rows| rows.start.max(own.start)..rows.end);
        let missing = missing.filter(|rows| !rows.is_empty());
        missing.map(|rows| first + rows.start..first + rows.end).collect()
    }

    /// The first range of rows that were neither written nor left out. `None` if all rows were
    /// written or left out.
    pub(super) fn first_missing(&self) -> Option<Range<u64>> {
        let mut done = self.done();
        if let Some(run) = self.run.get() {
            let record = run.partial.record();
            record.left_out.ranges().iter().for_each(|rows| done.insert(rows.clone()));
        }
        self.missing_beside(&done).into_iter().next()
    }

    /// Refuses an output from which all rows were left out, because each of its images is damaged.
    pub(super) fn check_any(&self, partial: &Partial) -> Result<()> {
        let record = partial.record();
        if record.left_out.count() == 0 || record.done.count() > 0 {
            return Ok(());
        }
        let images = self
            .damaged
            .iter()
            .flat_map(|one| one.images.among(&self.target.rows_of_whole(), one.rows));
        let first = images.map(|image| format!(": {}: {}", shown(&image.name), image.why)).next();
        let cause = format!("every image is damaged{}", first.unwrap_or_default());
        Err(file_error::damaged("finish", &self.target.place.out, cause))
    }

    /// Gives an output with its final name the partial name again, because its missing rows are
    /// about to be written. An output that already has the partial name is not changed.
    pub(super) fn taken_back(&self, partial: Arc<Partial>) -> Result<Arc<Partial>> {
        let place = &self.target.place;
        if is_at(partial.writer().root(), &place.out).unwrap_or(false) {
            renamed(&place.out, &place.partial)?;
        }
        Ok(partial)
    }
}

impl Place {
    /// Whether the output at the final path lacks some of its `rows` rows because images are
    /// damaged. `progress` is the content of its journal. A run that continues such an output
    /// removes its final name.
    pub(super) fn lacks_rows(&self, progress: &Progress, rows: u64) -> Result<bool> {
        if self.shared.is_some() || progress.done.missing(rows).is_empty() {
            return Ok(false);
        }
        let number = |state: Metadata| state.ino();
        let out = state_of("create", &self.out)?.map(number);
        Ok(out.is_some() && out == progress.root && state_of("create", &self.partial)?.is_none())
    }
}
