//! Tests over hand-made traces of several ranks. Times are in microseconds.
#![forbid(unsafe_code)]

use crate::base::lint::Rule;
use crate::base::units::Nanos;
use crate::profile::*;
use crate::trace::activity::{Activity, ActivityKind, ContextInfo, NameId, ProcessTrace};
use proptest::prelude::*;

const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const GATHER: &str = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const BROADCAST: &str = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const COMPUTE: &str = "gemm";

/// A process with one device.
fn process(number: u32, rank: Option<u32>) -> ProcessTrace {
    ProcessTrace {
        process: number,
        rank,
        interface: 130_001,
        contexts: vec![ContextInfo { context: 1, device: 0, null_stream: 7 }],
        ..ProcessTrace::default()
    }
}

/// Makes `count` processes, with ranks counted from 0.
fn ranks(count: u32) -> Vec<ProcessTrace> {
    (0..count).map(|rank| process(100 + rank, Some(rank))).collect()
}

/// Adds a kernel. Times start 1 ms after zero, because zero means an unknown time.
fn kernel(trace: &mut ProcessTrace, name: &str, stream: u32, [begin, end]: [u64; 2]) {
    let known = trace.names.iter().position(|known| known == name);
    let index = known.unwrap_or_else(|| {
        trace.names.push(name.to_owned());
        trace.names.len() - 1
    });
    trace.activities.push(Activity {
        kind: ActivityKind::Kernel,
        begin: Nanos(1_000_000 + begin * 1000),
        end: Nanos(1_000_000 + end * 1000),
        bytes: 0,
        name: Some(NameId(u32::try_from(index).unwrap())),
        device: 0,
        context: 1,
        stream,
        thread: 1,
        correlation: 0,
        node: None,
    });
}

/// Adds a collective: a kernel on each rank in `of`. `of` has the indices of the ranks and the
/// starts of their kernels. All these kernels end at `end`.
fn collective(traces: &mut [ProcessTrace], of: &[(usize, u64)], name: &str, stream: u32, end: u64) {
    for &(rank, begin) in of {
        kernel(&mut traces[rank], name, stream, [begin, end]);
    }
}

fn profile(traces: &[ProcessTrace]) -> Profile {
    Profile::of(
        traces.iter().cloned().map(|mut trace| analyse(&mut trace, FiguresOf::Whole)).collect(),
    )
}

/// The count and the cost in microseconds of the finding for the device of this process.
fn late(profile: &Profile, process: usize) -> Option<(usize, u64)> {
    let findings = &profile.processes[process].devices[0].findings;
    let found = findings.iter().find(|finding| finding.rule == Rule::LateRank);
    found.map(|finding| (finding.count, finding.cost.0 / 1000))
}

fn us(time: Nanos) -> u64 {
    time.0 / 1000
}

/// Ten steps of 1 ms. Rank 1 computes for 200 us more than rank 0, and the all-reduce takes 50 us.
fn one_late_rank() -> Vec<ProcessTrace> {
    let mut traces = ranks(2);
    for step in (0..10).map(|step| step * 1000) {
        kernel(&mut traces[0], COMPUTE, 7, [step, step + 300]);
        kernel(&mut traces[1], COMPUTE, 7, [step, step + 500]);
        collective(&mut traces, &[(0, step + 302), (1, step + 502)], REDUCE, 13, step + 552);
    }
    traces
}

#[test]
fn a_late_rank_is_named_with_the_time_for_which_the_other_waited() {
    let profile = profile(&one_late_rank());
    assert_eq!((late(&profile, 0), late(&profile, 1)), (Some((10, 2000)), None));
    let [job] = profile.jobs.as_slice() else { panic!("{:?}", profile.jobs) };
    assert_eq!((job.collectives, job.late, job.communicators), (10, 10, 1));
    assert_eq!((job.kernels, job.unmatched), (20, 0));
    let [first, second] = job.ranks.as_slice() else { panic!("{job:?}") };
    assert_eq!((first.name.as_str(), first.last, us(first.late)), ("rank 0", 0, 0));
    assert_eq!((us(first.exposed), us(first.waiting), us(first.transfer)), (2500, 2000, 500));
    assert_eq!(
        (us(first.waited[0].time), first.waited[0].collectives, first.waited[0].rank),
        (2000, 10, 1)
    );
    assert_eq!((second.name.as_str(), second.last, us(second.late)), ("rank 1", 10, 2000));
    assert_eq!((us(second.waiting), us(second.transfer), us(second.awaited)), (0, 500, 2000));
    let text = text(&profile);
    assert!(text.contains("rank 0 waited 2.00 ms for rank 1 in 10 of them"), "{text}");
    let rows = text.lines().filter(|line| line.starts_with("    rank"));
    assert!(rows.clone().count() > 4 && rows.clone().all(|row| row.len() <= 80), "{text}");
    assert_eq!((second.number, us(job.by_name[0].exposed)), (Some(1), 3000));
}

