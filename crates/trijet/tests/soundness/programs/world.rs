//! A running program: its devices, streams and variables.

use super::luck::{Checked, Luck, caught, explode};
use super::memory::{Slot, compare_floats};
use super::step::{EVENTS, End, GRAPHS, Node, SETS, SLOTS, Step};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use trijet::check::CheckOptions;
use trijet::comm::Communicator;
use trijet::graph::Graph;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::task::{TaskOptions, Tasks};
use trijet::testing::{self, Prng};
use trijet::{Buffer, Bytes, Device, Event, PoolChoice, Result, Stream, StreamOptions};

/// The memory of a device.
pub(super) const MEMORY: u64 = 64 << 20;

/// How the devices of a program are opened.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) devices: u32,
    pub(super) executor: Executor,
    pub(super) pool: Option<PoolChoice>,
    pub(super) is_checked: bool,
}

impl Setup {
    pub(super) fn draw(prng: &mut Prng) -> Self {
        let devices = [1, 1, 1, 2, 2, 3, 4, 1][usize::try_from(prng.below(8)).unwrap_or(0)];
        let seed = prng.next_u64();
        let executor = match prng.below(10) {
            0 => Executor::Threads,
            1 => Executor::Virtual(Order::Greedy),
            2 | 3 => Executor::Virtual(Order::Pct { seed, depth: 3, steps: 200 }),
            _ => Executor::Virtual(Order::Seeded(seed)),
        };
        let pool = match prng.below(6) {
            0 => Some(PoolChoice::Own),
            1 => Some(PoolChoice::Default),
            _ => None,
        };
        Self { devices, executor, pool, is_checked: prng.below(2) == 0 }
    }

    pub(super) fn open(&self) -> Result<Vec<Device>> {
        let config = HostConfig::new()
            .executor(self.executor.clone())
            .devices(self.devices)
            .memory(Bytes(MEMORY));
        let mut builder = Device::builder().host(config);
        if let Some(pool) = self.pool {
            builder = builder.pool(pool);
        }
        if self.is_checked {
            builder = builder.check(CheckOptions::default());
        }
        builder.open_all()
    }
}

/// The elements of the floats of a device.
pub(super) const FLOATS: usize = 12;

/// A graph with its effect.
pub(super) struct Recorded {
    pub(super) graph: Graph,
    pub(super) device: usize,
    pub(super) nodes: Vec<(usize, Node)>,
    /// The length of each argument, and its place within [`ALIGNMENT`] bytes while it was recorded.
    pub(super) args: Vec<(usize, u64)>,
    /// The number of calls of host functions, and the number that is expected.
    pub(super) calls: Arc<AtomicU64>,
    pub(super) expected: u64,
    /// Whether a panic came through a change, so that launches may be refused.
    pub(super) is_shaky: bool,
}

impl Recorded {
    /// Compares the number of calls of host functions with the number of launches.
    pub(super) fn compare_calls(&self, number: usize) -> Checked {
        let found = self.calls.load(Relaxed);
        if found == self.expected {
            return Ok(());
        }
        Err(format!("graph {number}: {found} calls of host functions, not {}", self.expected))
    }
}

/// Tasks, and the number of them that failed since the last wait for all.
pub(super) struct Set {
    pub(super) tasks: Tasks,
    pub(super) devices: usize,
    pub(super) failures: u64,
    /// Tasks that did not run, because data that they read were lost before.
    pub(super) skips: u64,
    /// The failures that waits for all returned.
    pub(super) reports: u64,
}

impl Set {
    /// Notes that a task of the set failed.
    pub(super) fn note_failure(&mut self) {
        self.failures += 1;
    }

    /// The first set is on all devices, the second one on the first device, in fewer streams.
    pub(super) fn open(number: usize, devices: &[Device]) -> Result<Self> {
        let (tasks, devices) = match number {
            0 => (Tasks::over(devices)?, devices.len()),
            _ => (devices[0].tasks_with(TaskOptions::new().streams(2).look_ahead(3)), 1),
        };
        Ok(Self { tasks, devices, failures: 0, skips: 0, reports: 0 })
    }
}

