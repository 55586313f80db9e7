//! Handles of tasks in the functions of the same tasks: submitted tasks run, and nothing is left.

use crate::{PATIENCE, device};
use std::sync::mpsc::{Receiver, Sender, channel};
use trijet::sim::{HostConfig, Order};
use trijet::task::{Data, Tasks};
use trijet::{Device, Result};

/// Sends a message when it is dropped.
struct Owner {
    _memory: Box<[u8]>,
    gone: Sender<()>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // A test that has failed does not receive.
        let _received = self.gone.send(());
    }
}

/// Tasks of a device with data, and a receiver that gets a message when the memory of the data is
/// returned.
fn owned() -> Result<(Device, Tasks, Data<u8>, Receiver<()>)> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let memory = vec![0_u8; 8].into_boxed_slice();
    let address = memory.as_ptr().expose_provenance() as u64;
    let (gone, is_gone) = channel();
    let owner = Owner { _memory: memory, gone };
    // SAFETY: the memory of the host device is memory of this process, and only the buffer's owner
    // has the box.
    let buffer = unsafe { device.buffer_from_raw::<u8>(address, 8, owner)? };
    let tasks = device.tasks();
    let x = tasks.data(buffer);
    Ok((device, tasks, x, is_gone))
}

/// Submits a task that is held back, and has a handle. The task sends a message when it runs.
fn submit(tasks: &Tasks, x: &Data<u8>, ran: &Sender<()>) -> Result<()> {
    let (own, ran) = (tasks.clone(), ran.clone());
    let task = tasks.task(x.update()).run(move |_, _| {
        // It enqueues nothing, so the memory goes with the data.
        let _own = &own;
        ran.send(()).expect("the test receives");
        Ok(())
    });
    task.map(drop)
}

#[test]
fn tasks_that_have_a_handle_run_when_the_last_other_one_is_dropped() -> Result<()> {
    let ((device, tasks, x, is_gone), (ran, runs)) = (owned()?, channel());
    submit(&tasks, &x, &ran)?;
    submit(&tasks, &x, &ran)?;
    drop((x, tasks, device));
    for _ in 0..2 {
        runs.recv_timeout(PATIENCE).expect("it runs");
    }
    is_gone.recv_timeout(PATIENCE).expect("the data are gone");
    Ok(())
}

/// The task with a handle may be issued only after that drop: a task on the host holds it back.
#[test]
fn a_task_with_a_handle_runs_also_if_it_is_held_back_at_that_drop() -> Result<()> {
    let ((device, tasks, x, is_gone), (ran, runs)) = (owned()?, channel());
    let h = tasks.data(device.pinned::<u8>(8)?);
    let (go, may_go) = channel::<()>();
    tasks.task(h.write()).host(move |_| {
        may_go.recv().expect("the test sends");
        Ok(())
    })?;
    let own = tasks.clone();
    tasks.task((h.read(), x.write())).run(move |_, _| {
        let _own = &own;
        ran.send(()).expect("the test receives");
        Ok(())
    })?;
    drop((h, x, tasks, device));
    go.send(()).expect("the task receives");
    runs.recv_timeout(PATIENCE).expect("it runs");
    is_gone.recv_timeout(PATIENCE).expect("the data are gone");
    Ok(())
}

#[test]
fn tasks_that_have_a_handle_run_when_a_task_drops_the_last_other_one() -> Result<()> {
    let ((device, tasks, x, is_gone), (ran, runs)) = (owned()?, channel());
    let (give, given) = channel::<Tasks>();
    tasks.task(()).host(move |()| {
        drop(given.recv().expect("the test sends"));
        Ok(())
    })?;
    submit(&tasks, &x, &ran)?;
    drop((x, device));
    give.send(tasks).expect("the task receives");
    runs.recv_timeout(PATIENCE).expect("it runs");
    is_gone.recv_timeout(PATIENCE).expect("the data are gone");
    Ok(())
}

/// Nothing is issued inside the host function: a thread of the library does it.
#[test]
fn tasks_that_have_a_handle_run_when_a_host_function_drops_the_last_other_one() -> Result<()> {
    let ((device, tasks, x, is_gone), (ran, runs)) = (owned()?, channel());
    let (stream, (over, is_over)) = (device.stream()?, channel());
    submit(&tasks, &x, &ran)?;
    stream.host_fn(move || {
        drop((x, tasks));
        over.send(()).expect("the test receives");
    })?;
    is_over.recv_timeout(PATIENCE).expect("the host function ends");
    runs.recv_timeout(PATIENCE).expect("it runs");
    is_gone.recv_timeout(PATIENCE).expect("the data are gone");
    stream.synchronize()
}

/// Two sets of tasks have handles of each other.
#[test]
fn tasks_that_have_handles_of_each_other_run() -> Result<()> {
    let device = device(Order::Greedy)?;
    let (ran, runs) = channel();
    let (left, right) = (device.tasks(), device.tasks());
    for (tasks, other) in [(&left, right.clone()), (&right, left.clone())] {
        let ran = ran.clone();
        tasks.task(()).run(move |_, ()| {
            let _other = &other;
            ran.send(()).expect("the test receives");
            Ok(())
        })?;
    }
    drop((left, right, device));
    for _ in 0..2 {
        runs.recv_timeout(PATIENCE).expect("it runs");
    }
    Ok(())
}
