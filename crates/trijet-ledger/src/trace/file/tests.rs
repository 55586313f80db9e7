//! Ledger files: an intact file is read back, and a damaged file is refused with bounded memory.
#![forbid(unsafe_code)]

use super::*;
use crate::base::error::{ErrorKind, Result};
use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{
    Access, Asked, Declared, Engine, Handled, HostStep, LedgerNote, MemoryCall, Mode, Named, Op,
    OpKind, OrderedBy, Place, Route, SignalStep, Signalled, Site, SourceOrder, StreamClass,
    StreamMark, StreamWork, Times, WaitOutcome, Waited,
};
use crate::base::units::Nanos;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn about() -> About {
    About {
        tool: "trijet 0.1.0".to_owned(),
        program: "a test".to_owned(),
        times: TimeSource::EventPairs,
        clock_error_ns: 1200,
        dropped: 3,
        order: Some("seeded:7".to_owned()),
        devices: vec![AboutDevice { device: 0, name: "H200".to_owned(), driver: 13_000 }],
        hardware_queues: Some(8),
    }
}

fn position() -> impl Strategy<Value = Position> {
    (0u32..9, any::<u64>()).prop_map(|(lane, seq)| Position { lane: LaneId(lane), seq })
}

fn work() -> impl Strategy<Value = StreamWork> {
    use StreamWork::{Alloc, Batch, Copy, CopyNow, Fill, FillNow, Free, HostFn, Kernel};
    let any = Batch(SourceOrder::Any);
    select(vec![Alloc, Free, Copy, CopyNow, any, Fill, FillNow, Kernel, HostFn])
}

fn mark() -> impl Strategy<Value = StreamMark> {
    let by = select(vec![Asked::User, Asked::Ordering]);
    prop_oneof![
        (any::<u64>(), by.clone()).prop_map(|(event, by)| StreamMark::Record { event, by }),
        (any::<u64>(), position(), by).prop_map(|(event, on, by)| StreamMark::Wait {
            event,
            on,
            by
        }),
    ]
}

fn memory() -> impl Strategy<Value = MemoryCall> {
    prop_oneof![
        select(vec![MemoryCall::AllocNow, MemoryCall::FreeNow, MemoryCall::ToHeap]),
        any::<u64>().prop_map(|place| MemoryCall::FromHeap { place }),
    ]
}

fn step() -> impl Strategy<Value = HostStep> {
    use HostStep::{Access, Begin, Failed, Lent, Load, Open, Refused, Release};
    let waited = prop_oneof![
        any::<u64>().prop_map(Waited::Event),
        any::<u64>().prop_map(Waited::Recorded),
        Just(Waited::Stream),
    ];
    let outcome = select(vec![WaitOutcome::Pending, WaitOutcome::Complete, WaitOutcome::Failed]);
    prop_oneof![
        select(vec![Access, Begin, Failed, Lent, Load, Open, Refused, Release]),
        (waited, outcome).prop_map(|(what, outcome)| HostStep::Sync { what, outcome }),
        option::of(position()).prop_map(|culprit| HostStep::Fault { culprit }),
    ]
}

fn signal() -> impl Strategy<Value = SignalStep> {
    use Handled::{Cloned, Dropped, Made, Used};
    use Signalled::{Found, Gone, LimitedWait, Set, Wait};
    let signalled = select(vec![Set, Wait, Found, Gone, LimitedWait]);
    let handled = (any::<u64>(), select(vec![Made, Cloned, Used, Dropped]));
    prop_oneof![
        (any::<u64>(), signalled, option::of(position()))
            .prop_map(|(signal, what, inside)| SignalStep::Use { signal, what, inside }),
        (any::<u64>(), handled, option::of(position())).prop_map(
            |(signal, (handle, what), inside)| SignalStep::Handle { signal, handle, what, inside }
        ),
    ]
}

