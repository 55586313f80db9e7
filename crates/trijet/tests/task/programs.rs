//! Random programs of tasks, and their result one after another.

use std::ops::Range;
use trijet::kernels::{AXPY, Max, Sum};
use trijet::memory::PageLocked;
use trijet::task::{Data, TaskCounts, TaskId, TaskOptions, Tasks, Workers};
use trijet::testing::Prng;
use trijet::workers::{Policy, RunOptions};
use trijet::{Device, Result};
use trijet_programs::vectors::{self, VECTORS};

const LEN: usize = 24;
const ON_DEVICE: usize = 4;
const ON_HOST: usize = 3;

/// The work of a task on the elements `range` of data. Data are numbered: first those of the
/// device, then those of the host.
#[derive(Debug, Clone)]
enum Step {
    /// Sets all bytes.
    Fill { to: usize, value: u8 },
    /// Copies from one to another.
    Copy { from: usize, to: usize },
    /// Adds twice the elements of one datum to the elements of another one, both on the device.
    Axpy { from: usize, to: usize },
    /// The same, with a part that is summed into the other datum, or with its maximum.
    Reduce { from: usize, to: usize, is_sum: bool },
    /// The same on a thread of the host, both there.
    Host { from: usize, to: usize },
    /// Copies one to itself in two tasks that the function of a task submits.
    Nested { at: usize },
}

#[derive(Debug, Clone)]
struct One {
    step: Step,
    range: Range<usize>,
    is_urgent: bool,
    /// Whether workers run it, if it is of a kind that they can run.
    is_node: bool,
    /// The number of the device, modulo the count of devices.
    place: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Program {
    parts: Vec<Part>,
    options: TaskOptions,
    policy: Policy,
    /// The seed of the order in which workers take turns.
    turns: u32,
}

/// Steps that follow each other, in a region or not.
#[derive(Debug)]
struct Part {
    steps: Vec<One>,
    is_region: bool,
}

impl One {
    /// Whether it is a kind of `VECTORS`.
    fn fits_workers(&self) -> bool {
        match self.step {
            Step::Fill { to, .. } => to < ON_DEVICE,
            Step::Copy { from, to } => from < ON_DEVICE && to < ON_DEVICE,
            Step::Axpy { .. } => true,
            Step::Reduce { .. } | Step::Host { .. } | Step::Nested { .. } => false,
        }
    }

