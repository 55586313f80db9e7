//! Misuse of tasks: errors that name the mistake.

use crate::{PATIENCE, device};
use std::sync::mpsc::{Sender, channel};
use std::thread::spawn;
use trijet::kernels::Sum;
use trijet::memory::PageLocked;
use trijet::sim::{HostConfig, Order};
use trijet::task::{Data, TaskId, TaskOptions, Tasks, Workers};
use trijet::workers::RunOptions;
use trijet::{Device, ErrorKind, Result};
use trijet_programs::vectors::{self, VECTORS};

#[test]
fn data_of_other_tasks_are_refused() -> Result<()> {
    let device = device(Order::Greedy)?;
    let (tasks, others) = (device.tasks(), device.tasks());
    let x = others.alloc::<u8>(8)?;
    let error = tasks.task(x.read()).run(|_, _| Ok(())).expect_err("it is not theirs");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert!(error.to_string().contains("data 0 belongs to another `Tasks`"), "{error}");
    let task = others.task(x.read()).run(|_, _| Ok(()))?;
    assert!(tasks.wait(task).is_err() && !tasks.cancel(task) && tasks.explain(task, task).is_err());
    assert!(tasks.take(x).is_err());
    Ok(())
}

#[test]
fn uses_of_one_task_that_conflict_are_refused() -> Result<()> {
    let tasks = device(Order::Greedy)?.tasks();
    let x = tasks.alloc::<u8>(8)?;
    for (left, right) in [(0..8, 0..8), (0..5, 4..8)] {
        let uses = (x.read_range(left.clone()), x.write_range(right.clone()));
        let error = tasks.task(uses).run(|_, _| Ok(())).expect_err("they share bytes");
        assert!(error.to_string().contains("declare one `update`"), "{error}");
    }
    // Parts that share no byte, and two reads, are no conflict.
    tasks.task((x.read_range(..4), x.write_range(4..))).run(|s, (x, mut y)| s.copy(&x, &mut y))?;
    tasks.task((x.read(), x.read())).run(|_, _| Ok(()))?;
    tasks.finish()
}

#[test]
fn data_that_were_taken_are_refused() -> Result<()> {
    let tasks = device(Order::Greedy)?.tasks();
    let x = tasks.alloc::<u8>(8)?;
    let again = x.clone();
    drop(tasks.take(x)?);
    let error = tasks.task(again.read()).run(|_, _| Ok(())).expect_err("it is gone");
    assert!(error.to_string().contains("data 0 was taken before"), "{error}");
    assert!(tasks.take(again).is_err());
    Ok(())
}

/// The function of a task would wait for itself.
#[test]
fn waits_in_the_function_of_a_task_are_refused() -> Result<()> {
    let device = device(Order::Greedy)?;
    let tasks = device.tasks();
    let x = tasks.alloc::<u8>(8)?;
    let (send, receive) = channel();
    let inner = tasks.clone();
    tasks.task(()).run(move |_, ()| {
        let own = inner.task(x.read()).run(|_, _| Ok(()))?;
        let kinds = [inner.finish().err(), inner.wait(own).err(), inner.take(x).err()];
        send.send(kinds.map(|error| error.map(|error| error.kind()))).expect("the test receives");
        Ok(())
    })?;
    tasks.finish()?;
    assert_eq!(receive.recv().expect("the task sends"), [Some(ErrorKind::InvalidValue); 3]);
    Ok(())
}

#[test]
fn a_range_outside_of_the_data_panics_as_for_a_slice() -> Result<()> {
    let tasks = device(Order::Greedy)?.tasks();
    let x = tasks.alloc::<u8>(8)?;
    for range in [5..9, 9..9] {
        let outside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(x.read_range(range));
        }));
        assert!(outside.is_err());
    }
    Ok(())
}

