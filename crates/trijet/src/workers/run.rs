//! A run of a program by workers.
#![forbid(unsafe_code)]

use super::end::{EndReport, HUNG};
use super::graph::LoadedGraph;
use super::options::{Policy, RunOptions};
use super::program::Program;
use super::run_report::{self, RunReport};
use super::setup::{Setup, host};
use super::task::{PAYLOAD, WorkerTask};
use super::twin::{self, Kinds};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::driver::Readiness;
use crate::launch::{Args, ArgsFor};
use crate::log::calling;
use crate::memory::{Buffer, HostWords, PinnedBuffer, View, ViewMut};
use crate::stream::{Device, Stream, Ticket};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The initial tasks of a run.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Work<'a> {
    /// One task of the kind `kind` for each payload from 0 to `count - 1`.
    Range {
        /// The index of the kind in [`Kinds::KINDS`].
        kind: u8,
        /// The number of tasks.
        count: u32,
    },
    /// The tasks in this list. The list is copied to the device in each run.
    Tasks(&'a [WorkerTask]),
    /// The nodes of a graph. Each node runs after all of its predecessors have run.
    Graph(&'a LoadedGraph),
}

/// A run that was enqueued.
#[derive(Debug)]
#[must_use = "`wait` returns the errors of the run"]
pub struct Run {
    pub(super) setup: Setup,
    kinds: Vec<&'static str>,
    /// The statistics of the workers and the times of tasks; `None` if the options do not ask for
    /// them.
    stats: Option<PinnedBuffer<u64>>,
    pub(super) host: Arc<HostWords>,
    pub(super) ticket: Ticket,
    watchdog: Duration,
}

/// Maximum number of initial tasks of a run.
const INITIAL_MAX: u32 = 1 << 31;

fn refused<K: Kinds, P>(program: &Program<K, P>, cause: &str) -> Error {
    let cause = format!("`{}`: {cause}", program.name());
    Error::new(ErrorKind::InvalidValue, "run_workers", cause)
}

/// The memory of the initial tasks. A buffer that a run does not need is a small placeholder.
struct Initial {
    words: Buffer<u32>,
    list: Buffer<u64>,
    counters: Buffer<u32>,
}

/// The graph, the list of tasks and the counters of a run.
struct InitialViews<'a> {
    graph: View<'a, u32>,
    list: View<'a, u64>,
    counters: ViewMut<'a, u32>,
}

impl Initial {
    fn views<'a>(&'a mut self, work: &Work<'a>) -> InitialViews<'a> {
        let Self { words, list, counters } = self;
        match work {
            Work::Range { .. } => InitialViews {
                graph: words.slice(..0),
                list: list.slice(..0),
                counters: counters.slice_mut(..0),
            },
            Work::Tasks(_) => InitialViews {
                graph: words.slice(..0),
                list: list.view(),
                counters: counters.slice_mut(..0),
            },
            Work::Graph(graph) => {
                let counters = counters.slice_mut(..graph.degrees.len());
                InitialViews { graph: graph.words.view(), list: graph.list.view(), counters }
            }
        }
    }
}

