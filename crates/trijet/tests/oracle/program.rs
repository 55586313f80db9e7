//! What a random program is: streams, events and phases of scripts, as plain data.
//!
//! A program starts with no buffer; steps make them. The scripts of a phase run on host threads of
//! their own and nothing of one waits for another but events and tickets; then all are joined. The
//! safe interface lets one thread at a time change a buffer, so in a phase a buffer belongs to one
//! script or is only read, and likewise a stream that is replaced. [`Program::keep_valid`] removes
//! every step that breaks this or that names what is not there, so that a program may be cut down
//! anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Legacy,
    PerThread,
    Blocking,
    NonBlocking,
}

impl StreamKind {
    /// A default stream cannot be given back.
    pub(crate) fn is_default(self) -> bool {
        matches!(self, Self::Legacy | Self::PerThread)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamSpec {
    pub(crate) kind: StreamKind,
    pub(crate) device: usize,
}

/// Where a buffer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Device(usize),
    Pinned,
    Pageable,
}

/// A buffer as the steps up to some point left it; lengths are in words of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) place: Place,
    pub(crate) len: u64,
}

impl Shape {
    /// Whether kernels and fills of `device` may use it.
    pub(crate) fn is_near(self, device: usize) -> bool {
        match self.place {
            Place::Device(home) => home == device,
            Place::Pinned => true,
            Place::Pageable => false,
        }
    }
}

/// Some words of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) buffer: usize,
    pub(crate) range: Range<u64>,
}

impl Part {
    pub(crate) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub(crate) fn indices(&self) -> Range<usize> {
        let index = |word| usize::try_from(word).expect("buffers are short");
        index(self.range.start)..index(self.range.end)
    }
}

/// When the sources of a batch may be read (law A19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sources {
    InStreamOrder,
    DuringCall,
    AnyTime,
}

/// One call of a program, by the numbers of what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Copy {
        stream: usize,
        from: Part,
        to: Part,
    },
    Batch {
        stream: usize,
        sources: Sources,
        copies: Vec<(Part, Part)>,
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
    /// The synchronous copy, on the legacy stream.
    CopyNow {
        device: usize,
        from: Part,
        to: Part,
    },
    FillNow {
        device: usize,
        to: Part,
        value: u8,
    },
    /// Drop what has this number, allocate in the stream, and fill.
    Alloc {
        buffer: usize,
        stream: usize,
        len: u64,
        value: u8,
    },
    /// Drop what has this number, allocate host memory, and write to it.
    AllocHost {
        buffer: usize,
        place: Place,
        len: u64,
        seed: u64,
    },
    Drop {
        buffer: usize,
    },
    /// The words from `at` on become the buffer `into`.
    Split {
        buffer: usize,
        at: u64,
        into: usize,
    },
    Write {
        buffer: usize,
        seed: u64,
    },
    Read {
        buffer: usize,
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
    SyncEvent {
        event: usize,
    },
    QueryEvent {
        event: usize,
    },
    Sync {
        stream: usize,
    },
    Query {
        stream: usize,
    },
    SyncDevice {
        device: usize,
    },
    /// Drop the stream with whatever it still holds, and make another one of its kind.
    Replace {
        stream: usize,
    },
    /// Leave a ticket for all that the stream holds.
    Ticket {
        ticket: usize,
        stream: usize,
    },
    /// Wait for the ticket, if it was left already.
    Await {
        ticket: usize,
    },
}

/// Whether a step leaves something as it is for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Shared,
    Alone,
}

impl Step {
    /// The stream it is enqueued in or waits for.
    pub(crate) fn stream(&self) -> Option<usize> {
        match self {
            Self::Copy { stream, .. }
            | Self::Batch { stream, .. }
            | Self::Mix { stream, .. }
            | Self::Fill { stream, .. }
            | Self::Alloc { stream, .. }
            | Self::HostFn { stream }
            | Self::Record { stream, .. }
            | Self::Wait { stream, .. }
            | Self::Sync { stream }
            | Self::Query { stream }
            | Self::Replace { stream }
            | Self::Ticket { stream, .. } => Some(*stream),
            _ => None,
        }
    }

