//! Launches of graphs, and other calls of a host device with several operations, together with the
//! default streams.

use trijet::check::CheckOptions;
use trijet::explore::{Strategy, explore};
use trijet::graph::Graph;
use trijet::kernels::FILL_U32;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{Capture, CaptureMode, Captured};
use trijet::{
    Batch, Buffer, Device, PinnedBuffer, Result, SourceOrder, Stream, StreamOptions, Uses,
};

/// A kind of stream. The two streams of a pair are two blocking streams, but one default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Legacy,
    PerThread,
    Blocking,
    NonBlocking,
}

const KINDS: [Kind; 4] = [Kind::Legacy, Kind::PerThread, Kind::Blocking, Kind::NonBlocking];

impl Kind {
    fn open(self, device: &Device) -> Result<Stream> {
        match self {
            Self::Legacy => device.legacy_stream(),
            Self::PerThread => device.per_thread_stream(),
            Self::Blocking => device.stream_with(StreamOptions::new().blocking()),
            Self::NonBlocking => device.stream(),
        }
    }

    /// Laws A1, A13 and A15.
    fn precedes(self, second: Self) -> bool {
        let is_blocking = |kind| matches!(kind, Self::PerThread | Self::Blocking);
        match (self, second) {
            (Self::Legacy, Self::Legacy) | (Self::PerThread, Self::PerThread) => true,
            (Self::Legacy, other) | (other, Self::Legacy) => is_blocking(other),
            _ => false,
        }
    }
}

/// The operation that writes the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Kernel,
    /// A synchronous fill, which is an operation of the legacy stream.
    Now,
    Batch,
    Graph,
    /// A graph that writes the word in a second stream, which it joins.
    Branches,
    /// A graph that writes the word on a condition.
    Condition,
    /// A graph that a program captured in its own stream.
    Captured,
}

const VERBS: [Verb; 7] = [
    Verb::Kernel,
    Verb::Now,
    Verb::Batch,
    Verb::Graph,
    Verb::Branches,
    Verb::Condition,
    Verb::Captured,
];

impl Verb {
    /// Whether a stream of this kind has such a call.
    fn is_for(self, kind: Kind) -> bool {
        match self {
            Self::Now => kind == Kind::Legacy,
            Self::Batch => kind != Kind::Legacy,
            _ => true,
        }
    }
}

/// A write of a value that is ready to be enqueued.
enum Ready {
    Kernel(u32),
    Now(u8),
    Batch(PinnedBuffer<u32>),
    Graph(Graph),
    Condition(Graph, Buffer<u32>),
    Captured(Captured),
}

