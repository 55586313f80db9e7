//! Work of another library in streams that are gone.

use super::cuda;
use crate::alone;
use crate::raw_driver::{Driver, Handle};
use std::ffi::{c_int, c_uint};
use std::path::Path;
use std::ptr::null_mut;
use trijet::{Device, Result, Uses};

type Create = unsafe extern "C" fn(*mut Handle, c_uint) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type Fill = unsafe extern "C" fn(u64, u8, usize, Handle) -> c_int;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// The bytes of a fill, and the number of fills: they take tens of milliseconds.
const BYTES: usize = 1 << 30;
const FILLS: u8 = 100;

/// Fills memory many times in a stream that is destroyed meanwhile. The last fill writes `FILLS`.
fn fill_and_destroy(driver: &Driver, address: u64) {
    let mut stream = null_mut();
    // SAFETY: one handle to write.
    driver.call::<Create>("cuStreamCreate", |create| unsafe {
        create(&raw mut stream, NON_BLOCKING)
    });
    for value in 1..=FILLS {
        // SAFETY: the memory has these bytes, and lives until the work is complete.
        driver
            .call::<Fill>("cuMemsetD8Async", |fill| unsafe { fill(address, value, BYTES, stream) });
    }
    // SAFETY: the stream is destroyed once. The driver completes its work.
    driver.call::<Destroy>("cuStreamDestroy_v2", |destroy| unsafe { destroy(stream) });
}

#[test]
fn work_of_another_library_in_a_destroyed_stream_comes_first() -> Result<()> {
    let _alone = alone();
    let device: Device = cuda();
    let driver = Driver::open(Path::new("libcuda.so.1"));
    driver.set_current(driver.primary());
    let stream = device.stream()?;
    let mut x = stream.alloc::<u8>(BYTES)?;
    stream.fill_bytes(&mut x, 0)?;
    stream.synchronize()?;
    let mut first = device.pinned::<u8>(1)?;
    let mut is_early = false;
    for _ in 0..5 {
        fill_and_destroy(&driver, x.address());
        stream.copy(&x.slice(..1), &mut first)?;
        is_early |= first.read()?[0] != FILLS;
        stream.follow_device(Uses::new().update(&mut x))?;
        // The next user in another stream follows as well.
        let other = device.stream()?;
        other.copy(&x.slice(..1), &mut first)?;
        assert_eq!(first.read()?[0], FILLS);
        device.synchronize()?;
    }
    assert!(is_early, "without the call, the copy does not wait");
    drop(x);
    device.close()
}
