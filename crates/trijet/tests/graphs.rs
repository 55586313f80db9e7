//! Random graphs compute the same as their operations one after another, in every order of the
//! device, and the checker finds nothing in them.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use trijet::check::CheckOptions;
use trijet::graph::{Graph, Recording};
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Ptr, Shape, Tile, Twin, Update};
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::testing::{Capture, CaptureMode, Prng, WORK};
use trijet::{
    Batch, Buffer, Device, ErrorKind, Kernel, LaunchConfig, PinnedBuffer, Result, SourceOrder,
    Stream, Uses,
};

const BUFFERS: usize = 4;
const LEN: usize = 48;

/// An operation of a program. The numbers of buffers and the ranges refer to `x` and `y`.
#[derive(Debug, Clone)]
enum Op {
    Upload {
        to: usize,
        range: Range<usize>,
    },
    Work {
        rounds: u32,
        from: usize,
        to: usize,
        range: Range<usize>,
    },
    Fill {
        to: usize,
        range: Range<usize>,
        value: u8,
    },
    Download {
        from: usize,
        range: Range<usize>,
    },
    /// Three kernels, with memory of the graph between them. The memory of the first kernel is
    /// dropped before the memory of the third kernel is allocated.
    Scratch {
        rounds: u32,
        from: usize,
        to: usize,
        range: Range<usize>,
    },
    /// Kernels that each add one. All of them except the first are dependent launches.
    Chain {
        to: usize,
        range: Range<usize>,
        count: u32,
    },
    /// Operations in three streams of an inner graph.
    Part(Vec<(usize, Op)>),
    /// Operations that run on the condition that this word is not zero. If they repeat, they halve
    /// the word four times in each repetition.
    Condition {
        word: usize,
        repeats: bool,
        program: Vec<(usize, Op)>,
    },
}

/// The initial values of the conditions. Only repeating operations write them.
const CONDITIONS: [u32; 4] = [0, 1, 9, 0x2345];

impl Op {
    /// The number of nodes of the operation.
    fn nodes(&self) -> usize {
        match self {
            Self::Scratch { .. } => 4,
            Self::Chain { count, .. } => *count as usize,
            Self::Part(program) => program.iter().map(|(_, op)| op.nodes()).sum(),
            Self::Upload { .. }
            | Self::Work { .. }
            | Self::Fill { .. }
            | Self::Download { .. }
            | Self::Condition { .. } => 1,
        }
    }
}

/// A kernel that waits for the kernel before it, then adds one to each word.
static ADD_ONE: Kernel<(Ptr<Update<u32>>,)> = {
    const PTX: &str = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .visible .entry add_one(.param .u64 words)\n{\n    griddepcontrol.wait;\n    ret;\n}\n";
    let run: fn(&mut Tile<'_>) = |tile| {
        tile.write::<u32>(0).iter_mut().for_each(|word| *word = word.wrapping_add(1));
    };
    let cost = |_: &ArgBlock| Cost { bytes: 0, ops: 0 };
    let twin = Twin { tile_elements: |_| 8, run, cost };
    let spec = KernelSpec::new("add_one", Code::ptx(PTX), Shape::Given(|_, _| Ok(()))).twin(twin);
    // SAFETY: it takes one address, and touches nothing: only host devices run this test.
    unsafe { Kernel::declare(spec) }
};

/// A kernel that halves a word four times.
static LOWER: Kernel<(Ptr<Update<u32>>,)> = {
    let run: fn(&mut Tile<'_>) = |tile| {
        tile.write::<u32>(0).iter_mut().for_each(|word| *word >>= 4);
    };
    let cost = |_: &ArgBlock| Cost { bytes: 0, ops: 0 };
    let twin = Twin { tile_elements: |_| 1, run, cost };
    let spec = KernelSpec::new("lower", Code::ptx(""), Shape::Given(|_, _| Ok(()))).twin(twin);
    // SAFETY: it has no code: only host devices run this test.
    unsafe { Kernel::declare(spec) }
};

/// A number below `bound`.
fn below<T: TryFrom<u64, Error: std::fmt::Debug>>(prng: &mut Prng, bound: usize) -> T {
    prng.below(bound as u64).try_into().expect("a small number")
}

fn range(prng: &mut Prng) -> Range<usize> {
    let (a, b): (usize, usize) = (below(prng, LEN), below(prng, LEN));
    a.min(b)..a.max(b) + 1
}