    /// The same step with other values, and with other data if `turns`.
    fn again(&self, round: usize, turns: bool) -> Self {
        let turn = |at: usize| match at {
            _ if !turns => at,
            0..ON_DEVICE => (at + round) % ON_DEVICE,
            _ => ON_DEVICE + (at - ON_DEVICE + round) % ON_HOST,
        };
        let step = match self.step.clone() {
            Step::Fill { to, value } => {
                Step::Fill { to: turn(to), value: (value + [0, 16, 32][round % 3]) % 64 }
            }
            Step::Copy { from, to } => Step::Copy { from: turn(from), to: turn(to) },
            Step::Axpy { from, to } => Step::Axpy { from: turn(from), to: turn(to) },
            Step::Reduce { from, to, is_sum } => {
                Step::Reduce { from: turn(from), to: turn(to), is_sum }
            }
            Step::Host { from, to } => Step::Host { from: turn(from), to: turn(to) },
            Step::Nested { at } => Step::Nested { at: turn(at) },
        };
        Self { step, ..self.clone() }
    }
}

pub(crate) fn draw(seed: u64) -> Program {
    let mut draw = Prng::new(seed);
    let mut below = move |most: usize| usize::try_from(draw.below(most as u64)).expect("few");
    let options = TaskOptions::new().streams(1 + below(4)).look_ahead(below(7));
    let options = if seed % 8 == 5 { options.check_reads() } else { options };
    let count = 1 + below(40);
    let two = |below: &mut dyn FnMut(usize) -> usize, first: usize, all: usize| {
        let from = below(all);
        (first + from, first + (from + 1 + below(all - 1)) % all)
    };
    let mut one = || {
        let step = match below(12) {
            0..2 => Step::Fill { to: below(ON_DEVICE + ON_HOST), value: [0, 16, 32, 48][below(4)] },
            2..6 => {
                let (from, to) = two(&mut below, 0, ON_DEVICE + ON_HOST);
                Step::Copy { from, to }
            }
            6..8 => {
                let (from, to) = two(&mut below, 0, ON_DEVICE);
                Step::Reduce { from, to, is_sum: below(3) > 0 }
            }
            8..9 => {
                let (from, to) = two(&mut below, 0, ON_DEVICE);
                Step::Axpy { from, to }
            }
            9..11 => {
                let (from, to) = two(&mut below, ON_DEVICE, ON_HOST);
                Step::Host { from, to }
            }
            _ => Step::Nested { at: below(ON_DEVICE) },
        };
        let (a, b) = (below(LEN + 1), below(LEN + 1));
        let range = if below(2) == 0 { 0..LEN } else { a.min(b)..a.max(b) };
        let place = [None, Some(0), Some(1), Some(2)][below(4)];
        One { step, range, is_urgent: below(8) == 0, is_node: false, place }
    };
    let steps: Vec<One> = (0..count).map(|_| one()).collect();
    let (mut parts, mut draw, mut left) = (Vec::new(), Prng::new(!seed), &steps[..]);
    let mut below = move |most: usize| usize::try_from(draw.below(most as u64)).expect("few");
    while !left.is_empty() {
        let (steps, rest) = left.split_at((1 + below(8)).min(left.len()));
        left = rest;
        let (is_region, turns) = (below(3) > 0, below(2) == 0);
        let devices_agree = below(4) > 0;
        // A host task or a nested one is rare enough that most regions can be graphs.
        let is_plain = |one: &&One| !matches!(one.step, Step::Host { .. } | Step::Nested { .. });
        let mut steps: Vec<One> = steps.to_vec();
        if is_region && below(4) > 0 {
            steps = steps.iter().filter(is_plain).cloned().collect();
        }
        // Workers run all of them, or some.
        let nodes = below(6);
        if nodes == 0 {
            steps.retain(One::fits_workers);
        }
        for one in &mut steps {
            one.is_node = nodes == 0 || nodes == 1 && below(2) == 0;
            if nodes == 0 && devices_agree {
                one.place = Some(0);
            }
        }
        for round in 0..if is_region { 1 + below(4) } else { 1 } {
            let steps = steps.iter().map(|one| one.again(round, turns)).collect();
            parts.push(Part { steps, is_region });
        }
    }
    let policies = [Policy::Stealing, Policy::Sharing, Policy::Hybrid, Policy::Levels];
    let turns = u32::try_from(seed % 1000).expect("it is small");
    let policy = policies[below(4)];
    Program { parts, options, policy, turns }
}

/// The rule itself.
fn serially(parts: &[Part]) -> Vec<Vec<f32>> {
    let mut data: Vec<Vec<f32>> = (0..ON_DEVICE + ON_HOST).map(|at| vec![at as f32; LEN]).collect();
    for One { step, range, .. } in parts.iter().flat_map(|part| &part.steps) {
        for at in range.clone() {
            match *step {
                Step::Fill { to, value } => data[to][at] = f32::from_le_bytes([value; 4]),
                Step::Copy { from, to } => data[to][at] = data[from][at],
                Step::Axpy { from, to } | Step::Host { from, to } => {
                    data[to][at] = 2.0f32.mul_add(data[from][at], data[to][at]);
                }
                Step::Reduce { from, to, is_sum } => {
                    // A part of a maximum starts with negative infinity, and stays there.
                    let part = 2.0 * data[from][at];
                    data[to][at] = if is_sum { part + data[to][at] } else { data[to][at] };
                }
                Step::Nested { at: datum } => data[datum][at] = f32::from_le_bytes([17; 4]),
            }
        }
    }
    data
}

enum Datum {
    OnDevice(Data<f32>),
    OnHost(Data<f32, PageLocked>),
}

fn begin(devices: &[Device], tasks: &Tasks) -> Result<Vec<Datum>> {
    let mut all = Vec::new();
    for at in 0..ON_DEVICE + ON_HOST {
        let device = &devices[at % devices.len()];
        let stream = device.stream()?;
        let mut h = device.pinned::<f32>(LEN)?;
        h.write()?.fill(at as f32);
        all.push(if at < ON_DEVICE {
            let mut x = stream.alloc::<f32>(LEN)?;
            stream.copy(&h, &mut x)?;
            Datum::OnDevice(tasks.data(x))
        } else {
            Datum::OnHost(tasks.data(h))
        });
    }
    Ok(all)
}

macro_rules! task {
    ($tasks:expr, $one:expr, $uses:expr) => {{
        let (tasks, devices) = $tasks;
        let task = tasks.task($uses);
        let task = if $one.is_urgent { task.urgent() } else { task };
        match $one.place {
            Some(place) => task.on(place % devices),
            None => task,
        }
    }};
}

/// The tasks, and the number of their devices.
type On<'a> = (&'a Tasks, usize);

