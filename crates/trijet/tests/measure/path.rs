//! Critical paths, computed by hand.

use crate::script::{Script, times};
use trijet::Nanos;
use trijet::trace::Engine::{Compute, Download, Upload};
use trijet::trace::critical::{Category, critical_path, slack, what_if};
use trijet::trace::dag::{DagNode, Edge};
use trijet::trace::{DeviceId, HostStep, LaneId, StreamClass, StreamWork, Waited};

/// The upload is 1..10, a kernel after it 10..25, the download 27..32. A kernel at 4..8 is needed
/// by no other operation.
fn chain() -> Script {
    let mut s = Script::default();
    s.called(Upload, 1, 0..1, 1..10);
    s.order(1, 1, 2);
    s.called(Compute, 2, 1..2, 10..25);
    s.order(2, 2, 3);
    s.called(Download, 3, 2..3, 27..32);
    s.called(Compute, 4, 3..4, 4..8);
    s
}

#[test]
fn contributions_are_those_of_the_chain() {
    let s = chain();
    let path = critical_path(&s.ops, &s.dag(), 0..40, Nanos(1));
    let by: Vec<_> = path.by_category.iter().map(|(category, time)| (*category, time.0)).collect();
    // The call is 0..1, the upload takes 9 and the kernel 15. Of the 2 before the download, 1 is
    // the launch. The end takes 8.
    let expected = [
        (Category::Engine(Upload), 9),
        (Category::Engine(Compute), 15),
        (Category::Engine(Download), 5),
        (Category::Enqueue, 1),
        (Category::Launch, 1),
        (Category::Unknown, 1),
        (Category::Tail, 8),
    ];
    assert_eq!(by, expected);
    let spans: Vec<_> = path.steps.iter().map(|step| step.span.clone()).collect();
    assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start), "{spans:?}");
}

#[test]
fn arrows_lead_from_the_first_call_through_the_work() {
    let s = chain();
    let path = critical_path(&s.ops, &s.dag(), 0..40, Nanos(1));
    let find = |engine| s.ops.iter().position(|op| op.engine == engine).expect("it is there");
    let (up, kernel, down) = (find(Upload), find(Compute), find(Download));
    let nodes = [DagNode::call(up), DagNode::work(up), DagNode::work(kernel), DagNode::work(down)];
    assert_eq!(path.nodes(), nodes);
    assert_eq!(path.edges(), [(nodes[0], nodes[1]), (nodes[1], nodes[2]), (nodes[2], nodes[3])]);
}

#[test]
fn a_host_that_waits_and_computes_is_on_the_path() {
    let mut s = Script::default();
    s.called(Compute, 1, 0..1, 1..10);
    s.sync(Waited::Stream, 1, 1..12);
    s.call(HostStep::Load, 20..26);
    s.called(Compute, 1, 26..27, 27..30);
    let path = critical_path(&s.ops, &s.dag(), 0..30, Nanos(0));
    let by: Vec<_> = path.by_category.iter().map(|(category, time)| (*category, time.0)).collect();
    // Enqueue 0..1 and 26..27; kernels 9 + 3; the wait's return 10..12; user 12..20; load 6.
    let expected = [
        (Category::Engine(Compute), 12),
        (Category::Enqueue, 2),
        (Category::Sync, 2),
        (Category::Load, 6),
        (Category::User, 8),
    ];
    assert_eq!(by, expected);
}

/// The legacy stream waited for two kernels of blocking streams before the copy was staged. The
/// call continued after the longer kernel.
#[test]
fn a_staged_copy_has_waited_for_all_that_its_stream_held() {
    let mut s = Script::default();
    s.work(Compute, 1, 0..5).stream = StreamClass::Blocking;
    s.work(Compute, 2, 0..10).stream = StreamClass::Blocking;
    let copy = s.called(Upload, 0, 1..11, 12..14);
    (copy.kind, copy.stream) = (StreamWork::CopyNow.into(), StreamClass::Legacy);
    let waited = |s: &Script| {
        let dag = s.dag();
        let before = dag.before(DagNode::call(2)).iter();
        before.filter(|(_, edge)| *edge == Edge::Waited).map(|(node, _)| *node).collect::<Vec<_>>()
    };
    assert_eq!(waited(&s), [DagNode::work(1)]);
    // A call that returned before the end of both kernels has waited for none of them.
    s.ops[2].call = Some(times(1..9));
    assert_eq!(waited(&s), []);
}

