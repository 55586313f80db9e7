//! Ledgers that make no sense, ledgers of long programs, and accesses that are not declared.

use super::log::{A, B, C, D, E, log, part, r, w};
use std::borrow::Cow;
use trijet::SourceOrder;
use trijet::check::{Assume, CheckOptions, Checker, Names, Threads, check_with};
use trijet::testing::Prng;
use trijet::trace::{
    Access, Asked, BlockId, Declared, DeviceId, Engine, Handled, HostStep, LaneId, LedgerNote,
    MemoryCall, Mode, Named, Op, OpKind, OrderedBy, Place, Position, SignalStep, Signalled,
    StreamClass, StreamMark, StreamWork, WaitOutcome, Waited,
};

/// A number that is either small or absurdly large.
fn number(prng: &mut Prng) -> u64 {
    match prng.below(8) {
        0 => u64::MAX - prng.below(3),
        1 => prng.next_u64(),
        2 => 1 << prng.below(64),
        _ => prng.below(5),
    }
}

fn small(prng: &mut Prng) -> u32 {
    let least = if prng.below(9) == 0 { u32::MAX - 1 } else { 0 };
    least + u32::from(prng.below(2) == 0)
}

fn pick<T: Clone>(prng: &mut Prng, all: &[T]) -> T {
    all[usize::try_from(prng.below(all.len() as u64)).expect("an index")].clone()
}

fn kind(prng: &mut Prng) -> OpKind {
    let event = number(prng);
    let position = Position { lane: LaneId(small(prng)), seq: number(prng) };
    let outcome = pick(prng, &[WaitOutcome::Complete, WaitOutcome::Pending, WaitOutcome::Failed]);
    let events = [Waited::Event(event), Waited::Recorded(event)];
    let what = pick(prng, &[events[0], events[1], Waited::Stream, Waited::Device]);
    let by = pick(prng, &[Asked::User, Asked::Ordering]);
    let order = pick(prng, &[SourceOrder::Stream, SourceOrder::DuringCall, SourceOrder::Any]);
    let calls = [HostStep::Load, HostStep::Release, HostStep::Failed, HostStep::Refused];
    let call = pick(prng, &calls);
    let handled = [Handled::Made, Handled::Cloned, Handled::Used, Handled::Dropped];
    let handled = pick(prng, &handled);
    let named = [Named::Stream, Named::Event(event), Named::Block(BlockId(event))];
    let (of, handle) = (pick(prng, &named), number(prng));
    use Signalled::{Found, Gone, LimitedWait, Set, Wait};
    let signalled = pick(prng, &[Set, Wait, LimitedWait, Found, Gone]);
    let inside = Some(Position { seq: number(prng), ..position }).filter(|_| prng.below(2) == 0);
    let culprit = Some(position).filter(|_| event.is_multiple_of(2));
    pick(
        prng,
        &[
            OpKind::Work(StreamWork::Alloc),
            OpKind::Work(StreamWork::Free),
            OpKind::Work(StreamWork::Copy),
            OpKind::Work(StreamWork::CopyNow),
            OpKind::Work(StreamWork::Batch(order)),
            OpKind::Work(StreamWork::Fill),
            OpKind::Work(StreamWork::FillNow),
            OpKind::Work(StreamWork::Kernel),
            OpKind::Work(StreamWork::HostFn),
            OpKind::Memory(MemoryCall::AllocNow),
            OpKind::Memory(MemoryCall::FreeNow),
            OpKind::Host(HostStep::Fault { culprit }),
            OpKind::Mark(StreamMark::Record { event, by }),
            OpKind::Host(HostStep::Sync { what, outcome }),
            OpKind::Host(HostStep::Access),
            OpKind::Host(call),
            OpKind::Host(HostStep::Open),
            OpKind::Host(HostStep::Begin),
            OpKind::Note(LedgerNote::Ran),
            OpKind::Note(LedgerNote::Settled { event }),
            OpKind::Note(LedgerNote::ThreadGone),
            OpKind::Note(LedgerNote::Gone { event }),
            OpKind::Host(HostStep::Lent),
            OpKind::Note(LedgerNote::Name { of }),
            OpKind::Signal(SignalStep::Handle { signal: event, handle, what: handled, inside }),
            OpKind::Signal(SignalStep::Handle { signal: 1, handle: 1, what: handled, inside }),
            OpKind::Mark(StreamMark::Wait { event, on: position, by }),
            OpKind::Signal(SignalStep::Use { signal: event, what: signalled, inside }),
            OpKind::Signal(SignalStep::Use { signal: 1, what: signalled, inside }),
        ],
    )
}

fn op(prng: &mut Prng) -> Op {
    let access = |prng: &mut Prng| Access {
        block: BlockId(number(prng)),
        place: pick(prng, &[Place::Device, Place::Pinned, Place::Pageable]),
        range: number(prng)..number(prng),
        mode: pick(prng, &[Mode::Read, Mode::Write, Mode::Update]),
        ordered: pick(prng, &[OrderedBy::Library, OrderedBy::Program]),
    };
    let classes = [
        StreamClass::Legacy,
        StreamClass::PerThread,
        StreamClass::Blocking,
        StreamClass::NonBlocking,
    ];
    let (kind, device) = (kind(prng), DeviceId(small(prng)));
    let position = Position { lane: LaneId(small(prng)), seq: number(prng) };
    Op {
        stream: pick(prng, &classes),
        accesses: (0..prng.below(4)).map(|_| access(prng)).collect(),
        declared: pick(prng, &[Declared::All, Declared::Nothing]),
        bytes: number(prng),
        label: Cow::Borrowed("op"),
        thread: number(prng),
        thread_known: Some([Position { lane: LaneId(small(prng)), seq: number(prng) }].into()),
        ..Op::new(kind, Engine::None, device, position)
    }
}

