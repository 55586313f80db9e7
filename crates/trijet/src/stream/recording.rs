//! A recording that was taken: the operations, where their times come from, and how good they are.
#![forbid(unsafe_code)]

use crate::base::ledger::Op;
use crate::base::units::Nanos;
use crate::trace::file::{About, AboutDevice, TimeSource};

/// What a recording takes the times of operations from.
///
/// ```
/// use trijet::trace::file::TimeSource;
/// use trijet::{Device, Executor, HostConfig, Order, TimesFrom};
/// let executor = Executor::Virtual(Order::Greedy);
/// let device = Device::host(HostConfig { executor, ..HostConfig::default() })?.remove(0);
/// let (a, b) = (device.stream()?, device.stream()?);
/// let h = device.pinned::<u8>(1 << 20)?;
/// let (mut x, mut y) = (a.alloc::<u8>(1 << 20)?, b.alloc::<u8>(1 << 20)?);
/// let mut run = |from| {
///     device.record_from(&a, from)?;
///     a.copy(&h, &mut x)?;
///     b.copy(&h, &mut y)?;
///     device.synchronize()?;
///     device.take_recording()
/// };
/// let (pairs, engines) = (run(TimesFrom::Events)?, run(TimesFrom::Activity)?);
/// assert_eq!((pairs.times, engines.times), (TimeSource::Model, TimeSource::Activity));
/// let lengths = |ops: &[trijet::base::ledger::Op]| -> u64 {
///     ops.iter().filter_map(|op| op.times).map(|times| times.end.0 - times.begin.0).sum()
/// };
/// // The second copy queued for the one engine, which its pair of events counts.
/// assert!(lengths(&pairs.ops) > lengths(&engines.ops));
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimesFrom {
    /// Pairs of timed events: from ready to end. Where several streams queue for one engine, the
    /// time in the queue counts.
    #[default]
    Events,
    /// What the engines did, where something tells it: see [`TimesFrom::Activity`]. Elsewhere pairs
    /// of events, and [`Recording::instead`] says why.
    ActivityIfThere,
    /// What the engines did, from begin to end: on a GPU by CUPTI, whose library is opened at run
    /// time; exact in the virtual executor. One recording of a driver at a time has them.
    Activity,
}

/// The records of a run, and what their times are worth.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The operations, in the order of the driver's calls of each stream.
    pub ops: Vec<Op>,
    /// Where their times come from. Host functions of a GPU, of which CUPTI knows nothing, have
    /// pairs of events in any case.
    pub times: TimeSource,
    /// By how much the host's times may be off those of the device.
    pub clock_error: Nanos,
    /// Operations of engines without a time: nothing was told of them.
    pub untimed: usize,
    /// Records that the profiler had no room for.
    pub lost: u64,
    /// Why the times are from pairs of events, where better ones had been asked for.
    pub instead: Option<String>,
    /// The devices that were recorded.
    pub devices: Vec<AboutDevice>,
}

