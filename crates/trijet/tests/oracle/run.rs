//! Runs a program on devices, through the public interface.

use crate::program::{At, Hold, Part, Phase, Place, Program, Sources, Step, StreamKind};
use crate::reference::words;
use crate::serial::{Line, Outcome, thread_of};
use crate::turns::{Table, Turns};
use crate::valid::Gates;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use trijet::testing::{self, MIX};
use trijet::{
    Batch, Buffer, Device, Event, PageableBuffer, PinnedBuffer, Ready, Result, Signal, SourceOrder,
    Stream, StreamOptions, Ticket, View, ViewMut,
};

/// A result whose error names the call that failed.
type CallResult<T> = std::result::Result<T, String>;
type Buffers = BTreeMap<usize, Held>;

/// A buffer of a running program.
enum Held {
    Device(Buffer<u64>),
    Pinned(PinnedBuffer<u64>),
    Pageable(PageableBuffer<u64>),
}

impl Held {
    fn host(device: &Device, place: Place, len: usize, seed: u64) -> Result<Self> {
        let mut held = match place {
            Place::Pinned => Self::Pinned(device.pinned(len)?),
            Place::Pageable => Self::Pageable(device.pageable(len)?),
            Place::Device(_) => unreachable!("memory of a device is allocated in a stream"),
        };
        held.write(seed)?;
        Ok(held)
    }

    fn part(&self, part: &Part) -> View<'_, u64> {
        let whole = match self {
            Self::Device(buffer) => buffer.view(),
            Self::Pinned(buffer) => buffer.view(),
            Self::Pageable(buffer) => buffer.view(),
        };
        whole.slice(part.range.clone())
    }

    fn part_mut(&mut self, part: &Part) -> ViewMut<'_, u64> {
        let whole = match self {
            Self::Device(buffer) => buffer.view_mut(),
            Self::Pinned(buffer) => buffer.view_mut(),
            Self::Pageable(buffer) => buffer.view_mut(),
        };
        whole.slice(part.range.clone())
    }

    fn len(&self) -> usize {
        match self {
            Self::Device(buffer) => buffer.len(),
            Self::Pinned(buffer) => buffer.len(),
            Self::Pageable(buffer) => buffer.len(),
        }
    }

    fn split(self, at: usize) -> (Self, Self) {
        match self {
            Self::Device(buffer) => {
                let (left, right) = buffer.split(at);
                (Self::Device(left), Self::Device(right))
            }
            Self::Pinned(buffer) => {
                let (left, right) = buffer.split(at);
                (Self::Pinned(left), Self::Pinned(right))
            }
            Self::Pageable(buffer) => {
                let (left, right) = buffer.split(at);
                (Self::Pageable(left), Self::Pageable(right))
            }
        }
    }

    fn write(&mut self, seed: u64) -> Result<()> {
        let words = words(seed, self.len());
        match self {
            Self::Pinned(buffer) => buffer.write()?.copy_from_slice(&words),
            Self::Pageable(buffer) => buffer.write()?.copy_from_slice(&words),
            Self::Device(_) => unreachable!("valid programs write to host memory only"),
        }
        Ok(())
    }

    /// The words under a guard, and whether they are the same after `meanwhile`.
    fn read(&self, meanwhile: impl Fn()) -> Result<(Vec<u64>, bool)> {
        let seen = |guard: &dyn Fn() -> Vec<u64>| {
            let words = guard();
            meanwhile();
            let is_steady = guard() == words;
            Ok((words, is_steady))
        };
        match self {
            Self::Pinned(buffer) => {
                let guard = buffer.read()?;
                seen(&|| guard.to_vec())
            }
            Self::Pageable(buffer) => {
                let guard = buffer.read()?;
                seen(&|| guard.to_vec())
            }
            Self::Device(_) => unreachable!("valid programs read host memory only"),
        }
    }
}

/// A stream and the number of its replacements. The lock is never held during a call.
type Slot = Mutex<(usize, Arc<Stream>)>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics under these locks")
}

