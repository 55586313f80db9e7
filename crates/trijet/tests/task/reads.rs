//! The check that tasks do not write what they declare to read.

use trijet::kernels::AXPY;
use trijet::sim::Order;
use trijet::task::{Data, TaskOptions, Tasks};
use trijet::{ErrorKind, Result};

const LEN: usize = 100;

fn filled(tasks: &Tasks, value: f32) -> Result<Data<f32>> {
    let x = tasks.alloc::<f32>(LEN)?;
    tasks.task(x.write()).run(move |s, mut x| s.fill(&mut x, value))?;
    Ok(x)
}

#[test]
fn a_task_that_writes_what_it_declared_to_read_is_found_with_the_bytes() -> Result<()> {
    let device = crate::device(Order::Greedy)?;
    let tasks = device.tasks_with(TaskOptions::new().check_reads());
    let (x, y) = (filled(&tasks, 1.0)?, filled(&tasks, 0.0)?);
    let line = line!() + 1;
    tasks.task(x.read_range(10..)).run(|s, x| {
        let fifth = x.address() + 4 * size_of::<f32>() as u64;
        s.host_fn(move || {
            // SAFETY: the memory of this device is memory of the host, the task has a share in it,
            // and nothing else uses the bytes meanwhile. The task does not declare the write; the
            // test checks that this is found.
            unsafe { *(fifth as *mut f32) = 5.0 };
        })
    })?;
    let error = tasks.finish().expect_err("it wrote");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    let text = error.to_string();
    assert!(text.contains(&format!("reads.rs:{line}")), "{text}");
    assert!(text.contains("wrote bytes 58 to 60 of data 0"), "{text}");
    // The error is reported once, and right tasks are right.
    tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))?;
    tasks.region(|tasks| {
        tasks.task((x.read(), y.update())).run(|s, (x, y)| s.launch(&AXPY, (1.0, x, y)))
    })?;
    tasks.finish()?;
    assert_eq!(device.stream()?.download(&tasks.take(y)?)?[..10], [2.0; 10]);
    Ok(())
}