impl Work<'_> {
    /// The number of initial tasks. For a graph, this is the number of all nodes.
    pub(super) fn initial_count(&self) -> usize {
        match self {
            Self::Range { count, .. } => *count as usize,
            Self::Tasks(tasks) => tasks.len(),
            Self::Graph(graph) => graph.nodes as usize,
        }
    }

    /// Refuses kinds of tasks that the program does not have, and policies that this work does not
    /// allow. Returns the number of initial tasks.
    pub(super) fn check<K: Kinds, P>(
        &self,
        program: &Program<K, P>,
        policy: Policy,
    ) -> Result<u32> {
        let (kind, initial) = match self {
            Self::Range { kind, count } => (Some(*kind), *count),
            Self::Tasks(tasks) => {
                let kinds = tasks.iter().map(|task| ((task.word() >> 56) as u8).wrapping_sub(1));
                let count = u32::try_from(tasks.len()).map_err(|_| {
                    refused(
                        program,
                        &format!("{} tasks are too many; the limit is 2^32 - 1", tasks.len()),
                    )
                })?;
                (kinds.max(), count)
            }
            // With the policy `Levels`, all nodes are initial tasks. With other policies, only
            // nodes without predecessors are initial tasks.
            Self::Graph(graph) => {
                let initial = if policy == Policy::Levels { graph.nodes } else { graph.roots };
                ((graph.nodes > 0).then_some(graph.kinds), initial)
            }
        };
        // Workers raise the common counter beyond the number of the last task. With the policy
        // `Static`, each worker adds the number of workers to the index of its next task. Neither
        // of these numbers may wrap around.
        if initial > INITIAL_MAX {
            let cause = format!("{initial} initial tasks are too many; the limit is {INITIAL_MAX}");
            return Err(refused(program, &cause));
        }
        let kinds = K::KINDS.len();
        if let Some(kind) = kind.filter(|kind| usize::from(*kind) >= kinds) {
            return Err(refused(
                program,
                &format!("there is no kind {kind}; the program has {kinds} kinds, counted from 0"),
            ));
        }
        let is_graph = matches!(self, Self::Graph(_));
        if policy == Policy::Levels && !is_graph {
            return Err(refused(program, "the policy `levels` needs a graph"));
        }
        if policy == Policy::Static && is_graph {
            return Err(refused(
                program,
                "a graph needs an order between workers, which the policy `static` does not keep; \
                 use another policy",
            ));
        }
        Ok(initial)
    }

    /// Allocates the memory of the initial tasks, and sets the fields of `setup` that describe this
    /// memory.
    #[track_caller]
    fn initial(&self, stream: &Stream, setup: &mut Setup) -> Result<Initial> {
        let nothing = || Ok::<_, Error>((stream.alloc::<u32>(1)?, stream.alloc::<u32>(1)?));
        match self {
            Self::Range { kind, .. } => {
                setup.first = WorkerTask::new(*kind, 0).word();
                let (words, counters) = nothing()?;
                Ok(Initial { words, list: stream.alloc(1)?, counters })
            }
            Self::Tasks(tasks) => {
                let list: Vec<u64> = tasks.iter().map(|task| task.word()).collect();
                let (words, counters) = nothing()?;
                Ok(Initial { words, list: stream.upload(&list)?, counters })
            }
            Self::Graph(graph) => {
                setup.is_graph = 1;
                setup.levels = graph.levels;
                (setup.successors, setup.order) = (graph.successors, graph.order);
                setup.level = graph.level;
                (setup.fields, setup.with_fields) = (graph.fields, graph.with_fields);
                let mut counters = stream.alloc(graph.degrees.len().max(1))?;
                stream.copy(&graph.degrees, &mut counters.slice_mut(..graph.degrees.len()))?;
                Ok(Initial { words: stream.alloc(1)?, list: stream.alloc(1)?, counters })
            }
        }
    }
}

/// The number of blocks that fit onto the device, and the number of their workers.
fn workers<K: Kinds, P>(
    device: &Device,
    program: &Program<K, P>,
    options: &RunOptions,
) -> Result<(u32, u32)> {
    let room = device.occupancy(program.kernel(), &program.config(1))?;
    let all = device.info().multiprocessors;
    let left = all.saturating_sub(options.reserve);
    let each = program.workers_of_block();
    let most = options.workers.map_or(u32::MAX, |workers| workers.div_ceil(each));
    let blocks = (room.blocks * left).min(most);
    if blocks == 0 {
        let (fit, reserve) = (room.blocks, options.reserve);
        let asked = if most == 0 { "; `workers` is 0" } else { "" };
        return Err(refused(
            program,
            &format!(
                "no room for a block of workers: {fit} blocks fit onto a multiprocessor, and \
                 {left} of {all} multiprocessors can be used, with {reserve} \
                 reserved{asked}"
            ),
        ));
    }
    Ok((blocks, blocks * each))
}

