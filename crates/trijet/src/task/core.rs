//! Tasks on one or more devices: submission, issue, and waits.
//!
//! Any thread may submit tasks. One thread at a time issues tasks: the thread runs the functions of
//! the tasks, which enqueue work. So the operations of two tasks that conflict are enqueued in the
//! order of the tasks, and the library orders these operations like all others. No function runs
//! under a lock.
#![forbid(unsafe_code)]

use super::declared::{AllDeclared, AnyDatum, DatumName, StreamBody};
use super::inside;
use super::issue::{Issued, TaskIssue};
use super::lanes::{Group, Lanes};
use super::region::{RegionIssue, RunIssue, Running};
use super::state::{Replicated, State};
use super::task_state::{Failure, New, Number, TaskBody, WrongRead};
use super::template::{RegionOutcome, Templates};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::panic::caught;
use crate::graph::Renewed;
use crate::log::{calling, task_name};
use crate::order::domain::Domain;
use crate::stream::{Device, Stream};
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{Builder, available_parallelism};

/// Submission waits while at least this many tasks are not over.
const UNFINISHED_MAX: usize = 4096;
/// Maximum number of threads that run tasks on the host.
const THREADS_MAX: usize = 16;

thread_local! {
    /// The id of the [`Core`] to which the calling thread submits a region, and the number of the
    /// region. Both are 0 if the thread submits no region.
    static REGION: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Tasks on one or more devices.
pub(super) struct Core {
    /// An id that no other [`Core`] of the process has.
    pub(super) id: u64,
    /// The devices, at least one. The number of a device is its index in this list.
    pub(super) devices: Arc<[Device]>,
    look_ahead: usize,
    /// Bytes that tasks wrote although they had declared to read them; `None` if reads are not
    /// checked.
    pub(super) wrong_reads: Option<Arc<Mutex<Vec<WrongRead>>>>,
    state: Mutex<State>,
    /// The graphs of regions. Only the thread that issues tasks uses them.
    templates: Mutex<Templates>,
    /// Held by the thread that waits or looks for the ends of runs of workers.
    pub(super) ending: Mutex<()>,
    /// Notified when a task is over.
    news: Condvar,
    /// Notified when there is work for a thread of the host.
    work: Condvar,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("devices", &self.devices).finish_non_exhaustive()
    }
}

impl Core {
    pub(super) fn new(
        devices: Arc<[Device]>,
        lanes: Lanes,
        look_ahead: usize,
        checks_reads: bool,
    ) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            devices,
            look_ahead,
            wrong_reads: checks_reads.then(Arc::default),
            state: Mutex::new(State::new(lanes)),
            templates: Mutex::default(),
            ending: Mutex::default(),
            news: Condvar::new(),
            work: Condvar::new(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no function of a task runs under this lock")
    }

    /// Whether the calling thread runs the function of a task of this [`Core`].
    fn is_inside(&self) -> bool {
        inside::is_inside(self.id)
    }