/// Functions of three sets of tasks, each within a function of the set before. No wait for any of
/// the sets is possible, because each would wait for a function that the thread runs.
#[test]
fn waits_for_tasks_whose_functions_lie_further_out_are_refused() -> Result<()> {
    /// Submits a task to the first tasks whose function waits for the second ones, and so on.
    fn nest(all: &[Tasks], depth: usize, send: Sender<[Result<()>; 3]>) -> Result<()> {
        let (sets, tasks) = (all.to_vec(), &all[depth]);
        let x = all[0].alloc::<u8>(8)?;
        tasks.task(()).run(move |_, ()| {
            if depth + 1 < sets.len() {
                return nest(&sets, depth + 1, send);
            }
            let outer = &sets[0];
            let own = outer.task(x.read()).run(|_, _| Ok(()))?;
            let waits = [outer.finish(), outer.wait(own), outer.take(x).map(drop)];
            send.send(waits).expect("the test receives");
            Ok(())
        })?;
        tasks.finish()
    }
    for count in [2, 3, 8] {
        let device = device(Order::Greedy)?;
        let sets: Vec<Tasks> = (0..count).map(|_| device.tasks()).collect();
        let ((send, waits), (end, ended)) = (channel(), channel());
        spawn(move || end.send(nest(&sets, 0, send)).expect("the test receives"));
        let waits = waits.recv_timeout(PATIENCE).expect("the waits return");
        for wait in waits {
            let kind = wait.map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::InvalidValue), "{count} sets of tasks");
        }
        ended.recv_timeout(PATIENCE).expect("the outermost wait returns")?;
    }
    Ok(())
}

/// The library tells eight sets of tasks apart, and refuses waits that lie deeper.
#[test]
fn waits_in_functions_of_any_depth_end() -> Result<()> {
    fn nest(all: &[Tasks]) -> Result<()> {
        let Some((tasks, inner)) = all.split_first() else { return Ok(()) };
        let inner = inner.to_vec();
        tasks.task(()).run(move |_, ()| nest(&inner))?;
        tasks.finish()
    }
    let device = device(Order::Greedy)?;
    for (count, expected) in [(8, Ok(())), (9, Ok(())), (40, Err(ErrorKind::InvalidValue))] {
        let sets: Vec<Tasks> = (0..count).map(|_| device.tasks()).collect();
        let (end, ended) = channel();
        spawn(move || end.send(nest(&sets)).expect("the test receives"));
        let ended = ended.recv_timeout(PATIENCE).expect("the outermost wait returns");
        assert_eq!(ended.map_err(|error| error.kind()), expected, "{count} sets of tasks");
    }
    Ok(())
}

/// Inside the function of a task, and inside functions of other tasks within it, more tasks may be
/// submitted without a wait than elsewhere.
#[test]
fn submission_to_tasks_whose_functions_lie_further_out_does_not_wait_for_room() -> Result<()> {
    let device = device(Order::Greedy)?;
    let (tasks, others) = (device.tasks(), device.tasks());
    let (own, inner) = (tasks.clone(), others.clone());
    tasks.task(()).run(move |_, ()| {
        inner.task(()).run(move |_, ()| {
            (0..5000).try_for_each(|_| own.task(()).run(|_, ()| Ok(())).map(drop))
        })?;
        inner.finish()
    })?;
    let (end, ended) = channel();
    let waiting = tasks.clone();
    spawn(move || end.send(waiting.finish()).expect("the test receives"));
    ended.recv_timeout(PATIENCE).expect("it returns")?;
    assert_eq!(tasks.counts().succeeded, 5001);
    Ok(())
}