/// The program of the nodes on each device.
fn bind(tasks: &Tasks, data: &[Datum], devices: usize, program: &Program) -> Result<Vec<Workers>> {
    let Program { policy, turns: seed, .. } = *program;
    let arrays = || {
        let device = data.iter().filter_map(|one| match one {
            Datum::OnDevice(x) => Some(x.update()),
            Datum::OnHost(_) => None,
        });
        device.collect::<Vec<_>>()
    };
    let bound = |place| {
        // Small queues, so that some are full.
        let options = RunOptions::new().policy(policy).queue(1).ring(1).workers(5).seed(seed);
        tasks.task(arrays()).on(place).bind(&VECTORS, options, |program, arrays| {
            let arrays: [_; ON_DEVICE] = arrays.try_into().expect("as many as were bound");
            let [a, b, c, d] = arrays;
            program.run((a, b, c, d))
        })
    };
    (0..devices).map(bound).collect()
}

/// Submits a step as a task that workers run.
fn submit_node(tasks: On<'_>, data: &[Datum], workers: &[Workers], one: &One) -> Result<()> {
    let One { step, range, .. } = one;
    let array = |at: usize| match &data[at] {
        Datum::OnDevice(x) => x,
        Datum::OnHost(_) => unreachable!("{step:?} does not fit"),
    };
    let fields = |to, from, value| vectors::fields(to, from, (range.start, range.end), value);
    let (tasks, devices) = tasks;
    let workers = &workers[one.place.unwrap_or(0) % devices];
    match *step {
        Step::Fill { to, value } => {
            let fields = fields(to, to, f32::from_le_bytes([value; 4]));
            let task = tasks.task(array(to).write_range(range.clone()));
            task.on_workers(workers, vectors::FILL, &fields)
        }
        Step::Copy { from, to } => {
            let uses =
                (array(from).read_range(range.clone()), array(to).write_range(range.clone()));
            tasks.task(uses).on_workers(workers, vectors::COPY, &fields(to, from, 0.0))
        }
        Step::Axpy { from, to } => {
            let uses =
                (array(from).read_range(range.clone()), array(to).update_range(range.clone()));
            tasks.task(uses).on_workers(workers, vectors::AXPY, &fields(to, from, 2.0))
        }
        Step::Reduce { .. } | Step::Host { .. } | Step::Nested { .. } => unreachable!(),
    }
    .map(drop)
}

fn submit(tasks: On<'_>, data: &[Datum], one: &One) -> Result<()> {
    use Datum::{OnDevice, OnHost};
    let One { step, range, .. } = one;
    let range = range.clone();
    macro_rules! copy {
        ($x:expr, $y:expr) => {
            task!(tasks, one, ($x.read_range(range.clone()), $y.write_range(range)))
                .run(|s, (x, mut y)| s.copy(&x, &mut y))?
        };
    }
    match *step {
        Step::Fill { to, value } => match &data[to] {
            OnDevice(x) => task!(tasks, one, x.write_range(range))
                .run(move |s, mut x| s.fill_bytes(&mut x, value))?,
            OnHost(x) => task!(tasks, one, x.write_range(range)).host(move |mut x| {
                x.fill(f32::from_le_bytes([value; 4]));
                Ok(())
            })?,
        },
        Step::Copy { from, to } => match (&data[from], &data[to]) {
            (OnDevice(x), OnDevice(y)) => copy!(x, y),
            (OnDevice(x), OnHost(y)) if one.place.is_some() => copy!(x, y),
            (OnHost(x), OnDevice(y)) if one.place.is_some() => copy!(x, y),
            (OnDevice(x), OnHost(y)) => {
                tasks.0.copy(x.read_range(range.clone()), y.write_range(range))?
            }
            (OnHost(x), OnDevice(y)) => {
                tasks.0.copy(x.read_range(range.clone()), y.write_range(range))?
            }
            (OnHost(x), OnHost(y)) => {
                task!(tasks, one, (x.read_range(range.clone()), y.write_range(range))).host(
                    |(x, mut y)| {
                        y.copy_from_slice(&x);
                        Ok(())
                    },
                )?
            }
        },
        Step::Axpy { .. } | Step::Reduce { .. } | Step::Host { .. } => add(tasks, data, one)?,
        Step::Nested { at } => {
            let OnDevice(x) = &data[at] else { unreachable!() };
            let x = x.clone();
            // A function may submit tasks. They come after all tasks that were submitted before, so
            // the program waits until this one is submitted.
            let inner = tasks.0.clone();
            let outer = task!(tasks, one, ()).run(move |_, ()| {
                let fill = inner.task(x.write_range(range.clone()));
                fill.run(|s, mut x| s.fill_bytes(&mut x, 16))?;
                let again = inner.task(x.update_range(range));
                again.run(|s, mut x| s.fill_bytes(&mut x, 17)).map(drop)
            })?;
            tasks.0.wait(outer)?;
            outer
        }
    };
    Ok(())
}

