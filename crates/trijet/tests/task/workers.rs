//! Tasks that workers run: the nodes of a region are one run, and all promises about tasks hold for
//! them.

use crate::{demand_clean, device, devices};
use trijet::kernels::{Sum, Update};
use trijet::sim::Order;
use trijet::task::{Data, Explanation, KeptBy, TaskId, TaskOptions, Tasks, Workers};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, RunOptions};
use trijet::{ErrorKind, Result};
use trijet_programs::vectors::{self, VECTORS};

const LEN: usize = 64;

/// Four arrays, and the program that works on them, whose workers take turns in the order of a
/// seed.
fn arrays(tasks: &Tasks, seed: u32) -> Result<([Data<f32>; 4], Workers)> {
    let array = || tasks.alloc::<f32>(LEN);
    let arrays = [array()?, array()?, array()?, array()?];
    let [a, b, c, d] = &arrays;
    let uses = (a.update(), b.update(), c.update(), d.update());
    let workers = tasks.task(uses).bind(
        &VECTORS,
        RunOptions::new().workers(6).seed(seed),
        |program, (a, b, c, d)| program.run((a, b, c, d)),
    )?;
    Ok((arrays, workers))
}

fn fill(tasks: &Tasks, workers: &Workers, x: &Data<f32>, value: f32) -> Result<TaskId> {
    let fields = vectors::fields(0, 0, (0, LEN), value);
    tasks.task(x.write()).named("fill").on_workers(workers, vectors::FILL, &fields)
}

/// Copies array 0 to array 1.
fn copy(tasks: &Tasks, workers: &Workers, x: &Data<f32>, y: &Data<f32>) -> Result<TaskId> {
    let fields = vectors::fields(1, 0, (0, LEN), 0.0);
    tasks.task((x.read(), y.write())).named("copy").on_workers(workers, vectors::COPY, &fields)
}

#[test]
fn the_tasks_of_a_region_are_one_run_and_those_that_share_bytes_are_ordered() -> Result<()> {
    for seed in 1..50 {
        let device = device(Order::Seeded(u64::from(seed)))?;
        let tasks = device.tasks();
        let ([a, b, ..], workers) = arrays(&tasks, seed)?;
        let [first, second] = tasks.region(|tasks| {
            fill(tasks, &workers, &a, 3.0)?;
            let first = copy(tasks, &workers, &a, &b)?;
            let second = fill(tasks, &workers, &a, 4.0)?;
            Ok([first, second])
        })?;
        let stream = device.stream()?;
        tasks.finish()?;
        assert_eq!(stream.download(&tasks.take(a)?)?, [4.0; LEN]);
        assert_eq!(stream.download(&tasks.take(b)?)?, [3.0; LEN]);
        let counts = tasks.counts();
        assert_eq!((counts.regions, counts.runs, counts.graphs), (1, 1, 0));
        let why = tasks.explain(first, second)?;
        assert!(
            why.to_string().contains("an edge of a run of workers orders the two tasks"),
            "{why}"
        );
        assert!(
            matches!(&why, Explanation::Data(steps) if steps.iter().all(|step| step.kept_by == Some(KeptBy::Workers))),
            "{why}"
        );
        demand_clean(&device);
    }
    Ok(())
}

#[test]
fn a_task_outside_of_a_region_is_a_run_of_its_own() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let ([a, b, ..], workers) = arrays(&tasks, 0)?;
    fill(&tasks, &workers, &a, 1.0)?;
    tasks.task(a.update()).run(|s, mut a| s.fill(&mut a, 2.0))?;
    copy(&tasks, &workers, &a, &b)?;
    assert_eq!(device.stream()?.download(&tasks.take(b)?)?, [2.0; LEN]);
    tasks.finish()?;
    assert_eq!(tasks.counts().runs, 2);
    demand_clean(&device);
    Ok(())
}

#[test]
fn a_region_with_other_tasks_is_issued_one_by_one() -> Result<()> {
    let device = device(Order::Seeded(3))?;
    let tasks = device.tasks();
    let ([a, b, ..], workers) = arrays(&tasks, 0)?;
    tasks.region(|tasks| {
        fill(tasks, &workers, &a, 1.0)?;
        tasks.task(a.update()).run(|s, mut a| s.fill(&mut a, 5.0))?;
        copy(tasks, &workers, &a, &b)
    })?;
    assert_eq!(device.stream()?.download(&tasks.take(b)?)?, [5.0; LEN]);
    tasks.finish()?;
    let counts = tasks.counts();
    assert_eq!((counts.runs, counts.graphs), (2, 0));
    demand_clean(&device);
    Ok(())
}

