//! Injected faults: failures of a driver or a device at a call that the user chooses. Tests inject
//! faults to check that errors are reported, and that nothing hangs or leaks.
#![forbid(unsafe_code)]

use super::engine::ids::NodeId;
use super::engine::node::Node;
use super::engine::work::OpWork;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Nanos;

/// A verb of the driver contract at which a fault can be injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Verb {
    /// Creating a stream.
    StreamCreate,
    /// Creating an event.
    EventCreate,
    /// Recording an event.
    EventRecord,
    /// Making a stream wait for an event.
    StreamWait,
    /// Querying an event or a stream.
    Query,
    /// Waiting for an event, a stream or the device.
    Synchronize,
    /// Enqueuing a host function.
    HostFn,
    /// Allocating in stream order.
    Alloc,
    /// Freeing in stream order.
    Free,
    /// Allocating device memory that belongs to no stream.
    DeviceAlloc,
    /// Mapping memory for a heap.
    RangeMap,
    /// Allocating page-locked memory.
    PinnedAlloc,
    /// Enqueuing a copy or a batch of copies.
    Copy,
    /// Enqueuing a fill.
    Fill,
    /// Loading a module.
    ModuleLoad,
    /// Launching a kernel.
    Launch,
    /// Reading an attribute of a pool.
    PoolQuery,
    /// Launching a graph. Each node also counts as a call of its own verb, but a fault cannot
    /// refuse a single node.
    GraphLaunch,
    /// Changing a node of a graph.
    GraphUpdate,
}

/// The effect of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The call returns an error and changes nothing. A call that allocates or creates is out of
    /// memory. A launch has too few resources (701). Other calls return another error of the
    /// driver.
    Refused,
    /// The call and every later call of the verb return the error of [`FaultKind::Refused`].
    RefusedFrom,
    /// The operation faults when it runs, and the context is lost (law A40).
    Faults,
    /// The device is lost at the call.
    DeviceLost,
    /// The operation takes this many times as long, if time is modelled.
    Slow(u32),
    /// The operation never completes: a hung device.
    NeverCompletes,
}

/// One fault, which strikes the `nth` call of `verb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The verb.
    pub verb: Verb,
    /// The number of the call among all calls of the verb, from 1.
    pub nth: u64,
    /// The effect.
    pub kind: FaultKind,
}

/// The faults of a driver, the number of calls of each verb so far, and the faults that are
/// attached to operations.
#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: Vec<Fault>,
    calls: Vec<(Verb, u64)>,
    attached: Vec<(NodeId, FaultKind)>,
}

impl Faults {
    pub(super) fn new(planned: Vec<Fault>) -> Self {
        Self { planned, ..Self::default() }
    }

    /// Counts a call of `verb`, and returns the fault of this call.
    #[inline]
    pub(super) fn count(&mut self, verb: Verb) -> Option<FaultKind> {
        if self.planned.is_empty() { None } else { self.count_planned(verb) }
    }

    fn count_planned(&mut self, verb: Verb) -> Option<FaultKind> {
        let index = self.calls.iter().position(|(other, _)| *other == verb).unwrap_or_else(|| {
            self.calls.push((verb, 0));
            self.calls.len() - 1
        });
        self.calls[index].1 += 1;
        let nth = self.calls[index].1;
        let strikes = |fault: &&Fault| {
            let lasts = fault.kind == FaultKind::RefusedFrom && fault.nth < nth;
            fault.verb == verb && (fault.nth == nth || lasts)
        };
        self.planned.iter().find(strikes).map(|fault| fault.kind)
    }

    /// Attaches a fault to an operation. The fault takes effect when the operation runs.
    pub(super) fn attach(&mut self, node: NodeId, kind: FaultKind) {
        self.attached.push((node, kind));
    }

    fn of(&self, node: NodeId) -> Option<FaultKind> {
        self.attached.iter().find(|(at, _)| *at == node).map(|(_, kind)| *kind)
    }

