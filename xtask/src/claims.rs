//! `claims`: jobs that eight processes share by `trijet map --claim`.
//!
//! One process is three times slower, one is killed at a random moment, and one is cut off for two
//! to three leases and comes back. The processes begin at once and have no coordinator. The output
//! must equal that of one process byte for byte. Its time is compared with the ideal time: the time in
//! which the processes read all rows if each reads whenever it lives and is not cut off, and
//! nothing else takes time.
//!
//! The time of a job is the time of its reads, which the library `failing-files` delays, so that
//! eight processes run on a few processors as on eight machines. In a folder, a process is cut off
//! by SIGSTOP.
//!
//! `claims nfs FOLDER [RUNS [LANES [ROWS [READS]]]]` runs the same over NFS, with READS seconds of reads in all: the
//! kernel exports a folder, and each process has a network namespace with its own client and its own mount. A process is cut off by taking its link
//! down. This needs root, a kernel with both sides of NFS, and the two programs, which it does not
//! build. `claims/machine.sh` does it in user mode Linux.
#![forbid(unsafe_code)]

use crate::tools::{Result, root, target};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use trijet::testing::Prng;

const PROCESSES: usize = 8;
const LEASE: Duration = Duration::from_secs(1);
const ROW_BYTES: usize = 4096;

/// The size of a job.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// The rows of the input, each a range of its own.
    rows: usize,
    /// The milliseconds of a read, and of a read of the slow process.
    read_ms: [u64; 2],
}

impl Size {
    /// A job with reads of `seconds` in all.
    fn of(rows: usize, seconds: usize) -> Self {
        let read_ms = (seconds as u64 * 1000 / rows.max(1) as u64).max(1);
        Self { rows, read_ms: [read_ms, 3 * read_ms] }
    }
}

/// The number of rows of a job, unless another one is given.
const ROWS: usize = 1000;
/// The seconds that all reads of a job take, unless another number is given.
const READS: usize = 100;

/// The place where a process runs.
#[derive(Debug, Clone)]
struct Machine {
    /// The words before a command that runs on the machine.
    before: Vec<String>,
    folder: PathBuf,
    /// The link that cuts the machine off. `None` if the process is stopped instead.
    link: Option<String>,
}

/// The result of one run.
#[derive(Debug, Clone, Copy)]
struct Measured {
    seconds: f64,
    ideal: f64,
    /// Whether the process that was cut off has ended with an error. A client of NFS may return
    /// one to it.
    has_refused: bool,
}

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let number = |at: usize, default: usize| match arguments.get(at) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| format!("claims: {text} is not a number")),
    };
    if let ["nfs", folder, ..] = arguments {
        let size = Size::of(number(4, ROWS)?, number(5, READS)?);
        return over_nfs(Path::new(folder), size, number(2, 20)?, number(3, 2)?);
    }
    let (runs, lanes) = (number(0, 20)?, number(1, 2)?);
    let build = ["build", "--release", "-p", "trijet-cli", "-p", "failing-files"];
    if !Command::new("cargo").args(build).current_dir(root()).status()?.success() {
        return Err("claims: the command could not be built".into());
    }
    let place = target().join("claims");
    drop(fs::remove_dir_all(&place));
    let folder = place.join("folder");
    fs::create_dir_all(&folder)?;
    let size = Size::of(ROWS, READS);
    fs::write(folder.join("in.raw"), data(size.rows))?;
    let machine = Machine { before: Vec::new(), folder: folder.clone(), link: None };
    let all = vec![vec![machine; PROCESSES]; lanes];
    judge("folder, SIGSTOP", size, &folder, &all, runs)
}

/// The bytes of the input.
fn data(rows: usize) -> Vec<u8> {
    (0..rows * ROW_BYTES).map(|n| u8::try_from(n * 7 % 251 / 2).unwrap_or(0)).collect()
}

