//! The judge on histories written by hand: for each law, one that is in order and the most similar
//! one that is not. Streams are `A`, `B` (blocking), `C`, `D` (non-blocking), `L` (legacy) and `P`
//! (per-thread) of device 0, and `FAR` (blocking) of device 1.

use crate::calls::{Access, By, History, Lane, Memory, Verb, What};
use crate::program::{Sources, StreamKind};
use crate::switches::with_all;
use crate::verdict::{Seen, Wrong, judge};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const L: usize = 4;
const P: usize = 5;
const FAR: usize = 6;

const KINDS: [(StreamKind, usize); 7] = [
    (StreamKind::Blocking, 0),
    (StreamKind::Blocking, 0),
    (StreamKind::NonBlocking, 0),
    (StreamKind::NonBlocking, 0),
    (StreamKind::Legacy, 0),
    (StreamKind::PerThread, 0),
    (StreamKind::Blocking, 1),
];

/// Blocks of each kind of memory.
const X: u64 = 1;
const Y: u64 = 2;
const PINNED: u64 = 3;
const PAGEABLE: u64 = 4;
const SECOND_PINNED: u64 = 5;

const MAIN: u64 = 0;
const OTHER: u64 = 1;

/// The event of most tests.
const E: u64 = 7;

struct Calls(History);

fn r(block: u64) -> Access {
    Access { block, range: 0..8, writes: false, by_hand: true }
}

fn w(block: u64) -> Access {
    Access { block, range: 0..8, writes: true, by_hand: true }
}

fn calls() -> Calls {
    let lanes = KINDS.map(|(kind, device)| Lane { kind, device, follows: None }).to_vec();
    let host =
        [(PINNED, Memory::Pinned), (SECOND_PINNED, Memory::Pinned), (PAGEABLE, Memory::Pageable)];
    Calls(History { lanes, memory: host.into(), ..History::default() })
}

impl Calls {
    fn by(mut self, thread: u64, what: What) -> Self {
        self.0.push(thread, what);
        self
    }

    fn work(self, verb: Verb, stream: usize, accesses: &[Access]) -> Self {
        self.by(MAIN, What::Work { verb, stream, accesses: accesses.to_vec() })
    }

    /// A kernel.
    fn k(self, stream: usize, accesses: &[Access]) -> Self {
        self.work(Verb::Kernel, stream, accesses)
    }

    fn copy(self, stream: usize, from: u64, to: u64) -> Self {
        self.work(Verb::Copy, stream, &[r(from), w(to)])
    }

    fn copy_now(self, from: u64, to: u64) -> Self {
        self.work(Verb::CopyNow, L, &[r(from), w(to)])
    }

    fn record(self, event: u64, stream: usize) -> Self {
        self.by(MAIN, What::Record { event, stream, by: By::User })
    }

    fn wait(self, event: u64, stream: usize) -> Self {
        self.by(MAIN, What::Wait { event, stream, by: By::User })
    }

    fn ordered(self, event: u64, stream: usize) -> Self {
        self.by(MAIN, What::Wait { event, stream, by: By::Ordering })
    }

    fn sync(self, stream: usize) -> Self {
        self.by(MAIN, What::SyncStream { stream })
    }

    fn host(self, access: Access) -> Self {
        self.by(MAIN, What::Host { accesses: vec![access] })
    }

    fn verdict(&self) -> Result<Seen, Wrong> {
        judge(&self.0)
    }

    #[track_caller]
    fn is_clean(&self) {
        if let Err(wrong) = self.verdict() {
            panic!("{}", crate::verdict::Report(&self.0, wrong));
        }
    }

    #[track_caller]
    fn races(&self, earlier: usize, later: usize) {
        assert_eq!(self.verdict(), Err(Wrong::Race(earlier, later)));
    }
}

