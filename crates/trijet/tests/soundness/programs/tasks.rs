//! Steps of tasks: two sets, tasks that submit tasks, regions, reductions, failures.

use super::luck::{Checked, Luck, caught, finish, is_of_host_function, must};
use super::memory::{BLEND, Cell, Real, STIR, Slot, mix};
use super::step::{End, Form, Step, Task};
use super::world::World;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trijet::kernels::{Max, Min, Sum};
use trijet::memory::{OnDevice, PageLocked};
use trijet::task::{Data, Reads, Reduces, Task as Builder, TaskId, TaskUses, Tasks, Writes};
use trijet::{AsViewMut, ErrorKind, Result, Stream, View, ViewMut};

/// Uses of the forms of tasks.
enum Used {
    Write(Writes<u32>),
    Update(Writes<u32>),
    Copy(Reads<u32>, Writes<u32>, bool),
    Blend(Reads<u32>, Writes<u32>),
    Sum(Reads<u32>, Reduces<u32, Sum>),
    Min(Reads<u32>, Reduces<u32, Min>),
    Max(Reads<u32>, Reduces<u32, Max>),
    Host(Writes<u32, PageLocked>),
    Up(Reads<u32, PageLocked>, Writes<u32>),
    Down(Reads<u32>, Writes<u32, PageLocked>),
}

/// A task that can be submitted, with the tasks that it submits.
struct Job {
    tasks: Tasks,
    used: Used,
    task: Task,
    on: Option<usize>,
    nested: Vec<Self>,
    luck: Luck,
}

/// Further work of the function of a task.
struct Rest {
    end: End,
    nested: Vec<Job>,
    luck: Luck,
    _handle: Option<Tasks>,
}

impl Rest {
    fn run(self) -> Result<()> {
        for job in self.nested {
            if let Err(error) = submit(job) {
                self.luck.complain(format!("a task within a task: {error}"));
            }
        }
        finish(self.end)
    }
}

/// `y` becomes `x`, or a half of it does: the other half of a part of a reduction stays unchanged.
fn copy_into(s: &Stream, x: &View<'_, u32>, mut y: ViewMut<'_, u32>, whole: bool) -> Result<()> {
    let len = if whole { x.len() } else { x.len() / 2 };
    s.copy(&x.slice(..len), &mut y.as_view_mut().slice(..len))
}

fn submit(job: Job) -> Result<TaskId> {
    fn dressed<'t, U: TaskUses>(
        tasks: &'t Tasks,
        uses: U,
        (is_urgent, on): (bool, Option<usize>),
    ) -> Builder<'t, U> {
        let task = tasks.task(uses).named("drawn");
        let task = if is_urgent { task.urgent() } else { task };
        match on {
            Some(device) => task.on(device),
            None => task,
        }
    }
    let Job { tasks, used, task, on, nested, luck } = job;
    let handle = task.has_handle.then(|| tasks.clone());
    let rest = Rest { end: task.end, nested, luck, _handle: handle };
    let (salt, how) = (task.salt, (task.is_urgent, on));
    let whole = salt % 3 != 0;
    match used {
        Used::Write(y) => dressed(&tasks, y, how).run(move |s, mut y| {
            s.fill(&mut y, salt)?;
            rest.run()
        }),
        Used::Update(y) => dressed(&tasks, y, how).run(move |s, y| {
            s.launch(&STIR, (salt, y))?;
            rest.run()
        }),
        Used::Copy(x, y, through) => dressed(&tasks, (x, y), how).run(move |s, (x, mut y)| {
            if through {
                let mut between = s.alloc::<u32>(x.len())?;
                s.copy(&x, &mut between)?;
                s.copy(&between, &mut y)?;
            } else {
                s.copy(&x, &mut y)?;
            }
            rest.run()
        }),
        Used::Blend(x, y) => dressed(&tasks, (x, y), how).run(move |s, (x, y)| {
            s.launch(&BLEND, (salt, x, y))?;
            rest.run()
        }),
        Used::Sum(x, y) => dressed(&tasks, (x, y), how).run(move |s, (x, y)| {
            copy_into(s, &x, y, whole)?;
            rest.run()
        }),
        Used::Min(x, y) => dressed(&tasks, (x, y), how).run(move |s, (x, y)| {
            copy_into(s, &x, y, whole)?;
            rest.run()
        }),
        Used::Max(x, y) => dressed(&tasks, (x, y), how).run(move |s, (x, y)| {
            copy_into(s, &x, y, whole)?;
            rest.run()
        }),
        Used::Host(y) => dressed(&tasks, y, (how.0, None)).host(move |mut y| {
            y.iter_mut().for_each(|y| *y = mix(salt, 0, *y));
            rest.run()
        }),
        Used::Up(x, y) => tasks.copy(x, y),
        Used::Down(x, y) => tasks.copy(x, y),
    }
}

