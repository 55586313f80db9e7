//! The run of a staged pipeline. One thread reads the source, a pool of threads runs the host
//! stages, and one thread calls the sink. All other stages run on the calling thread.
//!
//! The calling thread does not wait for the device. It waits for messages of the other threads.
//! After each message it issues every stage that the order allows. The other threads end when the
//! calling thread drops its ends of the channels. So after an error or a panic on any thread, all
//! threads end.
#![forbid(unsafe_code)]

use super::order::StagedOrder;
use super::stage::{Compute, ItemCx, Parts, Stage, StageBody};
use super::value::{HeldValue, Values};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::panic::{called, caught};
use crate::device::named_range;
use crate::pipeline::describe::cancel::Cancel;
use crate::stream::{Device, Stream};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope, available_parallelism, scope};

/// Maximum number of threads that compute the host stages of a run.
const POOL_MAX: usize = 16;

/// A message of another thread to the calling thread.
enum News<I> {
    /// The source has read an item.
    Item(I),
    SourceEnded,
    /// A host stage has computed a value.
    Value {
        stage: usize,
        item: u64,
        value: HeldValue,
    },
    /// The sink has taken a result.
    Sunk {
        item: u64,
        then: ControlFlow<()>,
    },
    Failed(Error),
}

/// A host stage to compute for an item, with its input values.
struct HostJob {
    stage: usize,
    item: u64,
    values: Values,
}

/// The sink of a run: a function that gets the result of each item.
pub(super) type ResultSink<'a> = dyn FnMut(&HeldValue) -> Result<ControlFlow<()>> + Send + 'a;

/// Runs all items. Calls `sink` with the value of the stage `result` for each item.
pub(super) fn run<I: Send + Sync + 'static>(
    parts: Parts<'_>,
    items: impl Iterator<Item = Result<I>> + Send,
    result: usize,
    sink: &mut ResultSink<'_>,
) -> Result<u64> {
    let Parts { device, stages, computes, depth, issue, cancel } = parts;
    let depth = depth.unwrap_or(stages.len() + 1);
    let lanes = stages.iter().map(|stage| open(&device, stage)).collect::<Result<Vec<_>>>()?;
    let shapes = stages.iter().map(Stage::shape).collect();
    let names: Vec<String> = stages.iter().map(|stage| stage.name.clone()).collect();
    let (send, news) = channel();
    let (credits, credit) = channel();
    let (jobs, jobs_in) = channel();
    let (results, results_in) = channel();
    let jobs_in = Mutex::new(jobs_in);
    let threads = available_parallelism().map_or(1, usize::from).min(POOL_MAX);
    let next = || jobs_in.lock().unwrap_or_else(PoisonError::into_inner).recv();
    scope(|scope| {
        let to = send.clone();
        spawn(scope, "source", move || read(items, &credit, &to))?;
        let to = send.clone();
        spawn(scope, "sink", move || take(sink, &results_in, &to))?;
        for _ in 0..if computes.is_empty() { 0 } else { threads } {
            let (to, next, computes, names) = (send.clone(), &next, &computes, &names);
            spawn(scope, "host stage", move || compute(computes, names, next, &to))?;
        }
        // This was the last sender of the calling thread. So the channel `news` ends when the other
        // threads have ended.
        drop(send);
        let run = StagedRun {
            stages: &stages,
            lanes: &lanes,
            order: StagedOrder::new(shapes, result, issue, depth),
            result,
            values: VecDeque::new(),
            spare: stages.iter().map(|_| VecDeque::new()).collect(),
            made: vec![0; stages.len()],
            jobs,
            results,
            credits,
            sunk: 0,
        };
        run.drive(&news, &cancel, depth)
    })
}

/// The streams of a stage. A host stage has none.
fn open(device: &Device, stage: &Stage<'_>) -> Result<Vec<Stream>> {
    let count = match stage.body {
        StageBody::Source | StageBody::Host => 0,
        StageBody::Enqueue(_) | StageBody::Recycle { .. } => stage.lanes,
    };
    let name = |lane| match count {
        1 => stage.name.clone(),
        _ => format!("{} {lane}", stage.name),
    };
    (0..count).map(|lane| Ok(device.stream()?.named(&name(lane)))).collect()
}

fn spawn<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    side: &'static str,
    work: impl FnOnce() + Send + 'scope,
) -> Result<()> {
    let spawned = Builder::new().name(format!("trijet-{side}")).spawn_scoped(scope, work);
    spawned.map(drop).map_err(|error| {
        Error::new(ErrorKind::Io, "staged pipeline", format!("cannot start the {side} thread"))
            .caused_by(error)
    })
}

