//! Lanes that are passed from one stream to another, and calls that wait. The order follows from
//! the calls of the program, whatever the library does internally.

use super::log::{
    A, B, BLOCKING_A, BLOCKING_B, C, D, D2, E, F, FAR, H, LEGACY, Log, log, r, tracked, w,
};
use trijet::check::{CheckOptions, Checker, Conflict, FindingClass};
use trijet::trace::{DeviceId, Engine, OpKind, StreamMark, StreamWork, Waited};

const RAW: FindingClass = FindingClass::Race(Conflict::Raw);
const WAW: FindingClass = FindingClass::Race(Conflict::Waw);

/// Law A46: a new stream follows the work that its creator knows to be complete. It does not follow
/// the stream that had its lane before.
#[test]
fn a_stream_follows_nothing_of_the_one_that_had_its_lane() {
    log().k(A, &[w(D)]).open(A).k(A, &[r(D)]).finds(&[RAW]);
    log().k(A, &[w(D)]).rec(E, A).settled(E).open(A).k(A, &[r(D)]).finds(&[RAW]);
    log().k(A, &[w(D)]).sync(A).open(A).k(A, &[r(D)]).is_silent();
    log().k(A, &[w(D)]).edge(E, A, B).open(A).k(B, &[r(D)]).is_silent();
    // A wait for the new stream, or an event in it, does not cover the old one.
    log().k(A, &[w(D)]).open(A).k(A, &[]).sync(A).k(B, &[r(D)]).finds(&[RAW]);
    log().k(A, &[w(D)]).open(A).k(A, &[]).edge(E, A, B).k(B, &[r(D)]).finds(&[RAW]);
    // A wait for the device still covers it.
    log().k(A, &[w(D)]).open(A).synced_all().k(B, &[r(D)]).is_silent();
}

/// If only the library found work complete, this orders only memory that the library orders.
#[test]
fn what_the_library_found_complete_orders_tracked_memory_only() {
    let reused = |first, second| {
        let written = log().work(StreamWork::Fill, A, "fill", &[first]).rec_by_library(E, A);
        written.settled(E).open(A).k(A, &[second])
    };
    reused(tracked(w(D)), tracked(r(D))).is_silent();
    reused(w(D), r(D)).finds(&[RAW]);
    // The library waits before an access by the host, also for manual memory.
    let touched = log().copy(A, H, D).rec_by_library(E, A).settled(E).open(A).host(r(H));
    touched.is_silent();
    // Only work that the event stands for is ordered.
    let later = log().rec_by_library(E, A).k(A, &[tracked(w(D))]).settled(E).open(A);
    later.k(A, &[tracked(r(D))]).finds(&[RAW]);
}

#[test]
fn state_does_not_grow_with_the_number_of_streams() {
    const ROUNDS: u64 = 30_000;
    for synced in [false, true] {
        let mut checker = Checker::new(CheckOptions::default());
        let mut most = [0; 2];
        for number in 0..ROUNDS {
            let block = 10 + number;
            let round = log().open(A).alloc(A, block).k(A, &[w(block)]).free(A, block);
            let round = if synced { round.sync(A) } else { round.rec_by_library(E, A).settled(E) };
            round.ops.iter().for_each(|op| checker.push(op));
            let half = usize::from(number >= ROUNDS / 2);
            most[half] = most[half].max(checker.held_state());
        }
        let verdict = checker.finish();
        assert!(verdict.findings.is_empty(), "{verdict}");
        assert!(most[1] <= most[0] + 10 && most[1] < 20_000, "{most:?}");
    }
}

/// Laws A4 and A13: a wait does not count as an operation of a blocking stream, and an allocation
/// does not count as an operation of any stream.
#[test]
fn a_wait_or_an_allocation_in_a_blocking_stream_follows_nothing_of_the_legacy_one() {
    let held = || log().k(LEGACY, &[w(D)]);
    let waited = |log: Log| log.rec(E, B).wait(E, BLOCKING_A).sync(BLOCKING_A).k(A, &[r(D)]);
    waited(held()).finds(&[RAW]);
    held().alloc(BLOCKING_A, D2).sync(BLOCKING_A).k(A, &[r(D)]).finds(&[RAW]);
    held().k(BLOCKING_A, &[]).sync(BLOCKING_A).k(A, &[r(D)]).is_silent();
    // In the legacy stream a wait is an operation, and an allocation is none.
    let acts = |log: Log| log.edge(E, A, LEGACY).k(BLOCKING_A, &[r(D)]);
    acts(log().k(A, &[w(D)])).is_silent();
    let between = log().k(BLOCKING_A, &[w(D)]).alloc(LEGACY, D2).k(BLOCKING_B, &[r(D)]);
    between.finds(&[RAW]);
}

