//! The state of tasks under their lock: all tasks, the earlier tasks that each task comes after,
//! and the tasks that may be issued.
#![forbid(unsafe_code)]

use super::declared::{AllDeclared, DatumName, DeclaredUse};
use super::history::{History, HistoryUse};
use super::lanes::Lanes;
use super::region::Regions;
use super::region::Running;
use super::replicas::Replicas;
use super::task_state::{Failure, Name, New, Number, TaskBody, TaskEdge, TaskProgress, TaskState};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::Position;
use crate::base::ledger::Mode;
use crate::base::units::Bytes;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The number of tasks that are remembered, so that a program can ask about tasks that are over. A
/// task that is not over is always remembered.
const REMEMBERED: usize = 4096;

/// A datum: the last users of its bytes, and the number of unfinished tasks that use it.
#[derive(Debug, Default)]
pub(super) struct Datum {
    pub(super) history: History,
    /// The name of the buffer, if it has one.
    pub(super) given_name: Option<Arc<str>>,
    /// The number of tasks that use the datum and are not over.
    pub(super) pending: u32,
    pub(super) is_taken: bool,
    /// Whether no handle of the datum is left.
    pub(super) is_forgotten: bool,
    /// The devices that have the current values of the datum; `None` if the datum cannot be on
    /// several devices.
    pub(super) replicas: Option<Box<Replicas>>,
}

/// A use of a datum by a task.
pub(super) struct Use {
    /// The number of the history that has this use. If the datum can be on several devices, each
    /// copy has a number of its own. Otherwise this number equals `datum`.
    pub(super) number: u32,
    /// The number of the datum.
    pub(super) datum: u32,
    pub(super) range: Range<u64>,
    pub(super) mode: Mode,
    pub(super) reduces: bool,
}

/// Counts of tasks so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TaskCounts {
    /// Tasks that were submitted.
    pub submitted: u64,
    /// Tasks whose function ran and returned no error.
    pub succeeded: u64,
    /// Tasks whose function returned an error or panicked.
    pub failed: u64,
    /// Tasks that did not run: cancelled tasks, and tasks that read the result of a task that did
    /// not succeed.
    pub skipped: u64,
    /// Regions that were submitted ([`Tasks::region`](super::Tasks::region)).
    pub regions: u64,
    /// Graphs that were made for regions.
    pub graphs: u64,
    /// Regions that launched an existing graph.
    pub replays: u64,
    /// Operations of existing graphs that were changed before a launch of the graph.
    pub patched: u64,
    /// Runs of workers that were started.
    pub runs: u64,
    /// Streams that were created.
    pub streams: usize,
    /// Copies between devices that the library inserted.
    pub transfers: u64,
    /// The total bytes of the copies between devices that the library inserted.
    pub transferred: Bytes,
}

/// Tasks that no other task holds back any more.
pub(super) type Unblocked = SmallVec<[Number; 8]>;

/// The state of tasks.
pub(super) struct State {
    /// The number of the first task that is remembered. This is the first task of `tasks`.
    pub(super) first: Number,
    pub(super) tasks: VecDeque<TaskState>,
    pub(super) data: Vec<Datum>,
    pub(super) unused: Vec<u32>,
    /// Tasks for streams that may be issued: first the urgent tasks, then the other tasks, each
    /// group in the order of submission.
    pub(super) ready: BinaryHeap<(bool, Reverse<Number>)>,
    /// Tasks for the host that may run.
    pub(super) ready_on_host: VecDeque<Number>,
    /// Regions that are not issued yet.
    pub(super) regions: Regions,
    /// The number of tasks for streams that are not issued.
    pub(super) unissued: usize,
    /// The number of tasks that are not over.
    pub(super) unfinished: usize,
    /// The number of threads of the program that wait for tasks. While a thread waits, no task is
    /// held back.
    pub(super) waiting: usize,
    /// Tasks up to this number are not held back, even if no thread waits.
    pub(super) due: Number,
    /// Whether a thread is issuing tasks.
    pub(super) is_issuing: bool,
    /// Whether a thread of the library was woken or started to issue tasks, and has not begun yet.
    pub(super) is_issuer_called: bool,
    pub(super) lanes: Lanes,
    /// The tasks without a result, each with the failure that caused this.
    pub(super) failures: BTreeMap<Number, Arc<Failure>>,
    /// The first failure that no call has returned yet.
    pub(super) unreported: Option<Arc<Failure>>,
    /// Values that are no longer needed. They may own values of the program or handles of data, so
    /// they are dropped after the lock is released.
    pub(super) discarded: Vec<Box<dyn Send>>,
    pub(super) threads: usize,
    pub(super) idle_threads: usize,
    /// Whether no handle is left that could submit a task.
    pub(super) is_closing: bool,
    pub(super) counts: TaskCounts,
    /// Runs of workers whose ends are not known, in the order of their issue.
    pub(super) runs: Vec<Running>,
}

