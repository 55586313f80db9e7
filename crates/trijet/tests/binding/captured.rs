//! Bare calls of the driver capture a stream of the program into a graph (law A33): copies and
//! fills become a part of the graph, other calls of the library are refused, and the capture goes
//! on.

use crate::raw_driver::Driver;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use trijet::{Device, Error, ErrorKind, Result, Stream};

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`: no thread may make a call that the capture bars.
const GLOBAL: c_int = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: other streams may be used meanwhile.
const RELAXED: c_int = 2;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_int = 1;
/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`.
const UNSUPPORTED: i32 = 900;

type Create = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
type Begin = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type End = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int;
type Nodes = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut usize) -> c_int;

/// The answers of all calls on `stream`, by name.
fn calls(device: &Device, stream: &Stream) -> Result<Vec<(&'static str, Option<Error>)>> {
    let other = device.stream()?;
    let (event, timed, recorded) = (device.event()?, device.timed_event()?, device.event()?);
    let (h, mut x) = (device.pinned::<u32>(64)?, other.alloc::<u32>(64)?);
    other.fill_bytes(&mut x, 7)?;
    recorded.record(&other)?;
    let answers = [
        ("copy", stream.copy(&h, &mut x).err()),
        ("fill", stream.fill_bytes(&mut x, 1).err()),
        ("alloc", stream.alloc::<u32>(64).err()),
        ("host function", stream.host_fn(|| ()).err()),
        ("record", event.record(stream).err()),
        ("timed record", timed.record(stream).err()),
        ("wait", stream.wait(&recorded).err()),
        ("query", stream.query().err()),
        ("synchronize", stream.synchronize().err()),
    ];
    // Other streams go on.
    other.synchronize()?;
    Ok(answers.into())
}

/// Runs the case on the first device, whose driver is the library at `path`. `captured` is the
/// number of operations that it adds to the graph of a copy and a fill.
pub(crate) fn a_captured_stream_takes_operations_and_refuses_other_calls(
    device: &Device,
    path: &Path,
    captured: usize,
) -> Result<()> {
    let driver = Driver::open(path);
    driver.set_current(driver.primary());
    let mut raw = null_mut();
    // SAFETY: one pointer to write; a context is current.
    driver.call::<Create>("cuStreamCreate", |create| unsafe { create(&raw mut raw, NON_BLOCKING) });
    // SAFETY: the stream lives to the end of this function, after the last use of the handle.
    let stream = unsafe { device.stream_from_raw(raw, ())? };
    let all = |refused: bool| -> Result<()> {
        for (call, error) in calls(device, &stream)? {
            let is_refused = refused && !matches!(call, "copy" | "fill");
            assert_eq!(error.is_some(), is_refused, "{call}: {error:?}");
            if let Some(error) = error {
                let found = (error.kind(), error.code());
                assert_eq!(found, (ErrorKind::Capturing, Some(UNSUPPORTED)), "{call}: {error}");
            }
        }
        Ok(())
    };
    all(false)?;
    stream.synchronize()?;
    // SAFETY: a live stream that captures nothing yet.
    driver.call::<Begin>("cuStreamBeginCapture_v2", |begin| unsafe { begin(raw, RELAXED) });
    all(true)?;
    let (mut graph, mut nodes) = (null_mut(), 1);
    // SAFETY: the stream captures, and one pointer is written. If a refused call had reached it,
    // the capture would have ended, which is an error here.
    driver.call::<End>("cuStreamEndCapture", |end| unsafe { end(raw, &raw mut graph) });
    // SAFETY: a live graph; without a place for nodes the call counts them.
    driver.call::<Nodes>("cuGraphGetNodes", |count| unsafe {
        count(graph, null_mut(), &raw mut nodes)
    });
    assert_eq!(nodes, captured, "a copy and a fill");
    // SAFETY: a live graph that is given up.
    driver.call::<Destroy>("cuGraphDestroy", |destroy| unsafe { destroy(graph) });
    all(false)?;
    device.synchronize()?;
    drop(stream);
    device.synchronize()?;
    // SAFETY: a live stream that nothing uses any more.
    driver.call::<Destroy>("cuStreamDestroy_v2", |destroy| unsafe { destroy(raw) });
    Ok(())
}

/// A query or a wait of any thread once ended every capture in the global mode.
pub(crate) fn queries_and_waits_do_not_disturb_a_capture(
    device: &Device,
    path: &Path,
) -> Result<()> {
    let driver = Driver::open(path);
    driver.set_current(driver.primary());
    let (s, event) = (device.stream()?, device.event()?);
    let mut x = s.alloc::<u32>(64)?;
    s.fill_bytes(&mut x, 1)?;
    event.record(&s)?;
    let (mut raw, mut graph) = (null_mut(), null_mut());
    // SAFETY: one pointer to write; a context is current.
    driver.call::<Create>("cuStreamCreate", |create| unsafe { create(&raw mut raw, NON_BLOCKING) });
    // SAFETY: a live stream that captures nothing yet.
    driver.call::<Begin>("cuStreamBeginCapture_v2", |begin| unsafe { begin(raw, GLOBAL) });
    let ask = || -> Result<()> {
        event.query()?;
        s.query()?;
        event.synchronize()?;
        s.synchronize()
    };
    let elsewhere = std::thread::scope(|scope| scope.spawn(ask).join().expect("no panic"));
    let here = ask();
    // SAFETY: the stream captures, and one pointer is written.
    driver.call::<End>("cuStreamEndCapture", |end| unsafe { end(raw, &raw mut graph) });
    elsewhere?;
    here?;
    // SAFETY: a live graph that is given up.
    driver.call::<Destroy>("cuGraphDestroy", |destroy| unsafe { destroy(graph) });
    // SAFETY: a live stream that nothing uses any more.
    driver.call::<Destroy>("cuStreamDestroy_v2", |destroy| unsafe { destroy(raw) });
    Ok(())
}