fn note() -> impl Strategy<Value = LedgerNote> {
    prop_oneof![
        select(vec![LedgerNote::Ran, LedgerNote::ThreadGone]),
        any::<u64>().prop_map(|event| LedgerNote::Gone { event }),
        any::<u64>().prop_map(|event| LedgerNote::Settled { event }),
        any::<u64>().prop_map(|event| LedgerNote::Name { of: Named::Event(event) }),
    ]
}

fn kind() -> impl Strategy<Value = OpKind> {
    prop_oneof![
        work().prop_map(OpKind::Work),
        mark().prop_map(OpKind::Mark),
        memory().prop_map(OpKind::Memory),
        step().prop_map(OpKind::Host),
        signal().prop_map(OpKind::Signal),
        note().prop_map(OpKind::Note),
    ]
}

fn times() -> impl Strategy<Value = Option<Times>> {
    let pair = (any::<u64>(), any::<u64>())
        .prop_map(|(a, b)| Times { begin: Nanos(a.min(b)), end: Nanos(a.max(b)) });
    option::of(pair)
}

fn access() -> impl Strategy<Value = Access> {
    let place = prop_oneof![Just(Place::Device), Just(Place::Pinned), Just(Place::Pageable)];
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Write), Just(Mode::Update)];
    (any::<u64>(), place, any::<u64>(), any::<u64>(), mode).prop_map(
        |(block, place, a, b, mode)| Access {
            block: BlockId(block),
            place,
            range: a.min(b)..a.max(b),
            mode,
            ordered: OrderedBy::Library,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let origin = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>());
    let site = option::of(("[a-z/]{0,12}", any::<u32>(), any::<u32>()));
    let route = (any::<u32>(), any::<u32>());
    let route = route.prop_map(|(from, to)| Route { from: DeviceId(from), to: DeviceId(to) });
    let route = option::of(route);
    let graph = option::of(any::<u64>());
    let rest = (any::<u64>(), option::of(any::<u64>()), site, "\\PC{0,8}", (route, graph));
    (kind(), origin, vec(access(), 0..4), rest, times(), times()).prop_map(
        |(
            kind,
            (device, lane, seq, thread),
            accesses,
            (bytes, chunk, site, label, (route, graph)),
            call,
            times,
        )| Op {
            stream: StreamClass::Blocking,
            accesses: accesses.into(),
            declared: Declared::Nothing,
            bytes,
            route,
            graph,
            label: label.into(),
            chunk,
            site: site.map(|(file, line, column)| Site { file: file.into(), line, column }),
            thread,
            call,
            times,
            ..Op::new(
                kind,
                Engine::Download,
                DeviceId(device),
                Position { lane: LaneId(lane), seq },
            )
        },
    )
}

fn write(ops: &[Op]) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), &about())?;
    ops.iter().try_for_each(|op| writer.push(op))?;
    writer.finish()
}

fn read(bytes: &[u8]) -> Result<Vec<Op>> {
    Reader::new(bytes)?.collect()
}

/// A file without operations and without its last block.
fn endless() -> Vec<u8> {
    let mut bytes = write(&[]).expect("memory takes all");
    bytes.truncate(bytes.len() - 11);
    assert!(read(&bytes).expect_err("no end").to_string().contains("ends early"));
    bytes
}

fn text(ops: &[Op]) -> String {
    format!("{ops:?}")
}

