//! The tracers of a domain that get entries about host threads. Some of them belong to traces, and
//! one belongs to the checker, if there is one. Each lane has its own list of the tracers that get
//! its operations.
#![forbid(unsafe_code)]

use super::calling;
use super::names::{NOWHERE, Name, UsedNames};
use super::tracer::Tracer;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{Ledger, Named, Op, StreamClass};
use crate::check::{CheckOptions, Checker, Verdict};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Attached tracers: usually none, rarely more than one.
pub(crate) type Attached = SmallVec<[Arc<Tracer>; 1]>;

#[derive(Debug, Default)]
struct Attachments {
    /// The tracers that get the operations of every stream.
    all: Attached,
    /// The tracers of single pipelines, which get entries about host threads. A pipeline attaches
    /// its tracer only to its own lanes, so the tracer gets no operations of other streams.
    of_calls: Attached,
    /// The tracer of the last `Device::start_trace`. `None` after the trace was taken.
    kept: Option<Arc<Tracer>>,
    checker: Option<LiveChecker>,
}

/// The checker of a domain. It lives while a device that was opened with the checker is open.
#[derive(Debug)]
struct LiveChecker {
    options: CheckOptions,
    checker: Arc<Mutex<Checker>>,
    tracer: Arc<Tracer>,
    /// The number of open devices that were opened with the checker.
    devices: usize,
}

/// The tracers of a domain.
#[derive(Debug, Default)]
pub(crate) struct Tracers {
    /// Whether there is any tracer. Every call of the host reads this flag first.
    any: AtomicBool,
    attached: Mutex<Attachments>,
    pub(super) names: UsedNames,
}

