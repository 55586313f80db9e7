//! Regions: which of their tasks become a graph, which operations are changed in it, and which
//! tasks are issued one by one.

use crate::demand_clean;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use trijet::kernels::{AXPY, Sum};
use trijet::sim::Order;
use trijet::task::{Data, TaskCounts, TaskOptions, Tasks};
use trijet::{Device, Error, ErrorKind, Result};

const LEN: usize = 32;

fn filled(tasks: &Tasks, value: f32) -> Result<Data<f32>> {
    let x = tasks.alloc::<f32>(LEN)?;
    tasks.task(x.write()).run(move |s, mut x| s.fill(&mut x, value))?;
    Ok(x)
}

fn add(tasks: &Tasks, a: f32, x: &Data<f32>, y: &Data<f32>) -> Result<()> {
    let task = tasks.task((x.read(), y.update())).named("add");
    task.run(move |s, (x, y)| s.launch(&AXPY, (a, x, y))).map(drop)
}

fn value(device: &Device, tasks: &Tasks, x: &Data<f32>) -> Result<f32> {
    let found = device.stream()?.download(&tasks.take(x.clone())?)?;
    assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
    Ok(found[0])
}

/// The counts of regions, new graphs, launches of existing graphs, and changed operations.
fn graphs(counts: TaskCounts) -> (u64, u64, u64, u64) {
    (counts.regions, counts.graphs, counts.replays, counts.patched)
}

#[test]
fn a_region_with_other_data_is_a_launch_of_the_same_graph() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y, z) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?, filled(&tasks, 0.0)?);
    for round in 0..10 {
        let (from, to) = if round % 2 == 0 { (&y, &z) } else { (&z, &y) };
        tasks.region(|tasks| {
            tasks.copy(from.read(), to.write())?;
            add(tasks, 1.0, &x, to)
        })?;
    }
    tasks.finish()?;
    assert_eq!(graphs(tasks.counts()), (10, 1, 9, 0));
    assert_eq!((value(&device, &tasks, &y)?, value(&device, &tasks, &z)?), (10.0, 9.0));
    demand_clean(&device);
    Ok(())
}

/// The same tasks, whose functions enqueue other operations in some rounds.
#[test]
fn a_region_with_other_operations_is_another_graph() -> Result<()> {
    let device = crate::device(Order::Seeded(1))?;
    let tasks = device.tasks();
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
    for round in 0..9 {
        tasks.region(|tasks| {
            add(tasks, 1.0, &x, &y)?;
            let more = tasks.task((x.read(), y.update())).run(move |s, (x, mut y)| {
                let times = if round % 3 == 2 { 2 } else { 1 };
                (0..times).try_for_each(|_| s.launch(&AXPY, (1.0, x, y.reborrow())))?;
                if round > 6 { s.fill_bytes(&mut s.alloc::<u8>(10_000_000)?, 0) } else { Ok(()) }
            });
            add(tasks, 1.0, &x, &y).and(more)
        })?;
    }
    tasks.finish()?;
    // Rounds 0, 2, 3, 5, 6... differ from the rounds before them; 7 allocates, and 8 is another one
    // again.
    assert_eq!(graphs(tasks.counts()), (9, 7, 2, 0));
    assert_eq!(value(&device, &tasks, &y)?, 30.0);
    demand_clean(&device);
    Ok(())
}

#[test]
fn independent_tasks_of_a_region_have_no_edge() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(0));
    let (x, y, z) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?, filled(&tasks, 0.0)?);
    let [a, b, c] = tasks.region(|tasks| {
        let one = |y: &Data<f32>| {
            tasks
                .task((x.read(), y.update()))
                .named("one")
                .run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))
        };
        Ok([one(&y)?, one(&z)?, one(&y)?])
    })?;
    assert_eq!(
        tasks.explain(a, b)?.to_string(),
        "no data dependency orders the two tasks, but both are on one stream"
    );
    let why = tasks.explain(a, c)?.to_string();
    assert!(why.ends_with("(an edge of a graph orders the two tasks)"), "{why}");
    tasks.finish()
}

