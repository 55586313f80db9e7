//! Tasks.

use super::super::held::{Held, LEN, WRITTEN};
use super::super::rows as row;
use super::verb::{Call, Verb, call};
use trijet::probe::refuse_in_child;
use trijet::task::{Data, TaskId, TaskOptions, Tasks, Workers};
use trijet::workers::RunOptions;
use trijet::{Error, ErrorKind, Result};
use trijet_programs::vectors::{self, VECTORS};

/// New tasks of the device, with data and a task that may be held back.
struct Prepared {
    tasks: Tasks,
    x: Data<u8>,
    first: TaskId,
}

fn prepared(held: &Held) -> Result<Prepared> {
    let tasks = held.device.tasks();
    let x = tasks.alloc::<u8>(LEN)?;
    let first = tasks.task(x.write()).named("first").run(|s, mut x| s.fill_bytes(&mut x, 1))?;
    Ok(Prepared { tasks, x, first })
}

fn with(
    held: &Held,
    run: impl FnOnce(Prepared, &mut Held) -> Result<()> + Send + 'static,
) -> Result<Call> {
    let prepared = prepared(held)?;
    call(move |h, _| run(prepared, h))
}

/// Demands the bytes that a task has written.
fn demand(tasks: &Tasks, x: Data<u8>, held: &Held) -> Result<()> {
    let x = tasks.take(x)?;
    assert_eq!(held.device.stream()?.download(&x)?, [WRITTEN; LEN]);
    Ok(())
}

fn arrays(held: &Held) -> Result<(Tasks, [Data<f32>; 4])> {
    let tasks = held.device.tasks();
    let array = || tasks.alloc::<f32>(LEN);
    let arrays = [array()?, array()?, array()?, array()?];
    Ok((tasks, arrays))
}

fn bound(tasks: &Tasks, [a, b, c, d]: [&Data<f32>; 4]) -> Result<Workers> {
    let uses = (a.update(), b.update(), c.update(), d.update());
    let options = RunOptions::new().workers(2);
    tasks.task(uses).bind(&VECTORS, options, |program, (a, b, c, d)| program.run((a, b, c, d)))
}