/// Draws a program of at most `most` operations. Graphs within graphs are at most `deep` levels
/// deep.
fn program(prng: &mut Prng, most: u64, deep: u32) -> Vec<(usize, Op)> {
    let one = |prng: &mut Prng| {
        let (from, to) = (below(prng, BUFFERS), below(prng, BUFFERS));
        let (range, rounds) = (range(prng), below(prng, 3));
        let op = match prng.below(10) {
            0 => Op::Upload { to, range },
            1 => Op::Fill { to, range, value: below(prng, 256) },
            2 => Op::Download { from, range },
            // A kernel reads one buffer and writes another one.
            3 if deep > 0 => Op::Part(program(prng, 5, deep - 1)),
            6 if deep > 0 => {
                let (word, repeats) = (below(prng, CONDITIONS.len()), prng.below(2) == 0);
                Op::Condition { word, repeats, program: program(prng, 4, deep - 1) }
            }
            5 => Op::Chain { to, range, count: 1 + below::<u32>(prng, 4) },
            4 if from != to => Op::Scratch { rounds, from, to, range },
            _ if from == to => Op::Fill { to, range, value: 1 },
            _ => Op::Work { rounds, from, to, range },
        };
        (below(prng, 3), op)
    };
    (0..1 + prng.below(most)).map(|_| one(prng)).collect()
}

/// The memory of a run: an input, buffers on the device, and an output.
struct Memory {
    h: PinnedBuffer<u32>,
    buffers: Vec<Buffer<u32>>,
    back: PinnedBuffer<u32>,
    conditions: Vec<Buffer<u32>>,
}

impl Memory {
    fn new(device: &Device, seed: u32) -> Result<Self> {
        let s = device.stream()?;
        let (mut h, mut back) = (device.pinned::<u32>(LEN)?, device.pinned::<u32>(LEN)?);
        h.write()?.iter_mut().zip(seed * 1000..).for_each(|(x, n)| *x = n);
        back.write()?.fill(7);
        let buffer = |n| s.upload(&[n; LEN]);
        let buffers = (0..4).map(buffer).collect::<Result<_>>()?;
        let condition = |value| s.upload(&[value]);
        let conditions = CONDITIONS.into_iter().map(condition).collect::<Result<_>>()?;
        Ok(Self { h, buffers, back, conditions })
    }

    /// Enqueues an operation. With `records`, `s` is a stream of a recording on that device.
    fn enqueue(&mut self, s: &Stream, op: &Op, records: Option<&Device>) -> Result<()> {
        if let Op::Part(program) = op {
            let Some(device) = records else {
                return program.iter().try_for_each(|(_, op)| self.enqueue(s, op, None));
            };
            let mut part = device.record(|g| record(device, g, self, program))?;
            return self.launch(s, &mut part);
        }
        if let Op::Condition { word, repeats, program } = op {
            return self.conditional(s, (*word, *repeats), program, records);
        }
        let Self { h, buffers, back, .. } = self;
        match op.clone() {
            Op::Part(_) | Op::Condition { .. } => unreachable!("handled above"),
            Op::Chain { to, range, count } => (0..count).try_for_each(|turn| {
                let y = buffers[to].slice_mut(range.clone());
                let words = u32::try_from(y.len()).expect("a short buffer");
                let config = LaunchConfig::new([words, 1, 1], [1; 3]);
                let config = if turn == 0 { config } else { config.dependent() };
                s.launch_with(&ADD_ONE, config, (y,))
            }),
            Op::Scratch { rounds, from, to, range } => {
                let [x, y] = buffers.get_disjoint_mut([from, to]).expect("two buffers");
                let mut first = s.alloc::<u32>(range.len())?;
                s.launch(&WORK, (rounds, x.slice(range.clone()), &mut first))?;
                let mut second = s.alloc::<u32>(range.len())?;
                s.launch(&WORK, (1, &first, &mut second))?;
                drop(first);
                let mut third = s.alloc::<u32>(range.len())?;
                s.launch(&WORK, (1, &second, &mut third))?;
                s.launch(&WORK, (rounds, &third, y.slice_mut(range)))
            }
            Op::Upload { to, range } => {
                s.copy(&h.slice(range.clone()), &mut buffers[to].slice_mut(range))
            }
            Op::Fill { to, range, value } => s.fill_bytes(&mut buffers[to].slice_mut(range), value),
            Op::Download { from, range } => {
                s.copy(&buffers[from].slice(range.clone()), &mut back.slice_mut(range))
            }
            Op::Work { rounds, from, to, range } => {
                let [x, y] = buffers.get_disjoint_mut([from, to]).expect("two buffers");
                s.launch(&WORK, (rounds, x.slice(range.clone()), y.slice_mut(range)))
            }
        }
    }

    /// If `records` is `None`, enqueues the operations each time the host finds the condition set.
    /// Otherwise records the operations with their condition.
    fn conditional(
        &mut self,
        s: &Stream,
        (word, repeats): (usize, bool),
        program: &[(usize, Op)],
        records: Option<&Device>,
    ) -> Result<()> {
        let one = LaunchConfig::new([1; 3], [1; 3]);
        let Some(device) = records else {
            while s.download(&self.conditions[word])?[0] != 0 {
                program.iter().try_for_each(|(_, op)| self.enqueue(s, op, None))?;
                if !repeats {
                    break;
                }
                s.launch_with(&LOWER, one, (&mut self.conditions[word],))?;
            }
            return Ok(());
        };
        let mut body = device.record(|g| {
            record(device, g, self, program)?;
            if repeats {
                g.stream()?.launch_with(&LOWER, one, (&mut self.conditions[word],))?;
            }
            Ok(())
        })?;
        let condition = 2 + self.buffers.len() + word;
        match repeats {
            true => s.launch_graph_while(condition, &mut body, self.arguments()),
            false => s.launch_graph_if(condition, &mut body, self.arguments()),
        }
    }