    pub(crate) fn stream_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Copy { stream, .. }
            | Self::Batch { stream, .. }
            | Self::Mix { stream, .. }
            | Self::Fill { stream, .. }
            | Self::Alloc { stream, .. }
            | Self::HostFn { stream }
            | Self::Record { stream, .. }
            | Self::Wait { stream, .. }
            | Self::Sync { stream }
            | Self::Query { stream }
            | Self::Replace { stream }
            | Self::Ticket { stream, .. } => Some(stream),
            _ => None,
        }
    }

    pub(crate) fn event_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Record { event, .. }
            | Self::Wait { event, .. }
            | Self::SyncEvent { event }
            | Self::QueryEvent { event } => Some(event),
            _ => None,
        }
    }

    /// What it reads and what it changes, for the verbs that compute something.
    pub(crate) fn parts(&self) -> (Vec<&Part>, Vec<&Part>) {
        match self {
            Self::Copy { from, to, .. } | Self::CopyNow { from, to, .. } => (vec![from], vec![to]),
            Self::Mix { x, y, .. } => (vec![x], vec![y]),
            Self::Fill { to, .. } | Self::FillNow { to, .. } => (vec![], vec![to]),
            Self::Batch { copies, .. } => copies.iter().map(|(from, to)| (from, to)).unzip(),
            _ => (vec![], vec![]),
        }
    }

    /// The buffers it borrows or owns.
    pub(crate) fn buffers(&self) -> Vec<(usize, Hold)> {
        let (read, written) = self.parts();
        let mut all: Vec<(usize, Hold)> = read.iter().map(|p| (p.buffer, Hold::Shared)).collect();
        all.extend(written.iter().map(|p| (p.buffer, Hold::Alone)));
        match self {
            Self::Alloc { buffer, .. }
            | Self::AllocHost { buffer, .. }
            | Self::Drop { buffer }
            | Self::Write { buffer, .. } => all.push((*buffer, Hold::Alone)),
            Self::Read { buffer } => all.push((*buffer, Hold::Shared)),
            Self::Split { buffer, into, .. } => {
                all.extend([(*buffer, Hold::Alone), (*into, Hold::Alone)]);
            }
            _ => {}
        }
        all
    }
}

/// Scripts that run at the same time. A single one runs on the main thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Phase {
    pub(crate) scripts: Vec<Vec<Step>>,
}

/// A step by its phase, its script there, and its number in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) phase: usize,
    pub(crate) script: usize,
    pub(crate) step: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Program {
    pub(crate) devices: usize,
    pub(crate) streams: Vec<StreamSpec>,
    /// The device of each event.
    pub(crate) events: Vec<usize>,
    pub(crate) phases: Vec<Phase>,
}

/// Who holds something during a phase.
#[derive(Debug, Default)]
struct Holders {
    alone: BTreeSet<usize>,
    all: BTreeSet<usize>,
}

impl Holders {
    fn admits(&self, script: usize, hold: Hold) -> bool {
        let strangers = match hold {
            Hold::Shared => &self.alone,
            Hold::Alone => &self.all,
        };
        strangers.iter().all(|holder| *holder == script)
    }

    fn add(&mut self, script: usize, hold: Hold) {
        self.all.insert(script);
        if hold == Hold::Alone {
            self.alone.insert(script);
        }
    }
}

/// Walks through a program and knows what is there.
#[derive(Debug, Default)]
struct Walk {
    shapes: BTreeMap<usize, Shape>,
    buffers: BTreeMap<usize, Holders>,
    streams: BTreeMap<usize, Holders>,
}

impl Walk {
    fn has(&self, part: &Part) -> bool {
        let shape = self.shapes.get(&part.buffer);
        part.range.start < part.range.end && shape.is_some_and(|s| part.range.end <= s.len)
    }

    fn is_near(&self, part: &Part, device: usize) -> bool {
        self.shapes.get(&part.buffer).is_some_and(|shape| shape.is_near(device))
    }

    fn is_of_host(&self, buffer: usize) -> bool {
        let shape = self.shapes.get(&buffer);
        shape.is_some_and(|shape| !matches!(shape.place, Place::Device(_)))
    }

    /// From which device to which, if any: the copies of a batch go one way.
    fn way(&self, (from, to): &(Part, Part)) -> (Option<usize>, Option<usize>) {
        let device = |part: &Part| match self.shapes[&part.buffer].place {
            Place::Device(device) => Some(device),
            Place::Pinned | Place::Pageable => None,
        };
        (device(from), device(to))
    }

