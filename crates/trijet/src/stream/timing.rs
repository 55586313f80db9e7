//! A recorder: the ledger of some lanes with the times of its operations, from pairs of timed
//! events around each, or from what the engines did.
//!
//! The pair measures from the moment the operation was ready (its lane's earlier work and its
//! waits were done) to its end: not from the moment its engine took it. On a lane that has an
//! engine for itself the two are the same. With activities no event is recorded, except around
//! host functions, of which CUPTI says nothing.
#![forbid(unsafe_code)]

use super::activity::Noting;
use super::callback;
use super::recording::{Recording, TimesFrom};
use super::universe::Universe;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{BlockId, DeviceId};
use crate::base::ledger::{Engine, Ledger, Named, Op, OpKind, Times};
use crate::base::units::Nanos;
use crate::device::driver::{Clock, Driver, EventHandle, StreamHandle, Timing};
use crate::trace::file::{AboutDevice, TimeSource};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// A timed event that is destroyed with its last holder.
#[derive(Debug)]
pub(crate) struct Instant {
    driver: Arc<dyn Driver>,
    device: DeviceId,
    event: EventHandle,
}

impl Drop for Instant {
    fn drop(&mut self) {
        if callback::inside() {
            return;
        }
        // Destroying never blocks (law A12); after a context error there is nothing to destroy.
        drop(self.driver.event_destroy(self.event));
    }
}

/// Events whose times have been read, to be recorded again: making one costs more than most
/// operations that are timed.
#[derive(Debug, Default)]
pub(crate) struct Instants(Mutex<BTreeMap<DeviceId, Vec<Arc<Instant>>>>);

impl Instants {
    /// The most that are kept of a device.
    const KEPT_MAX: usize = 4096;
    /// How many a lane takes at once.
    const TAKEN_MAX: usize = 64;

    /// Notes the moment at which `stream` reaches this point, with one of `ready`, the lane's own.
    pub(super) fn mark(
        &self,
        driver: &Arc<dyn Driver>,
        (device, stream): (DeviceId, StreamHandle),
        ready: &mut Vec<Arc<Instant>>,
    ) -> Result<Arc<Instant>> {
        if ready.is_empty()
            && let Some(kept) = self.lock().get_mut(&device)
        {
            ready.extend(kept.drain(kept.len().saturating_sub(Self::TAKEN_MAX)..));
        }
        let instant = match ready.pop() {
            Some(instant) => instant,
            None => {
                let event = driver.event_create(device, Timing::On)?;
                Arc::new(Instant { driver: Arc::clone(driver), device, event })
            }
        };
        driver.event_record(instant.event, stream)?;
        Ok(instant)
    }

