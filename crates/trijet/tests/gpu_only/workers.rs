//! Persistent workers on the GPU: the answers of the programs, tasks that run exactly once, and the
//! ends of runs.

#[path = "../workers/answers.rs"]
mod answers;
#[path = "../workers/payloads.rs"]
mod payloads;

use std::time::Duration;
use trijet::kernels::Update;
use trijet::workers::queens;
use trijet::workers::{Body, Kinds, Policy, Program, ProgramSpec, RunOptions, Work, Worker};
use trijet::{Device, ErrorKind, Result, Select};
use trijet_programs::{mix, tree};

const SPAWNING: [Policy; 3] = [Policy::Sharing, Policy::Stealing, Policy::Hybrid];

#[test]
fn every_program_has_its_answer_under_every_policy_on_a_gpu() -> Result<()> {
    let device = Device::open(Select::Cuda(0))?;
    for seed in 0..60 {
        let policy = Policy::ALL[seed as usize % 5];
        // There are few workers with small queues, or as many workers as fit.
        let workers = [Some(8), Some(100), None][seed as usize / 5 % 3];
        let queue = 1 << (seed / 5 % 4 * 3);
        let chunk = 1 + seed % 7;
        let mut options = RunOptions::new().chunk(chunk);
        options = options.workers(workers).seed(seed);
        if seed % 2 == 0 {
            options = options.statistics();
        }
        answers::every(&device, (policy, Some(queue)), &options, seed + 1)
            .map_err(|error| error.context(format!("seed {seed}")))?;
    }
    Ok(())
}

#[test]
fn every_program_takes_any_payload_on_a_gpu() -> Result<()> {
    let device = Device::open(Select::Cuda(0))?;
    for seed in 0..3_u32 {
        let options = RunOptions::new().seed(seed);
        payloads::every(&device, &options, u64::from(seed))
            .map_err(|error| error.context(format!("seed {seed}")))?;
    }
    device.close()
}

#[test]
fn large_programs_have_their_answers_on_a_gpu() -> Result<()> {
    let device = Device::open(Select::Cuda(0))?;
    for policy in SPAWNING {
        // A search has many open nodes at once, so the ring is large.
        let options = RunOptions::new().policy(policy).ring(1 << 17);
        answers::queens(&device, &options, 12, 4)?;
        answers::queens(&device, &options, 14, 5)?;
        answers::layered(&device, &options, 50, 400)?;
        answers::search(&device, &options, 100_000, 7)?;
        answers::rows(&device, &options, 100_000, 8)?;
        answers::attention(&device, &options, 3000, 9)?;
        answers::experts(&device, &options, 64, 30_000)?;
        answers::pair(&device, &options, 24)?;
        answers::mandelbrot(&device, &options, 512, 200)?;
    }
    answers::layered(&device, &RunOptions::new().policy(Policy::Levels), 50, 400)?;
    Ok(())
}

/// The trees have about ten thousand nodes on average. The task of a node makes the tasks of its
/// children.
#[test]
fn every_task_runs_exactly_once_on_a_gpu() -> Result<()> {
    let runs =
        std::env::var("TRIJET_WORKERS").map_or(60, |most| most.parse().expect("a number of runs"));
    let device = Device::open(Select::Cuda(0))?;
    let mut tasks = 0;
    for seed in 0..runs {
        let policy = SPAWNING[seed as usize % 3];
        let workers = [None, Some(1 + mix(seed) % 1000)][seed as usize / 3 % 2];
        let queue = 1 << (4 + seed / 6 % 6);
        let options =
            RunOptions::new().policy(policy).workers(workers).queue(queue).ring(1 << 20).seed(seed);
        let outcome = answers::tree(&device, &options, seed, 13);
        tasks += outcome.map_err(|error| error.context(format!("seed {seed}")))?.ran;
    }
    println!("{tasks} tasks in {runs} runs");
    Ok(())
}

/// A program that the run-time compiler compiles.
struct Waits;

impl Kinds for Waits {
    const KINDS: &'static [(&'static str, Body)] = &[("wait_for", nothing), ("set", nothing)];
}