#[test]
fn a_wait_that_a_kernel_hides_costs_nothing() {
    let mut traces = ranks(2);
    for step in (0..10).map(|step| step * 1000) {
        kernel(&mut traces[0], COMPUTE, 7, [step, step + 450]);
        kernel(&mut traces[1], COMPUTE, 7, [step, step + 600]);
        collective(&mut traces, &[(0, step + 100), (1, step + 400)], REDUCE, 13, step + 600);
    }
    let profile = profile(&traces);
    assert_eq!((late(&profile, 0), late(&profile, 1)), (None, None));
    let ranks = &profile.jobs[0].ranks;
    assert_eq!((ranks[1].last, us(ranks[1].late), us(ranks[1].awaited)), (10, 3000, 0));
    assert_eq!((us(ranks[0].exposed), us(ranks[0].transfer)), (1500, 1500));
}

#[test]
fn ranks_that_begin_within_the_error_of_the_clocks_have_no_finding() {
    let mut traces = ranks(3);
    for step in (0..10).map(|step| step * 1000) {
        let begins = [(0, step), (1, step + 9), (2, step + step / 1000 % 3)];
        collective(&mut traces, &begins, GATHER, 13, step + 200);
    }
    let profile = profile(&traces);
    assert!((0..3).all(|rank| late(&profile, rank).is_none()));
    let job = &profile.jobs[0];
    assert_eq!((job.collectives, job.late), (10, 0));
    assert!(job.ranks.iter().all(|rank| rank.transfer == rank.exposed && rank.last == 0));
}

/// Rank 2 starts 100 us after rank 1. Rank 1 starts 300 us after rank 0.
#[test]
fn a_rank_is_late_by_the_time_after_the_rank_before_it() {
    let mut traces = ranks(3);
    for step in (0..5).map(|step| step * 1000) {
        collective(
            &mut traces,
            &[(0, step), (1, step + 300), (2, step + 400)],
            REDUCE,
            13,
            step + 500,
        );
    }
    let profile = profile(&traces);
    assert_eq!(late(&profile, 0), Some((5, 2000)));
    assert_eq!((late(&profile, 1), late(&profile, 2)), (Some((5, 500)), None));
    let ranks = &profile.jobs[0].ranks;
    assert_eq!((us(ranks[0].several), us(ranks[0].waited[0].time)), (1500, 500));
    assert_eq!((ranks[2].last, us(ranks[2].late), us(ranks[2].awaited)), (5, 500, 1000));
    assert_eq!((ranks[1].last, us(ranks[1].awaited)), (0, 0));
}

#[test]
fn no_rank_is_named_where_two_were_late_together() {
    let mut traces = ranks(4);
    for step in (0..5).map(|step| step * 1000) {
        let begins = [(0, step), (1, step), (2, step + 400), (3, step + 405)];
        collective(&mut traces, &begins, REDUCE, 13, step + 500);
    }
    let profile = profile(&traces);
    assert_eq!(late(&profile, 0), Some((5, 2025)), "it waited all the same");
    let ranks = &profile.jobs[0].ranks;
    assert_eq!(us(ranks[0].several), 2025);
    assert!(ranks.iter().all(|rank| rank.last == 0 && rank.waited.is_empty()), "{ranks:?}");
}

/// There are three communicators: ranks 0 and 1, ranks 2 and 3, and all four ranks. Rank 1 is late
/// in the first communicator, and rank 2 in the second. All ranks start together in the third.
#[test]
fn communicators_over_other_ranks_are_told_apart() {
    let mut traces = ranks(4);
    for step in 0..10 {
        let at = step * 2000;
        collective(&mut traces, &[(0, at), (1, at + 100)], REDUCE, 20, at + 140);
        collective(&mut traces, &[(2, at + 280 + step), (3, at)], REDUCE, 21, at + 320 + step);
        let all = [(0, at + 900), (1, at + 900), (2, at + 902), (3, at + 900)];
        collective(&mut traces, &all, REDUCE, 30, at + 1000);
    }
    let profile = profile(&traces);
    let [job] = profile.jobs.as_slice() else { panic!("{:?}", profile.jobs) };
    assert_eq!((job.communicators, job.collectives, job.unmatched), (3, 30, 0));
    let last: Vec<_> = job.ranks.iter().map(|rank| (rank.last, us(rank.awaited))).collect();
    assert_eq!(last, [(0, 0), (10, 1000), (10, 2845), (0, 0)]);
    assert_eq!(late(&profile, 3), Some((10, 2845)));
}