    /// The rules of one verb, whoever else is there.
    fn makes_sense(&self, program: &Program, step: &Step) -> bool {
        let device_of = |stream: usize| program.streams[stream].device;
        let (read, written) = step.parts();
        let targets: BTreeSet<usize> = written.iter().map(|part| part.buffer).collect();
        let is_apart = targets.len() == written.len()
            && read.iter().all(|part| !targets.contains(&part.buffer))
            && read.iter().zip(&written).all(|(from, to)| from.len() == to.len())
            && read.iter().chain(&written).all(|part| self.has(part));
        let near = |device| read.iter().chain(&written).all(|part| self.is_near(part, device));
        is_apart
            && match step {
                Step::Mix { stream, .. } | Step::Fill { stream, .. } => near(device_of(*stream)),
                Step::CopyNow { device, .. } => *device < program.devices,
                Step::FillNow { device, .. } => *device < program.devices && near(*device),
                // The driver refuses a batch in the legacy stream (measured).
                Step::Batch { stream, copies, .. } => {
                    let ways: BTreeSet<_> = copies.iter().map(|copy| self.way(copy)).collect();
                    ways.len() == 1 && program.streams[*stream].kind != StreamKind::Legacy
                }
                Step::Alloc { len, .. } | Step::AllocHost { len, .. } => *len > 0,
                Step::Drop { buffer } => self.shapes.contains_key(buffer),
                Step::Split { buffer, at, into } => {
                    let shape = self.shapes.get(buffer);
                    shape.is_some_and(|shape| 0 < *at && *at < shape.len)
                        && !self.shapes.contains_key(into)
                }
                Step::Write { buffer, .. } | Step::Read { buffer } => self.is_of_host(*buffer),
                // Law A6: an event is recorded on its own device only.
                Step::Record { event, stream } => program.events[*event] == device_of(*stream),
                Step::SyncDevice { device } => *device < program.devices,
                Step::Replace { stream } => !program.streams[*stream].kind.is_default(),
                _ => true,
            }
    }

    fn is_valid(&self, program: &Program, script: usize, step: &Step) -> bool {
        let stream_is_there = step.stream().is_none_or(|stream| stream < program.streams.len());
        let event_is_there = step.clone().event_mut().is_none_or(|e| *e < program.events.len());
        let admits = |holders: Option<&Holders>, hold| {
            holders.is_none_or(|holders| holders.admits(script, hold))
        };
        stream_is_there
            && event_is_there
            && self.makes_sense(program, step)
            && step.buffers().iter().all(|(b, hold)| admits(self.buffers.get(b), *hold))
            && stream_of(step).is_none_or(|(s, hold)| admits(self.streams.get(&s), hold))
    }

    fn take(&mut self, program: &Program, script: usize, step: &Step) {
        for (buffer, hold) in step.buffers() {
            self.buffers.entry(buffer).or_default().add(script, hold);
        }
        if let Some((stream, hold)) = stream_of(step) {
            self.streams.entry(stream).or_default().add(script, hold);
        }
        apply(&program.streams, &mut self.shapes, step);
    }
}

/// How a step holds its stream.
fn stream_of(step: &Step) -> Option<(usize, Hold)> {
    let hold = if matches!(step, Step::Replace { .. }) { Hold::Alone } else { Hold::Shared };
    Some((step.stream()?, hold))
}

/// What a valid step does to the buffers that are there.
pub(crate) fn apply(streams: &[StreamSpec], shapes: &mut BTreeMap<usize, Shape>, step: &Step) {
    match step {
        Step::Alloc { buffer, stream, len, .. } => {
            let place = Place::Device(streams[*stream].device);
            shapes.insert(*buffer, Shape { place, len: *len });
        }
        Step::AllocHost { buffer, place, len, .. } => {
            shapes.insert(*buffer, Shape { place: *place, len: *len });
        }
        Step::Drop { buffer } => {
            shapes.remove(buffer);
        }
        Step::Split { buffer, at, into } => {
            let whole = shapes[buffer];
            shapes.insert(*buffer, Shape { len: *at, ..whole });
            shapes.insert(*into, Shape { len: whole.len - at, ..whole });
        }
        _ => {}
    }
}

impl Program {
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.phases.iter().flat_map(|phase| phase.scripts.iter().flatten())
    }

    /// Removes every step that makes no sense where it is, and says whether there was one.
    pub(crate) fn keep_valid(&mut self) -> bool {
        let mut walk = Walk::default();
        let mut removed = false;
        let frame = Self { phases: Vec::new(), ..self.clone() };
        for phase in &mut self.phases {
            walk.buffers.clear();
            walk.streams.clear();
            for (script, steps) in phase.scripts.iter_mut().enumerate() {
                steps.retain(|step| {
                    let valid = walk.is_valid(&frame, script, step);
                    if valid {
                        walk.take(&frame, script, step);
                    }
                    removed |= !valid;
                    valid
                });
            }
        }
        removed
    }
}