/// The verbs.
pub(super) const VERBS: &[Verb] = &[
    Verb::new("Tasks::alloc", row::OWN_STREAMS, |h| {
        with(h, |Prepared { tasks, .. }, _| tasks.alloc::<u8>(LEN).map(drop))
    }),
    Verb::new("Tasks::alloc_on", row::OWN_STREAMS, |h| {
        with(h, |Prepared { tasks, .. }, _| tasks.alloc_on::<u8>(0, LEN).map(drop))
    }),
    Verb::new("Tasks::data", row::LOCAL, |h| {
        let y = h.other.alloc::<u8>(LEN)?;
        with(h, move |Prepared { tasks, .. }, _| {
            drop(tasks.data(y));
            Ok(())
        })
    }),
    Verb::new("Tasks::task", row::LOCAL, |h| {
        with(h, |Prepared { tasks, x, .. }, _| {
            drop(tasks.task(x.read()));
            Ok(())
        })
    }),
    Verb::new("Task::run", row::SUBMITS, |h| {
        with(h, |Prepared { tasks, x, .. }, _| {
            tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, WRITTEN)).map(drop)
        })
    }),
    Verb::new("Task::run, and its result", row::RESULTS, |h| {
        with(h, |Prepared { tasks, x, .. }, h| {
            tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, WRITTEN))?;
            demand(&tasks, x, h)
        })
    }),
    Verb::new("Task::host", row::SUBMITS, |h| {
        let y = h.device.pinned::<u8>(LEN)?;
        with(h, |Prepared { tasks, .. }, _| {
            let y = tasks.data(y);
            let fill = tasks.task(y.write()).host(|mut y| {
                y.fill(WRITTEN);
                Ok(())
            });
            fill.map(drop)
        })
    }),
    Verb::new("Task::host, and its result", row::WAITS_FOR_TASKS, |h| {
        let y = h.device.pinned::<u8>(LEN)?;
        with(h, |Prepared { tasks, .. }, _| {
            let y = tasks.data(y);
            tasks.task(y.write()).host(|mut y| {
                y.fill(WRITTEN);
                Ok(())
            })?;
            assert_eq!(tasks.take(y)?.read()?[..], [WRITTEN; LEN]);
            Ok(())
        })
    }),
    Verb::new("Task::bind", row::TASKS, |h| {
        let (tasks, [a, b, c, d]) = arrays(h)?;
        call(move |_, _| bound(&tasks, [&a, &b, &c, &d]).map(drop))
    }),
    Verb::new("Task::on_workers", row::SUBMITS, |h| {
        let (tasks, [a, b, c, d]) = arrays(h)?;
        let workers = bound(&tasks, [&a, &b, &c, &d])?;
        call(move |_, _| {
            let fields = vectors::fields(0, 0, (0, LEN), 1.0);
            tasks.task(a.write()).on_workers(&workers, vectors::FILL, &fields).map(drop)
        })
    }),
    Verb::new("BoundProgram::run", row::RESULTS, |h| {
        let (tasks, [a, b, c, d]) = arrays(h)?;
        let workers = bound(&tasks, [&a, &b, &c, &d])?;
        call(move |h, _| {
            let fields = vectors::fields(0, 0, (0, LEN), 1.0);
            tasks.task(a.write()).on_workers(&workers, vectors::FILL, &fields)?;
            let a = tasks.take(a)?;
            assert_eq!(h.device.stream()?.download(&a)?, [1.0; LEN]);
            Ok(())
        })
    }),
    Verb::new("Tasks::copy", row::SUBMITS, |h| {
        let y = h.device.pinned::<u8>(LEN)?;
        with(h, |Prepared { tasks, x, .. }, _| {
            let y = tasks.data(y);
            tasks.copy(y.read(), x.write()).map(drop)
        })
    }),
    Verb::new("Tasks::region", row::SUBMITS, |h| {
        with(h, |Prepared { tasks, x, .. }, _| {
            tasks.region(|tasks| {
                let fill = tasks.task(x.write());
                fill.run(|s, mut x| s.fill(&mut x, WRITTEN)).map(drop)
            })
        })
    }),
    Verb::new("Tasks::region, and its result", row::RESULTS, |h| {
        with(h, |Prepared { tasks, x, .. }, h| {
            tasks.region(|tasks| {
                let fill = tasks.task(x.write());
                fill.run(|s, mut x| s.fill(&mut x, WRITTEN)).map(drop)
            })?;
            demand(&tasks, x, h)
        })
    }),
    Verb::new("Device::tasks", row::LOCAL, |_| {
        call(|h, _| {
            drop(h.device.tasks());
            Ok(())
        })
    }),
    Verb::new("Device::tasks_with", row::LOCAL, |_| {
        call(|h, _| {
            drop(h.device.tasks_with(TaskOptions::new()));
            Ok(())
        })
    }),
    Verb::new("Device::tasks_in", row::LOCAL, |h| {
        let s = std::sync::Arc::new(h.device.stream()?);
        call(move |h, _| {
            drop(h.device.tasks_in(&s));
            Ok(())
        })
    }),
    Verb::new("Tasks::over", row::TASKS, |_| call(|h, _| Tasks::over(&h.devices).map(drop))),
    Verb::new("Tasks::over_with", row::TASKS, |_| {
        call(|h, _| Tasks::over_with(&h.devices, TaskOptions::new()).map(drop))
    }),
    Verb::new("Tasks::take", row::WAITS_FOR_TASKS, |h| {
        with(h, |Prepared { tasks, x, .. }, _| tasks.take(x).map(drop))
    }),
    Verb::new("Tasks::wait", row::WAITS_FOR_TASKS, |h| {
        with(h, |Prepared { tasks, first, .. }, _| tasks.wait(first))
    }),
    Verb::new("Tasks::finish", row::WAITS_FOR_TASKS, |h| {
        with(h, |Prepared { tasks, .. }, _| tasks.finish())
    }),
    Verb::new("Tasks::cancel", row::TASKS, |h| {
        with(h, |Prepared { tasks, first, .. }, _| {
            if tasks.cancel(first) {
                return Ok(());
            }
            // A call that is refused cancels nothing, and returns no error.
            refuse_in_child("cancel")?;
            Err(Error::new(ErrorKind::InCallback, "cancel", "refused"))
        })
    }),
    Verb::new("Tasks::explain", row::TASKS, |h| {
        with(h, |Prepared { tasks, first, .. }, _| tasks.explain(first, first).map(drop))
    }),
    Verb::new("Tasks::dot", row::LOCAL, |h| {
        with(h, |Prepared { tasks, .. }, _| {
            drop(tasks.dot());
            Ok(())
        })
    }),
    Verb::new("Tasks::counts", row::LOCAL, |h| {
        with(h, |Prepared { tasks, .. }, _| {
            let _counts = tasks.counts();
            Ok(())
        })
    }),
    Verb::new("Data::drop", row::LOCAL, |h| {
        with(h, |Prepared { tasks, x, first }, _| {
            drop(x);
            drop((tasks, first));
            Ok(())
        })
    }),
    Verb::new("Tasks::drop", row::LOCAL, |h| {
        with(h, |Prepared { tasks, x, .. }, _| {
            drop((tasks, x));
            Ok(())
        })
    }),
];
