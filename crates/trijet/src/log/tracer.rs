//! A tracer: the ledger of some lanes, with the times of its operations. The times come from a pair
//! of timed events around each operation, or from activities of the engines.
//!
//! A pair measures the time from the moment at which the operation is ready to its end. An
//! operation is ready when the earlier work of its lane is complete and its waits have ended. If
//! other lanes use the same engine, the engine may start a ready operation later. With activities,
//! only host functions get pairs of events, because CUPTI has no activities of host functions.
#![forbid(unsafe_code)]

use super::activity::Collection;
use super::instant::{Instant, Instants};
use super::reading::Reading;
use super::trace::Trace;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Ledger, Op, Times};
use crate::base::numbering::number_by_appearance;
use crate::base::times::{TimeSource, TimesFrom};
use crate::base::units::Nanos;
use crate::device::driver::{Clock, Driver, EventHandle};
use crate::trace::file::AboutDevice;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};

/// The timed events before and after an operation.
pub(crate) type EventPair = (Arc<Instant>, Arc<Instant>);

/// The times of an operation as they were read. They are converted to the clock of the trace when
/// the trace is taken.
#[derive(Debug)]
struct Raw {
    /// The index of the operation in the ledger.
    op: usize,
    /// The readings of the host's clock at the start and at the end of the enqueue call.
    called: (Reading, Reading),
    /// The events before and after the operation. `None` if the operation needs none.
    pair: Option<EventPair>,
}

/// The ledger of the lanes that this tracer is attached to, with the times of their operations.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    pub(crate) ledger: Ledger,
    /// Whether entries get no times, because only the order of the calls is needed.
    untimed: bool,
    /// For each device: the event from which the times of the device are measured.
    origins: Mutex<BTreeMap<DeviceId, Origin>>,
    /// The times of operations of lanes from which this tracer was detached.
    raw: Mutex<Vec<Raw>>,
    /// The first error that left an operation without a time.
    failed: Mutex<Option<Error>>,
    /// The collection of activities, if the times come from activities.
    collection: Option<Collection>,
    /// The reason why activities are not available although they were requested.
    instead: Option<String>,
    /// The reading of the host's clock at time zero: the moment at which the host saw that the
    /// first origin was complete.
    zero: OnceLock<Reading>,
}

/// A tracer that is attached to a lane. The times of the lane's operations stay here until the
/// tracer is detached. The lock of the lane protects them.
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

    /// Stores the times of the operation with the index `op` in the ledger. `called` has the times
    /// of the enqueue call, and `pair` has the events around the operation.
    pub(crate) fn time(&mut self, op: usize, called: (Reading, Reading), pair: Option<EventPair>) {
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
            let mut raw =
                self.tracer.raw.lock().expect("no thread panicked while it held this lock");
            raw.append(&mut self.raw);
        }
    }
}

/// The event from which the times of a device are measured. The driver does not measure the time
/// between events of two devices, so each device has its own origin.
#[derive(Debug)]
struct Origin {
    instant: Arc<Instant>,
    /// The time at which the host saw that the event was complete, on the clock of the trace.
    at: Nanos,
    /// Maximum time between the completion of the event and the moment at which the host saw it.
    error: Nanos,
}

impl Origin {
    /// The time at which an event of this device completed, on the clock of the trace.
    fn time(&self, driver: &dyn Driver, event: EventHandle) -> Result<Nanos> {
        let since = driver.event_elapsed(self.instant.event, event)?;
        Ok(Nanos(self.at.0 + since.0))
    }
}

/// The devices of a trace, with the facts about them that a trace states.
struct TracedDevices {
    /// The source of the times.
    times: TimeSource,
    /// The number of hardware queues of the process. `None` if it is not known.
    hardware_queues: Option<u32>,
    devices: Vec<AboutDevice>,
}

impl Tracer {
    /// A tracer whose times come from `from`.
    ///
    /// # Errors
    /// `Unsupported` if `from` requires activities and they are not available.
    pub(crate) fn new(driver: &Arc<dyn Driver>, from: TimesFrom) -> Result<Self> {
        if from == TimesFrom::Events {
            return Ok(Self::default());
        }
        match Collection::begin(driver) {
            Ok(collection) => Ok(Self { collection: Some(collection), ..Self::default() }),
            Err(error)
                if from == TimesFrom::ActivityIfThere && error.kind() == ErrorKind::Unsupported =>
            {
                Ok(Self { instead: Some(error.to_string()), ..Self::default() })
            }
            Err(error) => Err(error),
        }
    }