impl Tracers {
    /// Whether there is any tracer. A child of `fork` traces nothing: the thread that holds the
    /// lock of a tracer may exist only in the parent.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.any.load(Ordering::Relaxed) && !calling::forked()
    }

    /// The tracers that get the operations of every stream.
    pub(crate) fn all(&self) -> Attached {
        self.attached().all.clone()
    }

    /// All tracers that get entries about host threads.
    #[inline]
    pub(crate) fn of_calls(&self) -> Attached {
        if !self.is_on() {
            return Attached::new();
        }
        let attached = self.attached();
        attached.all.iter().chain(&attached.of_calls).cloned().collect()
    }

    /// Adds a tracer that gets entries about host threads. The tracer is not attached to any
    /// stream.
    pub(crate) fn add_for_calls(&self, tracer: &Arc<Tracer>) {
        for op in self.names.ops() {
            tracer.ledger.append(op);
        }
        self.attached().of_calls.push(Arc::clone(tracer));
        self.any.store(true, Ordering::Relaxed);
    }

    fn add(&self, tracer: &Arc<Tracer>) {
        for op in self.names.ops() {
            tracer.ledger.append(op);
        }
        self.attached().all.push(Arc::clone(tracer));
        self.any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, tracer: &Arc<Tracer>) {
        let mut attached = self.attached();
        attached.all.retain(|other| !Arc::ptr_eq(other, tracer));
        attached.of_calls.retain(|other| !Arc::ptr_eq(other, tracer));
        self.any
            .store(!(attached.all.is_empty() && attached.of_calls.is_empty()), Ordering::Relaxed);
    }

    /// Makes `tracer` the tracer that the next call of `Device::take_trace` takes. Removes the
    /// tracer that was kept before, and returns it.
    pub(crate) fn keep(&self, tracer: Option<&Arc<Tracer>>) -> Option<Arc<Tracer>> {
        let before = std::mem::replace(&mut self.attached().kept, tracer.cloned());
        before.iter().for_each(|before| self.remove(before));
        tracer.iter().for_each(|tracer| self.add(tracer));
        before
    }

    /// Adds a checker with a tracer, and returns the tracer. If there is a checker already, the
    /// device that is being opened shares that checker. The result is then `None`.
    ///
    /// # Errors
    /// `InvalidValue` if there is a checker with other options.
    pub(crate) fn check(&self, options: CheckOptions) -> Result<Option<Arc<Tracer>>> {
        let mut attached = self.attached();
        if let Some(live) = &mut attached.checker {
            if live.options != options {
                let cause = "another device of this driver is open and is checked with other options; use the same \
                             options, drop that device first, or open host devices with a driver of their own \
                             (`DeviceBuilder::host`)";
                return Err(Error::new(ErrorKind::InvalidValue, "check", cause));
            }
            live.devices += 1;
            return Ok(None);
        }
        let checker = Arc::new(Mutex::new(Checker::new(options.clone())));
        let reads = Arc::clone(&checker);
        let read = move |op: Op| reads.lock().expect("the checker does not panic").push(&op);
        let tracer = Arc::new(Tracer::untimed(Ledger::read_by(Box::new(read))));
        let live = LiveChecker { options, checker, tracer: Arc::clone(&tracer), devices: 1 };
        attached.checker = Some(live);
        drop(attached);
        self.add(&tracer);
        Ok(Some(tracer))
    }

    /// Registers that a device that was opened with the checker was dropped. After the last such
    /// device, the checker ends, and this function returns the tracer of the checker.
    pub(crate) fn end_check(&self) -> Option<Arc<Tracer>> {
        let mut attached = self.attached();
        let live = attached.checker.as_mut()?;
        live.devices -= 1;
        if live.devices > 0 {
            return None;
        }
        let tracer = attached.checker.take()?.tracer;
        drop(attached);
        self.remove(&tracer);
        Some(tracer)
    }

    /// The tracer of the checker, if there is one.
    pub(crate) fn of_checker(&self) -> Option<Arc<Tracer>> {
        if !self.is_on() {
            return None;
        }
        self.attached().checker.as_ref().map(|live| Arc::clone(&live.tracer))
    }

    /// Whether there is a checker.
    pub(crate) fn has_checker(&self) -> bool {
        self.attached().checker.is_some()
    }

    /// The verdict of the checker so far, if there is a checker. A wait that has not ended counts
    /// as a wait that never ends. So even a program that hangs has a verdict.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let live = |live: &LiveChecker| (Arc::clone(&live.checker), Arc::clone(&live.tracer));
        let (checker, tracer) = self.attached().checker.as_ref().map(live)?;
        let (mut checker, held) = tracer.ledger.held(|held| {
            let checker = checker.lock().expect("the checker does not panic").clone();
            (checker, held.clone())
        });
        held.iter().for_each(|op| checker.push(op));
        Some(checker.finish())
    }

    /// Appends an entry to every tracer.
    pub(crate) fn note(&self, op: impl Fn() -> Op) {
        for tracer in self.of_calls() {
            tracer.ledger.append(op());
        }
    }

    fn attached(&self) -> MutexGuard<'_, Attachments> {
        self.attached.lock().expect("no thread panicked while it held this lock")
    }

    fn name(&self, name: &Name) {
        if calling::forked() {
            return;
        }
        self.names.add(name);
        // The name is stored before the entry is appended. So a trace that starts meanwhile has the
        // name at least once.
        self.note(|| name.op());
    }

    /// Names the stream that has the lane of `position`.
    pub(crate) fn name_stream(
        &self,
        device: DeviceId,
        stream: StreamClass,
        position: Position,
        text: &str,
    ) {
        self.name(&Name::of_stream(device, stream, position, text));
    }

    /// The name of the stream that has a lane, if the program has named the stream.
    pub(crate) fn stream_name(&self, lane: LaneId) -> Option<String> {
        self.names.of_stream(lane)
    }

    /// The name of an allocation, if the program has named it.
    pub(crate) fn block_name(&self, block: BlockId) -> Option<String> {
        self.names.of_object(Named::Block(block))
    }

    /// Names an allocation or an event of `device`.
    pub(crate) fn name_object(&self, of: Named, device: DeviceId, text: &str) {
        self.name(&Name::of_object(of, device, text));
    }

    /// Forgets the name of an allocation that no longer exists.
    pub(crate) fn forget_block(&self, block: BlockId) {
        self.names.remove(Named::Block(block), NOWHERE);
    }

    /// Forgets the name of the stream that had the lane of `position`. The lane will belong to
    /// another stream.
    pub(crate) fn forget_stream(&self, position: Position) {
        self.names.remove(Named::Stream, position);
    }
}
