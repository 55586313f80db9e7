//! The times of single operations, from the call until the host knows that the operation is
//! complete.
#![forbid(unsafe_code)]

use super::ground::Ground;
use std::time::Instant;
use trijet::{Result, Stream, TimedEvent};

/// The times of the operations of a run.
pub(crate) struct Latency {
    /// The clock of a model shows in events only. `None` on a GPU: the first event would wait with
    /// the operation if the stream shared its hardware queue.
    events: Option<[TimedEvent; 2]>,
    ms: Vec<f64>,
}

impl Latency {
    pub(crate) fn new(ground: &Ground) -> Result<Self> {
        let event = || ground.device.timed_event();
        let events = if ground.is_modelled() { Some([event()?, event()?]) } else { None };
        Ok(Self { events, ms: Vec::new() })
    }

    /// Forgets the times of earlier runs.
    pub(crate) fn clear(&mut self) {
        self.ms.clear();
    }

    /// The number of operations of the run so far.
    pub(crate) fn count(&self) -> usize {
        self.ms.len()
    }

    /// Calls `enqueue`, and waits for the stream.
    pub(crate) fn measure(
        &mut self,
        stream: &Stream,
        enqueue: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let ms = match &self.events {
            Some([begin, end]) => {
                begin.record(stream)?;
                enqueue()?;
                end.record(stream)?;
                stream.synchronize()?;
                end.elapsed_since(begin)?.seconds() * 1e3
            }
            None => {
                let start = Instant::now();
                enqueue()?;
                stream.synchronize()?;
                start.elapsed().as_secs_f64() * 1e3
            }
        };
        self.ms.push(ms);
        Ok(())
    }

    /// The longest of the times. `None` without an operation.
    pub(crate) fn longest_ms(&self) -> Option<f64> {
        self.ms.iter().copied().max_by(f64::total_cmp)
    }
}
