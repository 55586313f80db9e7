//! Cases 01 to 14 and 48: streams and events. Each faulty program is followed by its correction.

use super::log::{A, B, BLOCKING_A, BLOCKING_B, C, D, D2, E, F, FAR, H, LEGACY, log, part, r, w};
use trijet::SourceOrder;
use trijet::check::{Assume, Conflict, FindingClass, Verdict};
use trijet::trace::{Mode, StreamWork};

const RAW: FindingClass = FindingClass::Race(Conflict::Raw);
const WAR: FindingClass = FindingClass::Race(Conflict::War);
const WAW: FindingClass = FindingClass::Race(Conflict::Waw);

/// The two operations of the only finding, and its bytes.
fn only(verdict: &Verdict) -> (u64, u64, std::ops::Range<u64>) {
    let finding = &verdict.findings[0];
    let first = finding.first.as_ref().expect("a pair").op;
    (first, finding.second.op, finding.ranges[0].clone())
}

#[test]
fn case_01_a_read_in_another_stream_needs_an_edge() {
    let verdict = log().k(A, &[w(D)]).k(B, &[r(D)]).finds(&[RAW]);
    assert_eq!(only(&verdict), (0, 1, 0..64));
    log().k(A, &[w(D)]).edge(E, A, B).k(B, &[r(D)]).is_silent();
}

#[test]
fn case_02_an_upload_over_what_another_stream_reads_needs_an_edge() {
    log().k(A, &[r(D)]).copy(B, D, H).finds(&[WAR]);
    log().k(A, &[r(D)]).edge(E, A, B).copy(B, D, H).is_silent();
    log().k(A, &[r(D)]).copy(B, D2, H).is_silent();
}

#[test]
fn case_03_two_writes_need_an_edge() {
    log().work(StreamWork::Fill, A, "fill", &[w(D)]).k(B, &[w(D)]).finds(&[WAW]);
    log().work(StreamWork::Fill, A, "fill", &[w(D)]).edge(E, A, B).k(B, &[w(D)]).is_silent();
}

#[test]
fn case_04_an_event_that_predates_the_write_is_no_edge() {
    let verdict = log().rec(E, A).k(A, &[w(D)]).wait(E, B).k(B, &[r(D)]).finds(&[RAW]);
    let known = &verdict.findings[0].known;
    assert!(known.contains("event 100, recorded at #0") && known.contains("BEFORE #1"), "{known}");
    log().k(A, &[w(D)]).rec(E, A).wait(E, B).k(B, &[r(D)]).is_silent();
}

#[test]
fn case_05_a_wait_for_an_event_that_is_recorded_later_is_none() {
    let faulty = log().wait(E, B).k(A, &[w(D)]).rec(E, A).k(B, &[r(D)]);
    // Errors come before warnings.
    let verdict = faulty.finds(&[RAW, FindingClass::WaitUnrecorded]);
    assert!(verdict.findings[0].known.contains("before any record of the event"), "{verdict}");
    log().k(A, &[w(D)]).rec(E, A).wait(E, B).k(B, &[r(D)]).is_silent();
}

#[test]
fn case_06_an_event_stands_for_its_last_record() {
    let faulty = log().k(A, &[w(D)]).rec(E, A).k(C, &[]).rec(E, C).wait(E, B).k(B, &[r(D)]);
    let verdict = faulty.finds(&[RAW]);
    assert!(verdict.findings[0].known.contains("recorded again"), "{verdict}");
    let cured = log().k(A, &[w(D)]).rec(E, A).k(C, &[]).rec(F, C).wait(F, B).wait(E, B);
    cured.k(B, &[r(D)]).is_silent();
}

#[test]
fn case_07_the_event_of_the_last_reader_does_not_stand_for_the_first() {
    let faulty = log().k(A, &[r(D)]).rec(E, A).k(B, &[r(D)]).rec(E, B).wait(E, C).k(C, &[w(D)]);
    assert_eq!(only(&faulty.finds(&[WAR])), (0, 5, 0..64));
    let cured = log().k(A, &[r(D)]).rec(E, A).k(B, &[r(D)]).rec(F, B).wait(E, C).wait(F, C);
    cured.k(C, &[w(D)]).is_silent();
}

#[test]
fn case_08_order_is_transitive() {
    let chain = |second| log().k(A, &[w(D)]).edge(E, A, B).k(B, &[]).edge(second, B, C);
    chain(F).k(C, &[r(D)]).is_silent();
    log().k(A, &[w(D)]).k(B, &[]).edge(F, B, C).k(C, &[r(D)]).finds(&[RAW]);
}

#[test]
fn case_09_only_the_bytes_that_overlap_race() {
    let written = || log().k(A, &[part(D, 0..64, Mode::Write)]);
    let faulty = written().k(B, &[part(D, 63..128, Mode::Read)]);
    assert_eq!(only(&faulty.finds(&[RAW])), (0, 1, 63..64));
    written().k(B, &[part(D, 64..128, Mode::Read)]).is_silent();
}

#[test]
fn case_10_and_11_disjoint_writes_and_shared_reads_are_clean() {
    let halves = [part(D, 0..64, Mode::Write), part(D, 64..128, Mode::Write)];
    log().k(A, &halves[..1]).k(B, &halves[1..]).is_silent();
    log().k(A, &halves[..1]).k(B, &halves[..1]).finds(&[WAW]);
    log().k(A, &[r(D)]).k(B, &[r(D)]).is_silent();
    log().k(A, &[r(D)]).k(B, &[w(D)]).finds(&[WAR]);
}

