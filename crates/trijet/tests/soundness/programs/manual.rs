//! Programs that order their memory by hand, judged by a model of happens-before: a set of earlier
//! operations for each operation, stream and event. The checker has a finding exactly if the model
//! has two operations on the same bytes without an order. If the model has none, the bytes are the
//! same as after the steps one after another.
//!
//! All calls come from one thread, so an operation never precedes one that was enqueued before it
//! (A2). The rules: a stream is in order (A1); a record takes the set of its stream (A4), and a
//! wait adds this set to later work (A7); the host passes on the work that it waited for (A2, A8 to
//! A10); an operation in the legacy stream follows the blocking streams and precedes their later
//! operations, and records and waits are no such operations (A13 to A15); a graph follows its
//! previous launch (A31).

use super::draw::below;
use super::luck::{Checked, caught, must};
use super::memory::{BLEND, Cell, PANIC, Part, STIR, blend, compare, mix};
use super::world::Setup;
use std::fmt::Write as _;
use std::ops::Range;
use trijet::graph::Graph;
use trijet::testing::Prng;
use trijet::{Buffer, Device, Event, Readiness, Stream, StreamOptions, Uses};

const LEN: usize = 16;
const BUFFERS: usize = 3;
const EVENTS: usize = 3;
/// Two non-blocking streams, a blocking one, the per-thread one, and the legacy one.
const STREAMS: usize = 5;
const LEGACY: usize = 4;
/// The limit for the steps: operations are bits of a set, and a careful step may add no operation.
const STEPS: u64 = 30;

#[derive(Debug, Clone, Copy)]
enum Work {
    Fill(u32),
    Stir(u32),
    Copy,
    Blend(u32),
    /// `Device::fill_now`, in the legacy stream.
    FillNow(u8),
    /// A launch of a graph that blends its first argument into the second one, then stirs the
    /// second one.
    Graph(usize),
    /// A host function without memory.
    Nothing,
}

#[derive(Debug, Clone)]
enum Step {
    /// A careful operation waits for the operations that it conflicts with.
    Work {
        stream: usize,
        work: Work,
        from: (usize, Part),
        to: (usize, Part),
        is_careful: bool,
    },
    Record(usize, usize),
    Wait(usize, usize),
    SyncEvent(usize),
    QueryEvent(usize),
    SyncStream(usize),
    QueryStream(usize),
    SyncDevice,
}

fn draw(prng: &mut Prng) -> Vec<Step> {
    let care = prng.below(4);
    (0..4 + prng.below(STEPS - 4)).map(|_| step(prng, care)).collect()
}

fn step(prng: &mut Prng, care: u64) -> Step {
    let stream = below(prng, STREAMS as u64);
    let event = below(prng, EVENTS as u64);
    match prng.below(16) {
        0 | 1 => Step::Record(event, stream),
        2 | 3 => Step::Wait(stream, event),
        4 if prng.below(2) == 0 => Step::SyncEvent(event),
        4 => Step::QueryEvent(event),
        5 => match prng.below(4) {
            0 => Step::SyncDevice,
            1 => Step::QueryStream(stream),
            _ => Step::SyncStream(stream),
        },
        _ => {
            let salt = below(prng, u64::from(PANIC));
            let work = match prng.below(10) {
                0 | 1 => Work::Fill(salt),
                2 | 3 => Work::Stir(salt),
                4 => Work::Copy,
                5 => Work::Blend(salt),
                6 => Work::FillNow(below(prng, 256)),
                7 | 8 => Work::Graph(below(prng, 2)),
                _ => Work::Nothing,
            };
            let at = |prng: &mut Prng| {
                let buffer = below(prng, BUFFERS as u64);
                (buffer, Part(below(prng, 256), below(prng, 256)))
            };
            let is_careful = care == 0 || prng.below(8) < 3 * care;
            Step::Work { stream, work, from: at(prng), to: at(prng), is_careful }
        }
    }
}

/// A use of elements of a buffer.
struct Use {
    operation: u32,
    buffer: usize,
    range: Range<usize>,
    writes: bool,
}

/// A set of operations, a bit for each.
type Set = u64;

