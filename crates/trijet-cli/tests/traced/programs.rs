//! The traced programs. Each of them uses CUDA through the libraries that the environment names.

use crate::cuda::{initialise, library};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, fork};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio, abort, exit};

/// Runs the program with this name.
pub(crate) fn run(name: &str) {
    let (name, number) = name.split_once(' ').unwrap_or((name, "1000"));
    let records: u64 = number.parse().unwrap();
    match name {
        "plain" => used(records),
        "allocates" => allocates(records),
        "names-ranges" => names_ranges(records),
        "uses-events" => reports("empty_cupti_emit_events", records),
        "launches-graphs" => reports("empty_cupti_emit_graphs", records),
        "heats-up" => {
            reports("empty_cupti_emit_graphs", 1);
            reports("empty_cupti_emit_environment", records);
        }
        "close-descriptors" => close_descriptors(records),
        "no-descriptors" => limited(Resource::RLIMIT_NOFILE, 0, records),
        "no-memory" => no_memory(records),
        "file-limit" => limited(Resource::RLIMIT_FSIZE, 200_000, records),
        "forks" => forks(records),
        "execs" => execs(records),
        "aborts" => {
            used(records);
            abort();
        }
        "quits" => {
            used(records);
            // SAFETY: the call ends the process, and returns to nothing.
            unsafe { nix::libc::_exit(0) };
        }
        "background" => background(records),
        "after-input" => after_input(records),
        "daemon" => daemon(records),
        "leaves-one-behind" => leaves_one_behind(records),
        "waits-for-signal" => waits_for_signal(records),
        "no-cuda" => {}
        _ => {
            let is_known = crate::calling::run(name)
                || crate::kernels::run(name)
                || crate::memory::run(name)
                || crate::graphs::run(name)
                || crate::touching::run(name);
            assert!(is_known, "no program `{name}`");
        }
    }
}

/// Makes the stand-in for CUPTI report records, or calls if the program is checked.
fn emit(records: u64) {
    if std::env::var_os("TRIJET_CALLS").is_some() {
        return crate::touching::copies(records);
    }
    let cupti = library("TRIJET_LIBCUPTI");
    // SAFETY: the stand-in has this signature.
    let emit = unsafe { cupti.get::<extern "C" fn(u64)>(b"empty_cupti_emit") }.unwrap();
    emit(records);
    std::mem::forget(cupti);
}

/// Allocates device memory `count` times, and frees it.
fn allocates(count: u64) {
    used(2);
    reports("empty_cupti_emit_memory", count);
}

/// Initialises CUDA, and makes the stand-in for CUPTI report records with this function.
fn reports(function: &str, count: u64) {
    initialise();
    let cupti = library("TRIJET_LIBCUPTI");
    // SAFETY: the stand-in declares this signature for all functions that report records.
    let emit = unsafe { cupti.get::<extern "C" fn(u64)>(function.as_bytes()) }.unwrap();
    emit(count);
    std::mem::forget(cupti);
}

/// A table of NVTX that has no functions.
extern "C" fn no_table(_: u32) -> *const std::ffi::c_void {
    std::ptr::null()
}

/// Calls NVTX as the parts of a program do, each with NVTX of its own: one before CUDA is used, one
/// after that. Then opens `count` ranges, each with a kernel in it.
fn names_ranges(count: u64) {
    let connect = || {
        let library = library("NVTX_INJECTION64_PATH");
        type Entry = extern "C" fn(extern "C" fn(u32) -> *const std::ffi::c_void) -> i32;
        // SAFETY: NVTX documents this signature.
        let entry = unsafe { library.get::<Entry>(b"InitializeInjectionNvtx2") }.unwrap();
        assert_eq!(entry(no_table), 1);
        std::mem::forget(library);
    };
    connect();
    initialise();
    connect();
    let cupti = library("TRIJET_LIBCUPTI");
    // SAFETY: the stand-in has this signature.
    let emit = unsafe { cupti.get::<extern "C" fn(u64)>(b"empty_cupti_emit_ranges") }.unwrap();
    // SAFETY: the stand-in has this signature.
    let tables = unsafe { cupti.get::<extern "C" fn() -> u64>(b"empty_cupti_tables") }.unwrap();
    assert_eq!(tables(), 2, "the part from before CUDA is connected too");
    emit(count);
    std::mem::forget(cupti);
}

