//! The streams of tasks: which one a task is issued on.
#![forbid(unsafe_code)]

use super::record::Number;
use crate::base::error::Result;
use crate::base::id::Position;
use crate::stream::{Device, Stream, StreamOptions};
use std::sync::Arc;

/// A stream, and the task that was issued last on it.
#[derive(Debug)]
struct Lane {
    stream: Arc<Stream>,
    is_urgent: bool,
    tail: Number,
    /// The last operation.
    end: Option<Position>,
}

/// The streams of tasks. They are created when they are needed.
#[derive(Debug)]
pub(super) struct Lanes {
    device: Device,
    /// The most streams of each priority.
    most: usize,
    lanes: Vec<Lane>,
}

/// An earlier task that a task comes after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) number: Number,
    pub(super) lane: usize,
    /// Whether another task that comes after it should continue its stream.
    pub(super) has_other_heir: bool,
}

impl Lanes {
    pub(super) fn new(device: &Device, most: usize) -> Self {
        Self { device: device.clone(), most, lanes: Vec::new() }
    }

    /// The stream for a task that comes after the tasks `before`: that of one of them that nothing was issued behind,
    /// so that no wait is needed; else one without pending work, a new one, or the one that was used the longest ago.
    ///
    /// # Errors
    /// The error of a new stream.
    pub(super) fn choose(
        &mut self,
        before: impl Iterator<Item = Before>,
        is_urgent: bool,
    ) -> Result<usize> {
        let continued = before.filter(|one| {
            let lane = &self.lanes[one.lane];
            lane.tail == one.number && lane.is_urgent == is_urgent && !one.has_other_heir
        });
        if let Some(one) = continued.max_by_key(|one| one.number) {
            return Ok(one.lane);
        }
        let domain = &self.device.shared().domain;
        let own = || self.lanes.iter().enumerate().filter(|(_, lane)| lane.is_urgent == is_urgent);
        let idle = own().find(|(_, lane)| lane.end.is_none_or(|end| domain.is_done(end)));
        if let Some((at, _)) = idle {
            return Ok(at);
        }
        if own().count() >= self.most
            && let Some((at, _)) = own().min_by_key(|(_, lane)| lane.tail)
        {
            return Ok(at);
        }
        let (_, most_urgent) = self.device.info().priorities;
        let priority = if is_urgent { most_urgent } else { 0 };
        let stream = self.device.stream_with(StreamOptions::new().priority(priority))?;
        let name =
            format!("{} {}", if is_urgent { "urgent tasks" } else { "tasks" }, own().count());
        let stream = Arc::new(stream.named(&name));
        self.lanes.push(Lane { stream, is_urgent, tail: 0, end: None });
        Ok(self.lanes.len() - 1)
    }

    /// The number of streams.
    pub(super) fn count(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn stream(&self, lane: usize) -> &Arc<Stream> {
        &self.lanes[lane].stream
    }

    /// Notes that a task was issued on a stream, whose last operation is `end` now. Returns the last operation of the
    /// task, if it has one.
    pub(super) fn issued(
        &mut self,
        lane: usize,
        task: Number,
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