#[test]
fn law_a1_a_stream_executes_in_the_order_of_its_calls() {
    calls().k(C, &[w(X)]).k(C, &[r(X)]).k(C, &[w(X)]).is_clean();
    calls().k(C, &[w(X)]).k(D, &[r(X)]).races(0, 1);
    calls().k(C, &[r(X)]).k(D, &[w(X)]).races(0, 1);
    calls().k(C, &[w(X)]).k(D, &[w(X)]).races(0, 1);
}

#[test]
fn accesses_conflict_where_they_overlap_and_one_writes() {
    calls().k(C, &[r(X)]).k(D, &[r(X)]).is_clean();
    calls().k(C, &[w(X)]).k(D, &[w(Y)]).is_clean();
    let part = |range, writes| Access { block: X, range, writes, by_hand: true };
    calls().k(C, &[part(0..8, true)]).k(D, &[part(8..16, true)]).is_clean();
    calls().k(C, &[part(8..16, true)]).k(D, &[part(0..8, true)]).is_clean();
    calls().k(C, &[part(0..8, true)]).k(D, &[part(7..16, false)]).races(0, 1);
}

#[test]
fn law_a2_what_the_host_wrote_before_a_call_is_there_for_its_work() {
    calls().host(w(PINNED)).copy(C, PINNED, X).is_clean();
    // Another thread's write does not precede it, unless the threads are ordered.
    let other = What::Host { accesses: vec![w(PINNED)] };
    calls().by(OTHER, other.clone()).copy(C, PINNED, X).races(0, 1);
    calls().by(OTHER, other).by(MAIN, What::After { thread: OTHER }).copy(C, PINNED, X).is_clean();
}

#[test]
fn law_a4_an_event_stands_for_what_came_before_its_record() {
    calls().k(C, &[w(X)]).record(E, C).wait(E, D).k(D, &[r(X)]).is_clean();
    calls().record(E, C).k(C, &[w(X)]).wait(E, D).k(D, &[r(X)]).races(1, 3);
}

#[test]
fn law_a4_a_second_record_replaces_the_first_but_not_for_earlier_waits() {
    let recorded = || calls().k(C, &[w(X)]).record(E, C);
    recorded().wait(E, D).record(E, A).k(D, &[r(X)]).is_clean();
    recorded().record(E, A).wait(E, D).k(D, &[r(X)]).races(0, 4);
}

#[test]
fn law_a5_an_event_that_was_never_recorded_is_an_empty_set_of_work() {
    calls().wait(E, D).k(C, &[w(X)]).record(E, C).k(D, &[r(X)]).races(1, 3);
    let sync = What::SyncEvent { event: E };
    calls().copy(C, X, PINNED).by(MAIN, sync).host(r(PINNED)).races(0, 2);
}

#[test]
fn law_a7_a_wait_holds_back_future_work_only() {
    calls().k(C, &[w(X)]).record(E, C).wait(E, D).k(D, &[r(X)]).is_clean();
    calls().k(D, &[r(X)]).k(C, &[w(X)]).record(E, C).wait(E, D).races(0, 1);
    calls().k(C, &[w(X)]).record(E, C).k(D, &[r(X)]).wait(E, D).races(0, 2);
}

#[test]
fn order_is_transitive_over_streams() {
    let chain = calls().k(C, &[w(X)]).record(E, C).wait(E, A).record(8, A).wait(8, D);
    chain.k(D, &[r(X)]).is_clean();
    // The event of the last of two readers does not stand for the other reader.
    let readers = calls().k(C, &[r(X)]).record(E, C).k(A, &[r(X)]).record(E, A).wait(E, D);
    readers.k(D, &[w(X)]).races(0, 5);
}

#[test]
fn law_a8_the_host_waits_for_an_event() {
    let copied = || calls().copy(C, X, PINNED).record(E, C);
    copied().by(MAIN, What::SyncEvent { event: E }).host(r(PINNED)).is_clean();
    copied().host(r(PINNED)).races(0, 2);
    copied().copy(C, Y, PINNED).by(MAIN, What::SyncEvent { event: E }).host(r(PINNED)).races(2, 4);
}

