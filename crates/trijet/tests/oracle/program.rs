//! Random programs, the serial interpreter that says what they compute, and the runner that
//! gives them to a device.

use crate::reference::{mix, words};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use trijet::base::prng::Prng;
use trijet::kernels::MIX;
use trijet::{Buffer, Device, Error, Event, PinnedBuffer, Result, Stream, View, ViewMut};

/// Some words of a buffer.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    buffer: usize,
    range: Range<u64>,
}

/// One call of a program. Streams, buffers and events are numbered.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Copy {
        stream: usize,
        from: Part,
        to: Part,
    },
    Mix {
        stream: usize,
        salt: u64,
        x: Part,
        y: Part,
    },
    Fill {
        stream: usize,
        to: Part,
        value: u8,
    },
    /// The host overwrites a page-locked buffer.
    Write {
        buffer: usize,
        seed: u64,
    },
    /// The host reads a page-locked buffer.
    Read {
        buffer: usize,
    },
    /// Drop the buffer, and allocate and fill another one.
    Renew {
        buffer: usize,
        stream: usize,
        value: u8,
    },
    /// The words from `at` on become a buffer of their own, the last one.
    Split {
        buffer: usize,
        at: u64,
    },
    HostFn {
        stream: usize,
    },
    Record {
        event: usize,
        stream: usize,
    },
    Wait {
        event: usize,
        stream: usize,
    },
    Synchronize {
        stream: usize,
    },
    /// Drop the stream with whatever it still holds, and make another one.
    Replace {
        stream: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    Pinned,
}

#[derive(Debug)]
pub(crate) struct Program {
    streams: usize,
    /// The last two are those of `Step::Replace`, for streams of even and of odd number.
    pub(crate) events: usize,
    buffers: Vec<(Kind, u64)>,
    steps: Vec<Step>,
}

/// What a user sees of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The words of every read by the host, and of every buffer at the end.
    reads: Vec<Vec<u64>>,
    /// The host functions that ran, per stream, by step.
    notes: Vec<Vec<usize>>,
}

/// Where the choices of a program come from.
enum Dice<'a> {
    Seed(Prng),
    /// As many as are left, then zeros.
    Bytes(&'a [u8]),
}

impl Dice<'_> {
    fn byte(bytes: &mut &[u8]) -> u64 {
        bytes.split_off_first().map_or(0, |byte| u64::from(*byte))
    }

    /// A number in `0..bound`; as few bytes as can say it, so that a changed byte is one choice.
    fn below(&mut self, bound: u64) -> u64 {
        match self {
            Self::Seed(prng) => prng.below(bound),
            Self::Bytes(_) if bound <= 1 => 0,
            Self::Bytes(bytes) if bound <= 256 => Self::byte(bytes) % bound,
            Self::Bytes(bytes) => (Self::byte(bytes) << 8 | Self::byte(bytes)) % bound,
        }
    }

    /// Any number; nothing depends on which one.
    fn any(&mut self) -> u64 {
        match self {
            Self::Seed(prng) => prng.next_u64(),
            Self::Bytes(bytes) => Self::byte(bytes),
        }
    }
}

/// Draws a program step by step.
struct Draw<'a> {
    dice: Dice<'a>,
    streams: usize,
    events: usize,
    buffers: Vec<(Kind, u64)>,
}

