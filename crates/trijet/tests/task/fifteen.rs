//! The expectations of users of task systems, a test for each.

use crate::demand_clean;
use crate::programs::{compare, draw};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use trijet::kernels::{AXPY, Sum};
use trijet::sim::{HostConfig, Order};
use trijet::task::{Data, Hazard, TaskOptions, Tasks};
use trijet::{Bytes, Device, Error, ErrorKind, HeapMode, Result};

const LEN: usize = 64;

fn filled(tasks: &Tasks, value: f32) -> Result<Data<f32>> {
    let x = tasks.alloc::<f32>(LEN)?;
    tasks.task(x.write()).run(move |s, mut x| s.fill(&mut x, value))?;
    Ok(x)
}

fn found(device: &Device, tasks: &Tasks, x: Data<f32>) -> Result<Vec<f32>> {
    device.stream()?.download(&tasks.take(x)?)
}

#[test]
fn b01_the_result_is_that_of_the_tasks_one_after_another() -> Result<()> {
    for seed in 1_000_000..1_000_050 {
        let devices = crate::devices(2, Order::Seeded(seed))?;
        compare(&devices, &draw(seed), &format!("seed {seed}"))?;
        demand_clean(&devices[0]);
    }
    Ok(())
}

#[test]
fn b02_parts_are_read_written_updated_and_reduced_without_false_order() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 2.0)?);
    let half = LEN / 2;
    let low = tasks.task((x.read_range(..half), y.update_range(..half)));
    let low = low.run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
    let high = tasks.task((x.read_range(half..), y.reduce_range(half.., Sum)));
    let high = high.run(|s, (x, part)| s.launch(&AXPY, (3.0, x, part)))?;
    assert_eq!(tasks.explain(low, high)?.to_string(), "nothing orders the tasks");
    let expected = [[3.0; LEN / 2], [5.0; LEN / 2]].concat();
    assert_eq!(found(&device, &tasks, y)?, expected);
    Ok(())
}

#[test]
fn b03_a_writer_comes_after_all_readers_and_the_writer_before() -> Result<()> {
    let device = crate::device(Order::Seeded(3))?;
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(0));
    let x = filled(&tasks, 1.0)?;
    let sums: Vec<Data<f32>> = (0..12).map(|_| filled(&tasks, 0.0)).collect::<Result<_>>()?;
    let add = |y: &Data<f32>| {
        tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))
    };
    let readers = sums.iter().map(add).collect::<Result<Vec<_>>>()?;
    let writer = tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 9.0))?;
    for reader in readers {
        let why = tasks.explain(reader, writer)?;
        let trijet::task::Explanation::Data(steps) = why else { panic!("{why}") };
        assert_eq!(steps[0].hazard, Hazard::War);
    }
    for y in sums {
        assert_eq!(found(&device, &tasks, y)?, [1.0; LEN]);
    }
    demand_clean(&device);
    Ok(())
}

#[test]
fn b04_submission_waits_for_room_only_and_a_wait_for_oneself_is_refused() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let go = Arc::new(AtomicBool::new(false));
    let h = tasks.data(device.pinned::<u32>(1)?);
    let gate = Arc::clone(&go);
    tasks.task(h.write()).host(move |mut h| {
        while !gate.load(SeqCst) {
            thread::yield_now();
        }
        h[0] = 0;
        Ok(())
    })?;
    // All of them wait for the first one, and all are submitted meanwhile.
    for _ in 0..4000 {
        tasks.task(h.update()).host(|mut h| {
            h[0] += 1;
            Ok(())
        })?;
    }
    go.store(true, SeqCst);
    // More than the limit: this waits until there is room.
    for _ in 0..4000 {
        tasks.task(h.update()).host(|mut h| {
            h[0] += 1;
            Ok(())
        })?;
    }
    let inner = tasks.clone();
    let own = tasks.task(()).run(move |_, ()| inner.finish())?;
    let error = tasks.wait(own).expect_err("it would wait for itself");
    assert!(error.to_string().contains("would wait for its own task"), "{error}");
    assert_eq!(tasks.take(h)?.read()?[0], 8000);
    Ok(())
}

#[test]
fn b05_a_wait_that_another_one_implies_is_not_made() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
    tasks.finish()?;
    let before = device.ordering().waits;
    for _ in 0..100 {
        tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
    }
    tasks.finish()?;
    assert_eq!(device.ordering().waits, before, "a chain waits for nothing");
    assert_eq!(found(&device, &tasks, y)?, [100.0; LEN]);
    Ok(())
}

