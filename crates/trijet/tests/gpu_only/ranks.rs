//! Processes with one GPU each, which communicate by NCCL. One of them is killed, stopped, late, or
//! makes other calls. Each other process ends with an error that names it. On a host with one GPU,
//! two processes use that GPU, and their data pass through host memory.

use crate::{alone, collectives};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::ops::Range;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trijet::comm::Communicator;
use trijet::kernels::Sum;
use trijet::ranks::Ranks;
use trijet::testing::Prng;
use trijet::training::GradientBuckets;
use trijet::{Device, ErrorKind, Result, Select};

/// If this variable is set, a process of this program is a rank. The value has the rank, the number
/// of ranks, the address, the timeout in seconds, and the job.
const RANK: &str = "TRIJET_TEST_RANK";

fn gpus() -> usize {
    Device::cuda_devices().expect("a driver").len()
}

fn address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

/// Opens the communicator of a rank. It uses NCCL if there is a GPU for each rank.
fn communicator(ranks: Ranks) -> Result<(Device, Communicator)> {
    let (rank, count, gpus) = (ranks.rank(), ranks.count(), gpus());
    let device = Device::open(Select::Cuda(u32::try_from(rank % gpus).expect("few")))?;
    let ranks = Arc::new(ranks);
    let communicator = match count <= gpus {
        true => Communicator::builder().rank(&device, &ranks).nccl().open()?,
        false => Communicator::builder().rank(&device, &ranks).open()?,
    };
    Ok((device, communicator))
}

/// Runs as a rank, in a process that a test below starts.
#[test]
fn a_process_that_is_a_rank_with_a_gpu() {
    let Ok(text) = std::env::var(RANK) else { return };
    let parts: Vec<&str> = text.split(' ').collect();
    let [rank, count, address, seconds, what] = parts[..] else { panic!("{text}") };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let timeout = Duration::from_secs(number(seconds) as u64);
    let ranks = Ranks::join(number(rank), number(count), address, timeout).expect("they join");
    let outcome = match what {
        "steps" => steps(ranks),
        "sizes" => sizes(ranks),
        "stuck" => stuck(ranks),
        "collectives" => all_collectives(ranks),
        "gradients" if ranks.count() <= gpus() => gradients(ranks),
        "gradients" => Ok(()),
        _ => panic!("{what}"),
    };
    match outcome {
        Ok(()) => println!("done"),
        Err(error) => println!("{:?}: {error}", error.kind()),
    }
}

/// The job computes sums of several lengths, and compares each sum.
fn steps(ranks: Ranks) -> Result<()> {
    println!("joined");
    let (rank, count) = (ranks.rank(), ranks.count());
    let (device, communicator) = communicator(ranks)?;
    let stream = device.stream()?;
    for step in 0_u32.. {
        println!("step {step}");
        let len = [1000, 1 << 20, 8 << 20][step as usize % 3];
        let own = step + u32::try_from(rank).expect("few");
        let mut data = stream.alloc::<u32>(len)?;
        stream.fill(&mut data, own)?;
        for _ in 0..3 {
            communicator.all_reduce(&mut [data.view_mut()], Sum)?;
        }
        let found = stream.download(&data)?;
        let count = u32::try_from(count).expect("few");
        let sum = (0..count).map(|rank| step + rank).fold(0, u32::wrapping_add) * count * count;
        // A result that misses the part of a lost rank must not be returned.
        assert!(found.iter().all(|one| *one == sum), "step {step} has a wrong sum");
    }
    Ok(())
}

/// The job passes another length on rank 1 than on the other ranks.
fn sizes(ranks: Ranks) -> Result<()> {
    let len = if ranks.rank() == 1 { 2000 } else { 1000 };
    let (device, communicator) = communicator(ranks)?;
    let stream = device.stream()?;
    let mut data = stream.alloc::<u32>(len)?;
    loop {
        communicator.all_reduce(&mut [data.view_mut()], Sum)?;
        stream.synchronize()?;
        stream.download(&data)?;
    }
}

