//! Who records what host threads do in a universe: users who take the records, and a checker that
//! reads along. The streams know by themselves who records them.
#![forbid(unsafe_code)]

use super::names::Names;
use super::timing::Recorder;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::{Ledger, Op};
use crate::check::{Checker, Options, Verdict};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Mostly none, seldom more than one.
pub(crate) type Attached = SmallVec<[Arc<Recorder>; 1]>;

#[derive(Debug, Default)]
struct Who {
    all: Attached,
    /// Those of single pipelines, who know their lanes: they are told of no stream.
    of_calls: Attached,
    /// The one of `Device::record`.
    kept: Option<Arc<Recorder>>,
    checker: Option<(Arc<Mutex<Checker>>, Arc<Recorder>)>,
}

/// The recorders of a universe.
#[derive(Debug, Default)]
pub(crate) struct Recorders {
    /// Whether there is any: every call of the host looks here first.
    any: AtomicBool,
    who: Mutex<Who>,
    pub(super) names: Names,
}

impl Recorders {
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
    pub(crate) fn add_for_calls(&self, recorder: &Arc<Recorder>) {
        for op in self.names.ops() {
            recorder.ledger.append(op);
        }
        self.who().of_calls.push(Arc::clone(recorder));
        self.any.store(true, Ordering::Relaxed);
    }

    fn add(&self, recorder: &Arc<Recorder>) {
        for op in self.names.ops() {
            recorder.ledger.append(op);
        }
        self.who().all.push(Arc::clone(recorder));
        self.any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, recorder: &Arc<Recorder>) {
        let mut who = self.who();
        who.all.retain(|other| !Arc::ptr_eq(other, recorder));
        who.of_calls.retain(|other| !Arc::ptr_eq(other, recorder));
        self.any.store(!(who.all.is_empty() && who.of_calls.is_empty()), Ordering::Relaxed);
    }

    /// Makes `recorder` the one that is taken next; returns the one before.
    pub(crate) fn keep(&self, recorder: Option<&Arc<Recorder>>) -> Option<Arc<Recorder>> {
        let before = std::mem::replace(&mut self.who().kept, recorder.cloned());
        before.iter().for_each(|before| self.remove(before));
        recorder.iter().for_each(|recorder| self.add(recorder));
        before
    }

    /// A recorder whose records a checker reads.
    pub(crate) fn check(&self, options: Options) -> Result<Arc<Recorder>> {
        let mut who = self.who();
        if who.checker.is_some() {
            let cause = "the driver's streams are checked already";
            return Err(Error::new(ErrorKind::InvalidValue, "check", cause));
        }
        let checker = Arc::new(Mutex::new(Checker::new(options)));
        let reads = Arc::clone(&checker);
        let read = move |op: Op| reads.lock().expect("the checker does not panic").push(&op);
        let recorder = Arc::new(Recorder::untimed(Ledger::read_by(Box::new(read))));
        who.checker = Some((checker, Arc::clone(&recorder)));
        drop(who);
        self.add(&recorder);
        Ok(recorder)
    }

    /// What the checker knows so far, if there is one; of waits that have not ended, that they have
    /// not: a program that hangs has its verdict too.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let (checker, recorder) = self.who().checker.clone()?;
        let (mut checker, held) = recorder.ledger.held(|held| {
            let checker = checker.lock().expect("the checker does not panic").clone();
            (checker, held.clone())
        });
        held.iter().for_each(|op| checker.push(op));
        Some(checker.finish())
    }

    /// Appends to all records.
    pub(crate) fn note(&self, op: impl Fn() -> Op) {
        for recorder in self.of_calls() {
            recorder.ledger.append(op());
        }
    }

    fn who(&self) -> MutexGuard<'_, Who> {
        self.who.lock().expect("no panic under this lock")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::error::Result;
    use crate::base::ledger::{HostCall, OpKind};
    use crate::base::units::Bytes;
    use crate::check::Options;
    use crate::device::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
    use crate::stream::device::Device;
    use crate::stream::queue::Stream;
    use std::sync::Barrier;

    /// Streams that a thread opens while this one begins something.
    fn open_while(device: &Device, begin: impl FnOnce() -> Result<()>) -> Result<Vec<Stream>> {
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| {
                start.wait();
                (0..4).map(|_| device.stream()).collect::<Result<Vec<Stream>>>()
            });
            start.wait();
            begin()?;
            opener.join().expect("no panic")
        })
    }

    /// Whoever begins to record while another thread opens streams records each of them once.
    #[test]
    fn streams_that_open_meanwhile_are_recorded_once() -> Result<()> {
        for round in 0..300 {
            let device = Device::host(HostConfig::default())?.remove(0);
            let first = device.stream()?;
            let opened = open_while(&device, || device.record(&first))?;
            for stream in &opened {
                stream.alloc::<u8>(16)?;
            }
            device.synchronize()?;
            let ops = device.take_record()?;
            let allocs = ops.iter().filter(|op| op.kind == OpKind::Alloc);
            let mut lanes: Vec<u32> = allocs.map(|op| op.position.lane.0).collect();
            lanes.sort_unstable();
            let mut expected: Vec<u32> = opened.iter().map(|s| s.lane().id.0).collect();
            expected.sort_unstable();
            assert_eq!(lanes, expected, "round {round}");
        }
        Ok(())
    }

    /// A checker hears of every stream once as well.
    #[test]
    fn a_checker_hears_once_of_a_stream_that_opens_meanwhile() -> Result<()> {
        for round in 0..300 {
            let device = Device::host(HostConfig::default())?.remove(0);
            let check = || device.shared().universe.check(Options::default());
            let opened = open_while(&device, check)?;
            let before = device.verdict().expect("it is checked").accesses;
            for stream in &opened {
                stream.alloc::<u8>(16)?;
            }
            device.synchronize()?;
            // An allocation and its free, in each of them.
            let heard = device.verdict().expect("it is checked").accesses - before;
            assert_eq!(heard, 8, "round {round}");
        }
        Ok(())
    }

    #[test]
    fn a_pool_that_does_not_answer_costs_the_remark_and_not_the_call() -> Result<()> {
        for nth in [1, 2, 3] {
            let refused = Fault { verb: Verb::PoolQuery, nth, kind: FaultKind::Refused };
            let executor = Executor::Virtual(Order::Greedy);
            let config = HostConfig { executor, faults: vec![refused], ..HostConfig::default() };
            let device = Device::host(config)?.remove(0);
            let stream = device.stream()?;
            device.pool_keep(Bytes(0))?;
            device.record(&stream)?;
            // It is freed at once, and given back when the stream is waited for.
            stream.alloc::<u8>(1 << 20)?;
            stream.synchronize()?;
            let ops = device.take_record()?;
            let given = ops.iter().any(|op| op.kind == OpKind::Call(HostCall::Release));
            assert_eq!(given, nth == 3, "{ops:#?}");
        }
        Ok(())
    }
}