/// A wait ends the run of the region so far, and later tasks are another run.
#[test]
fn a_wait_inside_of_a_region_splits_its_run() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let ([a, b, ..], workers) = arrays(&tasks, 0)?;
    tasks.region(|tasks| {
        fill(tasks, &workers, &a, 1.0)?;
        let copied = copy(tasks, &workers, &a, &b)?;
        tasks.wait(copied)?;
        fill(tasks, &workers, &a, 2.0)?;
        copy(tasks, &workers, &a, &b)
    })?;
    assert_eq!(device.stream()?.download(&tasks.take(b)?)?, [2.0; LEN]);
    tasks.finish()?;
    assert_eq!((tasks.counts().runs, tasks.counts().succeeded), (2, 4));
    Ok(())
}

/// More tasks than may be unfinished at once: the region is several runs, and its submission does
/// not wait for itself.
#[test]
fn a_region_may_have_any_number_of_tasks() -> Result<()> {
    const COUNT: usize = 10_000;
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let ([a, b, ..], workers) = arrays(&tasks, 0)?;
    fill(&tasks, &workers, &a, 1.0)?;
    tasks.task(b.write()).run(|s, mut b| s.fill(&mut b, 0.0))?;
    tasks.region(|tasks| {
        (0..COUNT).try_for_each(|at| {
            let at = at % LEN;
            let fields = vectors::fields(1, 0, (at, at + 1), 1.0);
            let uses = (a.read_range(at..=at), b.update_range(at..=at));
            tasks.task(uses).on_workers(&workers, vectors::AXPY, &fields).map(drop)
        })
    })?;
    let found = device.stream()?.download(&tasks.take(b)?)?;
    let expected = |at| (COUNT / LEN + usize::from(at < COUNT % LEN)) as f32;
    assert_eq!(found, (0..LEN).map(expected).collect::<Vec<_>>());
    tasks.finish()?;
    assert!((3..10).contains(&tasks.counts().runs), "{:?}", tasks.counts());
    Ok(())
}

#[test]
fn a_cancelled_task_does_not_run_and_neither_do_those_that_read_its_result() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let ([a, b, c, _], workers) = arrays(&tasks, 0)?;
    let filled = tasks.region(|tasks| {
        let fields = vectors::fields(2, 2, (0, LEN), 7.0);
        tasks.task(c.write()).on_workers(&workers, vectors::FILL, &fields)?;
        let filled = fill(tasks, &workers, &a, 1.0)?;
        copy(tasks, &workers, &a, &b)?;
        assert!(tasks.cancel(filled), "the region is held back");
        Ok(filled)
    })?;
    assert_eq!(tasks.wait(filled).expect_err("it was cancelled").kind(), ErrorKind::Cancelled);
    assert!(tasks.take(b).is_err());
    assert_eq!(device.stream()?.download(&tasks.take(c)?)?, [7.0; LEN]);
    Ok(())
}

struct Grows;
impl Kinds for Grows {
    const KINDS: &'static [(&'static str, Body)] = &[("grow", grow), ("rest", |_, _| ())];
}

/// If its fields ask for that, it makes more children than the queues have room for.
fn grow(w: &mut trijet::workers::Worker<'_>, payload: u64) {
    let [children, ..] = w.fields(payload);
    (0..children).for_each(|_| w.must_spawn(1, payload));
}

static GROWS: Program<Grows, (Update<u32>,)> = {
    let spec = ProgramSpec::new("grows", "", "u32* word, u64 length");
    // SAFETY: the bodies use no memory.
    unsafe { Program::declare(spec) }
};

/// The end of a run is known late, so its error comes from the calls that wait.
#[test]
fn a_run_that_fails_names_its_task_and_leaves_no_result() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y) = (tasks.alloc::<u32>(2)?, tasks.alloc::<u32>(1)?);
    tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 0))?;
    tasks.task(y.write()).run(|s, mut y| s.fill(&mut y, 9))?;
    let options = RunOptions::new().queue(1).ring(1).workers(1);
    let workers = tasks.task(x.update()).bind(&GROWS, options, |program, x| program.run((x,)))?;
    let (well, bad) = tasks.region(|tasks| {
        let node = |at: usize, children, name| {
            let task = tasks.task(x.update_range(at..=at)).named(name);
            task.on_workers(&workers, 0, &[children])
        };
        Ok((node(0, 0, "well")?, node(1, 100, "bad")?))
    })?;
    let error = tasks.wait(bad).expect_err("its queues are full");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    let told = error.to_string();
    assert!(
        told.contains("task `bad` (number 4, submitted at") && told.contains("workers.rs"),
        "{told}"
    );
    // A run ends as a whole.
    assert!(tasks.wait(well).expect_err("its run failed").to_string().contains("`bad`"));
    let reads = tasks.task(x.read()).run(|_, _| Ok(()))?;
    assert!(tasks.wait(reads).expect_err("x has no value").to_string().contains("`bad`"));
    assert!(tasks.finish().expect_err("nothing returned it yet").to_string().contains("`bad`"));
    tasks.finish()?;
    assert!(tasks.take(x).is_err());
    assert_eq!(device.stream()?.download(&tasks.take(y)?)?, [9]);
    Ok(())
}