/// The objects that all scripts of a program share.
struct World<'a> {
    program: &'a Program,
    devices: &'a [Device],
    /// `None` for per-thread streams: each thread opens its own.
    streams: Vec<Option<Slot>>,
    events: Vec<Event>,
    tickets: Mutex<BTreeMap<usize, Arc<Ticket>>>,
    futures: Mutex<BTreeMap<usize, Ready>>,
    signals: Vec<Signal>,
    /// Tickets of the streams whose host functions set a signal. A thread that waits for a signal
    /// does not let a simulated device run, so it first waits for these tickets.
    setters: Mutex<BTreeMap<usize, Vec<Arc<Ticket>>>>,
    turns: Turns,
    /// The signals that earlier phases set.
    gates: Mutex<Gates>,
    /// Buffers that were given and not received; `None` after a refused call.
    mail: Mutex<BTreeMap<usize, Option<Held>>>,
    failed: Mutex<BTreeSet<At>>,
    /// A read whose bytes changed under its guard.
    unsteady: Mutex<Option<At>>,
    notes: Arc<Mutex<BTreeMap<Line, Vec<At>>>>,
    reads: Mutex<BTreeMap<At, Vec<u64>>>,
    /// The main thread records this event between phases, so that the ledger shows where threads
    /// were joined.
    pulse: (Stream, Event),
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future until it is ready.
fn drive(ready: Ready) -> Result<()> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut ready = pin!(ready);
    loop {
        match ready.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => thread::park(),
        }
    }
}

/// Repeats a call that may be refused.
pub(crate) fn again<T>(program: &Program, call: impl Fn() -> Result<T>) -> Result<T> {
    let mut outcome = call();
    for _ in &program.refusals {
        if outcome.is_err() {
            outcome = call();
        }
    }
    outcome
}

fn open_stream(devices: &[Device], program: &Program, number: usize) -> Result<Stream> {
    let spec = program.streams[number];
    let device = &devices[spec.device];
    match spec.kind {
        StreamKind::Legacy => device.legacy_stream(),
        StreamKind::PerThread => device.per_thread_stream(),
        StreamKind::Blocking => device.stream_with(StreamOptions::new().blocking()),
        StreamKind::NonBlocking => device.stream(),
    }
}

impl<'a> World<'a> {
    fn new(devices: &'a [Device], program: &'a Program, turns: Turns) -> Result<Self> {
        let slot = |number: usize| match program.streams[number].kind {
            StreamKind::PerThread => Ok(None),
            _ => {
                let stream = again(program, || open_stream(devices, program, number))?;
                Ok(Some(Mutex::new((0, Arc::new(stream)))))
            }
        };
        let event = |device: &usize| again(program, || devices[*device].event());
        let signals = program.steps().filter_map(Step::signal).map(|signal| signal + 1);
        Ok(Self {
            program,
            devices,
            streams: (0..program.streams.len()).map(slot).collect::<Result<_>>()?,
            events: program.events.iter().map(event).collect::<Result<_>>()?,
            tickets: Mutex::default(),
            futures: Mutex::default(),
            signals: (0..signals.max().unwrap_or(0)).map(|_| devices[0].signal()).collect(),
            setters: Mutex::default(),
            turns,
            gates: Mutex::default(),
            mail: Mutex::default(),
            failed: Mutex::default(),
            unsteady: Mutex::default(),
            notes: Arc::default(),
            reads: Mutex::default(),
            pulse: (again(program, || devices[0].stream())?, event(&0)?),
        })
    }
}

/// A running script.
struct Script<'a> {
    world: &'a World<'a>,
    own: Buffers,
    shared: &'a Buffers,
    /// This thread's per-thread streams, by the number of the stream.
    mine: BTreeMap<usize, Arc<Stream>>,
    /// Per-thread streams of threads that ended.
    kept: Vec<Arc<Stream>>,
}