/// Submits a step that adds the values that it reads to another datum.
fn add(tasks: On<'_>, data: &[Datum], one: &One) -> Result<TaskId> {
    use Datum::{OnDevice, OnHost};
    let range = one.range.clone();
    Ok(match one.step {
        Step::Axpy { from, to } => {
            let (OnDevice(x), OnDevice(y)) = (&data[from], &data[to]) else { unreachable!() };
            task!(tasks, one, (x.read_range(range.clone()), y.update_range(range))).run(
                |s, (x, y)| {
                    // An empty launch is refused.
                    if x.is_empty() { Ok(()) } else { s.launch(&AXPY, (2.0, x, y)) }
                },
            )?
        }
        Step::Reduce { from, to, is_sum } => {
            let (OnDevice(x), OnDevice(y)) = (&data[from], &data[to]) else { unreachable!() };
            let x = x.read_range(range.clone());
            macro_rules! reduce {
                ($how:expr) => {
                    task!(tasks, one, (x, y.reduce_range(range, $how))).run(|s, (x, part)| {
                        if x.is_empty() { Ok(()) } else { s.launch(&AXPY, (2.0, x, part)) }
                    })?
                };
            }
            if is_sum { reduce!(Sum) } else { reduce!(Max) }
        }
        Step::Host { from, to } => {
            let (OnHost(x), OnHost(y)) = (&data[from], &data[to]) else { unreachable!() };
            task!(tasks, one, (x.read_range(range.clone()), y.update_range(range))).host(
                |(x, mut y)| {
                    y.iter_mut().zip(&*x).for_each(|(y, x)| *y = 2.0f32.mul_add(*x, *y));
                    Ok(())
                },
            )?
        }
        Step::Fill { .. } | Step::Copy { .. } | Step::Nested { .. } => {
            unreachable!("it adds nothing")
        }
    })
}

/// Compares a program on devices with its tasks one after another.
pub(crate) fn compare(devices: &[Device], program: &Program, what: &str) -> Result<TaskCounts> {
    let tasks = Tasks::over_with(devices, program.options)?;
    let data = begin(devices, &tasks)?;
    let workers = bind(&tasks, &data, devices.len(), program)?;
    for Part { steps, is_region } in &program.parts {
        let submit = |tasks: &Tasks| {
            steps.iter().try_for_each(|one| match one.is_node && one.fits_workers() {
                true => submit_node((tasks, devices.len()), &data, &workers, one),
                false => submit((tasks, devices.len()), &data, one),
            })
        };
        if *is_region { tasks.region(submit)? } else { submit(&tasks)? }
    }
    let stream = devices[0].stream()?;
    let mut found = Vec::new();
    for datum in data {
        found.push(match datum {
            Datum::OnDevice(x) => stream.download(&tasks.take(x)?)?,
            Datum::OnHost(x) => tasks.take(x)?.read()?.to_vec(),
        });
    }
    tasks.finish()?;
    let bits = |all: &[Vec<f32>]| -> Vec<Vec<u32>> {
        all.iter().map(|one| one.iter().map(|value| value.to_bits()).collect()).collect()
    };
    assert_eq!(bits(&found), bits(&serially(&program.parts)), "{what}: {program:#?}");
    let counts = tasks.counts();
    assert_eq!(
        (counts.succeeded, counts.failed, counts.skipped),
        (counts.submitted, 0, 0),
        "{what}"
    );
    Ok(counts)
}