fn panicked(side: &str, words: &str) -> Error {
    Error::new(ErrorKind::Panicked, "staged pipeline", format!("{side} panicked: {words}"))
}

/// Reads one item from the source for each message from `credit`. Returns when the source has
/// ended, or when the run has closed a channel.
fn read<I>(items: impl Iterator<Item = Result<I>>, credit: &Receiver<()>, send: &Sender<News<I>>) {
    let mut items = items;
    let mut number = 0;
    while credit.recv().is_ok() {
        let side = || format!("the source, at item {number}");
        let news = match caught(|| items.next()) {
            Ok(Some(Ok(item))) => News::Item(item),
            Ok(Some(Err(error))) => News::Failed(error.context(side())),
            Ok(None) => News::SourceEnded,
            Err(words) => News::Failed(panicked(&side(), &words)),
        };
        let is_last = !matches!(news, News::Item(_));
        if send.send(news).is_err() || is_last {
            return;
        }
        number += 1;
    }
}

/// Runs host stages on a thread of the pool until the run ends.
fn compute<I>(
    computes: &BTreeMap<usize, Compute<'_>>,
    names: &[String],
    next: &impl Fn() -> std::result::Result<HostJob, RecvError>,
    send: &Sender<News<I>>,
) {
    while let Ok(HostJob { stage, item, values }) = next() {
        let Some(compute) = computes.get(&stage) else { return };
        let side = || format!("item {item}, stage `{}`", names[stage]);
        let outcome = caught(|| compute(item, &values));
        // When the run gets the message of this stage, the run may reuse recycled values at once.
        // So this thread drops its references to the values before it sends the message.
        drop(values);
        let news = match outcome {
            Ok(Ok(value)) => News::Value { stage, item, value },
            Ok(Err(error)) => News::Failed(error.context(side())),
            Err(words) => News::Failed(panicked(&side(), &words)),
        };
        if send.send(news).is_err() {
            return;
        }
    }
}

/// Calls the sink with the results that arrive.
fn take<I>(
    sink: &mut ResultSink<'_>,
    results: &Receiver<(u64, HeldValue)>,
    send: &Sender<News<I>>,
) {
    while let Ok((item, result)) = results.recv() {
        let side = || format!("item {item}, sink");
        let outcome = caught(|| sink(&result));
        drop(result);
        let news = match outcome {
            Ok(Ok(then)) => News::Sunk { item, then },
            Ok(Err(error)) => News::Failed(error.context(side())),
            Err(words) => News::Failed(panicked(&side(), &words)),
        };
        let is_last = !matches!(news, News::Sunk { then: ControlFlow::Continue(()), .. });
        if send.send(news).is_err() || is_last {
            return;
        }
    }
}

/// The state of the calling thread in a run.
struct StagedRun<'r, 'a> {
    stages: &'r [Stage<'a>],
    lanes: &'r [Vec<Stream>],
    order: StagedOrder,
    result: usize,
    /// The values of the items in flight. The oldest item comes first.
    values: VecDeque<Values>,
    /// For each stage, the values that can be reused, because no item uses them any more. The
    /// values are in the order in which they became free.
    spare: Vec<VecDeque<HeldValue>>,
    /// For each stage, the number of values that it has made.
    made: Vec<usize>,
    jobs: Sender<HostJob>,
    results: Sender<(u64, HeldValue)>,
    credits: Sender<()>,
    sunk: u64,
}

