//! Tasks on several devices: the copies that are made, and the waits.

use crate::demand_clean;
use trijet::kernels::AXPY;
use trijet::sim::{HostConfig, Order};
use trijet::task::{Data, TaskOptions, Tasks};
use trijet::trace::OpKind;
use trijet::{Device, Error, ErrorKind, Result};

const LEN: usize = 64;

fn filled(tasks: &Tasks, place: usize, value: f32) -> Result<Data<f32>> {
    let x = tasks.alloc_on::<f32>(place, LEN)?;
    tasks.task(x.write()).run(move |s, mut x| s.fill(&mut x, value))?;
    Ok(x)
}

/// Several devices hold the same data, and each reads its own copy.
#[test]
fn data_that_several_devices_read_are_copied_once_to_each() -> Result<()> {
    let devices = crate::devices(3, Order::Greedy)?;
    let tasks = Tasks::over(&devices)?;
    let x = filled(&tasks, 0, 1.0)?;
    let sums: Vec<Data<f32>> =
        (0..3).map(|place| filled(&tasks, place, 0.0)).collect::<Result<_>>()?;
    for _ in 0..5 {
        for sum in &sums {
            // Without a device, a task runs on the device of the data that it writes.
            tasks.task((x.read(), sum.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
        }
    }
    tasks.finish()?;
    let counts = tasks.counts();
    assert_eq!((counts.transfers, counts.transferred.0), (2, 2 * 4 * LEN as u64));
    for (sum, device) in sums.into_iter().zip(&devices) {
        assert_eq!(device.stream()?.download(&tasks.take(sum)?)?, [5.0; LEN]);
    }
    demand_clean(&devices[0]);
    Ok(())
}

/// The copies of data on other devices have their name in traces and findings.
#[test]
fn copies_of_data_have_the_name_of_the_data() -> Result<()> {
    let devices = crate::devices(2, Order::Greedy)?;
    let tasks = Tasks::over(&devices)?;
    let stream = devices[1].stream()?;
    let x = tasks.data(devices[0].stream()?.alloc::<f32>(LEN)?.named("weights"));
    tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 1.0))?;
    let y = filled(&tasks, 1, 0.0)?;
    tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
    tasks.finish()?;
    devices[1].start_trace(&stream)?;
    let named = devices[1].take_trace()?.ops.into_iter().filter(|op| op.label == "weights");
    let blocks: Vec<OpKind> = named.map(|op| op.kind).collect();
    assert_eq!(blocks.len(), 2, "{blocks:?}");
    assert_ne!(blocks[0], blocks[1]);
    Ok(())
}

#[test]
fn only_the_bytes_that_were_written_elsewhere_are_copied_again() -> Result<()> {
    let devices = crate::devices(2, Order::Seeded(3))?;
    let tasks = Tasks::over(&devices)?;
    let x = filled(&tasks, 0, 1.0)?;
    let y = filled(&tasks, 1, 0.0)?;
    let add = || tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)));
    add()?;
    tasks.task(x.write_range(8..10)).on(0).run(|s, mut x| s.fill(&mut x, 3.0))?;
    // Bytes that are overwritten need no copy of their old values.
    tasks.task(x.write_range(20..30)).on(1).run(|s, mut x| s.fill(&mut x, 5.0))?;
    add()?;
    tasks.finish()?;
    assert_eq!((tasks.counts().transfers, tasks.counts().transferred.0), (2, 4 * (LEN as u64 + 2)));
    let mut expected = [2.0; LEN];
    expected[8..10].fill(4.0);
    expected[20..30].fill(6.0);
    assert_eq!(devices[1].stream()?.download(&tasks.take(y)?)?, expected);
    // The buffer is the one of device 0 again, with all values.
    let x = devices[0].stream()?.download(&tasks.take(x)?)?;
    assert_eq!((x[9], x[25], x[40]), (3.0, 5.0, 1.0));
    demand_clean(&devices[0]);
    Ok(())
}

