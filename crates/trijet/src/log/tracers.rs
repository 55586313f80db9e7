//! Who records what host threads do in a domain: users who take the records, and a checker that
//! reads along. The streams know by themselves who records them.
#![forbid(unsafe_code)]

use super::names::{NOWHERE, Name, Names};
use super::tracer::Tracer;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{BlockId, DeviceId, Position};
use crate::base::ledger::{Ledger, Named, Op, StreamClass};
use crate::check::{Checker, Options, Verdict};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Mostly none, seldom more than one.
pub(crate) type Attached = SmallVec<[Arc<Tracer>; 1]>;

#[derive(Debug, Default)]
struct Who {
    all: Attached,
    /// Those of single pipelines, who know their lanes: they are told of no stream.
    of_calls: Attached,
    /// The one of `Device::start_trace`.
    kept: Option<Arc<Tracer>>,
    checker: Option<(Arc<Mutex<Checker>>, Arc<Tracer>)>,
}

/// The tracers of a domain.
#[derive(Debug, Default)]
pub(crate) struct Tracers {
    /// Whether there is any: every call of the host looks here first.
    any: AtomicBool,
    who: Mutex<Who>,
    pub(super) names: Names,
}

impl Tracers {
    /// Whether anybody records.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Those who record every stream.
    pub(crate) fn all(&self) -> Attached {
        self.who().all.clone()
    }

    /// Those who record what host threads do.
    #[inline]
    pub(crate) fn of_calls(&self) -> Attached {
        if !self.is_on() {
            return Attached::new();
        }
        let who = self.who();
        who.all.iter().chain(&who.of_calls).cloned().collect()
    }

    /// Records what host threads do, and no stream.
    pub(crate) fn add_for_calls(&self, tracer: &Arc<Tracer>) {
        for op in self.names.ops() {
            tracer.ledger.append(op);
        }
        self.who().of_calls.push(Arc::clone(tracer));
        self.any.store(true, Ordering::Relaxed);
    }

    fn add(&self, tracer: &Arc<Tracer>) {
        for op in self.names.ops() {
            tracer.ledger.append(op);
        }
        self.who().all.push(Arc::clone(tracer));
        self.any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, tracer: &Arc<Tracer>) {
        let mut who = self.who();
        who.all.retain(|other| !Arc::ptr_eq(other, tracer));
        who.of_calls.retain(|other| !Arc::ptr_eq(other, tracer));
        self.any.store(!(who.all.is_empty() && who.of_calls.is_empty()), Ordering::Relaxed);
    }

    /// Makes `tracer` the one that is taken next; returns the one before.
    pub(crate) fn keep(&self, tracer: Option<&Arc<Tracer>>) -> Option<Arc<Tracer>> {
        let before = std::mem::replace(&mut self.who().kept, tracer.cloned());
        before.iter().for_each(|before| self.remove(before));
        tracer.iter().for_each(|tracer| self.add(tracer));
        before
    }

    /// A tracer whose records a checker reads.
    pub(crate) fn check(&self, options: Options) -> Result<Arc<Tracer>> {
        let mut who = self.who();
        if who.checker.is_some() {
            let cause = "the driver's streams are checked already";
            return Err(Error::new(ErrorKind::InvalidValue, "check", cause));
        }
        let checker = Arc::new(Mutex::new(Checker::new(options)));
        let reads = Arc::clone(&checker);
        let read = move |op: Op| reads.lock().expect("the checker does not panic").push(&op);
        let tracer = Arc::new(Tracer::untimed(Ledger::read_by(Box::new(read))));
        who.checker = Some((checker, Arc::clone(&tracer)));
        drop(who);
        self.add(&tracer);
        Ok(tracer)
    }

    /// What the checker knows so far, if there is one; of waits that have not ended, that they have
    /// not: a program that hangs has its verdict too.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let (checker, tracer) = self.who().checker.clone()?;
        let (mut checker, held) = tracer.ledger.held(|held| {
            let checker = checker.lock().expect("the checker does not panic").clone();
            (checker, held.clone())
        });
        held.iter().for_each(|op| checker.push(op));
        Some(checker.finish())
    }

    /// Appends to all records.
    pub(crate) fn note(&self, op: impl Fn() -> Op) {
        for tracer in self.of_calls() {
            tracer.ledger.append(op());
        }
    }

    fn who(&self) -> MutexGuard<'_, Who> {
        self.who.lock().expect("no panic under this lock")
    }

    fn name(&self, name: &Name) {
        self.names.add(name);
        // Afterwards: a trace that begins meanwhile has it at least once.
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

    /// Names an allocation or an event of `device`.
    pub(crate) fn name_object(&self, of: Named, device: DeviceId, text: &str) {
        self.name(&Name::of_object(of, device, text));
    }

    /// Forgets the name of an allocation that is gone.
    pub(crate) fn forget_block(&self, block: BlockId) {
        self.names.remove(Named::Block(block), NOWHERE);
    }

    /// Forgets the name of the stream that had the lane: it passes to another stream.
    pub(crate) fn forget_stream(&self, position: Position) {
        self.names.remove(Named::Stream, position);
    }
}