    fn arguments(&mut self) -> Uses<'_> {
        let Self { h, buffers, back, conditions } = self;
        let arguments = Uses::new().read(h.view()).write(back.view_mut());
        let all = buffers.iter_mut().chain(conditions);
        all.fold(arguments, |all, buffer| all.write(buffer.view_mut()))
    }

    fn launch(&mut self, s: &Stream, graph: &mut Graph) -> Result<()> {
        s.launch_graph(graph, self.arguments())
    }

    /// The contents of all memory, after all of its uses.
    fn words(&self, s: &Stream) -> Result<Vec<Vec<u32>>> {
        let mut all = vec![self.h.read()?.to_vec(), self.back.read()?.to_vec()];
        for buffer in self.buffers.iter().chain(&self.conditions) {
            all.push(s.download(buffer)?);
        }
        Ok(all)
    }
}

/// Records a program whose operations are in three streams.
fn record(
    device: &Device,
    g: &Recording,
    memory: &mut Memory,
    program: &[(usize, Op)],
) -> Result<()> {
    g.argument(&memory.h)?;
    g.argument(&memory.back)?;
    memory.buffers.iter().chain(&memory.conditions).try_for_each(|buffer| g.argument(buffer))?;
    let streams = [g.stream()?, g.stream()?, g.stream()?];
    program.iter().try_for_each(|(s, op)| memory.enqueue(&streams[*s], op, Some(device)))
}

/// The same program with other values. Its graph is an update of the first graph.
fn changed(program: &[(usize, Op)]) -> Vec<(usize, Op)> {
    let mut program = program.to_vec();
    for (_, op) in &mut program {
        match op {
            Op::Part(part) | Op::Condition { program: part, .. } => *part = changed(part),
            Op::Work { rounds, .. } | Op::Scratch { rounds, .. } => *rounds = 2 - *rounds,
            Op::Fill { value, .. } => *value ^= 0x55,
            Op::Upload { .. } | Op::Download { .. } | Op::Chain { .. } => {}
        }
    }
    program
}

/// The results of the program on both sets of memory. The operations run one after another.
fn wanted(device: &Device, program: &[(usize, Op)]) -> Result<Vec<Vec<u32>>> {
    let s = device.stream()?;
    let mut memories = [Memory::new(device, 1)?, Memory::new(device, 2)?];
    let changed = changed(program);
    for (number, which) in LAUNCHES.into_iter().enumerate() {
        let program = if number < CHANGED { program } else { &changed };
        program.iter().try_for_each(|(_, op)| memories[which].enqueue(&s, op, None))?;
    }
    let [one, two] = memories;
    Ok([one.words(&s)?, two.words(&s)?].concat())
}

/// The index of the memory of each launch: the first memory twice, then the other, then each once
/// more.
const LAUNCHES: [usize; 5] = [0, 0, 1, 0, 1];
/// The index of the launch before which the graph is changed.
const CHANGED: usize = 3;

fn found(device: &Device, program: &[(usize, Op)]) -> Result<Vec<Vec<u32>>> {
    let streams = [device.stream()?, device.stream()?];
    let mut memories = [Memory::new(device, 1)?, Memory::new(device, 2)?];
    let mut graph = device.record(|g| record(device, g, &mut memories[0], program))?;
    assert_eq!(graph.len(), program.iter().map(|(_, op)| op.nodes()).sum::<usize>());
    for (number, which) in LAUNCHES.into_iter().enumerate() {
        if number == CHANGED {
            let program = changed(program);
            device.record_again(&mut graph, |g| record(device, g, &mut memories[0], &program))?;
        }
        memories[which].launch(&streams[number % 2], &mut graph)?;
    }
    // Launches of the graph may be pending.
    drop(graph);
    let [one, two] = memories;
    Ok([one.words(&streams[0])?, two.words(&streams[1])?].concat())
}

/// The operations that can be captured.
fn plain(program: &[(usize, Op)]) -> impl Iterator<Item = &Op> {
    program.iter().map(|(_, op)| op).filter(|op| {
        matches!(
            op,
            Op::Upload { .. }
                | Op::Work { .. }
                | Op::Fill { .. }
                | Op::Download { .. }
                | Op::Chain { .. }
        )
    })
}

