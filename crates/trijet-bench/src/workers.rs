//! Persistent workers under every policy: the time on the device for independent tasks, for a
//! graph, and for tasks that make other tasks.
#![forbid(unsafe_code)]

use crate::beside::{self, Load};
use crate::peer::{self, Peer};
use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::Setting;
use crate::turns::record;
use serde::Deserialize;
use std::time::Instant;
use trijet::kernels::ArgsFor;
use trijet::testing::WORK;
use trijet::workers::queens::{self, QUEENS};
use trijet::workers::{Chooser, Kinds, Policy, Program, RunOptions, Work, WorkerTask};
use trijet::{Buffer, Clock, Device, Error, ErrorKind, Result, Stream, TimedEvent};
use trijet_programs::echo::ECHO;
use trijet_programs::layered::{LAYERED, Layered};
use trijet_programs::lengths::{self, LENGTHS};
use trijet_programs::mandelbrot::{self, MANDELBROT};
use trijet_programs::tree::{self, TREE};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    samples: usize,
    /// The width and the height of the image, in pixels.
    width: u32,
    /// Maximum number of iterations of a pixel. Each number is a separate image.
    limits: Vec<u32>,
    /// The number of tasks of different lengths.
    tasks: u32,
    bases: Vec<u32>,
    skews: Vec<u32>,
    /// Graphs, each given by the number of its levels and the number of nodes per level.
    graphs: Vec<[u32; 2]>,
    queens: Vec<u8>,
    /// Trees, each given by its seed and its depth.
    trees: Vec<[u32; 2]>,
    /// The number of tasks that the host feeds, and the sizes of the batches in which it feeds
    /// them.
    fed: usize,
    batches: Vec<usize>,
    /// The work of the workers, and the work of the kernels that run at the same time.
    beside: Load,
    /// The numbers of multiprocessors that the workers leave to these kernels.
    reserved: Vec<u32>,
    #[serde(default)]
    peers: Vec<Peer>,
}

/// Maximum number of children of a node of a tree.
const CHILDREN: u32 = 4;
/// In the queens problem, every placement of queens in this many rows of the board becomes a task.
const CUT: u32 = 5;
/// The policies for tasks that make other tasks.
const SPAWNING: [Policy; 3] = [Policy::Sharing, Policy::Stealing, Policy::Hybrid];
/// The policies for a range of tasks.
const RANGE: [Policy; 4] = [Policy::Static, Policy::Sharing, Policy::Stealing, Policy::Hybrid];
/// The policies for a graph.
const GRAPH: [Policy; 4] = [Policy::Levels, Policy::Sharing, Policy::Stealing, Policy::Hybrid];

/// A policy, or the choice of a policy by measurement.
#[derive(Debug, Clone, Copy)]
enum Way {
    Fixed(Policy),
    Auto,
}

impl Way {
    fn all(policies: &[Policy]) -> Vec<Self> {
        policies.iter().copied().map(Self::Fixed).chain([Self::Auto]).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Fixed(policy) => policy.name(),
            Self::Auto => "auto",
        }
    }
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench workers", format!("{what} is wrong"))
}

/// Runs a program in one way. The host enqueues each run before the device starts it, so the
/// measured time is only the time on the device.
struct Runner {
    way: Way,
    chooser: Chooser,
    stream: Stream,
    delay: (Buffer<u32>, Buffer<u32>),
    rounds: u32,
    between: [TimedEvent; 2],
}

/// The number of runs in which a chooser measures policies.
const TRIALS: usize = 16;

impl Runner {
    fn new(device: &Device, way: Way) -> Result<Self> {
        let stream = device.stream()?;
        let delay = (stream.alloc_zeroed(1)?, stream.alloc_zeroed(1)?);
        let between = [device.timed_event()?, device.timed_event()?];
        // The number of rounds of a kernel that delays the run. It takes about 300 us on a GPU, so
        // that the host has enqueued the run before the run starts.
        let rounds = if device.info().clock == Clock::Device { 20_000 } else { 0 };
        Ok(Self { way, chooser: Chooser::new(), stream, delay, rounds, between })
    }