/// Runs the jobs, prints their times, and fails if an output is wrong.
fn judge(what: &str, size: Size, folder: &Path, lanes: &[Vec<Machine>], runs: usize) -> Result<()> {
    let right: Vec<u8> = data(size.rows).iter().map(|byte| byte * 2).collect();
    let numbers: Arc<Mutex<Vec<u64>>> = Arc::new(Mutex::new((0..runs as u64).rev().collect()));
    let (found, results) = channel();
    for machines in lanes {
        let (machines, numbers, found) = (machines.clone(), Arc::clone(&numbers), found.clone());
        let (right, folder) = (right.clone(), folder.to_owned());
        thread::spawn(move || {
            loop {
                let next = numbers.lock().expect("no thread panics").pop();
                let Some(seed) = next else { return };
                let ran = one_run(size, &machines, &folder, &right, seed);
                if found.send(ran.map_err(|error| format!("seed {seed}: {error}"))).is_err() {
                    return;
                }
            }
        });
    }
    drop(found);
    let (mut ratios, mut refused) = (Vec::new(), 0);
    for ran in results {
        let Measured { seconds, ideal, has_refused } = ran?;
        println!(
            "equal after {seconds:.1} s, ideal {ideal:.1} s, cut off with an error: {has_refused}"
        );
        refused += usize::from(has_refused);
        ratios.push(seconds / ideal);
    }
    ratios.sort_by(f64::total_cmp);
    let at = |percent: usize| ratios[(ratios.len() - 1) * percent / 100];
    println!(
        "{what}: {} runs, every output equal, {refused} processes ended with an error after they were cut off; time / ideal time: median {:.3}, 95 % {:.3}, most {:.3}; above 1.1: {}",
        ratios.len(),
        at(50),
        at(95),
        at(100),
        ratios.iter().filter(|ratio| **ratio > 1.1).count()
    );
    Ok(())
}

/// The command of a process.
fn command(machine: &Machine, out: &str, rows: usize, read_ms: u64) -> Result<Command> {
    let built = target().join("release");
    let shape = format!("{rows}x{ROW_BYTES}");
    let mut words = machine.before.clone();
    let preload = format!("LD_PRELOAD={}", built.join("libfailing_files.so").display());
    let input = machine.folder.join("in.raw");
    words.extend(["env".to_owned(), preload]);
    words.push(format!("FAILING_FILES_ROOT={}", input.display()));
    words.extend(["FAILING_FILES_LOG=/dev/null".to_owned()]);
    words.push(format!("FAILING_FILES_DELAY={read_ms}"));
    words.push(built.join("trijet").display().to_string());
    words.extend(["map", "--claim", "--op", "affine:2", "--device", "host"].map(str::to_owned));
    words.extend(["--report", "none", "--dtype", "u8", "--chunk", "4KiB"].map(str::to_owned));
    words.extend(["--shape", &shape, "--lease", &LEASE.as_secs().to_string()].map(str::to_owned));
    words.push(input.display().to_string());
    words.extend(["-o".to_owned(), machine.folder.join(out).display().to_string()]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(command)
}

/// The faults of the processes of a run, and their times.
#[derive(Debug, Clone, Copy)]
struct Events {
    killed_at: f64,
    cut_at: f64,
    back_at: f64,
}

/// The time in which the processes would do the job without any loss.
fn ideal(rates: [f64; 2], events: Events) -> f64 {
    let Events { killed_at, cut_at, back_at } = events;
    let done = |time: f64| {
        let cut = (time - cut_at).clamp(0.0, back_at - cut_at);
        let whole = (PROCESSES - 3) as f64 * time;
        rates[0] * (whole + time.min(killed_at) + time - cut) + rates[1] * time
    };
    let (mut low, mut high) = (0.0, 1.0 / rates[1]);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if done(middle) < 1.0 { low = middle } else { high = middle }
    }
    high
}

