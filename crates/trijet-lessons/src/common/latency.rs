//! The times of single operations, from the call until the host knows that the operation is
//! complete.
#![forbid(unsafe_code)]

use super::ground::Ground;
use crate::verdict::time;
use std::time::Instant;
use trijet::{Result, Stream, TimedEvent};
use trijet_tools::stats::Samples;

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

    /// The quantile of the times in milliseconds; `None` if no operation was measured.
    pub(crate) fn quantile_ms(&self, share: f64) -> Option<f64> {
        (self.count() > 0).then(|| Samples::of(self.ms.clone()).quantile(share))
    }

    /// The 50th and the 99th percentile, as a clause; `None` if no operation was measured.
    pub(crate) fn percentiles(&self) -> Option<String> {
        let [p50, p99] = [self.quantile_ms(0.5)?, self.quantile_ms(0.99)?].map(time);
        Some(format!("p50 {p50}, p99 {p99} of {} launches", self.count()))
    }
}

#[cfg(test)]
mod tests {
    use super::Latency;

    #[test]
    fn of_100_launches_one_may_take_longer_than_the_99th_percentile() {
        let mut ms: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        ms[0] = 1e6;
        let latency = Latency { events: None, ms };
        assert_eq!(
            latency.percentiles().as_deref(),
            Some("p50 50.00 ms, p99 99.00 ms of 100 launches")
        );
        let none = Latency { events: None, ms: Vec::new() };
        assert_eq!((none.quantile_ms(0.5), none.percentiles()), (None, None));
    }
}