#[test]
fn jobs_without_a_common_communicator_are_apart() {
    let mut traces: Vec<_> = ranks(2).into_iter().chain(ranks(2)).collect();
    for step in 0..10 {
        let at = step * 2000;
        collective(&mut traces, &[(0, at), (1, at + 100)], REDUCE, 20, at + 140);
        collective(&mut traces, &[(2, at + 900), (3, at + 950)], REDUCE, 20, at + 990);
    }
    let profile = profile(&traces);
    let names: Vec<Vec<&str>> = profile
        .jobs
        .iter()
        .map(|job| job.ranks.iter().map(|rank| rank.name.as_str()).collect())
        .collect();
    assert_eq!(names, [["rank 0", "rank 1"], ["rank 0", "rank 1"]]);
    assert_eq!((late(&profile, 0), late(&profile, 2)), (Some((10, 1000)), Some((10, 500))));
}

/// The first 37 kernels of rank 1 have no record, so a match by counts would be wrong.
#[test]
fn lost_records_at_the_begin_of_a_rank_move_no_match() {
    let mut traces = ranks(2);
    for step in 0..100 {
        let at = step * 500;
        let name = if step % 3 == 0 { GATHER } else { REDUCE };
        collective(&mut traces, &[(0, at), (1, at + 100 + step)], name, 13, at + 300);
    }
    traces[1].activities.drain(..37);
    let found = profile(&traces);
    let job = &found.jobs[0];
    assert_eq!((job.collectives, job.unmatched, job.ranks[1].last), (63, 37, 63));
    let awaited: u64 = (37..100).map(|step| 100 + step).sum();
    assert_eq!((late(&found, 0), us(job.ranks[1].late)), (Some((63, awaited)), awaited));
    assert_eq!(us(job.ranks[0].unknown), 37 * 300);
    // One record in the middle is also missing.
    traces[0].activities.remove(60);
    assert_eq!(profile(&traces).jobs[0].collectives, 62);
}

#[test]
fn nothing_is_said_where_many_records_are_lost_in_between() {
    let mut traces = one_late_rank();
    let mut number = 0;
    traces[1].activities.retain(|one| {
        number += usize::from(one.stream == 13);
        one.stream != 13 || number % 5 != 0
    });
    let profile = profile(&traces);
    assert!(profile.jobs.is_empty(), "{:?}", profile.jobs);
    assert_eq!(late(&profile, 0), None);
}

/// The root of a broadcast ends before the other ranks start, or long after their starts.
#[test]
fn a_broadcast_says_nothing_about_ranks() {
    let mut traces = one_late_rank();
    let waiting = profile(&traces).jobs[0].ranks[0].waiting;
    for step in (0..10).map(|step| step * 1000) {
        kernel(&mut traces[0], BROADCAST, 13, [step + 600, step + 610]);
        kernel(&mut traces[1], BROADCAST, 13, [step + 800, step + 850]);
    }
    let both = profile(&traces);
    let job = &both.jobs[0];
    assert_eq!((job.collectives, job.unmatched, job.ranks[0].waiting), (10, 20, waiting));
    assert_eq!((us(job.ranks[0].unknown), us(job.ranks[1].unknown)), (100, 500));
    let mut traces = ranks(2);
    for step in (0..10).map(|step| step * 1000) {
        collective(&mut traces, &[(0, step), (1, step + 300)], BROADCAST, 13, step + 400);
    }
    assert!(profile(&traces).jobs.is_empty());
}

/// An all-reduce cannot end on rank 0 before it has started on rank 1.
#[test]
fn kernels_that_end_before_the_others_begin_are_no_collective() {
    let mut traces = ranks(2);
    for step in (0..10).map(|step| step * 1000) {
        kernel(&mut traces[0], REDUCE, 13, [step, step + 100]);
        kernel(&mut traces[1], REDUCE, 13, [step + 150, step + 250]);
    }
    assert!(profile(&traces).jobs.is_empty());
}

