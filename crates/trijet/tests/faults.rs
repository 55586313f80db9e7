//! Random programs with one injected fault. Every wait ends, every host function is dropped once,
//! nothing leaks, bytes that were read before the fault are right, and each later error names the
//! first one. In the virtual executor the same seed gives the same log, byte for byte.
//!
//! `TRIJET_SEED=7 cargo test --test faults` runs one program again.

#[path = "cases/reference.rs"]
mod reference;

use reference::{mix, words};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use trijet::check::{CheckOptions, FindingClass};
use trijet::pipeline::{HostWork, Layout};
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::testing::{MIX, Prng};
use trijet::{
    Buffer, Bytes, Device, Error, ErrorKind, Event, PinnedBuffer, Pipeline, Result, Sink, Source,
    Stream, StreamOptions, Ticket, View, ViewMut,
};

const VERBS: [Verb; 15] = [
    Verb::StreamCreate,
    Verb::EventCreate,
    Verb::EventRecord,
    Verb::StreamWait,
    Verb::Query,
    Verb::Synchronize,
    Verb::HostFn,
    Verb::Alloc,
    Verb::Free,
    Verb::DeviceAlloc,
    Verb::PinnedAlloc,
    Verb::Copy,
    Verb::Fill,
    Verb::ModuleLoad,
    Verb::Launch,
];

const KINDS: [FaultKind; 6] = [
    FaultKind::Refused,
    FaultKind::RefusedFrom,
    FaultKind::Faults,
    FaultKind::DeviceLost,
    FaultKind::Slow(50),
    FaultKind::NeverCompletes,
];

/// A run that takes longer than this counts as hung.
const PATIENCE: Duration = Duration::from_secs(600);

/// Prints the seed and ends the process if a run does not end. The drop of this value closes the
/// channel, which stops the watching thread.
struct Watch {
    _alive: Sender<()>,
    seed: u64,
}

impl Watch {
    fn new(seed: u64) -> Self {
        let (alive, ended) = channel::<()>();
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("a wait does not end; replay with TRIJET_SEED={seed}");
                std::process::abort();
            }
        });
        Self { _alive: alive, seed }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with TRIJET_SEED={}", self.seed);
        }
    }
}

fn seeds(all: Range<u64>) -> Range<u64> {
    match std::env::var("TRIJET_SEED").map(|seed| seed.parse::<u64>()) {
        Ok(seed) => {
            let seed = seed.expect("TRIJET_SEED is a number");
            seed..seed + 1
        }
        Err(_) => match std::env::var("TRIJET_PROGRAMS").map(|most| most.parse::<u64>()) {
            Ok(most) => all.start..all.end.min(most.expect("TRIJET_PROGRAMS is a number")),
            Err(_) => all,
        },
    }
}

/// Panics of host functions are expected, so their messages are hidden. Other panics are printed.
fn hide_expected_panics() {
    static HIDE: Once = Once::new();
    HIDE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>().is_none_or(|text| *text != EXPECTED_PANIC) {
                usual(info);
            }
        }));
    });
}

const EXPECTED_PANIC: &str = "a host function was told to panic";

/// Counts the host functions that were made, called and dropped.
#[derive(Debug, Default)]
struct Fates {
    made: AtomicU64,
    dropped: AtomicU64,
    ran: AtomicU64,
}

/// A value that a host function captures. It counts the drops of the function.
struct Token(Arc<Fates>);

