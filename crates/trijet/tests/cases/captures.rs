//! A stream that another library captures into a graph (law A33): operations of this library become
//! a part of the graph, and every other call is refused and leaves the capture as it is.

use super::words;
use std::sync::Arc;
use trijet::kernels::AXPY;
use trijet::task::{Data, Tasks};
use trijet::testing::{Capture, CaptureMode};
use trijet::{Device, ErrorKind, Readiness, Result, Stream};

const LEN: usize = 300;
const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

/// A stream of another library, which may capture it.
fn theirs(device: &Device) -> Result<Stream> {
    let theirs = device.stream()?;
    // SAFETY: the stream moves into its owner. The cases keep memory as long as the graphs that use
    // it, and use it elsewhere only when no launch is pending.
    unsafe { device.stream_from_raw(theirs.as_raw(), theirs) }
}

/// Whole numbers as floats, so that their sums are exact.
fn drawn(seed: u64) -> Vec<f32> {
    words(seed, LEN).into_iter().map(|word| (word >> 56) as f32).collect()
}

fn sum(a: f32, x: &[f32], y: &[f32]) -> Vec<f32> {
    x.iter().zip(y).map(|(x, y)| a * x + y).collect()
}

pub(crate) fn operations_in_a_captured_stream_become_a_part_of_its_graph(
    device: &Device,
) -> Result<()> {
    for mode in MODES {
        let (s, theirs) = (device.stream()?, theirs(device)?);
        let (x, first, second) = (drawn(1), drawn(2), drawn(3));
        let (mut h, dx) = (device.pinned::<f32>(LEN)?, s.upload(&x)?);
        let mut y = s.alloc_zeroed::<f32>(2 * LEN)?;
        device.load(&AXPY)?;
        theirs.synchronize()?;
        let capture = Capture::begin(&theirs, mode)?;
        theirs.copy(&h, &mut y.slice_mut(..LEN))?;
        theirs.launch(&AXPY, (5.0, &dx, y.slice_mut(..LEN)))?;
        // A program may take the stream anew for each call.
        // SAFETY: the stream lives as long as `theirs`.
        let again = unsafe { device.stream_from_raw(theirs.as_raw(), ())? };
        again.fill_bytes(&mut y.slice_mut(LEN..), 0x40)?;
        drop(again);
        let captured = capture.end()?;
        assert_eq!(s.download(&y)?, [0.0; 2 * LEN], "nothing runs before the launch");
        for values in [&first, &second] {
            h.write()?.copy_from_slice(values);
            // SAFETY: see `theirs`; the stream has no other work.
            unsafe { captured.launch(&theirs)? };
            theirs.synchronize()?;
            let found = s.download(&y)?;
            assert_eq!(found[..LEN], sum(5.0, &x, values), "{mode:?}");
            assert_eq!(found[LEN..], [f32::from_bits(0x4040_4040); LEN], "{mode:?}");
        }
    }
    Ok(())
}

pub(crate) fn an_operation_of_a_capture_comes_after_earlier_work_of_all_streams(
    device: &Device,
) -> Result<()> {
    let (s, theirs) = (device.stream()?, theirs(device)?);
    let (x, y) = (drawn(4), drawn(5));
    let (dx, mut dy, mut z) = (s.upload(&x)?, s.upload(&y)?, s.alloc_zeroed::<f32>(LEN)?);
    device.load(&AXPY)?;
    theirs.synchronize()?;
    let capture = Capture::begin(&theirs, CaptureMode::Global)?;
    // A graph cannot wait for these launches, so the call below does.
    (0_u8..20).try_for_each(|a| s.launch(&AXPY, (f32::from(a), &dx, &mut dy)))?;
    let last = s.ticket()?;
    theirs.copy(&dy, &mut z)?;
    assert_eq!(last.query()?, Readiness::Ready, "the call has waited for the work before");
    let captured = capture.end()?;
    // SAFETY: see `theirs`; all other work is done.
    unsafe { captured.launch(&theirs)? };
    theirs.synchronize()?;
    assert_eq!(s.download(&z)?, sum(190.0, &x, &y));
    Ok(())
}