/// A datum that may have copies on several devices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replicated {
    pub(super) bytes: u64,
    /// The number of the device of the buffer itself.
    pub(super) home: usize,
    /// The number of devices of the tasks.
    pub(super) places: usize,
}

impl State {
    pub(super) fn new(lanes: Lanes) -> Self {
        Self {
            first: 1,
            tasks: VecDeque::new(),
            data: Vec::new(),
            unused: Vec::new(),
            ready: BinaryHeap::new(),
            ready_on_host: VecDeque::new(),
            regions: Regions::default(),
            unissued: 0,
            unfinished: 0,
            waiting: 0,
            due: 0,
            is_issuing: false,
            is_issuer_called: false,
            lanes,
            failures: BTreeMap::new(),
            unreported: None,
            discarded: Vec::new(),
            threads: 0,
            idle_threads: 0,
            is_closing: false,
            counts: TaskCounts::default(),
            runs: Vec::new(),
        }
    }

    /// The number of tasks that are not over.
    pub(super) fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// The number of the task that was submitted last; 0 if no task was submitted.
    pub(super) fn last(&self) -> Number {
        self.first + self.tasks.len() as u64 - 1
    }

    /// Whether a task is over. A forgotten task is over.
    pub(super) fn is_over(&self, number: Number) -> bool {
        self.task(number).is_none_or(|task| task.progress == TaskProgress::Over)
    }

