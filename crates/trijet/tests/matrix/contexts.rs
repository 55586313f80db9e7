//! Calls in each context.

use super::context::Context;
use super::fork;
use super::held::Held;
use super::outcome::{Got, Outcome, Ran, because, made};
use super::rows::Row;
use super::verbs::verb::Call;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use trijet::Uses;
use trijet::graph::Recording;
use trijet::task::Tasks;
use trijet::testing::{Capture, CaptureMode, Captured};
use trijet::{Error, ErrorKind, Result, Stream};

/// A call that runs in its context later. It returns the handles after the call.
struct Later {
    call: Call,
    held: Held,
    stream: Stream,
    ran: Sender<Ran>,
}

impl Later {
    fn make(self) {
        let Self { call, mut held, stream, ran } = self;
        let got = made(call, &mut held, &stream);
        drop(stream);
        ran.send(Ran { got, held }).expect("the cell waits for it");
    }
}

/// Makes a call when it is dropped.
struct AtDrop(Option<Later>);

impl Drop for AtDrop {
    fn drop(&mut self) {
        if let Some(later) = self.0.take() {
            later.make();
        }
    }
}

thread_local! {
    static AT_END: RefCell<AtDrop> = const { RefCell::new(AtDrop(None)) };
}

/// Makes the call in the context. In the child of a fork, `demand` judges the answer, because the
/// child returns nothing.
pub(crate) fn run(
    context: Context,
    (held, call): (Held, Call),
    row: &Row,
    demand: impl Fn(&Got) -> Outcome<()>,
) -> Outcome<Ran> {
    match context {
        Context::Recording => recording(held, call),
        Context::BesideRecording => beside_recording(held, call),
        Context::BesideCapture => beside_capture(held, call, row),
        Context::Captured => captured(held, call, row),
        Context::Fork => fork::child(held, call, demand),
        _ => {
            let stream = because("a stream", held.device.stream())?;
            run_later(context, held, call, stream)
        }
    }
}

fn run_later(context: Context, mut held: Held, call: Call, stream: Stream) -> Outcome<Ran> {
    let device = held.device.clone();
    if context == Context::Lost {
        because("the loss", lose(&held))?;
    }
    let (ran, received) = channel();
    if matches!(context, Context::Plain | Context::Lost) {
        let got = made(call, &mut held, &stream);
        return Ok(Ran { got, held });
    }
    if matches!(context, Context::Task | Context::Region) {
        return in_task(context, held, call);
    }
    let later = Later { call, held, stream, ran };
    match context {
        Context::HostFn => {
            let on = because("a stream", device.stream())?;
            because("the host function", on.host_fn(move || later.make()))?;
        }
        Context::HostTask => {
            let tasks = device.tasks();
            let nothing = tasks.data(because("memory", device.pinned::<u8>(1))?);
            let task = tasks.task(nothing.write()).host(move |_| {
                later.make();
                Ok(())
            });
            because("the task", task)?;
            because("the tasks", tasks.finish())?;
        }
        Context::ThreadEnd | Context::LateThreadEnd => {
            let is_late = context == Context::LateThreadEnd;
            let thread = std::thread::spawn(move || at_thread_end(later, is_late));
            because("the thread", thread.join().expect("it does not panic"))?;
        }
        Context::Unwinding => {
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                let _at_drop = AtDrop(Some(later));
                resume_unwind(Box::new("on purpose"));
            }));
            assert!(unwound.is_err());
        }
        _ => unreachable!("handled above"),
    }
    received.recv().map_err(|_| "the context did not make the call".to_owned())
}

/// Loses the device, by the fault that was planned when it was opened.
fn lose(held: &Held) -> Result<()> {
    let s = held.device.stream()?;
    let (mut x, n) = (s.alloc::<u8>(4)?, std::cell::Cell::new(1));
    let mut write = |g: &Recording| {
        g.argument(&x)?;
        g.stream()?.fill_bytes(&mut x, n.get())
    };
    let mut graph = held.device.record(&mut write)?;
    n.set(2);
    let again = held.device.record_again(&mut graph, &mut write);
    let launched = s.launch_graph(&mut graph, Uses::new().write(x.view_mut()));
    match (again, launched, s.synchronize()) {
        (_, _, Err(error)) if error.kind() == ErrorKind::ContextLost => Ok(()),
        (again, launched, end) => {
            let cause = format!("the device is not lost: {again:?}, {launched:?}, {end:?}");
            Err(Error::new(ErrorKind::InvalidValue, "lose", cause))
        }
    }
}