/// The order of operations.
#[derive(Default)]
struct Model {
    operations: u32,
    /// The set that a later operation of the stream follows.
    streams: [Set; STREAMS],
    events: [Option<Set>; EVENTS],
    /// The operations that the host knows to be complete.
    host: Set,
    /// The last launch of each graph, with the set that it follows.
    graphs: [Set; 2],
    uses: Vec<Use>,
    /// The streams of the operations.
    places: Vec<usize>,
    has_race: bool,
}

fn is_blocking(stream: usize) -> bool {
    stream == 2 || stream == 3
}

impl Model {
    /// The set that the legacy stream stands for: its own work and the work of the blocking
    /// streams.
    fn covered(&self, stream: usize) -> Set {
        if stream == LEGACY {
            self.streams[2] | self.streams[3] | self.streams[LEGACY]
        } else {
            self.streams[stream]
        }
    }

    /// The set that an operation would follow.
    fn before(&self, stream: usize, graph: Option<usize>) -> Set {
        let legacy = if is_blocking(stream) { self.streams[LEGACY] } else { 0 };
        self.covered(stream) | legacy | self.host | graph.map_or(0, |graph| self.graphs[graph])
    }

    /// Operations that use the same bytes without an order.
    fn racing(&self, uses: &[(usize, Range<usize>, bool)], before: Set) -> Vec<u32> {
        let races = |old: &&Use| {
            before & (1 << old.operation) == 0
                && uses.iter().any(|(buffer, range, writes)| {
                    let overlap = old.range.start < range.end && range.start < old.range.end;
                    *buffer == old.buffer && overlap && (*writes || old.writes)
                })
        };
        self.uses.iter().filter(races).map(|old| old.operation).collect()
    }

    fn operation(
        &mut self,
        stream: usize,
        graph: Option<usize>,
        uses: Vec<(usize, Range<usize>, bool)>,
    ) {
        let before = self.before(stream, graph);
        self.has_race |= !self.racing(&uses, before).is_empty();
        let operation = self.operations;
        let known = before | 1 << operation;
        self.operations += 1;
        self.places.push(stream);
        self.streams[stream] = known;
        if let Some(graph) = graph {
            self.graphs[graph] = known;
        }
        let new = uses.into_iter().map(|(buffer, range, writes)| Use {
            operation,
            buffer,
            range,
            writes,
        });
        self.uses.extend(new);
    }

    fn wait(&mut self, stream: usize, snapshot: Set) {
        // In the legacy stream a wait counts as an operation.
        self.streams[stream] = self.covered(stream) | snapshot;
    }
}

struct World {
    device: Device,
    streams: Vec<Stream>,
    buffers: Vec<Buffer<u32>>,
    cells: Vec<Vec<Cell>>,
    events: Vec<Event>,
    /// Events of careful steps.
    more: Vec<Event>,
    graphs: Vec<Graph>,
    model: Model,
}

/// The salts of the graphs.
const SALTS: [u32; 2] = [11, 12];

impl World {
    fn open(setup: &Setup) -> trijet::Result<Self> {
        let device = setup.open()?.remove(0);
        let blocking = device.stream_with(StreamOptions::new().blocking())?;
        let [a, b] = [device.stream()?, device.stream()?];
        let mut buffers = vec![];
        for _ in 0..BUFFERS {
            buffers.push(a.alloc_zeroed::<u32>(LEN)?);
        }
        let mut graphs = vec![];
        for salt in SALTS {
            let (x, mut y) = (a.alloc_zeroed::<u32>(LEN)?, a.alloc_zeroed::<u32>(LEN)?);
            graphs.push(device.record(|g| {
                g.argument(&x)?;
                g.argument(&y)?;
                let s = g.stream()?;
                s.launch(&BLEND, (salt, &x, &mut y))?;
                s.launch(&STIR, (salt, &mut y.slice_mut(..LEN / 2)))
            })?);
        }
        device.synchronize()?;
        for buffer in &mut buffers {
            // SAFETY: only host devices run this, and their operations lock the bytes that they
            // use, so a missing order gives another value at worst.
            unsafe { buffer.order_manually() };
        }
        let streams = vec![a, b, blocking, device.per_thread_stream()?, device.legacy_stream()?];
        let events = (0..EVENTS).map(|_| device.event()).collect::<trijet::Result<_>>()?;
        let (cells, model) = (vec![vec![Some(0); LEN]; BUFFERS], Model::default());
        Ok(Self { device, streams, buffers, cells, events, more: vec![], graphs, model })
    }