impl Draw<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.dice.below(bound as u64)).expect("below a usize")
    }

    fn part(&mut self, buffer: usize, len: u64) -> Part {
        let start = self.dice.below(self.buffers[buffer].1 - len + 1);
        Part { buffer, range: start..start + len }
    }

    /// Equally long parts of two buffers, often all of the shorter.
    fn pair(&mut self) -> (Part, Part) {
        let a = self.below(self.buffers.len());
        let b = (a + 1 + self.below(self.buffers.len() - 1)) % self.buffers.len();
        let most = self.buffers[a].1.min(self.buffers[b].1);
        let len = if self.below(2) == 0 { most } else { 1 + self.dice.below(most) };
        (self.part(a, len), self.part(b, len))
    }

    fn pinned(&mut self) -> Option<usize> {
        let first = self.below(self.buffers.len());
        let count = self.buffers.len();
        (first..first + count).map(|n| n % count).find(|n| self.buffers[*n].0 == Kind::Pinned)
    }

    fn step(&mut self) -> Step {
        let stream = self.below(self.streams);
        let event = self.below(self.events - 2);
        let buffer = self.below(self.buffers.len());
        let value = self.dice.any().to_le_bytes()[0];
        match self.below(24) {
            0..6 => {
                let (from, to) = self.pair();
                Step::Copy { stream, from, to }
            }
            6..13 => {
                let (x, y) = self.pair();
                Step::Mix { stream, salt: self.dice.any(), x, y }
            }
            13 => {
                let len = 1 + self.dice.below(self.buffers[buffer].1);
                Step::Fill { stream, to: self.part(buffer, len), value }
            }
            14 => match self.pinned() {
                Some(buffer) => Step::Write { buffer, seed: self.dice.any() },
                None => Step::Synchronize { stream },
            },
            15 => match self.pinned() {
                Some(buffer) => Step::Read { buffer },
                None => Step::HostFn { stream },
            },
            16 | 17 => Step::Renew { buffer, stream, value },
            18 if self.buffers[buffer].1 >= 8 && self.buffers.len() < 9 => {
                let (kind, len) = self.buffers[buffer];
                let at = 1 + self.dice.below(len - 1);
                self.buffers[buffer].1 = at;
                self.buffers.push((kind, len - at));
                Step::Split { buffer, at }
            }
            18 | 19 => Step::HostFn { stream },
            20 => Step::Record { event, stream },
            21 => Step::Wait { event, stream },
            22 => Step::Synchronize { stream },
            _ => Step::Replace { stream },
        }
    }
}

impl Program {
    pub(crate) fn random(seed: u64) -> Self {
        Self::drawn(Dice::Seed(Prng::new(seed)))
    }

    /// The program that `bytes` choose; any bytes choose one.
    pub(crate) fn chosen(bytes: &[u8]) -> Self {
        Self::drawn(Dice::Bytes(bytes))
    }

    fn drawn(dice: Dice<'_>) -> Self {
        let mut draw = Draw { dice, streams: 0, events: 4, buffers: Vec::new() };
        draw.streams = 2 + draw.below(4);
        for _ in 0..2 + draw.below(4) {
            let kind = if draw.below(3) == 0 { Kind::Pinned } else { Kind::Device };
            let len = 64 + draw.dice.below(449);
            draw.buffers.push((kind, len));
        }
        let buffers = draw.buffers.clone();
        let count = 5 + draw.below(56);
        let steps = (0..count).map(|_| draw.step()).collect();
        Self { streams: draw.streams, events: draw.events, buffers, steps }
    }

    /// A producer on one stream, a consumer on another, nothing else.
    pub(crate) fn one_crossing() -> Self {
        let all = |buffer| Part { buffer, range: 0..512 };
        let mut steps: Vec<Step> =
            (0..6).map(|salt| Step::Mix { stream: 0, salt, x: all(0), y: all(1) }).collect();
        steps.push(Step::Mix { stream: 1, salt: 9, x: all(1), y: all(2) });
        let buffers = vec![(Kind::Pinned, 512); 3];
        Self { streams: 2, events: 0, buffers, steps }
    }

    /// What the program means: one call after the other.
    pub(crate) fn serial(&self) -> Outcome {
        let mut buffers: Vec<Vec<u64>> =
            (0..).zip(&self.buffers).map(|(seed, (_, len))| words(seed, *len)).collect();
        let mut kinds: Vec<Kind> = self.buffers.iter().map(|(kind, _)| *kind).collect();
        let (mut reads, mut notes) = (Vec::new(), vec![Vec::new(); self.streams]);
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                Step::Copy { from, to, .. } => {
                    let words = buffers[from.buffer][indices(from)].to_vec();
                    buffers[to.buffer][indices(to)].copy_from_slice(&words);
                }
                Step::Mix { salt, x, y, .. } => {
                    let x = buffers[x.buffer][indices(x)].to_vec();
                    mix(*salt, &x, &mut buffers[y.buffer][indices(y)]);
                }
                Step::Fill { to, value, .. } => {
                    buffers[to.buffer][indices(to)].fill(u64::from_ne_bytes([*value; 8]));
                }
                Step::Write { buffer, seed } => {
                    buffers[*buffer] = words(*seed, buffers[*buffer].len() as u64);
                }
                Step::Read { buffer } => reads.push(buffers[*buffer].clone()),
                Step::Renew { buffer, value, .. } => {
                    buffers[*buffer].fill(u64::from_ne_bytes([*value; 8]));
                }
                Step::Split { buffer, at } => {
                    let at = usize::try_from(*at).expect("a short buffer");
                    let right = buffers[*buffer].split_off(at);
                    buffers.push(right);
                    kinds.push(kinds[*buffer]);
                }
                Step::HostFn { stream } => notes[*stream].push(number),
                Step::Record { .. }
                | Step::Wait { .. }
                | Step::Synchronize { .. }
                | Step::Replace { .. } => {}
            }
        }
        reads.extend(buffers);
        Outcome { reads, notes }
    }
}