impl Stream {
    /// Runs tasks by persistent workers. One cooperative launch has as many blocks as can run at
    /// the same time. Its workers take tasks until all tasks have run, including the tasks that
    /// other tasks make.
    ///
    /// ```
    /// use trijet::workers::queens::{self, QUEENS};
    /// use trijet::workers::{RunOptions, Work};
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Auto)?;
    /// let s = device.stream()?;
    /// let mut total = s.alloc_zeroed::<u64>(1)?;
    /// let root = [queens::root(8)];
    /// let options = RunOptions::default();
    /// let run = s.run_workers(&QUEENS, Work::Tasks(&root), &options, (&mut total, 2u32))?;
    /// let report = run.wait()?;
    /// assert_eq!(s.download(&total)?, [92]);
    /// assert_eq!(report.ran, report.spawned + 1);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for kinds that the program lacks, a policy that the work does not allow,
    /// arguments that the program refuses, or no room for a block of workers; `Unsupported` for a
    /// program without PTX if there is no run-time compiler; `OutOfMemory`; an error of the driver.
    #[track_caller]
    pub fn run_workers<'a, K: Kinds, P, A: ArgsFor<'a, P>>(
        &self,
        program: &Program<K, P>,
        work: Work<'_>,
        options: &RunOptions,
        args: A,
    ) -> Result<Run> {
        calling::refuse("run_workers")?;
        let mut collected = Args::new();
        args.push_all(&mut collected)?;
        start(self, program, work, options, 0, collected)
    }
}

/// Enqueues a run with the arguments of the program. The run has a feed if `feed_bits` is not 0.
#[track_caller]
pub(super) fn start<K: Kinds, P>(
    stream: &Stream,
    program: &Program<K, P>,
    work: Work<'_>,
    options: &RunOptions,
    feed_bits: u32,
    args: Args<'_>,
) -> Result<Run> {
    stream.lane().refuse_recorded("run_workers")?;
    let initial = work.check(program, options.policy)?;
    // The common queue has room for all nodes of a graph. There are at most as many workers as
    // nodes in the widest level, because more workers would only search for tasks.
    let (nodes, width) = match work {
        Work::Graph(graph) => (graph.nodes, graph.width.max(1)),
        Work::Range { .. } | Work::Tasks(_) => (0, u32::MAX),
    };
    let most = options.workers.map_or(width, |most| most.min(width));
    let options = options.ring(options.ring.max(nodes)).workers(most);
    let (blocks, workers) = workers(&Device::of_shared(stream.device()), program, &options)?;
    let (mut setup, layout) = Setup::new(&options, workers, initial).ok_or_else(|| {
        let (queue, ring) = (options.queue, options.ring);
        let why = format!(
            "the queues are too large: {workers} queues of {queue} tasks, and a common queue of \
             {ring} tasks; lower `queue` or `ring`"
        );
        refused(program, &why)
    })?;
    setup.feed_bits = feed_bits;
    let words = Arc::new(HostWords::zeroed(stream.device(), host::words(feed_bits))?);
    let mut memory = work.initial(stream, &mut setup)?;
    let mut state = stream.alloc_zeroed::<u32>(layout.state)?;
    let mut tasks = stream.alloc::<u64>(layout.tasks)?;
    let InitialViews { graph, list, counters } = memory.views(&work);
    let args = args.scalar(setup)?.update(state.view_mut())?.write(tasks.view_mut())?;
    let args = args.read(list)?.read(graph)?.update(counters)?.scalar(words.address())?;
    stream.launch_with(program.kernel(), program.config(blocks), args)?;
    // From here on, the workers use the host words. So an error below must not free the words.
    let words = ManuallyDrop::new(words);
    let ticket = stream.ticket()?;
    let host = ManuallyDrop::into_inner(words);
    let kinds = K::KINDS.iter().map(|(name, _)| *name).collect();
    let mut run = Run { setup, kinds, stats: None, host, ticket, watchdog: options.watchdog };
    let (at, len) = (setup.stats as usize, setup.stats_len() + setup.spans_len());
    if len > 0 {
        let mut stats = Device::of_shared(stream.device()).pinned::<u64>(len)?;
        stream.copy(&tasks.slice(at..at + len), &mut stats)?;
        run.stats = Some(stats);
    }
    Ok(run)
}