#[test]
fn law_a9_the_host_waits_for_a_stream() {
    calls().copy(C, X, PINNED).sync(C).host(r(PINNED)).is_clean();
    calls().copy(C, X, PINNED).sync(D).host(r(PINNED)).races(0, 2);
    // Work that the host knows to be complete precedes its later work in any stream.
    calls().k(C, &[w(X)]).sync(C).k(D, &[w(X)]).is_clean();
}

#[test]
fn law_a10_the_host_waits_for_one_device() {
    let sync = |device| What::SyncDevice { device };
    calls().copy(C, X, PINNED).by(MAIN, sync(0)).host(r(PINNED)).is_clean();
    calls().copy(FAR, X, PINNED).by(MAIN, sync(0)).host(r(PINNED)).races(0, 2);
    calls().copy(FAR, X, PINNED).by(MAIN, sync(1)).host(r(PINNED)).is_clean();
}

#[test]
fn law_a11_a_sync_is_of_the_calling_thread() {
    let copied = || calls().copy(C, X, PINNED).by(OTHER, What::SyncStream { stream: C });
    copied().host(r(PINNED)).races(0, 2);
    copied().by(OTHER, What::Host { accesses: vec![r(PINNED)] }).is_clean();
    copied().by(MAIN, What::After { thread: OTHER }).host(r(PINNED)).is_clean();
}

#[test]
fn law_a13_the_legacy_stream_and_the_blocking_ones_wait_for_each_other() {
    calls().k(A, &[w(X)]).k(L, &[r(X)]).k(B, &[w(X)]).is_clean();
    calls().k(A, &[w(X)]).k(B, &[r(X)]).races(0, 1);
    calls().k(C, &[w(X)]).k(L, &[r(X)]).races(0, 1);
    calls().k(L, &[w(X)]).k(C, &[r(X)]).races(0, 1);
    calls().k(FAR, &[w(X)]).k(L, &[r(X)]).races(0, 1);
}

#[test]
fn law_a13_even_a_wait_of_the_legacy_stream_is_a_barrier() {
    calls().record(E, D).k(A, &[w(X)]).wait(E, L).k(B, &[r(X)]).is_clean();
    calls().k(C, &[w(X)]).record(E, C).wait(E, L).k(B, &[r(X)]).is_clean();
    calls().k(C, &[w(X)]).record(E, C).wait(E, A).k(B, &[r(X)]).races(0, 3);
    // Law A5: a wait for an event without a record is no barrier.
    calls().k(A, &[w(X)]).wait(E, L).k(B, &[r(X)]).races(0, 2);
}

#[test]
fn law_a14_the_legacy_stream_stands_for_the_blocking_ones() {
    calls().copy(A, X, PINNED).sync(L).host(r(PINNED)).is_clean();
    calls().copy(C, X, PINNED).sync(L).host(r(PINNED)).races(0, 2);
    calls().k(A, &[w(X)]).record(E, L).wait(E, D).k(D, &[r(X)]).is_clean();
    calls().k(C, &[w(X)]).record(E, L).wait(E, D).k(D, &[r(X)]).races(0, 3);
}

#[test]
fn law_a13_what_the_legacy_stream_holds_is_not_in_the_blocking_ones() {
    calls().copy(L, X, PINNED).sync(A).host(r(PINNED)).races(0, 2);
    calls().copy(L, X, PINNED).k(A, &[]).sync(A).host(r(PINNED)).is_clean();
    calls().k(L, &[w(X)]).record(E, A).wait(E, D).k(D, &[r(X)]).races(0, 3);
    calls().k(L, &[w(X)]).k(A, &[]).record(E, A).wait(E, D).k(D, &[r(X)]).is_clean();
    calls().k(L, &[w(X)]).record(E, A).k(A, &[r(X)]).is_clean();
}

