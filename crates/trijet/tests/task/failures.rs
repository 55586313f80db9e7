//! Tasks that fail, panic or are cancelled: tasks that depend on them do not run, and all others
//! do.

use crate::device;
use trijet::kernels::Sum;
use trijet::sim::Order;
use trijet::task::{Data, TaskOptions, Tasks};
use trijet::{AsViewMut, Error, ErrorKind, Result};

fn broken() -> Error {
    Error::new(ErrorKind::InvalidValue, "test", "it is broken")
}

fn fill(tasks: &Tasks, x: &Data<u8>, value: u8) -> Result<trijet::task::TaskId> {
    tasks.task(x.update()).named("fill").run(move |s, mut x| s.fill_bytes(&mut x, value))
}

#[test]
fn the_tasks_that_read_a_failed_result_do_not_run_and_name_the_first_culprit() -> Result<()> {
    for look_ahead in [0, 3, 20] {
        let device = device(Order::Seeded(look_ahead))?;
        let options = TaskOptions::new().look_ahead(usize::try_from(look_ahead).expect("few"));
        let tasks = device.tasks_with(options);
        let (x, y, z) = (tasks.alloc::<u8>(8)?, tasks.alloc::<u8>(8)?, tasks.alloc::<u8>(8)?);
        let bad = tasks.task(x.write()).named("bad").run(|_, _| Err(broken()))?;
        let copy = tasks.task((x.read(), y.write())).run(|s, (x, mut y)| s.copy(&x, &mut y))?;
        let also = tasks.task((y.read(), x.read())).named("second").run(|_, _| Err(broken()))?;
        let other = fill(&tasks, &z, 3)?;
        tasks.wait(other)?;
        let message = |task| tasks.wait(task).expect_err("it has no result").to_string();
        assert!(message(bad).contains("the task failed; task `bad` (number 1"), "{}", message(bad));
        for task in [copy, also] {
            let message = message(task);
            assert!(message.contains("did not run"), "{message}");
            assert!(message.contains("task `bad` (number 1, submitted at"), "{message}");
            assert!(
                message.contains("failures.rs") && message.contains("it is broken"),
                "{message}"
            );
        }
        assert_eq!(
            tasks.take(y).map(drop).map_err(|error| error.kind()),
            Err(ErrorKind::InvalidValue)
        );
        let error = tasks.finish().expect_err("it was not returned yet").to_string();
        assert!(error.contains("2 tasks that need the failed task did not run"), "{error}");
        tasks.finish()?;
        let counts = tasks.counts();
        assert_eq!((counts.succeeded, counts.failed, counts.skipped), (1, 1, 2));
        assert_eq!(device.stream()?.download(&tasks.take(z)?)?, [3; 8]);
    }
    Ok(())
}

/// A sum that lacks a part is no sum, whether the part failed before or after the others were
/// submitted.
#[test]
fn a_failed_part_of_a_reduction_leaves_no_value() -> Result<()> {
    for look_ahead in [0, 8] {
        let device = device(Order::Greedy)?;
        let tasks = device.tasks_with(TaskOptions::new().look_ahead(look_ahead));
        let x = tasks.alloc::<f32>(8)?;
        tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 0.0))?;
        tasks.task(x.reduce(Sum)).run(|s, mut part| s.fill(&mut part, 1.0))?;
        tasks.task(x.reduce(Sum)).named("bad").run(|_, _| Err(broken()))?;
        let last = tasks.task(x.reduce(Sum)).run(|s, mut part| s.fill(&mut part, 2.0))?;
        let message = tasks.wait(last).expect_err("the sum lacks a part").to_string();
        assert!(message.contains("task `bad`"), "{message}");
        let taken = tasks.take(x).map(drop).map_err(|error| error.kind());
        assert_eq!(taken, Err(ErrorKind::InvalidValue));
        assert!(tasks.finish().is_err());
    }
    Ok(())
}

/// A task that overwrites data needs nothing of the failed one, and gives them a value again.
#[test]
fn a_write_gives_data_a_value_again_and_the_other_bytes_never_lost_theirs() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let x = tasks.alloc::<u8>(8)?;
    fill(&tasks, &x, 1)?;
    tasks.task(x.update_range(..4)).run(|_, _| Err(broken()))?;
    let y = tasks.data(device.pinned::<u8>(4)?);
    let right = (x.read_range(4..), y.write());
    tasks.wait(tasks.task(right).run(|s, (x, mut y)| s.copy(&x, &mut y))?)?;
    assert_eq!(&*tasks.take(y)?.read()?, &[1; 4]);
    assert!(tasks.finish().is_err());
    tasks.task(x.write_range(..4)).run(|s, mut x| s.fill_bytes(&mut x, 2))?;
    assert_eq!(device.stream()?.download(&tasks.take(x)?)?, [2, 2, 2, 2, 1, 1, 1, 1]);
    tasks.finish()
}