    /// Runs the function of a task.
    fn run<R>(&self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        let region = REGION.replace((0, 0));
        // The cause of an error may be a value of the program. The text replaces the cause here,
        // because values of the program must not be dropped under the lock.
        let body = || body().map_err(|error| error.again());
        let outcome = inside::within(self.id, || caught(body));
        REGION.set(region);
        outcome.unwrap_or_else(|words| {
            Err(Error::new(ErrorKind::Panicked, "task", format!("it panicked: {words}")))
        })
    }

    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.devices[0].shared().domain
    }

    /// Adds a datum of `bytes` bytes on the device `home`. `home` is `None` for host memory.
    pub(super) fn add_datum(
        &self,
        given: Option<Arc<str>>,
        bytes: u64,
        home: Option<usize>,
    ) -> DatumName {
        let places = self.devices.len();
        let replicated = home.filter(|_| places > 1).map(|home| Replicated { bytes, home, places });
        let number = self.lock().add_datum(given.clone(), replicated);
        DatumName { number, given }
    }

    /// A stream on a device, for allocations.
    pub(super) fn any_stream(&self, place: usize) -> Result<Arc<Stream>> {
        let mut state = self.lock();
        let serves = (place, Group::Work { is_urgent: false });
        let lane = state.lanes.choose(std::iter::empty(), serves)?;
        Ok(Arc::clone(state.lanes.stream(lane)))
    }

    /// The lock for a destructor. `None` after a panic under the lock, and in a child of `fork`,
    /// where the thread that holds the lock may not exist.
    pub(super) fn lock_for_drop(&self) -> Option<MutexGuard<'_, State>> {
        if calling::forked() { None } else { self.state.lock().ok() }
    }

    pub(super) fn forget_datum(&self, number: u32) {
        if let Some(mut state) = self.lock_for_drop() {
            state.forget_datum(number);
        }
    }

    /// Adds a task with checked uses. Then issues the tasks that may be issued.
    pub(super) fn submit(self: &Arc<Self>, new: New, declared: &AllDeclared) -> Result<Number> {
        let mut state = self.lock();
        if state.unfinished() >= UNFINISHED_MAX && !self.is_inside() {
            state = self.wait_until(state, |state| state.unfinished() < UNFINISHED_MAX);
        }
        if let Err(error) = state.demand_data(&new, declared) {
            // The function is dropped after the lock is released: values of the program in the
            // function may use the tasks.
            drop(state);
            return Err(error);
        }
        let number = state.add(new, declared, self.region());
        drop(self.advance(state));
        Ok(number)
    }

    /// The number of the device of a task: the device that the program names. Otherwise the device
    /// of the first data in device memory that the task writes. If there are no such data, the
    /// device of the first data in device memory that the task reads. Otherwise 0.
    ///
    /// # Errors
    /// `InvalidValue` for a device that the tasks do not have.
    pub(super) fn place(&self, named: Option<usize>, declared: &AllDeclared) -> Result<usize> {
        let count = self.devices.len();
        match named {
            Some(place) if place < count => Ok(place),
            Some(place) => {
                let cause =
                    format!("there is no device {place}: the tasks have {count}, numbered from 0");
                Err(Error::new(ErrorKind::InvalidValue, "task", cause))
            }
            None if count == 1 => Ok(0),
            None => {
                let all = || declared.all().iter().filter(|one| one.home.is_some());
                let chosen = all().find(|one| one.mode.writes()).or_else(|| all().next());
                Ok(chosen.and_then(|one| one.home).unwrap_or(0))
            }
        }
    }

    /// Refuses uses of data of another [`Core`], and conflicting uses within one task.
    pub(super) fn demand_fit(&self, declared: &AllDeclared) -> Result<()> {
        let declared = declared.all();
        let wrong = |cause| Err(Error::new(ErrorKind::InvalidValue, "task", cause));
        for (at, one) in declared.iter().enumerate() {
            if one.core != self.id {
                return wrong(format!("{} belongs to another `Tasks`", one.name));
            }
            let conflict = declared[..at].iter().find(|other| {
                other.number == one.number
                    && other.range.start.max(one.range.start) < other.range.end.min(one.range.end)
                    && (other.mode.writes() || one.mode.writes())
            });
            if conflict.is_some() {
                let cause = format!(
                    "the task uses bytes of {} twice, at least once to write: declare one `update`",
                    one.name
                );
                return wrong(cause);
            }
        }
        Ok(())
    }

    /// Issues the tasks that may be issued, and wakes threads for tasks on the host. Releases the
    /// lock while it calls functions of tasks.
    fn advance<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let is_left = !state.is_issuing && state.may_issue(self.look_ahead);
        if is_left && !calling::is_free() {
            // Functions may not run now: this thread runs a host function or recorded code.
            self.call_issuer(&mut state);
        } else if is_left {
            state.is_issuing = true;
            while let Some(issue) = state.next(self.look_ahead, self.domain()) {
                drop(state);
                state = match issue {
                    Issued::Task(TaskIssue { number, lane, stream, name, body }) => {
                        let outcome = task_name::within(name, || self.run(|| body(&stream)));
                        let end = stream.lane().position();
                        let mut state = self.lock();
                        state.returned(number, outcome, Some((lane, end)));
                        state
                    }
                    Issued::Region(region) => self.launch(region),
                    Issued::Run(run) => self.start_run(run),
                };
                if state.waiting > 0 {
                    self.news.notify_all();
                }
            }
            state.is_issuing = false;
        }
        if state.ready_on_host() > 0 {
            state = self.call_threads(state);
        }
        let discarded = std::mem::take(&mut state.discarded);
        if !discarded.is_empty() {
            drop(state);
            // The drop of a function drops handles of data, which locks the state. It also drops
            // values of the program. Their drops may panic, and must not wait for tasks.
            for value in discarded {
                drop(self.run(|| {
                    drop(value);
                    Ok(())
                }));
            }
            state = self.lock();
        }
        state
    }

    /// Launches a region as a graph, and notes that the tasks of the region are over.
    fn launch(&self, region: RegionIssue) -> MutexGuard<'_, State> {
        let RegionIssue { lane, place, .. } = region;
        let stream = Arc::clone(&region.stream);
        let numbers: Vec<Number> = region.members.iter().map(|member| member.number).collect();
        let run = |body: StreamBody, stream: &Stream| self.run(|| body(stream));
        // No lock may be held while functions run. Only one thread at a time issues tasks, so no
        // other thread needs the graphs meanwhile.
        let kept = || self.templates.lock().expect("no thread panicked while it held this lock");
        let mut templates = std::mem::take(&mut *kept());
        let (outcomes, launched) = templates.launch(&self.devices[place], region, &run);
        *kept() = templates;
        let end = stream.lane().position();
        let mut state = self.lock();
        match launched {
            Ok(Renewed::Anew) => state.counts.graphs += 1,
            Ok(Renewed::Patched(patched)) => {
                state.counts.replays += 1;
                state.counts.patched += patched as u64;
            }
            Err(_) => {}
        }
        let end = state.lanes.issued(lane, numbers.last().copied().unwrap_or(0), end);
        for (number, outcome) in numbers.into_iter().zip(outcomes) {
            let outcome = match outcome {
                RegionOutcome::Returned(outcome) => {
                    outcome.and_then(|()| launched.as_ref().map(drop).map_err(Error::again))
                }
                RegionOutcome::Skipped(body, why) => {
                    state.put_back(number, TaskBody::Stream(body));
                    why
                }
            };
            state.returned_in_graph(number, outcome, end);
        }
        state
    }

    /// Starts a run of workers, and notes that the tasks of the run are over.
    fn start_run(&self, issue: RunIssue) -> MutexGuard<'_, State> {
        let (lane, stream) = (issue.lane, Arc::clone(&issue.stream));
        let members: Vec<Number> = issue.members.iter().map(|(number, _)| *number).collect();
        // The last handles of the program and of its data may be in `issue`. `issue` is dropped
        // before this function locks the state.
        let started = self.run(move || issue.start());
        let end = stream.lane().position();
        self.look_at_runs();
        let mut state = self.lock();
        let last = members.last().copied().unwrap_or(0);
        let end = state.lanes.issued(lane, last, end);
        for number in &members {
            let outcome = started.as_ref().map(drop).map_err(Error::again);
            state.returned_in_graph(*number, outcome, end);
        }
        if let Ok(run) = started {
            state.counts.runs += 1;
            state.runs.push(Running { run, members });
        }
        state
    }

    /// Runs `submit`, and makes a region of the tasks that `submit` submits on this thread.
    pub(super) fn in_region<R>(self: &Arc<Self>, submit: impl FnOnce() -> Result<R>) -> Result<R> {
        /// Closes the region even after a panic.
        struct Closing<'a> {
            core: &'a Arc<Core>,
            region: u64,
            before: (u64, u64),
        }
        impl Drop for Closing<'_> {
            fn drop(&mut self) {
                REGION.set(self.before);
                let Some(mut state) = self.core.lock_for_drop() else { return };
                state.close_region(self.region, self.core.wrong_reads.is_some());
                drop(self.core.advance(state));
            }
        }
        if self.region().is_some() {
            return submit();
        }
        let region = self.lock().open_region();
        let before = REGION.replace((self.id, region));
        let _closing = Closing { core: self, region, before };
        submit()
    }

    /// The number of the region of these tasks that the calling thread submits now, if any.
    fn region(&self) -> Option<u64> {
        let (core, region) = REGION.get();
        (core == self.id).then_some(region)
    }

    /// An empty list of declared uses, for a task that the calling thread describes.
    pub(super) fn declared(&self) -> AllDeclared {
        AllDeclared::new(self.region().is_some())
    }

    /// Issues all tasks, and waits until `is_met` returns true.
    fn wait_until<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        is_met: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        state.waiting += 1;
        state.end_open();
        loop {
            state = self.advance(state);
            if is_met(&state) {
                break;
            }
            state = self.news.wait(state).expect("no function of a task runs under this lock");
        }
        state.waiting -= 1;
        state
    }

    /// Wakes a thread for each task that may run on the host. Starts threads if there are too few.
    fn call_threads<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let ready = state.ready_on_host();
        // One of the idle threads may have been woken to issue tasks, so it does not count.
        let idle =
            state.idle_threads - usize::from(state.is_issuer_called && state.idle_threads > 0);
        (0..ready.min(idle)).for_each(|_| self.work.notify_one());
        let most = available_parallelism().map_or(1, usize::from).clamp(2, THREADS_MAX);
        for _ in idle..ready {
            if state.threads < most && !self.start_thread(&mut state) {
                break;
            }
        }
        if state.threads == 0 {
            // No thread can be started, so the calling thread runs the task.
            return self.work_once(state);
        }
        state
    }

    /// Starts a thread for work on the host. Returns whether the thread was started.
    fn start_thread(self: &Arc<Self>, state: &mut State) -> bool {
        let core = Arc::clone(self);
        let thread = Builder::new().name("trijet-task".to_owned()).spawn(move || core.serve());
        state.threads += usize::from(thread.is_ok());
        thread.is_ok()
    }

    /// Runs one task on the host, if one is ready.
    fn work_once<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let Some((number, body)) = state.next_on_host() else { return state };
        drop(state);
        let outcome = self.run(body);
        state = self.lock();
        state.returned(number, outcome, None);
        self.news.notify_all();
        self.advance(state)
    }

    /// The loop of a thread of the library: runs tasks on the host, and issues tasks if no other
    /// thread does.
    fn serve(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            state.is_issuer_called = false;
            if !state.is_issuing && state.may_issue(self.look_ahead) {
                state = self.advance(state);
            }
            if state.ready_on_host() > 0 {
                state = self.work_once(state);
                continue;
            }
            if state.is_closing {
                state = self.advance(state);
                if state.unfinished() == 0 {
                    break;
                }
                if state.ready_on_host() > 0 {
                    continue;
                }
            }
            state.idle_threads += 1;
            state = self.work.wait(state).expect("no function of a task runs under this lock");
            state.idle_threads -= 1;
        }
        state.threads -= 1;
        drop(state);
        // The last task is over, so the other threads may end too.
        self.work.notify_all();
    }

    /// Called when a handle is dropped. Functions of held-back tasks may own all other handles.
    /// Then no thread is left that waits for tasks. So a thread of the library issues all tasks
    /// that were submitted.
    pub(super) fn let_go(self: &Arc<Self>) {
        let Some(mut state) = self.lock_for_drop() else { return };
        state.due = state.last();
        if !state.is_issuing && state.may_issue(self.look_ahead) && !self.call_issuer(&mut state) {
            // No thread can be started. If functions may not run now, a later call issues tasks.
            if calling::is_free() {
                drop(self.advance(state));
            }
        }
    }

    /// Called when no handle is left that could submit a task. Threads run the remaining tasks.
    pub(super) fn close(self: &Arc<Self>) {
        let Some(mut state) = self.lock_for_drop() else { return };
        state.is_closing = true;
        drop(state);
        self.work.notify_all();
    }

    /// Wakes or starts a thread of the library that issues tasks. Returns false if that fails.
    fn call_issuer(self: &Arc<Self>, state: &mut State) -> bool {
        if state.is_issuer_called {
            return true;
        }
        // A thread that is not idle may run a function that does not end soon.
        state.is_issuer_called = state.idle_threads > 0 || self.start_thread(state);
        self.work.notify_one();
        state.is_issuer_called
    }

    /// Refuses a wait inside the function of a task, because the task would wait for itself.
    pub(super) fn demand_outside(&self, op: &'static str) -> Result<()> {
        if self.is_inside() {
            let cause = "the function of a task would wait for its own task; wait outside of it";
            return Err(Error::new(ErrorKind::InvalidValue, op, cause));
        }
        Ok(())
    }

    /// Issues all tasks, and waits until `is_met` returns true.
    pub(super) fn wait_for(
        self: &Arc<Self>,
        is_met: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        self.wait_until(self.lock(), is_met)
    }

    /// Waits until all current values of a datum are on its device and no task uses the datum.
    pub(super) fn wait_home(
        self: &Arc<Self>,
        datum: u32,
        copies: &Arc<dyn AnyDatum>,
    ) -> MutexGuard<'_, State> {
        loop {
            let mut state = self.lock();
            let is_home = state.bring_home(datum, copies);
            // A copy of bytes without values is over at once, and its function is discarded.
            if is_home && state.discarded.is_empty() {
                return state;
            }
            drop(self.wait_until(state, |state| state.pending(datum) == 0));
        }
    }

    /// Waits until the task is over and its work is complete.
    pub(super) fn wait(
        self: &Arc<Self>,
        number: Number,
        site: &'static Location<'static>,
    ) -> Result<()> {
        self.demand_outside("task wait")?;
        drop(self.wait_for(|state| state.is_over(number)));
        self.end_runs(Some(number));
        let state = self.lock();
        if let Some(failure) = state.failure(number) {
            return Err(self.error_of(&state, number, failure));
        }
        let end = state.task(number).and_then(|task| task.end);
        drop(state);
        let Some(end) = end else { return Ok(()) };
        let domain = self.domain();
        let mark = domain.host_mark(end)?;
        domain.host_wait(&mark, site)
    }

    fn error_of(&self, state: &State, number: Number, failure: &Failure) -> Error {
        if failure.culprit == number {
            return state.explained(failure, format_args!("the task failed"));
        }
        state.explained(
            failure,
            format_args!("task {number} did not run, because another task failed"),
        )
    }

    /// Cancels a task that was not issued.
    pub(super) fn cancel(self: &Arc<Self>, number: Number) -> bool {
        let mut state = self.lock();
        let is_cancelled = state.cancel(number);
        drop(self.advance(state));
        self.news.notify_all();
        is_cancelled
    }

    /// Returns an error if a task wrote bytes that it had declared to read. Then forgets all bytes
    /// of this kind, so that the next call does not report them again.
    fn demand_right_reads(&self) -> Result<()> {
        let Some(wrong) = &self.wrong_reads else { return Ok(()) };
        let mut wrong = wrong.lock().expect("no thread panicked while it held this lock");
        let found = std::mem::take(&mut *wrong);
        let Some(WrongRead { site, datum, bytes: Range { start, end } }) = found.first() else {
            return Ok(());
        };
        let cause = format!(
            "the task that was submitted at {site} wrote bytes {start} to {end} of {datum}, which it declared to \
             read; declare an `update`, or look at what its kernels write"
        );
        Err(Error::new(ErrorKind::InvalidValue, "tasks finish", cause))
    }

    /// Waits until all tasks are over and their work is complete.
    pub(super) fn finish(self: &Arc<Self>) -> Result<()> {
        self.demand_outside("tasks finish")?;
        drop(self.wait_for(|state| state.unfinished() == 0));
        let are_well = self.end_runs(None);
        let mut state = self.lock();
        let failed = state.take_unreported();
        let streams = state.lanes.streams();
        drop(state);
        // Workers of a failed run may still be in their kernel. In this case, a wait for the
        // streams would not end.
        if let (false, Some(error)) = (are_well, &failed) {
            return Err(error.again());
        }
        let mut outcome = Ok(());
        for stream in streams {
            outcome = outcome.and(stream.complete());
        }
        // Of several errors, each call returns one, in their order.
        failed.map_or(outcome, Err)?;
        self.domain().host_fns.take_panic()?;
        self.demand_right_reads()
    }
}