#[test]
fn law_a14_a_bare_record_in_the_legacy_stream_is_no_barrier() {
    calls().k(A, &[w(X)]).record(E, L).k(B, &[r(X)]).races(0, 2);
    calls().k(A, &[w(X)]).record(E, L).k(L, &[]).k(B, &[r(X)]).is_clean();
}

#[test]
fn law_a15_a_per_thread_stream_is_a_blocking_one() {
    calls().k(P, &[w(X)]).k(L, &[r(X)]).k(P, &[w(X)]).is_clean();
    calls().k(P, &[w(X)]).k(A, &[r(X)]).races(0, 1);
}

#[test]
fn law_a16_copies_of_pinned_memory_go_on_after_the_call() {
    calls().copy(C, PINNED, X).host(w(PINNED)).races(0, 1);
    calls().copy(C, X, PINNED).host(r(PINNED)).races(0, 1);
    calls().copy(C, PINNED, X).host(r(PINNED)).is_clean();
    calls().k(C, &[w(X)]).copy(D, X, Y).races(0, 1);
}

#[test]
fn law_a17_copies_of_pageable_memory_may_go_on_and_copies_within_the_host_do_not() {
    calls().copy(C, X, PAGEABLE).host(r(PAGEABLE)).races(0, 1);
    calls().copy(C, PAGEABLE, X).host(w(PAGEABLE)).races(0, 1);
    calls().copy(C, PINNED, PAGEABLE).host(r(PAGEABLE)).is_clean();
    calls().copy(C, PINNED, SECOND_PINNED).host(w(PINNED)).is_clean();
}

#[test]
fn law_a18_a_synchronous_copy_to_the_host_or_from_pinned_memory_is_complete_at_return() {
    calls().copy_now(X, PAGEABLE).host(r(PAGEABLE)).is_clean();
    calls().copy_now(X, PINNED).host(r(PINNED)).is_clean();
    calls().copy_now(PINNED, X).host(w(PINNED)).k(C, &[r(X)]).is_clean();
    calls().copy_now(PINNED, PAGEABLE).host(w(PINNED)).is_clean();
}

#[test]
fn law_a18_a_synchronous_copy_from_pageable_memory_is_only_staged_at_return() {
    calls().copy_now(PAGEABLE, X).host(w(PAGEABLE)).is_clean();
    calls().copy_now(PAGEABLE, X).k(C, &[r(X)]).races(0, 1);
    calls().copy_now(PAGEABLE, X).k(A, &[r(X)]).is_clean();
    // Earlier work of the stream is complete, since the call waited for the stream.
    calls().copy(A, Y, PINNED).copy_now(PAGEABLE, X).host(r(PINNED)).is_clean();
    calls().copy(C, Y, PINNED).copy_now(PAGEABLE, X).host(r(PINNED)).races(0, 2);
}

#[test]
fn law_a18_a_synchronous_copy_within_the_device_does_not_wait() {
    calls().copy_now(X, Y).k(C, &[r(Y)]).races(0, 1);
    calls().copy_now(X, Y).sync(L).k(C, &[r(Y)]).is_clean();
}

#[test]
fn law_a18_a_synchronous_fill_waits_for_pinned_memory_only() {
    calls().work(Verb::FillNow, L, &[w(PINNED)]).host(r(PINNED)).is_clean();
    calls().work(Verb::FillNow, L, &[w(X)]).k(C, &[r(X)]).races(0, 1);
    calls().work(Verb::FillNow, L, &[w(X)]).k(A, &[r(X)]).is_clean();
    calls().work(Verb::Fill, C, &[w(PINNED)]).host(r(PINNED)).races(0, 1);
}