proptest! {
    #[test]
    fn what_is_written_is_read(ops in vec(op(), 0..40)) {
        let bytes = write(&ops).expect("memory takes all");
        let reader = Reader::new(bytes.as_slice()).expect("it is whole");
        prop_assert_eq!(reader.about(), &about());
        let found: Vec<Op> = reader.collect::<Result<_>>().expect("it is whole");
        prop_assert_eq!(text(&found), text(&ops));
        prop_assert_eq!(write(&found).expect("memory takes all"), bytes, "the same bytes again");
    }

    /// A file that was cut is never read as a whole file.
    #[test]
    fn a_file_that_was_cut_is_refused(ops in vec(op(), 0..20), cut in any::<prop::sample::Index>()) {
        let bytes = write(&ops).expect("memory takes all");
        let cut = cut.index(bytes.len());
        let error = read(&bytes[..cut]).expect_err("something is missing");
        prop_assert_eq!(error.kind(), ErrorKind::InvalidValue);
    }

    /// Every change of a byte is found, by a checksum or by a contradiction.
    #[test]
    fn a_changed_byte_is_refused(
        ops in vec(op(), 1..12),
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
    ) {
        let mut bytes = write(&ops).expect("memory takes all");
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(read(&bytes).is_err(), "byte {} of {}", at, bytes.len());
    }

    /// The input is blocks with valid checksums and any content.
    #[test]
    fn hostile_blocks_are_refused_or_read(
        blocks in vec((1u8..=4, vec(any::<u8>(), 0..200)), 0..6),
    ) {
        let mut bytes = endless();
        for (kind, payload) in blocks {
            bytes.push(kind);
            bytes.extend(u32::try_from(payload.len()).expect("short").to_le_bytes());
            bytes.extend(checksum(MAGIC, &payload).to_le_bytes());
            bytes.extend(payload);
        }
        drop(read(&bytes));
    }
}

fn plain(label: &str, begin: u64) -> Op {
    let position = Position { lane: LaneId(1), seq: begin };
    Op {
        label: label.to_owned().into(),
        thread: 1,
        times: Some(Times { begin: Nanos(begin), end: Nanos(begin + 5) }),
        ..Op::new(StreamWork::Kernel, Engine::Compute, DeviceId(0), position)
    }
}

#[test]
fn many_operations_need_many_blocks_and_few_bytes() {
    let ops: Vec<Op> = (0..20_000).map(|n| plain("kernel", 1000 * n)).collect();
    let bytes = write(&ops).expect("memory takes all");
    assert_eq!(text(&read(&bytes).expect("it is whole")), text(&ops));
    assert!(bytes.len() < 25 * ops.len(), "{} bytes", bytes.len());
}

#[test]
fn a_file_of_another_version_or_format_is_refused() {
    let mut bytes = write(&[]).expect("memory takes all");
    bytes[7] = b'7';
    let error = read(&bytes).expect_err("version 7");
    assert!(error.to_string().contains("version 7"), "{error}");
    assert!(
        read(b"PK\x03\x04 a zip").expect_err("a zip").to_string().contains("not a ledger file")
    );
}

/// The same file with the description of versions before 4.
fn with_old_description(bytes: &[u8]) -> Vec<u8> {
    let About { tool, program, times, clock_error_ns, dropped, order, devices, .. } = about();
    let old = (tool, program, times, clock_error_ns, dropped, order, devices);
    let payload = postcard::to_allocvec(&old).expect("a few bytes");
    let length = bytes[9..13].try_into().expect("four bytes");
    let rest = 17 + usize::try_from(u32::from_le_bytes(length)).expect("a short block");
    let mut all = bytes[..9].to_vec();
    all.extend(u32::try_from(payload.len()).expect("short").to_le_bytes());
    all.extend([0; 4]);
    all.extend(payload);
    all.extend(&bytes[rest..]);
    all
}

