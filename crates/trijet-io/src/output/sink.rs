//! An output as the sink of a pipeline: its rows arrive in any order and from several threads.

use super::{Durability, Output};
use crate::file_error;
use std::ops::Range;
use trijet::pipeline::ParallelSink;
use trijet::{Result, Sink};

impl ParallelSink for Output {
    fn granule(&self) -> Option<u64> {
        Some(self.target.granule())
    }

    fn write_part(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let first = self.target.first_row();
        let rows = self.target.part(&rows, bytes);
        if rows.is_empty() {
            return Ok(());
        }
        match &self.damaged {
            Some(damaged) => self.write_sound(damaged, first + rows.start, rows, bytes),
            None => self.partial()?.write(rows, bytes),
        }
    }
}

impl Sink for Output {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.write_part(rows, bytes)
    }

    fn parallel(&self) -> Option<&dyn ParallelSink> {
        Some(self)
    }

    fn is_durable(&self) -> bool {
        self.durability == Durability::OnDisk
    }

    fn finish(&mut self) -> Result<()> {
        let place = &self.target.place;
        if let Some(rows) = self.first_missing() {
            let cause = format!("rows {}..{} were not written", rows.start, rows.end);
            return Err(file_error::damaged("finish", &place.partial, cause));
        }
        let partial = self.partial()?;
        self.end_thread();
        let is_durable = self.durability == Durability::OnDisk;
        if is_durable {
            partial.sync()?;
        }
        partial.writer().check_complete()?;
        self.check_any(partial)?;
        self.check_input(partial)?;
        match &place.shared {
            Some(shared) => self.finish_shard(shared, partial),
            None => self.publish(partial, |partial| {
                let record = partial.record();
                // If rows were left out, the journal is kept, because it lists the rows that the
                // output has.
                if record.left_out.count() > 0 { Ok(()) } else { record.journal.remove() }
            }),
        }
    }
}