#[test]
fn law_a19_a_batch_is_one_operation_without_order_inside() {
    let batch = |sources, accesses: &[Access]| {
        calls().k(C, &[w(X)]).work(Verb::Batch(sources), C, accesses)
    };
    batch(Sources::InStreamOrder, &[r(X), w(Y)]).k(C, &[w(X), r(Y)]).is_clean();
    let inside = batch(Sources::InStreamOrder, &[r(X), w(Y), r(Y), w(PINNED)]);
    assert_eq!(inside.verdict(), Err(Wrong::InsideBatch(1)));
}

#[test]
fn law_a19_sources_may_be_read_out_of_stream_order() {
    let filled = || calls().k(C, &[w(X)]);
    let batch = [r(X), w(Y)];
    filled().work(Verb::Batch(Sources::DuringCall), C, &batch).races(0, 1);
    filled().work(Verb::Batch(Sources::AnyTime), C, &batch).races(0, 1);
    filled().sync(C).work(Verb::Batch(Sources::DuringCall), C, &batch).is_clean();
    filled().sync(C).work(Verb::Batch(Sources::AnyTime), C, &batch).is_clean();
    // Sources that are read during the call have been read when it returns.
    let host = [r(PINNED), w(X)];
    let batched = |sources| calls().work(Verb::Batch(sources), C, &host).host(w(PINNED));
    batched(Sources::DuringCall).is_clean();
    batched(Sources::AnyTime).races(0, 1);
    batched(Sources::InStreamOrder).races(0, 1);
}

fn all(block: u64) -> Access {
    Access { block, range: 0..u64::MAX, writes: true, by_hand: true }
}

#[test]
fn law_a21_memory_is_there_after_its_allocation() {
    let alloc = || calls().work(Verb::Alloc, C, &[all(X)]);
    alloc().k(C, &[w(X)]).is_clean();
    alloc().k(D, &[w(X)]).races(0, 1);
    alloc().record(E, C).wait(E, D).k(D, &[w(X)]).is_clean();
    let early = calls().k(C, &[w(X)]).work(Verb::Alloc, C, &[all(X)]);
    assert_eq!(early.verdict(), Err(Wrong::Life(0, 1)));
}

#[test]
fn law_a22_a_free_comes_after_every_use() {
    let used = || calls().work(Verb::Alloc, C, &[all(X)]).record(E, C).wait(E, D).k(D, &[r(X)]);
    used().work(Verb::Free, C, &[all(X)]).races(3, 4);
    used().work(Verb::Free, D, &[all(X)]).is_clean();
    used().record(8, D).wait(8, C).work(Verb::Free, C, &[all(X)]).is_clean();
}

#[test]
fn law_a22_nothing_uses_memory_after_the_call_that_frees_it() {
    let freed = || calls().work(Verb::Alloc, C, &[all(X)]).work(Verb::Free, C, &[all(X)]);
    assert_eq!(freed().k(C, &[r(X)]).verdict(), Err(Wrong::Life(1, 2)));
    let twice = freed().work(Verb::Free, C, &[all(X)]);
    assert_eq!(twice.verdict(), Err(Wrong::Life(1, 2)));
}

#[test]
fn law_a27_a_host_function_is_an_operation_of_its_stream() {
    let noted = |stream| {
        calls().copy(C, X, PINNED).work(Verb::HostFn, stream, &[r(PINNED)]).k(C, &[w(PINNED)])
    };
    noted(C).is_clean();
    noted(D).races(0, 1);
}

#[test]
fn a_wait_that_a_stream_or_a_thread_implies_is_idle() {
    let crossing = || calls().k(C, &[w(X)]).record(E, C).ordered(E, D).k(D, &[r(X)]);
    assert_eq!(crossing().verdict().map(|seen| seen.waits), Ok(1));
    let again = crossing().ordered(E, D).k(D, &[w(X)]);
    assert_eq!(again.verdict(), Err(Wrong::Implied(4)));
    let own = calls().k(C, &[w(X)]).record(E, C).ordered(E, C).k(C, &[r(X)]);
    assert_eq!(own.verdict(), Err(Wrong::Implied(2)));
    let known = calls().k(C, &[w(X)]).record(E, C).sync(C).ordered(E, D).k(D, &[r(X)]);
    assert_eq!(known.verdict(), Err(Wrong::Implied(3)));
    let barrier = calls().k(A, &[w(X)]).record(E, A).ordered(E, L).k(L, &[r(X)]);
    // Waits that default streams make unnecessary are counted and allowed.
    assert_eq!(barrier.verdict().map(|seen| seen.idle), Ok(1));
    let never = calls().k(C, &[w(X)]).ordered(E, D).k(D, &[r(Y)]);
    assert_eq!(never.verdict(), Err(Wrong::Implied(1)));
}