/// A task on one device writes another copy than the one that a task on another device reads.
#[test]
fn a_writer_on_one_device_does_not_wait_for_readers_on_another() -> Result<()> {
    let devices = crate::devices(2, Order::Greedy)?;
    let tasks = Tasks::over_with(&devices, TaskOptions::new().look_ahead(0))?;
    let (x, y) = (filled(&tasks, 0, 1.0)?, filled(&tasks, 0, 0.0)?);
    let read = tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
    let write = tasks.task(x.write()).on(1).run(|s, mut x| s.fill(&mut x, 2.0))?;
    assert_eq!(tasks.explain(read, write)?.to_string(), "nothing orders the tasks");
    assert_eq!(devices[0].stream()?.download(&tasks.take(x)?)?, [2.0; LEN]);
    assert_eq!(devices[0].stream()?.download(&tasks.take(y)?)?, [1.0; LEN]);
    demand_clean(&devices[0]);
    Ok(())
}

#[test]
fn a_failure_on_one_device_reaches_what_reads_its_data_on_another() -> Result<()> {
    let devices = crate::devices(2, Order::Greedy)?;
    let tasks = Tasks::over(&devices)?;
    let (x, y) = (filled(&tasks, 0, 1.0)?, filled(&tasks, 1, 0.0)?);
    let fail = |_: &trijet::Stream, _: trijet::ViewMut<'_, f32>| {
        Err(Error::new(ErrorKind::Io, "disk", "gone"))
    };
    tasks.task(x.update()).named("bad").run(fail)?;
    tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
    let error = tasks.take(y).expect_err("it has no value");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("task `bad`"), "{error}");
    let error = tasks.take(x).expect_err("it has no value");
    assert!(error.to_string().contains("task `bad`"), "{error}");
    assert!(tasks.finish().is_err());
    // The counts include only tasks of the program.
    let counts = tasks.counts();
    assert_eq!((counts.submitted, counts.succeeded, counts.failed, counts.skipped), (4, 2, 1, 1));
    Ok(())
}

#[test]
fn what_is_no_set_of_devices_of_one_driver_is_refused() -> Result<()> {
    let devices = crate::devices(2, Order::Greedy)?;
    let other = Device::host(HostConfig::default())?.remove(0);
    let cause =
        |devices: &[Device]| Tasks::over(devices).map(drop).expect_err("it is refused").to_string();
    assert!(cause(&[]).contains("list of devices is empty"));
    assert!(cause(&[devices[0].clone(), devices[0].clone()]).contains("device 0 is given twice"));
    assert!(cause(&[devices[0].clone(), other]).contains("another driver"));
    let tasks = Tasks::over(&devices)?;
    let task = tasks.task(()).on(2).run(|_, ()| Ok(())).expect_err("there are two");
    assert!(task.to_string().contains("there is no device 2"), "{task}");
    assert!(tasks.alloc_on::<u8>(2, 1).is_err());
    Ok(())
}

/// Copies of one direction are in one stream on each device, and kernels in others.
#[test]
fn copies_have_a_stream_for_each_direction() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(0));
    let mut all = Vec::new();
    for _ in 0..6 {
        let h = tasks.data(device.pinned::<f32>(LEN)?);
        tasks.task(h.write()).host(|mut h| {
            h.fill(2.0);
            Ok(())
        })?;
        let x = tasks.alloc::<f32>(LEN)?;
        let up = tasks.copy(h.read(), x.write())?;
        let y = filled(&tasks, 0, 1.0)?;
        tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
        let down = tasks.copy(y.read(), h.write())?;
        all.push((h, up, down));
    }
    tasks.finish()?;
    let text = tasks.dot();
    let stream = |task| {
        let label = format!("{task:?}");
        let number = label
            .rsplit("number: ")
            .next()
            .and_then(|rest| rest.split(' ').next())
            .expect("a number");
        let line =
            text.lines().find(|line| line.contains(&format!("  t{number} ["))).expect("its line");
        line.rsplit("stream ").next().expect("its stream").to_owned()
    };
    let ups: Vec<String> = all.iter().map(|(_, up, _)| stream(*up)).collect();
    let downs: Vec<String> = all.iter().map(|(.., down)| stream(*down)).collect();
    assert!(
        ups.iter().all(|one| *one == ups[0]) && downs.iter().all(|one| *one == downs[0]),
        "{text}"
    );
    assert_ne!(ups[0], downs[0]);
    for (h, ..) in all {
        assert_eq!(*tasks.take(h)?.read()?, [3.0; LEN]);
    }
    demand_clean(&device);
    Ok(())
}