#[test]
fn a_panic_is_the_failure_of_its_task_on_a_stream_and_on_the_host() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let h = tasks.data(device.pinned::<u8>(8)?);
    let on_stream = tasks.task(h.write()).run(|_, _| panic!("a stream"))?;
    let on_host = tasks.task(h.write()).host(|_| panic!("a host"))?;
    for (task, words) in [(on_stream, "it panicked: a stream"), (on_host, "it panicked: a host")] {
        let error = tasks.wait(task).expect_err("it panicked");
        assert_eq!(error.kind(), ErrorKind::Panicked);
        assert!(error.to_string().contains(words), "{error}");
    }
    // Another task runs.
    tasks.wait(tasks.task(h.write()).host(|mut h| {
        h.fill(4);
        Ok(())
    })?)?;
    assert_eq!(&*tasks.take(h)?.read()?, &[4; 8]);
    Ok(())
}

/// The values of a function are dropped even if its task does not run, and a panic of the drop ends
/// no thread.
#[test]
fn a_drop_that_panics_in_a_task_that_does_not_run_is_caught() -> Result<()> {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("when it is dropped");
        }
    }
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let h = tasks.data(device.pinned::<u8>(8)?);
    tasks.task(h.write()).host(|_| Err(broken()))?;
    for _ in 0..20 {
        let panics = Panics;
        tasks.task(h.update()).host(move |_| {
            let _panics = &panics;
            Ok(())
        })?;
    }
    assert!(tasks.finish().is_err());
    tasks.wait(tasks.task(h.write()).host(|mut h| {
        h.fill(1);
        Ok(())
    })?)?;
    assert_eq!(&*tasks.take(h)?.read()?, &[1; 8]);
    Ok(())
}

#[test]
fn a_cancelled_task_takes_what_reads_its_result_with_it_and_nothing_else() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(10));
    let (x, y) = (tasks.alloc::<u8>(8)?, tasks.alloc::<u8>(8)?);
    let first = fill(&tasks, &x, 1)?;
    let second = fill(&tasks, &x, 2)?;
    let third = fill(&tasks, &x, 3)?;
    let other = fill(&tasks, &y, 4)?;
    assert!(tasks.cancel(second));
    tasks.wait(first)?;
    tasks.wait(other)?;
    for task in [second, third] {
        assert_eq!(tasks.wait(task).map_err(|error| error.kind()), Err(ErrorKind::Cancelled));
    }
    assert!(!tasks.cancel(first), "it was issued");
    assert_eq!(tasks.finish().map_err(|error| error.kind()), Err(ErrorKind::Cancelled));
    assert_eq!(device.stream()?.download(&tasks.take(y)?)?, [4; 8]);
    Ok(())
}

/// A device that is lost ends every wait, and nothing hangs.
#[test]
fn work_that_fails_on_the_device_is_the_error_of_waits() -> Result<()> {
    use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Verb};
    let faults = vec![Fault { verb: Verb::Fill, nth: 2, kind: FaultKind::DeviceLost }];
    let executor = Executor::Virtual(Order::Greedy);
    let device =
        trijet::Device::host(HostConfig::new().executor(executor).faults(faults))?.remove(0);
    let tasks = device.tasks();
    let x = tasks.alloc::<u8>(8)?;
    for value in 0..5 {
        fill(&tasks, &x, value)?;
    }
    assert_eq!(tasks.finish().map_err(|error| error.kind()), Err(ErrorKind::ContextLost));
    Ok(())
}

/// A copy to another device lacks only the bytes that the failed task was to write, no matter
/// whether it had failed when the copy was submitted.
#[test]
fn bytes_beside_those_of_a_failed_task_have_their_values_on_every_device() -> Result<()> {
    for look_ahead in [0, 20] {
        let devices = crate::devices(2, Order::Seeded(look_ahead))?;
        let options = TaskOptions::new().look_ahead(usize::try_from(look_ahead).expect("few"));
        let tasks = Tasks::over_with(&devices, options)?;
        let (x, y) = (tasks.alloc_on::<u8>(0, 8)?, tasks.alloc_on::<u8>(1, 8)?);
        fill(&tasks, &x, 1)?;
        tasks.task(x.update_range(2..4)).run(|_, _| Err(broken()))?;
        // All of `x` is copied to device 1, where this task does not run.
        let all = (x.read(), y.write());
        let copy = tasks.task(all).on(1).run(|s, (x, mut y)| s.copy(&x, &mut y))?;
        let update = tasks.task(x.update_range(4..8)).on(1);
        let update = update.run(|s, mut x| s.fill_bytes(&mut x, 2))?;
        assert!(tasks.wait(copy).is_err(), "it reads lost bytes");
        tasks.wait(update)?;
        let whole = tasks.alloc_on::<u8>(0, 6)?;
        tasks.task((x.read_range(0..2), x.read_range(4..8), whole.write())).run(
            |s, (a, b, mut whole)| {
                s.copy(&a, &mut whole.as_view_mut().slice(0..2))?;
                s.copy(&b, &mut whole.as_view_mut().slice(2..6))
            },
        )?;
        let whole = tasks.take(whole)?;
        assert_eq!(devices[0].stream()?.download(&whole)?, [1, 1, 2, 2, 2, 2]);
        assert!(tasks.take(x).is_err() && tasks.finish().is_err());
        crate::demand_clean(&devices[0]);
    }
    Ok(())
}