#[test]
fn case_12_a_view_is_bytes_of_its_allocation() {
    let viewed = || log().k(A, &[part(D, 256..512, Mode::Write)]);
    let whole = [part(D, 0..1024, Mode::Read)];
    let verdict = viewed().k(B, &whole).finds(&[RAW]);
    assert_eq!(only(&verdict), (0, 1, 256..512));
    viewed().edge(E, A, B).k(B, &whole).is_silent();
}

#[test]
fn case_13_the_legacy_stream_orders_blocking_streams() {
    log().k(BLOCKING_A, &[w(D)]).k(LEGACY, &[r(D)]).k(BLOCKING_B, &[w(D)]).is_silent();
    log().k(BLOCKING_A, &[w(D)]).k(BLOCKING_B, &[w(D)]).finds(&[WAW]);
}

#[test]
fn case_14_the_legacy_stream_does_not_wait_for_a_non_blocking_one() {
    let verdict = log().k(A, &[w(D)]).k(LEGACY, &[r(D)]).finds(&[RAW]);
    let finding = &verdict.findings[0];
    assert!(finding.known.contains("non-blocking"), "{verdict}");
    assert_eq!(finding.rules, ["A13"]);
    log().k(A, &[w(D)]).edge(E, A, LEGACY).k(LEGACY, &[r(D)]).is_silent();
}

/// Law A31. Work that comes before a launch in its stream also comes before the next launch.
#[test]
fn case_42_launches_of_one_graph_follow_each_other() {
    const GRAPH: u64 = 7;
    const OTHER: u64 = 8;
    log().launch(A, GRAPH, &[w(D)]).launch(B, GRAPH, &[w(D)]).is_silent();
    let verdict = log().launch(A, GRAPH, &[w(D)]).launch(B, OTHER, &[w(D)]).finds(&[WAW]);
    assert_eq!(only(&verdict), (0, 1, 0..64));
    let before = || log().k(A, &[w(D2)]).launch(A, GRAPH, &[w(D)]);
    before().launch(B, GRAPH, &[w(D)]).k(B, &[r(D2)]).is_silent();
    before().launch(B, OTHER, &[]).k(B, &[r(D2)]).finds(&[RAW]);
    // The launch before is always the last launch of the graph, in any stream and on any device.
    before().launch(C, GRAPH, &[]).launch(FAR, GRAPH, &[]).k(FAR, &[r(D2)]).is_silent();
    // A launch that waits during its call follows the launch before it. Work that other threads add
    // to its stream during the call does not follow that launch.
    before().by(1).begin(B).launch(B, GRAPH, &[w(D)]).is_silent();
    let meanwhile = before().by(1).begin(B).by(2).k(B, &[r(D2)]).by(1).launch(B, GRAPH, &[w(D)]);
    meanwhile.finds(&[RAW]);
}

#[test]
fn case_43_what_follows_no_launch_of_a_graph_is_not_ordered_by_it() {
    log().launch(A, 7, &[w(D)]).k(B, &[r(D)]).finds(&[RAW]);
    log().launch(A, 7, &[w(D)]).edge(E, A, B).k(B, &[r(D)]).is_silent();
    log().k(A, &[w(D)]).launch(B, 7, &[r(D)]).finds(&[RAW]);
}

#[test]
fn case_48_a_wait_crosses_devices_and_nothing_else_does() {
    log().copy(A, D2, D).k(FAR, &[r(D2)]).finds(&[RAW]);
    log().copy(A, D2, D).edge(E, A, FAR).k(FAR, &[r(D2)]).is_silent();
}

/// Law A14: behaviour of a driver that was only observed is used only on request.
#[test]
fn a_bare_record_in_the_legacy_stream_is_a_barrier_only_if_assumed() {
    let bare = log().k(BLOCKING_A, &[w(D)]).rec(E, LEGACY).k(BLOCKING_B, &[r(D)]);
    bare.finds(&[RAW]);
    bare.with(|options| options.assume(Assume::DriverObserved)).is_silent();
}

/// Law A19.
#[test]
fn copies_of_a_batch_have_no_order_and_may_read_early() {
    let batch = |order, accesses: &[_]| {
        log().k(A, &[w(D)]).work(StreamWork::Batch(order), A, "batch", accesses)
    };
    batch(SourceOrder::Stream, &[r(D), w(D2)]).is_silent();
    batch(SourceOrder::Stream, &[r(D), w(D2), r(D2), w(H)]).finds(&[FindingClass::BatchDependent]);
    batch(SourceOrder::Any, &[r(D), w(D2)]).finds(&[RAW]);
    batch(SourceOrder::DuringCall, &[r(D), w(D2)]).finds(&[RAW]);
    let synced = log().k(A, &[w(D)]).sync(A);
    synced.work(StreamWork::Batch(SourceOrder::Any), A, "batch", &[r(D), w(D2)]).is_silent();
}

/// All conflicts of one kind between two operations are one finding, with all their bytes.
#[test]
fn a_pair_is_one_finding_for_each_kind_of_conflict() {
    let both = |mode| [part(D, 0..64, Mode::Update), part(D, 64..96, mode)];
    let twice = both(Mode::Update);
    let verdict = log().k(A, &twice).k(B, &twice).finds(&[RAW]);
    assert_eq!((only(&verdict), verdict.findings[0].ranges.len()), ((0, 1, 0..96), 1));
    let mixed = both(Mode::Write);
    log().k(A, &mixed).k(B, &mixed).finds(&[RAW, WAW]);
}