/// The results of the program in a stream that other code captures. The captured graph is launched
/// three times. Without a capture, the program runs three times.
fn by_capture(
    device: &Device,
    program: &[(usize, Op)],
    is_captured: bool,
) -> Result<Vec<Vec<u32>>> {
    const TIMES: usize = 3;
    let (s, theirs) = (device.stream()?, device.stream()?);
    let mut memory = Memory::new(device, 1)?;
    if !is_captured {
        for _ in 0..TIMES {
            plain(program).try_for_each(|op| memory.enqueue(&s, op, None))?;
        }
        return memory.words(&s);
    }
    // SAFETY: the stream moves into its owner. The memory outlives the graph, and is used elsewhere
    // only after the launches have ended.
    let theirs = unsafe { device.stream_from_raw(theirs.as_raw(), theirs)? };
    let capture = Capture::begin(&theirs, CaptureMode::ThreadLocal)?;
    plain(program).try_for_each(|op| memory.enqueue(&theirs, op, None))?;
    let captured = capture.end()?;
    for _ in 0..TIMES {
        // SAFETY: as above.
        unsafe { captured.launch(&theirs)? };
    }
    theirs.synchronize()?;
    memory.words(&s)
}

fn open(executor: Executor) -> Device {
    let config = HostConfig::new().executor(executor);
    Device::builder().host(config).check(CheckOptions::default()).open().expect("a host device")
}

#[test]
fn random_graphs_compute_what_their_operations_do_in_any_order_of_the_device() -> Result<()> {
    // `cargo xtask graphs` runs more programs.
    let more = std::env::var("TRIJET_GRAPHS").map(|text| text.parse().expect("a number"));
    for seed in 0..more.unwrap_or(150) {
        let program = program(&mut Prng::new(seed), 14, 2);
        let wanted = wanted(&open(Executor::Virtual(Order::Greedy)), &program)?;
        let serial = by_capture(&open(Executor::Virtual(Order::Greedy)), &program, false)?;
        let orders = [Order::Greedy, Order::Seeded(seed), Order::Seeded(seed + 1000)];
        for order in orders {
            let device = open(Executor::Virtual(order.clone()));
            assert_eq!(found(&device, &program)?, wanted, "seed {seed}, {order:?}: {program:?}");
            let captured = by_capture(&device, &program, true)?;
            assert_eq!(captured, serial, "captured, seed {seed}, {order:?}: {program:?}");
            let verdict = device.verdict().expect("it is checked");
            assert_eq!(verdict.findings, [], "seed {seed}, {order:?}: {program:?}: {verdict}");
        }
    }
    Ok(())
}

/// A GPU would hang. On the host device, the device is lost, as after any operation that fails.
#[test]
fn a_condition_that_stays_set_is_an_error_of_the_host_device() -> Result<()> {
    let device = open(Executor::Virtual(Order::Greedy));
    let s = device.stream()?;
    let (flag, mut x) = (s.upload(&[1_u32])?, s.alloc_zeroed::<u32>(1)?);
    let mut body = device.record(|g| {
        g.argument(&flag)?;
        g.argument(&x)?;
        g.stream()?.fill_bytes(&mut x, 7)
    })?;
    let mut graph = device.record(|g| {
        g.argument(&flag)?;
        g.argument(&x)?;
        let all = Uses::new().read(flag.view()).write(x.view_mut());
        g.stream()?.launch_graph_while(0, &mut body, all)
    })?;
    s.launch_graph(&mut graph, Uses::new().read(flag.view()).write(x.view_mut()))?;
    let error = s.synchronize().expect_err("a million turns have passed");
    assert_eq!(error.kind(), ErrorKind::Launch, "{error}");
    assert!(error.to_string().contains("still set after 1000000 repeats"), "{error}");
    Ok(())
}

#[test]
fn random_graphs_compute_what_their_operations_do_on_threads() -> Result<()> {
    for seed in 1000..1030 {
        let program = program(&mut Prng::new(seed), 14, 2);
        let wanted = wanted(&open(Executor::Virtual(Order::Greedy)), &program)?;
        assert_eq!(found(&open(Executor::Threads), &program)?, wanted, "seed {seed}: {program:?}");
    }
    Ok(())
}

/// The graph of the driver never gets an address of another driver.
#[test]
fn memory_of_another_driver_is_refused_and_changes_nothing() -> Result<()> {
    let [ours, other] = [open(Executor::Threads), open(Executor::Threads)];
    let s = ours.stream()?;
    let (x, mut y) = (s.upload(&[3_u32; LEN])?, s.alloc_zeroed::<u32>(LEN)?);
    let foreign = other.stream()?.upload(&[9_u32; LEN])?;
    let mut graph = ours.record(|g| {
        g.argument(&x)?;
        g.argument(&y)?;
        assert!(g.argument(&foreign).is_err());
        g.stream()?.copy(&x, &mut y)
    })?;
    let arguments = Uses::new().read(foreign.view()).write(y.view_mut());
    assert!(s.launch_graph(&mut graph, arguments).is_err());
    assert_eq!(s.download(&y)?, [0; LEN]);
    s.launch_graph(&mut graph, Uses::new().read(x.view()).write(y.view_mut()))?;
    assert_eq!(s.download(&y)?, [3; LEN]);
    Ok(())
}

