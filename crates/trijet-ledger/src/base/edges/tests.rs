//! Tests of the streams against a naive model of the laws. The model computes every set of entries
//! anew.
#![forbid(unsafe_code)]

use super::{Caller, Edge, Laws, Past, Point, Role, Streams, may_wait, passed_at_return};
use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{
    Access, Asked, Engine, HostStep, Mode, Op, OpKind, OrderedBy, Place, StreamClass, StreamMark,
    StreamWork, Waited,
};
use crate::base::prng::Prng;
use std::collections::{BTreeMap, BTreeSet};

/// The entries that have passed at a point, by their numbers.
#[derive(Debug, Clone, Default, PartialEq)]
struct Set(BTreeSet<u64>);

impl Past for Set {
    fn follow(&mut self, other: &Self, _: Edge) {
        self.0.extend(&other.0);
    }

    fn copy_from(&mut self, other: &Self) {
        self.clone_from(other);
    }
}

fn set(entries: impl IntoIterator<Item = u64>) -> Set {
    Set(entries.into_iter().collect())
}

/// A stream of the model.
#[derive(Debug, Clone)]
struct Naive {
    class: StreamClass,
    device: u32,
    tail: Set,
}

/// All streams of the model, including former streams, and the barrier of each device's legacy
/// stream.
#[derive(Debug, Default)]
struct Model {
    laws: Option<Laws>,
    streams: Vec<Naive>,
    /// For each lane, the index of its stream in `streams`.
    lanes: BTreeMap<u32, usize>,
    barriers: BTreeMap<u32, Set>,
}

impl Model {
    fn held(&self, wanted: impl Fn(&Naive) -> bool) -> Set {
        let tails = self.streams.iter().filter(|stream| wanted(stream));
        set(tails.flat_map(|stream| stream.tail.0.iter().copied()))
    }

    fn blocking(&self, device: u32) -> Set {
        self.held(|one| one.device == device && one.class != StreamClass::NonBlocking)
    }

    fn open(&mut self, lane: u32, class: StreamClass, device: u32, tail: Set) {
        self.lanes.insert(lane, self.streams.len());
        self.streams.push(Naive { class, device, tail });
    }

    fn stream(&mut self, lane: u32) -> &mut Naive {
        &mut self.streams[self.lanes[&lane]]
    }

    /// The set that a wait for the stream of `lane` finds complete.
    fn prefix(&mut self, lane: u32) -> Set {
        let Naive { class, device, tail, .. } = self.stream(lane).clone();
        let mut found = tail;
        if class == StreamClass::Legacy {
            found.0.extend(self.blocking(device).0);
        }
        found
    }

    /// Adds an entry, and returns the set that its start follows.
    fn enter(&mut self, lane: u32, role: Role, on: &Set, known: &Set, entry: u64) -> Set {
        let Naive { class, device, .. } = *self.stream(lane);
        let legacy = class == StreamClass::Legacy;
        let mut before = self.stream(lane).tail.clone();
        if legacy && role != Role::Allocation {
            before.0.extend(self.blocking(device).0);
        }
        if class != StreamClass::NonBlocking && role == Role::Work {
            before.0.extend(self.barriers.entry(device).or_default().0.iter());
        }
        before.0.extend(on.0.iter().chain(&known.0));
        let mut tail = before.clone();
        tail.0.insert(entry);
        self.stream(lane).tail = tail.clone();
        let holds = match role {
            Role::Work | Role::Wait => true,
            Role::Record => self.laws == Some(Laws::Observed),
            Role::Allocation => false,
        };
        if legacy && holds {
            self.barriers.entry(device).or_default().0.extend(tail.0);
        }
        before
    }
}

fn entry(kind: impl Into<OpKind>, lane: u32, class: StreamClass, device: u32) -> Op {
    let position = Position { lane: LaneId(lane), seq: 1 };
    let op = Op::new(kind, Engine::None, DeviceId(device), position);
    Op { stream: class, ..op }
}

