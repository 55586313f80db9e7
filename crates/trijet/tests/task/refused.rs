//! Misuse of tasks: errors that name what is wrong.

use crate::device;
use std::sync::mpsc::channel;
use trijet::sim::Order;
use trijet::{ErrorKind, Result};

#[test]
fn data_of_other_tasks_are_refused() -> Result<()> {
    let device = device(Order::Greedy)?;
    let (tasks, others) = (device.tasks(), device.tasks());
    let x = others.alloc::<u8>(8)?;
    let error = tasks.task(x.read()).run(|_, _| Ok(())).expect_err("it is not theirs");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert!(error.to_string().contains("data 0 belongs to other tasks"), "{error}");
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