    /// The figures of a run: its time, the time per task, and the number of tasks that were stolen.
    fn figures<'a, K: Kinds, P>(
        &mut self,
        program: &Program<K, P>,
        work: Work<'_>,
        options: RunOptions,
        args: impl ArgsFor<'a, P>,
    ) -> Result<Vec<Value>> {
        let Self { way, chooser, stream, delay, rounds, between } = self;
        stream.synchronize()?;
        stream.launch(&WORK, (*rounds, &delay.0, &mut delay.1))?;
        between[0].record(stream)?;
        let outcome = match way {
            Way::Fixed(policy) => {
                let options = options.policy(*policy);
                let run = stream.run_workers(program, work, &options, args)?;
                between[1].record(stream)?;
                run.wait()?
            }
            Way::Auto => {
                let run = chooser.run(stream, program, work, &options, args)?;
                between[1].record(stream)?;
                run.wait()?
            }
        };
        between[1].synchronize()?;
        let time = between[1].elapsed_since(&between[0])?.seconds() * 1e6;
        Ok(vec![
            Value::new("time", "us", time),
            Value::new("each", "ns", time * 1e3 / outcome.ran.max(1) as f64),
            Value::new("stolen", "tasks", outcome.stolen as f64),
        ])
    }

    /// Makes a side that runs a program with a known answer. If the library chooses the policy,
    /// this function first makes the runs in which the library measures the policies.
    fn side<'a>(
        mut self,
        name: &str,
        mut once: impl FnMut(&mut Self) -> Result<Vec<Value>> + 'a,
    ) -> Result<Side<'a>> {
        let name = format!("{name}: {}", self.way.name());
        if matches!(self.way, Way::Auto) {
            (0..TRIALS).try_for_each(|_| once(&mut self).map(drop))?;
        }
        Ok(Side::new(name, move || once(&mut self)))
    }
}

const OPTIONS: fn() -> RunOptions = || RunOptions::new().queue(1 << 10);

/// The number of iterations of each pixel of an image, at most `limit`.
fn iterations(width: u32, limit: u32) -> Vec<u32> {
    let pixels = (0..width).flat_map(|y| (0..width).map(move |x| (x, y)));
    pixels.map(|(x, y)| mandelbrot::iterations(x, y, width, limit)).collect()
}

fn image<'a>(
    device: &Device,
    way: Way,
    (width, limit): (u32, u32),
    expected: &'a [u32],
) -> Result<Side<'a>> {
    let runner = Runner::new(device, way)?;
    let mut counts = runner.stream.alloc::<u32>(expected.len())?;
    let work = Work::Range { kind: 0, count: mandelbrot::tiles(width) };
    runner.side(&format!("mandelbrot {limit}"), move |runner| {
        runner.stream.fill_bytes(&mut counts, 0xff)?;
        let options = OPTIONS().chunk(1);
        let figures = runner.figures(&MANDELBROT, work, options, (&mut counts, width, limit))?;
        let is_right = runner.stream.download(&counts)? == expected;
        is_right.then_some(figures).ok_or_else(|| wrong("the image"))
    })
}

fn skewed<'a>(device: &Device, way: Way, tasks: u32, (base, skew): (u32, u32)) -> Result<Side<'a>> {
    let runner = Runner::new(device, way)?;
    let mut out = runner.stream.alloc::<u32>(tasks as usize * 32)?;
    let lanes = (0..tasks).flat_map(|task| (0..32).map(move |lane| (task, lane)));
    let expected: Vec<u32> =
        lanes.map(|(task, lane)| lengths::value(task, lane, base, skew)).collect();
    let work = Work::Range { kind: 0, count: tasks };
    runner.side(&format!("skew base {base} cap {skew}"), move |runner| {
        runner.stream.fill_bytes(&mut out, 0xff)?;
        let figures = runner.figures(&LENGTHS, work, OPTIONS(), (&mut out, base, skew))?;
        let is_right = runner.stream.download(&out)? == expected;
        is_right.then_some(figures).ok_or_else(|| wrong("a task"))
    })
}

