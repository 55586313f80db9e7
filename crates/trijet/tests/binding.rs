//! The binding to CUDA, on the driver of empty functions, which knows the current context of a thread
//! and which streams are captured.

mod captured;
mod contexts;
mod raw_driver;

use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use trijet::{Device, Result, Select};

/// The driver library, named by the environment from here on.
static DRIVER: LazyLock<std::path::PathBuf> = LazyLock::new(|| {
    let program = std::env::current_exe().expect("this program has a path");
    let file = program.with_file_name("libempty_cuda.so");
    assert!(file.exists(), "{} is built with the tests", file.display());
    // SAFETY: every test of the program begins here, so that no thread reads the environment yet,
    // except through the standard library, which locks it.
    unsafe { std::env::set_var("TRIJET_LIBCUDA", &file) };
    file
});

/// The driver library. No other test uses it until the guard is dropped.
fn alone() -> (MutexGuard<'static, ()>, &'static Path) {
    static ALONE: Mutex<()> = Mutex::new(());
    (ALONE.lock().unwrap_or_else(PoisonError::into_inner), &DRIVER)
}

fn open() -> Result<Device> {
    Device::open(Select::Cuda(0))
}

#[test]
fn a_captured_stream_refuses_every_call() -> Result<()> {
    let (_alone, file) = alone();
    captured::a_captured_stream_refuses_every_call(&open()?, file)
}

/// Another library's next call once landed on our device.
#[test]
fn each_call_leaves_the_current_context() -> Result<()> {
    let (_alone, file) = alone();
    contexts::each_call_leaves_the_current_context(open, file)
}