/// The checker knows that a graph does not need the earlier content of bytes that it writes before
/// it reads them.
#[test]
fn scratch_that_a_graph_writes_before_it_reads_needs_no_content() -> Result<()> {
    let device = open(Executor::Virtual(Order::Greedy));
    let s = device.stream()?;
    let (x, mut y) = (s.upload(&[3_u32; LEN])?, s.alloc::<u32>(LEN)?);
    let (mut scratch, mut half) = (s.alloc::<u32>(LEN)?, s.alloc::<u32>(LEN)?);
    let record = |written: Range<usize>, scratch: &mut Buffer<u32>, y: &mut Buffer<u32>| {
        device.record(|g| {
            g.argument(&x)?;
            g.argument(scratch)?;
            g.argument(y)?;
            let s = g.stream()?;
            s.copy(&x.slice(written.clone()), &mut scratch.slice_mut(written))?;
            s.copy(scratch, y)
        })
    };
    let findings = || device.verdict().expect("it is checked").findings.len();
    let mut graph = record(0..LEN, &mut scratch, &mut y)?;
    let arguments = Uses::new().read(x.view()).write(scratch.view_mut());
    s.launch_graph(&mut graph, arguments.write(y.view_mut()))?;
    assert_eq!(s.download(&y)?, [3; LEN]);
    assert_eq!(findings(), 0);
    let mut graph = record(0..LEN / 2, &mut half, &mut y)?;
    let arguments = Uses::new().read(x.view()).write(half.view_mut());
    s.launch_graph(&mut graph, arguments.write(y.view_mut()))?;
    device.synchronize()?;
    assert_eq!(findings(), 1, "the second half was never written");
    Ok(())
}

/// Law A31: a launch of a graph follows the launch before it, even on another stream. Here no other
/// rule gives this order. The program itself orders `held`, and the other memory differs between
/// the launches. A copy to `held` and a copy from `held` are in two streams of the graph.
#[test]
fn a_launch_follows_the_one_before_of_the_same_graph() -> Result<()> {
    for seed in 0..40 {
        let device = open(Executor::Virtual(Order::Seeded(seed)));
        let (a, b) = (device.stream()?, device.stream()?);
        let mut held = device.alloc::<u32>(LEN)?;
        // SAFETY: only launches of one graph use it. The launches follow each other, and in a
        // launch its edges order the two copies. The device has ended all work when it is dropped.
        unsafe { held.order_manually() };
        let buffers = |first: u32| -> Result<[Buffer<u32>; 3]> {
            Ok([a.upload(&[first; LEN])?, a.alloc_zeroed(LEN)?, a.alloc_zeroed(LEN)?])
        };
        let mut memory = [buffers(1)?, buffers(2)?];
        let [x, y, z] = &mut memory[0];
        let mut graph = device.record(|g| {
            g.argument(x)?;
            g.argument(y)?;
            g.argument(z)?;
            g.argument(&held)?;
            let (one, two) = (g.stream()?, g.stream()?);
            one.fill_bytes(z, 0)?;
            two.copy(x, &mut held)?;
            // This copy follows the fill in its stream and the copy to `held`.
            two.copy(x, y)?;
            one.copy(y, z)?;
            one.copy(&held, y)
        })?;
        device.synchronize()?;
        for (s, [x, y, z]) in [&a, &b].into_iter().zip(&mut memory) {
            let arguments = Uses::new().read(x.view()).write(y.view_mut()).write(z.view_mut());
            s.launch_graph(&mut graph, arguments.write(held.view_mut()))?;
        }
        for (wanted, [_, y, _]) in (1..).zip(&memory) {
            assert_eq!(a.download(y)?, [wanted; LEN], "seed {seed}, launch {wanted}");
        }
        device.synchronize()?;
        let verdict = device.verdict().expect("it is checked");
        assert!(verdict.findings.is_empty(), "seed {seed}: {verdict}");
    }
    Ok(())
}

/// A stream of a recording enqueues nothing. A ticket of it would cover nothing, and a download
/// would wait for nothing.
#[test]
fn a_stream_of_a_recording_refuses_what_would_wait_for_it_by_name() -> Result<()> {
    let device = open(Executor::Virtual(Order::Greedy));
    let s = device.stream()?;
    let mut x = s.alloc_zeroed::<u32>(LEN)?;
    let mut refused = Vec::new();
    let mut note = |name: &'static str, error: Option<trijet::Error>| {
        let error = error.unwrap_or_else(|| panic!("{name} was accepted"));
        assert_eq!(error.kind(), ErrorKind::Capturing, "{name}: {error}");
        assert!(error.to_string().contains("belongs to a recording"), "{name}: {error}");
        refused.push(name);
    };
    let graph = device.record(|g| {
        g.argument(&x)?;
        let s = g.stream()?;
        s.fill(&mut x, 7)?;
        note("ticket", s.ticket().err());
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut s.ready()).poll(&mut context) {
            Poll::Ready(answer) => note("ready", answer.err()),
            Poll::Pending => panic!("ready was accepted"),
        }
        note("query", s.query().err());
        note("synchronize", s.synchronize().err());
        note("download", s.download(&x).err());
        note("upload", s.upload(&[1_u32]).err());
        note("empty batch", s.copy_batch(Batch::new(), SourceOrder::Stream).err());
        Ok(())
    })?;
    assert_eq!((graph.len(), refused.len()), (1, 7));
    Ok(())
}

