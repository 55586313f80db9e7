//! The times of single operations, from the call until the host knows that the operation is
//! complete.
#![forbid(unsafe_code)]

use super::ground::Ground;
use std::time::Instant;
use trijet::{Result, Stream, TimedEvent};

/// The times of the operations of a run.
pub(crate) struct Latency {
    /// On a model: the events before and after each operation, because only events show the clock
    /// of the model. `None` on a GPU, where the host measures. If streams share a hardware queue,
    /// an event before the operation may wait as long as the operation, and the time would be too
    /// short.
    events: Option<[TimedEvent; 2]>,
    ms: Vec<f64>,
}

impl Latency {
    pub(crate) fn new(ground: &Ground) -> Result<Self> {
        let event = || ground.device.timed_event();
        let events = if ground.is_modelled() { Some([event()?, event()?]) } else { None };
        Ok(Self { events, ms: Vec::new() })
    }

    /// Removes the times of earlier runs.
    pub(crate) fn clear(&mut self) {
        self.ms.clear();
    }

    /// The number of operations that were measured since the last [`clear`](Self::clear).
    pub(crate) fn count(&self) -> usize {
        self.ms.len()
    }

    /// Calls `enqueue`, and waits for `stream`. Adds the time from the call to the end of the wait.
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

    /// The longest time in milliseconds; `None` if no operation was measured.
    pub(crate) fn longest_ms(&self) -> Option<f64> {
        self.ms.iter().copied().max_by(f64::total_cmp)
    }
}