fn indices(part: &Part) -> Range<usize> {
    let index = |word| usize::try_from(word).expect("a short buffer");
    index(part.range.start)..index(part.range.end)
}

/// A buffer of a running program.
enum Held {
    Device(Buffer<u64>),
    Pinned(PinnedBuffer<u64>),
}

impl Held {
    fn new(device: &Device, stream: &Stream, kind: Kind, len: u64) -> Result<Self> {
        match kind {
            Kind::Device => stream.alloc(len).map(Self::Device),
            Kind::Pinned => device.pinned(len).map(Self::Pinned),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Device(_) => Kind::Device,
            Self::Pinned(_) => Kind::Pinned,
        }
    }

    fn view(&self) -> View<'_, u64> {
        match self {
            Self::Device(buffer) => buffer.view(),
            Self::Pinned(buffer) => buffer.view(),
        }
    }

    fn view_mut(&mut self) -> ViewMut<'_, u64> {
        match self {
            Self::Device(buffer) => buffer.view_mut(),
            Self::Pinned(buffer) => buffer.view_mut(),
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
        }
    }

    fn pinned(&mut self) -> &mut PinnedBuffer<u64> {
        match self {
            Self::Pinned(buffer) => buffer,
            Self::Device(_) => unreachable!("the program knows which buffers the host reaches"),
        }
    }
}

/// A program that runs on devices. Streams and events are dealt to them in turn.
struct Run<'a> {
    devices: &'a [Device],
    streams: Vec<Stream>,
    events: Vec<Event>,
    buffers: Vec<Held>,
    reads: Vec<Vec<u64>>,
    notes: Arc<Mutex<Vec<Vec<usize>>>>,
}

/// The two buffers of an operation.
fn both<'a>(buffers: &'a mut [Held], from: &Part, to: &Part) -> (View<'a, u64>, ViewMut<'a, u64>) {
    let [source, target] =
        buffers.get_disjoint_mut([from.buffer, to.buffer]).expect("two buffers of the program");
    (source.view().slice(from.range.clone()), target.view_mut().slice(to.range.clone()))
}

/// Whether an operation was refused because its memory is another device's.
fn is_far(error: &Error) -> bool {
    error.to_string().contains("out of reach")
}

/// Mixes where the stream is: what lies on another device comes near by copies and goes back.
fn mix_near(s: &Stream, salt: u64, x: View<'_, u64>, mut y: ViewMut<'_, u64>) -> Result<()> {
    match s.launch(&MIX, (salt, x, &mut y)) {
        Err(error) if is_far(&error) => {}
        done => return done,
    }
    let (mut near_x, mut near_y) = (s.alloc(x.len())?, s.alloc(y.len())?);
    s.copy(&x, &mut near_x)?;
    s.copy(&y, &mut near_y)?;
    s.launch(&MIX, (salt, &near_x, &mut near_y))?;
    s.copy(&near_y, &mut y)
}

/// Fills where the stream is.
fn fill_near(s: &Stream, target: &mut ViewMut<'_, u64>, value: u8) -> Result<()> {
    match s.fill_bytes(target, value) {
        Err(error) if is_far(&error) => {}
        done => return done,
    }
    let mut near = s.alloc::<u64>(target.len())?;
    s.fill_bytes(&mut near, value)?;
    s.copy(&near, target)
}