    pub(super) fn task(&self, number: Number) -> Option<&TaskState> {
        self.tasks.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    pub(super) fn task_mut(&mut self, number: Number) -> Option<&mut TaskState> {
        self.tasks.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// All tasks that are remembered.
    pub(super) fn tasks(&self) -> impl Iterator<Item = (Number, &TaskState)> {
        (self.first..).zip(&self.tasks)
    }

    /// Adds a datum, and returns its number. `replicated` is `None` if the datum cannot have copies
    /// on other devices.
    pub(super) fn add_datum(
        &mut self,
        given_name: Option<Arc<str>>,
        replicated: Option<Replicated>,
    ) -> u32 {
        let number = self.add_history();
        self.data[number as usize].given_name = given_name;
        self.data[number as usize].replicas =
            replicated.map(|one| Box::new(Replicas::new(number, one.bytes, one.home, one.places)));
        number
    }

    /// Keeps a value, so that it is dropped after the lock is released.
    pub(super) fn discard<T: Send + 'static>(&mut self, value: Option<T>) {
        self.discarded.extend(value.map(|value| Box::new(value) as Box<dyn Send>));
    }

    /// Puts the function back into a task, because the function did not run.
    pub(super) fn put_back(&mut self, number: Number, body: TaskBody) {
        if let Some(task) = self.task_mut(number) {
            task.body = Some(body);
        }
    }

    /// Adds an empty history for a datum, or for the copy of a datum on a device. Returns the
    /// number of the history.
    pub(super) fn add_history(&mut self) -> u32 {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.data.push(Datum::default());
            u32::try_from(self.data.len() - 1).expect("fewer than 2^32 data")
        });
        self.data[number as usize] = Datum::default();
        number
    }

    /// Notes that the last handle of a datum is gone. The datum stays until all tasks that use it
    /// are over.
    pub(super) fn forget_datum(&mut self, number: u32) {
        let datum = &mut self.data[number as usize];
        datum.is_forgotten = true;
        if datum.pending == 0 {
            self.retire(number);
        }
    }

    /// Frees the numbers of a datum and of its copies. No unfinished task uses the datum, and the
    /// datum has no handle.
    fn retire(&mut self, number: u32) {
        self.unused.push(number);
        if let Some(replicas) = self.data[number as usize].replicas.take() {
            self.unused.extend(replicas.others());
        }
    }

    pub(super) fn datum_name(&self, number: u32) -> DatumName {
        DatumName { number, given: self.data[number as usize].given_name.clone() }
    }

    /// The number of tasks that use a datum and are not over.
    pub(super) fn pending(&self, datum: u32) -> u32 {
        self.data[datum as usize].pending
    }

    /// Marks a datum as taken, if all of its bytes have values.
    ///
    /// # Errors
    /// The error of a task without a result that should have written bytes of the datum.
    pub(super) fn take_datum(&mut self, number: u32, op: &'static str) -> Result<()> {
        self.demand_there(number, op)?;
        let writers = self.data[number as usize].history.writers(0..u64::MAX);
        let failure = { writers }.filter_map(|writer| self.failures.get(&writer)).next();
        if let Some(failure) = failure {
            return Err(
                self.explained(failure, format_args!("{} has no value", self.datum_name(number)))
            );
        }
        self.data[number as usize].is_taken = true;
        Ok(())
    }

    fn demand_there(&self, number: u32, op: &'static str) -> Result<()> {
        if self.data[number as usize].is_taken {
            let cause = format!("{} was taken before", self.datum_name(number));
            return Err(Error::new(ErrorKind::InvalidValue, op, cause));
        }
        Ok(())
    }

    /// Refuses a task whose data were taken.
    pub(super) fn demand_data(&self, new: &New, declared: &AllDeclared) -> Result<()> {
        let mut all = declared.all().iter().chain(new.bound());
        all.try_for_each(|one| self.demand_there(one.number, "task"))
    }

    /// Adds a task after the check of its data (`demand_data`).
    pub(super) fn add(&mut self, new: New, declared: &AllDeclared, region: Option<u64>) -> Number {
        // A run of workers uses the memory of all data that its program is bound to. So none of
        // these data can be taken before the run is issued.
        let bound = new.bound();
        let held = |one: &DeclaredUse| Use {
            number: one.number,
            datum: one.number,
            range: 0..0,
            mode: Mode::Read,
            reduces: false,
        };
        let held: SmallVec<[Use; 3]> = bound.iter().map(held).collect();
        let uses = declared.all().iter().map(|one| self.use_on(new.place, one));
        let uses: SmallVec<[Use; 3]> = uses.chain(held).collect();
        self.counts.submitted += 1;
        // The region may have been removed, because a region ends early when a thread waits for
        // tasks.
        let region = region.filter(|region| self.regions.all.contains_key(region));
        if let Some(region) = region {
            self.note_member(region, &new, declared.all());
        }
        self.add_task(new, &uses, false, region)
    }

    /// Adds a task with these uses.
    pub(super) fn add_task(
        &mut self,
        new: New,
        uses: &[Use],
        is_transfer: bool,
        region: Option<u64>,
    ) -> Number {
        let number = self.last() + 1;
        let mut edges: SmallVec<[TaskEdge; 3]> = SmallVec::new();
        let Self { data, tasks, first, .. } = self;
        let is_over = |number: Number| {
            let at = number.checked_sub(*first).and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| tasks.get(at)).is_none_or(|one| one.progress == TaskProgress::Over)
        };
        for one in uses {
            data[one.datum as usize].pending += 1;
            let Use { datum, mode, reduces, .. } = *one;
            let used = HistoryUse { task: number, datum, mode, reduces };
            let history = &mut data[one.number as usize].history;
            history.add(used, &one.range, is_over, |edge| edges.push(edge));
        }
        let (mut blockers, mut failure) = (SmallVec::<[Number; 8]>::new(), None);
        for edge in &edges {
            let reads = edge.hazard.reads();
            if reads && failure.is_none() {
                failure = self.failures.get(&edge.from).cloned();
            }
            let Some(from) = self.task_mut(edge.from) else { continue };
            if from.progress == TaskProgress::Over {
                continue;
            }
            match from.successors.iter_mut().find(|(to, _)| *to == number) {
                Some((_, is_read)) => *is_read |= reads,
                None => {
                    from.successors.push((number, reads));
                    blockers.push(edge.from);
                }
            }
        }
        let New { name, site, is_urgent, place, group, body } = new;
        let is_host = matches!(body, TaskBody::Host(_));
        self.tasks.push_back(TaskState {
            name,
            site,
            progress: TaskProgress::Blocked,
            is_host,
            is_urgent,
            is_transfer,
            serves: (place, group),
            is_cancelled: false,
            body: Some(body),
            region,
            blockers: u32::try_from(blockers.len()).unwrap_or(u32::MAX),
            successors: SmallVec::new(),
            edges,
            lane: None,
            end: None,
            failure,
            data: uses.iter().map(|one| one.datum).collect(),
        });
        self.unfinished += 1;
        self.unissued += usize::from(!is_host);
        match region {
            Some(region) => self.join_region(region, number, &blockers),
            None if blockers.is_empty() => self.unblock(number),
            None => {}
        }
        self.forget_old();
        number
    }

    /// Forgets the oldest tasks while more than [`REMEMBERED`] tasks are stored, up to the first
    /// task that is not over.
    fn forget_old(&mut self) {
        while self.tasks.len() > REMEMBERED
            && self.tasks.front().is_some_and(|one| one.progress == TaskProgress::Over)
        {
            self.tasks.pop_front();
            self.first += 1;
        }
    }

    /// Makes a task ready to be issued, because no other task holds it back any more.
    pub(super) fn unblock(&mut self, number: Number) {
        let mut unblocked = Unblocked::from_elem(number, 1);
        while let Some(number) = unblocked.pop() {
            let Some(task) = self.task_mut(number) else { continue };
            if task.failure.is_some() || task.is_cancelled {
                let failure = task.failure.clone();
                let failure = failure.unwrap_or_else(|| cancelled(number, task));
                self.end(number, Some(failure), &mut unblocked);
                continue;
            }
            task.progress = TaskProgress::Ready;
            let (is_host, is_urgent) = (task.is_host, task.is_urgent);
            if is_host {
                self.ready_on_host.push_back(number);
            } else {
                self.ready.push((is_urgent, Reverse(number)));
            }
        }
    }

    /// Ends a task, and adds to `unblocked` the tasks that only this task held back.
    fn end(&mut self, number: Number, failure: Option<Arc<Failure>>, unblocked: &mut Unblocked) {
        let Some(task) = self.task_mut(number) else { return };
        task.progress = TaskProgress::Over;
        task.failure.clone_from(&failure);
        let (body, is_host, is_transfer) = (task.body.take(), task.is_host, task.is_transfer);
        let data = std::mem::take(&mut task.data);
        let successors = std::mem::take(&mut task.successors);
        let region = task.region;
        // If the task still has its body, its function has not run.
        let did_run = body.is_none();
        self.discard(body);
        self.unfinished -= 1;
        self.unissued -= usize::from(!is_host);
        match &failure {
            None => self.counts.succeeded += u64::from(!is_transfer),
            Some(failure) => {
                let count =
                    if did_run { &mut self.counts.failed } else { &mut self.counts.skipped };
                *count += u64::from(!is_transfer);
                self.unreported.get_or_insert_with(|| Arc::clone(failure));
                self.failures.insert(number, Arc::clone(failure));
            }
        }
        for datum in data {
            let at = &mut self.data[datum as usize];
            at.pending -= 1;
            if at.pending == 0 && at.is_forgotten {
                self.retire(datum);
            }
        }
        for (later, reads) in successors {
            let Some(task) = self.task_mut(later) else { continue };
            task.blockers -= 1;
            if let (true, None, Some(failure)) = (reads, &task.failure, &failure) {
                task.failure = Some(Arc::clone(failure));
            }
            match task.region {
                Some(held) if region != Some(held) => self.unblock_region(held),
                Some(_) => {}
                None if task.blockers == 0 && task.progress == TaskProgress::Blocked => {
                    unblocked.push(later);
                }
                None => {}
            }
        }
    }

    /// Ends a task whose function has returned. `at` is the number of the stream of the task, and
    /// the position of the last operation of the stream. `None` for a task on the host.
    pub(super) fn returned(
        &mut self,
        number: Number,
        outcome: Result<()>,
        at: Option<(usize, Option<Position>)>,
    ) {
        let end = at.and_then(|(lane, end)| self.lanes.issued(lane, number, end));
        self.returned_in_graph(number, outcome, end);
    }

    /// Ends a task whose function has returned. `end` is the position of the last operation of the
    /// task; `None` if the task enqueued nothing.
    pub(super) fn returned_in_graph(
        &mut self,
        number: Number,
        outcome: Result<()>,
        end: Option<Position>,
    ) {
        if let Some(task) = self.task_mut(number) {
            task.end = end;
        }
        let failure = outcome.err().map(|error| {
            let name = self.task(number).map_or(Name::Borrowed(""), |one| one.name.clone());
            Arc::new(Failure { culprit: number, name, error })
        });
        // The function of a task of a graph may not have run, because another task failed.
        let failure = failure.or_else(|| self.task(number)?.failure.clone());
        let mut unblocked = Unblocked::new();
        self.end(number, failure, &mut unblocked);
        for number in unblocked {
            self.unblock(number);
        }
    }

    /// The number of tasks on the host that are ready and that no thread has taken.
    pub(super) fn ready_on_host(&self) -> usize {
        self.ready_on_host.len()
    }

    /// Cancels a task whose function has not started. Returns whether the task is cancelled.
    pub(super) fn cancel(&mut self, number: Number) -> bool {
        let Some(task) = self.task_mut(number) else { return false };
        match task.progress {
            TaskProgress::Blocked => task.is_cancelled = true,
            TaskProgress::Ready => {
                task.is_cancelled = true;
                self.unblock(number);
            }
            TaskProgress::Running | TaskProgress::Over => return task.is_cancelled,
        }
        true
    }

    /// The failure with which a task ended; `None` if the task has a result or is not over.
    pub(super) fn failure(&self, number: Number) -> Option<&Arc<Failure>> {
        self.failures.get(&number)
    }

    pub(super) fn take_unreported(&mut self) -> Option<Error> {
        let failure = self.unreported.take()?;
        let skipped = self.failures.values().filter(|other| other.culprit == failure.culprit);
        let others = skipped.count() - 1;
        let what = match others {
            0 => String::from("no task depends on the failed task"),
            1 => String::from("1 task that needs the failed task did not run"),
            _ => format!("{others} tasks that need the failed task did not run"),
        };
        Some(self.explained(&failure, format_args!("{what}")))
    }

    /// The error of a failure, with the name of the task that failed.
    pub(super) fn explained(&self, failure: &Failure, what: std::fmt::Arguments<'_>) -> Error {
        let Failure { culprit, name, error } = failure;
        let site = |task: &TaskState| format!(", submitted at {}", task.site);
        let site = self.task(*culprit).map_or(String::new(), site);
        error.again().context(format!("{what}; task `{name}` (number {culprit}{site})"))
    }
}

fn cancelled(number: Number, task: &TaskState) -> Arc<Failure> {
    let error = Error::new(ErrorKind::Cancelled, "task", "it was cancelled before it was issued");
    Arc::new(Failure { culprit: number, name: task.name.clone(), error })
}
