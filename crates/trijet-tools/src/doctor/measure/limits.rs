//! Measures limits of the device: the memory of a stream, the number of kernels at the same time,
//! and the depth of a hardware queue.

use super::bench::{Bench, micros};
use super::work::Lane;
use crate::doctor::findings::CallCost;
use crate::doctor::verdict;
use crate::stats::Samples;
use std::time::Instant;
use trijet::{Bytes, Device, Nanos, Result, TimedEvent};

/// The number of streams that one sample creates. The number is large, because the driver allocates
/// some of the memory of streams in steps of 2 MiB.
const STREAMS: u32 = 64;

/// Measures the time that a new stream takes, and its device memory. No stream is dropped during
/// the measurement, because the next stream could reuse the resources of a dropped stream.
pub(super) fn new_streams(bench: &mut Bench) -> Result<()> {
    bench.device.synchronize()?;
    let (mut time_ns, mut taken) = (Samples::default(), Samples::default());
    let mut made = Vec::new();
    for _ in 0..bench.plan.repeats {
        let (Bytes(before), _) = bench.device.memory()?;
        let start = Instant::now();
        for _ in 0..STREAMS {
            made.push(bench.device.stream()?);
        }
        time_ns.push(micros(start) * 1e3 / f64::from(STREAMS));
        let (Bytes(after), _) = bench.device.memory()?;
        taken.push(before.saturating_sub(after) as f64 / f64::from(STREAMS));
    }
    drop(made);
    bench.found.calls.push(CallCost {
        call: "stream create, a new one",
        bare_ns: None,
        bare_through_ns: None,
        trijet_ns: Some(time_ns),
    });
    if bench.found.on_gpu() {
        bench.found.limits.stream_bytes = Some(Nanos::from_seconds(taken.quantile(0.5) * 1e-9).0);
    } else {
        bench.absent("device memory of a stream", "a host device keeps its streams in the process");
    }
    Ok(())
}

/// Streams for kernels of one block. Each kernel has its own stream.
struct Crowd {
    device: Device,
    lanes: Vec<(Lane, TimedEvent)>,
    rounds: u32,
}

impl Crowd {
    /// Runs a kernel on each of the first `width` streams. Returns the time at which each kernel
    /// ended, in microseconds after the start. If `interleaved` is true, an event is recorded
    /// directly after each launch. Otherwise the events are recorded after all launches.
    fn ends(&mut self, width: usize, interleaved: bool) -> Result<Vec<f64>> {
        let begin = self.device.timed_event()?;
        let Some((first, _)) = self.lanes.first() else { return Ok(Vec::new()) };
        begin.record(&first.stream)?;
        for (lane, end) in self.lanes.iter_mut().take(width) {
            lane.launch(self.rounds)?;
            if interleaved {
                end.record(&lane.stream)?;
            }
        }
        let lanes = self.lanes.iter().take(width);
        if !interleaved {
            lanes.clone().try_for_each(|(lane, end)| end.record(&lane.stream))?;
        }
        self.device.synchronize()?;
        lanes.map(|(_, end)| Ok(end.elapsed_since(&begin)?.seconds() * 1e6)).collect()
    }
}

/// Measures how many kernels run at the same time. A kernel counts if it ends together with the
/// first kernel. Event records between the launches can delay later kernels of other streams. So
/// the number is measured with and without such event records.
pub(super) fn resident_grids(bench: &mut Bench) -> Result<()> {
    let (count, device) = (bench.plan.grids, bench.device.clone());
    let rounds = bench.rounds(bench.plan.kernel_ms);
    let lane = |_| Ok((Lane::new(&device, device.stream()?)?, device.timed_event()?));
    let lanes = (0..count).map(lane).collect::<Result<Vec<_>>>()?;
    let mut crowd = Crowd { device: device.clone(), lanes, rounds };
    let mut seen: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..bench.plan.repeats {
        let alone = crowd.ends(1, true)?.iter().sum();
        for (seen, interleaved) in seen.iter_mut().zip([false, true]) {
            seen.push(verdict::resident(&crowd.ends(count, interleaved)?, alone));
        }
    }
    let [apart, recorded] = seen.map(|seen| verdict::majority(&seen).map(|(most, _)| most));
    bench.found.limits.resident_grids = apart.map(|resident| (resident, count as u64));
    bench.found.limits.resident_recorded = recorded;
    Ok(())
}

/// Counts the launches that a stream with a running kernel accepts before a launch delays the host.
pub(super) fn queue_depth(bench: &mut Bench) -> Result<()> {
    if !bench.found.on_gpu() {
        // On a host device, a launch could be delayed by other work of the processor.
        bench.absent("queue depth", "a host device has no hardware queue");
        return Ok(());
    }
    let mut lane = Lane::new(&bench.device, bench.device.stream()?)?;
    let rounds = bench.rounds(bench.plan.kernel_ms);
    let kernel_us = bench.plan.kernel_ms * 1e3;
    let mut seen = Vec::new();
    for _ in 0..bench.plan.repeats {
        let start = Instant::now();
        lane.launch(rounds)?;
        let mut launches = Vec::with_capacity(bench.plan.launches_max);
        while launches.len() < bench.plan.launches_max {
            let begin = micros(start);
            lane.launch(1)?;
            let end = micros(start);
            launches.push((begin, end));
            // The long kernel may end soon. After its end, a launch would not be delayed by a full
            // queue.
            if end > 0.5 * kernel_us {
                break;
            }
        }
        lane.stream.synchronize()?;
        seen.push(verdict::queue_depth(&launches, kernel_us));
    }
    bench.found.limits.queue_depth = verdict::majority(&seen).map(|(depth, _)| depth);
    Ok(())
}