    /// Takes one whose time has been read, unless somebody else still holds it.
    fn give_back(&self, instant: Arc<Instant>) {
        if Arc::strong_count(&instant) == 1 {
            let mut all = self.lock();
            let kept = all.entry(instant.device).or_default();
            if kept.len() < Self::KEPT_MAX {
                kept.push(instant);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<DeviceId, Vec<Arc<Instant>>>> {
        self.0.lock().expect("no panic under this lock")
    }
}

/// Numbers threads, allocations and signals from 1 in the order in which they appear. Their own
/// numbers count over the process: a run that is repeated in it would give another record.
fn number_by_appearance(ops: &mut [Op]) {
    let (mut threads, mut blocks) = (BTreeMap::new(), BTreeMap::new());
    let mut signals = BTreeMap::new();
    for op in ops {
        let next = threads.len() as u64 + 1;
        op.thread = *threads.entry(op.thread).or_insert(next);
        if let OpKind::Signal { signal, .. } = &mut op.kind {
            let next = signals.len() as u64 + 1;
            *signal = *signals.entry(*signal).or_insert(next);
        }
        let mut number = |block: &mut BlockId| {
            let next = BlockId(blocks.len() as u64 + 1);
            *block = *blocks.entry(*block).or_insert(next);
        };
        if let OpKind::Name { of: Named::Block(block) } = &mut op.kind {
            number(block);
        }
        op.accesses.iter_mut().for_each(|access| number(&mut access.block));
    }
}

/// The moments around an operation.
pub(super) type Pair = (Arc<Instant>, Arc<Instant>);

/// The times of an operation as they were taken: what they are on the clock of the record is worked
/// out when that is taken.
#[derive(Debug)]
struct Raw {
    /// Its index in the ledger.
    op: usize,
    /// When the host was in the call.
    called: (Reading, Reading),
    /// The moments around it, if it has some.
    pair: Option<Pair>,
}

/// A reading of the host's clock: the driver's own where it has one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reading {
    Driver(Nanos),
    System(std::time::Instant),
}

impl Reading {
    pub(crate) fn now(driver: &dyn Driver) -> Self {
        match driver.simulation() {
            Some(simulation) => Self::Driver(simulation.host_time()),
            None => Self::System(std::time::Instant::now()),
        }
    }

    fn since(self, zero: Self) -> Nanos {
        match (self, zero) {
            (Self::Driver(now), Self::Driver(zero)) => Nanos(now.0.saturating_sub(zero.0)),
            (Self::System(now), Self::System(zero)) => {
                let elapsed = now.saturating_duration_since(zero).as_nanos();
                Nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
            }
            // A driver has a clock of its own always or never.
            _ => Nanos(0),
        }
    }
}

/// The records of the lanes that it is attached to.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) ledger: Ledger,
    /// Only the order of the calls is of interest: nothing gets a time.
    untimed: bool,
    /// Time zero of each device.
    origins: Mutex<BTreeMap<DeviceId, Arc<Instant>>>,
    /// From the lanes that it has left.
    raw: Mutex<Vec<Raw>>,
    /// Why an operation has no time: the first failure.
    failed: Mutex<Option<Error>>,
    /// What the engines do, if that gives the times.
    noting: Option<Noting>,
    /// Why it does not, although somebody asked for it.
    instead: Option<String>,
    zero: OnceLock<Zero>,
}

/// A recorder at a lane. The times of the lane's operations stay here, under its lock, until the two
/// part.
#[derive(Debug)]
pub(super) struct AtLane {
    recorder: Arc<Recorder>,
    raw: Vec<Raw>,
}

impl AtLane {
    pub(super) fn new(recorder: Arc<Recorder>) -> Self {
        Self { recorder, raw: Vec::new() }
    }

    pub(super) fn is(&self, recorder: &Arc<Recorder>) -> bool {
        Arc::ptr_eq(&self.recorder, recorder)
    }

    /// An operation was enqueued while the host was in the call, between two moments, if any.
    pub(super) fn time(&mut self, op: usize, called: (Reading, Reading), pair: Option<Pair>) {
        self.raw.push(Raw { op, called, pair });
    }
}

impl Deref for AtLane {
    type Target = Recorder;

    fn deref(&self) -> &Recorder {
        &self.recorder
    }
}

impl Drop for AtLane {
    fn drop(&mut self) {
        if !self.raw.is_empty() {
            let mut raw = self.recorder.raw.lock().expect("no panic under this lock");
            raw.append(&mut self.raw);
        }
    }
}

/// The host's clock at about time zero of the first device.
#[derive(Debug)]
struct Zero {
    reading: Reading,
    /// How long before that the device may have had its time zero.
    error: Nanos,
}

impl Recorder {
    /// A recorder with times from `from`.
    ///
    /// # Errors
    /// `Unsupported` when nothing tells what the engines do, and that was insisted on.
    pub(crate) fn new(driver: &Arc<dyn Driver>, from: TimesFrom) -> Result<Self> {
        let noting = match from {
            TimesFrom::Events => return Ok(Self::default()),
            TimesFrom::ActivityIfThere | TimesFrom::Activity => Noting::begin(driver),
        };
        match noting {
            Ok(noting) => Ok(Self { noting: Some(noting), ..Self::default() }),
            Err(error)
                if from == TimesFrom::ActivityIfThere && error.kind() == ErrorKind::Unsupported =>
            {
                Ok(Self { instead: Some(error.to_string()), ..Self::default() })
            }
            Err(error) => Err(error),
        }
    }