/// An error about memory of another kind names both the recorded memory and the given memory.
#[test]
fn memory_of_another_kind_than_was_recorded_is_refused_in_words() -> Result<()> {
    let device = open(Executor::Virtual(Order::Greedy));
    let s = device.stream()?;
    let mut x = s.alloc_zeroed::<u32>(LEN)?;
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        g.stream()?.fill(&mut x, 7)
    })?;
    let mut host = device.pinned::<u32>(LEN)?;
    let arguments = Uses::new().write(host.view_mut());
    let error = s.launch_graph(&mut graph, arguments).expect_err("it is page-locked");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    let words = "argument 0 was recorded as memory of device 0, and page-locked memory was passed";
    assert!(error.to_string().contains(words), "{error}");
    Ok(())
}

/// Memory of a recording has no order with operations outside of its graph, so only the graph can
/// use it.
#[test]
fn memory_of_a_recording_is_used_by_its_graph_alone() -> Result<()> {
    let device = open(Executor::Virtual(Order::Greedy));
    let s = device.stream()?;
    let (x, mut y) = (s.upload(&[3_u32; LEN])?, s.alloc_zeroed::<u32>(LEN)?);
    let mut escaped = None;
    let mut late = None;
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        g.argument(&y)?;
        let s = g.stream()?;
        let mut scratch = s.alloc::<u32>(LEN)?;
        assert!(g.argument(&scratch).is_err(), "it is memory of the graph already");
        s.copy(&x, &mut scratch)?;
        s.copy(&scratch, &mut y)?;
        escaped = Some(scratch);
        late = Some(s);
        Ok(())
    })?;
    let (mut escaped, late) = (escaped.expect("it was kept"), late.expect("it was kept"));
    let refused = |outcome: Result<()>| {
        let error = outcome.expect_err("it belongs to the graph");
        assert!(error.to_string().contains("stream of a recording"), "{error}");
    };
    refused(s.copy(&escaped, &mut y));
    refused(s.fill_bytes(&mut escaped, 0));
    refused(s.launch(&WORK, (1, &escaped, &mut y)));
    refused(s.launch_graph(&mut graph, Uses::new().read(escaped.view()).write(y.view_mut())));
    refused(device.record(|g| g.argument(&escaped)).map(drop));
    let error = late.alloc::<u32>(LEN).expect_err("the recording has ended");
    assert!(error.to_string().contains("has ended"), "{error}");
    s.launch_graph(&mut graph, Uses::new().read(x.view()).write(y.view_mut()))?;
    assert_eq!(s.download(&y)?, [3; LEN]);
    drop(graph);
    refused(escaped.into_dlpack().map(drop));
    device.close()
}

/// Case 44. If a graph lacks an edge that its bytes need, a checked device refuses it and names
/// both nodes. The same graph with all edges is not refused. On an unchecked device the graph
/// without the edge runs. Its results are wrong in some order of the device.
#[test]
fn a_graph_without_a_needed_edge_is_flagged_and_its_twin_is_silent() -> Result<()> {
    let (mut flagged, mut wrong) = (0, 0);
    for seed in 0..150 {
        let program = program(&mut Prng::new(seed), 10, 1);
        let checked = open(Executor::Virtual(Order::Greedy));
        let dropped = 1 + usize::try_from(seed % 12).expect("few");
        let mut memory = Memory::new(&checked, 1)?;
        let mut attempt = |dropped: Option<usize>| {
            checked.record(|g| {
                dropped.into_iter().for_each(|number| g.drop_edge(number));
                record(&checked, g, &mut memory, &program)
            })
        };
        attempt(None)?;
        let Err(error) = attempt(Some(dropped)) else { continue };
        flagged += 1;
        let text = error.to_string();
        assert!(text.contains("a race: operation ") && text.contains("no edge orders"), "{text}");
        // Without a checker, the graph runs.
        let executor = Executor::Virtual(Order::Seeded(seed));
        let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
        let (s, mut memory) = (device.stream()?, Memory::new(&device, 1)?);
        let mut graph = device.record(|g| {
            g.drop_edge(dropped);
            record(&device, g, &mut memory, &program)
        })?;
        memory.launch(&s, &mut graph)?;
        let found = memory.words(&s)?;
        let mut serial = Memory::new(&device, 1)?;
        program.iter().try_for_each(|(_, op)| serial.enqueue(&s, op, None))?;
        wrong += u32::from(serial.words(&s)? != found);
    }
    assert!(flagged > 30, "{flagged} of 150 programs need the edge");
    assert!(wrong > 5, "of {flagged} flagged graphs, {wrong} had wrong results in the drawn order");
    Ok(())
}

fn faulty(faults: Vec<Fault>) -> Result<Device> {
    let executor = Executor::Virtual(Order::Greedy);
    Ok(Device::host(HostConfig::new().executor(executor).faults(faults))?.remove(0))
}