/// Borrows the sources and the targets of a step at the same time.
fn borrow<'b>(
    own: &'b mut Buffers,
    shared: &'b Buffers,
    pairs: &[(&Part, &Part)],
) -> Vec<(View<'b, u64>, ViewMut<'b, u64>)> {
    let targets: BTreeSet<usize> = pairs.iter().map(|(_, to)| to.buffer).collect();
    let mut sources: BTreeMap<usize, &'b Held> = shared.iter().map(|(n, h)| (*n, h)).collect();
    let mut free: BTreeMap<usize, &'b mut Held> = BTreeMap::new();
    for (number, held) in own.iter_mut() {
        if targets.contains(number) {
            free.insert(*number, held);
        } else {
            sources.insert(*number, held);
        }
    }
    let borrowed = pairs.iter().map(|(from, to)| {
        let target = free.remove(&to.buffer).expect("a valid step has each target once");
        (sources[&from.buffer].part(from), target.part_mut(to))
    });
    borrowed.collect()
}

impl Script<'_> {
    fn stream(&mut self, number: usize) -> Result<Arc<Stream>> {
        if let Some(slot) = &self.world.streams[number] {
            return Ok(Arc::clone(&locked(slot).1));
        }
        if !self.mine.contains_key(&number) {
            let stream = Arc::new(open_stream(self.world.devices, self.world.program, number)?);
            self.mine.insert(number, stream);
        }
        Ok(Arc::clone(&self.mine[&number]))
    }

    fn pair(&mut self, from: &Part, to: &Part) -> (View<'_, u64>, ViewMut<'_, u64>) {
        borrow(&mut self.own, self.shared, &[(from, to)]).remove(0)
    }

    fn target(&mut self, to: &Part) -> ViewMut<'_, u64> {
        self.own.get_mut(&to.buffer).expect("a valid step changes what it owns").part_mut(to)
    }

    fn working(&mut self, step: &Step) -> Result<()> {
        let devices = self.world.devices;
        match step {
            Step::Copy { stream, from, to } => {
                let stream = self.stream(*stream)?;
                let (from, mut to) = self.pair(from, to);
                stream.copy(&from, &mut to)
            }
            Step::Mix { stream, salt, x, y } => {
                let stream = self.stream(*stream)?;
                let (x, y) = self.pair(x, y);
                stream.launch(&MIX, (*salt, x, y))
            }
            Step::Fill { stream, to, value } => {
                let stream = self.stream(*stream)?;
                stream.fill_bytes(&mut self.target(to), *value)
            }
            Step::CopyNow { device, from, to } => {
                let (from, mut to) = self.pair(from, to);
                devices[*device].copy_now(&from, &mut to)
            }
            Step::FillNow { device, to, value } => {
                devices[*device].fill_now(&mut self.target(to), *value)
            }
            Step::Batch { stream, sources, copies } => self.batch(*stream, *sources, copies),
            _ => unreachable!("the verbs of `Step::parts`"),
        }
    }

    fn batch(&mut self, stream: usize, sources: Sources, copies: &[(Part, Part)]) -> Result<()> {
        let stream = self.stream(stream)?;
        let order = match sources {
            Sources::InStreamOrder => SourceOrder::Stream,
            Sources::DuringCall => SourceOrder::DuringCall,
            Sources::AnyTime => SourceOrder::Any,
        };
        let pairs: Vec<(&Part, &Part)> = copies.iter().map(|(from, to)| (from, to)).collect();
        let mut views = borrow(&mut self.own, self.shared, &pairs);
        let mut batch = Batch::new();
        for (from, to) in &mut views {
            batch.add(from, to)?;
        }
        stream.copy_batch(batch, order)
    }

    fn holding(&mut self, at: At, step: &Step) -> Result<()> {
        match step {
            Step::Alloc { buffer, stream, len, value } => {
                self.own.remove(buffer);
                let stream = self.stream(*stream)?;
                let mut made = stream.alloc::<u64>(*len)?;
                stream.fill_bytes(&mut made, *value)?;
                self.own.insert(*buffer, Held::Device(made));
            }
            Step::AllocHost { buffer, place, len, seed } => {
                self.own.remove(buffer);
                let made = Held::host(&self.world.devices[0], *place, *len, *seed)?;
                self.own.insert(*buffer, made);
            }
            Step::Drop { buffer } => drop(self.own.remove(buffer)),
            Step::Split { buffer, at, into } => {
                let whole = self.own.remove(buffer).expect("a valid step splits what it owns");
                let (left, right) = whole.split(*at);
                self.own.insert(*buffer, left);
                self.own.insert(*into, right);
            }
            Step::Write { buffer, seed } => {
                self.own.get_mut(buffer).expect("a valid step").write(*seed)?;
            }
            Step::Read { buffer } => {
                let held = self.own.get(buffer).or_else(|| self.shared.get(buffer));
                let held = held.expect("a valid step reads what is there");
                // On a simulated clock, each query lets time pass.
                let stir = || match self.world.turns {
                    Turns::Free => (),
                    _ => drop(self.world.pulse.0.query()),
                };
                let (words, is_steady) = held.read(stir)?;
                if !is_steady {
                    locked(&self.world.unsteady).get_or_insert(at);
                }
                locked(&self.world.reads).insert(at, words);
            }
            Step::Give { buffer, .. } => {
                let given = self.own.remove(buffer);
                locked(&self.world.mail).insert(*buffer, given);
            }
            Step::Receive { buffer, .. } => {
                if let Some(held) = locked(&self.world.mail).remove(buffer).flatten() {
                    self.own.insert(*buffer, held);
                }
            }
            Step::ByHand { buffer } => {
                if let Some(Held::Device(buffer)) = self.own.get_mut(buffer) {
                    // SAFETY: the words are only mixed and compared, so a torn word does no harm.
                    // Programs without enough events are drawn on purpose.
                    unsafe { buffer.order_manually() };
                }
            }
            _ => unreachable!("the verbs that make, give up and reach buffers"),
        }
        Ok(())
    }

    fn note(&mut self, at: At, step: &Step, stream: usize) -> Result<()> {
        let life = self.world.streams[stream].as_ref().map_or(0, |slot| locked(slot).0);
        let line = Line { stream, life, thread: thread_of(self.world.program, at, step) };
        let notes = Arc::clone(&self.world.notes);
        self.stream(stream)?.host_fn(move || locked(&notes).entry(line).or_default().push(at))
    }

    fn step(&mut self, at: At, step: &Step) -> Result<()> {
        let World { devices, events, .. } = self.world;
        match step {
            Step::Alloc { .. }
            | Step::AllocHost { .. }
            | Step::Drop { .. }
            | Step::Split { .. }
            | Step::Write { .. }
            | Step::Give { .. }
            | Step::Receive { .. }
            | Step::ByHand { .. }
            | Step::Read { .. } => self.holding(at, step),
            Step::Future { .. }
            | Step::Poll { .. }
            | Step::Set { .. }
            | Step::HostSet { .. }
            | Step::Take { .. } => self.handing(step),
            Step::Churn { kind, device, to, value } => {
                let stream = match kind {
                    StreamKind::Blocking => {
                        devices[*device].stream_with(StreamOptions::new().blocking())?
                    }
                    _ => devices[*device].stream()?,
                };
                stream.fill_bytes(&mut self.target(to), *value)
            }
            // The thread ends after this step.
            Step::Renew { .. } => Ok(()),
            Step::HostFn { stream } => self.note(at, step, *stream),
            Step::Record { event, stream } => events[*event].record(&*self.stream(*stream)?),
            Step::Wait { event, stream } => self.stream(*stream)?.wait(&events[*event]),
            Step::SyncEvent { event } => events[*event].synchronize(),
            Step::QueryEvent { event } => events[*event].query().map(drop),
            Step::Sync { stream } => self.stream(*stream)?.synchronize(),
            Step::Query { stream } => self.stream(*stream)?.query().map(drop),
            Step::SyncDevice { device } => devices[*device].synchronize(),
            Step::Replace { stream } => {
                let new = Arc::new(open_stream(devices, self.world.program, *stream)?);
                let slot = self.world.streams[*stream].as_ref().expect("not a default stream");
                let old = {
                    let mut slot = locked(slot);
                    slot.0 += 1;
                    std::mem::replace(&mut slot.1, new)
                };
                drop(old);
                Ok(())
            }
            Step::Ticket { ticket, stream } => {
                let left = Arc::new(self.stream(*stream)?.ticket()?);
                locked(&self.world.tickets).insert(*ticket, left);
                Ok(())
            }
            Step::Await { ticket } => {
                let left = locked(&self.world.tickets).get(ticket).cloned();
                left.map_or(Ok(()), |left| left.wait())
            }
            _ => self.working(step),
        }
    }

    /// Verbs by which threads hand over to each other.
    fn handing(&mut self, step: &Step) -> Result<()> {
        let world = self.world;
        match step {
            Step::Future { future, stream } => {
                let left = self.stream(*stream)?.ready();
                // The replaced future is dropped without a lock.
                let old = locked(&world.futures).insert(*future, left);
                drop(old);
                Ok(())
            }
            Step::Poll { future } => {
                let left = locked(&world.futures).remove(future);
                left.map_or(Ok(()), drive)
            }
            Step::Set { signal } => {
                world.signals[*signal].set();
                Ok(())
            }
            Step::HostSet { signal, stream } => {
                let outcome = self.host_set(*signal, *stream);
                if outcome.is_err() {
                    world.signals[*signal].set();
                }
                outcome
            }
            Step::Take { signal } => {
                if world.turns != Turns::Free {
                    let setters = locked(&world.setters).get(signal).cloned().unwrap_or_default();
                    for setter in setters {
                        if world.signals[*signal].is_set() {
                            break;
                        }
                        setter.wait()?;
                    }
                }
                world.signals[*signal].wait();
                Ok(())
            }
            _ => unreachable!("the verbs that hand over"),
        }
    }

    fn host_set(&mut self, signal: usize, stream: usize) -> Result<()> {
        let (stream, sets) = (self.stream(stream)?, self.world.signals[signal].clone());
        stream.host_fn(move || sets.set())?;
        if self.world.turns != Turns::Free {
            let ticket = Arc::new(stream.ticket()?);
            locked(&self.world.setters).entry(signal).or_default().push(ticket);
        }
        Ok(())
    }

    /// Whether the buffers of the step exist. After a refused call they may not.
    fn has_all(&self, step: &Step) -> bool {
        let makes = |buffer: usize| match step {
            Step::Alloc { .. } | Step::AllocHost { .. } | Step::Receive { .. } => true,
            Step::Give { .. } => true,
            Step::Split { into, .. } => *into == buffer,
            _ => false,
        };
        step.buffers().iter().all(|(buffer, _)| {
            makes(*buffer) || self.own.contains_key(buffer) || self.shared.contains_key(buffer)
        })
    }

    /// Takes a step. The program goes on after a refused call.
    fn take(&mut self, at: At, step: &Step) -> CallResult<()> {
        let may_fail = !self.world.program.refusals.is_empty();
        if may_fail && !self.has_all(step) {
            locked(&self.world.failed).insert(at);
            return Ok(());
        }
        match self.step(at, step) {
            Err(_) if may_fail => {
                locked(&self.world.failed).insert(at);
                Ok(())
            }
            outcome => outcome.map_err(|error| format!("`{step}` at {at:?}: {error}")),
        }
    }

    /// Runs the script and returns the buffers that it owns.
    fn run(mut self, phase: usize, script: usize) -> CallResult<Buffers> {
        let steps = &self.world.program.phases[phase].scripts[script];
        for (number, step) in steps.iter().enumerate() {
            self.take(At { phase, script, step: number }, step)?;
        }
        Ok(self.own)
    }

    /// Takes steps by turns, starting with `first`, until the thread ends; returns the number of
    /// the last step.
    fn go_on(&mut self, table: &Table<'_>, first: At) -> CallResult<usize> {
        let At { phase, script, mut step } = first;
        let steps = &self.world.program.phases[phase].scripts[script];
        loop {
            if !table.may_go(script) {
                return Err("another script failed".to_owned());
            }
            self.take(At { phase, script, step }, &steps[step])?;
            let ends = match steps[step] {
                Step::Renew { keeps } => {
                    let mine = std::mem::take(&mut self.mine);
                    self.kept.extend(mine.into_values().filter(|_| keeps));
                    true
                }
                _ => step + 1 == steps.len(),
            };
            if ends {
                return Ok(step);
            }
            table.took(script, step);
            step += 1;
        }
    }

    /// Runs the script on a sequence of threads.
    fn run_by_turns(
        mut self,
        table: &Table<'_>,
        (phase, script): (usize, usize),
    ) -> CallResult<Buffers> {
        let count = self.world.program.phases[phase].scripts[script].len();
        let mut step = 0;
        while step < count {
            let first = At { phase, script, step };
            let is_last =
                |last: &CallResult<usize>| last.as_ref().is_ok_and(|last| last + 1 == count);
            let (myself, last) = thread::scope(|scope| {
                let thread = scope.spawn(move || {
                    let last = self.go_on(table, first);
                    if is_last(&last) || last.is_err() {
                        // The last thread drops its own streams.
                        self.mine.clear();
                        self.kept.clear();
                    }
                    (self, last)
                });
                thread.join().unwrap_or_else(|panic| {
                    table.fail();
                    std::panic::resume_unwind(panic)
                })
            });
            self = myself;
            let last = last.inspect_err(|_| table.fail())?;
            table.took(script, last);
            step = last + 1;
        }
        Ok(self.own)
    }
}