#[test]
fn kernels_with_other_names_are_no_collective() {
    let mut traces = one_late_rank();
    traces[1].names.iter_mut().for_each(|name| *name = name.replace("f32", "bf16"));
    assert!(profile(&traces).jobs.is_empty());
}

/// Rank 1 agrees with ranks 0 and 2. Ranks 0 and 2 do not agree with each other: their ends differ
/// by 14 us, and their transfer takes 6 us.
#[test]
fn nothing_is_said_about_streams_of_which_two_do_not_agree() {
    let mut traces = ranks(3);
    for step in (0..10).map(|step| step * 1000) {
        kernel(&mut traces[0], REDUCE, 13, [step, step + 100]);
        kernel(&mut traces[1], REDUCE, 13, [step + 80, step + 107]);
        kernel(&mut traces[2], REDUCE, 13, [step + 108, step + 114]);
    }
    assert!(!profile(&traces[..2]).jobs.is_empty() && !profile(&traces[1..]).jobs.is_empty());
    assert!(profile(&traces).jobs.is_empty());
}

/// In one step of 40, the kernel of rank 0 is a pair with the kernels of ranks 1 and 2. The kernels
/// of ranks 1 and 2 are no pair.
#[test]
fn a_collective_whose_kernels_are_not_all_pairs_is_not_matched() {
    let mut traces = ranks(3);
    for step in (0..40).map(|step| step * 1000) {
        let apart = if step == 7000 { [[80, 107], [0, 100], [108, 114]] } else { [[0, 100]; 3] };
        for (trace, [begin, end]) in traces.iter_mut().zip(apart) {
            kernel(trace, REDUCE, 13, [step + begin, step + end]);
        }
    }
    let profile = profile(&traces);
    assert_eq!((profile.jobs[0].collectives, profile.jobs[0].unmatched), (39, 3));
}

#[test]
fn kernels_that_overlap_on_a_stream_are_not_those_of_a_communicator() {
    let mut traces = one_late_rank();
    kernel(&mut traces[0], REDUCE, 13, [500, 560]);
    assert!(profile(&traces).jobs.is_empty());
}

/// The ends differ by 200 us, and the starts by 300 us. So the first rank may have waited for
/// another reason.
#[test]
fn nothing_is_said_about_a_collective_whose_ends_are_too_far_apart() {
    let mut traces = ranks(2);
    for step in (0..10).map(|step| step * 2000) {
        kernel(&mut traces[0], REDUCE, 13, [step, step + 800]);
        kernel(&mut traces[1], REDUCE, 13, [step + 300, step + 1000]);
    }
    let profile = profile(&traces);
    let job = &profile.jobs[0];
    assert_eq!((job.collectives, job.late, late(&profile, 0)), (10, 0, None));
    assert_eq!((us(job.ranks[0].unknown), us(job.ranks[0].transfer)), (8000, 0));
}

/// The kernels are a pair, because the clocks may differ by 10 us. But the transfer may have taken
/// 4 us or 12 us.
#[test]
fn nothing_is_said_about_a_collective_that_is_as_short_as_the_error_of_the_clocks() {
    let mut traces = ranks(2);
    for step in (0..10).map(|step| step * 1000) {
        kernel(&mut traces[0], REDUCE, 13, [step, step + 304]);
        kernel(&mut traces[1], REDUCE, 13, [step + 300, step + 312]);
    }
    let profile = profile(&traces);
    assert_eq!((profile.jobs[0].collectives, profile.jobs[0].late), (10, 0));
    assert_eq!(late(&profile, 0), None);
}

/// The third rank starts 60 us after the second rank, and ends 40 us after the second rank.
#[test]
fn no_rank_is_named_whose_lag_is_within_the_error_that_the_ends_show() {
    let mut traces = ranks(3);
    for step in (0..10).map(|step| step * 2000) {
        kernel(&mut traces[0], REDUCE, 13, [step, step + 800]);
        kernel(&mut traces[1], REDUCE, 13, [step + 300, step + 800]);
        kernel(&mut traces[2], REDUCE, 13, [step + 360, step + 840]);
    }
    let profile = profile(&traces);
    let ranks = &profile.jobs[0].ranks;
    assert_eq!((us(ranks[0].waiting), us(ranks[0].several)), (3600, 3600));
    assert!(ranks.iter().all(|rank| rank.last == 0 && rank.waited.is_empty()), "{ranks:?}");
}