/// Records a fill, a copy and a kernel in two streams of a graph.
fn three(device: &Device, (x, y): (&mut Buffer<u32>, &mut Buffer<u32>)) -> Result<Graph> {
    device.record(|g| {
        g.argument(x)?;
        g.argument(y)?;
        let (a, b) = (g.stream()?, g.stream()?);
        a.fill_bytes(x, 1)?;
        b.copy(&x.slice(..LEN / 2), &mut y.slice_mut(..LEN / 2))?;
        a.launch(&WORK, (0, x.slice(LEN / 2..), y.slice_mut(LEN / 2..)))
    })
}

/// A launch is one call: it enqueues all nodes or none.
#[test]
fn a_launch_that_the_driver_refuses_enqueues_nothing() -> Result<()> {
    let verbs = [
        Verb::GraphLaunch,
        Verb::EventRecord,
        Verb::StreamWait,
        Verb::Fill,
        Verb::Copy,
        Verb::Launch,
    ];
    let mut refused = 0;
    for (verb, nth) in verbs.into_iter().flat_map(|verb| (1..20).map(move |nth| (verb, nth))) {
        let device = faulty(vec![Fault { verb, nth, kind: FaultKind::Refused }])?;
        let run = || -> Result<(bool, Vec<u32>)> {
            let s = device.stream()?;
            let (mut x, mut y) = (s.alloc_zeroed::<u32>(LEN)?, s.alloc_zeroed::<u32>(LEN)?);
            let mut graph = three(&device, (&mut x, &mut y))?;
            let arguments = Uses::new().write(x.view_mut()).write(y.view_mut());
            let launched = s.launch_graph(&mut graph, arguments).is_ok();
            Ok((launched, s.download(&y)?))
        };
        // The driver may have refused other calls instead.
        if let Ok((launched, found)) = run() {
            let wanted = if launched { 0x0101_0101 } else { 0 };
            assert_eq!(found, [wanted; LEN], "{verb:?} {nth}");
            refused += u32::from(!launched);
        }
    }
    assert!(refused > 0);
    Ok(())
}

#[test]
fn a_graph_of_which_a_part_was_changed_is_refused_until_it_is_dropped() -> Result<()> {
    let device = faulty(vec![Fault { verb: Verb::GraphUpdate, nth: 2, kind: FaultKind::Refused }])?;
    let s = device.stream()?;
    let buffers = || Ok::<_, trijet::Error>((s.alloc_zeroed(LEN)?, s.alloc_zeroed(LEN)?));
    let ((mut x, mut y), (mut v, mut w)) = (buffers()?, buffers()?);
    let mut graph = three(&device, (&mut x, &mut y))?;
    let arguments = Uses::new().write(v.view_mut()).write(w.view_mut());
    let error = s.launch_graph(&mut graph, arguments).expect_err("the second change is refused");
    for (x, y) in [(&mut x, &mut y), (&mut v, &mut w)] {
        let arguments = Uses::new().write(x.view_mut()).write(y.view_mut());
        let again = s.launch_graph(&mut graph, arguments).expect_err("some nodes are changed");
        assert_eq!(again.to_string(), error.to_string());
        assert_eq!(s.download(y)?, [0; LEN]);
    }
    drop(graph);
    let mut graph = three(&device, (&mut v, &mut w))?;
    s.launch_graph(&mut graph, Uses::new().write(v.view_mut()).write(w.view_mut()))?;
    assert_eq!(s.download(&w)?, [0x0101_0101; LEN]);
    device.close()
}

#[test]
fn a_launch_on_a_lost_device_is_an_error_and_ends() -> Result<()> {
    for kind in [FaultKind::Faults, FaultKind::DeviceLost] {
        for nth in 1..4 {
            let device = faulty(vec![Fault { verb: Verb::Fill, nth, kind }])?;
            let s = device.stream()?;
            let (mut x, mut y) = (s.alloc::<u32>(LEN)?, s.alloc::<u32>(LEN)?);
            let mut graph = three(&device, (&mut x, &mut y))?;
            let mut launch = || {
                let arguments = Uses::new().write(x.view_mut()).write(y.view_mut());
                s.launch_graph(&mut graph, arguments).and_then(|()| s.synchronize())
            };
            let first = (1..=nth).find_map(|_| launch().err()).expect("the device is lost");
            let later = launch().expect_err("it stays lost");
            assert_eq!(later.kind(), first.kind(), "{kind:?} {nth}: {later} after {first}");
            let error =
                device.record(|g| g.argument(&x)).and_then(|_| three(&device, (&mut x, &mut y)));
            assert_eq!(error.expect_err("no graph is made").kind(), first.kind());
            drop(graph);
            assert!(device.close().is_err());
        }
    }
    Ok(())
}

