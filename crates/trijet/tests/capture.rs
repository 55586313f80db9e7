//! Captures of streams, on the driver of empty functions, which knows which streams are captured.

mod captured;

use trijet::{Device, Result, Select};

#[test]
fn a_captured_stream_refuses_every_call() -> Result<()> {
    let program = std::env::current_exe().expect("this program has a path");
    let file = program.with_file_name("libempty_cuda.so");
    assert!(file.exists(), "{} is built with the tests", file.display());
    // SAFETY: this is the only test of the program, and the test harness reads the environment only
    // before it starts tests.
    unsafe { std::env::set_var("TRIJET_LIBCUDA", &file) };
    let device = Device::open(Select::Cuda(0))?;
    captured::a_captured_stream_refuses_every_call(&device, &file)
}