impl Token {
    fn new(fates: &Arc<Fates>) -> Self {
        fates.made.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(fates))
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

enum Held {
    Device(Buffer<u64>),
    Pinned(PinnedBuffer<u64>),
}

impl Held {
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
}

/// A buffer and its expected words. The words are unknown after a call that failed midway.
struct Place {
    held: Held,
    model: Option<Vec<u64>>,
}

const LEN: usize = 96;

/// A running program. It continues after every error, as a careless user would.
struct World {
    device: Device,
    prng: Prng,
    fault: Fault,
    streams: Vec<Stream>,
    events: Vec<Event>,
    tickets: Vec<Ticket>,
    places: Vec<Place>,
    fates: Arc<Fates>,
    accepted: u64,
    panics_due: u64,
    panics_seen: u64,
    /// The first error that reports the loss of the context.
    lost: Option<String>,
    stalled: bool,
    /// The result of every call.
    log: String,
}

fn is_injected(error: &Error) -> bool {
    error.to_string().contains("the call was refused (injected fault)")
}

impl World {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.prng.below(bound as u64)).expect("below a usize")
    }

    /// Judges the result of a call. Returns whether the call did its work.
    fn judge(&mut self, call: &str, result: Result<()>) -> bool {
        let outcome = match &result {
            Ok(()) => "fine".to_owned(),
            Err(error) => format!("{:?}: {error}", error.kind()),
        };
        writeln!(self.log, "{call}: {outcome}").expect("a string takes all");
        let Err(error) = result else { return true };
        let slow = matches!(self.fault.kind, FaultKind::Slow(_));
        match error.kind() {
            ErrorKind::Panicked => {
                self.panics_seen += 1;
                return true;
            }
            kind => assert!(!slow, "{call}: slowness changes only times: {kind:?}: {error}"),
        }
        if let Some(first) = &self.lost {
            assert_eq!(error.to_string(), *first, "{call}: the error names the first fault");
            return false;
        }
        match error.kind() {
            ErrorKind::ContextLost | ErrorKind::Launch => {
                self.check_culprit(&error);
                self.lost = Some(error.to_string());
            }
            ErrorKind::Stalled => {
                assert_eq!(self.fault.kind, FaultKind::NeverCompletes, "{call}: {error}");
                assert!(error.to_string().contains("never ends"), "{call}: {error}");
                self.stalled = true;
            }
            _ => assert!(is_injected(&error), "{call}: an error that was not injected: {error}"),
        }
        false
    }

    fn check_culprit(&self, error: &Error) {
        let name = match (self.fault.kind, self.fault.verb) {
            (FaultKind::Faults, Verb::Launch) => "mix_u64",
            (_, Verb::Launch) => "launch",
            (_, Verb::Copy) => "copy",
            (_, Verb::Fill) => "fill",
            (_, Verb::Synchronize) => "synchronize",
            (_, Verb::StreamWait) => "stream wait",
            (_, Verb::EventRecord) => "event record",
            (_, Verb::HostFn) => "host function",
            (_, Verb::Free) => "free",
            (_, Verb::Alloc) => "alloc",
            _ => "",
        };
        assert!(error.to_string().contains(name), "{error} does not name {name}");
        assert_eq!(error.device(), Some(self.device.id()), "{error}");
    }

    /// A wait on a lost device must not succeed.
    fn judge_wait(&mut self, call: &str, result: Result<()>) {
        let ended = result.is_ok();
        self.judge(call, result);
        assert!(!ended || self.lost.is_none(), "{call}: a wait on a lost device succeeds");
    }

    fn open(config: HostConfig, fault: Fault, seed: u64) -> Result<Self> {
        let device = Device::host(config)?.remove(0);
        let mut world = Self {
            device,
            prng: Prng::new(seed),
            fault,
            streams: Vec::new(),
            events: Vec::new(),
            tickets: Vec::new(),
            places: Vec::new(),
            fates: Arc::default(),
            accepted: 0,
            panics_due: 0,
            panics_seen: 0,
            lost: None,
            stalled: false,
            log: String::new(),
        };
        let device = world.device.clone();
        for number in 0..4 {
            let made = match number {
                2 => device.stream_with(StreamOptions::new().blocking()),
                3 => device.legacy_stream(),
                _ => device.stream(),
            };
            match made {
                Ok(stream) => world.streams.push(stream),
                Err(error) => drop(world.judge("stream", Err(error))),
            }
        }
        for _ in 0..3 {
            match device.event() {
                Ok(event) => world.events.push(event),
                Err(error) => drop(world.judge("event", Err(error))),
            }
        }
        if let Some(stream) = world.streams.first() {
            let begun = device.start_trace(stream);
            world.judge("record", begun);
        }
        for number in 0..5 {
            world.allocate(number);
        }
        Ok(world)
    }

    /// Allocates a buffer. The host or a fill writes it.
    fn allocate(&mut self, number: u64) {
        if self.streams.is_empty() {
            return;
        }
        let stream = self.below(self.streams.len());
        let pinned = number.is_multiple_of(2);
        let made = if pinned {
            self.device.pinned(LEN).map(Held::Pinned)
        } else {
            self.streams[stream].alloc(LEN).map(Held::Device)
        };
        match made {
            Ok(held) => {
                self.places.push(Place { held, model: None });
                self.fill(self.places.len() - 1, stream);
            }
            Err(error) => drop(self.judge("allocate", Err(error))),
        }
    }

    fn fill(&mut self, at: usize, stream: usize) {
        let value = self.prng.next_u64().to_le_bytes()[0];
        let mut target = self.places[at].held.view_mut();
        let filled = self.streams[stream].fill_bytes(&mut target, value);
        let model = (0..LEN).map(|_| u64::from_ne_bytes([value; 8])).collect();
        self.wrote(at, &format!("fill {at} on {stream}"), filled, Some(model));
    }

    /// Judges the result of a call that should have left the words `model` in a buffer.
    fn wrote(&mut self, at: usize, call: &str, result: Result<()>, model: Option<Vec<u64>>) {
        let refused = result.as_ref().is_err_and(is_injected);
        if self.judge(call, result) {
            self.places[at].model = model;
        } else if !refused {
            // The operation may have been enqueued before the call failed. A refusal changes
            // nothing.
            self.places[at].model = None;
        }
    }

    fn step(&mut self) {
        if self.streams.is_empty() || self.places.len() < 2 {
            let stopped = self.device.synchronize();
            self.judge_wait("synchronize", stopped);
            return;
        }
        let stream = self.below(self.streams.len());
        let at = self.below(self.places.len());
        let other = (at + 1 + self.below(self.places.len() - 1)) % self.places.len();
        match self.below(22) {
            0..4 => self.pair("copy", stream, other, at),
            4..9 => self.pair("mix", stream, other, at),
            9 => self.fill(at, stream),
            10 => self.write(at),
            11 | 12 => self.read(at),
            13 => {
                writeln!(self.log, "drop {at}").expect("a string takes all");
                drop(self.places.remove(at));
                let number = self.prng.below(2);
                self.allocate(number);
            }
            14 | 15 => self.host_fn(stream),
            16 => self.events(stream),
            17 => {
                let done = self.streams[stream].synchronize();
                self.judge_wait("stream synchronize", done);
            }
            18 => self.replace(stream),
            19 => match self.streams[stream].ticket() {
                Ok(ticket) => self.tickets.push(ticket),
                Err(error) => drop(self.judge("ticket", Err(error))),
            },
            20 => {
                if let Some(ticket) = self.tickets.pop() {
                    // A ticket of an empty stream is ready.
                    let done = ticket.wait();
                    self.judge("ticket wait", done);
                }
            }
            _ => {
                let ready = self.streams[stream].query().map(drop);
                self.judge("stream query", ready);
            }
        }
    }

    fn pair(&mut self, call: &str, stream: usize, from: usize, to: usize) {
        let salt = self.prng.next_u64();
        let [x, y] = self.places.get_disjoint_mut([from, to]).expect("two buffers");
        let s = &self.streams[stream];
        let (source, mut target) = (x.held.view(), y.held.view_mut());
        let (result, model) = if call == "copy" {
            (s.copy(&source, &mut target), x.model.clone())
        } else {
            let result = s.launch(&MIX, (salt, source, &mut target));
            let model = x.model.as_ref().zip(y.model.clone()).map(|(x, mut y)| {
                mix(salt, x, &mut y);
                y
            });
            (result, model)
        };
        self.wrote(to, &format!("{call} {from} to {to} on {stream}"), result, model);
    }

    fn write(&mut self, at: usize) {
        let seed = self.prng.next_u64();
        let Held::Pinned(buffer) = &mut self.places[at].held else { return };
        let model = words(seed, LEN);
        let written = buffer.write().map(|mut guard| guard.copy_from_slice(&model));
        // Only the guard can fail, and then nothing is written.
        if self.judge(&format!("write {at}"), written) {
            self.places[at].model = Some(model);
        }
    }

    /// The host reads the expected bytes, whatever happened.
    fn read(&mut self, at: usize) {
        let Held::Pinned(buffer) = &self.places[at].held else { return };
        let found = buffer.read().map(|guard| guard.to_vec());
        match found {
            Ok(found) => {
                if let Some(model) = &self.places[at].model {
                    assert!(
                        found == *model,
                        "buffer {at} was awaited; {:?}\n{}",
                        self.fault,
                        self.log
                    );
                }
                writeln!(self.log, "read {found:x?}").expect("a string takes all");
            }
            Err(error) => drop(self.judge("read", Err(error))),
        }
    }

    fn host_fn(&mut self, stream: usize) {
        let panics = self.below(4) == 0;
        let (token, fates) = (Token::new(&self.fates), Arc::clone(&self.fates));
        let enqueued = self.streams[stream].host_fn(move || {
            let _token = token;
            fates.ran.fetch_add(1, Ordering::Relaxed);
            if panics {
                std::panic::panic_any(EXPECTED_PANIC);
            }
        });
        if self.judge("host function", enqueued) {
            self.accepted += 1;
            self.panics_due += u64::from(panics);
        }
    }

    fn events(&mut self, stream: usize) {
        if self.events.is_empty() {
            return;
        }
        let event = self.below(self.events.len());
        match self.below(4) {
            0 | 1 => {
                let recorded = self.events[event].record(&self.streams[stream]);
                self.judge("record event", recorded);
            }
            2 => {
                let waits = self.streams[stream].wait(&self.events[event]);
                self.judge("wait for event", waits);
            }
            _ => {
                // An event that was never recorded stands for nothing (law A5).
                let done = self.events[event].synchronize();
                self.judge("event synchronize", done);
            }
        }
    }

    fn replace(&mut self, stream: usize) {
        match self.device.stream() {
            Ok(new) => self.streams[stream] = new,
            Err(error) => drop(self.judge("new stream", Err(error))),
        }
    }

    /// Waits until every panic has been reported. Returns whether all work is complete.
    fn settle(&mut self) -> bool {
        loop {
            let before = self.panics_seen;
            let done = self.device.synchronize();
            let fine = done.is_ok();
            let lasts = self.fault.kind == FaultKind::RefusedFrom;
            let refused = !lasts && done.as_ref().is_err_and(is_injected);
            self.judge_wait("device synchronize", done);
            if fine {
                return true;
            }
            if self.panics_seen == before && !refused {
                return false;
            }
        }
    }

    /// Ends the program, and returns a text with everything that can be observed.
    fn end(mut self) -> String {
        for at in 0..self.places.len() {
            self.read(at);
        }
        let whole = self.settle();
        let fates = Arc::clone(&self.fates);
        if whole {
            assert_eq!(fates.ran.load(Ordering::Relaxed), self.accepted, "every function ran");
            assert_eq!(self.panics_seen, self.panics_due, "every panic was reported");
        }
        match self.device.take_trace() {
            Ok(ops) => writeln!(self.log, "{ops:?}"),
            Err(error) => writeln!(self.log, "no record: {error}"),
        }
        .expect("a string takes all");
        self.places.clear();
        self.tickets.clear();
        self.events.clear();
        self.streams.clear();
        // The frees of the dropped buffers are complete after this.
        if whole && self.settle() {
            let used = self.device.memory_stats().expect("the device is not lost").used;
            // If a free, or a wait before it, is refused every time, its memory stays allocated.
            let kept = self.fault.kind == FaultKind::RefusedFrom;
            assert!(kept || used == Bytes(0), "{used} leaks\n{}", self.log);
        }
        let (device, lost) = (self.device.clone(), self.lost.clone());
        let closed = device.close();
        match (&closed, &lost) {
            (Err(error), Some(first)) => assert_eq!(error.to_string(), *first),
            (Ok(()), lost) => {
                assert!(lost.is_none() && !self.stalled, "closing does not report an error")
            }
            (Err(_), None) => {}
        }
        self.judge("close", closed);
        let log = std::mem::take(&mut self.log);
        drop(self);
        let (made, dropped) = (&fates.made, &fates.dropped);
        let made = made.load(Ordering::Relaxed);
        // If a function was running when the device was lost, its own thread drops it, and no call
        // waits for this thread. If a function leaks, the watch ends the process.
        while dropped.load(Ordering::Relaxed) < made {
            std::thread::yield_now();
        }
        assert_eq!(dropped.load(Ordering::Relaxed), made, "every function is dropped once");
        log
    }
}