/// The graph has more nodes than a stream can hold operations (law A41).
#[test]
fn a_graph_may_have_thousands_of_nodes() -> Result<()> {
    for executor in
        [Executor::Virtual(Order::Greedy), Executor::Virtual(Order::Seeded(3)), Executor::Threads]
    {
        let device = open(executor);
        let s = device.stream()?;
        let mut x = s.alloc_zeroed::<u32>(8)?;
        let mut graph = device.record(|g| {
            g.argument(&x)?;
            let s = g.stream()?;
            (0..3000).try_for_each(|_| {
                let config = LaunchConfig::new([8, 1, 1], [1; 3]);
                s.launch_with(&ADD_ONE, config, (&mut x,))
            })
        })?;
        for _ in 0..2 {
            s.launch_graph(&mut graph, Uses::new().write(x.view_mut()))?;
        }
        assert_eq!(s.download(&x)?, [6000; 8]);
    }
    Ok(())
}

/// If the nodes of a graph were lost, the graph would run on the memory of its last launch.
#[test]
fn a_graph_is_as_it_was_after_a_panic_of_the_code_that_records_it_again() -> Result<()> {
    let device = open(Executor::Virtual(Order::Greedy));
    let s = device.stream()?;
    let (mut x, mut y) = (s.alloc_zeroed::<u32>(LEN)?, s.alloc_zeroed::<u32>(LEN)?);
    let fill = |g: &Recording, x: &mut Buffer<u32>, value| {
        g.argument(&*x)?;
        let a = g.stream()?;
        a.fill(x, value)?;
        a.fill(&mut x.slice_mut(..1), value + 1)
    };
    let mut graph = device.record(|g| fill(g, &mut x, 3))?;
    s.launch_graph(&mut graph, Uses::new().write(x.view_mut()))?;
    for operations in 0..3 {
        let again = || {
            device.record_again(&mut graph, |g| {
                g.argument(&x)?;
                let a = g.stream()?;
                (0..operations).try_for_each(|_| a.fill(&mut x, 9))?;
                panic!("on purpose")
            })
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(again)).is_err());
        s.fill(&mut y, 0)?;
        s.launch_graph(&mut graph, Uses::new().write(y.view_mut()))?;
        assert_eq!(s.download(&y)?[..2], [4, 3], "after {operations} operations");
        let value = 10 + operations;
        device.record_again(&mut graph, |g| fill(g, &mut x, value))?;
        s.launch_graph(&mut graph, Uses::new().write(y.view_mut()))?;
        assert_eq!(s.download(&y)?[..2], [value + 1, value], "it can be changed");
        device.record_again(&mut graph, |g| fill(g, &mut x, 3))?;
    }
    Ok(())
}

/// Threads record, change, launch and drop graphs at the same time. They share an input and one
/// output.
#[test]
fn graphs_of_several_threads_do_not_disturb_each_other() -> Result<()> {
    for executor in [Executor::Threads, Executor::Virtual(Order::Seeded(8))] {
        let device = open(executor);
        let x = device.stream()?.upload(&[5_u32; LEN])?;
        let sum = Mutex::new(device.stream()?.alloc_zeroed::<u32>(LEN)?);
        let work = &|thread: u32| -> Result<()> {
            let s = device.stream()?;
            let mut y = s.alloc_zeroed::<u32>(LEN)?;
            let step = |g: &Recording, y: &mut Buffer<u32>, rounds: u32| {
                g.argument(&x)?;
                g.argument(y)?;
                let (a, b) = (g.stream()?, g.stream()?);
                let mut scratch = a.alloc::<u32>(LEN)?;
                a.launch(&WORK, (rounds, &x, &mut scratch))?;
                b.launch(&WORK, (1, &scratch, y))
            };
            let config = LaunchConfig::new([u32::try_from(LEN).expect("few"), 1, 1], [1; 3]);
            for turn in 0..12 {
                let mut graph = device.record(|g| step(g, &mut y, thread))?;
                let wanted = |rounds| hashed(1, hashed(rounds, 5));
                for rounds in [thread, thread + turn] {
                    device.record_again(&mut graph, |g| step(g, &mut y, rounds))?;
                    let arguments = Uses::new().read(x.view()).write(y.view_mut());
                    s.launch_graph(&mut graph, arguments)?;
                    assert_eq!(s.download(&y)?, [wanted(rounds); LEN], "thread {thread}");
                }
                let mut sum = sum.lock().expect("no thread panicked while it held this lock");
                let mut add = device.record(|g| {
                    g.argument(&*sum)?;
                    g.stream()?.launch_with(&ADD_ONE, config, (&mut *sum,))
                })?;
                s.launch_graph(&mut add, Uses::new().write(sum.view_mut()))?;
            }
            Ok(())
        };
        std::thread::scope(|scope| -> Result<()> {
            let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || work(n))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        let sum = sum.into_inner().expect("no thread panicked while it held this lock");
        assert_eq!(device.stream()?.download(&sum)?, [48; LEN]);
        let verdict = device.verdict().expect("it is checked");
        assert_eq!(verdict.findings, [], "{verdict}");
    }
    Ok(())
}

/// The hash that the kernel `WORK` computes.
fn hashed(rounds: u32, x: u32) -> u32 {
    (0..rounds).fold(x, |mut v, _| {
        v ^= v << 13;
        v ^= v >> 17;
        v ^= v << 5;
        v.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15)
    })
}