/// Without a wait, a failed run is found when the next one is issued.
#[test]
fn the_end_of_an_earlier_run_is_looked_at_before_the_next_one() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let x = tasks.alloc::<u32>(2)?;
    tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 0))?;
    let options = RunOptions::new().queue(1).ring(1).workers(1);
    let workers = tasks.task(x.update()).bind(&GROWS, options, |program, x| program.run((x,)))?;
    tasks.task(x.update()).named("bad").on_workers(&workers, 0, &[50])?;
    // The function of a task may wait for the device, but not for tasks.
    tasks.task(()).run(|s, ()| s.synchronize())?;
    let later = tasks.task(x.write()).on_workers(&workers, 0, &[0])?;
    tasks.wait(later)?;
    assert!(tasks.finish().expect_err("the first run failed").to_string().contains("`bad`"));
    tasks.take(x).map(drop)
}

#[test]
fn what_workers_cannot_run_is_refused() -> Result<()> {
    let devices = devices(2, Order::Greedy)?;
    let tasks = Tasks::over(&devices)?;
    let ([a, b, ..], workers) = arrays(&tasks, 0)?;
    let other = tasks.alloc::<f32>(LEN)?;
    let h = tasks.data(devices[0].pinned::<f32>(LEN)?);
    let told = |outcome: Result<TaskId>| {
        let error = outcome.expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        error.to_string()
    };
    let cases = [
        (
            told(tasks.task(a.write()).on_workers(&workers, 3, &[])),
            "there is no kind 3; `vectors` has 3 kinds",
        ),
        (
            told(tasks.task(a.write()).on_workers(&workers, 0, &[0; 9])),
            "9 fields are given; the limit is 8",
        ),
        (
            told(tasks.task(a.write()).on(1).on_workers(&workers, 0, &[])),
            "on device 1, but `vectors` is on device 0",
        ),
        (
            told(tasks.task(other.read()).on_workers(&workers, 0, &[])),
            "but the `bind` of `vectors` does not declare",
        ),
        (
            told(tasks.task(h.write()).on_workers(&workers, 0, &[])),
            "but the `bind` of `vectors` does not declare",
        ),
        (
            told(tasks.task(b.reduce(Sum)).on_workers(&workers, 0, &[])),
            "cannot declare a reduction",
        ),
    ];
    for (told, part) in cases {
        assert!(told.contains(part), "{told}");
    }
    let others = devices[0].tasks();
    let x = others.alloc::<f32>(LEN)?;
    assert!(
        told(others.task(x.read()).on_workers(&workers, 0, &[]))
            .contains("data of another `Tasks`")
    );
    let bind = tasks.task(h.update()).bind(&GROWS, RunOptions::default(), |_, _| unreachable!());
    assert!(bind.expect_err("it is host memory").to_string().contains("is host memory"));
    tasks.finish()
}

/// A run gets the memory of all data of its program, even of data that its tasks do not use.
#[test]
fn data_cannot_be_taken_before_the_runs_that_get_their_memory_are_issued() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(100));
    let ([a, b, ..], workers) = arrays(&tasks, 0)?;
    let hold = tasks.data(device.pinned::<f32>(LEN)?);
    let (go, gone) = std::sync::mpsc::channel();
    tasks.task(hold.write()).host(move |mut hold| {
        gone.recv().expect("the task below sends");
        // A thread that does not wait would be far ahead.
        (0..10_000).for_each(|_| std::thread::yield_now());
        hold.fill(1.0);
        Ok(())
    })?;
    // Tasks are held back until a thread waits. Here the thread that takes `b` waits.
    tasks.task(()).run(move |_, ()| {
        go.send(()).expect("the task above receives");
        Ok(())
    })?;
    tasks.task((hold.read(), a.write())).run(|s, (hold, mut a)| s.copy(&hold, &mut a))?;
    // It is held back by the task on the host.
    let fields = vectors::fields(0, 0, (0, LEN), 2.0);
    tasks.task(a.update()).on_workers(&workers, vectors::FILL, &fields)?;
    let b = tasks.take(b)?;
    assert_eq!(tasks.counts().runs, 1, "the run was issued before");
    drop(b);
    let late = tasks.task(a.update()).on_workers(&workers, vectors::FILL, &fields);
    assert!(late.expect_err("b is gone").to_string().contains("was taken before"));
    tasks.finish()
}

/// A task of a program may not write a datum that the program only reads.
#[test]
fn a_write_of_what_is_bound_to_be_read_is_refused() -> Result<()> {
    let tasks = device(Order::Greedy)?.tasks();
    let x = tasks.alloc::<u32>(4)?;
    let workers =
        tasks.task(x.read()).bind(&GROWS, RunOptions::default(), |_, _| unreachable!())?;
    let error = tasks.task(x.write()).on_workers(&workers, 0, &[]).expect_err("it is read only");
    assert!(error.to_string().contains("to write bytes 0 to 16"), "{error}");
    tasks.finish()
}
