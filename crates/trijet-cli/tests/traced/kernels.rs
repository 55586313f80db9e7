//! Programs that launch kernels, for `trijet check --kernels`. The stand-in for the Compute Sanitizer
//! API reports the launches, and marks the accesses that a program names before a launch.

use crate::calling::Passed::{Byte, Int, Out, Word};
use crate::calling::{BYTES, DATA, Driver, NON_BLOCKING, ONE, OTHER, follow, prepared};
use nix::unistd::{ForkResult, fork};
use std::process::exit;

/// Runs the program with this name; false if there is none.
pub(crate) fn run(name: &str) -> bool {
    let program: fn() = match name {
        "seen-kernels" => || seen_kernels(BYTES, |_| ()),
        "seen-kernels-follow" => || seen_kernels(BYTES, |driver| follow(driver, ONE, OTHER)),
        "seen-neighbours" => seen_neighbours,
        "seen-part" => seen_part,
        "seen-graph" => || seen_graph(|_| ()),
        "seen-graph-follows" => || seen_graph(|driver| follow(driver, ONE, OTHER)),
        "many-seen-kernels" => many_seen_kernels,
        "captured-kernel" => captured_kernel,
        "seen-tensor" => || seen_tensor(true),
        "seen-start-of-tensor" => || seen_tensor(false),
        "stream-ends-during-capture" => stream_ends_during_capture,
        "seen-in-parent" => seen_in_parent,
        "launch-at-thread-exit" => launch_at_thread_exit,
        "many-maps" => many_maps,
        _ => return false,
    };
    program();
    true
}

/// A kernel that writes in one stream, and one that reads in the other one.
fn seen_kernels(bytes: u64, between: fn(&Driver)) {
    let driver = prepared(NON_BLOCKING);
    driver.touches(DATA, bytes, 2);
    driver.launch(ONE, DATA);
    between(&driver);
    driver.touches(DATA, bytes, 1);
    driver.launch(OTHER, DATA);
    driver.call(c"cuStreamDestroy_v2", &[Word(OTHER)]);
}

/// Two kernels that write the two parts of a buffer, whose border is inside of a granule.
fn seen_neighbours() {
    let driver = prepared(NON_BLOCKING);
    driver.touches(DATA, 1000, 2);
    driver.launch(ONE, DATA);
    driver.touches(DATA + 1000, 1000, 2);
    driver.launch(OTHER, DATA + 1000);
}

/// A kernel that has an address and does not use it, beside a fill of the memory; and one that uses
/// another part of it.
fn seen_part() {
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuMemsetD8Async", &[Word(DATA), Byte(0), Word(4096), Word(ONE)]);
    driver.touches(DATA + 8192, 4096, 3);
    driver.launch(OTHER, DATA + 8192);
}

/// A graph with two kernels in one stream, and a kernel that reads in the other one.
fn seen_graph(between: fn(&Driver)) {
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    driver.launch(ONE, DATA);
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(7)]);
    driver.call(c"cuGraphInstantiateWithFlags", &[Out(8), Word(7), Word(0)]);
    driver.touches(DATA, 4096, 2);
    driver.touches(DATA + 4096, 4096, 2);
    driver.call(c"cuGraphLaunch", &[Word(8), Word(ONE)]);
    between(&driver);
    driver.touches(DATA + 4096, 1024, 1);
    driver.launch(OTHER, DATA);
}

/// More launches than tables have room for at once.
fn many_seen_kernels() {
    let driver = prepared(NON_BLOCKING);
    for number in 0..6000 {
        driver.touches(DATA, 8 << 10, 2);
        driver.launch(ONE, DATA);
        if number == 3000 {
            driver.touches(DATA, 4 << 10, 1);
            driver.launch(OTHER, DATA);
            follow(&driver, OTHER, ONE);
        }
    }
}

/// A capture is open while tables are full: nothing is read until it ends.
fn captured_kernel() {
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    for _ in 0..200 {
        driver.launch(ONE, DATA);
    }
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(7)]);
    driver.touches(DATA, BYTES, 2);
    driver.launch(ONE, DATA);
    driver.touches(DATA, BYTES, 2);
    driver.launch(OTHER, DATA);
}

/// A kernel that writes the end of a tensor, and one that reads by a tensor map.
fn seen_tensor(has_map: bool) {
    let driver = prepared(NON_BLOCKING);
    if has_map {
        let (sizes, strides) = ([256_u64, 16, 2], [1024_u64, 16 << 10]);
        let address = |words: &[u64]| Word(words.as_ptr().expose_provenance() as u64);
        let of_floats = [Int(7), Int(3)];
        let passed =
            [&[Word(0)], &of_floats[..], &[Word(DATA), address(&sizes), address(&strides)]];
        driver.call(c"cuTensorMapEncodeTiled", &passed.concat());
    }
    driver.touches(DATA + (16 << 10), 64 << 10, 2);
    driver.launch(ONE, DATA + (16 << 10));
    driver.touches(DATA, 0, 4 | 1);
    driver.launch(OTHER, DATA);
}

/// A stream ends while nothing is read, and its launches are read later.
fn stream_ends_during_capture() {
    let driver = prepared(NON_BLOCKING);
    driver.touches(DATA, BYTES, 2);
    driver.launch(OTHER, DATA);
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    driver.call(c"cuStreamDestroy_v2", &[Word(OTHER)]);
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(7)]);
    driver.touches(DATA, BYTES, 1);
    driver.launch(ONE, DATA);
}

/// A child that launches kernels and ends, while the parent has launches that are not read.
fn seen_in_parent() {
    let driver = prepared(NON_BLOCKING);
    driver.touches(DATA, BYTES, 2);
    driver.launch(ONE, DATA);
    // SAFETY: the child calls nothing that needs a lock of another thread.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            for _ in 0..5000 {
                driver.touches(DATA, BYTES, 2);
                driver.launch(OTHER, DATA);
            }
            driver.call(c"cuStreamDestroy_v2", &[Word(OTHER)]);
            exit(0);
        }
        ForkResult::Parent { child } => {
            nix::sys::wait::waitpid(child, None).unwrap();
        }
    }
    follow(&driver, ONE, OTHER);
    driver.touches(DATA, BYTES, 1);
    driver.launch(OTHER, DATA);
}

/// The destructor of a thread-local value launches a kernel.
fn launch_at_thread_exit() {
    struct Last(Driver);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.touches(DATA, BYTES, 1);
            self.0.launch(OTHER, DATA);
        }
    }
    thread_local! {
        static LAST: Last = Last(Driver::initialised());
    }
    let driver = prepared(NON_BLOCKING);
    let thread = std::thread::spawn(|| {
        LAST.with(|last| {
            last.0.touches(DATA, BYTES, 2);
            last.0.launch(ONE, DATA);
        });
    });
    thread.join().unwrap();
    drop(driver);
}

/// More uses of tensor maps than a table has room for: the launch is not seen.
fn many_maps() {
    let driver = prepared(NON_BLOCKING);
    for _ in 0..5000 {
        driver.touches(DATA, 0, 4 | 1);
    }
    driver.launch(ONE, DATA);
    driver.touches(DATA, BYTES, 2);
    driver.launch(OTHER, DATA);
}