    fn step(&mut self, step: &Step) -> Checked {
        let model = &mut self.model;
        match *step {
            Step::Work { stream, work, from, to, is_careful } => {
                return self.work(stream, work, from, (to, is_careful));
            }
            Step::Record(event, stream) => {
                must(self.events[event].record(&self.streams[stream]))?;
                model.events[event] = Some(model.covered(stream));
            }
            Step::Wait(stream, event) => {
                must(self.streams[stream].wait(&self.events[event]))?;
                if let Some(snapshot) = model.events[event] {
                    model.wait(stream, snapshot);
                }
            }
            Step::SyncEvent(event) => {
                must(self.events[event].synchronize())?;
                model.host |= model.events[event].unwrap_or(0);
            }
            Step::QueryEvent(event) => {
                if must(self.events[event].query())? == Readiness::Ready {
                    model.host |= model.events[event].unwrap_or(0);
                }
            }
            Step::SyncStream(stream) => {
                must(self.streams[stream].synchronize())?;
                model.host |= model.covered(stream);
            }
            Step::QueryStream(stream) => {
                if must(self.streams[stream].query())? == Readiness::Ready {
                    model.host |= model.covered(stream);
                }
            }
            Step::SyncDevice => {
                must(self.device.synchronize())?;
                model.host |= model.streams.iter().fold(0, |all, stream| all | stream);
            }
        }
        Ok(())
    }

    fn work(
        &mut self,
        stream: usize,
        work: Work,
        from: (usize, Part),
        (to, is_careful): ((usize, Part), bool),
    ) -> Checked {
        let is_now = matches!(work, Work::FillNow(_));
        let stream = if is_now { LEGACY } else { stream };
        let (mut x, mut y) = (from.1.of(LEN), to.1.of(LEN));
        let len = x.len().min(y.len());
        (x, y) = (x.start..x.start + len, y.start..y.start + len);
        let has_source = matches!(work, Work::Copy | Work::Blend(_) | Work::Graph(_));
        if has_source && from.0 == to.0 {
            return Ok(());
        }
        let graph = if let Work::Graph(graph) = work { Some(graph) } else { None };
        if graph.is_some() {
            (x, y) = (0..LEN, 0..LEN);
        }
        let mut uses = vec![];
        if has_source {
            uses.push((from.0, x.clone(), false));
        }
        if !matches!(work, Work::Nothing) {
            uses.push((to.0, y.clone(), true));
        }
        if is_careful {
            self.order(stream, graph, &uses)?;
        }
        self.enqueue(stream, work, (from.0, x.clone()), (to.0, y.clone()))?;
        self.model.operation(stream, graph, uses);
        self.perform(work, (from.0, x), (to.0, y));
        Ok(())
    }

    /// Waits for each operation that conflicts with a new one.
    fn order(
        &mut self,
        stream: usize,
        graph: Option<usize>,
        uses: &[(usize, Range<usize>, bool)],
    ) -> Checked {
        let racing = self.model.racing(uses, self.model.before(stream, graph));
        for operation in racing {
            let place = self.model.places[usize::try_from(operation).unwrap_or(0)];
            if self.model.before(stream, graph) & (1 << operation) == 0 {
                let event = must(self.device.event())?;
                must(event.record(&self.streams[place]))?;
                must(self.streams[stream].wait(&event))?;
                self.more.push(event);
                self.model.wait(stream, self.model.covered(place));
            }
        }
        Ok(())
    }

    fn enqueue(
        &mut self,
        stream: usize,
        work: Work,
        (from, x): (usize, Range<usize>),
        (to, y): (usize, Range<usize>),
    ) -> Checked {
        let s = &self.streams[stream];
        let mut pair = self.buffers.get_disjoint_mut([from, to]);
        let both = || "the source is the target".to_owned();
        let outcome = match (work, &mut pair) {
            (Work::Nothing, _) => s.host_fn(|| ()),
            (Work::Copy, Ok([a, b])) => s.copy(&a.slice(x), &mut b.slice_mut(y)),
            (Work::Blend(salt), Ok([a, b])) => s.launch(&BLEND, (salt, a.slice(x), b.slice_mut(y))),
            (Work::Graph(graph), Ok([a, b])) => {
                let arguments = Uses::new().read(a.view()).write(b.view_mut());
                s.launch_graph(&mut self.graphs[graph], arguments)
            }
            (Work::Copy | Work::Blend(_) | Work::Graph(_), Err(_)) => return Err(both()),
            (Work::Fill(value), _) => s.fill(&mut self.buffers[to].slice_mut(y), value),
            (Work::Stir(salt), _) => s.launch(&STIR, (salt, self.buffers[to].slice_mut(y))),
            (Work::FillNow(value), _) => {
                self.device.fill_now(&mut self.buffers[to].slice_mut(y), value)
            }
        };
        must(outcome)
    }