const CLASSES: [StreamClass; 4] =
    [StreamClass::Legacy, StreamClass::PerThread, StreamClass::Blocking, StreamClass::NonBlocking];
const ROLES: [Role; 5] = [Role::Work, Role::Work, Role::Wait, Role::Record, Role::Allocation];

fn kind_of(role: Role) -> OpKind {
    match role {
        Role::Work => OpKind::Work(StreamWork::Kernel),
        Role::Wait => {
            let on = Position { lane: LaneId(0), seq: 0 };
            OpKind::Mark(StreamMark::Wait { event: 1, on, by: Asked::User })
        }
        Role::Record => OpKind::Mark(StreamMark::Record { event: 1, by: Asked::User }),
        Role::Allocation => OpKind::Work(StreamWork::Alloc),
    }
}

/// Makes the same random step in `streams` and in `model`, and checks that the results are equal.
fn step(streams: &mut Streams<Set>, model: &mut Model, prng: &mut Prng, number: u64) {
    let mut draw = |bound: u64| prng.below(bound);
    let lane = u32::try_from(draw(5)).expect("small");
    let known = set((0..draw(3)).map(|_| 10_000 + number));
    if !model.lanes.contains_key(&lane) || draw(12) == 0 {
        let class = CLASSES[usize::try_from(draw(4)).expect("small")];
        let device = u32::try_from(draw(2)).expect("small");
        let before = streams.close(LaneId(lane)).unwrap_or(streams.len());
        let op = entry(HostStep::Open, lane, class, device);
        streams.open(before, &op, &known);
        return model.open(lane, class, device, known);
    }
    let Naive { class, device, .. } = *model.stream(lane);
    let at = streams.find(LaneId(lane)).expect("it is open");
    match draw(8) {
        0 => {
            let mut found = Set::default();
            streams.wait_for_stream(at, &mut found);
            assert_eq!(found, model.prefix(lane));
        }
        1 => {
            let mut found = Set::default();
            streams.wait_for_device(DeviceId(device), &mut found);
            assert_eq!(found, model.held(|one| one.device == device));
        }
        2 => {
            // A host function finds that a signal was set. From then on, the stream of the host
            // function follows the call that set the signal.
            streams.tail_mut(at).0.insert(20_000 + number);
            model.stream(lane).tail.0.insert(20_000 + number);
        }
        _ => {
            let role = ROLES[usize::try_from(draw(5)).expect("small")];
            let on = if role == Role::Wait { set([30_000 + number]) } else { Set::default() };
            let op = entry(kind_of(role), lane, class, device);
            assert_eq!(Role::of(&op.kind, streams.laws()), Some(role));
            streams.begin_entry(at, &op, role, Some(&on));
            streams.follow_caller(at, &Caller { thread: 1, version: number, known: &known });
            let before = model.enter(lane, role, &on, &known, number);
            assert_eq!(*streams.tail(at), before, "#{number} {role:?} of {class:?}");
            streams.tail_mut(at).0.insert(number);
            streams.end_entry(at, &op, role);
        }
    }
}

#[test]
fn what_an_entry_follows_is_what_the_laws_say_of_all_streams() {
    for seed in 0..300 {
        let laws = [Laws::Documented, Laws::Observed][usize::from(seed % 2 == 1)];
        let (mut streams, mut prng) = (Streams::new(laws), Prng::new(seed));
        let mut model = Model { laws: Some(laws), ..Model::default() };
        for number in 1..200 {
            step(&mut streams, &mut model, &mut prng, number);
        }
    }
}

/// Adds an operation to its stream, and adds the end of the operation to the tail of the stream.
/// Returns the set that the operation follows.
fn work(streams: &mut Streams<Set>, op: &Op, number: u64) -> Set {
    let lane = op.position.lane;
    let at = streams.find(lane).unwrap_or_else(|| {
        streams.enter(streams.len(), op);
        streams.len() - 1
    });
    let role = Role::of(&op.kind, streams.laws()).expect("it is in a stream");
    streams.note_block(op);
    streams.begin_entry(at, op, role, None);
    let before = streams.tail(at).clone();
    streams.tail_mut(at).0.insert(number);
    streams.end_entry(at, op, role);
    before
}