/// Each call of tasks that can be refused, and the kind of its error.
fn kinds(
    device: &Device,
    tasks: &Tasks,
    (x, y, h): (Data<f32>, Data<f32>, Data<f32, PageLocked>),
    (task, workers): (TaskId, &Workers),
) -> Vec<(&'static str, Option<ErrorKind>)> {
    let parts = (x.update(), y.update_range(..2), y.update_range(2..4), y.update_range(4..));
    let bind =
        tasks.task(parts).bind(&VECTORS, RunOptions::default(), |program, all| program.run(all));
    let fields = vectors::fields(0, 0, (0, 8), 1.0);
    let on_workers = tasks.task(x.write()).on_workers(workers, vectors::FILL, &fields);
    let calls = [
        ("run", tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 9.0)).map(drop)),
        ("reduce", tasks.task(x.reduce(Sum)).run(|_, _| Ok(())).map(drop)),
        ("host", tasks.task(h.write()).host(|_| Ok(())).map(drop)),
        ("bind", bind.map(drop)),
        ("on_workers", on_workers.map(drop)),
        ("copy", tasks.copy(x.read(), h.write()).map(drop)),
        ("region", tasks.region(|_| Ok(()))),
        ("alloc", tasks.alloc::<u8>(8).map(drop)),
        ("alloc_on", tasks.alloc_on::<u8>(0, 8).map(drop)),
        ("over", Tasks::over(std::slice::from_ref(device)).map(drop)),
        ("explain", tasks.explain(task, task).map(drop)),
        ("wait", tasks.wait(task)),
        ("finish", tasks.finish()),
        ("take", tasks.take(x).map(drop)),
        ("take of host memory", tasks.take(h).map(drop)),
    ];
    calls.map(|(name, call)| (name, call.err().map(|error| error.kind()))).into()
}

/// A host function issues nothing. So no task of other threads runs inside it, where its launches
/// would fail.
#[test]
fn calls_inside_a_host_function_are_refused_and_harm_no_task() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let tasks = device.tasks();
    let (x, y) = (tasks.alloc::<f32>(8)?, tasks.alloc::<f32>(8)?);
    let h = tasks.data(device.pinned::<f32>(8)?);
    let parts = (x.update(), y.update_range(..2), y.update_range(2..4), y.update_range(4..));
    let workers =
        tasks.task(parts).bind(&VECTORS, RunOptions::default(), |program, all| program.run(all))?;
    let kept = x.clone();
    let innocent = tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 7.0))?;
    let ((send, answers), stream) = (channel(), device.stream()?);
    let (own, all) = (device.clone(), tasks.clone());
    stream.host_fn(move || {
        let is_cancelled = all.cancel(innocent);
        let kinds = kinds(&own, &all, (x, y, h), (innocent, &workers));
        // No drop of a handle or of data issues a task here.
        drop((all, workers));
        send.send((is_cancelled, kinds)).expect("the test receives");
    })?;
    stream.synchronize()?;
    let (is_cancelled, kinds) = answers.recv_timeout(PATIENCE).expect("the function sends");
    assert!(!is_cancelled, "it could not be issued without it");
    for (name, kind) in kinds {
        assert_eq!(kind, Some(ErrorKind::InCallback), "{name}");
    }
    tasks.finish()?;
    assert_eq!(stream.download(&tasks.take(kept)?)?, [7.0; 8]);
    Ok(())
}

/// The function of a task in a region is recorded. So it may not run the functions of other tasks,
/// which must run at once.
#[test]
fn tasks_that_a_region_submits_to_other_tasks_are_not_recorded() -> Result<()> {
    let device = device(Order::Greedy)?;
    let (tasks, others) = (device.tasks(), device.tasks_with(TaskOptions::new().look_ahead(0)));
    let (x, y) = (tasks.alloc::<f32>(8)?, others.alloc::<f32>(8)?);
    let (inner, to) = (others.clone(), y.clone());
    tasks.region(|tasks| {
        tasks.task(x.write()).run(move |s, mut x| {
            inner.task(to.write()).run(|s, mut y| s.fill(&mut y, 2.0))?;
            s.fill(&mut x, 1.0)
        })
    })?;
    tasks.finish()?;
    others.finish()?;
    let stream = device.stream()?;
    assert_eq!(stream.download(&tasks.take(x)?)?, [1.0; 8]);
    assert_eq!(stream.download(&others.take(y)?)?, [2.0; 8]);
    Ok(())
}