/// The fault of a seed, and the generator for the rest of its program.
fn plan(seed: u64) -> (Fault, Prng) {
    let mut prng = Prng::new(seed ^ 0xfa17);
    let mut pick = |bound: u64| usize::try_from(prng.below(bound)).expect("a small number");
    let (verb, kind) = (VERBS[pick(VERBS.len() as u64)], KINDS[pick(KINDS.len() as u64)]);
    let fault = Fault { verb, nth: 1 + pick(16) as u64, kind };
    (fault, prng)
}

fn run(executor: Executor, seed: u64) -> String {
    hide_expected_panics();
    let _watch = Watch::new(seed);
    let (fault, mut prng) = plan(seed);
    let config = HostConfig::new().executor(executor).faults(vec![fault]);
    let mut world = World::open(config, fault, seed).expect("no fault strikes the opening");
    for _ in 0..20 + prng.below(60) {
        world.step();
    }
    world.end()
}

#[test]
fn a_fault_hangs_and_leaks_nothing_in_the_greedy_order() {
    for seed in seeds(0..1000) {
        run(Executor::Virtual(Order::Greedy), seed);
    }
}

#[test]
fn a_fault_hangs_and_leaks_nothing_in_drawn_orders() {
    for seed in seeds(0..1000) {
        run(Executor::Virtual(Order::Seeded(seed)), seed);
    }
}