/// `captures::the_same_tasks_run_in_streams_as_graphs_and_in_captures` has the capture.
#[test]
fn b06_the_same_functions_run_in_streams_as_graphs_and_in_a_given_stream() -> Result<()> {
    let device = crate::device(Order::Seeded(6))?;
    let stream = Arc::new(device.stream()?);
    for way in 0..3 {
        let tasks = if way == 2 { device.tasks_in(&stream) } else { device.tasks() };
        let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
        let submit = |tasks: &Tasks| {
            tasks
                .task((x.read(), y.update()))
                .run(|s, (x, y)| s.launch(&AXPY, (2.0, x, y)))
                .map(drop)
        };
        for _ in 0..3 {
            if way == 1 { tasks.region(submit)? } else { submit(&tasks)? }
        }
        assert_eq!(found(&device, &tasks, y)?, [6.0; LEN]);
    }
    demand_clean(&device);
    Ok(())
}

#[test]
fn b07_a_repeated_region_is_replayed_with_its_changes() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
    for step in 0_u8..50 {
        tasks.region(|tasks| {
            for at in 0..10 {
                // One launch of ten has another value.
                let a = if at == 0 { f32::from(step) } else { 1.0 };
                let task = tasks.task((x.read(), y.update()));
                task.run(move |s, (x, y)| s.launch(&AXPY, (a, x, y)))?;
            }
            Ok(())
        })?;
    }
    let counts = tasks.counts();
    // The value of the second step is that of the first one plus one, and so on.
    assert_eq!((counts.graphs, counts.replays, counts.patched), (1, 49, 49));
    assert_eq!(found(&device, &tasks, y)?, [1225.0 + 450.0; LEN]);
    Ok(())
}

#[test]
fn b08_memory_follows_the_order_of_streams_and_its_end_is_an_error_with_a_kind() -> Result<()> {
    let config = HostConfig::new().memory(Bytes(64 << 20));
    let device = Device::host(config)?.remove(0);
    device.set_heap_mode(HeapMode::Footprint)?;
    let tasks = device.tasks();
    // More than the limit, one after another, without a wait between.
    for _ in 0..64 {
        let x = tasks.alloc::<u8>(4 << 20)?;
        tasks.task(x.write()).run(|s, mut x| s.fill_bytes(&mut x, 1))?;
    }
    let kept: Vec<Result<Data<u8>>> = (0..20).map(|_| tasks.alloc::<u8>(4 << 20)).collect();
    let error = kept.into_iter().find_map(Result::err).expect("there is no room for twenty");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    tasks.finish()
}

/// `devices::copies_have_a_stream_for_each_direction` looks at the streams.
#[test]
fn b09_copies_and_kernels_of_different_chunks_are_in_different_streams() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks_with(TaskOptions::new().look_ahead(0));
    let mut landed = Vec::new();
    for chunk in 0_u8..6 {
        let mut source = device.pinned::<f32>(LEN)?;
        source.write()?.fill(f32::from(chunk));
        let (source, target) = (tasks.data(source), tasks.data(device.pinned::<f32>(LEN)?));
        let (x, y) = (tasks.alloc::<f32>(LEN)?, filled(&tasks, 1.0)?);
        tasks.copy(source.read(), x.write())?;
        tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
        tasks.copy(y.read(), target.write())?;
        landed.push(target);
    }
    for (chunk, target) in (0_u8..).zip(landed) {
        assert_eq!(*tasks.take(target)?.read()?, [f32::from(chunk) + 1.0; LEN]);
    }
    demand_clean(&device);
    Ok(())
}

#[test]
fn b10_devices_have_the_values_that_others_wrote() -> Result<()> {
    let devices = crate::devices(4, Order::Seeded(10))?;
    let tasks = Tasks::over(&devices)?;
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
    for step in 0..12 {
        let task = tasks.task((x.read(), y.update())).on(step % 4);
        task.run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
    }
    // `x` is copied once to each other device, and `y` goes from one to the next.
    tasks.finish()?;
    assert_eq!(tasks.counts().transfers, 3 + 11);
    assert_eq!(found(&devices[0], &tasks, y)?, [12.0; LEN]);
    demand_clean(&devices[0]);
    Ok(())
}