/// If other threads enqueue operations while a call waits, these operations run before the work of
/// the call or after it.
#[test]
fn a_call_that_waits_follows_what_its_stream_held_when_it_began() {
    let before = log().k(LEGACY, &[w(D)]).begin(LEGACY).copy_now(LEGACY, H, D);
    before.host(r(H)).is_silent();
    let begun = || log().begin(LEGACY).by(1);
    let between = begun().k(BLOCKING_A, &[w(D)]).by(0).copy_now(LEGACY, H, D);
    between.finds(&[RAW]);
    let same = begun().k(LEGACY, &[w(D)]).by(0).copy_now(LEGACY, H, D);
    same.clone().finds(&[RAW]);
    // The end of the copy does not cover this work, and this work does not cover the copy.
    let other = begun().k(LEGACY, &[w(D2)]).by(0).copy_now(LEGACY, H, D);
    other.clone().k(A, &[r(D2)]).finds(&[RAW]);
    other.clone().host(r(H)).is_silent();
    other.sync(LEGACY).k(A, &[r(D2)]).is_silent();
    // After the call has returned, the copy is in the stream.
    let after = begun().k(LEGACY, &[]).by(0).copy_now(LEGACY, D2, G_OF_HOST);
    after.by(1).k(BLOCKING_A, &[r(D2)]).is_silent();
}

/// A block of host memory, used where other tests use a block of the device.
const G_OF_HOST: u64 = H;

#[test]
fn a_call_that_failed_leaves_nothing_behind() {
    let failed = log().k(BLOCKING_A, &[w(D)]).begin(LEGACY).failed(LEGACY);
    failed.clone().k(BLOCKING_B, &[r(D)]).finds(&[RAW]);
    failed.k(LEGACY, &[r(D)]).is_silent();
}

/// Law A38.
#[test]
fn a_copy_between_devices_in_the_legacy_stream_is_in_order_on_both() {
    const FAR_LEGACY: u32 = 7;
    let copied = |then: fn(Log) -> Log| {
        let mut log = log().alloc(FAR, D2).sync(FAR).k(FAR_LEGACY, &[w(D2)]);
        log = then(log.work(StreamWork::CopyNow, LEGACY, "copy", &[r(D), w(D2)]));
        for op in &mut log.ops {
            if op.kind == OpKind::Work(StreamWork::CopyNow) {
                op.engine = Engine::Peer;
            }
            if op.position.lane.0 == FAR_LEGACY {
                (op.device, op.stream) = (DeviceId(1), trijet::trace::StreamClass::Legacy);
            }
        }
        log
    };
    copied(|log| log).is_silent();
    copied(|log| log.k(FAR_LEGACY, &[w(D2)])).is_silent();
    // Non-blocking streams of the other device do not wait for the copy.
    copied(|log| log.k(FAR, &[w(D2)])).finds(&[WAW]);
}

impl Log {
    fn synced_all(self) -> Self {
        self.synced(Waited::Device, A, trijet::trace::WaitOutcome::Complete)
    }

    /// The library records an internal event.
    fn rec_by_library(self, event: u64, lane: u32) -> Self {
        let mut this = self.rec(event, lane);
        let by = trijet::trace::Asked::Ordering;
        this.ops.last_mut().expect("one was pushed").kind = StreamMark::Record { event, by }.into();
        this
    }
}

/// A wait that would have ordered the pair, had it come earlier, is reported as late.
#[test]
fn a_wait_that_comes_too_late_is_reported_as_late() {
    let late = log().k(A, &[w(D)]).k(B, &[r(D)]).edge(E, A, B).finds(&[RAW]);
    let finding = &late.findings[0];
    assert!(finding.known.contains("the wait at #3, src/main.rs:4:5 comes after #1"), "{late}");
    assert_eq!(finding.fix, "move the wait at #3 before #1", "{late}");
    let synced = log().copy(A, H, D).host(r(H)).sync(A).finds(&[FindingClass::Host(Conflict::Raw)]);
    assert_eq!(synced.findings[0].fix, "move the wait at #2 before #1", "{synced}");
    // A wait of the host at the end gets no such remark if the pair is on two streams.
    let ended = log().k(A, &[w(D)]).k(B, &[r(D)]).synced_all().finds(&[RAW]);
    assert!(ended.findings[0].fix.starts_with("record an event"), "{ended}");
    // A wait for another stream gets no such remark either.
    let other = log().k(A, &[w(D)]).k(B, &[r(D)]).edge(F, C, B).finds(&[RAW]);
    assert!(other.findings[0].fix.starts_with("record an event"), "{other}");
}