impl Recording {
    /// What a file with these operations says of itself.
    ///
    /// ```
    /// use trijet::trace::file::{TimeSource, Writer};
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let stream = device.stream()?;
    /// device.record(&stream)?;
    /// stream.alloc::<u8>(16)?;
    /// device.synchronize()?;
    /// let recording = device.take_recording()?;
    /// let about = recording.about("an example");
    /// assert_eq!(about.times, TimeSource::HostClock);
    /// let mut file = Writer::new(Vec::new(), &about)?;
    /// recording.ops.iter().try_for_each(|op| file.push(op))?;
    /// assert!(!file.finish()?.is_empty());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn about(&self, program: &str) -> About {
        About {
            tool: concat!("trijet ", env!("CARGO_PKG_VERSION")).to_owned(),
            program: program.to_owned(),
            times: self.times,
            clock_error_ns: self.clock_error.0,
            dropped: 0,
            order: None,
            devices: self.devices.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::{ErrorKind, Result};
    use crate::base::ledger::{Engine, OpKind};
    use crate::device::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
    use crate::stream::device::Device;
    use crate::trace::queued::queued;

    const BYTES: u64 = 1 << 20;

    fn device(faults: Vec<Fault>) -> Device {
        let executor = Executor::Virtual(Order::Greedy);
        let config = HostConfig { executor, faults, ..HostConfig::default() };
        Device::host(config).expect("a host device").remove(0)
    }

    /// Three streams upload at once, and one computes.
    fn queueing(device: &Device, from: TimesFrom) -> Result<Recording> {
        let streams = (0..3).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
        let h = device.pinned::<u8>(BYTES)?;
        let mut x: Vec<_> = streams.iter().map(|s| s.alloc::<u8>(BYTES)).collect::<Result<_>>()?;
        device.synchronize()?;
        device.record_from(&streams[0], from)?;
        for (stream, x) in streams.iter().zip(&mut x) {
            stream.copy(&h, x)?;
        }
        streams[2].fill_bytes(&mut x[2], 1)?;
        device.synchronize()?;
        device.take_recording()
    }

    fn uploads(recording: &Recording) -> Vec<(u64, u64)> {
        let mine = recording.ops.iter().filter(|op| op.engine == Engine::Upload);
        let times = mine.map(|op| op.times.expect("it was recorded"));
        times.map(|times| (times.begin.0, times.end.0)).collect()
    }

    #[test]
    fn pairs_of_events_count_the_queue_and_engines_do_not() -> Result<()> {
        let pairs = queueing(&device(vec![]), TimesFrom::Events)?;
        let engines = queueing(&device(vec![]), TimesFrom::Activity)?;
        let (queue, work) = (uploads(&pairs), uploads(&engines));
        let length = |(begin, end): &(u64, u64)| end - begin;
        // One after the other, and each as long as it takes.
        assert!(work.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{work:?}");
        assert!(length(&work[0]) > 0, "{work:?}");
        assert!(work.iter().all(|one| length(one) == length(&work[0])), "{work:?}");
        // The third pair also holds the two before it.
        assert!(length(&queue[2]) > 2 * length(&work[2]), "{queue:?} {work:?}");
        assert!(!queued(&pairs.ops).is_empty() && queued(&engines.ops).is_empty());
        Ok(())
    }

    #[test]
    fn a_recording_says_where_its_times_come_from() -> Result<()> {
        let engines = queueing(&device(vec![]), TimesFrom::ActivityIfThere)?;
        assert_eq!((engines.times, engines.untimed, engines.lost), (TimeSource::Activity, 0, 0));
        assert_eq!(engines.instead, None);
        assert_eq!(engines.about("a test").times, TimeSource::Activity);
        assert_eq!(engines.about("a test").devices[0].name, "host device (modelled H200)");
        let pairs = queueing(&device(vec![]), TimesFrom::Events)?;
        assert_eq!(pairs.times, TimeSource::Model);
        Ok(())
    }

    #[test]
    fn engines_and_the_host_are_on_one_clock() -> Result<()> {
        let engines = queueing(&device(vec![]), TimesFrom::Activity)?;
        for op in engines.ops.iter().filter(|op| op.engine != Engine::None) {
            let (call, times) = (op.call.expect("recorded"), op.times.expect("recorded"));
            assert!(call.begin <= times.begin, "{op:?}");
        }
        let waits = engines.ops.iter().filter(|op| matches!(op.kind, OpKind::Sync { .. }));
        let last = waits.filter_map(|op| op.call).map(|call| call.end).max();
        let end = engines.ops.iter().filter_map(|op| op.times).map(|times| times.end).max();
        assert!(end.is_some() && end <= last, "{end:?} {last:?}");
        Ok(())
    }

    /// One recording at a time has the engines' times; another may take pairs of events, and has to
    /// say so.
    #[test]
    fn a_second_recording_gets_pairs_or_an_error_as_it_asked() -> Result<()> {
        let device = device(vec![]);
        let stream = device.stream()?;
        let profiler = device.shared().universe.driver.profiler().expect("host devices have one");
        profiler.activity_begin()?;
        let error = device.record_from(&stream, TimesFrom::Activity).expect_err("they are taken");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let pairs = queueing(&device, TimesFrom::ActivityIfThere)?;
        assert_eq!((pairs.times, pairs.untimed), (TimeSource::Model, 0));
        let why = pairs.instead.expect("it was asked for more");
        assert!(why.contains("another recording"), "{why}");
        profiler.activity_take().map(drop)
    }

    #[test]
    fn a_recording_that_nobody_took_makes_room() -> Result<()> {
        let device = device(vec![]);
        let stream = device.stream()?;
        device.record_from(&stream, TimesFrom::Activity)?;
        device.record_from(&stream, TimesFrom::Activity)?;
        device.take_recording()?;
        let profiler = device.shared().universe.driver.profiler().expect("host devices have one");
        let error = profiler.activity_take().expect_err("it has ended");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        Ok(())
    }

    /// What a refused operation was to be under is not left to the next.
    #[test]
    fn a_refused_operation_leaves_no_tag() -> Result<()> {
        let refused = Fault { verb: Verb::Fill, nth: 1, kind: FaultKind::Refused };
        let device = device(vec![refused]);
        let stream = device.stream()?;
        let mut x = stream.alloc::<u8>(BYTES)?;
        device.record_from(&stream, TimesFrom::Activity)?;
        assert!(stream.fill_bytes(&mut x, 1).is_err());
        device.take_recording()?;
        let profiler = device.shared().universe.driver.profiler().expect("host devices have one");
        profiler.activity_begin()?;
        // Nobody records the stream, so nothing is tagged.
        stream.fill_bytes(&mut x, 1)?;
        device.synchronize()?;
        assert_eq!(profiler.activity_take()?.work, []);
        Ok(())
    }

    #[test]
    fn on_threads_operations_have_the_times_of_their_threads() -> Result<()> {
        let device = Device::host(HostConfig::default())?.remove(0);
        let engines = queueing(&device, TimesFrom::Activity)?;
        let work = uploads(&engines);
        // One thread uploads: what was taken up first has ended before the next begins.
        assert!(work.len() == 3 && work.iter().all(|(begin, end)| begin <= end), "{work:?}");
        let mut sorted = work.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{work:?}");
        Ok(())
    }
}