fn used(records: u64) {
    initialise();
    emit(records);
}

/// Closes every descriptor that it did not open, as daemons do, and gets their numbers for its own
/// files.
fn close_descriptors(records: u64) {
    used(records);
    for descriptor in 3..1024 {
        // SAFETY: nothing in this program uses the descriptor. The tracing library has to cope with
        // this.
        unsafe { nix::libc::close(descriptor) };
    }
    let mut files: Vec<File> = (0..64).map(|n| File::create(format!("own-{n}")).unwrap()).collect();
    emit(records);
    for file in &mut files {
        file.write_all(b"own bytes").unwrap();
    }
}

fn limited(resource: Resource, limit: u64, records: u64) {
    initialise();
    setrlimit(resource, limit, limit).unwrap();
    emit(records);
    println!("alive");
}

/// Makes CUPTI hold its buffers, and allows itself no further memory: the records of the first
/// buffer fit, and no other buffer can be made, however fast the recorder is.
fn no_memory(records: u64) {
    used(records);
    let cupti = library("TRIJET_LIBCUPTI");
    // SAFETY: the stand-in defines this signature.
    let hold = unsafe { cupti.get::<extern "C" fn()>(b"empty_cupti_hold") }.unwrap();
    hold();
    std::mem::forget(cupti);
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let bytes = pages * 4096 + (256 << 10);
    setrlimit(Resource::RLIMIT_AS, bytes, bytes).unwrap();
    emit(45 * records);
    println!("alive");
}

/// Forks after its initialisation; the child exits through its exit handlers.
fn forks(records: u64) {
    used(records);
    // SAFETY: the child calls nothing that needs a lock of another thread before it exits.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => exit(0),
        ForkResult::Parent { child } => {
            nix::sys::wait::waitpid(child, None).unwrap();
        }
    }
    emit(records);
}

/// Starts another program in its place.
fn execs(records: u64) {
    used(records);
    let mut command = Command::new(std::env::current_exe().unwrap());
    panic!("{}", command.env(crate::run::PROGRAM, format!("plain {}", 2 * records)).exec());
}

/// Starts itself in the background and ends at once. The background program starts its work when
/// this one has ended, which it sees by the end of its input.
#[expect(clippy::zombie_processes, reason = "this program ends before the other one")]
fn background(records: u64) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .env(crate::run::PROGRAM, format!("after-input {records}"))
        .stdin(Stdio::from(reader))
        .spawn()
        .unwrap();
    // The end of this process closes it.
    std::mem::forget(writer);
}

/// Detaches itself as a daemon does, and then uses CUDA.
fn daemon(records: u64) {
    // SAFETY: this process has one thread.
    if unsafe { fork() }.unwrap().is_parent() {
        exit(0);
    }
    nix::unistd::setsid().unwrap();
    // SAFETY: as before.
    if unsafe { fork() }.unwrap().is_parent() {
        exit(0);
    }
    for descriptor in 0..1024 {
        // SAFETY: nothing in this program uses the descriptors of its parents.
        unsafe { nix::libc::close(descriptor) };
    }
    for _ in 0..3 {
        let null = File::options().read(true).write(true).open("/dev/null").unwrap();
        std::mem::forget(null);
    }
    used(records);
    std::fs::write("daemon-done", b"done").unwrap();
}

/// Starts a program that waits for a signal, prints its number, and ends when that program has used
/// CUDA.
#[expect(clippy::zombie_processes, reason = "this program ends before the other one")]
fn leaves_one_behind(records: u64) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let program = format!("waits-for-signal {records}");
    let mut child =
        command.env(crate::run::PROGRAM, program).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    println!("{}", child.id());
}

/// Prints that it runs, and exits when it is asked to.
fn waits_for_signal(records: u64) {
    let asked = SigSet::from_iter([Signal::SIGTERM, Signal::SIGUSR1]);
    asked.thread_block().unwrap();
    used(records);
    println!("ready");
    let signal = asked.wait().unwrap();
    exit(if signal == Signal::SIGTERM { 3 } else { 4 });
}

/// Uses CUDA when its input ends.
fn after_input(records: u64) {
    let mut input = Vec::new();
    stdin().read_to_end(&mut input).unwrap();
    used(records);
}
