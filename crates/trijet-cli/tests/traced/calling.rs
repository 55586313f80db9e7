//! Programs that make calls of the driver, for `trijet check`. The stand-in for CUPTI reports the
//! calls; nothing runs.

use crate::cuda::{initialise, library};
use libloading::Library;
use nix::unistd::{ForkResult, fork};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::process::{abort, exit};

/// An argument of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Passed {
    /// 8 bytes.
    Word(u64),
    /// 4 bytes.
    Int(u32),
    /// 1 byte.
    Byte(u8),
    /// A pointer to a word, which the call has written.
    Out(u64),
}

use Passed::{Byte, Int, Out, Word};

/// The driver of the program.
pub(crate) struct Driver(Library);

type Report = unsafe extern "C" fn(*const c_char, *const c_void, c_int);

impl Driver {
    pub(crate) fn new() -> Self {
        initialise();
        Self::initialised()
    }

    pub(crate) fn initialised() -> Self {
        Self(library("TRIJET_LIBCUPTI"))
    }

    /// Reports a call that succeeds.
    pub(crate) fn call(&self, name: &CStr, passed: &[Passed]) {
        self.call_with(name, passed, 0);
    }

    fn call_with(&self, name: &CStr, passed: &[Passed], code: c_int) {
        let results: Vec<u64> =
            passed.iter().map(|one| if let Out(word) = one { *word } else { 0 }).collect();
        let mut bytes = Vec::new();
        let mut field = |field: &[u8]| {
            bytes.resize(bytes.len().next_multiple_of(field.len()), 0);
            bytes.extend_from_slice(field);
        };
        for (one, result) in passed.iter().zip(&results) {
            match one {
                Word(word) => field(&word.to_le_bytes()),
                Int(int) => field(&int.to_le_bytes()),
                Byte(byte) => field(&[*byte]),
                Out(_) => field(&((&raw const *result).expose_provenance() as u64).to_le_bytes()),
            }
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let words: Vec<u64> =
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        // SAFETY: `empty_cupti_call` of the stand-in is declared so.
        let report = unsafe { self.0.get::<Report>(b"empty_cupti_call") }.unwrap();
        // SAFETY: the words have the layout of the arguments.
        unsafe { report(name.as_ptr(), words.as_ptr().cast(), code) };
    }

    /// Names memory that the next launch accesses: 1 for reads, 2 for writes.
    pub(crate) fn touches(&self, address: u64, bytes: u64, mode: u32) {
        type Touch = extern "C" fn(u64, u64, u32);
        // SAFETY: `empty_sanitizer_touch` of the stand-in is declared so.
        let touch = unsafe { self.0.get::<Touch>(b"empty_sanitizer_touch") }.unwrap();
        touch(address, bytes, mode);
    }

    /// A launch of a kernel with one argument.
    pub(crate) fn launch(&self, stream: u64, argument: u64) {
        let address = |word: &u64| (&raw const *word).expose_provenance() as u64;
        let size = 8;
        let extra = [1, address(&argument), 2, address(&size), 0, 0];
        let numbers = [Int(1); 7];
        let mut passed = vec![Word(KERNEL)];
        passed.extend(numbers);
        passed.extend([Word(stream), Word(0), Word(address(&extra[0]))]);
        self.call(c"cuLaunchKernel", &passed);
    }
}

const KERNEL: u64 = 0x77_0000;
pub(crate) const NON_BLOCKING: u32 = 1;
/// Two streams, an event, memory of the device, and page-locked memory.
pub(crate) const ONE: u64 = 0x1_0000;
pub(crate) const OTHER: u64 = 0x2_0000;
pub(crate) const EVENT: u64 = 0x3_0000;
pub(crate) const DATA: u64 = 0x7f00_0000_0000;
pub(crate) const HOST: u64 = 0x5500_0000_0000;
pub(crate) const BYTES: u64 = 1 << 20;
/// A word of memory beside the others.
const FLAG: u64 = DATA + (1 << 31);

/// A driver with two streams and memory.
pub(crate) fn prepared(flags: u32) -> Driver {
    let driver = Driver::new();
    driver.call(c"cuStreamCreate", &[Out(ONE), Int(flags)]);
    driver.call(c"cuStreamCreate", &[Out(OTHER), Int(flags)]);
    driver.call(c"cuMemAlloc_v2", &[Out(DATA), Word(BYTES)]);
    driver.call(c"cuMemHostAlloc", &[Out(HOST), Word(2 * BYTES), Int(0)]);
    driver
}

pub(crate) fn upload(driver: &Driver, stream: u64) {
    let passed = [Word(DATA), Word(HOST), Word(BYTES), Word(stream)];
    driver.call(c"cuMemcpyHtoDAsync_v2", &passed);
}

fn download(driver: &Driver, stream: u64) {
    let passed = [Word(HOST + BYTES), Word(DATA), Word(BYTES), Word(stream)];
    driver.call(c"cuMemcpyDtoHAsync_v2", &passed);
}

/// Makes `other` wait for the present work of `one`.
pub(crate) fn follow(driver: &Driver, one: u64, other: u64) {
    driver.call(c"cuEventRecord", &[Word(EVENT), Word(one)]);
    driver.call(c"cuStreamWaitEvent", &[Word(other), Word(EVENT), Int(0)]);
}

/// Runs the program with this name; false if there is none.
pub(crate) fn run(name: &str) -> bool {
    let program: fn() = match name {
        "copies-race" => || copies(NON_BLOCKING, |_| ()),
        "copies-follow" => || copies(NON_BLOCKING, |driver| follow(driver, ONE, OTHER)),
        "copies-after-host" => || {
            copies(NON_BLOCKING, |driver| driver.call(c"cuStreamSynchronize", &[Word(ONE)]));
        },
        "refused-wait" => || {
            copies(NON_BLOCKING, |driver| {
                driver.call(c"cuEventRecord", &[Word(EVENT), Word(ONE)]);
                driver.call_with(c"cuStreamWaitEvent", &[Word(OTHER), Word(EVENT), Int(0)], 1);
            });
        },
        // The stream waits for a value that another stream writes later.
        "value" => || {
            copies(NON_BLOCKING, |driver| {
                let passed = [Word(OTHER), Word(FLAG), Int(1), Int(0)];
                driver.call(c"cuStreamWaitValue32_v2", &passed);
                upload(driver, ONE);
                let passed = [Word(ONE), Word(FLAG), Int(1), Int(0)];
                driver.call(c"cuStreamWriteValue32_v2", &passed);
            });
        },
        "batch-of-values" => || {
            copies(NON_BLOCKING, |driver| {
                driver.call(c"cuStreamBatchMemOp_v2", &[Word(OTHER), Int(1), Word(0), Int(0)]);
                upload(driver, ONE);
                driver.call(c"cuStreamBatchMemOp_v2", &[Word(ONE), Int(1), Word(0), Int(0)]);
            });
        },
        "semaphore" => || {
            copies(NON_BLOCKING, |driver| {
                let stream = |stream| [Word(0), Word(0), Int(1), Word(stream)];
                driver.call(c"cuSignalExternalSemaphoresAsync", &stream(ONE));
                driver.call(c"cuWaitExternalSemaphoresAsync", &stream(OTHER));
            });
        },
        "value-before" => value_before,
        "event-of-graph-primed" => event_of_graph_primed,
        "event-of-graph" => || event_of_graph(true),
        "event-before-graph" => || event_of_graph(false),
        "frees-of-stream" => frees_of_stream,
        "blocking" => || {
            copies(0, |driver| {
                let passed = [Word(HOST + BYTES), Word(DATA), Word(BYTES)];
                driver.call(c"cuMemcpyDtoH_v2", &passed);
            });
        },
        "fill-of-part" => fill_of_part,
        "batch-race" => || batch(|_| ()),
        "batch-follows" => || batch(|driver| follow(driver, ONE, OTHER)),
        "box-and-attributes" => box_and_attributes,
        "kernel" => kernel,
        "kernel-follows" => kernel_follows,
        "kernel-between" => kernel_between,
        "uses-before-allocation" => uses_before_allocation,
        "uses-after-free" => uses_after_free,
        "frees" => frees,
        "pinned-again" => pinned_again,
        "graph-in-two-streams" => graph_in_two_streams,
        "graph" => graph,
        "forked" => forked,
        "aborted" => aborted,
        "many-calls" => many_calls,
        _ => return false,
    };
    program();
    true
}

/// An upload in one stream and a download in the other one, with other calls between them.
fn copies(flags: u32, between: fn(&Driver)) {
    let driver = prepared(flags);
    upload(&driver, ONE);
    between(&driver);
    download(&driver, OTHER);
}

/// A batch of uploads, which has more copies than a block of the call file, and a download of the
/// last of them in the other stream.
fn batch(between: fn(&Driver)) {
    const COPIES: u64 = 300;
    let driver = prepared(NON_BLOCKING);
    let bytes = BYTES / COPIES;
    let at = |base: u64| (0..COPIES).map(|copy| base + copy * bytes).collect::<Vec<_>>();
    let (targets, sources) = (at(DATA), at(HOST));
    let sizes: Vec<_> = (0..COPIES).map(|_| bytes).collect();
    let address = |words: &[u64]| Word(words.as_ptr().expose_provenance() as u64);
    let arrays = [address(&targets), address(&sources), address(&sizes), Word(COPIES)];
    let attributes = [Word(0), Word(0), Word(0)];
    driver.call(c"cuMemcpyBatchAsync_v2", &[&arrays[..], &attributes, &[Word(ONE)]].concat());
    between(&driver);
    let last = DATA + (COPIES - 1) * bytes;
    let passed = [Word(HOST + BYTES), Word(last), Word(bytes), Word(OTHER)];
    driver.call(c"cuMemcpyDtoHAsync_v2", &passed);
}

/// A copy of a row of a box between devices, and a copy with attributes of its last byte in the
/// other stream.
fn box_and_attributes() {
    let driver = prepared(NON_BLOCKING);
    let side = |base: u64| [0, 0, 0, 0, 2, 0, base, 0, 0, 64, 1];
    let fields: Vec<u64> = [&side(DATA + BYTES / 2)[..], &side(DATA), &[64, 1, 1]].concat();
    let address = fields.as_ptr().expose_provenance() as u64;
    driver.call(c"cuMemcpy3DPeerAsync", &[Word(address), Word(ONE)]);
    let passed = [Word(HOST), Word(DATA + 63), Word(1), Word(0), Word(OTHER)];
    driver.call(c"cuMemcpyWithAttributesAsync", &passed);
}

/// Fills of the byte after a copy, and then of its last byte.
fn fill_of_part() {
    let driver = prepared(NON_BLOCKING);
    upload(&driver, ONE);
    for at in [BYTES, BYTES - 1] {
        driver.call(c"cuMemsetD8Async", &[Word(DATA + at), Byte(7), Word(1), Word(OTHER)]);
    }
}

fn kernel() {
    let driver = prepared(NON_BLOCKING);
    for _ in 0..3 {
        upload(&driver, ONE);
        driver.launch(OTHER, DATA);
    }
}

fn kernel_follows() {
    let driver = prepared(NON_BLOCKING);
    upload(&driver, ONE);
    follow(&driver, ONE, OTHER);
    driver.launch(OTHER, DATA);
}

/// The second upload follows the kernel and the first upload, and the download does not follow it.
fn kernel_between() {
    let driver = prepared(NON_BLOCKING);
    upload(&driver, ONE);
    follow(&driver, ONE, OTHER);
    driver.launch(OTHER, DATA);
    driver.call(c"cuStreamSynchronize", &[Word(ONE)]);
    upload(&driver, OTHER);
    download(&driver, ONE);
}

fn uses_before_allocation() {
    let driver = prepared(NON_BLOCKING);
    let at = DATA + (1 << 30);
    driver.call(c"cuMemAllocAsync", &[Out(at), Word(BYTES), Word(ONE)]);
    driver.call(c"cuMemcpyHtoDAsync_v2", &[Word(at), Word(HOST), Word(BYTES), Word(OTHER)]);
}

fn uses_after_free() {
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuMemFree_v2", &[Word(DATA)]);
    upload(&driver, ONE);
}

/// The address of freed memory is given out again.
fn frees() {
    let driver = prepared(NON_BLOCKING);
    upload(&driver, ONE);
    driver.call(c"cuMemFree_v2", &[Word(DATA)]);
    driver.call(c"cuMemAlloc_v2", &[Out(DATA), Word(BYTES)]);
    upload(&driver, OTHER);
}

/// Memory of a stream is freed by the call for other memory, which then does not wait.
fn frees_of_stream() {
    let driver = prepared(NON_BLOCKING);
    let at = DATA + (1 << 30);
    driver.call(c"cuMemAllocAsync", &[Out(at), Word(BYTES), Word(ONE)]);
    driver.call(c"cuMemcpyHtoDAsync_v2", &[Word(at), Word(HOST), Word(BYTES), Word(ONE)]);
    driver.call(c"cuMemFree_v2", &[Word(at)]);
}

/// A graph uploads and then records an event for others. The download follows the event, or follows
/// one that was recorded before the launch.
fn event_of_graph(is_recorded_by_graph: bool) {
    let (graph, program) = (0x9_0000, 0xa_0000);
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    upload(&driver, ONE);
    if is_recorded_by_graph {
        driver.call(c"cuEventRecordWithFlags", &[Word(EVENT), Word(ONE), Int(1)]);
    }
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(graph)]);
    driver.call(c"cuGraphInstantiateWithFlags", &[Out(program), Word(graph), Word(0)]);
    if !is_recorded_by_graph {
        driver.call(c"cuEventRecordWithFlags", &[Word(EVENT), Word(ONE), Int(1)]);
    }
    driver.call(c"cuGraphLaunch", &[Word(program), Word(ONE)]);
    driver.call(c"cuStreamWaitEvent", &[Word(OTHER), Word(EVENT), Int(0)]);
    download(&driver, OTHER);
}