    /// Law A40: the error of an operation that faults when it runs.
    pub(super) fn outcome(&self, node: &Node) -> Result<()> {
        if self.of(node.id) != Some(FaultKind::Faults) {
            return Ok(());
        }
        let cause = match &node.work {
            // A host function runs on the host, and cannot fault on the device.
            OpWork::HostFn(_) => return Ok(()),
            OpWork::Kernel(kernel) => {
                format!("an illegal memory access was encountered in `{}`", kernel.name)
            }
            OpWork::Mark
            | OpWork::Time { .. }
            | OpWork::Free(_)
            | OpWork::Copy(_)
            | OpWork::Batch(_)
            | OpWork::Fill { .. }
            | OpWork::Conditional(_)
            | OpWork::Lent { .. } => "an illegal memory access was encountered".to_owned(),
        };
        Err(Error::new(ErrorKind::Launch, node.work.name(), cause).with_code(700))
    }

    /// The duration of an operation with its fault. `nominal` is the modelled duration without a
    /// fault.
    pub(super) fn slowed(&self, node: NodeId, nominal: Nanos) -> Nanos {
        if let Some(FaultKind::Slow(times)) = self.of(node) {
            return Nanos(nominal.0.saturating_mul(u64::from(times)));
        }
        nominal
    }
}

/// The error of a refused call of `verb`.
pub(super) fn refusal(verb: Verb) -> Error {
    let op = name(verb);
    let (kind, code) = match verb {
        Verb::StreamCreate
        | Verb::EventCreate
        | Verb::Alloc
        | Verb::DeviceAlloc
        | Verb::RangeMap
        | Verb::PinnedAlloc => (ErrorKind::OutOfMemory, 2),
        Verb::Launch => (ErrorKind::Driver, 701),
        Verb::ModuleLoad => (ErrorKind::Compile, 209),
        Verb::EventRecord
        | Verb::StreamWait
        | Verb::Query
        | Verb::Synchronize
        | Verb::HostFn
        | Verb::Free
        | Verb::Copy
        | Verb::Fill
        | Verb::PoolQuery
        | Verb::GraphLaunch
        | Verb::GraphUpdate => (ErrorKind::Driver, 999),
    };
    Error::new(kind, op, "the call was refused (injected fault)").with_code(code)
}

