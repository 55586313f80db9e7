//! The limits of a run, and the limit that the report names, on the modelled clock.

use crate::{Memory, noise, simulated};
use proptest::prelude::*;
use std::sync::OnceLock;
use trijet::pipeline::{Bound, Calibration, Change, Schedule};
use trijet::sim::{HostConfig, Order};
use trijet::testing::WORK;
use trijet::trace::summary::Audience;
use trijet::trace::{Engine, limit::Limit};
use trijet::{Bytes, Device, Nanos, Pipeline, Report};

/// The elements of a row of the jobs.
const ROW: usize = 256;

/// A job of `rows` rows of 1 KiB, with a kernel of this many rounds.
#[derive(Debug, Clone, Copy)]
struct Job {
    rows: usize,
    rounds: u32,
    chunk: u64,
    schedule: Schedule,
    depth: usize,
}

/// A job of 1 MiB in chunks of 64 KiB.
const PLAIN: Job =
    Job { rows: 1024, rounds: 0, chunk: 64 << 10, schedule: Schedule::RoleStreams, depth: 3 };

/// The rounds of a kernel that takes about `times` times as long as the copies of its bytes both
/// ways.
fn rounds(times: f64) -> u32 {
    let rounds = 14.0e12 * 4.0 / 7.0 / 50.8e9 * times;
    (0..1 << 20).find(|n| f64::from(*n) >= rounds).expect("few rounds")
}

/// The kernel reads and writes each element once, and declares both. In the model, it takes the
/// time of these bytes and a constant time.
#[test]
fn kernels_are_compared_with_the_rate_of_device_memory() {
    let report = PLAIN.run(&simulated(Order::Greedy), None);
    let used = report.memory_use().expect("the model has a rate of its memory");
    assert_eq!(used.bytes, Bytes(report.bytes_in.0 + report.bytes_out.0));
    assert_eq!((used.undeclared, used.memory_bytes_per_s), (0, 4_270_000_000_000));
    assert!((0.001..1.0).contains(&used.share()), "{used}");
    let shown = report.to_string();
    let line = shown.lines().find(|line| line.starts_with("device memory: kernels move "));
    assert!(line.is_some_and(|line| line.contains(" % of 4.27 TB/s of the model ")), "{shown}");
    assert!(report.page().render().contains("4.27 TB/s of the model"));
}

#[test]
fn a_device_without_a_known_rate_of_its_memory_has_no_such_line() {
    let device = Device::open(trijet::Select::Host(0)).expect("a host device");
    let report = PLAIN.run(&device, None);
    assert_eq!(report.memory_use(), None);
    assert!(!report.to_string().contains("device memory:"), "{report}");
}

/// Modelled times do not vary, so all tests share one.
fn calibration(device: &Device) -> Calibration {
    static LINK: OnceLock<Calibration> = OnceLock::new();
    LINK.get_or_init(|| Calibration::measure(device, Bytes(4 << 20)).expect("a calibration"))
        .clone()
}

impl Job {
    fn set<'a>(self, pipeline: Pipeline<'a>, link: Option<&Calibration>) -> Pipeline<'a> {
        let pipeline = pipeline.schedule(self.schedule).chunk(Bytes(self.chunk)).depth(self.depth);
        link.into_iter().fold(pipeline, Pipeline::calibrated)
    }

    /// As many bytes down as up.
    fn run(self, device: &Device, link: Option<&Calibration>) -> Report {
        let x = device.pinned::<u32>(self.rows * ROW).expect("memory");
        let mut y = device.pinned::<u32>(self.rows * ROW).expect("memory");
        let pipeline = Pipeline::on(device)
            .pinned_source(&x, ROW)
            .stage::<u32, u32>(move |s, x, y| s.launch(&WORK, (self.rounds, x, y)));
        let pipeline = self.set(pipeline.pinned_sink(&mut y), link);
        pipeline.run().expect("a run without faults")
    }

    /// Seven times as many bytes up as down: each chunk reads three chunks before it and after it.
    fn run_up(self, device: &Device, link: Option<&Calibration>) -> Report {
        let x = device.pinned::<u32>(self.rows * ROW).expect("memory");
        let mut y = device.pinned::<u32>(self.rows * ROW).expect("memory");
        let pipeline = Pipeline::on(device)
            .pinned_source(&x, ROW)
            .stage::<u32, u32>(move |s, x, y| {
                let before = usize::try_from(s.y_rows().start - s.x_rows().start);
                let own = before.expect("few rows") * ROW;
                s.launch(&WORK, (self.rounds, x.slice(own..own + y.len()), y))
            })
            .halo(3 * (self.chunk / (4 * ROW as u64)).max(1));
        let pipeline = self.set(pipeline.pinned_sink(&mut y), link);
        pipeline.run().expect("a run without faults")
    }

    /// The same with the time of the kernels in one stream.
    fn run_alone(self, device: &Device, link: &Calibration) -> Report {
        let serial = Self { schedule: Schedule::OneStream, depth: 1, ..self };
        let serial = serial.run(device, None);
        let kernels = serial.engine("compute").and_then(|e| e.isolated).expect("all were alone");
        self.run(device, Some(link)).with_kernels_alone(kernels)
    }
}