impl Run<'_> {
    /// The device of a stream or an event.
    fn device(&self, number: usize) -> &Device {
        &self.devices[number % self.devices.len()]
    }

    fn step(&mut self, number: usize, step: &Step) -> Result<()> {
        match step {
            Step::Copy { stream, from, to } => {
                let (source, mut target) = both(&mut self.buffers, from, to);
                self.streams[*stream].copy(&source, &mut target)
            }
            Step::Mix { stream, salt, x, y } => {
                let (x, y) = both(&mut self.buffers, x, y);
                mix_near(&self.streams[*stream], *salt, x, y)
            }
            Step::Fill { stream, to, value } => {
                let mut target = self.buffers[to.buffer].view_mut().slice(to.range.clone());
                fill_near(&self.streams[*stream], &mut target, *value)
            }
            Step::Write { buffer, seed } => {
                let mut guard = self.buffers[*buffer].pinned().write()?;
                let words = words(*seed, guard.len() as u64);
                guard.copy_from_slice(&words);
                Ok(())
            }
            Step::Read { buffer } => {
                let words = self.buffers[*buffer].pinned().read()?.to_vec();
                self.reads.push(words);
                Ok(())
            }
            Step::Renew { buffer, stream, value } => self.renew(*buffer, *stream, *value),
            Step::Split { buffer, at } => {
                let (left, right) = self.buffers.remove(*buffer).split(*at);
                self.buffers.insert(*buffer, left);
                self.buffers.push(right);
                Ok(())
            }
            Step::HostFn { stream } => {
                let (notes, lane) = (Arc::clone(&self.notes), *stream);
                let note = move || notes.lock().expect("no note panics")[lane].push(number);
                self.streams[lane].host_fn(note)
            }
            // Law A6: only where both are of one device.
            Step::Record { event, stream } => match (event + stream) % self.devices.len() {
                0 => self.events[*event].record(&self.streams[*stream]),
                _ => Ok(()),
            },
            Step::Wait { event, stream } => self.streams[*stream].wait(&self.events[*event]),
            Step::Synchronize { stream } => self.streams[*stream].synchronize(),
            Step::Replace { stream } => self.replace(*stream),
        }
    }

    fn renew(&mut self, buffer: usize, stream: usize, value: u8) -> Result<()> {
        let held = self.buffers.remove(buffer);
        let (kind, len) = (held.kind(), held.view().len());
        drop(held);
        let held = Held::new(self.device(stream), &self.streams[stream], kind, len)?;
        self.buffers.insert(buffer, held);
        fill_near(&self.streams[stream], &mut self.buffers[buffer].view_mut(), value)
    }

    /// The old stream's host functions still come first: in notes, the two are one stream.
    fn replace(&mut self, stream: usize) -> Result<()> {
        let new = self.device(stream).stream()?;
        let end = &self.events[self.events.len() - 2 + stream % 2];
        end.record(&self.streams[stream])?;
        new.wait(end)?;
        self.streams[stream] = new;
        Ok(())
    }

    fn begin(&mut self, program: &Program) -> Result<()> {
        for (seed, (number, (kind, len))) in (0..).zip(program.buffers.iter().enumerate()) {
            let words = words(seed, *len);
            let stream = &self.streams[number % self.streams.len()];
            let mut staged = self.devices[0].pinned::<u64>(*len)?;
            staged.write()?.copy_from_slice(&words);
            let mut held = Held::new(&self.devices[0], stream, *kind, *len)?;
            match &mut held {
                Held::Device(buffer) => stream.copy(&staged, buffer)?,
                Held::Pinned(buffer) => buffer.write()?.copy_from_slice(&words),
            }
            self.buffers.push(held);
        }
        Ok(())
    }

    /// Everything the program left, read through another stream than the one that wrote it.
    fn end(mut self) -> Result<Outcome> {
        for (number, held) in self.buffers.iter().enumerate() {
            let stream = &self.streams[number % self.streams.len()];
            let mut landed = self.devices[0].pinned::<u64>(held.view().len())?;
            stream.copy(&held.view(), &mut landed)?;
            self.reads.push(landed.read()?.to_vec());
        }
        self.buffers.clear();
        self.streams.clear();
        self.devices.iter().try_for_each(Device::synchronize)?;
        let notes = std::mem::take(&mut *self.notes.lock().expect("no note panics"));
        Ok(Outcome { reads: self.reads, notes })
    }
}

/// Runs `program` on `devices`; everything is complete afterwards. `recorded` starts a record,
/// whose first entries are the records of the program's events, so that they can be told from
/// those of the ordering.
pub(crate) fn run(devices: &[Device], program: &Program, recorded: bool) -> Result<Outcome> {
    let of = |number: usize| &devices[number % devices.len()];
    let mut run = Run {
        devices,
        streams: (0..program.streams).map(|n| of(n).stream()).collect::<Result<_>>()?,
        events: (0..program.events).map(|n| of(n).event()).collect::<Result<_>>()?,
        buffers: Vec::new(),
        reads: Vec::new(),
        notes: Arc::new(Mutex::new(vec![Vec::new(); program.streams])),
    };
    if recorded {
        devices[0].record(&run.streams[0])?;
    }
    for (number, event) in run.events.iter().enumerate() {
        event.record(&run.streams[number % devices.len()])?;
    }
    run.begin(program)?;
    for (number, step) in program.steps.iter().enumerate() {
        run.step(number, step)?;
    }
    run.end()
}