/// Elements of data that a task uses.
fn device_data(slot: &Slot) -> Option<&Data<u32, OnDevice>> {
    if let Real::Data(_, data) = &slot.real { Some(data) } else { None }
}

fn host_data(slot: &Slot) -> Option<&Data<u32, PageLocked>> {
    if let Real::HostData(_, data) = &slot.real { Some(data) } else { None }
}

/// The effect of a task on the values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Fill,
    Stir,
    Copy,
    Blend,
    Sum,
    Min,
    Max,
}

struct Planned {
    used: Used,
    effect: Effect,
    x: Range<usize>,
    y: Range<usize>,
}

/// The result of a task on an element.
fn element(effect: Effect, salt: u32, x: Cell, y: Cell) -> Cell {
    match effect {
        Effect::Fill => Some(salt),
        Effect::Stir => y.map(|y| mix(salt, 0, y)),
        Effect::Copy => x,
        Effect::Blend => x.zip(y).map(|(x, y)| mix(salt, x, y)),
        Effect::Sum => x.zip(y).map(|(x, y)| x.wrapping_add(y)),
        Effect::Min => x.zip(y).map(|(x, y)| x.min(y)),
        Effect::Max => x.zip(y).map(|(x, y)| x.max(y)),
    }
}

impl World {
    /// The uses of a task, if its data belong to its set.
    fn planned(&self, task: &Task) -> Option<Planned> {
        let is_one = matches!(task.form, Form::Fill | Form::Stir | Form::Host);
        let (from, to) = (&self.slots[task.from.0], &self.slots[task.to.0]);
        let is_usable = |slot: &Slot| slot.set() == Some(task.set) && !slot.reserved;
        if !is_usable(to) || (!is_one && !is_usable(from)) {
            return None;
        }
        let (mut x, mut y) = (task.from.1.of(from.cells.len()), task.to.1.of(to.cells.len()));
        if !is_one {
            let len = x.len().min(y.len());
            (x, y) = (x.start..x.start + len, y.start..y.start + len);
            let overlap = x.start < y.end && y.start < x.end;
            if task.from.0 == task.to.0 && overlap {
                return None;
            }
        }
        if y.is_empty() {
            return None;
        }
        let (source, target) = (device_data(from), device_data(to));
        let (a, b) = (x.clone(), y.clone());
        let (used, effect) = match task.form {
            Form::Fill => (Used::Write(target?.write_range(b)), Effect::Fill),
            Form::Stir => (Used::Update(target?.update_range(b)), Effect::Stir),
            Form::Host => (Used::Host(host_data(to)?.update_range(b)), Effect::Stir),
            Form::Between => match (source, target) {
                (Some(x), None) => {
                    (Used::Down(x.read_range(a), host_data(to)?.write_range(b)), Effect::Copy)
                }
                (_, y) => {
                    (Used::Up(host_data(from)?.read_range(a), y?.write_range(b)), Effect::Copy)
                }
            },
            _ => {
                let (x, y) = (source?.read_range(a), target?);
                match task.form {
                    Form::Blend => (Used::Blend(x, y.update_range(b)), Effect::Blend),
                    Form::Sum => (Used::Sum(x, y.reduce_range(b, Sum)), Effect::Sum),
                    Form::Min => (Used::Min(x, y.reduce_range(b, Min)), Effect::Min),
                    Form::Max => (Used::Max(x, y.reduce_range(b, Max)), Effect::Max),
                    form => {
                        let through = form == Form::Through;
                        (Used::Copy(x, y.write_range(b), through), Effect::Copy)
                    }
                }
            }
        };
        Some(Planned { used, effect, x, y })
    }