    /// A tracer whose entries get no times.
    pub(crate) fn untimed(ledger: Ledger) -> Self {
        Self { ledger, untimed: true, ..Self::default() }
    }

    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        !self.untimed
    }

    /// Whether the times of a device have an origin already.
    pub(crate) fn has_begun(&self, device: DeviceId) -> bool {
        self.origins
            .lock()
            .expect("no thread panicked while it held this lock")
            .contains_key(&device)
    }

    /// Makes `origin` the origin of the times of the device, unless the device has an origin. The
    /// event was recorded after `before`, and the host has just seen that the event is complete.
    /// The first origin of a trace is time zero.
    ///
    /// # Errors
    /// Errors of the profiler.
    pub(crate) fn begin(
        &self,
        driver: &dyn Driver,
        device: DeviceId,
        origin: &Arc<Instant>,
        before: Reading,
    ) -> Result<()> {
        let reading = Reading::now(driver);
        if self.zero.get().is_none() {
            self.zero.get_or_init(|| reading);
            if let Some(collection) = &self.collection {
                collection.synchronize(|| self.at(Reading::now(driver)))?;
            }
        }
        let mut origins = self.origins.lock().expect("no thread panicked while it held this lock");
        origins.entry(device).or_insert_with(|| Origin {
            instant: Arc::clone(origin),
            at: self.at(reading),
            error: reading.since(before),
        });
        Ok(())
    }

    /// Converts a reading of the host's clock to a time of this trace.
    pub(crate) fn at(&self, reading: Reading) -> Nanos {
        self.zero.get().map_or(Nanos(0), |zero| reading.since(*zero))
    }

    /// Converts the readings at the start and at the end of a call to times of this trace. `None`
    /// if entries get no times.
    pub(crate) fn call(&self, (begin, end): (Reading, Reading)) -> Option<Times> {
        self.is_timed().then(|| Times { begin: self.at(begin), end: self.at(end) })
    }

    /// Whether an operation of `engine` needs a pair of events.
    pub(crate) fn wants_pair(&self, engine: Engine) -> bool {
        self.is_timed() && (self.collection.is_none() || engine == Engine::Host)
    }

    /// A new tag for an operation. `None` if the times do not come from activities.
    pub(crate) fn tag(&self) -> Option<u64> {
        self.collection.as_ref().map(Collection::tag)
    }

    /// Stores the tag of an operation. `op` is the index of the operation in the ledger.
    pub(crate) fn bears(&self, op: usize, tag: u64) {
        if let Some(collection) = &self.collection {
            collection.bears(op, tag);
        }
    }

    /// Stores the error of an operation whose end could not be recorded. The operation itself was
    /// enqueued. The trace then ends with this error.
    pub(crate) fn fail(&self, error: &Error) {
        let mut failed = self.failed.lock().expect("no thread panicked while it held this lock");
        failed.get_or_insert_with(|| error.again());
    }

    /// The time at which an event completed, on the clock of the trace. `None` if the device has no
    /// origin.
    pub(crate) fn moment(
        &self,
        driver: &dyn Driver,
        device: DeviceId,
        event: EventHandle,
    ) -> Result<Option<Nanos>> {
        let origins = self.origins.lock().expect("no thread panicked while it held this lock");
        let origin = origins.get(&device);
        origin.map(|origin| origin.time(driver, event)).transpose()
    }

    /// Takes the entries with their times. The caller has detached the tracer from all lanes, and
    /// all traced work is complete. After the times of the events were read, the events are kept
    /// for the next trace.
    pub(crate) fn take(&self, driver: &dyn Driver, instants: &Instants) -> Result<Trace> {
        if let Some(error) =
            self.failed.lock().expect("no thread panicked while it held this lock").take()
        {
            return Err(error);
        }
        let mut ops = self.ledger.take();
        number_by_appearance(&mut ops);
        let origins = self.origins.lock().expect("no thread panicked while it held this lock");
        let raw = std::mem::take(
            &mut *self.raw.lock().expect("no thread panicked while it held this lock"),
        );
        let mut cache: BTreeMap<u64, Nanos> = BTreeMap::new();
        for Raw { op, called, pair } in raw {
            let Some(op) = ops.get_mut(op) else { continue };
            op.call = self.call(called);
            let Some((begin, end)) = pair else { continue };
            let Some(origin) = origins.get(&op.device) else { continue };
            let mut time = |instant: &Instant| -> Result<Nanos> {
                match cache.get(&instant.event.0) {
                    Some(time) => Ok(*time),
                    None => {
                        let time = origin.time(driver, instant.event)?;
                        cache.insert(instant.event.0, time);
                        Ok(time)
                    }
                }
            };
            op.times = Some(Times { begin: time(&begin)?, end: time(&end)? });
            instants.give_back(begin);
            instants.give_back(end);
        }
        let errors = origins.values().map(|origin| origin.error);
        let mut error = errors.max().unwrap_or(Nanos(0));
        let mut lost = 0;
        if let Some(collection) = &self.collection {
            (error, lost) = collection.take(&mut ops, || self.at(Reading::now(driver)))?;
        }
        let TracedDevices { times, hardware_queues, devices } = self.about(driver, &origins)?;
        let works = |op: &&Op| op.kind.is_work() && op.engine != Engine::None;
        let untimed = ops.iter().filter(works).filter(|op| op.times.is_none());
        Ok(Trace {
            times,
            clock_error: error,
            untimed: untimed.count(),
            lost,
            instead: self.instead.clone(),
            hardware_queues,
            devices,
            ops,
        })
    }

    /// The devices in the trace, and the source of the times.
    fn about(
        &self,
        driver: &dyn Driver,
        origins: &BTreeMap<DeviceId, Origin>,
    ) -> Result<TracedDevices> {
        let mut times = TimeSource::Missing;
        let (mut hardware_queues, mut devices) = (None, Vec::new());
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
            hardware_queues = info.hardware_queues;
            let (name, driver) = (info.name, info.driver_version);
            devices.push(AboutDevice { device: device.0, name, driver });
        }
        Ok(TracedDevices { times, hardware_queues, devices })
    }
}