pub(super) fn name(verb: Verb) -> &'static str {
    match verb {
        Verb::StreamCreate => "stream create",
        Verb::EventCreate => "event create",
        Verb::EventRecord => "event record",
        Verb::StreamWait => "stream wait",
        Verb::Query => "query",
        Verb::Synchronize => "synchronize",
        Verb::HostFn => "host function",
        Verb::Alloc => "alloc",
        Verb::Free => "free",
        Verb::DeviceAlloc => "device alloc",
        Verb::RangeMap => "range map",
        Verb::PinnedAlloc => "pinned alloc",
        Verb::Copy => "copy",
        Verb::Fill => "fill",
        Verb::ModuleLoad => "module load",
        Verb::Launch => "launch",
        Verb::PoolQuery => "pool attribute",
        Verb::GraphLaunch => "graph launch",
        Verb::GraphUpdate => "graph update",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::DeviceId;
    use crate::base::units::Bytes;
    use crate::device::driver::{
        CopySpans, Core, HostFn, Image, Pools, Simulation, SourceOrder, StreamKind, Timing,
    };
    use crate::device::host::engine::queues::Queues;
    use crate::device::host::{Executor, HostConfig, HostDriver, Order};

    const DEVICE: DeviceId = DeviceId(0);

    #[test]
    fn a_lasting_refusal_begins_at_its_call_and_refuses_every_later_one() -> Result<()> {
        let fault = |nth, kind| Fault { verb: Verb::EventCreate, nth, kind };
        let faults = vec![fault(2, FaultKind::RefusedFrom), fault(4, FaultKind::Refused)];
        let executor = Executor::Virtual(Order::Greedy);
        let driver = HostDriver::open(HostConfig::new().executor(executor).faults(faults))?;
        let answers: Vec<Option<ErrorKind>> = (0..5)
            .map(|_| driver.event_create(DEVICE, Timing::Off).err().map(|error| error.kind()))
            .collect();
        let refused = Some(ErrorKind::OutOfMemory);
        assert_eq!(answers, [None, refused, refused, refused, refused]);
        driver.stream_create(DEVICE, StreamKind::Blocking, 0).map(drop)
    }

    /// Law A40: every verb that uses the context returns the error. Verbs that return handles, and
    /// verbs that destroy, still work.
    #[test]
    fn every_verb_refuses_a_lost_device_and_names_the_first_culprit() -> Result<()> {
        for executor in [Executor::Threads, Executor::Virtual(Order::Greedy)] {
            let lost = Fault { verb: Verb::Fill, nth: 1, kind: FaultKind::DeviceLost };
            let config = HostConfig::new().executor(executor).faults(vec![lost]);
            let driver = HostDriver::open(config)?;
            let stream = driver.stream_create(DEVICE, StreamKind::NonBlocking, 0)?;
            let event = driver.event_create(DEVICE, Timing::On)?;
            driver.event_record(event, stream)?;
            let memory = driver.alloc(stream, None, Bytes(64))?;
            let nothing: HostFn = std::sync::Arc::new(|| ());
            let pinned = driver.pinned_alloc(DEVICE, Bytes(64))?;
            let module = driver.module_load(DEVICE, "nothing", Image::Ptx(""))?;
            let (x, h) = (memory.span(0..64), pinned.span(0..64));
            let batch = [CopySpans { dst: x.clone(), src: h.clone() }];
            let culprit = driver.fill(stream, &x, 1).expect_err("the device is lost").to_string();
            let answers = [
                ("fill", driver.fill(stream, &x, 1)),
                ("synchronous fill", driver.fill_sync(Queues::legacy(DEVICE), &x, 1)),
                ("memory info", driver.memory_info(DEVICE).map(drop)),
                ("synchronize", driver.synchronize(DEVICE)),
                ("stream create", driver.stream_create(DEVICE, StreamKind::Blocking, 0).map(drop)),
                ("stream synchronize", driver.stream_synchronize(stream)),
                ("stream query", driver.stream_query(stream).map(drop)),
                ("stream wait", driver.stream_wait(stream, event)),
                ("event create", driver.event_create(DEVICE, Timing::Off).map(drop)),
                ("event record", driver.event_record(event, stream)),
                ("event query", driver.event_query(event).map(drop)),
                ("event poll", driver.event_poll(event).map(drop)),
                ("event synchronize", driver.event_synchronize(event)),
                ("event elapsed", driver.event_elapsed(event, event).map(drop)),
                ("host function", driver.host_fn(stream, &nothing, &[])),
                ("pool create", driver.pool_create(DEVICE, Bytes(0)).map(drop)),
                ("alloc", driver.alloc(stream, None, Bytes(1)).map(drop)),
                ("free", driver.free(stream, &memory)),
                ("device alloc", driver.device_alloc(DEVICE, Bytes(1)).map(drop)),
                ("pinned alloc", driver.pinned_alloc(DEVICE, Bytes(1)).map(drop)),
                ("copy", driver.copy_async(stream, &x, &h)),
                ("copy batch", driver.copy_batch(stream, &batch, SourceOrder::Stream)),
                ("synchronous copy", driver.copy_sync(Queues::legacy(DEVICE), &x, &h)),
                ("module load", driver.module_load(DEVICE, "more", Image::Ptx("")).map(drop)),
                ("function", driver.function(module, "f", 0, None).map(drop)),
            ];
            for (verb, answer) in answers {
                let error = answer.err().unwrap_or_else(|| panic!("{verb} reaches the context"));
                assert_eq!(error.to_string(), culprit, "{verb}");
            }
            driver.event_destroy(event)?;
            driver.stream_destroy(stream)?;
        }
        Ok(())
    }
}
