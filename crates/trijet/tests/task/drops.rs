//! Values of the functions of tasks are dropped where the drop may use the tasks: under no lock,
//! and whatever became of the task.

use crate::{PATIENCE, device, devices};
use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::thread::spawn;
use trijet::sim::Order;
use trijet::task::{Data, TaskId, Tasks};
use trijet::workers::RunOptions;
use trijet::{Error, ErrorKind, Result};
use trijet_programs::vectors::{self, VECTORS};

const LEN: usize = 8;

/// When it is dropped, it uses the tasks, which takes their lock, and reports that the call
/// returned.
struct Asks {
    tasks: Tasks,
    returned: Sender<()>,
}

impl Asks {
    fn are_there(&self) -> Result<()> {
        let submitted = self.tasks.counts().submitted;
        if submitted == u64::MAX { Err(broken()) } else { Ok(()) }
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        let _counts = self.tasks.counts();
        // A test that has failed does not receive.
        let _received = self.returned.send(());
    }
}

impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it asks")
    }
}

impl fmt::Display for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it asks")
    }
}

impl std::error::Error for Asks {}

fn broken() -> Error {
    Error::new(ErrorKind::InvalidValue, "test", "it is broken")
}

/// Leaves a task. Only the tasks hold the data `x` of it.
type Way = fn(&Tasks, Data<f32>, Asks) -> Result<()>;

fn demand_refused(submitted: &Result<TaskId>) -> Result<()> {
    assert_eq!(submitted.as_ref().map_err(Error::kind), Err(ErrorKind::InvalidValue));
    Ok(())
}

const WAYS: [(&str, Way); 12] = [
    ("its data were taken", |tasks, x, asks| {
        let late = x.read();
        drop(tasks.take(x)?);
        demand_refused(&tasks.task(late).run(move |_, _| asks.are_there()))
    }),
    ("its data were taken, in a region", |tasks, x, asks| {
        let late = x.read();
        drop(tasks.take(x)?);
        tasks.region(|tasks| demand_refused(&tasks.task(late).run(move |_, _| asks.are_there())))
    }),
    ("its data were taken, on the host", |tasks, x, asks| {
        drop(x);
        let h = tasks.data(trijet::Device::open(trijet::Select::Host(0))?.pinned::<f32>(LEN)?);
        let late = h.read();
        drop(tasks.take(h)?);
        demand_refused(&tasks.task(late).host(move |_| asks.are_there()))
    }),
    ("it ran", |tasks, x, asks| tasks.task(x.write()).run(move |_, _| asks.are_there()).map(drop)),
    ("it failed", |tasks, x, asks| {
        let task = tasks.task(x.write());
        task.run(move |_, _| asks.are_there().and_then(|()| Err(broken()))).map(drop)
    }),
    ("it failed with a value of the program", |tasks, x, asks| {
        let task = tasks.task(x.write());
        task.run(move |_, _| Err(broken().caused_by(asks))).map(drop)
    }),
    ("it panicked", |tasks, x, asks| {
        let run = move |_: &trijet::Stream, _: trijet::ViewMut<'_, f32>| -> Result<()> {
            let _asks = &asks;
            panic!("as the test wants it")
        };
        tasks.task(x.write()).run(run).map(drop)
    }),
    ("it was cancelled", |tasks, x, asks| {
        let task = tasks.task(x.write()).run(move |_, _| asks.are_there())?;
        drop(x);
        assert!(tasks.cancel(task));
        Ok(())
    }),
    ("what it reads has no value", |tasks, x, asks| {
        tasks.task(x.write()).run(|_, _| Err(broken()))?;
        tasks.task(x.read()).run(move |_, _| asks.are_there()).map(drop)
    }),
    ("its region is not a graph", |tasks, x, asks| {
        tasks.task(x.write()).run(|_, _| Err(broken()))?;
        tasks.region(|tasks| {
            tasks.task(()).host(|()| Ok(()))?;
            tasks.task(x.read()).run(move |_, _| asks.are_there()).map(drop)
        })
    }),
    ("another task of its region failed", |tasks, x, asks| {
        tasks.region(|tasks| {
            tasks.task(x.write()).run(|_, _| Err(broken()))?;
            tasks.task(x.read()).run(move |_, _| asks.are_there()).map(drop)
        })
    }),
    ("nothing else has its program for workers", |tasks, x, asks| {
        let y = tasks.alloc::<f32>(LEN)?;
        let rest = (y.update_range(..1), y.update_range(1..2), y.update_range(2..));
        let all = (x.update(), rest.0, rest.1, rest.2);
        let workers =
            tasks.task(all).bind(&VECTORS, RunOptions::default(), move |program, all| {
                asks.are_there()?;
                program.run(all)
            })?;
        let fields = vectors::fields(0, 0, (0, LEN), 1.0);
        tasks.task(x.write()).on_workers(&workers, vectors::FILL, &fields).map(drop)
    }),
];

#[test]
fn values_of_the_program_and_last_handles_of_data_are_dropped_under_no_lock() -> Result<()> {
    for (what, way) in WAYS {
        let tasks = device(Order::Greedy)?.tasks();
        let x = tasks.alloc::<f32>(LEN)?;
        let ((returned, has_returned), (ended, has_ended)) = (channel(), channel());
        let asks = Asks { tasks: tasks.clone(), returned };
        spawn(move || {
            let left = way(&tasks, x, asks);
            // Some of the tasks fail.
            let _failed = tasks.finish();
            ended.send(left).expect("the test waits");
        });
        let left = has_ended.recv_timeout(PATIENCE);
        left.unwrap_or_else(|_| panic!("{what}: it hangs"))?;
        has_returned.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: it is not dropped"));
    }
    Ok(())
}

/// The copies that were to bring the data home do not run, and leave nothing.
#[test]
fn data_without_a_value_are_gone_when_they_cannot_be_taken() -> Result<()> {
    let (gone, is_gone) = channel();
    let devices = devices(2, Order::Greedy)?;
    let tasks = Tasks::over(&devices)?;
    let memory = vec![0_u8; LEN].into_boxed_slice();
    let address = memory.as_ptr().expose_provenance() as u64;
    let owner = (memory, Asks { tasks: tasks.clone(), returned: gone });
    // SAFETY: the memory of the host device is memory of this process, and the box moves into the
    // buffer, so no other code reaches its elements.
    let x = tasks.data(unsafe { devices[0].buffer_from_raw::<u8>(address, LEN, owner)? });
    tasks.task(x.write()).on(1).run(|_, _| Err(broken()))?;
    assert!(tasks.finish().is_err());
    assert!(tasks.take(x).is_err());
    is_gone.recv_timeout(PATIENCE).expect("the memory is given back");
    Ok(())
}

/// Neither the function of a task nor the drop of a value that the task leaves may wait for the
/// tasks.
#[test]
fn a_drop_of_what_did_not_run_may_not_wait_for_the_tasks() -> Result<()> {
    struct Waits(Tasks, Sender<Result<()>>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.1.send(self.0.finish()).expect("the test receives");
        }
    }
    let tasks = device(Order::Greedy)?.tasks();
    let (send, ended) = channel();
    let waits = Waits(tasks.clone(), send);
    let task = tasks.task(()).run(move |_, ()| {
        let _waits = &waits;
        Ok(())
    })?;
    assert!(tasks.cancel(task));
    let ended = ended.recv_timeout(PATIENCE).expect("it is dropped");
    assert_eq!(ended.map_err(|error| error.kind()), Err(ErrorKind::InvalidValue));
    Ok(())
}
