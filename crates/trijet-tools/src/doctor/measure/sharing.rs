//! Measures which operations delay other streams. Each of several kernels has its own stream, with
//! an operation of one kind that is enqueued after the kernel. The result is the number of kernels
//! that run at the same time.

use super::bench::{Bench, micros};
use super::work::Lane;
use crate::doctor::findings::QueueShare;
use crate::doctor::verdict;
use std::time::Instant;
use trijet::{Buffer, Device, Event, PinnedBuffer, Result, TimedEvent};

/// The number of hardware queues that is assumed if the device does not report its number.
const QUEUES: u32 = 8;
/// The number of elements of the small copy and of the fill.
const SMALL: usize = 32;

/// The operation that is enqueued after the kernel of each stream.
#[derive(Debug, Clone, Copy)]
enum Behind {
    Nothing,
    Event,
    Copy,
    TimedEvent,
    HostFn,
    Fill,
    Kernel,
}

const KINDS: [(&str, Behind); 7] = [
    ("nothing", Behind::Nothing),
    ("an event without timing", Behind::Event),
    ("a small copy", Behind::Copy),
    ("an event with timing", Behind::TimedEvent),
    ("a host function", Behind::HostFn),
    ("a memset", Behind::Fill),
    ("a second kernel", Behind::Kernel),
];

/// A stream, and the objects for the operations that are enqueued in it.
struct StreamRow {
    lane: Lane,
    event: Event,
    timed: TimedEvent,
    small: Buffer<u32>,
    landed: PinnedBuffer<u32>,
}

impl StreamRow {
    fn new(device: &Device) -> Result<Self> {
        let lane = Lane::new(device, device.stream()?)?;
        let mut small = lane.stream.alloc(SMALL)?;
        lane.stream.fill_bytes(&mut small, 1)?;
        let (event, timed) = (device.event()?, device.timed_event()?);
        Ok(Self { event, timed, small, landed: device.pinned(SMALL)?, lane })
    }

    fn enqueue(&mut self, rounds: u32, behind: Behind) -> Result<()> {
        self.lane.launch(rounds)?;
        let Self { lane, event, timed, small, landed } = self;
        match behind {
            Behind::Nothing => Ok(()),
            Behind::Event => event.record(&lane.stream),
            Behind::Copy => lane.stream.copy(&*small, landed),
            Behind::TimedEvent => timed.record(&lane.stream),
            Behind::HostFn => lane.stream.host_fn(|| ()),
            Behind::Fill => lane.stream.fill_bytes(small, 2),
            Behind::Kernel => lane.launch(1),
        }
    }
}

/// The time from the first launch to the end of the work in all streams, in microseconds.
fn whole_us(device: &Device, rows: &mut [StreamRow], rounds: u32, behind: Behind) -> Result<f64> {
    device.synchronize()?;
    let start = Instant::now();
    rows.iter_mut().try_for_each(|row| row.enqueue(rounds, behind))?;
    device.synchronize()?;
    Ok(micros(start))
}

/// Measures with as many streams as there are hardware queues, and with twice as many streams.
pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    if bench.found.on_gpu() {
        let queues = bench.found.device.hardware_queues.unwrap_or(QUEUES);
        return with_queues(bench, queues);
    }
    Ok(())
}

fn with_queues(bench: &mut Bench, queues: u32) -> Result<()> {
    // A quarter of the usual duration of the kernel is still far longer than all launches of a
    // sample.
    let (device, rounds) = (bench.device.clone(), bench.rounds(bench.plan.kernel_ms / 4.0));
    let mut rows = (0..2 * queues).map(|_| StreamRow::new(&device)).collect::<Result<Vec<_>>>()?;
    let half = rows.len() / 2;
    for (behind, kind) in KINDS {
        for streams in [half, 2 * half] {
            let mut seen = Vec::new();
            for repeat in 0..=bench.plan.repeats {
                let alone = whole_us(&device, &mut rows[..1], rounds, kind)?;
                let whole = whole_us(&device, &mut rows[..streams], rounds, kind)?;
                if repeat > 0 {
                    seen.push(verdict::at_once(streams as u64, whole, alone));
                }
            }
            let Some((at_once, agree)) = verdict::majority(&seen) else { continue };
            let agreeing = (agree, seen.len());
            let streams = streams as u64;
            bench.found.queue_shares.push(QueueShare { behind, streams, at_once, agreeing });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::findings::Findings;
    use crate::doctor::plan::Plan;
    use trijet::Select;

    /// On a host device, this test shows that an operation of every kind can be enqueued and
    /// counted. The number of kernels that run at the same time depends on the machine.
    #[test]
    fn every_kind_is_measured_for_both_numbers_of_streams() -> Result<()> {
        let device = Device::open(Select::Host(0))?;
        let info = device.info().clone();
        let plan = Plan { repeats: 1, kernel_ms: 1.0, ..Plan::of(&info) };
        let found = Findings::new(info, 0);
        let mut bench = Bench { device, plan, lab: None, rounds_per_ms: 10.0, found };
        with_queues(&mut bench, 2)?;
        let rows = &bench.found.queue_shares;
        let names: Vec<_> = rows.iter().map(|row| (row.behind, row.streams)).collect();
        let both = KINDS.iter().flat_map(|(name, _)| [(*name, 2), (*name, 4)]);
        assert_eq!(names, both.collect::<Vec<_>>());
        assert!(rows.iter().all(|row| (1..=row.streams).contains(&row.at_once)), "{rows:?}");
        Ok(())
    }
}