#[test]
fn a_fault_hangs_and_leaks_nothing_step_by_step() {
    for seed in seeds(0..1000) {
        run(Executor::Virtual(Order::Pct { seed, depth: 3, steps: 200 }), seed);
    }
}

#[test]
fn a_fault_hangs_and_leaks_nothing_on_threads() {
    for seed in seeds(0..600) {
        run(Executor::Threads, seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_record_byte_for_byte() {
    for seed in seeds(0..100) {
        let orders =
            [Order::Greedy, Order::Seeded(seed), Order::Pct { seed, depth: 3, steps: 200 }];
        for order in orders {
            let runs = [(); 2].map(|()| {
                let executor = Executor::Virtual(order.clone());
                // The program runs on a separate thread, because the log must not depend on the
                // thread.
                std::thread::scope(|scope| {
                    scope.spawn(|| run(executor, seed)).join().expect("the run ends well")
                })
            });
            let differs = runs[0].lines().zip(runs[1].lines()).find(|(a, b)| a != b);
            assert!(runs[0] == runs[1], "seed {seed}, {order}: {differs:?}");
        }
    }
}

/// A thread that waits gets an error if another thread causes a loss of the device, although the
/// awaited work will never be complete.
#[test]
fn a_loss_ends_the_waits_of_other_threads() {
    for round in 0..50 {
        let _watch = Watch::new(round);
        let fault = Fault { verb: Verb::Fill, nth: 1, kind: FaultKind::DeviceLost };
        let config = HostConfig::new().faults(vec![fault]);
        let device = Device::host(config).expect("a few threads").remove(0);
        let (busy, other) =
            (device.stream().expect("a stream"), device.stream().expect("a stream"));
        let mut x = other.alloc::<u8>(16).expect("some memory");
        let (release, gate) = channel::<()>();
        let held = move || assert!(gate.recv().is_err(), "the gate only closes");
        busy.host_fn(held).expect("it is enqueued");
        let (waits, begun) = channel::<()>();
        std::thread::scope(|scope| {
            let busy = &busy;
            let waiter = scope.spawn(move || {
                waits.send(()).expect("the other thread receives");
                busy.synchronize()
            });
            begun.recv().expect("the thread begins");
            for _ in 0..round {
                std::thread::yield_now();
            }
            let error = other.fill_bytes(&mut x, 1).expect_err("the device is lost here");
            assert_eq!(error.kind(), ErrorKind::ContextLost);
            let ended = waiter.join().expect("no panic");
            assert_eq!(ended.expect_err("it is lost").to_string(), error.to_string());
        });
        drop(release);
    }
}

/// A source of rows in memory.
struct Rows(Vec<u8>);

impl Source for Rows {
    fn layout(&self) -> Layout {
        Layout::rows(self.0.len() as u64 / 64, 64)
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let from = usize::try_from(rows.start * 64).expect("a small test");
        into.copy_from_slice(&self.0[from..from + into.len()]);
        Ok(())
    }
}

struct Landed<'a>(&'a Mutex<Vec<u8>>);

impl Sink for Landed<'_> {
    fn write(&mut self, _: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.0.lock().expect("no thread panicked while it held this lock").extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A pipeline with a fault never hangs. The part of its output that it wrote is right, and the
/// checker finds nothing but the loss of the device.
#[test]
fn a_pipeline_with_a_fault_ends_and_what_it_wrote_is_right() {
    let bytes: Vec<u8> = words(3, 512).into_iter().flat_map(u64::to_le_bytes).collect();
    let (mut failed, mut whole) = (0, 0);
    for seed in seeds(0..400) {
        let _watch = Watch::new(seed);
        let fault = plan(seed).0;
        let executor = match seed % 3 {
            0 => Executor::Threads,
            _ => Executor::Virtual(Order::Seeded(seed)),
        };
        let work = if seed % 2 == 0 { HostWork::Inline } else { HostWork::Threads };
        let config = HostConfig::new().executor(executor).faults(vec![fault]);
        let checked = Device::builder().host(config).check(CheckOptions::default());
        let device = checked.open().expect("a few threads");
        let landed = Mutex::default();
        let outcome = Pipeline::on(&device)
            .source(Rows(bytes.clone()))
            .stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y))
            .sink(Landed(&landed))
            .chunk(Bytes(512))
            .host_work(work)
            .run();
        let landed = landed.into_inner().expect("no thread panicked while it held this lock");
        assert_eq!(landed, bytes[..landed.len()], "seed {seed}, {fault:?}");
        match outcome {
            Ok(_) => {
                assert_eq!(landed.len(), bytes.len(), "seed {seed}, {fault:?}");
                whole += 1;
            }
            Err(error) => {
                let slow = matches!(fault.kind, FaultKind::Slow(_));
                assert!(!slow, "seed {seed}: slowness changes only times: {error}");
                failed += 1;
            }
        }
        let verdict = device.verdict().expect("the device has a checker");
        let lost = matches!(fault.kind, FaultKind::DeviceLost | FaultKind::Faults);
        let mut findings = verdict.findings.iter();
        let expected = findings.all(|found| lost && found.class == FindingClass::Sticky);
        assert!(expected, "seed {seed}, {fault:?}: {verdict}");
        drop(device.close());
    }
    assert!(failed > 0 && whole > 0 || std::env::var("TRIJET_SEED").is_ok(), "{failed}, {whole}");
}