/// The word of a fill with these bytes.
fn word(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

impl Ready {
    fn new(verb: Verb, device: &Device, x: &mut Buffer<u32>, byte: u8) -> Result<Self> {
        let keeper = device.stream()?;
        Ok(match verb {
            Verb::Kernel => Self::Kernel(word(byte)),
            Verb::Now => Self::Now(byte),
            Verb::Batch => {
                let mut source = device.pinned::<u32>(1)?;
                source.write()?[0] = word(byte);
                Self::Batch(source)
            }
            Verb::Graph => Self::Graph(device.record(|g| {
                g.argument(&*x)?;
                g.stream()?.fill(x, word(byte))
            })?),
            Verb::Branches => Self::Graph(device.record(|g| {
                g.argument(&*x)?;
                let (a, b) = (g.stream()?, g.stream()?);
                let mut y = a.alloc::<u32>(1)?;
                a.fill(&mut y, word(byte))?;
                b.copy(&y, x)
            })?),
            Verb::Condition => {
                let flag = keeper.upload(&[1_u32])?;
                let mut body = device.record(|g| {
                    g.argument(&flag)?;
                    g.argument(&*x)?;
                    g.stream()?.fill(x, word(byte))
                })?;
                let graph = device.record(|g| {
                    g.argument(&flag)?;
                    g.argument(&*x)?;
                    let arguments = Uses::new().read(flag.view()).write(x.view_mut());
                    g.stream()?.launch_graph_if(0, &mut body, arguments)
                })?;
                Self::Condition(graph, flag)
            }
            Verb::Captured => {
                let theirs = device.stream()?;
                // SAFETY: the stream moves into its owner. The memory outlives the graph, and the
                // streams of its launches order its uses, or nothing depends on their order.
                let theirs = unsafe { device.stream_from_raw(theirs.as_raw(), theirs)? };
                let capture = Capture::begin(&theirs, CaptureMode::ThreadLocal)?;
                theirs.launch(&FILL_U32, (word(byte), x))?;
                Self::Captured(capture.end()?)
            }
        })
    }

    fn enqueue(&mut self, device: &Device, stream: &Stream, x: &mut Buffer<u32>) -> Result<()> {
        match self {
            Self::Kernel(value) => stream.launch(&FILL_U32, (*value, x)),
            Self::Now(byte) => device.fill_now(x, *byte),
            Self::Batch(source) => {
                let mut batch = Batch::new();
                batch.add(&*source, x)?;
                stream.copy_batch(batch, SourceOrder::Stream)
            }
            Self::Graph(graph) => stream.launch_graph(graph, Uses::new().write(x.view_mut())),
            Self::Condition(graph, flag) => {
                let arguments = Uses::new().read(flag.view()).write(x.view_mut());
                stream.launch_graph(graph, arguments)
            }
            // SAFETY: as for the capture.
            Self::Captured(captured) => unsafe { captured.launch(stream) },
        }
    }
}

/// A write and then another one, of a word that the program orders by hand.
fn last_of_two(device: &Device, first: (Verb, Kind), second: (Verb, Kind)) -> Result<u32> {
    let keeper = device.stream()?;
    let (a, b) = (first.1.open(device)?, second.1.open(device)?);
    let mut x = keeper.alloc_zeroed::<u32>(1)?;
    let mut one = Ready::new(first.0, device, &mut x, 3)?;
    let mut other = Ready::new(second.0, device, &mut x, 5)?;
    device.synchronize()?;
    // SAFETY: the two operations only write a number, and nothing else depends on it.
    unsafe { x.order_manually() };
    one.enqueue(device, &a, &mut x)?;
    other.enqueue(device, &b, &mut x)?;
    device.synchronize()?;
    let mut h = device.pinned::<u32>(1)?;
    keeper.copy(&x, &mut h)?;
    let value = h.read()?[0];
    device.synchronize()?;
    Ok(value)
}

/// Laws A13, A15 and A31: a call of several operations is one operation of its stream. In a
/// blocking stream or a per-thread one it follows the legacy stream. In the legacy stream it
/// follows all of these streams, and their later work follows it.
#[test]
fn a_call_of_several_operations_is_in_order_with_the_default_streams() -> Result<()> {
    let pairs = KINDS.into_iter().flat_map(|first| KINDS.map(|second| (first, second)));
    for (first, second) in pairs.filter(|(first, second)| first.precedes(*second)) {
        let of = |kind: Kind| VERBS.into_iter().filter(move |verb| verb.is_for(kind));
        for (one, other) in of(first).flat_map(|one| of(second).map(move |other| (one, other))) {
            let what = format!("{other:?} in {second:?} after {one:?} in {first:?}");
            let run = |devices: &[Device]| {
                last_of_two(&devices[0], (one, first), (other, second)).expect("nothing failed")
            };
            let strategy = Strategy::Exhaustive { runs_max: 60 };
            let found = explore(&HostConfig::default(), strategy, run)?;
            let values: Vec<u32> = found.outcomes.iter().map(|one| one.value).collect();
            assert_eq!(values, [word(5)], "{what}");
            let executor = Executor::Virtual(Order::Seeded(1));
            let config = HostConfig::new().executor(executor);
            let checked = Device::builder().host(config).check(CheckOptions::default()).open()?;
            last_of_two(&checked, (one, first), (other, second))?;
            let verdict = checked.verdict().expect("the device is checked");
            assert_eq!(verdict.findings, [], "{what}: {verdict}");
        }
    }
    Ok(())
}

/// The search finds orders that no law forbids: a launch in a non-blocking stream follows nothing.
#[test]
fn a_launch_in_a_non_blocking_stream_does_not_follow_the_legacy_stream() -> Result<()> {
    for (first, second) in [(Kind::Legacy, Kind::NonBlocking), (Kind::NonBlocking, Kind::Legacy)] {
        let run = |devices: &[Device]| {
            let (one, other) = ((Verb::Kernel, first), (Verb::Graph, second));
            last_of_two(&devices[0], one, other).expect("nothing failed")
        };
        let strategy = Strategy::Exhaustive { runs_max: 500 };
        let found = explore(&HostConfig::default(), strategy, run)?;
        assert_eq!(found.outcomes.len(), 2, "{second:?} after {first:?}");
    }
    Ok(())
}

/// Memory that the library orders: no wait is inserted between the two streams, because the driver
/// orders them.
#[test]
fn a_tracked_launch_behind_the_legacy_stream_has_one_outcome() -> Result<()> {
    for kind in [Kind::Blocking, Kind::PerThread] {
        let run = |devices: &[Device]| {
            let run = || -> Result<u32> {
                let device = &devices[0];
                let (legacy, stream) = (device.legacy_stream()?, kind.open(device)?);
                let keeper = device.stream()?;
                let mut x = keeper.alloc_zeroed::<u32>(1)?;
                let mut graph = Ready::new(Verb::Graph, device, &mut x, 5)?;
                device.synchronize()?;
                legacy.fill(&mut x, 3)?;
                graph.enqueue(device, &stream, &mut x)?;
                Ok(keeper.download(&x)?[0])
            };
            run().expect("nothing failed")
        };
        for strategy in
            [Strategy::Exhaustive { runs_max: 1000 }, Strategy::Seeded { runs: 50, seed: 1 }]
        {
            let found = explore(&HostConfig::default(), strategy, run)?;
            let values: Vec<u32> = found.outcomes.iter().map(|one| one.value).collect();
            assert_eq!(values, [word(5)], "{kind:?}, {strategy:?}");
        }
    }
    Ok(())
}

/// Law A38: a copy between two devices in the legacy stream comes after the earlier copies of both
/// devices, which may involve a third device, and before later work of the blocking streams of
/// both.
#[test]
fn a_copy_between_two_devices_comes_after_the_copies_before_it_of_either() -> Result<()> {
    let run = |devices: &[Device]| {
        let run = || -> Result<u32> {
            let [d0, d1, d2] = devices else { panic!("three devices") };
            let keepers = [d0.stream()?, d1.stream()?, d2.stream()?];
            let on_d1 = d1.stream_with(StreamOptions::new().blocking())?;
            let mut x = keepers[0].upload(&[7_u32])?;
            let mut y = keepers[1].upload(&[0_u32])?;
            let (other, mut far) = (keepers[1].upload(&[1_u32])?, keepers[2].upload(&[2_u32])?);
            let mut h = d1.pinned::<u32>(1)?;
            devices.iter().try_for_each(Device::synchronize)?;
            // SAFETY: the copies only move numbers, and nothing else depends on these.
            unsafe { x.order_manually() };
            // SAFETY: as for `x`, which is copied here.
            unsafe { y.order_manually() };
            d0.copy_now(&x, &mut y)?;
            d2.copy_now(&other, &mut far)?;
            on_d1.copy(&y, &mut h)?;
            let value = h.read()?[0];
            devices.iter().try_for_each(Device::synchronize)?;
            Ok(value)
        };
        run().expect("nothing failed")
    };
    let config = HostConfig::new().devices(3);
    let found = explore(&config, Strategy::Exhaustive { runs_max: 2000 }, run)?;
    let values: Vec<u32> = found.outcomes.iter().map(|one| one.value).collect();
    assert_eq!(values, [7]);
    Ok(())
}
