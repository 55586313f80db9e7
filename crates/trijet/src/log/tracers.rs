//! The tracers of a domain that get entries about host threads: those of traces, and that of a
//! checker. Each lane has its own list of the tracers that get its operations.
#![forbid(unsafe_code)]

use super::calling;
use super::names::{NOWHERE, Name, Names};
use super::tracer::Tracer;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{Ledger, Named, Op, StreamClass};
use crate::check::{Checker, Options, Verdict};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Attached tracers: usually none, rarely more than one.
pub(crate) type Attached = SmallVec<[Arc<Tracer>; 1]>;

#[derive(Debug, Default)]
struct Attachments {
    /// The tracers of every stream.
    all: Attached,
    /// The tracers of single pipelines. A pipeline attaches its tracer to its own lanes, so other
    /// streams do not get it.
    of_calls: Attached,
    /// The tracer of `Device::start_trace`.
    kept: Option<Arc<Tracer>>,
    checker: Option<(Arc<Mutex<Checker>>, Arc<Tracer>)>,
}

/// The tracers of a domain.
#[derive(Debug, Default)]
pub(crate) struct Tracers {
    /// Whether there is any tracer. Every call of the host reads this first.
    any: AtomicBool,
    attached: Mutex<Attachments>,
    pub(super) names: Names,
}

impl Tracers {
    /// Whether there is any tracer. A child of `fork` traces nothing: a thread that has the lock of a tracer may exist
    /// only in the parent.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.any.load(Ordering::Relaxed) && !calling::forked()
    }

    /// The tracers of every stream.
    pub(crate) fn all(&self) -> Attached {
        self.attached().all.clone()
    }

    /// The tracers that get entries about host threads.
    #[inline]
    pub(crate) fn of_calls(&self) -> Attached {
        if !self.is_on() {
            return Attached::new();
        }
        let attached = self.attached();
        attached.all.iter().chain(&attached.of_calls).cloned().collect()
    }

    /// Adds a tracer that gets entries about host threads, and no streams.
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

    /// Makes `tracer` the one that `Device::take_trace` takes next. Removes the one before and
    /// returns it.
    pub(crate) fn keep(&self, tracer: Option<&Arc<Tracer>>) -> Option<Arc<Tracer>> {
        let before = std::mem::replace(&mut self.attached().kept, tracer.cloned());
        before.iter().for_each(|before| self.remove(before));
        tracer.iter().for_each(|tracer| self.add(tracer));
        before
    }

    /// Adds a tracer whose entries a checker reads.
    ///
    /// # Errors
    /// `InvalidValue` if there is a checker already.
    pub(crate) fn check(&self, options: Options) -> Result<Arc<Tracer>> {
        let mut attached = self.attached();
        if attached.checker.is_some() {
            let cause = "the driver's streams are checked already";
            return Err(Error::new(ErrorKind::InvalidValue, "check", cause));
        }
        let checker = Arc::new(Mutex::new(Checker::new(options)));
        let reads = Arc::clone(&checker);
        let read = move |op: Op| reads.lock().expect("the checker does not panic").push(&op);
        let tracer = Arc::new(Tracer::untimed(Ledger::read_by(Box::new(read))));
        attached.checker = Some((checker, Arc::clone(&tracer)));
        drop(attached);
        self.add(&tracer);
        Ok(tracer)
    }

    /// Whether there is a checker.
    pub(crate) fn has_checker(&self) -> bool {
        self.attached().checker.is_some()
    }

    /// The verdict of the checker so far, if there is one. It counts waits that have not ended as
    /// such, so a program that hangs has a verdict, too.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let (checker, tracer) = self.attached().checker.clone()?;
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
        self.attached.lock().expect("no panic under this lock")
    }

    fn name(&self, name: &Name) {
        if calling::forked() {
            return;
        }
        self.names.add(name);
        // The name is kept first, so that a trace that starts meanwhile has it at least once.
        self.note(|| name.op());
    }

    /// Names the stream that has the lane of `position`.
    pub(crate) fn name_stream(
        &self,
        stream: (DeviceId, StreamClass),
        position: Position,
        text: &str,
    ) {
        self.name(&Name::of_stream(stream, position, text));
    }

    /// The name of the stream that has a lane.
    pub(crate) fn stream_name(&self, lane: LaneId) -> Option<String> {
        self.names.of_stream(lane)
    }

    /// Names an allocation or an event of `device`.
    pub(crate) fn name_object(&self, of: Named, device: DeviceId, text: &str) {
        self.name(&Name::of_object(of, device, text));
    }

    /// Forgets the name of an allocation that is gone.
    pub(crate) fn forget_block(&self, block: BlockId) {
        self.names.remove(Named::Block(block), NOWHERE);
    }

    /// Forgets the name of the stream that had the lane, which passes to another stream.
    pub(crate) fn forget_stream(&self, position: Position) {
        self.names.remove(Named::Stream, position);
    }
}