fn layered<'a>(device: &Device, way: Way, [levels, nodes]: [u32; 2]) -> Result<Side<'a>> {
    let runner = Runner::new(device, way)?;
    let graph = Layered::new(levels, nodes);
    let loaded = runner.stream.load_graph(&graph.tasks()?)?;
    let (ends, before) = (runner.stream.upload(&graph.ends)?, runner.stream.upload(&graph.before)?);
    let mut found = runner.stream.alloc::<u32>(graph.len())?;
    let expected = graph.values();
    runner.side(&format!("dag {levels} x {nodes}"), move |runner| {
        runner.stream.fill_bytes(&mut found, 0xff)?;
        let args = (&ends, &before, &mut found);
        let figures = runner.figures(&LAYERED, Work::Graph(&loaded), OPTIONS(), args)?;
        let is_right = runner.stream.download(&found)? == expected;
        is_right.then_some(figures).ok_or_else(|| wrong("the value of a node"))
    })
}

fn boards<'a>(device: &Device, way: Way, n: u8) -> Result<Side<'a>> {
    let runner = Runner::new(device, way)?;
    let mut total = runner.stream.alloc::<u64>(1)?;
    let (expected, root) = (queens::solutions(n), [queens::root(n)]);
    runner.side(&format!("{n} queens"), move |runner| {
        runner.stream.fill_bytes(&mut total, 0)?;
        let figures = runner.figures(&QUEENS, Work::Tasks(&root), OPTIONS(), (&mut total, CUT))?;
        let is_right = runner.stream.download(&total)? == [expected];
        is_right.then_some(figures).ok_or_else(|| wrong("the number of solutions"))
    })
}

fn visited<'a>(device: &Device, way: Way, [seed, depth]: [u32; 2]) -> Result<Side<'a>> {
    let runner = Runner::new(device, way)?;
    let mut sums = runner.stream.alloc::<u64>(2)?;
    let (expected, root) = (tree::sums(seed, depth, CHILDREN), [tree::root(seed)]);
    runner.side(&format!("tree of {} nodes", expected[0]), move |runner| {
        runner.stream.fill_bytes(&mut sums, 0)?;
        let args = (&mut sums, depth, CHILDREN);
        let figures = runner.figures(&TREE, Work::Tasks(&root), OPTIONS(), args)?;
        let is_right = runner.stream.download(&sums)? == expected;
        is_right.then_some(figures).ok_or_else(|| wrong("the tree"))
    })
}

/// Tasks that the host feeds in batches. The figure is the time of the host per task, from the
/// first batch to the last answer. One task is fed and answered before this time starts.
fn fed<'a>(device: &Device, count: usize, batch: usize) -> Result<Side<'a>> {
    let stream = device.stream()?;
    let mut sum = stream.alloc::<u64>(1)?;
    let tasks: Vec<WorkerTask> = (0..count as u64).map(|at| WorkerTask::new(0, at)).collect();
    let name = format!("fed in batches of {batch}");
    Ok(Side::new(name, move || {
        stream.fill_bytes(&mut sum, 0)?;
        stream.synchronize()?;
        let mut feed = stream.feed_workers(&ECHO, &OPTIONS(), (&mut sum,))?;
        // The benchmark waits for a first answer, so that the workers run before the time starts.
        feed.push(&tasks[..1])?;
        let mut answered = 0;
        while answered == 0 {
            answered += feed.answers().len();
        }
        let begin = Instant::now();
        for batch in tasks[1..].chunks(batch) {
            feed.push(batch)?;
        }
        while answered < count {
            answered += feed.answers().len();
        }
        let each = begin.elapsed().as_secs_f64() * 1e9 / (count - 1) as f64;
        feed.finish()?;
        let expected = (count as u64) * (count as u64 - 1) / 2;
        let is_right = stream.download(&sum)? == [expected];
        is_right.then(|| vec![Value::new("each", "ns", each)]).ok_or_else(|| wrong("the sum"))
    }))
}