fn nothing(_: &mut Worker<'_>, _: u64) {}

const BODIES: &str = "
// Waits for a task that no worker is left for.
DEV void wait_for(Worker& w, const Args& args, u64 payload) {
  must_spawn(w, lane_id() == 0 && payload == 7, SET, 0);
  while (payload != 8 && load_acquire(args.flag) == 0 && !stopped(w)) nap(1000);
}

DEV void set(Worker& w, const Args& args, u64) {
  if (lane_id() == 0) store_release(args.flag, 1);
}";

static WAITS: Program<Waits, (Update<u32>,)> = {
    let spec = ProgramSpec::new("waits", BODIES, "u32* flag, u64 length");
    // SAFETY: the bodies use the first word, and the tests pass one.
    unsafe { Program::declare(spec) }
};

#[test]
fn a_child_of_a_task_that_waits_stays_with_its_worker_and_the_watchdog_names_the_task() -> Result<()>
{
    let device = Device::open(Select::Cuda(0))?;
    let s = device.stream()?;
    let mut flag = s.alloc_zeroed::<u32>(1)?;
    let watchdog = Duration::from_millis(100);
    for policy in SPAWNING {
        let options = RunOptions::new().policy(policy).watchdog(watchdog);
        let work = [trijet::workers::WorkerTask::new(0, 7)];
        let run = s.run_workers(&WAITS, Work::Tasks(&work), &options, (&mut flag,))?;
        let error = run.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
        let told = error.to_string();
        assert!(told.contains("ran the task `wait_for` with the payload 0x7"), "{told}");
    }
    Ok(())
}

#[test]
fn a_cancelled_run_ends_on_a_gpu() -> Result<()> {
    let device = Device::open(Select::Cuda(0))?;
    let s = device.stream()?;
    let mut flag = s.alloc_zeroed::<u32>(1)?;
    // The task waits for a flag that no task sets.
    let options = RunOptions::new().watchdog(Duration::ZERO);
    let work = Work::Range { kind: 0, count: 1 };
    let run = s.run_workers(&WAITS, work, &options, (&mut flag,))?;
    run.cancel();
    assert_eq!(run.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    Ok(())
}

#[test]
fn a_task_without_room_is_named_on_a_gpu() -> Result<()> {
    let device = Device::open(Select::Cuda(0))?;
    let s = device.stream()?;
    let mut sums = s.alloc_zeroed::<u64>(2)?;
    let options = RunOptions::new().queue(2).ring(2).workers(8);
    let first = [tree::root(2)];
    let args = (&mut sums, 12u32, 8u32);
    let error =
        s.run_workers(&tree::TREE, Work::Tasks(&first), &options, args)?.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("had no room for the task `node`"), "{error}");
    Ok(())
}

/// The same test as on host devices: the statistics add up, and no worker is busy for longer than
/// it exists.
#[test]
fn statistics_add_up_on_a_gpu() -> Result<()> {
    let device = Device::open(Select::Cuda(0))?;
    let options = RunOptions::new().statistics();
    let outcome = answers::queens(&device, &options, 12, 4)?;
    let sum = |of: fn(&trijet::workers::WorkerReport) -> u64| -> u64 {
        outcome.workers.iter().map(of).sum()
    };
    assert_eq!((sum(|w| w.ran), sum(|w| w.spawned)), (outcome.ran, outcome.spawned));
    for worker in &outcome.workers {
        assert!(worker.busy.0 <= worker.span.end.0 - worker.span.start.0, "{worker:?}");
    }
    assert_eq!(queens::QUEENS.name(), "queens");
    Ok(())
}

/// The host feeds many more tasks than the rings can hold, and takes the answers late.
#[test]
fn every_task_that_is_fed_is_answered_once_on_a_gpu() -> Result<()> {
    use trijet::workers::WorkerTask;
    use trijet_programs::echo::{ECHO, echoed};
    let device = Device::open(Select::Cuda(0))?;
    let s = device.stream()?;
    for policy in SPAWNING {
        let mut sum = s.alloc_zeroed::<u64>(1)?;
        let options = RunOptions::new().policy(policy).workers(1000);
        let mut feed = s.feed_workers(&ECHO, &options, (&mut sum,))?;
        let (count, mut answers) = (100_000_u64, Vec::new());
        for (number, first) in (0..count).step_by(777).enumerate() {
            let tasks = first..count.min(first + 777);
            feed.push(&tasks.map(|at| WorkerTask::new(0, at)).collect::<Vec<WorkerTask>>())?;
            if number % 3 == 0 {
                answers.extend(feed.answers());
            }
        }
        let (outcome, rest) = feed.finish()?;
        answers.extend(rest);
        answers.sort_unstable();
        assert!(answers.into_iter().eq((0..count).map(echoed)), "{policy:?}");
        assert_eq!((outcome.ran, s.download(&sum)?[0]), (count, count * (count - 1) / 2));
    }
    // The workers of a dropped feed end, so later work of the stream can run.
    let mut sum = s.alloc_zeroed::<u64>(1)?;
    let mut feed = s.feed_workers(&ECHO, &RunOptions::default(), (&mut sum,))?;
    feed.push(&[WorkerTask::new(0, 1)])?;
    drop(feed);
    s.synchronize()
}