/// Runs eight processes. The process 0 is slow, 1 is killed, and 2 is cut off.
fn one_run(
    size: Size,
    machines: &[Machine],
    folder: &Path,
    right: &[u8],
    seed: u64,
) -> std::result::Result<Measured, String> {
    // The part of the job that a process does in a second if it does nothing but read.
    let rates = size.read_ms.map(|time| 1000.0 / time as f64 / size.rows as f64);
    let mut draw = Prng::new(seed);
    let unit = |draw: &mut Prng| draw.below(1 << 20) as f64 / f64::from(1 << 20);
    let about = 1.0 / (7.0 * rates[0]);
    let cut_at = unit(&mut draw) * about * 0.8;
    let lease = LEASE.as_secs_f64();
    let back_at = cut_at + lease * (2.0 + unit(&mut draw));
    let mut events = Events { killed_at: unit(&mut draw) * about, cut_at, back_at };
    let out = format!("out-{seed}.raw");
    let begin = Instant::now();
    let mut children = Vec::new();
    for (index, machine) in machines.iter().enumerate() {
        let read_ms = size.read_ms[usize::from(index == 0)];
        let command = command(machine, &out, size.rows, read_ms);
        let child = command.and_then(|mut command| Ok(command.spawn()?));
        children.push(child.map_err(|error| error.to_string())?);
    }
    let mut timer = Timer::new(begin);
    let mut steps = [(events.killed_at, 0), (events.cut_at, 1), (events.back_at, 2)];
    steps.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (at, step) in steps {
        timer.wait(at);
        let now = begin.elapsed().as_secs_f64();
        match step {
            0 => {
                events.killed_at = now;
                signal(&children[1], "KILL")?;
            }
            1 => {
                events.cut_at = now;
                cut(&machines[2], &children[2], true)?;
            }
            _ => {
                events.back_at = now;
                cut(&machines[2], &children[2], false)?;
            }
        }
    }
    let (mut seconds, mut has_refused): (f64, bool) = (0.0, false);
    // The process that was cut off comes last: its client may wait long after the job is complete.
    let mut children: Vec<_> = children.into_iter().enumerate().collect();
    children.sort_by_key(|(index, _)| *index == 2);
    for (index, child) in children {
        let ended = child.wait_with_output().map_err(|error| error.to_string())?;
        let words = String::from_utf8_lossy(&ended.stderr);
        let is_refused = index == 2 && machines[index].link.is_some();
        has_refused |= is_refused && !ended.status.success();
        if index != 1 && !is_refused && !ended.status.success() {
            return Err(format!("process {index} has failed: {words}"));
        }
        if index != 2 {
            seconds = seconds.max(begin.elapsed().as_secs_f64());
        }
    }
    let path = folder.join(&out);
    let found = fs::read(&path).map_err(|error| format!("{out}: {error}"))?;
    if found != right {
        return Err(format!("{out} has wrong bytes"));
    }
    fs::remove_file(&path).map_err(|error| format!("{out}: {error}"))?;
    Ok(Measured { seconds, ideal: ideal(rates, events), has_refused })
}

/// Waits for points in time.
struct Timer {
    begin: Instant,
    _never: Sender<()>,
    nothing: Receiver<()>,
}

impl Timer {
    fn new(begin: Instant) -> Self {
        let (_never, nothing) = channel();
        Self { begin, _never, nothing }
    }

    /// Waits until this number of seconds has passed since the start.
    fn wait(&mut self, seconds: f64) {
        let left = Duration::from_secs_f64(seconds).saturating_sub(self.begin.elapsed());
        // The sender is kept and sends nothing, so this is always the end of the time.
        let ended = self.nothing.recv_timeout(left);
        debug_assert!(ended.is_err());
    }
}

fn signal(child: &Child, name: &str) -> std::result::Result<(), String> {
    demand(&format!("kill -{name} {}", child.id()))
}

/// Cuts a machine off, or ends that.
fn cut(machine: &Machine, child: &Child, is_cut: bool) -> std::result::Result<(), String> {
    match &machine.link {
        Some(link) => demand(&format!("ip link set {link} {}", if is_cut { "down" } else { "up" })),
        None => signal(child, if is_cut { "STOP" } else { "CONT" }),
    }
}