    /// A recorder that gives nothing times.
    pub(crate) fn untimed(ledger: Ledger) -> Self {
        Self { ledger, untimed: true, ..Self::default() }
    }

    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        !self.untimed
    }

    /// Makes `origin`, which was noted after `before`, time zero of the device, unless it has one.
    ///
    /// # Errors
    /// As for a wait for what the stream holds: the host's clock is set when time zero has come.
    pub(crate) fn begin(
        &self,
        device: DeviceId,
        origin: &Arc<Instant>,
        before: Reading,
    ) -> Result<()> {
        if self.zero.get().is_none() {
            let driver = &*origin.driver;
            driver.event_synchronize(origin.event)?;
            let reading = Reading::now(driver);
            self.zero.get_or_init(|| Zero { reading, error: reading.since(before) });
            if let Some(noting) = &self.noting {
                noting.synchronize(|| self.at(Reading::now(driver)))?;
            }
        }
        let mut origins = self.origins.lock().expect("no panic under this lock");
        origins.entry(device).or_insert_with(|| Arc::clone(origin));
        Ok(())
    }

    /// A reading of the host's clock as a time of this record.
    pub(crate) fn at(&self, reading: Reading) -> Nanos {
        self.zero.get().map_or(Nanos(0), |zero| reading.since(zero.reading))
    }

    /// A call of the host from `begin` to `end`, in a record with times.
    pub(crate) fn call(&self, (begin, end): (Reading, Reading)) -> Option<Times> {
        self.is_timed().then(|| Times { begin: self.at(begin), end: self.at(end) })
    }

    /// Whether it wants the pair of events around an operation of `engine`.
    pub(super) fn wants_pair(&self, engine: Engine) -> bool {
        self.is_timed() && (self.noting.is_none() || engine == Engine::Host)
    }

    /// The tag for an operation, if it wants the engines' times.
    pub(super) fn tag(&self) -> Option<u64> {
        self.noting.as_ref().map(Noting::tag)
    }

    /// An operation was enqueued under a tag of this recorder.
    pub(super) fn bears(&self, op: usize, tag: u64) {
        if let Some(noting) = &self.noting {
            noting.bears(op, tag);
        }
    }

    /// An operation was enqueued, and the moment of its end could not be noted.
    pub(crate) fn fail(&self, error: &Error) {
        let mut failed = self.failed.lock().expect("no panic under this lock");
        failed.get_or_insert_with(|| error.again());
    }

    /// When an event came, on the clock of the records; `None` when nobody began a recording.
    pub(crate) fn moment(
        &self,
        driver: &dyn Driver,
        device: DeviceId,
        event: EventHandle,
    ) -> Result<Option<Nanos>> {
        let origins = self.origins.lock().expect("no panic under this lock");
        let origin = origins.get(&device);
        origin.map(|origin| driver.event_elapsed(origin.event, event)).transpose()
    }