/// The stream waits for the value before the work that it waits for is enqueued.
fn value_before() {
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuStreamWaitValue32_v2", &[Word(OTHER), Word(FLAG), Int(1), Int(0)]);
    download(&driver, OTHER);
    upload(&driver, ONE);
    driver.call(c"cuStreamWriteValue32_v2", &[Word(ONE), Word(FLAG), Int(1), Int(0)]);
}

/// The event of a graph was also recorded by the program, before the launch.
fn event_of_graph_primed() {
    let (graph, program) = (0x9_0000, 0xa_0000);
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    upload(&driver, ONE);
    driver.call(c"cuEventRecordWithFlags", &[Word(EVENT), Word(ONE), Int(1)]);
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(graph)]);
    driver.call(c"cuGraphInstantiateWithFlags", &[Out(program), Word(graph), Word(0)]);
    driver.call(c"cuEventRecord", &[Word(EVENT), Word(OTHER)]);
    driver.call(c"cuGraphLaunch", &[Word(program), Word(ONE)]);
    driver.call(c"cuStreamWaitEvent", &[Word(OTHER), Word(EVENT), Int(0)]);
    download(&driver, OTHER);
}

/// Page-locked memory is freed, and the C library gives its address out again.
fn pinned_again() {
    let driver = prepared(NON_BLOCKING);
    upload(&driver, ONE);
    driver.call(c"cuMemFreeHost", &[Word(HOST)]);
    driver.call(c"cuMemcpyDtoH_v2", &[Word(HOST), Word(DATA), Word(BYTES)]);
}