fn is_compute(report: &Report) -> bool {
    matches!(report.limit, Some(Limit::Engine((_, Engine::Compute))))
}

fn is_upload(report: &Report) -> bool {
    matches!(report.limit, Some(Limit::Engine((_, Engine::Upload))))
}

/// Each limit includes the one before it, and no run is faster than the last one. The model slows a
/// copy by a quarter, so a copy may be slowed for a little less than the other one runs.
fn follow_each_other(report: &Report) {
    let limits = report.limits.expect("calibrated");
    assert!(limits.bound <= limits.with_copies, "{report}");
    assert!(limits.with_copies <= limits.with_ends, "{report}");
    let least = limits.with_ends.0 - limits.with_ends.0 / 50;
    assert!(least <= report.elapsed.0, "{report}");
    assert_eq!(report.bound, (!limits.of_copies_only).then_some(limits.bound), "{report}");
}

#[test]
fn the_last_limit_is_near_a_run_of_many_chunks_that_the_link_limits() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    for chunk in [256 << 10, 512 << 10] {
        let report = Job { rows: 16 << 10, chunk, ..PLAIN }.run(&device, Some(&link));
        follow_each_other(&report);
        let reached = report.limits.and_then(|l| l.reached(report.elapsed)).expect("a time");
        assert!(reached > 0.95, "chunks of {chunk}: {report}");
    }
}

/// In tiny chunks the cost of each copy is most of its time, and the calls take longer still.
#[test]
fn in_tiny_chunks_the_second_limit_is_far_above_the_first() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    let report = Job { chunk: 8 << 10, ..PLAIN }.run(&device, Some(&link));
    follow_each_other(&report);
    let limits = report.limits.expect("calibrated");
    assert!(limits.with_copies.0 > 5 * limits.bound.0, "{report}");
    assert_eq!(report.limit, Some(Limit::Calls), "{report}");
    let advice = report.advice();
    assert_eq!(advice.first().map(|one| one.change), Some(Change::LargerChunks), "{report}");
    // Against the first limit alone, this run would look six times worse than it is.
    assert!(report.efficiency().expect("a bound") < 0.2, "{report}");
    assert!(limits.reached(report.elapsed).expect("a time") > 0.5, "{report}");
}

/// Each advice names a time, and following it gains at least that time.
#[test]
fn advice_that_is_followed_saves_at_least_its_time() {
    let device = simulated(Order::Greedy);
    let large = Job { rows: 16 << 10, rounds: rounds(0.5), chunk: 1 << 20, ..PLAIN };
    for (job, change, followed) in [
        (Job { chunk: 8 << 10, ..PLAIN }, Change::LargerChunks, PLAIN),
        (Job { chunk: 8 << 20, ..large }, Change::SmallerChunks, large),
        (Job { depth: 1, ..large }, Change::MoreSlots, large),
    ] {
        let (before, after) = (job.run(&device, None), followed.run(&device, None));
        let advice = before.advice();
        let one = advice.iter().find(|one| one.change == change).expect("the advice");
        let gained = before.elapsed.0.saturating_sub(after.elapsed.0);
        assert_eq!(one.bound, Bound::AtLeast);
        assert!(gained >= one.saves.0, "{one}, and it saved {}\n{before}", Nanos(gained));
        assert!(one.saves.0 * 3 >= gained, "{one} is too little, it saved {}", Nanos(gained));
        let again = after.advice();
        assert!(again.iter().all(|one| one.change != change), "{after}");
    }
}