#[test]
fn parts_of_reductions_in_a_region_are_memory_of_its_graph() -> Result<()> {
    let device = crate::device(Order::Seeded(2))?;
    let tasks = device.tasks();
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
    for _ in 0..5 {
        tasks.region(|tasks| {
            for weight in [1.0, 2.0, 4.0] {
                let task = tasks.task((x.read(), y.reduce(Sum)));
                task.run(move |s, (x, part)| s.launch(&AXPY, (weight, x, part)))?;
            }
            Ok(())
        })?;
    }
    tasks.finish()?;
    assert_eq!(graphs(tasks.counts()), (5, 1, 4, 0));
    assert_eq!(value(&device, &tasks, &y)?, 35.0);
    demand_clean(&device);
    Ok(())
}

/// The first round fails in its second task, and the next one does not.
#[test]
fn a_failure_in_a_region_reaches_what_reads_its_data_and_the_next_region_is_whole() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y, z, w) =
        (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?, filled(&tasks, 0.0)?, filled(&tasks, 0.0)?);
    for round in 0..3 {
        tasks.region(|tasks| {
            tasks.task(y.write()).named("bad").run(move |s, mut y| {
                s.fill(&mut y, 1.0)?;
                if round == 1 { Err(Error::new(ErrorKind::Io, "disk", "gone")) } else { Ok(()) }
            })?;
            add(tasks, 1.0, &y, &z)?;
            add(tasks, 1.0, &x, &w)
        })?;
        let ended = tasks.finish();
        assert_eq!(ended.is_err(), round == 1, "{ended:?}");
        if let Err(error) = ended {
            assert!(error.to_string().contains("task `bad`"), "{error}");
            // The data has a value again.
            tasks.task(z.write()).run(|s, mut z| s.fill(&mut z, 1.0))?;
        }
    }
    let counts = tasks.counts();
    assert_eq!((counts.failed, counts.skipped), (1, 1));
    assert_eq!((value(&device, &tasks, &z)?, value(&device, &tasks, &w)?), (2.0, 3.0));
    demand_clean(&device);
    Ok(())
}

#[test]
fn a_region_that_follows_a_failure_is_issued_task_by_task() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y, z) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?, filled(&tasks, 0.0)?);
    let bad = tasks.task(x.update()).run(|_, _| Ok(()))?;
    assert!(tasks.cancel(bad));
    tasks.region(|tasks| {
        add(tasks, 1.0, &x, &y)?;
        tasks.task(z.update()).run(|s, mut z| s.fill(&mut z, 5.0)).map(drop)
    })?;
    assert_eq!(tasks.finish().expect_err("one was cancelled").kind(), ErrorKind::Cancelled);
    assert_eq!(value(&device, &tasks, &z)?, 5.0);
    assert_eq!(graphs(tasks.counts()), (1, 0, 0, 0));
    Ok(())
}

#[test]
fn what_a_graph_cannot_have_is_an_error_that_names_the_region() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
    let other = device.stream()?.upload(&[1.0; LEN])?;
    tasks.region(|tasks| {
        tasks.task(()).run(|s, ()| s.host_fn(|| ()))?;
        tasks.task(()).run(|s, ()| s.synchronize())?;
        tasks
            .task(y.update())
            .named("foreign")
            .run(move |s, y| s.launch(&AXPY, (1.0, &other, y)))?;
        add(tasks, 1.0, &x, &x.clone()).expect_err("it uses data twice");
        Ok(())
    })?;
    let error = tasks.finish().expect_err("three tasks fail");
    assert!(error.to_string().contains("in a region"), "{error}");
    assert_eq!(tasks.counts().failed, 3);
    assert!(tasks.take(y).expect_err("it has no value").to_string().contains("foreign"));
    demand_clean(&device);
    Ok(())
}