/// Distributes the buffers to the scripts that change them. All scripts share the others.
fn deal(phase: &Phase, mut held: Buffers) -> (Vec<Buffers>, Buffers) {
    let passing: BTreeSet<usize> =
        phase.scripts.iter().flatten().filter_map(Step::passes).collect();
    let owned = phase.scripts.iter().map(|script| {
        let mut alone = BTreeSet::new();
        let mut received = BTreeSet::new();
        for step in script {
            for (buffer, hold) in step.buffers() {
                if matches!(step, Step::Receive { .. }) && !alone.contains(&buffer) {
                    // Another script has the buffer at first.
                    received.insert(buffer);
                }
                if hold == Hold::Alone || passing.contains(&buffer) {
                    alone.insert(buffer);
                }
            }
        }
        let is_mine = |buffer: &usize| alone.contains(buffer) && !received.contains(buffer);
        held.extract_if(.., |buffer, _| is_mine(buffer)).collect()
    });
    (owned.collect(), held)
}

impl World<'_> {
    fn phase(&self, number: usize, held: Buffers) -> CallResult<Buffers> {
        let phase = &self.program.phases[number];
        let (owned, shared) = deal(phase, held);
        let scripts = owned.into_iter().map(|own| Script {
            world: self,
            own,
            shared: &shared,
            mine: BTreeMap::new(),
            kept: Vec::new(),
        });
        let scripts: Vec<Script<'_>> = scripts.collect();
        let seed = match self.turns {
            Turns::Free => None,
            Turns::Executor => Some(0),
            Turns::Drawn(seed) => Some(seed),
        };
        // A single script runs on the main thread, unless it ends its thread.
        let has_turns = self.turns != Turns::Executor && scripts.len() > 1;
        let ends = if has_turns || phase.needs_turns() {
            let table = Table::new(phase, locked(&self.gates).clone(), seed);
            thread::scope(|scope| {
                let all = scripts.into_iter().enumerate().map(|(script, running)| {
                    let table = &table;
                    scope.spawn(move || running.run_by_turns(table, (number, script)))
                });
                let all: Vec<_> = all.collect();
                let end = |end: thread::ScopedJoinHandle<'_, CallResult<Buffers>>| {
                    end.join().unwrap_or_else(|_| Err("a script panicked".to_owned()))
                };
                all.into_iter().map(end).collect::<Vec<_>>()
            })
        } else {
            self.by_executor(number, scripts)
        };
        let mut held = BTreeMap::new();
        for end in ends {
            held.extend(end?);
        }
        locked(&self.gates).leave(phase);
        let mail = std::mem::take(&mut *locked(&self.mail));
        held.extend(mail.into_iter().filter_map(|(buffer, held)| Some((buffer, held?))));
        held.extend(shared);
        Ok(held)
    }

    fn by_executor(&self, number: usize, scripts: Vec<Script<'_>>) -> Vec<CallResult<Buffers>> {
        let ends: Vec<Mutex<CallResult<Buffers>>> =
            scripts.iter().map(|_| Mutex::new(Ok(BTreeMap::new()))).collect();
        let scripts = scripts.into_iter().zip(&ends).enumerate().map(|(script, (running, end))| {
            let run: Box<dyn FnOnce() + Send + '_> =
                Box::new(move || *locked(end) = running.run(number, script));
            run
        });
        let scripts: Vec<_> = scripts.collect();
        if scripts.len() == 1 {
            scripts.into_iter().for_each(|run| run());
        } else {
            testing::script(&self.devices[0], scripts);
        }
        ends.into_iter().map(|end| end.into_inner().expect("no script panics")).collect()
    }

    /// The words of all remaining buffers, read in streams of the program.
    fn left(&self, held: &Buffers) -> Result<BTreeMap<usize, Vec<u64>>> {
        let mut left = BTreeMap::new();
        for (number, held) in held {
            match self.left_in(*number, held) {
                Err(_) if !self.program.refusals.is_empty() => {}
                words => drop(left.insert(*number, words?)),
            }
        }
        Ok(left)
    }

    fn left_in(&self, number: usize, held: &Held) -> Result<Vec<u64>> {
        let Held::Device(buffer) = held else { return Ok(held.read(|| ())?.0) };
        let streams = self.streams.len().max(1);
        let slot = self.streams.get(number % streams).and_then(Option::as_ref);
        let stream = match slot {
            Some(slot) => Arc::clone(&locked(slot).1),
            None => Arc::new(self.devices[0].stream()?),
        };
        let mut landed = self.devices[0].pinned::<u64>(buffer.len())?;
        stream.copy(buffer, &mut landed)?;
        let words = landed.read()?.to_vec();
        Ok(words)
    }
}

