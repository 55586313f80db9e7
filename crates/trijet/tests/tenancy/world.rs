//! Runs of sequences against the library: two host threads in lockstep, a third one that lets the
//! device work, and the values that each buffer may hold.

use crate::steps::{Last, Place, STREAMS, Step, Thread, What};
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::{Buffer, Device, ErrorKind, Event, PinnedBuffer, Result, Stream};

/// Bytes of a buffer: as many as an operation has parts, so that a guard can show a half-done
/// operation.
const LEN: usize = 4;

/// Each operation of a sequence takes this many times as long as the next one, so an operation that
/// does not wait for it overtakes it. A drawn duration is off by a factor of at most 4 in each
/// direction.
const SLOWER: u32 = 30;
/// The last operation is slow enough that no query of the sequence finds it complete.
const SLOW: u32 = 1000;

/// One run of a sequence.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) last: Last,
    /// Calls of the driver that are refused.
    pub(crate) refused: Vec<(Verb, u64)>,
    pub(crate) order: Order,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (verb, nth) in &self.refused {
            writeln!(f, "  refused: {verb:?} number {nth}")?;
        }
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        let Last { by, copies_first } = self.last;
        if copies_first {
            writeln!(f, "  t{by}: copies x back on a new stream, reads the copy")?;
        }
        write!(f, "  t{by}: holds a guard of h while the device goes on ({})", self.order)
    }
}

impl Program {
    fn config(&self) -> HostConfig {
        let refused = self.refused.iter();
        let refused =
            refused.map(|(verb, nth)| Fault { verb: *verb, nth: *nth, kind: FaultKind::Refused });
        let mut faults: Vec<Fault> = refused.collect();
        // The first fill is the one that gives `x` its first value.
        let (mut fills, mut copies) = (1, 0);
        let mut slow = SLOW;
        for step in self.steps.iter().rev() {
            slow = if matches!(step, Step::Op { .. }) { slow.saturating_mul(SLOWER) } else { slow };
        }
        for step in &self.steps {
            let Step::Op { what, .. } = step else { continue };
            let (verb, nth) = match what {
                What::FillH | What::FillX => (Verb::Fill, &mut fills),
                What::Upload | What::Download => (Verb::Copy, &mut copies),
            };
            *nth += 1;
            faults.push(Fault { verb, nth: *nth, kind: FaultKind::Slow(slow) });
            slow /= SLOWER;
        }
        let executor = Executor::Virtual(self.order.clone());
        HostConfig::new().executor(executor).faults(faults)
    }
}

/// Upper bounds of the driver calls of a sequence, by verb.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calls {
    pub(crate) records: u64,
    pub(crate) waits: u64,
    pub(crate) fills: u64,
    pub(crate) copies: u64,
    pub(crate) streams: u64,
}

/// The values that a buffer may hold: one, or several after a call that writes it returned an
/// error.
type Values = Vec<u8>;

struct World {
    device: Device,
    streams: [Option<Stream>; STREAMS],
    event: Option<Event>,
    h: (PinnedBuffer<u8>, Values),
    x: (Buffer<u8>, Values),
    copy: PinnedBuffer<u8>,
    refuses: bool,
    written: u8,
    calls: Calls,
}

/// A description of what went wrong.
type Wrong = String;

fn judge<T>(refuses: bool, call: &str, result: Result<T>) -> std::result::Result<Option<T>, Wrong> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::Stalled => {
            Err(format!("{call} waits for ever: {error}"))
        }
        Err(_) if refuses => Ok(None),
        Err(error) => Err(format!("{call} fails although nothing was refused: {error}")),
    }
}

fn check(name: &str, bytes: &[u8], values: &[u8]) -> std::result::Result<(), Wrong> {
    let right = values.iter().any(|value| bytes.iter().all(|byte| byte == value));
    if right { Ok(()) } else { Err(format!("{name} holds {bytes:?}, and not {values:?}")) }
}

impl World {
    fn new(program: &Program) -> Result<Self> {
        let device = Device::host(program.config())?.remove(0);
        // The stream that gave `x` its memory stays as long as `x`: its lane is never handed on.
        let home = device.stream()?;
        let mut x = home.alloc::<u8>(LEN)?;
        home.fill_bytes(&mut x, 1)?;
        let mut h = device.pinned::<u8>(LEN)?;
        h.write()?.fill(1);
        let copy = device.pinned::<u8>(LEN)?;
        Ok(Self {
            streams: Default::default(),
            event: None,
            h: (h, vec![1]),
            x: (x, vec![1]),
            copy,
            refuses: !program.refused.is_empty(),
            written: 1,
            calls: Calls { fills: 1, streams: 1, ..Calls::default() },
            device,
        })
    }