    /// The task with slots that its set has, if there are any.
    fn placed(&self, task: &Task) -> Task {
        let has = |slot: &Slot| slot.set() == Some(task.set) && !slot.reserved;
        let on_device = |slot: &Slot| has(slot) && matches!(slot.real, Real::Data(..));
        let on_host = |slot: &Slot| has(slot) && matches!(slot.real, Real::HostData(..));
        let mut placed = task.clone();
        let up = task.salt.is_multiple_of(2);
        let to = match task.form {
            Form::Host => self.first(task.to.0, on_host),
            Form::Between if up => self.first(task.to.0, on_device),
            Form::Between => self.first(task.to.0, on_host),
            _ => self.first(task.to.0, on_device),
        };
        let from = match task.form {
            Form::Between if up => self.first(task.from.0, on_host),
            // Now and then both are parts of the same data.
            _ if task.salt.is_multiple_of(7) => self.first(task.from.0, on_device),
            _ => to.and_then(|to| self.other(task.from.0, to, on_device)),
        };
        placed.nested = task.nested.iter().map(|nested| self.placed(nested)).collect();
        placed.to.0 = to.unwrap_or(task.to.0);
        placed.from.0 = from.unwrap_or(task.from.0);
        placed
    }

    /// Prepares a task and the tasks within it, and applies their effects to the values. `runs` is
    /// whether the task that submits it runs.
    fn prepare(&mut self, task: &Task, runs: bool) -> Option<Job> {
        let Planned { used, effect, x, y } = self.planned(task)?;
        let is_copy = matches!(task.form, Form::Between);
        let end = if is_copy { End::Well } else { task.end };
        let task = Task { end, ..task.clone() };
        if runs {
            let runs = self.perform(&task, effect, (x, y));
            let nested = if is_copy { &[][..] } else { &task.nested[..] };
            let nested: Vec<Job> =
                nested.iter().filter_map(|task| self.prepare(task, runs)).collect();
            return Some(self.job(task, used, nested));
        }
        // No function will submit it.
        Some(self.job(task, used, vec![]))
    }

    fn job(&self, task: Task, used: Used, nested: Vec<Job>) -> Job {
        let set = &self.sets[task.set];
        let on = task.on.map(|on| on % set.devices);
        Job { tasks: set.tasks.clone(), used, on, nested, luck: self.luck.clone(), task }
    }

    /// Applies the effect of a task to the values. Returns whether its function runs.
    fn perform(
        &mut self,
        task: &Task,
        effect: Effect,
        (x, y): (Range<usize>, Range<usize>),
    ) -> bool {
        let from = &self.slots[task.from.0];
        let reads_x = !matches!(effect, Effect::Fill | Effect::Stir);
        let values: Vec<Cell> =
            if reads_x { from.cells[x.clone()].to_vec() } else { vec![None; y.len()] };
        let lacks_x = reads_x && from.lost[x].contains(&true);
        let reads_y = !matches!(effect, Effect::Fill | Effect::Copy);
        let to = &mut self.slots[task.to.0];
        let lacks = lacks_x || (reads_y && to.lost[y.clone()].contains(&true));
        let set = &mut self.sets[task.set];
        if lacks || task.end != End::Well {
            to.lost[y.clone()].fill(true);
            to.cells[y].fill(None);
            set.skips += u64::from(lacks);
            set.failures += u64::from(!lacks);
            return !lacks;
        }
        let is_reduction = matches!(effect, Effect::Sum | Effect::Min | Effect::Max);
        // The second half of some parts is as it was at the start, and changes nothing.
        let len = if is_reduction && task.salt.is_multiple_of(3) { y.len() / 2 } else { y.len() };
        to.lost[y.clone()].fill(false);
        for (y, x) in to.cells[y][..len].iter_mut().zip(values) {
            *y = element(effect, task.salt, x, *y);
        }
        true
    }