/// All processes may have inherited the number that a launcher gave to their parent.
#[test]
fn ranks_without_numbers_of_their_own_are_named_by_process_and_device() {
    for numbers in [[None, None], [Some(0), Some(0)], [Some(0), None]] {
        let mut traces = one_late_rank();
        traces.iter_mut().zip(numbers).for_each(|(trace, rank)| trace.rank = rank);
        let profile = profile(&traces);
        let ranks = &profile.jobs[0].ranks;
        assert_eq!(ranks[1].name, "process 101, GPU 0");
        assert_eq!((ranks[1].number, ranks[1].last), (None, 10));
    }
}

#[test]
fn devices_of_one_process_are_ranks_too() {
    let mut traces = one_late_rank();
    let mut other = traces.pop().unwrap();
    let names = traces[0].names.len();
    traces[0].names.append(&mut other.names);
    traces[0].activities.extend(other.activities.into_iter().map(|mut one| {
        one.name = one.name.map(|name| NameId(name.0 + u32::try_from(names).unwrap()));
        Activity { device: 1, context: 2, ..one }
    }));
    let profile = profile(&traces);
    let ranks: Vec<_> = profile.jobs[0].ranks.iter().map(|r| (r.name.as_str(), r.last)).collect();
    assert_eq!(ranks, [("rank 0, GPU 0", 0), ("rank 0, GPU 1", 10)]);
    assert_eq!(late(&profile, 0), Some((10, 2000)));
}

/// A drawn step: the start of the collective on each rank, relative to the start of the step, and
/// the time of the transfer, both in microseconds.
type Step = (Vec<u64>, u64);

/// The naive evaluation of the steps, collective by collective. Each result has a value for each
/// rank: the number of collectives in which the rank alone was the last to start, its total
/// lateness, and its exposed waiting. Each rank computes until `hidden` after the start of a step.
fn oracle(steps: &[Step], hidden: u64) -> (Vec<usize>, Vec<u64>, Vec<u64>) {
    let ranks = steps[0].0.len();
    let (mut last, mut late, mut waiting) = (vec![0; ranks], vec![0; ranks], vec![0; ranks]);
    for (begins, _) in steps {
        let mut sorted: Vec<(u64, usize)> = begins.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let (end, rank) = sorted[ranks - 1];
        if end - sorted[0].0 < 10 {
            continue;
        }
        if end - sorted[ranks - 2].0 >= 10 {
            last[rank] += 1;
            late[rank] += end - sorted[ranks - 2].0;
        }
        for (rank, begin) in begins.iter().enumerate() {
            waiting[rank] += (*begin..end).filter(|time| *time >= hidden).count() as u64;
        }
    }
    (last, late, waiting)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    (2_usize..5).prop_flat_map(|ranks| {
        let begins = proptest::collection::vec(0_u64..400, ranks);
        proptest::collection::vec((begins, 1_u64..200), 4..12)
    })
}