/// The job calls the sum on rank 1, but the device of rank 1 never reaches it.
fn stuck(ranks: Ranks) -> Result<()> {
    let rank = ranks.rank();
    let (device, communicator) = communicator(ranks)?;
    let stream = device.stream()?;
    let mut data = stream.upload(&[1_u32; 1000])?;
    // The first sum connects the devices.
    communicator.all_reduce(&mut [data.view_mut()], Sum)?;
    stream.download(&data)?;
    let go_on = device.signal();
    if rank == 1 {
        let go_on = go_on.clone();
        stream.host_fn(move || go_on.wait())?;
        stream.fill_bytes(&mut data, 2)?;
    }
    let outcome = communicator.all_reduce(&mut [data.view_mut()], Sum);
    if rank == 1 {
        while communicator.failure().is_none() {
            std::thread::yield_now();
        }
        go_on.set();
    }
    outcome?;
    stream.download(&data).map(drop)
}

fn all_collectives(ranks: Ranks) -> Result<()> {
    let (device, communicator) = communicator(ranks)?;
    let devices = [device];
    for (seed, len) in (0..).zip([1, 1000, 1 << 18, 300_001]) {
        collectives::all::<u32>(&communicator, &devices, len, seed)?;
    }
    let parts =
        communicator.split(&[u32::try_from(communicator.ranks().start % 2).expect("few")])?;
    collectives::all::<u32>(&parts[0], &devices, 5000, 4)?;
    let whole = communicator.split(&[7])?.remove(0);
    collectives::all::<u32>(&whole, &devices, 5000, 5)?;
    collectives::all::<u32>(&communicator, &devices, 5000, 6)?;
    communicator.close()
}

/// The job makes steps of a training. The gradients become ready in a different order on each rank.
fn gradients(ranks: Ranks) -> Result<()> {
    const LENS: [usize; 4] = [100_000, 37, 1 << 20, 1];
    let (rank, count) = (ranks.rank(), ranks.count());
    let number = |value: usize| u32::try_from(value).expect("few");
    let device = Device::open(Select::Cuda(number(rank % gpus())))?;
    let stream = device.stream()?;
    let mut order = [2, 0, 3, 1];
    order.rotate_left(rank);
    let mut gradients = GradientBuckets::<u32, _>::of_rank(&device, &Arc::new(ranks), &LENS, Sum)?;
    for step in 0..30 {
        gradients.begin()?;
        for layer in order {
            let value = number((rank + 1) * (layer + 1) + step);
            stream.fill(&mut gradients.gradient_mut(0, layer), value)?;
            gradients.ready(layer)?;
        }
        gradients.finish()?;
        for layer in order {
            let sum = (0..count).map(|rank| number((rank + 1) * (layer + 1) + step)).sum::<u32>();
            let found = stream.download(&gradients.gradient(0, layer))?;
            assert!(found.iter().all(|one| *one == sum), "layer {layer}, step {step}");
        }
    }
    assert_eq!(gradients.order(), [2, 0, 3, 1]);
    Ok(())
}

struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        drop((self.child.kill(), self.child.wait()));
    }
}

impl Process {
    /// Starts the ranks: one for each GPU, and at least two.
    fn all(seconds: u64, what: &str) -> Vec<Self> {
        let (address, count) = (address(), gpus().max(2));
        let start = |rank| {
            let name = "gpu_only::ranks::a_process_that_is_a_rank_with_a_gpu";
            let mut child = Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", name, "--nocapture"])
                .env(RANK, format!("{rank} {count} {address} {seconds} {what}"))
                .stdout(Stdio::piped())
                .spawn()
                .expect("a process");
            let output = BufReader::new(child.stdout.take().expect("it is piped"));
            Self { child, output }
        };
        (0..count).map(start).collect()
    }

    /// Reads the rest of the output of the process, to its end.
    fn rest(&mut self) -> String {
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("it prints text");
        let status = self.child.wait().expect("it has ended");
        assert!(status.success(), "{status}: {text}");
        text
    }

    fn read_until(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let read = self.output.read_line(&mut line).expect("it prints text");
            assert_ne!(read, 0, "the process ended before `{text}`");
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status().expect("`kill` runs");
        assert!(status.success());
    }
}

/// Reads the output of each rank to its end.
fn outputs(all: Vec<Process>) -> Vec<String> {
    let readers: Vec<_> =
        all.into_iter().map(|mut one| std::thread::spawn(move || one.rest())).collect();
    readers.into_iter().map(|reader| reader.join().expect("no panic")).collect()
}

#[test]
fn every_collective_gives_each_process_what_it_must_have() {
    let _alone = alone();
    for text in outputs(Process::all(60, "collectives")) {
        assert!(text.contains("\ndone\n"), "{text}");
    }
}