/// Law A13, with the edges that an H200 kept in every measurement.
#[test]
fn measured_records_waits_and_allocations_are_in_order_with_the_legacy_stream() {
    for role in ROLES {
        let follows = |laws, classes: [StreamClass; 2], kinds: [OpKind; 2]| {
            let mut streams = Streams::new(laws);
            let ops = [0, 1].map(|n| {
                let lane = u32::try_from(n).expect("small");
                entry(kinds[n], lane, classes[n], 0)
            });
            work(&mut streams, &ops[0], 1);
            work(&mut streams, &ops[1], 2) == set([1])
        };
        let (down, up) = ([CLASSES[0], CLASSES[2]], [CLASSES[2], CLASSES[0]]);
        let (first, second) = (
            [kind_of(role), OpKind::Work(StreamWork::Kernel)],
            [OpKind::Work(StreamWork::Kernel), kind_of(role)],
        );
        for (classes, kinds) in [(down, first), (down, second), (up, second)] {
            assert!(follows(Laws::Measured, classes, kinds), "{role:?}");
        }
        let holds = matches!(role, Role::Work | Role::Wait);
        assert_eq!(follows(Laws::Documented, down, first), holds, "{role:?}");
    }
}

fn access(block: u64, place: Place, mode: Mode) -> Access {
    Access { block: BlockId(block), place, range: 0..1, mode, ordered: OrderedBy::Program }
}

/// Law A38.
#[test]
fn a_copy_at_once_between_devices_is_in_order_with_the_blocking_streams_of_both() {
    let mut streams = Streams::new(Laws::Documented);
    let home = Op {
        accesses: [access(1, Place::Device, Mode::Write)].into_iter().collect(),
        ..entry(StreamWork::Alloc, 3, StreamClass::NonBlocking, 1)
    };
    work(&mut streams, &home, 1);
    work(&mut streams, &entry(StreamWork::Kernel, 2, StreamClass::Blocking, 1), 2);
    let copy = Op {
        engine: Engine::Peer,
        accesses: [access(1, Place::Device, Mode::Read)].into_iter().collect(),
        ..entry(StreamWork::CopyNow, 1, StreamClass::Legacy, 0)
    };
    assert_eq!(work(&mut streams, &copy, 3), set([2]));
    let later = entry(StreamWork::Kernel, 4, StreamClass::Blocking, 1);
    assert_eq!(work(&mut streams, &later, 4), set([2, 3]));
    let other = entry(StreamWork::Kernel, 5, StreamClass::NonBlocking, 1);
    assert_eq!(work(&mut streams, &other, 5), set([]));
}

/// Laws A17 and A18: entries that came to the stream while a call waited have no order with the
/// operation of the call.
#[test]
fn a_call_that_waits_follows_what_its_stream_held_when_it_began() {
    let mut streams = Streams::new(Laws::Documented);
    let kernel = entry(StreamWork::Kernel, 1, StreamClass::Blocking, 0);
    let copy = entry(StreamWork::CopyNow, 1, StreamClass::Blocking, 0);
    work(&mut streams, &kernel, 1);
    let at = streams.find(LaneId(1)).expect("it held work");
    let known = set([7]);
    let by = Caller { thread: 0, version: 1, known: &known };
    let begun = streams.begin_call(at, &copy, &by);
    assert_eq!((&begun.held, &begun.before), (&set([1]), &set([1, 7])));
    work(&mut streams, &kernel, 2);
    let before = streams.return_call(begun, &copy);
    assert_eq!(before, set([1, 7]));
    streams.tail_mut(at).0.extend(before.0.into_iter().chain([3]));
    streams.end_call(at, &copy, &set([1, 3, 7]));
    assert_eq!(*streams.tail(at), set([1, 2, 3, 7]));
}