#[test]
fn a_report_names_lines_of_the_program_for_its_author_only() {
    let device = simulated(Order::Greedy);
    let run = |audience| {
        let x = device.pinned::<u32>(64 * ROW).expect("memory");
        let mut y = device.pinned::<u32>(64 * ROW).expect("memory");
        Pipeline::on(&device)
            .pinned_source(&x, ROW)
            .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (1, x, y)))
            .pinned_sink(&mut y)
            .schedule(Schedule::RoleStreams)
            .chunk(Bytes(16 << 10))
            .audience(audience)
            .run()
            .expect("a run without faults")
    };
    let (author, user) = (run(Audience::Author), run(Audience::User));
    // The time before the first chunk is not modelled.
    let text = |report: &Report| report.to_string().split("cold: ").next().map(str::to_owned);
    assert_ne!(text(&user), text(&author));
    let sites = |report: &Report| report.timeline().iter().filter(|op| op.site.is_some()).count();
    assert!(sites(&author) > 0);
    assert_eq!(sites(&user), 0);
}

#[test]
fn a_run_whose_copies_both_ways_take_the_longest_names_the_link() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    let job = Job { rows: 16 << 10, rounds: rounds(0.3), chunk: 512 << 10, ..PLAIN };
    for report in
        [job.run(&device, Some(&link)), job.run_alone(&device, &link), job.run(&device, None)]
    {
        assert_eq!(report.limit, Some(Limit::Link), "{report}");
    }
    let observed = job.run(&device, None);
    let text = observed.to_string();
    assert!(observed.limits.is_none() && !text.contains("limits:"), "{text}");
    assert!(text.contains("limited by the link in both directions, as observed;"), "{text}");
}

#[test]
fn a_run_whose_kernels_take_the_longest_names_compute() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    let job = Job { rounds: rounds(3.0), ..PLAIN };
    let alone = job.run_alone(&device, &link);
    follow_each_other(&alone);
    let text = alone.to_string();
    assert!(is_compute(&alone) && text.contains("\nlimits: kernels "), "{text}");
    assert!(text.contains("(compute), efficiency"), "{text}");
    for report in [job.run(&device, Some(&link)), job.run(&device, None)] {
        assert!(is_compute(&report), "{report}");
        assert!(report.to_string().contains("limited by compute, as observed;"), "{report}");
        assert!(report.bound.is_none(), "the kernels may be faster alone: {report}");
    }
    let text = job.run(&device, Some(&link)).to_string();
    assert!(text.contains("\nlimits of the copies: link "), "{text}");
}

#[test]
fn a_run_whose_uploads_take_the_longest_names_them() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    let job = Job { rows: 4096, chunk: 256 << 10, ..PLAIN };
    let known = job.run_up(&device, Some(&link));
    follow_each_other(&known);
    assert!(is_upload(&known), "{known}");
    assert!(known.to_string().contains("(upload), efficiency "), "{known}");
    let observed = job.run_up(&device, None);
    assert!(is_upload(&observed), "{observed}");
    assert!(observed.to_string().contains("limited by upload, as observed;"), "{observed}");
}

/// A report once named compute here. Kernels take longer during copies than alone, so their busy
/// time does not show that they need more than the link.
#[test]
fn kernels_that_were_busy_for_little_longer_than_the_copies_are_named_only_if_measured_alone() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    let job = Job { rounds: rounds(2.0), ..PLAIN };
    let observed = job.run(&device, Some(&link));
    let copies = observed.limits.expect("calibrated").with_copies;
    let busy = observed.engine("compute").expect("traced").busy;
    assert!(busy > copies && busy.0 < copies.0 * 5 / 4, "the job has another shape: {observed}");
    // By all known times, the link needs the most, and the critical path consists of kernels.
    assert_eq!(observed.limit, Some(Limit::NoSingle(["link", "compute"])), "{observed}");
    assert!(observed.bound.is_none(), "{observed}");
    let text = observed.to_string();
    let words = " modelled, no single limit: link and compute are nearest;";
    assert!(text.contains(words), "{text}");
    let alone = job.run_alone(&device, &link);
    assert!(is_compute(&alone), "{alone}");
    let nothing = job.run(&device, None);
    assert_eq!(nothing.limit, Some(Limit::Unclear), "{nothing}");
    assert!(nothing.to_string().contains("busy times do not show what limits"), "{nothing}");
}