/// The number of cases in which the time of the chosen policy is within 5 % of the best time, and
/// the number of all cases.
fn near_best(sides: &[Side<'_>]) -> [usize; 2] {
    let autos = sides.iter().filter_map(|side| Some((side.name.strip_suffix(": auto")?, side)));
    let mut points = [0, 0];
    for (point, auto) in autos {
        let of =
            |side: &&Side<'_>| side.name.rsplit_once(": ").is_some_and(|(name, _)| name == point);
        let best = sides.iter().filter(of).map(|side| side.median("time")).fold(f64::MAX, f64::min);
        points[0] += usize::from(auto.median("time") <= 1.05 * best);
        points[1] += 1;
    }
    points
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong answer; every error of the device and of a peer.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let (device, of) = (setting.device, definition);
    steps.expect(8);
    let mut results = Results::of_device(device);
    results.note("verified", "every run had its known answer, and ran every task once");
    let parameters: Vec<(u32, u32)> =
        of.bases.iter().flat_map(|base| of.skews.iter().map(|skew| (*base, *skew))).collect();
    let mut points = [0, 0];
    let mut take = |name: &str, sides: Result<Vec<Side<'_>>>| {
        steps.begin(name);
        let mut sides = sides?;
        record(setting, &mut sides, of.samples, str::to_owned, &mut results)?;
        let [near, all] = near_best(&sides);
        points = [points[0] + near, points[1] + all];
        Ok::<(), Error>(())
    };
    let images: Vec<(u32, Vec<u32>)> =
        of.limits.iter().map(|limit| (*limit, iterations(of.width, *limit))).collect();
    let (range, graph, spawning) = (Way::all(&RANGE), Way::all(&GRAPH), Way::all(&SPAWNING));
    let pairs = images.iter().flat_map(|image| range.iter().map(move |way| (*way, image)));
    let sides = pairs
        .map(|(way, (limit, expected))| image(device, way, (of.width, *limit), expected))
        .collect();
    take("mandelbrot", sides)?;
    let pairs = parameters.iter().flat_map(|pair| range.iter().map(move |way| (*way, *pair)));
    take("lengths", pairs.map(|(way, pair)| skewed(device, way, of.tasks, pair)).collect())?;
    let pairs = of.graphs.iter().flat_map(|size| graph.iter().map(move |way| (*way, *size)));
    take("graphs", pairs.map(|(way, size)| layered(device, way, size)).collect())?;
    let pairs = of.queens.iter().flat_map(|n| spawning.iter().map(move |way| (*way, *n)));
    take("queens", pairs.map(|(way, n)| boards(device, way, n)).collect())?;
    let pairs = of.trees.iter().flat_map(|tree| spawning.iter().map(move |way| (*way, *tree)));
    take("trees", pairs.map(|(way, tree)| visited(device, way, tree)).collect())?;
    let batches = of.batches.iter().map(|batch| fed(device, of.fed, *batch));
    take("feeds", batches.collect())?;
    take("beside kernels", beside::sides(device, of.beside, &of.reserved))?;
    let [near, all] = points.map(|count| Samples::one(count as f64));
    results.push("points where auto is within 5 % of the best".to_owned(), "points", near, None);
    results.push("points with auto".to_owned(), "points", all, None);
    steps.begin("peers");
    peer::figures(&definition.peers, definition.samples, &[], &mut results)?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{ByDevice, parse};
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    #[test]
    fn every_policy_has_its_times() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let text = include_str!("../definitions/workers.toml");
        let host = parse::<ByDevice<Definition>>(text)?.host;
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &host, &mut Steps::new(&mut show))?.to_string();
        for row in [
            "mandelbrot 50: hybrid: time",
            "dag 5 x 20: levels: each",
            "6 queens: auto: stolen",
            "fed in batches of 7: each",
            "beside kernels of the memory, 0 multiprocessors left: kernels alone",
        ] {
            assert!(printed.contains(row), "{row}: {printed}");
        }
        assert_no_finding(&device, 10);
        Ok(())
    }
}