/// Law A31.
#[test]
fn a_launch_of_a_graph_follows_its_previous_launch_and_no_other_graph() {
    let mut streams = Streams::new(Laws::Documented);
    let launch = |lane, graph| Op {
        graph: Some(graph),
        ..entry(StreamWork::Kernel, lane, StreamClass::NonBlocking, 0)
    };
    let kernel = |lane| entry(StreamWork::Kernel, lane, StreamClass::NonBlocking, 0);
    work(&mut streams, &kernel(1), 1);
    assert_eq!(work(&mut streams, &launch(1, 7), 2), set([1]));
    assert_eq!(work(&mut streams, &launch(2, 8), 3), set([]));
    assert_eq!(work(&mut streams, &launch(3, 7), 4), set([1, 2]));
    assert_eq!(work(&mut streams, &launch(2, 7), 5), set([1, 2, 3, 4]));
    // A kernel in another stream follows none of these launches. A launch in a call that waits
    // follows the last launch of its graph.
    assert_eq!(work(&mut streams, &kernel(4), 6), set([]));
    let at = streams.find(LaneId(4)).expect("it held work");
    let by = Caller { thread: 0, version: 1, known: &set([]) };
    let begun = streams.begin_call(at, &launch(4, 7), &by);
    work(&mut streams, &kernel(4), 7);
    let before = streams.return_call(begun, &launch(4, 7));
    assert_eq!(before, set([1, 2, 3, 4, 5, 6]));
    streams.end_call(at, &launch(4, 7), &set(before.0.into_iter().chain([8])));
    assert_eq!(work(&mut streams, &launch(5, 7), 9), set([1, 2, 3, 4, 5, 6, 8]));
    streams.forget_launches(|launch| launch.0.contains(&9));
    assert_eq!(work(&mut streams, &launch(6, 7), 10), set([]));
}

/// Laws A16 to A18.
#[test]
fn a_call_returns_after_the_point_that_its_copy_guarantees() {
    use Place::{Device, Pageable, Pinned};
    let copy = |work: StreamWork, from, to| Op {
        accesses: [access(1, from, Mode::Read), access(2, to, Mode::Write)].into_iter().collect(),
        ..entry(work, 1, StreamClass::Legacy, 0)
    };
    let point = |work, from, to, laws| passed_at_return(&copy(work, from, to), laws);
    let (seen, said) = (Laws::Observed, Laws::Documented);
    let (trigger, end) = (Some(Point::Trigger), Some(Point::End));
    let rows = [
        (StreamWork::Copy, Pinned, Device, None, None),
        (StreamWork::Copy, Pageable, Device, None, trigger),
        (StreamWork::Copy, Device, Pageable, None, end),
        (StreamWork::Copy, Pinned, Pageable, end, end),
        (StreamWork::CopyNow, Pageable, Device, trigger, trigger),
        (StreamWork::CopyNow, Pinned, Device, end, end),
        (StreamWork::CopyNow, Device, Pinned, end, end),
        (StreamWork::CopyNow, Device, Device, None, None),
        (StreamWork::FillNow, Device, Pinned, end, end),
        (StreamWork::FillNow, Device, Device, None, None),
        (StreamWork::Kernel, Device, Device, None, None),
    ];
    for (work, from, to, documented, observed) in rows {
        assert_eq!(point(work, from, to, said), documented, "{work:?} {from:?} {to:?}");
        assert_eq!(point(work, from, to, seen), observed, "{work:?} {from:?} {to:?}");
        // If a call is guaranteed to wait, `may_wait` must be true for the call.
        let waits = observed.is_some() && (from, to) != (Pinned, Pinned);
        assert!(!waits || may_wait(&copy(work, from, to)), "{work:?} {from:?} {to:?}");
    }
    assert_eq!(Role::of(&OpKind::Host(HostStep::Access), said), None);
    let wait = OpKind::Host(HostStep::Sync {
        what: Waited::Device,
        outcome: crate::base::ledger::WaitOutcome::Failed,
    });
    assert_eq!(Role::of(&wait, Laws::Measured), None);
}
