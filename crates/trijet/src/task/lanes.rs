//! The streams of tasks, and the choice of a stream for a task.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::Position;
use crate::stream::{Device, Stream, StreamOptions};
use std::sync::Arc;

/// A group of tasks that share streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Work {
        is_urgent: bool,
    },
    /// Copies from the host to the device. All copies in one direction share one copy engine, so
    /// these copies have one stream on each device.
    Upload,
    Download,
    /// Copies from the device with the number `from`.
    Peer {
        from: usize,
    },
}

/// A stream of tasks.
#[derive(Debug)]
struct TaskLane {
    stream: Arc<Stream>,
    /// The number of the stream's device, and the group of tasks that use the stream.
    serves: (usize, Group),
    tail: u64,
    /// The position of the last operation of the stream after the last task on the stream was
    /// issued.
    end: Option<Position>,
}

/// The streams of tasks. A stream is created when it is needed.
#[derive(Debug)]
pub(super) struct Lanes {
    devices: Arc<[Device]>,
    /// Maximum number of streams of each priority on a device.
    most: usize,
    lanes: Vec<TaskLane>,
    /// Whether the only stream belongs to the program, so that no stream is created.
    is_given: bool,
}

/// An earlier task that a task comes after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Predecessor {
    pub(super) number: u64,
    pub(super) lane: usize,
    /// Whether a later task should continue the stream of this predecessor instead.
    pub(super) has_other_heir: bool,
}

impl Lanes {
    pub(super) fn new(devices: &Arc<[Device]>, most: usize) -> Self {
        Self { devices: Arc::clone(devices), most, lanes: Vec::new(), is_given: false }
    }

    /// The list for tasks in a stream of the program. The list has one element, `stream`. All tasks
    /// are issued on this stream.
    pub(super) fn of_stream(devices: &Arc<[Device]>, stream: Arc<Stream>) -> Self {
        let serves = (0, Group::Work { is_urgent: false });
        let lanes = vec![TaskLane { stream, serves, tail: 0, end: None }];
        Self { devices: Arc::clone(devices), most: 1, lanes, is_given: true }
    }

    /// Chooses the stream for a task that comes after its `predecessors`. The first choice is the
    /// stream of a predecessor, if no task was issued on this stream after the predecessor. Then no
    /// wait for the predecessor is needed. The second choice is a stream without pending work. The
    /// third choice is a new stream. If no more streams may be created, the stream whose last task
    /// is the oldest is chosen.
    ///
    /// # Errors
    /// The error of the creation of a stream.
    pub(super) fn choose(
        &mut self,
        predecessors: impl Iterator<Item = Predecessor>,
        serves: (usize, Group),
    ) -> Result<usize> {
        if self.is_given {
            return Ok(0);
        }
        let continued = predecessors.filter(|one| {
            let lane = &self.lanes[one.lane];
            lane.tail == one.number && lane.serves == serves && !one.has_other_heir
        });
        if let Some(one) = continued.max_by_key(|one| one.number) {
            return Ok(one.lane);
        }
        let (place, group) = serves;
        let device = &self.devices[place];
        let domain = &device.shared().domain;
        let own = || self.lanes.iter().enumerate().filter(|(_, lane)| lane.serves == serves);
        let (most, is_urgent, name) = match group {
            Group::Work { is_urgent: false } => (self.most, false, "tasks"),
            Group::Work { is_urgent: true } => (self.most, true, "urgent tasks"),
            Group::Upload => (1, false, "uploads of tasks"),
            Group::Download => (1, false, "downloads of tasks"),
            Group::Peer { .. } => (1, false, "copies of tasks from a device"),
        };
        let idle = own().find(|(_, lane)| lane.end.is_none_or(|end| domain.is_done(end)));
        if let Some((at, _)) = idle {
            return Ok(at);
        }
        if own().count() >= most
            && let Some((at, _)) = own().min_by_key(|(_, lane)| lane.tail)
        {
            return Ok(at);
        }
        let (_, most_urgent) = device.info().priorities;
        let priority = if is_urgent { most_urgent } else { 0 };
        let stream = device.stream_with(StreamOptions::new().priority(priority))?;
        let stream = Arc::new(stream.named(&format!("{name} {}", own().count())));
        self.lanes.push(TaskLane { stream, serves, tail: 0, end: None });
        Ok(self.lanes.len() - 1)
    }

    /// Whether the only stream belongs to the program.
    pub(super) fn is_given(&self) -> bool {
        self.is_given
    }

    /// The number of streams.
    pub(super) fn count(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn stream(&self, lane: usize) -> &Arc<Stream> {
        &self.lanes[lane].stream
    }

    /// Notes that a task was issued on a stream. `end` is the position of the last operation of the
    /// stream after the task. Returns the position of the last operation of the task; `None` if the
    /// task enqueued nothing.
    pub(super) fn issued(
        &mut self,
        lane: usize,
        task: u64,
        end: Option<Position>,
    ) -> Option<Position> {
        let lane = &mut self.lanes[lane];
        lane.tail = task;
        let before = std::mem::replace(&mut lane.end, end);
        end.filter(|_| end != before)
    }

    /// All streams.
    pub(super) fn streams(&self) -> Vec<Arc<Stream>> {
        self.lanes.iter().map(|lane| Arc::clone(&lane.stream)).collect()
    }
}