#[test]
fn b11_tasks_on_the_host_may_use_the_library_and_submit() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, h) = (filled(&tasks, 2.0)?, tasks.data(device.pinned::<f32>(LEN)?));
    tasks.copy(x.read(), h.write())?;
    let (inner, own, target) = (tasks.clone(), device.clone(), x.clone());
    let outer = tasks.task(h.update()).host(move |mut h| {
        let sum = own.stream()?.upload(&[1.0_f32; 4])?;
        h[0] += own.stream()?.download(&sum)?.iter().sum::<f32>();
        inner.task(target.write()).run(|s, mut x| s.fill(&mut x, 3.0)).map(drop)
    })?;
    tasks.wait(outer)?;
    assert_eq!(found(&device, &tasks, x)?, [3.0; LEN]);
    assert_eq!(tasks.take(h)?.read()?[..2], [6.0, 2.0]);
    Ok(())
}

#[test]
fn b12_buffers_and_streams_of_the_program_enter_and_leave() -> Result<()> {
    let device = crate::device(Order::Seeded(12))?;
    let stream = Arc::new(device.stream()?);
    let mut x = stream.alloc::<f32>(LEN)?;
    stream.fill(&mut x, 1.0)?;
    // Pending work comes before, and later work on the buffer comes after.
    let tasks = device.tasks();
    let data = tasks.data(x);
    tasks.task(data.update()).run(|s, mut x| s.fill(&mut x.reborrow().slice(..1), 5.0))?;
    let x = tasks.take(data)?;
    assert_eq!(stream.download(&x)?[..2], [5.0, 1.0]);
    // In a stream of the program, only the later work of the stream waits for the tasks.
    let tasks = device.tasks_in(&stream);
    let data = tasks.data(x);
    tasks.task(data.update()).run(|s, mut x| s.fill(&mut x, 7.0))?;
    let x = tasks.take(data)?;
    drop(tasks);
    assert_eq!(stream.download(&x)?, [7.0; LEN]);
    demand_clean(&device);
    Ok(())
}

#[test]
fn b13_a_failing_task_takes_its_dependents_along_and_no_others() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let (x, y, z) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?, filled(&tasks, 0.0)?);
    tasks
        .task(x.update())
        .named("bad")
        .run(|_, _| -> Result<()> { panic!("as the test wants it") })?;
    tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
    tasks.task(z.update()).run(|s, mut z| s.fill(&mut z, 4.0))?;
    assert_eq!(found(&device, &tasks, z)?, [4.0; LEN]);
    let error: Error = tasks.take(y).expect_err("it has no value");
    assert_eq!(error.kind(), ErrorKind::Panicked);
    assert!(error.to_string().contains("`bad`"), "{error}");
    Ok(())
}

#[test]
fn b14_threads_submit_at_once_and_functions_run_under_no_lock() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks();
    let ran = Arc::new(AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let x = tasks.alloc::<f32>(LEN).expect("there is room");
                for _ in 0..50 {
                    let (inner, ran) = (tasks.clone(), Arc::clone(&ran));
                    let task = tasks.task(x.update()).run(move |s, mut x| {
                        // A call that needs the lock.
                        assert!(inner.counts().submitted > 0);
                        ran.fetch_add(1, SeqCst);
                        s.fill(&mut x, 1.0)
                    });
                    task.expect("it is submitted");
                }
            });
        }
    });
    tasks.finish()?;
    assert_eq!(ran.load(SeqCst), 200);
    demand_clean(&device);
    Ok(())
}

#[test]
fn b15_names_edges_and_the_reasons_of_waits_can_be_seen() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let s = device.stream()?;
    device.start_trace(&s)?;
    let tasks = device.tasks();
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
    let add = tasks.task((x.read(), y.update())).named("add");
    let add = add.run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
    let last = tasks.task(x.write()).named("last").run(|s, mut x| s.fill(&mut x, 0.0))?;
    tasks.finish()?;
    let (dot, why) = (tasks.dot(), tasks.explain(add, last)?);
    assert!(dot.contains("add #3") && dot.contains("-> t4 [label=\"write after read"), "{dot}");
    assert!(why.remedy().expect("there is one").contains("a separate buffer"), "{why}");
    let trace = device.take_trace()?;
    let here = |op: &&trijet::trace::Op| {
        op.site.as_ref().is_some_and(|site| site.to_string().contains("fifteen.rs"))
    };
    assert!(
        trace.ops.iter().filter(here).count() >= 4,
        "operations are found where functions enqueue them"
    );
    Ok(())
}