    /// Reserves the data of tasks that other tasks submit.
    fn reserve(&mut self, task: &Task) {
        for nested in &task.nested {
            for slot in [nested.from.0, nested.to.0] {
                self.slots[slot].reserved |= self.slots[slot].set() == Some(nested.set);
            }
            self.reserve(nested);
        }
    }

    pub(super) fn submit(&mut self, task: &Task) -> Checked {
        let task = &self.placed(task);
        let is_cancelled = task.is_cancelled && task.nested.is_empty();
        let before = self.values(task);
        let Some(job) = self.prepare(task, true) else { return Ok(()) };
        self.reserve(task);
        let tasks = job.tasks.clone();
        let id = must(submit(job))?;
        if is_cancelled && tasks.cancel(id) {
            // Its function will not run.
            self.restore(task, before);
            let failed = Task { end: End::Error, ..task.clone() };
            if let Some(Planned { effect, x, y, .. }) = self.planned(&failed) {
                self.perform(&failed, effect, (x, y));
            }
        }
        Ok(())
    }

    /// The values of the data that a task writes, and whether they are lost.
    fn values(&self, task: &Task) -> (Vec<Cell>, Vec<bool>) {
        let slot = &self.slots[task.to.0];
        (slot.cells.clone(), slot.lost.clone())
    }

    fn restore(&mut self, task: &Task, (cells, lost): (Vec<Cell>, Vec<bool>)) {
        let slot = &mut self.slots[task.to.0];
        (slot.cells, slot.lost) = (cells, lost);
    }

    pub(super) fn region(&mut self, tasks: &[Task], end: End) -> Checked {
        let set = tasks[0].set;
        let tasks: Vec<Task> = tasks.iter().map(|task| self.placed(task)).collect();
        let jobs: Vec<Job> = tasks.iter().filter_map(|task| self.prepare(task, true)).collect();
        let handle = self.sets[set].tasks.clone();
        let outcome = caught(|| {
            handle.region(|_| {
                jobs.into_iter().try_for_each(|job| submit(job).map(drop))?;
                finish(end)
            })
        });
        match (end, outcome) {
            (End::Well, Some(outcome)) => must(outcome),
            (End::Error, Some(Err(_))) | (End::Panic(_), None | Some(Err(_))) => Ok(()),
            (end, _) => Err(format!("a region ends with {end:?}, and `region` does not")),
        }
    }

    pub(super) fn give(&mut self, set: usize, number: usize) -> Checked {
        let devices = self.sets[set].devices;
        let fits = |slot: &Slot| {
            let is_kind = matches!(slot.real, Real::Device(_) | Real::Pinned(_));
            is_kind && slot.device < devices
        };
        let Some(number) = self.first(number, fits) else { return Ok(()) };
        let slot = &mut self.slots[number];
        let tasks = &self.sets[set].tasks;
        slot.real = match std::mem::replace(&mut slot.real, Real::Gone) {
            Real::Device(buffer) => Real::Data(set, tasks.data(buffer)),
            Real::Pinned(buffer) => Real::HostData(set, tasks.data(buffer)),
            real => real,
        };
        Ok(())
    }