proptest! {
    /// The trace is made from the drawn steps. The records of the first steps of the last rank may
    /// be lost.
    #[test]
    fn the_figures_of_ranks_are_those_of_a_naive_count(
        drawn in steps(),
        hidden in 0_u64..300,
        lost in 0_usize..4,
    ) {
        let count = drawn[0].0.len();
        let mut traces = ranks(u32::try_from(count).unwrap());
        for ((begins, transfer), at) in drawn.iter().zip((0..).map(|step| step * 1000)) {
            let end = at + begins.iter().max().unwrap() + transfer;
            for (rank, begin) in begins.iter().enumerate() {
                kernel(&mut traces[rank], REDUCE, 13, [at + begin, end]);
                kernel(&mut traces[rank], COMPUTE, 7, [at, at + hidden]);
            }
        }
        let lost = lost.min(drawn.len() - 4);
        traces[count - 1].activities.drain(..2 * lost);
        let (last, late, waiting) = oracle(&drawn[lost..], hidden);
        let profile = profile(&traces);
        let [job] = profile.jobs.as_slice() else { panic!("{:?}", profile.jobs) };
        prop_assert_eq!(job.collectives, drawn.len() - lost);
        for (number, rank) in job.ranks.iter().enumerate() {
            prop_assert_eq!(rank.last, last[number]);
            prop_assert_eq!(us(rank.late), late[number]);
            prop_assert_eq!(us(rank.waiting), waiting[number]);
            prop_assert_eq!(rank.exposed.0, rank.waiting.0 + rank.transfer.0 + rank.unknown.0);
        }
    }

    /// Ranks 0 and 1 are a communicator, and ranks 2 and 3 are another one. All ranks run the same
    /// kernels in each step, and their kernels end up to 3 us apart. No figure exceeds the time for
    /// which a rank was really late.
    #[test]
    fn no_rank_is_blamed_for_the_waits_of_another_communicator(
        drawn in proptest::collection::vec(
            ([0_u64..400, 0..400, 0..400, 0..400], 5_u64..40, [0_u64..4, 0..4, 0..4, 0..4]), 16..24),
    ) {
        let mut traces = ranks(4);
        let mut late_by = [0_u64; 4];
        for ((begins, transfer, jitter), at) in drawn.iter().zip((0..).map(|step| step * 1000)) {
            for group in [[0, 1], [2, 3]] {
                let last = begins[group[0]].max(begins[group[1]]);
                for (rank, other) in [(group[0], group[1]), (group[1], group[0])] {
                    late_by[rank] += begins[rank].saturating_sub(begins[other]);
                    let end = at + last + transfer + jitter[rank];
                    kernel(&mut traces[rank], REDUCE, 13, [at + begins[rank], end]);
                }
            }
        }
        let profile = profile(&traces);
        let members: Vec<Vec<u32>> = profile
            .jobs
            .iter()
            .map(|job| job.ranks.iter().filter_map(|rank| rank.number).collect())
            .collect();
        prop_assert_eq!(members, [[0, 1], [2, 3]]);
        for rank in profile.jobs.iter().flat_map(|job| &job.ranks) {
            let number = usize::try_from(rank.number.unwrap()).unwrap();
            prop_assert!(us(rank.late) <= late_by[number]);
            prop_assert!(us(rank.awaited) <= late_by[number]);
            prop_assert!(us(rank.waiting) <= late_by[number ^ 1]);
        }
    }

    /// This holds for any kernels. A rank is reported to have waited only while two things hold:
    /// the rank ran a kernel, and a kernel with the same name started later on another rank. The
    /// parts sum to the exposed time.
    #[test]
    fn no_claim_contradicts_the_times(
        drawn in proptest::collection::vec(
            (0_usize..3, 0_u32..2, 0_usize..2, 0_u64..60, 1_u64..40), 0..60),
        common in proptest::collection::vec((0_u64..30, 0_u64..30, 1_u64..40), 0..8),
    ) {
        let mut traces = ranks(3);
        for ((a, b, length), at) in common.iter().zip((0..).map(|n| n * 70)) {
            let end = at + a.max(b) + length;
            collective(&mut traces, &[(0, at + a), (1, at + b)], REDUCE, 13, end);
        }
        for (rank, stream, name, begin, length) in drawn {
            let name = [REDUCE, GATHER][name];
            kernel(&mut traces[rank], name, 13 + stream, [begin * 10, begin * 10 + length]);
        }
        let profile = profile(&traces);
        for job in &profile.jobs {
            for rank in &job.ranks {
                let sum = rank.waiting.0 + rank.transfer.0 + rank.unknown.0;
                prop_assert_eq!(rank.exposed.0, sum);
                prop_assert!(rank.awaited.0 == 0 || rank.last > 0);
            }
        }
        for (trace, process) in traces.iter().zip(&profile.processes) {
            for finding in process.devices.iter().flat_map(|device| &device.findings) {
                for place in finding.places.iter().filter(|_| finding.rule == Rule::LateRank) {
                    prop_assert!(is_wait(&traces, trace, place.start), "{:?}", place);
                }
            }
        }
    }
}

/// Whether a kernel of `trace` runs at `time`, and a kernel with the same name starts later on
/// another rank. The later start must come before the end of the first kernel.
fn is_wait(traces: &[ProcessTrace], trace: &ProcessTrace, time: u64) -> bool {
    let runs = |one: &&Activity| one.begin.0 <= time && time < one.end.0;
    trace.activities.iter().filter(runs).any(|mine| {
        traces.iter().filter(|other| other.process != trace.process).any(|other| {
            other.activities.iter().any(|theirs| {
                other.name(theirs) == trace.name(mine)
                    && time < theirs.begin.0
                    && theirs.begin < mine.end
            })
        })
    })
}