/// The number of queries for the end of a run before the thread yields to other threads.
const QUESTIONS: u64 = 64;

/// The host words of runs that were dropped before their end, because the workers of these runs may
/// still use the words.
static LEFT: Mutex<Vec<(Ticket, Arc<HostWords>)>> = Mutex::new(Vec::new());

impl Run {
    /// Waits for the end of the run, and returns the counts of its workers.
    ///
    /// # Errors
    /// `OutOfMemory` if the queues had no room for a task; `Stalled` if the watchdog ended the run,
    /// with the worker and its task; `Cancelled`; the error of work that failed.
    #[track_caller]
    pub fn wait(self) -> Result<RunReport> {
        self.end()
    }

    /// Waits as [`Run::wait`] does, but does not consume the run.
    #[track_caller]
    pub(crate) fn end(&self) -> Result<RunReport> {
        if self.watchdog.is_zero() {
            self.ticket.wait()?;
        } else {
            self.watch()?;
        }
        let report = twin::report(self.host.address()).unwrap_or_else(|| self.report());
        match &self.stats {
            Some(stats) => RunReport::read(&self.setup, &self.kinds, &report, &stats.read()?),
            None => RunReport::read(&self.setup, &self.kinds, &report, &[]),
        }
    }

    /// Whether [`Run::wait`] would return at once.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(self.ticket.query(), Ok(Readiness::NotReady))
    }

    /// The payload of the task in the report of the end; `None` if the report has no task.
    pub(crate) fn reported_task(&self) -> Option<u64> {
        let report = twin::report(self.host.address()).unwrap_or_else(|| self.report());
        (report.task != 0).then_some(report.task & PAYLOAD)
    }

    /// Reads the report of the end from the words that the workers wrote.
    fn report(&self) -> EndReport {
        let word = |at: usize| self.host.get(host::REPORTED + at);
        let long = |at: usize| u64::from(word(at + 1)) << 32 | u64::from(word(at));
        let totals = std::array::from_fn(|at| long(5 + 2 * at));
        EndReport { code: word(0), worker: word(1), credits: word(2), task: long(3), totals }
    }

    /// Waits for the end of the run. After the watchdog has found a task that runs too long, this
    /// call waits at most for the limit of the watchdog, and then returns an error.
    fn watch(&self) -> Result<()> {
        let (mut found, mut asked): (Option<Instant>, u64) = (None, 0);
        while self.ticket.query()? == Readiness::NotReady {
            if self.is_hung() && found.get_or_insert_with(Instant::now).elapsed() > self.watchdog {
                let error = run_report::error(&self.report(), &self.setup, &self.kinds);
                return Err(error.context("the kernel does not end"));
            }
            // A device in modelled time works only during queries. The thread does not yield after
            // each query, because a yield costs a time slice of a busy processor.
            asked += 1;
            if asked.is_multiple_of(QUESTIONS) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Whether the watchdog found a task that runs for too long.
    pub(super) fn is_hung(&self) -> bool {
        self.host.get(host::REPORTED) == HUNG
    }

    /// Asks the workers to leave. Tasks that have started run to their end. Tasks that have not
    /// started do not run.
    pub fn cancel(&self) {
        if calling::forked() {
            return;
        }
        twin::ask(self.host.address());
        self.host.set(host::ASKED, 1);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if calling::forked() {
            return;
        }
        twin::forget(self.host.address());
        let may_ask = !calling::inside();
        let is_complete =
            |ticket: &Ticket| may_ask && matches!(ticket.query(), Ok(Readiness::Ready));
        let lock = || LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        // The query calls the driver, so the lock is not held during the query.
        let mut left = std::mem::take(&mut *lock());
        left.retain(|(ticket, _)| !is_complete(ticket));
        if !is_complete(&self.ticket) {
            left.push((self.ticket.clone(), Arc::clone(&self.host)));
        }
        lock().append(&mut left);
    }
}