/// Law A17: another thread enqueues a kernel while a synchronous copy waits for an earlier one.
#[test]
fn a_call_that_waits_follows_what_its_stream_held_when_it_began() {
    let mut s = Script::default();
    s.work(Compute, 1, 0..10);
    s.call(HostStep::Begin, 1..1).position.lane = LaneId(1);
    s.work(Compute, 1, 10..30).thread = 2;
    s.called(Download, 1, 1..21, 10..20).kind = StreamWork::CopyNow.into();
    s.work(Compute, 1, 30..40);
    let dag = s.dag();
    let before = |op: usize| {
        let before = dag.before(DagNode::work(op)).iter();
        before.filter(|(node, _)| !node.is_call()).map(|(node, _)| node.op()).collect::<Vec<_>>()
    };
    assert_eq!((before(3), before(4)), (vec![0], vec![2, 3]));
    assert_eq!((dag.work(3), dag.contradictions()), (Some(10..20), 0));
}

/// The lane is passed from a blocking stream of one device to a non-blocking stream of another
/// device.
#[test]
fn a_stream_is_not_taken_for_the_one_that_had_its_lane() {
    let mut s = Script::default();
    s.work(Compute, 1, 0..5).stream = StreamClass::Blocking;
    s.call(HostStep::Open, 5..6).position.lane = LaneId(1);
    s.work(Compute, 1, 6..20);
    for index in 1..3 {
        s.ops[index].device = DeviceId(1);
    }
    s.work(Upload, 0, 10..12).stream = StreamClass::Legacy;
    s.sync(Waited::Device, 0, 12..13);
    s.sync(Waited::Device, 0, 20..21).device = DeviceId(1);
    let dag = s.dag();
    let follows = |later: usize| {
        dag.before(DagNode::work(later)).iter().any(|(node, _)| *node == DagNode::work(2))
    };
    assert_eq!([3, 4, 5].map(follows), [false, false, true]);
}

#[test]
fn what_is_off_the_path_has_slack() {
    let s = chain();
    let slack = slack(&s.ops, &s.dag());
    let timed: Vec<_> = slack.into_iter().flatten().map(|slack| slack.0).collect();
    // The last kernel ends at 8, and the run at 32.
    assert_eq!(timed, [0, 0, 0, 24]);
}

#[test]
fn rescaling_runs_the_graph_again() {
    let s = chain();
    let dag = s.dag();
    let with = |wanted: Category, scale: f64| {
        what_if(&s.ops, &dag, |category| if category == wanted { scale } else { 1.0 })
    };
    assert_eq!(with(Category::Tail, 0.0), 32, "nothing changes");
    assert_eq!(with(Category::Engine(Compute), 2.0), 47);
    // Without the kernel of 15, the download begins at 10 + 2 and ends at 17.
    assert_eq!(with(Category::Engine(Compute), 0.0), 17);
    // If uploads take no time, the kernel starts when it was enqueued, and the end is 2 + 15 + 2 +
    // 5.
    assert_eq!(with(Category::Engine(Upload), 0.0), 24);
}

/// A wait for the device follows the work since the previous such wait. An operation of the legacy
/// stream follows the work of blocking streams since the previous operation of the legacy stream.
/// So the number of edges grows with the number of entries, and not with the number of streams.
#[test]
fn the_graph_is_linear_in_the_records() {
    let size = |rounds: u64| {
        let mut s = Script::default();
        let streams = 64;
        for round in 0..rounds {
            for lane in 0..streams {
                s.work(Compute, lane, 10 * round..10 * round + 5);
            }
            for n in 0..64 {
                s.sync(Waited::Device, 0, 10 * round + 5 + n / 16..10 * round + 6 + n / 16);
            }
        }
        (s.ops.len(), s.dag().edges())
    };
    let (ops, edges) = size(20);
    assert!(edges <= 5 * ops, "{edges} edges of {ops} records");
    let (more_ops, more_edges) = size(40);
    assert!(more_ops > ops && more_edges <= 5 * more_ops, "{edges} then {more_edges}");
}