pub(crate) fn what_cannot_be_captured_is_refused_and_the_capture_goes_on(
    device: &Device,
) -> Result<()> {
    for mode in MODES {
        let (s, theirs) = (device.stream()?, theirs(device)?);
        let (event, timed, recorded) = (device.event()?, device.timed_event()?, device.event()?);
        let (pageable, mut x) = (vec![1_u8; 64], s.upload(&[1_u8; 64])?);
        // This memory is freed in the captured stream.
        let dropped = theirs.alloc::<u32>(1000)?;
        recorded.record(&s)?;
        theirs.synchronize()?;
        let capture = Capture::begin(&theirs, mode)?;
        let answers = [
            ("alloc", theirs.alloc::<u32>(64).err()),
            ("upload", theirs.upload(&pageable).err()),
            ("host function", theirs.host_fn(|| ()).err()),
            ("record", event.record(&theirs).err()),
            ("timed record", timed.record(&theirs).err()),
            ("wait", theirs.wait(&recorded).err()),
            ("query", theirs.query().err()),
            ("synchronize", theirs.synchronize().err()),
        ];
        for (call, error) in answers {
            let error = error.unwrap_or_else(|| panic!("`{call}` was taken ({mode:?})"));
            let found = (error.kind(), error.code());
            assert_eq!(found, (ErrorKind::Capturing, Some(900)), "{call}: {error}");
        }
        // Other streams can be used during the capture, in this thread and in other threads. Memory
        // is allocated and freed in them.
        let beside = || -> Result<()> {
            let y = s.alloc_zeroed::<u32>(256)?;
            assert_eq!(s.download(&y)?, [0; 256]);
            drop((y, device.pinned::<u8>(4096)?, device.stream()?, device.event()?));
            s.synchronize()
        };
        drop(dropped);
        beside()?;
        std::thread::scope(|scope| scope.spawn(beside).join().expect("no panic"))?;
        theirs.fill_bytes(&mut x, 9)?;
        let captured = capture.end()?;
        // SAFETY: see `theirs`.
        unsafe { captured.launch(&theirs)? };
        theirs.synchronize()?;
        assert_eq!(s.download(&x)?, [9; 64], "{mode:?}");
        // After the capture the stream is like any other one.
        theirs.host_fn(|| ())?;
        event.record(&theirs)?;
        theirs.synchronize()?;
    }
    Ok(())
}

/// Adds twice `x` to `y`, and copies the half of the sum to `z`.
fn submit(tasks: &Tasks, [x, y, z]: &[Data<f32>; 3]) -> Result<()> {
    let add = tasks.task((x.read(), y.update()));
    add.run(|s, (x, y)| s.launch(&AXPY, (2.0, x, y)))?;
    tasks
        .task((y.read_range(..LEN / 2), z.write_range(..LEN / 2)))
        .run(|s, (y, mut z)| s.copy(&y, &mut z))?;
    tasks.task(z.write_range(LEN / 2..)).run(|s, mut z| s.fill(&mut z, 7.0)).map(drop)
}

pub(crate) fn the_same_tasks_run_in_streams_as_graphs_and_in_captures(
    device: &Device,
) -> Result<()> {
    let (s, theirs) = (device.stream()?, Arc::new(theirs(device)?));
    let (x, y) = (drawn(6), drawn(7));
    device.load(&AXPY)?;
    let once = sum(2.0, &x, &y);
    let twice = sum(2.0, &x, &once);
    for way in 0..3 {
        let tasks = if way == 2 { device.tasks_in(&theirs) } else { device.tasks() };
        let data =
            [s.upload(&x)?, s.upload(&y)?, s.alloc_zeroed::<f32>(LEN)?].map(|one| tasks.data(one));
        match way {
            0 => (0..2).try_for_each(|_| submit(&tasks, &data))?,
            1 => (0..2).try_for_each(|_| tasks.region(|tasks| submit(tasks, &data)))?,
            _ => {
                s.synchronize()?;
                theirs.synchronize()?;
                let capture = Capture::begin(&theirs, CaptureMode::ThreadLocal)?;
                submit(&tasks, &data)?;
                let captured = capture.end()?;
                // SAFETY: see `theirs`.
                unsafe { captured.launch(&theirs)? };
                // SAFETY: as above. The launches follow each other in their stream.
                unsafe { captured.launch(&theirs)? };
                theirs.synchronize()?;
            }
        }
        assert_eq!(
            (tasks.counts().graphs, tasks.counts().replays),
            if way == 1 { (1, 1) } else { (0, 0) }
        );
        let [_, y, z] = data;
        assert_eq!(s.download(&tasks.take(y)?)?, twice, "{way}");
        let z = s.download(&tasks.take(z)?)?;
        assert_eq!(z, [&twice[..LEN / 2], &[7.0; LEN / 2]].concat(), "{way}");
    }
    Ok(())
}