/// Launches of one graph follow each other in any streams.
fn graph_in_two_streams() {
    let (graph, program) = (0x9_0000, 0xa_0000);
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    upload(&driver, ONE);
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(graph)]);
    driver.call(c"cuGraphInstantiateWithFlags", &[Out(program), Word(graph), Word(0)]);
    driver.call(c"cuGraphLaunch", &[Word(program), Word(ONE)]);
    driver.call(c"cuGraphLaunch", &[Word(program), Word(OTHER)]);
}

/// Aborts at the end of its input.
fn aborted() {
    let driver = prepared(NON_BLOCKING);
    upload(&driver, ONE);
    std::io::Read::read(&mut std::io::stdin(), &mut [0]).unwrap();
    abort();
}

fn many_calls() {
    let driver = prepared(NON_BLOCKING);
    for _ in 0..20_000 {
        upload(&driver, ONE);
        follow(&driver, ONE, OTHER);
        download(&driver, OTHER);
        follow(&driver, OTHER, ONE);
    }
}

/// Two streams are captured into a graph: an upload in one, and a download in the other after it.
/// The graph is launched beside a fill that nothing orders.
fn graph() {
    let (graph, program) = (0x9_0000, 0xa_0000);
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    upload(&driver, ONE);
    follow(&driver, ONE, OTHER);
    download(&driver, OTHER);
    follow(&driver, OTHER, ONE);
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(graph)]);
    driver.call(c"cuGraphInstantiateWithFlags", &[Out(program), Word(graph), Word(0)]);
    // While the streams were captured, nothing was enqueued: this download races with nothing.
    download(&driver, OTHER);
    driver.call(c"cuStreamSynchronize", &[Word(OTHER)]);
    driver.call(c"cuGraphLaunch", &[Word(program), Word(ONE)]);
    driver.call(c"cuMemsetD8Async", &[Word(DATA), Byte(7), Word(1), Word(OTHER)]);
}

/// A child that makes calls, which would race with those of its parent.
fn forked() {
    let driver = prepared(NON_BLOCKING);
    upload(&driver, ONE);
    // SAFETY: the child calls nothing that needs a lock of another thread.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            download(&driver, OTHER);
            exit(0);
        }
        ForkResult::Parent { child } => {
            nix::sys::wait::waitpid(child, None).unwrap();
        }
    }
    follow(&driver, ONE, OTHER);
    download(&driver, OTHER);
}