/// Version 1 has another description and other checksums than the present version. Its rows have no
/// signals, no devices of copies, and no graphs.
#[test]
fn a_file_of_the_first_version_is_read() {
    let bytes = write(&[plain("kernel", 7)]).expect("memory takes all");
    let mut first = with_old_description(&bytes);
    first[..8].copy_from_slice(b"TRIJETL1");
    assert!(read(&first).expect_err("its checksums are").to_string().contains("checksum"));
    let mut at = 8;
    while at < first.len() {
        let length = first[at + 1..at + 5].try_into().expect("four bytes");
        let mut end = at + 9 + usize::try_from(u32::from_le_bytes(length)).expect("a short block");
        if first[at] == BlockKind::Ops as u8 {
            // The number of operations and nine fields of one byte each come first. Then two bytes
            // state that there are no devices and no graph.
            let none: Vec<u8> = first.drain(at + 9 + 4 + 9..at + 9 + 4 + 11).collect();
            assert_eq!(none, [0, 0]);
            first[at + 1] -= 2;
            end -= 2;
        }
        let crc = crc32fast::hash(&first[at + 9..end]);
        first[at + 5..at + 9].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
    assert_eq!(text(&read(&first).expect("it is whole")), text(&[plain("kernel", 7)]));
    assert_eq!(&bytes[..8], b"TRIJETL6");
}

/// The kinds keep their numbers and their fields, so that files of every version are read.
#[test]
fn each_kind_keeps_its_number_and_its_fields() {
    let (event, signal, handle, by) = (300, 5, 9, Asked::Ordering);
    let at = Position { lane: LaneId(2), seq: 7 };
    let kinds: [(OpKind, &[u8]); 29] = [
        (OpKind::Work(StreamWork::Alloc), &[0]),
        (OpKind::Work(StreamWork::Free), &[1]),
        (OpKind::Work(StreamWork::Copy), &[2]),
        (OpKind::Work(StreamWork::CopyNow), &[3]),
        (OpKind::Work(StreamWork::Batch(SourceOrder::Any)), &[4, 2]),
        (OpKind::Work(StreamWork::Fill), &[5]),
        (OpKind::Work(StreamWork::FillNow), &[6]),
        (OpKind::Work(StreamWork::Kernel), &[7]),
        (OpKind::Work(StreamWork::HostFn), &[8]),
        (OpKind::Memory(MemoryCall::AllocNow), &[9]),
        (OpKind::Memory(MemoryCall::FreeNow), &[10]),
        (OpKind::Host(HostStep::Fault { culprit: Some(at) }), &[11, 1, 2, 7]),
        (OpKind::Mark(StreamMark::Record { event, by }), &[12, 0xac, 2, 1]),
        (
            OpKind::Host(HostStep::Sync { what: Waited::Device, outcome: WaitOutcome::Failed }),
            &[13, 2, 2],
        ),
        (OpKind::Host(HostStep::Access), &[14]),
        (OpKind::Host(HostStep::Failed), &[15, 3]),
        (OpKind::Note(LedgerNote::Gone { event }), &[16, 0xac, 2]),
        (OpKind::Host(HostStep::Open), &[17]),
        (OpKind::Mark(StreamMark::Wait { event, on: at, by }), &[18, 0xac, 2, 2, 7, 1]),
        (
            OpKind::Signal(SignalStep::Use { signal, what: Signalled::Found, inside: Some(at) }),
            &[19, 5, 2, 1, 2, 7],
        ),
        (OpKind::Host(HostStep::Begin), &[20]),
        (OpKind::Note(LedgerNote::Ran), &[21]),
        (OpKind::Note(LedgerNote::Settled { event }), &[22, 0xac, 2]),
        (OpKind::Note(LedgerNote::Name { of: Named::Event(event) }), &[23, 2, 0xac, 2]),
        (OpKind::Note(LedgerNote::ThreadGone), &[24]),
        (
            OpKind::Signal(SignalStep::Handle {
                signal,
                handle,
                what: Handled::Used,
                inside: None,
            }),
            &[25, 5, 9, 2, 0],
        ),
        (OpKind::Host(HostStep::Lent), &[26]),
        (OpKind::Memory(MemoryCall::FromHeap { place: event }), &[27, 0xac, 2]),
        (OpKind::Memory(MemoryCall::ToHeap), &[28]),
    ];
    for (kind, bytes) in kinds {
        let row = kind_row::KindRow::from(kind);
        assert_eq!(postcard::to_allocvec(&row).expect("a few bytes"), bytes, "{kind:?}");
        let read: kind_row::KindRow = postcard::from_bytes(bytes).expect("a kind");
        assert_eq!(OpKind::from(read), kind, "{bytes:?}");
    }
}

/// Accesses of version 2 do not state whether the program or the library orders them. The reader
/// assumes that the program orders them.
#[test]
fn a_file_of_the_second_version_is_read() {
    let bytes = include_bytes!("../../../tests/golden/version-2.ledger");
    let reader = Reader::new(bytes.as_slice()).expect("it is whole");
    assert_eq!(reader.about().tool, "trijet 0.1.0");
    let ops: Vec<Op> = reader.collect::<Result<_>>().expect("it is whole");
    let copies = ops.iter().filter(|op| op.kind == OpKind::Work(StreamWork::Copy));
    assert_eq!(copies.count(), 14, "seven chunks, up and down");
    let mut accesses = ops.iter().flat_map(|op| &op.accesses);
    assert!(accesses.all(|access| access.ordered == OrderedBy::Program));
}

/// Descriptions of version 3 have no number of hardware queues. Accesses have the form of the
/// present version.
#[test]
fn a_file_of_the_third_version_is_read() {
    let bytes = include_bytes!("../../../tests/golden/version-3.ledger");
    let reader = Reader::new(bytes.as_slice()).expect("it is whole");
    assert_eq!((reader.about().hardware_queues, reader.about().devices.len()), (None, 1));
    let ops: Vec<Op> = reader.collect::<Result<_>>().expect("it is whole");
    let mut accesses = ops.iter().flat_map(|op| &op.accesses);
    assert!(accesses.any(|access| access.ordered == OrderedBy::Library));
}

/// The golden file has a copy between devices. Version 4 did not store the devices.
#[test]
fn a_file_of_the_fourth_version_is_read() {
    let bytes = include_bytes!("../../../tests/golden/version-4.ledger");
    let reader = Reader::new(bytes.as_slice()).expect("it is whole");
    assert_eq!(reader.about().program, "two devices");
    let ops: Vec<Op> = reader.collect::<Result<_>>().expect("it is whole");
    let peers: Vec<&Op> = ops.iter().filter(|op| op.engine == Engine::Peer).collect();
    assert_eq!((peers.len(), peers[0].bytes, peers[0].route), (1, 256, None));
}

/// Launches of graphs in version 5 do not name their graph.
#[test]
fn a_file_of_the_fifth_version_is_read() {
    let bytes = include_bytes!("../../../tests/golden/version-5.ledger");
    let ops: Vec<Op> = Reader::new(bytes.as_slice())
        .expect("it is whole")
        .collect::<Result<_>>()
        .expect("it is whole");
    assert!(ops.iter().any(|op| op.kind == OpKind::Work(StreamWork::Kernel)));
    assert!(ops.iter().all(|op| op.graph.is_none()));
}

/// A length above the limit is refused before memory is allocated for it.
#[test]
fn a_block_that_claims_to_be_huge_is_refused() {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let error = read(&bytes).expect_err("a description of 4 GiB");
    assert!(error.to_string().contains("4294967295 bytes"), "{error}");
}

#[test]
fn more_names_than_the_limit_are_refused() {
    let mut bytes = endless();
    let name = "x".repeat(1 << 20);
    let payload = postcard::to_allocvec(&vec![name.as_str(); 7]).expect("a few megabytes");
    for _ in 0..10 {
        bytes.push(2);
        bytes.extend(u32::try_from(payload.len()).expect("short").to_le_bytes());
        bytes.extend(checksum(MAGIC, &payload).to_le_bytes());
        bytes.extend(&payload);
    }
    let error = read(&bytes).expect_err("70 MiB of names");
    assert!(error.to_string().contains("the names have more than"), "{error}");
}