pub(super) struct World {
    pub(super) setup: Setup,
    pub(super) devices: Vec<Device>,
    /// For each device: two non-blocking streams, a blocking one, the per-thread one, and the
    /// legacy one.
    pub(super) streams: Vec<[Arc<Stream>; 5]>,
    pub(super) slots: Vec<Slot>,
    pub(super) graphs: Vec<Option<Recorded>>,
    pub(super) events: Vec<Arc<Event>>,
    pub(super) sets: Vec<Set>,
    pub(super) floats: Vec<Buffer<f32>>,
    pub(super) float_cells: Vec<Vec<f32>>,
    pub(super) communicator: Option<Arc<Communicator>>,
    /// A stream that left its recording, and its device.
    pub(super) left: Option<(usize, Stream)>,
    pub(super) luck: Luck,
    /// Whether a device is lost.
    pub(super) is_lost: bool,
}

fn streams(device: &Device) -> Result<[Arc<Stream>; 5]> {
    let blocking = device.stream_with(StreamOptions::new().blocking())?;
    let all = [
        device.stream()?,
        device.stream()?,
        blocking,
        device.per_thread_stream()?,
        device.legacy_stream()?,
    ];
    Ok(all.map(Arc::new))
}

impl World {
    pub(super) fn open(setup: &Setup) -> Result<Self> {
        let devices = setup.open()?;
        let streams = devices.iter().map(streams).collect::<Result<Vec<_>>>()?;
        let float_cells: Vec<Vec<f32>> =
            (0_u8..4).take(devices.len()).map(|n| vec![f32::from(n); FLOATS]).collect();
        let floats = streams.iter().zip(&float_cells).map(|(s, cells)| s[0].upload(cells));
        let floats = floats.collect::<Result<_>>()?;
        let events = (0..EVENTS).map(|_| devices[0].event().map(Arc::new));
        let events = events.collect::<Result<_>>()?;
        Ok(Self {
            setup: setup.clone(),
            slots: (0..SLOTS).map(|_| Slot::gone()).collect(),
            graphs: (0..GRAPHS).map(|_| None).collect(),
            sets: (0..SETS).map(|n| Set::open(n, &devices)).collect::<Result<_>>()?,
            communicator: Some(Arc::new(Communicator::builder().devices(&devices).open()?)),
            luck: Luck::default(),
            left: None,
            is_lost: false,
            devices,
            streams,
            events,
            floats,
            float_cells,
        })
    }

    /// The device that a number names.
    pub(super) fn device(&self, number: usize) -> usize {
        number % self.devices.len()
    }

    /// The stream of a device that a step names.
    pub(super) fn stream(&self, device: usize, stream: u8) -> Arc<Stream> {
        Arc::clone(&self.streams[device][usize::from(stream % 5)])
    }

    pub(super) fn is_legacy(stream: u8) -> bool {
        stream % 5 == 4
    }

    /// The first suitable slot, starting at a number.
    pub(super) fn first(&self, from: usize, fits: impl Fn(&Slot) -> bool) -> Option<usize> {
        let count = self.slots.len();
        (0..count).map(|n| (from + n) % count).find(|slot| fits(&self.slots[*slot]))
    }

    /// As [`World::first`], but not this one.
    pub(super) fn other(
        &self,
        from: usize,
        than: usize,
        fits: impl Fn(&Slot) -> bool,
    ) -> Option<usize> {
        let count = self.slots.len();
        let mut all = (0..count).map(|n| (from + n) % count);
        all.find(|slot| *slot != than && fits(&self.slots[*slot]))
    }

    /// Two different slots.
    pub(super) fn two(&mut self, x: usize, y: usize) -> Option<(&mut Slot, &mut Slot)> {
        self.slots.get_disjoint_mut([x, y]).ok().map(|[x, y]| (x, y))
    }

    /// Gives a slot other memory.
    pub(super) fn put(&mut self, slot: usize, new: Slot) {
        self.slots[slot] = new;
    }

    /// Waits for all work, and compares all memory with the expected values.
    pub(super) fn close(mut self) -> Checked {
        if self.is_lost {
            return Ok(());
        }
        self.finish_all()?;
        for slot in 0..self.slots.len() {
            self.take(slot).map_err(|why| format!("at the end: take of slot {slot}: {why}"))?;
        }
        for device in &self.devices {
            self.luck.insist(|| device.synchronize())?;
        }
        self.compare_all()?;
        for (number, graph) in self.graphs.iter().enumerate() {
            graph.as_ref().map_or(Ok(()), |graph| graph.compare_calls(number))?;
        }
        let verdict = self.devices[0].verdict();
        if let Some(verdict) = verdict.filter(|verdict| !verdict.is_clean()) {
            return Err(format!("the checker: {verdict}"));
        }
        let Self { slots, graphs, sets, floats, communicator, left, .. } = self;
        drop((slots, graphs, sets, floats, communicator, left, self.events, self.streams));
        for device in self.devices {
            let again = device.clone();
            self.luck.insist(|| again.synchronize())?;
            device.close().map_err(|error| format!("close: {error}"))?;
        }
        self.luck.verdict()
    }