/// Registers the destructor that makes the call. Destructors run in the reverse order of
/// registration.
fn at_thread_end(later: Later, is_late: bool) -> Result<()> {
    if is_late {
        AT_END.with_borrow(|_| ());
    }
    // After this call, the library has thread-local variables.
    let s = later.held.device.stream()?;
    let x = s.upload(&[9_u8; 4])?;
    s.wait(&later.held.device.event()?)?;
    s.download(&x)?;
    drop((x, s));
    AT_END.with_borrow_mut(|at_end| at_end.0 = Some(later));
    Ok(())
}

fn in_task(context: Context, held: Held, call: Call) -> Outcome<Ran> {
    let tasks = held.device.tasks();
    let nothing = because("memory", tasks.alloc::<u8>(1))?;
    let (ran, received) = channel();
    let submit = |tasks: &Tasks| {
        let task = tasks.task(nothing.write()).run(move |s, _| {
            let mut held = held;
            let got = made(call, &mut held, s);
            ran.send(Ran { got, held }).expect("the cell waits for it");
            Ok(())
        });
        task.map(drop)
    };
    match context {
        Context::Region => because("the region", tasks.region(submit))?,
        _ => because("the task", submit(&tasks))?,
    }
    let finished = tasks.finish();
    let ran = received.recv().map_err(|_| format!("the task did not run: {finished:?}"))?;
    // If an operation is refused in a region, its task has this error as well.
    if matches!(ran.got, Got::Answer(Ok(()))) {
        because("the tasks", finished)?;
    }
    Ok(ran)
}

fn recording(mut held: Held, call: Call) -> Outcome<Ran> {
    let (device, mut got) = (held.device.clone(), None);
    let recorded = device.record(|g| {
        g.argument(&held.x)?;
        g.argument(&held.y)?;
        g.argument(&held.h)?;
        let s = g.stream()?;
        got = Some(made(call, &mut held, &s));
        Ok(())
    });
    let mut graph = because("the recording", recorded)?;
    let got = got.expect("the recording made the call");
    let mut launched = || -> Result<()> {
        let s = device.stream()?;
        let arguments = Uses::new().write(held.x.view_mut()).write(held.y.view_mut());
        s.launch_graph(&mut graph, arguments.write(held.h.view_mut()))?;
        s.synchronize()
    };
    because("the launch", launched())?;
    Ok(Ran { got, held })
}

fn beside_recording(mut held: Held, call: Call) -> Outcome<Ran> {
    let (device, mut got) = (held.device.clone(), None);
    let s = because("a stream", device.stream())?;
    let recorded = device.record(|_| {
        got = Some(made(call, &mut held, &s));
        Ok(())
    });
    because("the recording", recorded)?;
    Ok(Ran { got: got.expect("the recording made the call"), held })
}

/// The graph of the capture; `None` if a wait for the device has ended the capture, as expected.
fn ended(capture: Capture<'_>, row: &Row) -> Outcome<Option<Captured>> {
    match capture.end() {
        Err(_) if row.ends_captures => Ok(None),
        graph => because("the end of the capture", graph).map(Some),
    }
}

fn beside_capture(mut held: Held, call: Call, row: &Row) -> Outcome<Ran> {
    let theirs = because("a stream", held.of_program())?;
    let s = because("a stream", held.device.stream())?;
    let capture = because("the capture", Capture::begin(&theirs, CaptureMode::Global))?;
    let got = made(call, &mut held, &s);
    ended(capture, row)?;
    Ok(Ran { got, held })
}

fn captured(mut held: Held, call: Call, row: &Row) -> Outcome<Ran> {
    let s = because("a stream", held.of_program())?;
    let capture = because("the capture", Capture::begin(&s, CaptureMode::ThreadLocal))?;
    let got = made(call, &mut held, &s);
    let Some(graph) = ended(capture, row)? else { return Ok(Ran { got, held }) };
    // SAFETY: the buffers are alive, and nothing uses them until the stream was waited for.
    because("the launch", unsafe { graph.launch(&s) })?;
    because("the launch", s.synchronize())?;
    Ok(Ran { got, held })
}