    fn perform(
        &mut self,
        work: Work,
        (from, x): (usize, Range<usize>),
        (to, y): (usize, Range<usize>),
    ) {
        let source: Vec<Cell> = self.cells[from][x].to_vec();
        let stir = |cells: &mut [Cell], salt: u32| {
            cells.iter_mut().for_each(|y| *y = y.map(|y| mix(salt, 0, y)));
        };
        let target = &mut self.cells[to][y];
        match work {
            Work::Nothing => {}
            Work::Fill(value) => target.fill(Some(value)),
            Work::FillNow(value) => target.fill(Some(u32::from_ne_bytes([value; 4]))),
            Work::Stir(salt) => stir(target, salt),
            Work::Copy => target.copy_from_slice(&source),
            Work::Blend(salt) => blend(salt, &source, target),
            Work::Graph(graph) => {
                blend(SALTS[graph], &source, target);
                stir(&mut target[..LEN / 2], SALTS[graph]);
            }
        }
    }

    fn close(self) -> Checked {
        must(self.device.synchronize())?;
        let verdict = self.device.verdict().ok_or("the device is not checked")?;
        if self.model.has_race == verdict.is_clean() {
            let says = if self.model.has_race { "a race" } else { "no race" };
            return Err(format!("the model finds {says}; the checker: {verdict}"));
        }
        if self.model.has_race {
            return Ok(());
        }
        for (number, (buffer, cells)) in self.buffers.iter().zip(&self.cells).enumerate() {
            let found = must(self.streams[0].download(buffer))?;
            compare(cells, &found).map_err(|why| format!("buffer {number}: {why}"))?;
        }
        Ok(())
    }
}

type Program = Vec<(usize, Step)>;

fn program(seed: u64) -> (Setup, Program) {
    let mut prng = Prng::new(seed ^ 0x6d61_6e75_616c);
    let setup = Setup { devices: 1, is_checked: true, ..Setup::draw(&mut prng) };
    let mut steps: Program = draw(&mut prng).into_iter().enumerate().collect();
    if !super::switch::is_on("manual") {
        steps.clear();
    }
    if !super::switch::is_on("graphs") {
        steps.retain(|(_, step)| !matches!(step, Step::Work { work: Work::Graph(_), .. }));
    }
    (setup, steps)
}

fn run(setup: &Setup, program: &Program) -> Checked {
    let run = || {
        let mut world = must(World::open(setup))?;
        program.iter().try_for_each(|(number, step)| {
            world.step(step).map_err(|why| format!("step {number}: {why}"))
        })?;
        world.close()
    };
    caught(run).unwrap_or_else(|| Err("a panic came through".to_owned()))
}

fn list(program: &Program) -> String {
    program.iter().fold(String::new(), |mut text, (number, step)| {
        // Text takes every line.
        writeln!(text, "  {number:3} {step:?}").unwrap_or_else(|_| unreachable!("text grows"));
        text
    })
}

/// The report of a seed on whose program model and checker disagree, or whose bytes are wrong.
pub(super) fn failure(seed: u64) -> Option<String> {
    let (setup, mut steps) = program(seed);
    let mut why = run(&setup, &steps).err()?;
    let mut at = 0;
    while at < steps.len() {
        let mut shorter = steps.clone();
        shorter.remove(at);
        match run(&setup, &shorter) {
            Err(new) => (steps, why, at) = (shorter, new, 0),
            Ok(()) => at += 1,
        }
    }
    Some(format!("manual seed {seed}: {why}\n{setup:?}\n{}", list(&steps)))
}

/// The program of a seed, as text.
pub(super) fn text(seed: u64) -> String {
    let (setup, steps) = program(seed);
    format!("{setup:?}\n{}", list(&steps))
}
