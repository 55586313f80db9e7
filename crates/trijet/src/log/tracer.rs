//! A tracer: the ledger of some lanes with the times of its operations, from pairs of timed
//! events around each, or from what the engines did.
//!
//! The pair measures from the moment the operation was ready (its lane's earlier work and its
//! waits were done) to its end: not from the moment its engine took it. On a lane that has an
//! engine for itself the two are the same. With activities no event is recorded, except around
//! host functions, of which CUPTI says nothing.
#![forbid(unsafe_code)]

use super::activity::Collection;
use super::instant::{Instant, Instants};
use super::reading::Reading;
use super::trace::Trace;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{BlockId, DeviceId};
use crate::base::ledger::{Engine, Ledger, Named, Op, OpKind, Times};
use crate::base::times::{TimeSource, TimesFrom};
use crate::base::units::Nanos;
use crate::device::driver::{Clock, Driver, EventHandle};
use crate::trace::file::AboutDevice;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};

/// Numbers threads, allocations and signals from 1 in the order in which they appear. Their own
/// numbers count over the process: a run that is repeated in it would give another record.
fn number_by_appearance(ops: &mut [Op]) {
    let (mut threads, mut blocks) = (BTreeMap::new(), BTreeMap::new());
    let mut signals = BTreeMap::new();
    for op in ops {
        let next = threads.len() as u64 + 1;
        op.thread = *threads.entry(op.thread).or_insert(next);
        let mut number = |block: &mut BlockId| {
            let next = BlockId(blocks.len() as u64 + 1);
            *block = *blocks.entry(*block).or_insert(next);
        };
        match &mut op.kind {
            OpKind::Signal { signal, .. } | OpKind::Handle { signal, .. } => {
                let next = signals.len() as u64 + 1;
                *signal = *signals.entry(*signal).or_insert(next);
            }
            OpKind::Name { of: Named::Block(block) } => number(block),
            OpKind::Name { of: Named::Stream | Named::Event(_) }
            | OpKind::Alloc
            | OpKind::Free
            | OpKind::Copy
            | OpKind::CopyNow
            | OpKind::Batch(_)
            | OpKind::Fill
            | OpKind::FillNow
            | OpKind::Kernel
            | OpKind::HostFn
            | OpKind::AllocNow
            | OpKind::FreeNow
            | OpKind::Fault { .. }
            | OpKind::Record { .. }
            | OpKind::Wait { .. }
            | OpKind::Sync { .. }
            | OpKind::Host
            | OpKind::Call(_)
            | OpKind::Gone { .. }
            | OpKind::Open
            | OpKind::Begin
            | OpKind::Ran
            | OpKind::Settled { .. }
            | OpKind::ThreadGone
            | OpKind::Lent => {}
        }
        op.accesses.iter_mut().for_each(|access| number(&mut access.block));
    }
}

/// The moments around an operation.
pub(crate) type Pair = (Arc<Instant>, Arc<Instant>);

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

/// The records of the lanes that it is attached to.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
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
    collection: Option<Collection>,
    /// Why it does not, although somebody asked for it.
    instead: Option<String>,
    zero: OnceLock<Zero>,
}

/// A tracer at a lane. The times of the lane's operations stay here, under its lock, until the two
/// part.
#[derive(Debug)]
pub(crate) struct AtLane {
    tracer: Arc<Tracer>,
    raw: Vec<Raw>,
}

impl AtLane {
    pub(crate) fn new(tracer: Arc<Tracer>) -> Self {
        Self { tracer, raw: Vec::new() }
    }

    pub(crate) fn is(&self, tracer: &Arc<Tracer>) -> bool {
        Arc::ptr_eq(&self.tracer, tracer)
    }

    /// An operation was enqueued while the host was in the call, between two moments, if any.
    pub(crate) fn time(&mut self, op: usize, called: (Reading, Reading), pair: Option<Pair>) {
        self.raw.push(Raw { op, called, pair });
    }
}

impl Deref for AtLane {
    type Target = Tracer;

    fn deref(&self) -> &Tracer {
        &self.tracer
    }
}

impl Drop for AtLane {
    fn drop(&mut self) {
        if !self.raw.is_empty() {
            let mut raw = self.tracer.raw.lock().expect("no panic under this lock");
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

impl Tracer {
    /// A tracer with times from `from`.
    ///
    /// # Errors
    /// `Unsupported` when nothing tells what the engines do, and that was insisted on.
    pub(crate) fn new(driver: &Arc<dyn Driver>, from: TimesFrom) -> Result<Self> {
        let collection = match from {
            TimesFrom::Events => return Ok(Self::default()),
            TimesFrom::ActivityIfThere | TimesFrom::Activity => Collection::begin(driver),
        };
        match collection {
            Ok(collection) => Ok(Self { collection: Some(collection), ..Self::default() }),
            Err(error)
                if from == TimesFrom::ActivityIfThere && error.kind() == ErrorKind::Unsupported =>
            {
                Ok(Self { instead: Some(error.to_string()), ..Self::default() })
            }
            Err(error) => Err(error),
        }
    }

    /// A tracer that gives nothing times.
    pub(crate) fn untimed(ledger: Ledger) -> Self {
        Self { ledger, untimed: true, ..Self::default() }
    }

    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        !self.untimed
    }

    /// Whether the first device has its time zero.
    pub(crate) fn has_begun(&self) -> bool {
        self.zero.get().is_some()
    }

    /// Makes `origin` time zero of the device, unless it has one. The event was recorded after
    /// `before`, and is complete if no device had its time zero before.
    ///
    /// # Errors
    /// What the profiler reports.
    pub(crate) fn begin(
        &self,
        driver: &dyn Driver,
        device: DeviceId,
        origin: &Arc<Instant>,
        before: Reading,
    ) -> Result<()> {
        if self.zero.get().is_none() {
            let reading = Reading::now(driver);
            self.zero.get_or_init(|| Zero { reading, error: reading.since(before) });
            if let Some(collection) = &self.collection {
                collection.synchronize(|| self.at(Reading::now(driver)))?;
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
    pub(crate) fn wants_pair(&self, engine: Engine) -> bool {
        self.is_timed() && (self.collection.is_none() || engine == Engine::Host)
    }

    /// The tag for an operation, if it wants the engines' times.
    pub(crate) fn tag(&self) -> Option<u64> {
        self.collection.as_ref().map(Collection::tag)
    }

    /// An operation was enqueued under a tag of this tracer.
    pub(crate) fn bears(&self, op: usize, tag: u64) {
        if let Some(collection) = &self.collection {
            collection.bears(op, tag);
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
    pub(crate) fn take(&self, driver: &dyn Driver, instants: &Instants) -> Result<Trace> {
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
        if let Some(collection) = &self.collection {
            (error, lost) = collection.take(&mut ops, || self.at(Reading::now(driver)))?;
        }
        let (times, devices) = self.about(driver, &origins)?;
        let works = |op: &&Op| op.kind.is_work() && op.engine != Engine::None;
        let untimed = ops.iter().filter(works).filter(|op| op.times.is_none());
        Ok(Trace {
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
                Clock::Device | Clock::Processor | Clock::Model if self.collection.is_some() => {
                    TimeSource::Activity
                }
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
