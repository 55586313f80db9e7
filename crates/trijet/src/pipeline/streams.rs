//! The streams of a run.
#![forbid(unsafe_code)]

use super::class::Class;
use super::lanes::{Lanes, Small};
use super::plan::Chunk;
use super::schedule::{Schedule, StageId, Table};
use crate::base::error::Result;
use crate::graph::Recording;
use crate::stream::{Device, Event, Stream, StreamOptions};
use std::sync::Arc;

/// The streams of a run, by the table of its schedule.
pub(super) struct Streams {
    table: Table,
    streams: Vec<Arc<Stream>>,
    /// The streams that are shared with other runs.
    shared: Option<SharedLanes>,
}

/// The part of a run in the lanes of its device.
struct SharedLanes {
    lanes: Arc<Lanes>,
    class: Class,
    /// The ends of the run in both lanes.
    ends: [Event; 2],
    /// Kept for its drop.
    _small: Option<Small>,
}

impl Streams {
    /// Opens the streams. Copies of runs that share the copy engines are in the lanes of the device; a run
    /// that copies in the streams of its kernels, or not at all, has no part in them.
    pub(super) fn open(
        device: &Device,
        table: Table,
        (schedule, class): (Schedule, Class),
        in_place: bool,
    ) -> Result<Self> {
        let has_lanes = matches!(schedule, Schedule::RoleStreams | Schedule::Tuned) && !in_place;
        let shared = match class {
            Class::Latency | Class::Bulk if has_lanes => {
                let lanes = Lanes::of(device)?;
                let ends = [device.event()?, device.event()?];
                let small = (class == Class::Latency).then(|| Small::enter(&lanes));
                Some(SharedLanes { lanes, class, ends, _small: small })
            }
            _ => None,
        };
        let priority = match class {
            Class::Latency => device.info().priorities.1,
            Class::Alone | Class::Bulk => 0,
        };
        let options = StreamOptions::new().priority(priority);
        let (upload, download) =
            (table.stream(StageId::Upload, 0), table.stream(StageId::Download, 0));
        let open = |(number, name): (usize, &String)| match &shared {
            Some(SharedLanes { lanes, .. }) if number == upload => Ok(Arc::clone(&lanes.up)),
            Some(SharedLanes { lanes, .. }) if number == download => Ok(Arc::clone(&lanes.down)),
            Some(_) | None => Ok(Arc::new(device.stream_with(options)?.named(name))),
        };
        let streams = table.names().iter().enumerate().map(open).collect::<Result<_>>()?;
        Ok(Self { table, streams, shared })
    }

    /// Streams whose operations are recorded.
    pub(super) fn recorded(
        recording: &Recording<'_>,
        schedule: Schedule,
        (stages, slots): (usize, usize),
    ) -> Result<Self> {
        let table = Table::new(schedule, stages, slots);
        let open = |_| Ok(Arc::new(recording.stream()?));
        let streams = table.names().iter().map(open).collect::<Result<_>>()?;
        Ok(Self { table, streams, shared: None })
    }

    pub(super) fn all(&self) -> &[Arc<Stream>] {
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

    /// The lanes of a run that leaves room in them for others.
    pub(super) fn bulk(&self) -> Option<&Arc<Lanes>> {
        let shared = self.shared.as_ref()?;
        (shared.class == Class::Bulk).then_some(&shared.lanes)
    }

    /// Waits for all operations of the run, also after an error. Of those that others enqueue in the
    /// shared lanes, it waits for none that come later.
    pub(super) fn wait(&self) -> Result<()> {
        let Some(SharedLanes { lanes, ends, .. }) = &self.shared else {
            return self.streams.iter().map(|s| s.synchronize()).fold(Ok(()), Result::and);
        };
        let both = [&lanes.up, &lanes.down];
        let recorded = ends.iter().zip(both).map(|(end, lane)| end.record(lane));
        let recorded = recorded.fold(Ok(()), Result::and);
        let own = self.streams.iter().filter(|s| !both.iter().any(|lane| Arc::ptr_eq(lane, s)));
        let ended = own.map(|s| s.synchronize()).fold(recorded, Result::and);
        ends.iter().map(Event::synchronize).fold(ended, Result::and)
    }
}