#[test]
fn gradients_of_processes_are_summed_in_the_order_of_rank_0() {
    let _alone = alone();
    for text in outputs(Process::all(60, "gradients")) {
        assert!(text.contains("\ndone\n"), "{text}");
    }
}

/// Stops a rank at a random moment. Returns the time until the other ranks have ended.
fn stop(seed: u64, signal: &str, seconds: u64) -> Duration {
    let mut all = Process::all(seconds, "steps");
    let mut draw = Prng::new(seed);
    let victim = usize::try_from(draw.below(all.len() as u64)).expect("few");
    let count = all.len();
    let mut stopped = all.remove(victim);
    let readers: Vec<_> =
        all.into_iter().map(|mut one| std::thread::spawn(move || one.rest())).collect();
    // The moment is while the communicator is made, or during one of the steps.
    match draw.below(4) {
        0 => stopped.read_until("joined"),
        _ => stopped.read_until(&format!("step {}\n", draw.below(60))),
    }
    let moment = Instant::now() + Duration::from_micros(draw.below(20_000));
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
    stopped.signal(signal);
    let begun = Instant::now();
    for reader in readers {
        let text = reader.join().expect("no panic");
        let told =
            text.contains("PeerLost: ") && text.contains(&format!("rank {victim} of {count}"));
        assert!(told, "victim {victim}, seed {seed}: {text}");
        assert!(!text.contains("wrong sum"), "{text}");
    }
    begun.elapsed()
}

/// Stops a rank at the moment of each seed. The seeds run at the same time. Returns the longest
/// time that [`stop`] returned.
fn stop_each(seeds: Range<u64>, signal: &'static str, seconds: u64) -> Duration {
    let one = |seed| std::thread::spawn(move || stop(seed, signal, seconds));
    let threads: Vec<_> = seeds.map(one).collect();
    threads.into_iter().map(|one| one.join().expect("a rank is named")).max().unwrap_or_default()
}

/// Tries some random moments, eight at a time. `TRIJET_KILLS` sets their number.
#[test]
fn a_killed_rank_ends_the_others_at_any_moment() {
    const TIMEOUT: u64 = 60;
    let _alone = alone();
    let kills = std::env::var("TRIJET_KILLS").map_or(24, |most| most.parse().expect("a number"));
    let mut longest = Duration::ZERO;
    for first in (0..kills).step_by(8) {
        let seeds = first..kills.min(first + 8);
        longest = longest.max(stop_each(seeds, "-KILL", TIMEOUT));
    }
    println!("the others ended {longest:?} after the kill at most");
    assert!(longest < Duration::from_secs(TIMEOUT));
}

#[test]
fn a_frozen_rank_ends_the_others_after_the_timeout() {
    let _alone = alone();
    stop_each(0..3, "-STOP", 5);
}

#[test]
fn ranks_that_disagree_end_with_both_opinions() {
    let _alone = alone();
    for text in outputs(Process::all(60, "sizes")) {
        let (right, wrong) =
            ("of 1000 elements of u32 by Sum on rank", "of 2000 elements of u32 by Sum on rank 1");
        assert!(
            text.contains("PeerLost") && text.contains(right) && text.contains(wrong),
            "{text}"
        );
    }
}

#[test]
fn a_device_that_does_not_come_to_a_collective_is_named() {
    let _alone = alone();
    if gpus() < 2 {
        // If the data pass through host memory, the rank itself waits for its device.
        return;
    }
    for text in outputs(Process::all(3, "stuck")) {
        assert!(text.contains("PeerLost") && text.contains("the device of rank 1 of"), "{text}");
    }
}

/// An error about a missing library is reported on all ranks.
#[test]
fn a_host_device_among_gpus_is_an_error_on_all_ranks() {
    let _alone = alone();
    let address = address();
    let run = |rank: usize| -> Result<()> {
        let ranks = Arc::new(Ranks::join(rank, 2, &address, Duration::from_secs(60))?);
        let device = Device::open(if rank == 0 { Select::Cuda(0) } else { Select::Host(0) })?;
        Communicator::builder().rank(&device, &ranks).nccl().open().map(drop)
    };
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|rank| scope.spawn(move || run(rank)));
        let [gpu, host] = threads.map(|one| one.join().expect("no panic").expect_err("no NCCL"));
        assert_eq!((gpu.kind(), host.kind()), (ErrorKind::Unsupported, ErrorKind::NoTwin));
        assert!(gpu.to_string().contains("rank 1: "), "{gpu}");
    });
}
