//! The streams of a run.
#![forbid(unsafe_code)]

use super::copy_streams::{CopyStreams, Small};
use crate::base::error::Result;
use crate::graph::Recording;
use crate::pipeline::describe::sharing::Sharing;
use crate::pipeline::plan::Chunk;
use crate::pipeline::plan::schedule::{Schedule, StageId, Table};
use crate::stream::{Device, Event, Stream, StreamOptions};
use std::sync::Arc;

/// The streams of a run. The table of the schedule assigns a stream to each stage of each chunk.
pub(super) struct Streams {
    table: Table,
    streams: Vec<Arc<Stream>>,
    /// The streams that are shared with other runs. `None` if the run copies in its own streams.
    shared: Option<SharedCopies>,
}

/// The shared streams of the device, with the sharing and the events of this run.
struct SharedCopies {
    copies: Arc<CopyStreams>,
    sharing: Sharing,
    /// Events for the end of the run's copies in the two shared streams.
    ends: [Event; 2],
    /// Counts the run as a small job that copies in the shared streams; `None` for a bulk run.
    _small: Option<Small>,
}

impl Streams {
    /// Opens the streams. Runs with [`Sharing::Latency`] or [`Sharing::Bulk`] copy in the shared
    /// streams of the device, unless they copy in the streams of their kernels or copy nothing.
    pub(super) fn open(
        device: &Device,
        table: Table,
        schedule: Schedule,
        sharing: Sharing,
        in_place: bool,
    ) -> Result<Self> {
        let has_copy_streams =
            matches!(schedule, Schedule::RoleStreams | Schedule::Tuned) && !in_place;
        let shared = match sharing {
            Sharing::Latency | Sharing::Bulk if has_copy_streams => {
                let copies = CopyStreams::of(device)?;
                let ends = [device.event()?, device.event()?];
                let small = (sharing == Sharing::Latency).then(|| Small::enter(&copies));
                Some(SharedCopies { copies, sharing, ends, _small: small })
            }
            _ => None,
        };
        let priority = match sharing {
            Sharing::Latency => device.info().priorities.1,
            Sharing::Alone | Sharing::Bulk => 0,
        };
        let options = StreamOptions::new().priority(priority);
        let (upload, download) =
            (table.stream(StageId::Upload, 0), table.stream(StageId::Download, 0));
        let open = |(number, name): (usize, &String)| match &shared {
            Some(SharedCopies { copies, .. }) if number == upload => Ok(Arc::clone(&copies.up)),
            Some(SharedCopies { copies, .. }) if number == download => Ok(Arc::clone(&copies.down)),
            Some(_) | None => Ok(Arc::new(device.stream_with(options)?.named(name))),
        };
        let streams = table.names().iter().enumerate().map(open).collect::<Result<_>>()?;
        Ok(Self { table, streams, shared })
    }

    /// Opens streams of a recording with the same table.
    pub(super) fn recorded(&self, recording: &Recording) -> Result<Self> {
        let open = |_| Ok(Arc::new(recording.stream()?));
        let streams = self.streams.iter().map(open).collect::<Result<_>>()?;
        Ok(Self { table: self.table.clone(), streams, shared: None })
    }

    pub(super) fn all(&self) -> &[Arc<Stream>] {
        &self.streams
    }

    /// The stream on which the start of the run is recorded.
    pub(super) fn first(&self) -> &Stream {
        &self.streams[0]
    }

    /// The stream of a stage for a chunk. The trace attributes later operations on the stream to
    /// this chunk.
    pub(super) fn of(&self, stage: StageId, chunk: &Chunk) -> &Stream {
        let stream = &self.streams[self.table.stream(stage, chunk.index)];
        stream.set_chunk(Some(chunk.index));
        stream
    }

    /// The shared streams of the device, if this is a bulk run.
    pub(super) fn bulk(&self) -> Option<&Arc<CopyStreams>> {
        let shared = self.shared.as_ref()?;
        (shared.sharing == Sharing::Bulk).then_some(&shared.copies)
    }

    /// Waits for all operations of the run, even after an error. In the shared streams, does not
    /// wait for later operations of other runs. Does not return panics of host functions: see
    /// `take_panic`.
    pub(super) fn wait(&self) -> Result<()> {
        let Some(SharedCopies { copies, ends, .. }) = &self.shared else {
            return self.streams.iter().map(|s| s.complete()).fold(Ok(()), Result::and);
        };
        let both = [&copies.up, &copies.down];
        let recorded = ends.iter().zip(both).map(|(end, stream)| end.record(stream));
        let recorded = recorded.fold(Ok(()), Result::and);
        let own = self.streams.iter().filter(|s| !both.iter().any(|stream| Arc::ptr_eq(stream, s)));
        let ended = own.map(|s| s.complete()).fold(recorded, Result::and);
        ends.iter().map(Event::synchronize).fold(ended, Result::and)
    }
}
