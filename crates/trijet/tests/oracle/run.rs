//! Runs a program on devices, through the public interface.

use crate::program::{At, Hold, Part, Phase, Place, Program, Sources, Step, StreamKind};
use crate::reference::words;
use crate::serial::{Line, Outcome, thread_of};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use trijet::device::driver::SourceOrder;
use trijet::kernels::MIX;
use trijet::{
    Batch, Buffer, Device, Event, PageableBuffer, PinnedBuffer, Result, Stream, Ticket, View,
    ViewMut,
};

/// A result whose error names the call that failed.
type Told<T> = std::result::Result<T, String>;
type Buffers = BTreeMap<usize, Held>;

/// A buffer of a running program.
enum Held {
    Device(Buffer<u64>),
    Pinned(PinnedBuffer<u64>),
    Pageable(PageableBuffer<u64>),
}

impl Held {
    fn host(device: &Device, place: Place, len: u64, seed: u64) -> Result<Self> {
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

    fn len(&self) -> u64 {
        match self {
            Self::Device(buffer) => buffer.len(),
            Self::Pinned(buffer) => buffer.len(),
            Self::Pageable(buffer) => buffer.len(),
        }
    }

    fn split(self, at: u64) -> (Self, Self) {
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

    fn read(&self) -> Result<Vec<u64>> {
        match self {
            Self::Pinned(buffer) => Ok(buffer.read()?.to_vec()),
            Self::Pageable(buffer) => Ok(buffer.read()?.to_vec()),
            Self::Device(_) => unreachable!("valid programs read host memory only"),
        }
    }
}

/// A stream and how often it was replaced. Never locked across a call.
type Slot = Mutex<(usize, Arc<Stream>)>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics under these locks")
}

/// What all scripts of a program share.
struct World<'a> {
    program: &'a Program,
    devices: &'a [Device],
    /// None for per-thread streams: each thread asks for its own.
    streams: Vec<Option<Slot>>,
    events: Vec<Event>,
    tickets: Mutex<BTreeMap<usize, Arc<Ticket>>>,
    notes: Arc<Mutex<BTreeMap<Line, Vec<At>>>>,
    reads: Mutex<BTreeMap<At, Vec<u64>>>,
    /// The main thread records this between the phases, so that the record of the run shows where
    /// threads were joined.
    pulse: (Stream, Event),
}

fn open_stream(devices: &[Device], program: &Program, number: usize) -> Result<Stream> {
    let spec = program.streams[number];
    let device = &devices[spec.device];
    match spec.kind {
        StreamKind::Legacy => device.legacy_stream(),
        StreamKind::PerThread => device.per_thread_stream(),
        StreamKind::Blocking => device.blocking_stream(),
        StreamKind::NonBlocking => device.stream(),
    }
}

impl<'a> World<'a> {
    fn new(devices: &'a [Device], program: &'a Program) -> Result<Self> {
        let slot = |number: usize| match program.streams[number].kind {
            StreamKind::PerThread => Ok(None),
            _ => {
                let stream = Arc::new(open_stream(devices, program, number)?);
                Ok(Some(Mutex::new((0, stream))))
            }
        };
        Ok(Self {
            program,
            devices,
            streams: (0..program.streams.len()).map(slot).collect::<Result<_>>()?,
            events: program.events.iter().map(|d| devices[*d].event()).collect::<Result<_>>()?,
            tickets: Mutex::default(),
            notes: Arc::default(),
            reads: Mutex::default(),
            pulse: (devices[0].stream()?, devices[0].event()?),
        })
    }
}