    /// Opens the stream if it is not open; false if that was refused.
    fn open(&mut self, on: Place) -> std::result::Result<bool, Wrong> {
        if self.streams[on].is_none() {
            let opened = if on < 2 {
                self.calls.streams += 1;
                self.device.stream()
            } else {
                self.device.per_thread_stream()
            };
            self.streams[on] = judge(self.refuses, "opening a stream", opened)?;
        }
        Ok(self.streams[on].is_some())
    }

    fn act(&mut self, step: Step) -> std::result::Result<(), Wrong> {
        match step {
            Step::Op { on, what, .. } => self.enqueue(on, what),
            Step::Record { on, .. } => self.record(on),
            Step::Wait { on, .. } => self.wait(on),
            Step::Close { on, .. } => {
                self.streams[on] = None;
                Ok(())
            }
            Step::Read { .. } => {
                if let Some(guard) = judge(self.refuses, "reading h", self.h.0.read())? {
                    check("h", &guard, &self.h.1)?;
                }
                Ok(())
            }
            Step::Write { .. } => {
                self.written += 1;
                let value = self.written;
                if let Some(mut guard) = judge(self.refuses, "writing h", self.h.0.write())? {
                    guard.fill(value);
                    self.h.1 = vec![value];
                }
                Ok(())
            }
            Step::Settle => {
                judge(self.refuses, "a wait for the device", self.device.synchronize()).map(drop)
            }
        }
    }

    fn enqueue(&mut self, on: Place, what: What) -> std::result::Result<(), Wrong> {
        if !self.open(on)? {
            return Ok(());
        }
        self.written += 1;
        let value = self.written;
        let Some(stream) = &self.streams[on] else { return Ok(()) };
        let ((h, h_values), (x, x_values)) = (&mut self.h, &mut self.x);
        let (result, values, new) = match what {
            What::FillH => (stream.fill_bytes(h, value), h_values, vec![value]),
            What::FillX => (stream.fill_bytes(x, value), x_values, vec![value]),
            What::Upload => (stream.copy(&*h, x), x_values, h_values.clone()),
            What::Download => (stream.copy(&*x, h), h_values, x_values.clone()),
        };
        match what {
            What::FillH | What::FillX => self.calls.fills += 1,
            What::Upload | What::Download => self.calls.copies += 1,
        }
        // An operation that returned an error may have been enqueued all the same.
        if judge(self.refuses, "an operation", result)?.is_some() {
            *values = new;
        } else {
            values.extend(new);
        }
        Ok(())
    }

    fn record(&mut self, on: Place) -> std::result::Result<(), Wrong> {
        let Some(stream) = &self.streams[on] else { return Ok(()) };
        if self.event.is_none() {
            self.event = judge(self.refuses, "creating an event", self.device.event())?;
        }
        if let Some(event) = &self.event {
            self.calls.records += 1;
            judge(self.refuses, "recording an event", event.record(stream))?;
        }
        Ok(())
    }

    fn wait(&mut self, on: Place) -> std::result::Result<(), Wrong> {
        if self.open(on)?
            && let (Some(stream), Some(event)) = (&self.streams[on], &self.event)
        {
            self.calls.waits += 1;
            judge(self.refuses, "a wait for an event", stream.wait(event))?;
        }
        Ok(())
    }

    /// Examines the state after the sequence, and again after the device has done all work.
    fn look(&mut self, last: Last) -> std::result::Result<(), Wrong> {
        let refuses = self.refuses;
        let mut copied = None;
        let mut stream = None;
        if last.copies_first {
            self.calls.streams += 1;
            stream = judge(refuses, "opening a stream", self.device.stream())?;
        }
        if let Some(stream) = &stream {
            self.calls.copies += 1;
            let result = stream.copy(&self.x.0, &mut self.copy);
            if judge(refuses, "the copy of x", result)?.is_some() {
                copied = judge(refuses, "reading the copy of x", self.copy.read())?;
            }
        }
        if let Some(copied) = &copied {
            check("the copy of x", copied, &self.x.1)?;
        }
        let guard = judge(refuses, "reading h", self.h.0.read())?;
        if let Some(guard) = &guard {
            check("h", guard, &self.h.1)?;
        }
        judge(refuses, "a wait for the device", self.device.synchronize())?;
        let held = [
            ("the copy of x, while held,", copied, &self.x.1),
            ("h, while held,", guard, &self.h.1),
        ];
        for (name, guard, values) in held {
            if let Some(guard) = guard {
                check(name, &guard, values)?;
            }
        }
        Ok(())
    }