#[test]
fn a_wait_that_a_join_alone_implies_is_not_held_against_the_ordering() {
    let sync = What::SyncStream { stream: C };
    let joined = calls().k(C, &[w(X)]).record(E, C).by(OTHER, sync);
    let joined = joined.by(MAIN, What::After { thread: OTHER }).ordered(E, D).k(D, &[r(X)]);
    joined.is_clean();
}

#[test]
fn a_wait_that_no_later_work_needs_is_found() {
    let other = calls().k(C, &[w(X)]).record(E, C).ordered(E, D).k(D, &[r(Y)]);
    assert_eq!(other.verdict(), Err(Wrong::Needless(2)));
}

#[test]
fn a_wait_for_more_than_is_needed_is_counted() {
    let crossing = |more: &[Access]| {
        let all = calls().k(C, &[w(X)]).k(C, more).record(E, C).ordered(E, D).k(D, &[r(X)]);
        all.verdict().map(|seen| seen.over_waits)
    };
    assert_eq!(crossing(&[w(Y)]), Ok(1));
    assert_eq!(crossing(&[w(X)]), Ok(0));
    // A record of the legacy stream is needed for the work of the blocking stream, even if the
    // legacy stream's own work is known to be complete.
    let legacy = calls().k(L, &[w(Y)]).k(A, &[w(X)]).record(E, L).sync(B).k(B, &[]).sync(B);
    let seen = legacy.ordered(E, D).k(D, &[r(X), r(Y)]).verdict();
    assert_eq!(seen.map(|seen| seen.over_waits), Ok(0));
}

#[test]
fn a_wait_that_the_next_one_covers_is_counted() {
    let chain = || calls().k(C, &[w(X)]).record(E, C).ordered(E, A).k(A, &[w(X)]).record(8, A);
    let subsumed = |all: Calls| all.k(D, &[w(X)]).verdict().map(|seen| seen.subsumed);
    assert_eq!(subsumed(chain().ordered(E, D).ordered(8, D)), Ok(1));
    assert_eq!(subsumed(chain().ordered(8, D)), Ok(0));
    let other = calls().k(C, &[r(X)]).record(E, C).k(A, &[r(X)]).record(8, A);
    assert_eq!(subsumed(other.ordered(E, D).ordered(8, D)), Ok(0));
    // A wait of another stream in between does not count.
    let aside = calls().k(C, &[w(X)]).record(E, C).wait(E, A).k(A, &[w(Y)]).record(8, A);
    let aside = aside.ordered(E, D).wait(8, B).k(D, &[r(X)]);
    assert_eq!(aside.verdict().map(|seen| seen.subsumed), Ok(0));
}

#[test]
fn a_claim_that_no_call_shows_is_found() {
    let claimed = |sync: Option<usize>| {
        let mut all = calls().k(C, &[w(X)]);
        if let Some(stream) = sync {
            all = all.sync(stream);
        }
        all = all.k(D, &[w(X)]);
        let last = all.0.calls.len() - 1;
        all.0.calls[last].known.push(0);
        (all, last)
    };
    assert_eq!(claimed(Some(C)).0.verdict().map(|seen| seen.claims), Ok(1));
    let (unproven, last) = claimed(None);
    assert_eq!(unproven.verdict(), Err(Wrong::Race(0, last)), "the race is the worse of the two");
    let mut apart = calls().k(C, &[w(X)]).k(D, &[w(Y)]);
    apart.0.calls[1].known.push(0);
    assert_eq!(apart.verdict(), Err(Wrong::Unproven(1, 0)));
}

