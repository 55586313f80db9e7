//! Calls from destructors of thread-local storage, which may run when the library's own storage of
//! the thread is gone.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use trijet::check::CheckOptions;
use trijet::sim::{Executor, HostConfig};
use trijet::{Device, Result};

/// Runs when its thread ends.
struct Late(Option<Box<dyn FnOnce()>>);

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

thread_local! {
    static LATE: RefCell<Late> = const { RefCell::new(Late(None)) };
}

/// The owner of the thread's storage that is destroyed first.
#[derive(Debug, Clone, Copy)]
enum First {
    Library,
    Program,
}

/// A call at the end of a thread.
type AtEnd = Box<dyn FnOnce() -> Result<()>>;

/// Prepares a call at the end of a thread.
type Work = fn(&Device) -> Result<AtEnd>;

/// The work of a thread at its end, after `begin`.
fn at_the_end(
    first: First,
    device: &Device,
    work: Work,
) -> std::result::Result<Result<()>, String> {
    let (send, receive) = channel();
    let device = device.clone();
    let thread = std::thread::spawn(move || {
        // Storage is destroyed in the opposite order of its first use.
        if matches!(first, First::Library) {
            LATE.with_borrow(|_| ());
        }
        let late = work(&device).expect("nothing failed");
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(late)).map_err(|payload| {
                // A panic of the payload's drop would end the process.
                let text = payload.downcast_ref::<String>().cloned().unwrap_or_default();
                std::mem::forget(payload);
                text
            });
            send.send(outcome).expect("the test waits");
        };
        LATE.with_borrow_mut(|late| late.0 = Some(Box::new(run)));
    });
    let outcome = receive.recv().expect("the thread ends");
    thread.join().expect("no panic");
    outcome
}

/// Every call works, or is an error. None panics, whatever locks are held.
#[test]
fn calls_at_the_end_of_a_thread_work() -> Result<()> {
    let works: [(&str, Work); 5] = [
        ("an operation, a guard and a wait", |device| {
            let (s, mut h) = (device.stream()?, device.pinned::<u32>(9)?);
            s.fill(&mut h, 1)?;
            Ok(Box::new(move || {
                s.fill(&mut h, 2)?;
                assert_eq!(h.read()?[3], 2);
                s.synchronize()
            }))
        }),
        ("a host function that is refused a call", |device| {
            let (device, s) = (device.clone(), device.stream()?);
            s.host_fn(|| ())?;
            Ok(Box::new(move || {
                let inner = device.clone();
                s.host_fn(move || assert!(inner.synchronize().is_err()))?;
                s.synchronize()
            }))
        }),
        ("a task", |device| {
            let tasks = device.tasks();
            let x = tasks.alloc::<u32>(9)?;
            tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 1))?;
            Ok(Box::new(move || {
                tasks.task(x.update()).run(|s, mut x| s.fill(&mut x, 2))?;
                tasks.finish()
            }))
        }),
        ("a recording, an event and a transfer", |device| {
            let device = device.clone();
            Ok(Box::new(move || {
                let (s, event) = (device.stream()?, device.event()?);
                let x = s.upload(&[7_u32; 4])?;
                event.record(&s)?;
                event.synchronize()?;
                drop(device.record(|g| g.stream().map(drop))?);
                assert_eq!(s.download(&x)?, [7; 4]);
                Ok(())
            }))
        }),
        ("a default stream of the thread", |device| {
            let device = device.clone();
            Ok(Box::new(move || {
                let (s, mut h) = (device.per_thread_stream()?, device.pinned::<u32>(4)?);
                s.fill(&mut h, 5)?;
                s.ticket()?.wait()?;
                assert_eq!(h.read()?[0], 5);
                Ok(())
            }))
        }),
    ];
    let config = HostConfig::new().executor(Executor::Threads);
    for (what, work) in works {
        for first in [First::Library, First::Program] {
            let device =
                Device::builder().host(config.clone()).check(CheckOptions::default()).open()?;
            match at_the_end(first, &device, work) {
                Ok(outcome) => outcome?,
                Err(panic) => panic!("{what}, {first:?} first: {panic}"),
            }
        }
    }
    Ok(())
}