    /// Takes the records with their times. It has left its lanes, and everything recorded is
    /// complete. Events that have told theirs are free for the next recording.
    pub(crate) fn take(&self, universe: &Universe) -> Result<Recording> {
        let Universe { driver, instants, .. } = universe;
        let driver = &**driver;
        if let Some(error) = self.failed.lock().expect("no panic under this lock").take() {
            return Err(error);
        }
        let mut ops = self.ledger.take();
        number_by_appearance(&mut ops);
        let origins = self.origins.lock().expect("no panic under this lock");
        let raw = std::mem::take(&mut *self.raw.lock().expect("no panic under this lock"));
        let mut cache: BTreeMap<u64, Nanos> = BTreeMap::new();
        for Raw { op, called, pair } in raw {
            let Some(op) = ops.get_mut(op) else { continue };
            op.call = self.call(called);
            let Some((begin, end)) = pair else { continue };
            let Some(origin) = origins.get(&op.device) else { continue };
            let mut time = |instant: &Instant| match cache.get(&instant.event.0) {
                Some(time) => Ok(*time),
                None => {
                    let time = driver.event_elapsed(origin.event, instant.event)?;
                    cache.insert(instant.event.0, time);
                    Ok(time)
                }
            };
            op.times = Some(Times { begin: time(&begin)?, end: time(&end)? });
            instants.give_back(begin);
            instants.give_back(end);
        }
        let mut error = self.zero.get().map_or(Nanos(0), |zero| zero.error);
        let mut lost = 0;
        if let Some(noting) = &self.noting {
            (error, lost) = noting.take(&mut ops, || self.at(Reading::now(driver)))?;
        }
        let (times, devices) = self.about(driver, &origins)?;
        let works = |op: &&Op| op.kind.is_work() && op.engine != Engine::None;
        let untimed = ops.iter().filter(works).filter(|op| op.times.is_none());
        Ok(Recording {
            times,
            clock_error: error,
            untimed: untimed.count(),
            lost,
            instead: self.instead.clone(),
            devices,
            ops,
        })
    }

    /// Where the times come from, and of which devices.
    fn about(
        &self,
        driver: &dyn Driver,
        origins: &BTreeMap<DeviceId, Arc<Instant>>,
    ) -> Result<(TimeSource, Vec<AboutDevice>)> {
        let mut times = TimeSource::Missing;
        let mut devices = Vec::new();
        for device in origins.keys() {
            let info = driver.device_info(*device)?;
            times = match info.clock {
                _ if self.noting.is_some() => TimeSource::Activity,
                Clock::Device => TimeSource::EventPairs,
                Clock::Processor => TimeSource::HostClock,
                Clock::Model => TimeSource::Model,
            };
            let (name, driver) = (info.name, info.driver_version);
            devices.push(AboutDevice { device: device.0, name, driver });
        }
        Ok((times, devices))
    }
}

#[cfg(test)]
mod tests {
    use crate::base::error::Result;
    use crate::base::ledger::OpKind;
    use crate::device::{Executor, HostConfig, Order};
    use crate::stream::device::Device;
    use crate::stream::signal::Signal;

    /// What a record calls a thread or an allocation does not depend on what the process did before.
    #[test]
    fn a_record_numbers_threads_and_allocations_by_appearance() -> Result<()> {
        for round in 0..3 {
            let executor = Executor::Virtual(Order::Greedy);
            let device = Device::host(HostConfig { executor, ..HostConfig::default() })?.remove(0);
            let stream = device.stream()?;
            let earlier = stream.alloc::<u8>(8 + round)?;
            device.record(&stream)?;
            let mut x = stream.alloc::<u8>(8)?;
            std::thread::scope(|scope| {
                let fill = || stream.fill_bytes(&mut x, 1);
                scope.spawn(fill).join().expect("no panic")
            })?;
            drop((x, earlier));
            device.synchronize()?;
            let ops = device.take_record()?;
            let seen = ops.iter().flat_map(|op| op.accesses.iter().map(|a| (op.thread, a.block.0)));
            assert_eq!(seen.collect::<Vec<_>>(), [(1, 1), (2, 1), (1, 1), (1, 2)], "{round}");
        }
        Ok(())
    }

    #[test]
    fn a_record_numbers_signals_by_appearance() -> Result<()> {
        for round in 0..3 {
            let device = Device::host(HostConfig::default())?.remove(0);
            let stream = device.stream()?;
            device.record(&stream)?;
            let signals = [device.signal(), device.signal()];
            signals.iter().rev().for_each(Signal::set);
            let ops = device.take_record()?;
            let seen = ops.iter().filter_map(|op| match op.kind {
                OpKind::Signal { signal, .. } => Some(signal),
                _ => None,
            });
            assert_eq!(seen.collect::<Vec<_>>(), [1, 2], "{round}");
        }
        Ok(())
    }
}