/// Kernels take longer than the bytes of the copies, and less than the copies with the cost of
/// each.
#[test]
fn a_bound_of_the_kernels_is_not_called_one_of_the_link() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    let job = Job { chunk: 8 << 10, rounds: rounds(0.5), ..PLAIN };
    let report = job.run_alone(&device, &link);
    let limits = report.limits.expect("calibrated");
    assert!(limits.with_copies > limits.bound, "{report}");
    assert_eq!(report.limit, Some(Limit::Calls), "{report}");
    let text = report.to_string();
    assert!(text.contains("(compute; limit: the calls of the host)"), "{text}");
}

#[test]
fn the_limits_are_a_line_below_the_elapsed_time() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    let report = PLAIN.run(&device, Some(&link));
    let limits = report.limits.expect("calibrated");
    let text = report.to_string();
    let line = text.lines().nth(3).expect("a line");
    let wanted = format!(
        "limits: link {}, with the cost of each copy {}, with fill and drain {}, ",
        limits.bound, limits.with_copies, limits.with_ends
    );
    assert!(line.starts_with(&wanted), "{text}");
    assert!(line.ends_with(&format!(" of this run's {}", report.elapsed)), "{text}");
    let finite = report.summary().expect("traced").metrics.finite;
    assert_eq!(finite, limits.with_ends, "one time with fill and drain: {text}");
}

/// Without a trace the kernels are unknown, so the limits come from the copies.
#[test]
fn an_untraced_run_has_the_limits_of_its_copies() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    let data = noise(5, 64 << 10);
    let mut results: Vec<u8> = Vec::new();
    let report = Pipeline::on(&device)
        .source(Memory::new(data.clone(), 1 << 10))
        .sink(&mut results)
        .chunk(Bytes(16 << 10))
        .calibrated(&link)
        .untraced()
        .run()
        .expect("a run without faults");
    assert_eq!(results, data);
    let limits = report.limits.expect("calibrated");
    assert!(limits.of_copies_only && report.bound == Some(limits.bound), "{report}");
    assert!(report.to_string().contains("\nlimits of the copies: link "), "{report}");
}

#[test]
fn a_run_in_place_has_no_limits() {
    let device = Device::host(HostConfig::default()).expect("a host device").remove(0);
    let link = Calibration::measure(&device, Bytes(1 << 20)).expect("a calibration");
    let report = Job { schedule: Schedule::Tuned, ..PLAIN }.run(&device, Some(&link));
    assert!(report.in_place && report.limits.is_none() && report.bound.is_none(), "{report}");
    assert!(!report.to_string().contains("limits:"), "{report}");
    let copied =
        report.limit.is_some_and(|limit| matches!(limit.key(), "upload" | "download" | "link"));
    assert!(!copied, "nothing was copied: {report}");
}

#[test]
fn no_rows_have_limits_of_nothing() {
    let device = simulated(Order::Greedy);
    let link = calibration(&device);
    let mut results: Vec<u8> = Vec::new();
    let report = Pipeline::on(&device)
        .source(Memory::new(Vec::new(), 10))
        .sink(&mut results)
        .calibrated(&link)
        .run()
        .expect("nothing to do");
    let limits = report.limits.expect("calibrated");
    assert_eq!(
        (limits.bound, limits.with_copies, limits.with_ends),
        (Nanos(0), Nanos(0), Nanos(0))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_run_is_faster_than_its_limits(
        rows in 1..600_usize, rounds in 0..300_u32, chunk in 1..150_u64, schedule in 0..4_usize,
        depth in 1..5_usize, up_only in any::<bool>(),
    ) {
        let device = simulated(Order::Greedy);
        let link = calibration(&device);
        let schedule = crate::SCHEDULES[schedule];
        let job = Job { rows, rounds, chunk: chunk << 10, schedule, depth };
        let reports = match up_only {
            true => vec![job.run_up(&device, Some(&link))],
            false => vec![job.run(&device, Some(&link)), job.run_alone(&device, &link)],
        };
        reports.iter().for_each(follow_each_other);
    }
}