impl StagedRun<'_, '_> {
    fn drive<I: Send + Sync + 'static>(
        mut self,
        news: &Receiver<News<I>>,
        cancel: &Cancel,
        depth: usize,
    ) -> Result<u64> {
        let (mut queue, mut has_ended, mut is_cancelled) = (VecDeque::new(), false, false);
        (0..depth).for_each(|_| self.read_one());
        loop {
            self.advance()?;
            // An item that has ended makes room for the next one.
            while self.order.can_begin() && !queue.is_empty() {
                // After a cancellation, the run finishes the items in flight, like other pipelines.
                is_cancelled |= cancel.is_cancelled();
                match queue.pop_front() {
                    Some(item) if !is_cancelled => self.begin(item),
                    _ => queue.clear(),
                }
                self.advance()?;
            }
            if (has_ended || is_cancelled) && queue.is_empty() && self.order.is_idle() {
                return if is_cancelled {
                    Err(cancelled(self.order.begun()))
                } else {
                    Ok(self.sunk)
                };
            }
            match news.recv() {
                Ok(News::Item(item)) => queue.push_back(item),
                Ok(News::SourceEnded) => has_ended = true,
                Ok(News::Value { stage, item, value }) => {
                    self.put(stage, item, value);
                    let released = self.order.done(stage, item);
                    self.recycle(item, &released);
                }
                Ok(News::Sunk { item, then }) => {
                    self.sunk += 1;
                    if then.is_break() {
                        return Ok(self.sunk);
                    }
                    self.order.sunk(item);
                }
                Ok(News::Failed(error)) => return Err(error),
                Err(_) => return Err(ended()),
            }
        }
    }

    /// Permits the source to read one more item. After the end of the source, this has no effect.
    fn read_one(&self) {
        let _ended = self.credits.send(());
    }

    fn begin<I: Send + Sync + 'static>(&mut self, item: I) {
        let mut values = Values::new(self.stages.len());
        values.put(0, Arc::new(item));
        self.values.push_back(values);
        self.order.begin();
        self.read_one();
    }

    /// Issues every stage that can be issued, and ends every item that is complete.
    fn advance(&mut self) -> Result<()> {
        loop {
            while let Some((stage, item)) = self.order.next() {
                self.issue(stage, item)?;
                let released = self.order.issued(stage, item);
                self.recycle(item, &released);
            }
            while let Some(item) = self.order.next_to_sink() {
                let result = self.values_of(item).held(self.result).cloned().ok_or_else(ended)?;
                // If the send fails, the thread of the sink has ended and has already sent the
                // reason.
                let _ended = self.results.send((item, result));
            }
            // The end of an item may free a slot for which another item waits.
            let Some(released) = self.order.end_first() else { return Ok(()) };
            let mut values = self.values.pop_front().ok_or_else(ended)?;
            for stage in released {
                self.spare[stage].extend(values.take(stage));
            }
        }
    }

    fn issue(&mut self, stage: usize, item: u64) -> Result<()> {
        let Stage { name, inputs, body, .. } = &self.stages[stage];
        let _range = named_range(|| format!("trijet: item {item}, stage {name}"));
        let at = |error: Error| error.context(format!("item {item}, stage `{name}`"));
        let values = self.values_of(item);
        let cx = || {
            let lanes = &self.lanes[stage];
            let lane = usize::try_from(item % lanes.len() as u64).unwrap_or(0);
            let stream = &lanes[lane];
            stream.set_chunk(Some(item));
            ItemCx { stream, item }
        };
        let value = match body {
            StageBody::Source => return Ok(()),
            StageBody::Host => {
                let job = HostJob { stage, item, values: values.only(inputs) };
                return self.jobs.send(job).map_err(|_| ended());
            }
            StageBody::Enqueue(run) => called("stage", || run(&cx(), values)).map_err(at)?,
            StageBody::Recycle { slots, make, run } => {
                let cx = cx();
                // A value is free as soon as its last user is enqueued, and the next item would
                // wait for that user. So all slots are filled first, and then used in turn.
                let is_full = self.made[stage] >= *slots;
                let spare = if is_full { self.spare[stage].pop_front() } else { None };
                self.made[stage] += usize::from(spare.is_none());
                let values = self.values_of(item);
                let mut value = match spare {
                    Some(value) => value,
                    None => called("stage", || make(cx.stream)).map_err(at)?,
                };
                called("stage", || run(&cx, values, &mut value)).map_err(at)?;
                value
            }
        };
        self.put(stage, item, value);
        Ok(())
    }

    /// Takes the values of these stages from an item, so that later items can reuse them.
    fn recycle(&mut self, item: u64, stages: &[usize]) {
        for stage in stages {
            let value = self.values_mut(item).take(*stage);
            self.spare[*stage].extend(value);
        }
    }

    fn put(&mut self, stage: usize, item: u64, value: HeldValue) {
        self.values_mut(item).put(stage, value);
    }

    fn place(&self, item: u64) -> usize {
        usize::try_from(item - self.order.first()).unwrap_or(usize::MAX)
    }

    fn values_of(&self, item: u64) -> &Values {
        &self.values[self.place(item)]
    }

    fn values_mut(&mut self, item: u64) -> &mut Values {
        let place = self.place(item);
        &mut self.values[place]
    }
}

fn cancelled(item: u64) -> Error {
    Error::new(ErrorKind::Cancelled, "run", format!("cancelled before item {item}"))
}

/// The error for a thread that ended without a message. A panic of a user's function cannot cause
/// this error.
fn ended() -> Error {
    Error::new(ErrorKind::Panicked, "staged pipeline", "a thread of the run has ended early")
}