/// A wait, a host task, an error, a panic and tasks of another thread: the tasks run all the same.
#[test]
fn a_region_that_cannot_be_a_graph_is_issued_task_by_task() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
    tasks.region(|tasks| {
        add(tasks, 1.0, &x, &y)?;
        tasks.finish()?;
        add(tasks, 1.0, &x, &y)
    })?;
    let h = tasks.data(device.pinned::<f32>(LEN)?);
    tasks.region(|tasks| {
        add(tasks, 1.0, &x, &y)?;
        tasks.copy(y.read(), h.write())?;
        tasks.task(h.update()).host(|mut h| {
            h.iter_mut().for_each(|one| *one += 1.0);
            Ok(())
        })?;
        tasks.copy(h.read(), y.write()).map(drop)
    })?;
    let gone = tasks.region(|tasks| {
        add(tasks, 1.0, &x, &y)?;
        Err::<(), _>(Error::new(ErrorKind::Io, "disk", "gone"))
    });
    assert_eq!(gone.expect_err("it is that of the program").kind(), ErrorKind::Io);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        tasks.region(|tasks| -> Result<()> {
            add(tasks, 1.0, &x, &y)?;
            panic!("as the test wants it");
        })
    }));
    assert!(panicked.is_err());
    tasks.region(|tasks| {
        add(tasks, 1.0, &x, &y)?;
        thread::scope(|scope| scope.spawn(|| add(tasks, 1.0, &x, &y)).join().expect("no panic"))?;
        // It follows the other thread's task, and that task follows the one before.
        add(tasks, 1.0, &x, &y)
    })?;
    // A region within a region is a part of it.
    tasks.region(|tasks| tasks.region(|tasks| add(tasks, 1.0, &x, &y)))?;
    tasks.finish()?;
    assert_eq!(value(&device, &tasks, &y)?, 10.0);
    demand_clean(&device);
    Ok(())
}

/// More kinds of regions than graphs are kept, and regions of several threads at once.
#[test]
fn graphs_of_many_regions_come_and_go() -> Result<()> {
    let device = crate::device(Order::Seeded(4))?;
    let tasks = device.tasks();
    let x = filled(&tasks, 1.0)?;
    let sums: Vec<Data<f32>> = (0..4).map(|_| filled(&tasks, 0.0)).collect::<Result<_>>()?;
    thread::scope(|scope| {
        for y in &sums {
            let (tasks, x) = (&tasks, &x);
            scope.spawn(move || {
                for round in 0..60 {
                    let tasks_of = 1 + round % 20;
                    let submit =
                        |tasks: &Tasks| (0..tasks_of).try_for_each(|_| add(tasks, 1.0, x, y));
                    tasks.region(submit).expect("it succeeds");
                }
            });
        }
    });
    tasks.finish()?;
    for y in &sums {
        assert_eq!(value(&device, &tasks, y)?, 630.0);
    }
    demand_clean(&device);
    Ok(())
}

/// Parts of a buffer start at any place within 256 bytes, and launches of a graph with kernels keep
/// their place.
#[test]
fn a_region_over_any_part_of_a_buffer_has_the_result_of_its_tasks() -> Result<()> {
    let device = crate::device(Order::Seeded(5))?;
    let (tasks, stream) = (device.tasks(), device.stream()?);
    let mut rest = stream.alloc::<f32>(10 * LEN + 40)?;
    let mut data = Vec::new();
    for round in 0..10 {
        let (gap, others) = rest.split(round % 4);
        let (part, others) = others.split(LEN);
        (rest, _) = (others, gap);
        data.push(tasks.data(part));
    }
    let x = filled(&tasks, 1.0)?;
    for _ in 0..3 {
        for (round, y) in data.iter().enumerate() {
            tasks.region(|tasks| {
                tasks.task(y.write()).run(move |s, mut y| s.fill(&mut y, round as f32))?;
                add(tasks, 1.0, &x, y)
            })?;
        }
    }
    tasks.finish()?;
    assert!(tasks.counts().replays > 0, "{:?}", tasks.counts());
    for (round, y) in data.into_iter().enumerate() {
        assert_eq!(value(&device, &tasks, &y)?, round as f32 + 1.0);
    }
    demand_clean(&device);
    Ok(())
}

/// One call may have data of the device and of the host, in turn.
#[test]
fn a_region_over_memory_of_any_kind_has_the_result_of_its_tasks() -> Result<()> {
    fn fill<S: Send + Sync + 'static>(tasks: &Tasks, x: &Data<f32, S>, value: f32) -> Result<()> {
        tasks.region(|tasks| {
            let task = tasks.task(x.write());
            task.run(move |s, mut x| s.fill(&mut x, value)).map(drop)
        })
    }
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, h) = (tasks.alloc::<f32>(LEN)?, tasks.data(device.pinned::<f32>(LEN)?));
    for round in [1.0, 2.0, 3.0] {
        fill(&tasks, &x, round)?;
        fill(&tasks, &h, 10.0 * round)?;
    }
    assert_eq!(value(&device, &tasks, &x)?, 3.0);
    assert_eq!(&*tasks.take(h)?.read()?, &[30.0; LEN]);
    tasks.finish()
}