/// Runs a valid program and waits for all its work.
///
/// # Errors
/// The error of a call, with the call.
pub(crate) fn run(devices: &[Device], program: &Program) -> CallResult<Outcome> {
    run_by(devices, program, Turns::Executor)
}

/// Runs a valid program as `run` does, with scripts that run by `turns`.
///
/// # Errors
/// The error of a call, with the call.
pub(crate) fn run_by(devices: &[Device], program: &Program, turns: Turns) -> CallResult<Outcome> {
    let plain = |error: trijet::Error| error.to_string();
    let world = World::new(devices, program, turns).map_err(plain)?;
    let mut held = BTreeMap::new();
    for number in 0..program.phases.len() {
        again(program, || world.pulse.1.record(&world.pulse.0)).map_err(plain)?;
        held = world.phase(number, held)?;
    }
    let left = world.left(&held).map_err(plain)?;
    drop(held);
    let World { streams, events, tickets, futures, setters, notes, reads, failed, .. } = world;
    drop((streams, events, tickets, futures, setters));
    let wait = |device: &Device| again(program, || device.synchronize());
    devices.iter().try_for_each(wait).map_err(plain)?;
    let notes = std::mem::take(&mut *locked(&notes));
    let reads = reads.into_inner().expect("no script panics");
    let failed = failed.into_inner().expect("no script panics");
    if let Some(at) = world.unsteady.into_inner().expect("no script panics") {
        return Err(format!("the bytes of the read at {at:?} changed under its guard"));
    }
    Ok(Outcome { reads, left, notes, failed }.normalised())
}