/// Runs a command of the shell. Its failure is an error.
fn demand(command: &str) -> std::result::Result<(), String> {
    let ended = Command::new("sh").args(["-e", "-c", command]).output();
    let ended = ended.map_err(|error| format!("{command}: {error}"))?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("{command}: {}", String::from_utf8_lossy(&ended.stderr))),
    }
}

/// The network of the machines, and a process on each that holds its mount. They end when this value
/// is dropped.
struct Network {
    holders: Vec<Child>,
}

impl Drop for Network {
    fn drop(&mut self) {
        for (number, holder) in self.holders.iter_mut().enumerate() {
            drop(holder.kill());
            drop(holder.wait());
            drop(demand(&format!("ip netns del trijet-{number}")));
        }
        drop(demand("rpc.nfsd 0; exportfs -ua; pkill rpc.mountd"));
    }
}

/// The folder of the mount, which is the same on all machines.
const MOUNTED: &str = "/run/trijet-claims";

/// Exports a folder: version 4 of NFS, and a short time after the start in which clients of an
/// earlier start may come back.
const SERVE: &str = "mkdir -p /var/lib/nfs/v4recovery /run/rpcbind; touch /var/lib/nfs/etab /var/lib/nfs/rmtab; \
     mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd; \
     echo 10 >/proc/fs/nfsd/nfsv4gracetime; \
     exportfs -i -o rw,sync,no_root_squash,no_subtree_check,fsid=0 10.99.0.0/16:EXPORTED; \
     rpc.mountd -N 2 -N 3; rpc.nfsd -N 3 -V 4.2 64";

/// The jobs over NFS, with a network namespace and a mount for each process.
fn over_nfs(exported: &Path, size: Size, runs: usize, lanes: usize) -> Result<()> {
    fs::write(exported.join("in.raw"), data(size.rows))?;
    fs::create_dir_all(MOUNTED)?;
    let mut network = Network { holders: Vec::new() };
    demand(&SERVE.replace("EXPORTED", &exported.display().to_string()))?;
    let mut all = Vec::new();
    for lane in 0..lanes {
        let numbers = lane * PROCESSES..(lane + 1) * PROCESSES;
        let machines = numbers.map(|number| machine(&mut network, number));
        all.push(machines.collect::<Result<Vec<_>>>()?);
    }
    judge("NFS, link down", size, exported, &all, runs)
}

/// A network namespace with a link to the server, and a mount of its folder. The server tells clients
/// apart by their names, which is the name of the host unless another one is set.
fn machine(network: &mut Network, number: usize) -> Result<Machine> {
    let (name, link) = (format!("trijet-{number}"), format!("tj{number}"));
    demand(&format!(
        "ip netns add {name}; ip link add {link} type veth peer name e0 netns {name}; \
         ip addr add 10.99.{number}.1/24 dev {link}; ip link set {link} up; \
         ip -n {name} addr add 10.99.{number}.2/24 dev e0; ip -n {name} link set e0 up; \
         ip -n {name} link set lo up; \
         ip netns exec {name} sh -c 'echo {name} >/sys/fs/nfs/net/nfs_client/identifier'"
    ))?;
    let mount = format!(
        "mount -t nfs4 -o vers=4.2 10.99.{number}.1:/ {MOUNTED}; echo mounted; exec cat >/dev/null"
    );
    let mut holder = Command::new("nsenter");
    holder.arg(format!("--net=/run/netns/{name}"));
    holder.args(["unshare", "--mount", "sh", "-e", "-c", &mount]);
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut word = String::new();
    let said = holder.stdout.take().map(|out| BufReader::new(out).read_line(&mut word));
    let process = holder.id().to_string();
    network.holders.push(holder);
    said.transpose()?;
    if word != "mounted\n" {
        return Err(format!("claims: {name} has not mounted the folder").into());
    }
    let before = ["nsenter", "-t", &process, "-n", "-m"].map(str::to_owned).to_vec();
    Ok(Machine { before, folder: PathBuf::from(MOUNTED), link: Some(link) })
}