/// The same access, to memory that the library orders.
fn tracked(access: Access) -> Access {
    Access { by_hand: false, ..access }
}

fn after(calls: Calls, thread: u64, other: u64) -> Calls {
    calls.by(thread, What::After { thread: other })
}

#[test]
fn law_a44_a_call_on_tracked_memory_follows_earlier_calls_that_used_it() {
    let written = |access| {
        let host = What::Host { accesses: vec![access] };
        calls().by(OTHER, host)
    };
    let copy = [tracked(r(PINNED)), tracked(w(X))];
    with_all(|| {
        written(tracked(w(PINNED))).work(Verb::Copy, C, &copy).is_clean();
        written(w(PINNED)).copy(C, PINNED, X).races(0, 1);
    });
}

#[test]
fn law_a44_orders_calls_and_not_what_the_device_does() {
    let write = What::Work { verb: Verb::Kernel, stream: C, accesses: vec![tracked(w(X))] };
    with_all(|| calls().by(OTHER, write).k(D, &[tracked(r(X))]).races(0, 1));
}

#[test]
fn law_a45_calls_about_an_event_without_order_of_their_threads_order_nothing() {
    let wait = || What::Wait { event: E, stream: D, by: By::User };
    let read = || What::Work { verb: Verb::Kernel, stream: D, accesses: vec![r(X)] };
    let recorded = || calls().k(C, &[w(X)]).record(E, C);
    with_all(|| {
        recorded().by(OTHER, wait()).by(OTHER, read()).races(0, 3);
        after(recorded(), OTHER, MAIN).by(OTHER, wait()).by(OTHER, read()).is_clean();
        // The record that comes later here could have come before the wait.
        let later = after(recorded(), OTHER, MAIN).by(OTHER, wait()).record(E, A);
        later.by(OTHER, read()).races(0, 5);
        // So could a record of a third thread.
        let third = What::Record { event: E, stream: A, by: By::User };
        let third = after(calls().by(2, third).k(C, &[w(X)]).record(E, C), OTHER, MAIN);
        third.by(OTHER, wait()).by(OTHER, read()).races(1, 5);
    });
}

#[test]
fn law_a45_the_library_may_rely_on_the_record_that_a_wait_found() {
    let wait = What::Wait { event: E, stream: D, by: By::User };
    let read = What::Work { verb: Verb::Kernel, stream: D, accesses: vec![tracked(r(X))] };
    with_all(|| {
        let recorded = calls().k(C, &[tracked(w(X))]).record(E, C);
        recorded.by(OTHER, wait).by(OTHER, read).is_clean();
    });
}

#[test]
fn law_a4_a_wait_in_a_blocking_stream_is_no_operation() {
    with_all(|| {
        let waited = calls().k(L, &[w(X)]).record(E, D).wait(E, A).sync(A);
        waited.k(C, &[r(X)]).races(0, 4);
        calls().k(L, &[w(X)]).k(A, &[]).sync(A).k(C, &[r(X)]).is_clean();
        // The work that the event stands for is covered all the same.
        calls().k(C, &[w(X)]).record(E, C).wait(E, A).sync(A).k(D, &[r(X)]).is_clean();
    });
}

#[test]
fn law_a13_an_allocation_neither_follows_the_legacy_stream_nor_holds_anything_back() {
    with_all(|| {
        let alloc = |calls: Calls, stream| calls.work(Verb::Alloc, stream, &[all(Y)]);
        alloc(calls().k(L, &[w(X)]), A).sync(A).k(C, &[r(X)]).races(0, 3);
        alloc(calls().k(A, &[w(X)]), L).k(B, &[r(X)]).races(0, 2);
    });
}

