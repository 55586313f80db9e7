//! The current context of a thread belongs to the program: each call of the library leaves it as it
//! was.

use crate::raw_driver::{Driver, Handle};
use std::ffi::{c_int, c_uint};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use trijet::kernels::AXPY;

use trijet::{Batch, Bytes, Device, Result, SourceOrder, Uses};

type Create = unsafe extern "C" fn(*mut Handle, c_uint, c_int) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;

/// A context of another library, on the first device.
fn create(driver: &Driver) -> Handle {
    let mut context = null_mut();
    // SAFETY: one handle to write, and the first device.
    driver.call::<Create>("cuCtxCreate_v2", |create| unsafe { create(&raw mut context, 0, 0) });
    context
}

/// Makes every kind of call that reaches the driver. `same` is called after each one.
fn calls(device: &Device, mut same: impl FnMut(&str)) -> Result<()> {
    let s = device.stream()?;
    same("stream");
    let (mut x, mut y) = (s.alloc::<f32>(64)?, s.alloc::<f32>(64)?);
    same("alloc");
    let mut h = device.pinned::<f32>(64)?;
    same("pinned");
    h.write()?.fill(1.0);
    s.copy(&h, &mut x)?;
    same("upload");
    s.copy(&x, &mut y)?;
    same("copy");
    s.launch(&AXPY, (2.0, &x, &mut y))?;
    same("launch");
    s.fill_bytes(&mut x, 0)?;
    same("fill");
    let mut batch = Batch::new();
    batch.add(&x, &mut y)?;
    s.copy_batch(batch, SourceOrder::Stream)?;
    same("batch");
    s.copy(&y, &mut h)?;
    same("download");
    let (event, timed, later) = (device.event()?, device.timed_event()?, device.timed_event()?);
    same("events");
    event.record(&s)?;
    timed.record(&s)?;
    later.record(&s)?;
    same("record");
    s.wait(&event)?;
    same("wait");
    later.synchronize()?;
    same("event synchronize");
    event.query()?;
    same("event query");
    later.elapsed_since(&timed)?;
    same("elapsed");
    s.host_fn(|| ())?;
    same("host function");
    // SAFETY: nothing is enqueued.
    unsafe { s.foreign("nothing", Uses::new().read(&x), |_| Ok(()))? };
    same("foreign work");
    s.follow_device(Uses::new().read(&x))?;
    same("follow device");
    s.query()?;
    same("query");
    s.synchronize()?;
    same("synchronize");
    device.copy_now(&h, &mut x)?;
    same("copy now");
    device.fill_now(&mut x, 0)?;
    same("fill now");
    device.memory()?;
    same("memory");
    device.memory_stats()?;
    device.keep_memory(Bytes(1 << 20))?;
    device.trim_memory(Bytes(0))?;
    same("pool");
    drop((x, y, h));
    same("free");
    drop((event, timed, later));
    same("event destroy");
    drop(s);
    same("stream destroy");
    device.synchronize()?;
    same("device synchronize");
    Ok(())
}

/// Runs the case on the first device, whose driver is the library at `path`.
pub(crate) fn each_call_leaves_the_current_context(
    open: impl Fn() -> Result<Device>,
    path: &Path,
) -> Result<()> {
    let device = open()?;
    let driver = Arc::new(Driver::open(path));
    let other = create(&driver);
    for (what, context) in [("none", null_mut()), ("ours", driver.primary()), ("other", other)] {
        driver.set_current(context);
        let same = |after: &str| assert_eq!(driver.current(), context, "{what}, after {after}");
        calls(&device, same)?;
        let second = open()?;
        same("open");
        second.close()?;
        same("close");
    }
    driver.set_current(null_mut());
    let s = device.stream()?;
    let x = s.alloc::<f32>(1)?;
    let inside = |_| {
        assert_eq!(driver.current(), driver.primary(), "foreign work has the stream's context");
        Ok(())
    };
    // SAFETY: nothing is enqueued.
    unsafe { s.foreign("nothing", Uses::new().read(&x), inside)? };
    drop((x, s));
    device.close()?;
    // SAFETY: a live context that nothing uses any more.
    driver.call::<Destroy>("cuCtxDestroy_v2", |destroy| unsafe { destroy(other) });
    Ok(())
}
