//! Tasks on threads of the host.

use crate::{demand_clean, device};
use std::sync::mpsc::channel;
use trijet::check::CheckOptions;
use trijet::sim::{HostConfig, Order};
use trijet::task::{Explanation, Hazard, TaskOptions};
use trijet::{Device, Result};

/// A task on the host is no callback of the driver: it may allocate, enqueue, wait, and submit
/// tasks.
#[test]
fn a_task_on_the_host_may_use_the_library() -> Result<()> {
    let device =
        Device::builder().host(HostConfig::default()).check(CheckOptions::default()).open()?;
    let tasks = device.tasks();
    let h = tasks.data(device.pinned::<u32>(64)?);
    let (own, inner, later) = (device.clone(), tasks.clone(), h.clone());
    tasks.task(h.write()).host(move |mut h| {
        let s = own.stream()?;
        let mut x = s.alloc::<u32>(64)?;
        s.fill_bytes(&mut x, 1)?;
        h.copy_from_slice(&s.download(&x)?);
        inner
            .task(later.update())
            .host(|mut h| {
                h.iter_mut().for_each(|value| *value += 1);
                Ok(())
            })
            .map(drop)
    })?;
    tasks.finish()?;
    assert_eq!(&*tasks.take(h)?.read()?, &[0x0101_0102; 64]);
    demand_clean(&device);
    Ok(())
}

/// A task on the host holds back only tasks that need its result. The first one ends only after
/// later tasks ran. If it held them back, they would hang.
#[test]
fn tasks_overtake_one_on_the_host_that_they_do_not_need() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let tasks = device.tasks();
    let (h, g) = (tasks.data(device.pinned::<u8>(8)?), tasks.data(device.pinned::<u8>(8)?));
    let (send, receive) = channel();
    tasks.task(h.write()).host(move |mut h| {
        h.fill(receive.recv().expect("the other one sends"));
        Ok(())
    })?;
    let x = tasks.alloc::<u8>(8)?;
    let need = tasks.task((h.read(), x.write())).run(|s, (h, mut x)| s.copy(&h, &mut x))?;
    tasks.task(g.write()).host(move |_| {
        send.send(7).expect("the first one waits");
        Ok(())
    })?;
    tasks.wait(need)?;
    assert_eq!(device.stream()?.download(&tasks.take(x)?)?, [7; 8]);
    tasks.finish()
}

/// One issued task may let several tasks on the host run. Each gets a thread, although no thread
/// waits for them or submits more. These two wait for each other, and would hang on one thread.
#[test]
fn tasks_on_the_host_that_may_run_at_the_same_time_do() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(1));
    let h = tasks.data(device.pinned::<u8>(8)?);
    // It is held back until another one is submitted.
    tasks.task(h.write()).run(|s, mut h| s.fill_bytes(&mut h, 1))?;
    let ((to_second, from_first), (to_first, from_second)) = (channel(), channel());
    let (done, both) = channel();
    for (to, from) in [(to_second, from_second), (to_first, from_first)] {
        let done = done.clone();
        tasks.task(h.read()).host(move |_| {
            to.send(()).expect("the other one receives");
            from.recv().expect("the other one sends");
            done.send(()).expect("the test receives");
            Ok(())
        })?;
    }
    tasks.task(()).run(|_, ()| Ok(()))?;
    for _ in 0..2 {
        both.recv().expect("both tasks send");
    }
    tasks.finish()
}

/// A writer comes after every reader that has not returned. This holds for the first one of many
/// readers too, more than the library remembers when they are over.
#[test]
fn a_writer_comes_after_a_reader_on_the_host_that_still_runs() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let tasks = device.tasks();
    let h = tasks.data(device.pinned::<u32>(8)?);
    tasks.task(h.write()).host(|mut h| {
        h.fill(1);
        Ok(())
    })?;
    let ((go, may_go), (send, seen)) = (channel::<()>(), channel());
    let slow = tasks.task(h.read()).named("slow").host(move |h| {
        may_go.recv().expect("the test sends");
        send.send(h.to_vec()).expect("the test receives");
        Ok(())
    })?;
    for _ in 0..40 {
        tasks.wait(tasks.task(h.read()).host(|_| Ok(()))?)?;
    }
    let writer = tasks.task(h.write()).host(|mut h| {
        h.fill(2);
        Ok(())
    })?;
    let Explanation::Data(steps) = tasks.explain(slow, writer)? else {
        panic!("the reader holds the writer back")
    };
    assert_eq!((steps.len(), steps[0].hazard), (1, Hazard::War));
    go.send(()).expect("the task receives");
    assert_eq!(seen.recv().expect("the task sends"), [1; 8]);
    assert_eq!(&*tasks.take(h)?.read()?, &[2; 8]);
    tasks.finish()
}

/// Parts of one buffer are written by the host and by the device at once.
#[test]
fn disjoint_parts_are_used_by_the_host_and_by_the_device() -> Result<()> {
    for seed in 0..50 {
        let device = device(Order::Seeded(seed))?;
        let tasks = device.tasks();
        let h = tasks.data(device.pinned::<u8>(64)?);
        let x = tasks.alloc::<u8>(64)?;
        tasks.task(x.write()).run(|s, mut x| s.fill_bytes(&mut x, 9))?;
        for part in 0..4 {
            let range = part * 16..part * 16 + 16;
            if part % 2 == 0 {
                tasks.task(h.write_range(range)).host(move |mut h| {
                    h.fill(u8::try_from(part).expect("few"));
                    Ok(())
                })?;
            } else {
                let uses = (x.read_range(range.clone()), h.write_range(range));
                tasks.task(uses).run(|s, (x, mut h)| s.copy(&x, &mut h))?;
            }
        }
        let h = tasks.take(h)?;
        let expected = [[0u8; 16], [9; 16], [2; 16], [9; 16]].concat();
        assert_eq!(&*h.read()?, &expected, "seed {seed}");
        tasks.finish()?;
        demand_clean(&device);
    }
    Ok(())
}

/// The drop of the last handle does not wait, and the submitted tasks run.
#[test]
fn tasks_run_after_the_drop_of_their_handle() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let tasks = device.tasks();
    let h = tasks.data(device.pinned::<u8>(8)?);
    let ((go, may_go), (send, receive)) = (channel(), channel());
    tasks.task(h.write()).host(move |mut h| {
        may_go.recv().expect("the test sends");
        h.fill(5);
        Ok(())
    })?;
    let x = tasks.alloc::<u8>(8)?;
    tasks.task((h.read(), x.write())).run(|s, (h, mut x)| s.copy(&h, &mut x))?;
    tasks.task((x.read(), h.write())).run(|s, (x, mut h)| s.copy(&x, &mut h))?;
    tasks.task(h.read()).host(move |h| {
        send.send(h.to_vec()).expect("the test receives");
        Ok(())
    })?;
    drop((tasks, h, x));
    go.send(()).expect("the task receives");
    assert_eq!(receive.recv().expect("the task sends"), [5; 8]);
    Ok(())
}
