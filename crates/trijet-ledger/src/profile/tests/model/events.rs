//! The order that events give the operations of a run, by the gain of a host that is earlier: the
//! operations that the host had delayed then start directly after the ones that they follow.
#![forbid(unsafe_code)]

use super::*;

/// The length of the program's computation before its last kernel in each round.
const LATE: u64 = 2_000_000;
/// The same with the fix: as the model has it.
const EARLY: u64 = 50_000;

/// Twenty rounds of a program that computes for long before the kernel of stream 15. Stream 13
/// waits for the kernel at the end of each round.
fn rounds(steps: &[Step], late: u64) -> Run {
    let last = [
        Step::Compute(late),
        Step::Kernel { stream: 15, length: 600_000 },
        Step::Follow { stream: 13, other: 15 },
    ];
    Run::of(&[steps, &last].concat().repeat(20))
}

/// The gain of an earlier host, and the time that it saves.
fn gain_and_saved(steps: &[Step], change: impl Fn(Run) -> Run) -> (u64, u64, u64) {
    let (run, fixed) = (change(rounds(steps, LATE)), rounds(steps, EARLY));
    (gain(&run, Rule::GpuIdle), run.length() - fixed.length(), run.length())
}

/// Asserts that the gain is the saved time, and that it is not without the records of events.
fn assert_events_are_followed(steps: &[Step]) {
    let (gain, saved, length) = gain_and_saved(steps, |run| run);
    assert!(is_near(gain, saved, length), "{gain} for {saved} of {length}");
    let (gain, saved, length) = gain_and_saved(steps, Run::without_events);
    assert!(!is_near(gain, saved, length), "without events {gain} for {saved} of {length}");
}

const LONG: u64 = 400_000;

/// The kernel of stream 15 began long after the event, because the host was late. An earlier host
/// does not make it begin before the event.
#[test]
fn an_operation_follows_an_event_that_did_not_delay_it() {
    assert_events_are_followed(&[
        Step::Kernel { stream: 13, length: LONG },
        Step::Follow { stream: 15, other: 13 },
    ]);
}

#[test]
fn a_stream_without_operations_hands_its_waits_on() {
    assert_events_are_followed(&[
        Step::Kernel { stream: 13, length: LONG },
        Step::Follow { stream: 14, other: 13 },
        Step::Follow { stream: 15, other: 14 },
    ]);
}

#[test]
fn a_wait_is_for_the_operations_before_the_record_and_not_for_later_ones() {
    let steps = [
        Step::Kernel { stream: 13, length: 250_000 },
        Step::Record(13),
        Step::Kernel { stream: 13, length: LONG },
        Step::Await(15),
    ];
    assert_events_are_followed(&steps);
    let early = [&steps[..], &[Step::Kernel { stream: 14, length: 5_000 }]].concat();
    assert_events_are_followed(&early);
}

#[test]
fn a_wait_before_the_first_record_orders_nothing() {
    let steps = [Step::Await(15), Step::Kernel { stream: 13, length: LONG }];
    let run = |length| {
        let last = [Step::Compute(length), Step::Kernel { stream: 15, length: 100_000 }];
        Run::of(&[&steps[..], &last].concat())
    };
    let (late, early) = (run(LATE), run(EARLY));
    let gain = gain(&late, Rule::GpuIdle);
    assert!(is_near(gain, late.length() - early.length(), late.length()), "{gain}");
}

/// Another record of an event with the same number comes between the record and the wait, as in a
/// program whose threads use events at the same time. The number that the wait shares with its
/// record decides.
#[test]
fn a_wait_is_for_the_record_with_its_number() {
    let steps = [
        Step::Kernel { stream: 13, length: LONG },
        Step::Record(13),
        Step::Record(14),
        Step::Await(15),
    ];
    // As if the second record did not replace the first one.
    let numbered = |mut run: Run| {
        for one in run.scenario.trace.events.chunks_mut(5) {
            (one[0].sync, one[1].sync, one[2].sync) = (Some(7), Some(8), Some(7));
        }
        run
    };
    let simulated = [steps[0], steps[1], steps[3]];
    let saved = rounds(&simulated, LATE).length() - rounds(&simulated, EARLY).length();
    let (with_number, _, length) = gain_and_saved(&steps, numbered);
    assert!(is_near(with_number, saved, length), "{with_number} for {saved}");
    let (by_event, _, length) = gain_and_saved(&steps, |run| run);
    assert!(!is_near(by_event, saved, length), "{by_event} for {saved}");
}

/// A program in which stream 14 waits once for an upload. Later, an operation of it starts directly
/// after another upload, for which it does not wait. Returns the measured and the replayed time.
fn directly_after(later: fn(&mut Scenario, [u64; 2])) -> [(u64, u64); 2] {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 5]).kernel(13, [10, 100]);
    scenario.call("cudaEventRecord", [6, 8]).use_event(EventUseKind::Record, 13);
    scenario.call("cudaStreamWaitEvent", [9, 11]).use_event(EventUseKind::Wait, 14);
    scenario.call("cudaLaunchKernel", [12, 17]).kernel(14, [102, 200]);
    scenario.call("cudaMemcpyAsync", [400, 405]);
    later(&mut scenario, [410, 900]);
    scenario.trace.activities.last_mut().unwrap().stream = 13;
    scenario.call("cudaLaunchKernel", [420, 425]).kernel(14, [902, 1500]);
    let times = |scenario: &Scenario| {
        let profile = Profile::of(vec![scenario.process()]);
        let gains = profile.processes[0].devices[0].gains.as_ref().unwrap();
        (gains.measured.0, gains.replayed.0)
    };
    let with = times(&scenario);
    scenario.trace.events.clear();
    [with, times(&scenario)]
}

/// With the waits of a stream for another one, nothing is guessed between them: the copy did not
/// delay the kernel, and the delay is an error of the model.
#[test]
fn a_copy_of_a_stream_with_known_waits_explains_no_later_start() {
    let upload =
        |scenario: &mut Scenario, time| _ = scenario.upload(MemoryKind::Pinned, 1 << 20, time);
    let [with, without] = directly_after(upload);
    assert_eq!(without.0, without.1, "without events, a wait for the copy is likely");
    assert!(with.1 < with.0 - 400_000, "{with:?}");
}

/// Kernels of several streams compete for the multiprocessors, with or without events.
#[test]
fn a_kernel_of_a_stream_with_known_waits_explains_a_later_start() {
    let kernel = |scenario: &mut Scenario, time| _ = scenario.kernel(13, time);
    for (measured, replayed) in directly_after(kernel) {
        assert_eq!(measured, replayed);
    }
}