/// A script that runs.
struct Script<'a> {
    world: &'a World<'a>,
    own: Buffers,
    shared: &'a Buffers,
    /// This thread's per-thread streams, by the number of the stream.
    mine: BTreeMap<usize, Arc<Stream>>,
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
                let stream = self.stream(*stream)?;
                self.own.remove(buffer);
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
                let words = held.expect("a valid step reads what is there").read()?;
                locked(&self.world.reads).insert(at, words);
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
            | Step::Read { .. } => self.holding(at, step),
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

    /// Runs the script and gives back what it owns.
    fn run(mut self, phase: usize, script: usize) -> Told<Buffers> {
        let steps = &self.world.program.phases[phase].scripts[script];
        for (number, step) in steps.iter().enumerate() {
            let at = At { phase, script, step: number };
            self.step(at, step).map_err(|error| format!("`{step}` at {at:?}: {error}"))?;
        }
        Ok(self.own)
    }
}

/// Deals the buffers to the scripts that change them; the rest is for all.
fn deal(phase: &Phase, mut held: Buffers) -> (Vec<Buffers>, Buffers) {
    let owned = phase.scripts.iter().map(|script| {
        let all = script.iter().flat_map(Step::buffers);
        let alone: BTreeSet<usize> =
            all.filter(|(_, hold)| *hold == Hold::Alone).map(|(buffer, _)| buffer).collect();
        held.extract_if(.., |buffer, _| alone.contains(buffer)).collect()
    });
    (owned.collect(), held)
}

impl World<'_> {
    fn phase(&self, number: usize, held: Buffers) -> Told<Buffers> {
        let (owned, shared) = deal(&self.program.phases[number], held);
        let ends: Vec<Mutex<Told<Buffers>>> =
            owned.iter().map(|_| Mutex::new(Ok(BTreeMap::new()))).collect();
        let scripts = owned.into_iter().zip(&ends).enumerate().map(|(script, (own, end))| {
            let running = Script { world: self, own, shared: &shared, mine: BTreeMap::new() };
            let run: Box<dyn FnOnce() + Send + '_> =
                Box::new(move || *locked(end) = running.run(number, script));
            run
        });
        let scripts: Vec<_> = scripts.collect();
        if scripts.len() == 1 {
            scripts.into_iter().for_each(|run| run());
        } else {
            self.devices[0].script(scripts);
        }
        let mut held = BTreeMap::new();
        for end in ends {
            held.extend(end.into_inner().expect("no script panics")?);
        }
        held.extend(shared);
        Ok(held)
    }

    /// Everything the program left, read through some stream of it.
    fn left(&self, held: &Buffers) -> Result<BTreeMap<usize, Vec<u64>>> {
        let mut left = BTreeMap::new();
        for (number, held) in held {
            let words = match held {
                Held::Device(buffer) => {
                    let streams = self.streams.len().max(1);
                    let slot = self.streams.get(number % streams).and_then(Option::as_ref);
                    let stream = match slot {
                        Some(slot) => Arc::clone(&locked(slot).1),
                        None => Arc::new(self.devices[0].stream()?),
                    };
                    let mut landed = self.devices[0].pinned::<u64>(buffer.len())?;
                    stream.copy(buffer, &mut landed)?;
                    landed.read()?.to_vec()
                }
                host => host.read()?,
            };
            left.insert(*number, words);
        }
        Ok(left)
    }
}

/// Runs a valid program; everything is complete afterwards.
///
/// # Errors
/// What a call reported, with the call.
pub(crate) fn run(devices: &[Device], program: &Program) -> Told<Outcome> {
    let plain = |error: trijet::Error| error.to_string();
    let world = World::new(devices, program).map_err(plain)?;
    let mut held = BTreeMap::new();
    for number in 0..program.phases.len() {
        world.pulse.1.record(&world.pulse.0).map_err(plain)?;
        held = world.phase(number, held)?;
    }
    let left = world.left(&held).map_err(plain)?;
    drop(held);
    let World { streams, events, tickets, notes, reads, .. } = world;
    drop((streams, events, tickets));
    devices.iter().try_for_each(Device::synchronize).map_err(plain)?;
    let notes = std::mem::take(&mut *locked(&notes));
    let reads = reads.into_inner().expect("no script panics");
    Ok(Outcome { reads, left, notes }.normalised())
}