    /// Takes data back. If a failed task was to write some bytes, their buffer is lost.
    pub(super) fn take(&mut self, number: usize) -> Checked {
        let slot = &mut self.slots[number];
        if slot.reserved {
            return Ok(());
        }
        // A failed task leaves data of no elements without a value, too.
        let may_be_lost = slot.cells.is_empty();
        let has_lost = slot.lost.contains(&true);
        let real = std::mem::replace(&mut slot.real, Real::Gone);
        let (set, taken) = match real {
            Real::Data(set, data) => (set, self.sets[set].tasks.take(data).map(Real::Device)),
            Real::HostData(set, data) => (set, self.sets[set].tasks.take(data).map(Real::Pinned)),
            real => {
                slot.real = real;
                return Ok(());
            }
        };
        match (taken, has_lost) {
            (Ok(real), false) => slot.real = real,
            (Err(_), lost) if lost || may_be_lost => {
                // A task that brings them to their place did not run, and a wait for all may report
                // that.
                self.sets[set].skips += 1;
                *slot = Slot::gone();
            }
            (Ok(_), true) => {
                return Err(format!("slot {number}: `take` of values that a task lost"));
            }
            (Err(error), _) => {
                return Err(format!("`take` of slot {number}, set {set}: {error}"));
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, number: usize) -> Checked {
        if self.slots.iter().any(|slot| slot.reserved) {
            return self.finish_all();
        }
        self.drain(number)?;
        self.settle(number)
    }

    /// Waits for all tasks of a set, and counts the errors.
    fn drain(&mut self, number: usize) -> Checked {
        let set = &mut self.sets[number];
        while let Err(error) = set.tasks.finish() {
            let is_right = if is_of_host_function(&error) {
                self.luck.may_report()
            } else {
                // A task that other tasks submit may fail after a wait has reported another
                // failure.
                set.reports += 1;
                set.reports <= set.failures + set.skips
            };
            if !is_right {
                return Err(format!("set {number}: {error}"));
            }
        }
        Ok(())
    }

    /// Compares the failures with the reports of waits.
    fn settle(&mut self, number: usize) -> Checked {
        let set = &mut self.sets[number];
        let reports = std::mem::take(&mut set.reports);
        let has_failed = std::mem::take(&mut set.failures) > 0;
        set.skips = 0;
        if has_failed && reports == 0 {
            return Err(format!("set {number}: a failure is forgotten"));
        }
        Ok(())
    }

    /// Waits until tasks that submit tasks have done so, and until the submitted tasks are over.
    pub(super) fn finish_all(&mut self) -> Checked {
        for _ in 0..4 {
            for set in 0..self.sets.len() {
                self.drain(set)?;
            }
        }
        for set in 0..self.sets.len() {
            self.settle(set)?;
        }
        self.slots.iter_mut().for_each(|slot| slot.reserved = false);
        Ok(())
    }

    /// A use of taken data is refused.
    pub(super) fn taken_use(&mut self, number: usize, how: u8) -> Checked {
        let fits = |slot: &Slot| slot.set().is_some() && !slot.reserved;
        let number = self.first(number, fits).unwrap_or(number);
        let slot = &self.slots[number];
        let Some(set) = slot.set().filter(|_| !slot.reserved && !slot.lost.contains(&true)) else {
            return Ok(());
        };
        let tasks = self.sets[set].tasks.clone();
        let handle = tasks.clone();
        let late = match &slot.real {
            Real::Data(_, data) if how == 0 => Some(Ok(data.write())),
            Real::Data(_, data) => Some(Err(data.clone())),
            _ => None,
        };
        self.take(number)?;
        let submit = |late: Writes<u32>| {
            tasks.task(late).run(move |s, mut y| {
                drop(handle);
                s.fill(&mut y, 1)
            })
        };
        let outcome = match late {
            None => return Ok(()),
            Some(Ok(late)) => submit(late),
            Some(Err(data)) if how == 1 => submit(data.update()),
            Some(Err(data)) => tasks.region(|_| submit(data.write())),
        };
        match outcome {
            Err(error) if error.kind() == ErrorKind::InvalidValue => Ok(()),
            outcome => Err(format!("a use of data that were taken: {outcome:?}")),
        }
    }

    /// Functions of tasks that wait for tasks: each wait returns, and every task is over in the
    /// end.
    pub(super) fn tangle(&mut self, how: u8) -> Checked {
        // The waits within functions take the errors of earlier work.
        self.finish_all()?;
        self.luck.forgive();
        let (a, b) = (self.sets[0].tasks.clone(), self.sets[1].tasks.clone());
        let ran = Arc::new(AtomicU64::new(0));
        let (inner, outer) = (Arc::clone(&ran), Arc::clone(&ran));
        let (waits, other) = (a.clone(), b.clone());
        let waits_within = how.is_multiple_of(2);
        let body = move || {
            let id = other.task(()).run(move |_, ()| {
                // Any answer is right.
                let outcome = if waits_within { waits.finish() } else { Ok(()) };
                drop(outcome);
                inner.fetch_add(1, Relaxed);
                Ok(())
            })?;
            let outcome = if how < 2 { other.finish() } else { other.wait(id) };
            drop(outcome);
            outer.fetch_add(1, Relaxed);
            Ok(())
        };
        must(a.task(()).run(move |_, ()| body()))?;
        self.finish_all()?;
        let ran = ran.load(Relaxed);
        if ran == 2 {
            Ok(())
        } else {
            Err(format!("{ran} of 2 tasks that wait for each other ran"))
        }
    }

    /// Tasks whose last handle is dropped run all the same, whatever their functions hold.
    pub(super) fn abandon(&mut self, number: usize, count: u64, has_handle: bool) -> Checked {
        let device = self.devices[self.device(number)].clone();
        let tasks = device.tasks();
        let ran = Arc::new(AtomicU64::new(0));
        for _ in 0..count {
            let (ran, handle) = (Arc::clone(&ran), has_handle.then(|| tasks.clone()));
            must(tasks.task(()).run(move |_, ()| {
                ran.fetch_add(1, Relaxed);
                drop(handle);
                Ok(())
            }))?;
        }
        drop(tasks);
        // A thread of the library may issue them, and no call waits for it. If they never run, the
        // program hangs.
        while ran.load(Relaxed) < count {
            self.luck.insist(|| device.synchronize())?;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Steps of graphs, tasks, floats and closures.
    pub(super) fn step_of_graphs_and_tasks(&mut self, step: &Step) -> Checked {
        match step {
            Step::Record { graph, args, nodes, end, keeps } => {
                self.record(*graph, args, nodes, (*end, *keeps))
            }
            Step::RecordAgain { graph, args, salt, end } => {
                self.record_again(*graph, args, *salt, *end)
            }
            Step::Launch { graph, stream, args } => self.launch(*graph, *stream, args),
            Step::Left { slot, part, value } => self.use_left(*slot, *part, *value),
            Step::Dlpack { slot, to, value, comes_back } => {
                self.dlpack(*slot, *to, *value, *comes_back)
            }
            Step::Give { set, slot } => self.give(*set, *slot),
            Step::Take { slot } => {
                let fits = |slot: &Slot| slot.set().is_some() && !slot.reserved;
                self.first(*slot, fits).map_or(Ok(()), |slot| self.take(slot))
            }
            Step::Task(task) => self.submit(task),
            Step::Region { tasks, end } => self.region(tasks, *end),
            Step::Finish { set } => self.finish(*set),
            Step::TakenUse { slot, how } => self.taken_use(*slot, *how),
            Step::Tangle { how } => self.tangle(*how),
            Step::Abandon { set, count, has_handle } => self.abandon(*set, *count, *has_handle),
            Step::Float { device, stream, seed } => self.set_floats(*device, *stream, *seed),
            Step::Collective { what, how, root, is_recorded, stream } => {
                self.collective((*what, *how), *root, *is_recorded, *stream)
            }
            Step::FloatTasks { set, how, seed } => self.float_tasks(*set, *how, *seed),
            Step::Closure { place, at, end } => self.closure(*place, *at, *end),
            _ => Ok(()),
        }
    }
}