#[test]
fn no_record_makes_the_checker_panic() {
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let ops: Vec<Op> = (0..prng.below(150)).map(|_| op(&mut prng)).collect();
        let assume = pick(&mut prng, &[Assume::Documented, Assume::DriverObserved]);
        let threads = pick(&mut prng, &[Threads::Apart, Threads::OneStartsAll]);
        let mut options = CheckOptions::new().assume(assume).threads(threads).findings_max(50);
        if prng.below(2) == 0 {
            options = options.to_the_end();
        }
        let verdict = check_with(&ops, options);
        assert_eq!(verdict.ops, ops.len() as u64, "seed {seed}");
        assert!(!verdict.text(&Names::default()).is_empty(), "seed {seed}");
    }
}

/// The checker ignores the order that the library believed to exist.
#[test]
fn claims_of_the_library_order_nothing() {
    let mut racy = log().k(A, &[w(D)]).wait(E, B).k(B, &[r(D)]);
    for op in &mut racy.ops {
        op.thread_known = Some([Position { lane: LaneId(A), seq: 99 }].into());
    }
    assert!(!racy.verdict().is_clean());
}

/// The program allocates, uploads, computes on another stream and frees. The host sometimes waits
/// for the device. The state of the checker does not grow with the length of the program.
#[test]
fn memory_does_not_grow_with_the_length_of_a_program() {
    const ROUNDS: u64 = 40_000;
    let round = |number: u64| {
        let block = 10 + number;
        let events = (1000 + number % 16, 2000 + number % 16);
        let all = |mode| part(block, 0..4096, mode);
        let own = part(5, number % 64 * 64..(number % 64 + 1) * 64, Mode::Update);
        let mut all_of = log()
            .work(StreamWork::Alloc, A, "alloc", &[all(Mode::Write)])
            .work(StreamWork::Copy, A, "copy", &[r(3), all(Mode::Write)])
            .edge(events.0, A, B)
            .k(B, &[all(Mode::Read), own])
            .edge(events.1, B, A)
            .work(StreamWork::Free, A, "free", &[all(Mode::Write)]);
        if number.is_multiple_of(100) {
            all_of = all_of.sync(A).sync(B);
        }
        all_of.ops
    };
    let mut checker = Checker::new(CheckOptions::default());
    let mut most = [0; 2];
    for number in 0..ROUNDS {
        round(number).iter().for_each(|op| checker.push(op));
        let half = usize::from(number >= ROUNDS / 2);
        most[half] = most[half].max(checker.held_state());
    }
    let verdict = checker.finish();
    assert!(verdict.findings.is_empty(), "{verdict}");
    assert!(most[1] <= most[0] && most[1] < 20_000, "{most:?}");
}

/// The checker keeps the number of a freed block after it forgets the block's uses.
#[test]
fn a_use_long_after_a_free_is_found() {
    let mut checker = Checker::new(CheckOptions::default());
    let push = |checker: &mut Checker, log: super::log::Log| {
        log.ops.iter().for_each(|op| checker.push(op))
    };
    for block in 10..5000 {
        push(&mut checker, log().alloc(A, block).free(A, block));
    }
    push(&mut checker, log().k(C, &[r(10)]));
    let verdict = checker.finish();
    assert_eq!(verdict.findings.len(), 1, "{verdict}");
    assert_eq!(verdict.findings[0].class.code(), "LIFETIME/USE-AFTER-FREE");
}

#[test]
fn what_is_not_declared_is_counted_and_said() {
    let verdict = log().undeclared(A).undeclared(B).k(C, &[w(D)]).verdict();
    assert_eq!(
        verdict.to_string(),
        "for the calls this run made and the accesses it declared, every conflict is ordered by a \
         documented CUDA edge; 2 accesses undeclared; inside kernels not checked"
    );
    let observed = log().with(|options| options.assume(Assume::DriverObserved)).verdict();
    assert!(observed.to_string().contains("or one that a driver was seen to keep"), "{observed}");
}

#[test]
fn findings_beyond_the_limit_are_counted() {
    let mut racy = log().with(|options| options.findings_max(3));
    for _ in 0..5 {
        racy = racy.k(A, &[w(D)]).k(B, &[w(D)]);
    }
    let verdict = racy.verdict();
    assert_eq!((verdict.findings.len(), verdict.more), (3, 6));
    assert!(!verdict.is_clean());
}

#[test]
fn warnings_beyond_the_limit_hide_no_error() {
    let mut log = log().with(|options| options.findings_max(3));
    for _ in 0..10 {
        log = log.wait(E, B);
    }
    let verdict = log.verdict();
    assert_eq!((verdict.findings.len(), verdict.more), (3, 7));
    assert!(verdict.is_clean(), "{verdict}");
    let verdict = log.k(A, &[w(D)]).k(B, &[w(D)]).verdict();
    assert!(verdict.findings.iter().any(|finding| finding.conflict.is_some()), "{verdict}");
    assert!(!verdict.is_clean());
}
