//! The streams of a run.
#![forbid(unsafe_code)]

use super::plan::Chunk;
use super::schedule::{StageId, Table};
use crate::base::error::Result;
use crate::stream::{Device, Stream};

/// The streams of a run, by the table of its schedule.
pub(super) struct Streams {
    table: Table,
    streams: Vec<Stream>,
}

impl Streams {
    pub(super) fn open(device: &Device, table: Table) -> Result<Self> {
        let open = |name: &String| Ok(device.stream()?.named(name));
        let streams = table.names().iter().map(open).collect::<Result<_>>()?;
        Ok(Self { table, streams })
    }

    pub(super) fn all(&self) -> &[Stream] {
        &self.streams
    }

    /// The stream on which the run begins.
    pub(super) fn first(&self) -> &Stream {
        &self.streams[0]
    }

    /// The stream of a stage of a chunk. The operations that follow on it are of this chunk.
    pub(super) fn of(&self, stage: StageId, chunk: &Chunk) -> &Stream {
        let stream = &self.streams[self.table.stream(stage, chunk.index)];
        stream.set_chunk(Some(chunk.index));
        stream
    }
}