    fn compare_all(&self) -> Checked {
        for (number, slot) in self.slots.iter().enumerate() {
            let all = 0..slot.cells.len();
            let Some(view) = slot.view(all.clone()) else { continue };
            let stream = &self.streams[slot.device][0];
            let found = self.luck.insist(|| stream.download(&view))?;
            slot.compare(all, &found).map_err(|why| format!("at the end: slot {number} {why}"))?;
        }
        for (number, floats) in self.floats.iter().enumerate() {
            let found = self.luck.insist(|| self.streams[number][1].download(floats))?;
            compare_floats(&self.float_cells[number], &found)
                .map_err(|why| format!("at the end: floats of device {number}: {why}"))?;
        }
        Ok(())
    }

    /// A separate world for a thread, with every `count`-th slot.
    fn part(&mut self, first: usize, count: usize) -> Result<Self> {
        let slots = self.slots.iter_mut().enumerate().map(|(number, slot)| {
            let is_own = number % count == first && slot.set().is_none();
            if is_own { std::mem::replace(slot, Slot::gone()) } else { Slot::gone() }
        });
        Ok(Self {
            setup: self.setup.clone(),
            devices: self.devices.clone(),
            streams: self.streams.clone(),
            slots: slots.collect(),
            graphs: vec![],
            events: self.events.clone(),
            sets: vec![],
            floats: vec![],
            float_cells: vec![],
            communicator: None,
            left: None,
            luck: self.luck.clone(),
            is_lost: false,
        })
    }

    /// Runs steps on threads, each with its own slots.
    pub(super) fn threads(&mut self, bodies: &[Vec<Step>], end: End) -> Checked {
        if !super::switch::is_on("beside") {
            self.finish_all()?;
        }
        let parts = (0..bodies.len()).map(|first| self.part(first, bodies.len()));
        let parts = parts.collect::<Result<Vec<_>>>().map_err(|error| error.to_string())?;
        let parts: Vec<Mutex<(Self, Checked)>> =
            parts.into_iter().map(|part| Mutex::new((part, Ok(())))).collect();
        let run = |(body, part): (&Vec<Step>, &Mutex<(Self, Checked)>)| {
            let mut part = part.lock().unwrap_or_else(|e| e.into_inner());
            let (world, outcome) = &mut *part;
            *outcome = world.thread(body);
        };
        let mut scripts: Vec<trijet::testing::Script<'_>> = Vec::new();
        for (number, pair) in bodies.iter().zip(&parts).enumerate() {
            scripts.push(Box::new(move || {
                run(pair);
                if let (0, End::Panic(kind)) = (number, end) {
                    explode(kind);
                }
            }));
        }
        let device = self.devices[0].clone();
        let done = caught(|| testing::script(&device, scripts));
        if done.is_some() == matches!(end, End::Panic(_)) {
            return Err("a panic of a thread did not come through `script`".to_owned());
        }
        for (first, part) in parts.into_iter().enumerate() {
            let (mut world, outcome) = part.into_inner().unwrap_or_else(|e| e.into_inner());
            outcome.map_err(|why| format!("thread {first}: {why}"))?;
            for (number, slot) in world.slots.iter_mut().enumerate() {
                // New memory may be where another thread has its own memory.
                if number % bodies.len() == first && self.slots[number].set().is_none() {
                    self.slots[number] = std::mem::replace(slot, Slot::gone());
                }
            }
        }
        Ok(())
    }

    /// Runs steps on this thread with a new stream.
    fn thread(&mut self, body: &[Step]) -> Checked {
        for device in 0..self.devices.len() {
            let own = self.devices[device].per_thread_stream();
            self.streams[device][3] = Arc::new(own.map_err(|error| error.to_string())?);
        }
        let outcome = body.iter().try_for_each(|step| self.step(step));
        for streams in &mut self.streams {
            streams[3] = Arc::clone(&streams[0]);
        }
        outcome
    }
}