#[test]
fn law_a18_a_staged_copy_reads_after_what_its_stream_waits_for() {
    let written = calls().copy(C, X, PAGEABLE).record(E, C);
    let begin = What::Begin { stream: L, holds: Vec::new() };
    written.wait(E, L).by(MAIN, begin.clone()).copy_now(PAGEABLE, Y).is_clean();
    calls().copy(C, X, PAGEABLE).by(MAIN, begin).copy_now(PAGEABLE, Y).races(0, 2);
}

#[test]
fn a_call_that_waits_follows_what_came_before_its_begin() {
    let begin = || What::Begin { stream: L, holds: Vec::new() };
    let other = |access| What::Work { verb: Verb::Kernel, stream: A, accesses: vec![access] };
    with_all(|| {
        calls().k(A, &[w(X)]).by(MAIN, begin()).copy_now(PINNED, X).k(A, &[r(X)]).is_clean();
        calls().by(MAIN, begin()).by(OTHER, other(w(X))).copy_now(PINNED, X).races(1, 2);
        // The barrier of the call does not stand for work that came in between either.
        let between = calls().by(MAIN, begin()).by(OTHER, other(w(Y))).copy_now(PINNED, X);
        between.k(B, &[w(Y)]).races(1, 3);
    });
}

#[test]
fn a_stream_follows_what_its_creator_knows_and_not_the_one_before_it() {
    let opened = |calls: Calls| {
        let mut all = calls.by(MAIN, What::Open { stream: D });
        all.0.lanes[D].follows = Some(C);
        all
    };
    with_all(|| {
        opened(calls().k(C, &[w(X)])).k(D, &[r(X)]).races(0, 2);
        opened(calls().k(C, &[w(X)]).sync(C)).k(D, &[r(X)]).is_clean();
    });
}

#[test]
fn what_the_library_found_complete_orders_only_what_it_orders() {
    let found = |write, read| {
        let recorded = calls().k(C, &[write]).record(E, C);
        recorded.by(OTHER, What::Settled { event: E }).k(D, &[read])
    };
    with_all(|| {
        found(tracked(w(X)), tracked(r(X))).is_clean();
        found(w(X), r(X)).races(0, 3);
    });
}

#[test]
fn law_a38_a_synchronous_copy_between_devices_is_ordered_on_both() {
    let copied = || {
        let mut all = calls();
        all.0.homes = [(X, 0), (Y, 1)].into();
        all.k(FAR, &[w(Y)]).copy_now(X, Y)
    };
    with_all(|| {
        copied().k(FAR, &[r(Y)]).is_clean();
        // Without the device of the block, there is no order with that device.
        let mut near = copied();
        near.0.homes.remove(&Y);
        near.races(0, 1);
    });
}

#[test]
fn a_thread_that_finds_a_signal_set_follows_the_thread_that_set_it() {
    let set = What::Set { signal: 1, inside: None };
    let read = What::Host { accesses: vec![r(PINNED)] };
    let written = || calls().host(w(PINNED));
    written().by(MAIN, set).by(OTHER, What::Found { signal: 1 }).by(OTHER, read.clone()).is_clean();
    written().by(OTHER, read).races(0, 1);
}

#[test]
fn a_thread_that_finds_a_signal_of_a_host_function_follows_the_work_before_that() {
    let read = What::Host { accesses: vec![r(PINNED)] };
    let set = |inside| What::Set { signal: 1, inside: Some(inside) };
    let copied = calls().copy(C, X, PINNED).work(Verb::HostFn, C, &[]);
    let found = copied.by(MAIN, set(1)).by(OTHER, What::Found { signal: 1 });
    found.by(OTHER, read.clone()).is_clean();
    let aside = calls().copy(C, X, PINNED).work(Verb::HostFn, D, &[]);
    let found = aside.by(MAIN, set(1)).by(OTHER, What::Found { signal: 1 });
    found.by(OTHER, read).races(0, 4);
}