    fn calls(&self) -> Calls {
        let made = self.device.ordering();
        Calls {
            records: self.calls.records + made.records,
            waits: self.calls.waits + made.waits,
            ..self.calls
        }
    }
}

/// A part of a sequence that one thread takes: its steps, and the examination if it is the last
/// part.
struct Part {
    by: Thread,
    steps: Vec<Step>,
    last: Option<Last>,
}

/// A sequence while it runs.
struct Running {
    world: World,
    parts: VecDeque<Part>,
    outcome: std::result::Result<(), Wrong>,
}

impl Running {
    fn new(program: &Program) -> std::result::Result<Self, Wrong> {
        let world = World::new(program).map_err(|error| format!("opening fails: {error}"))?;
        let chunks = program.steps.chunk_by(|one, other| one.by() == other.by());
        let part = |steps: &[Step]| Part {
            by: steps.first().map_or(0, |step| step.by()),
            steps: steps.to_vec(),
            last: None,
        };
        let end = Part { by: program.last.by, steps: Vec::new(), last: Some(program.last) };
        let parts = chunks.map(part).chain([end]).collect();
        Ok(Self { world, parts, outcome: Ok(()) })
    }

    /// The thread whose turn it is; `None` after the end, and after a failure.
    fn next(&self) -> Option<Thread> {
        self.parts.front().filter(|_| self.outcome.is_ok()).map(|part| part.by)
    }

    /// Takes the next parts of `thread`.
    fn advance(&mut self, thread: Thread) {
        while self.next() == Some(thread)
            && let Some(part) = self.parts.pop_front()
        {
            let Self { world, outcome, .. } = self;
            *outcome = part.steps.into_iter().try_for_each(|step| world.act(step));
            if let (Ok(()), Some(last)) = (&outcome, part.last) {
                *outcome = world.look(last);
            }
        }
    }
}

/// Sequences that run together.
type Batch = Vec<std::result::Result<Running, Wrong>>;

fn advance(batch: &mut Batch, thread: Thread) {
    batch.iter_mut().flatten().for_each(|running| running.advance(thread));
}

/// A thread that takes its parts of the sequences of a batch.
struct Worker {
    todo: Sender<Batch>,
    done: Receiver<Batch>,
}

impl Worker {
    fn new(thread: Thread) -> Self {
        let ((todo, batches), (tell, done)) = (channel::<Batch>(), channel());
        std::thread::spawn(move || {
            for mut batch in batches {
                advance(&mut batch, thread);
                if tell.send(batch).is_err() {
                    return;
                }
            }
        });
        Self { todo, done }
    }

    fn advance(&self, batch: Batch) -> Batch {
        self.todo.send(batch).expect("a worker ends when its handle is dropped");
        self.done.recv().expect("no step of a sequence panics")
    }
}

/// The host threads of the sequences: the caller is thread 0, and the others serve all sequences. A
/// thread has separate knowledge for each driver, and each sequence opens its own driver.
pub(crate) struct HostThreads {
    workers: [Worker; 2],
    /// The number of batches so far and the current batch, for the report of a hang.
    pub(crate) current: Arc<Mutex<(u64, Vec<Program>)>>,
}

/// The limit for the sequences of a batch. Threads pass a batch on as a whole. A thread remembers
/// its knowledge for 16 drivers.
pub(crate) const BATCH: usize = 8;

impl HostThreads {
    pub(crate) fn new() -> Self {
        Self { workers: [Worker::new(1), Worker::new(2)], current: Arc::default() }
    }

    /// Runs up to [`BATCH`] sequences; returns the calls that each made, or its failure.
    pub(crate) fn run(&self, programs: &[Program]) -> Vec<std::result::Result<Calls, Wrong>> {
        assert!(programs.len() <= BATCH, "a thread forgets what it knew of the first of them");
        {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            current.0 += 1;
            current.1 = programs.to_vec();
        }
        let mut batch: Batch = programs.iter().map(Running::new).collect();
        let has = |batch: &Batch, thread| {
            batch.iter().flatten().any(|running| running.next() == Some(thread))
        };
        while batch.iter().flatten().any(|running| running.next().is_some()) {
            advance(&mut batch, 0);
            for (worker, thread) in self.workers.iter().zip(1..) {
                if has(&batch, thread) {
                    batch = worker.advance(batch);
                }
            }
        }
        let ended = batch.into_iter();
        ended.map(|one| one.and_then(|ran| ran.outcome.map(|()| ran.world.calls()))).collect()
    }
}
