//! Programs that touch page-locked memory while copies may use it, for `trijet check`.

use crate::calling::{DATA, Driver, EVENT, NON_BLOCKING, ONE, OTHER, Passed, follow};
use nix::libc::{SA_SIGINFO, c_int, c_void, sigaction, siginfo_t};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use nix::unistd::{ForkResult, fork};
use std::num::NonZeroUsize;
use std::process::exit;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use Passed::{Int, Out, Word};

const PAGE: usize = 1 << 16;
const BYTES: usize = 16 * PAGE;
const SECOND_EVENT: u64 = 0x4_0000;
/// `CU_MEMHOSTREGISTER_READ_ONLY`.
const READ_ONLY: u32 = 8;

/// Memory of the host.
#[derive(Clone, Copy)]
struct Host(NonNull<c_void>);

// SAFETY: the memory is mapped until the process ends, and all accesses are of single bytes.
unsafe impl Send for Host {}

// SAFETY: accesses of several threads are reads, or no other thread has the value.
unsafe impl Sync for Host {}

impl Host {
    fn new() -> Self {
        let bytes = NonZeroUsize::new(BYTES).unwrap();
        let allowed = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: new memory is mapped where nothing was.
        Self(unsafe { mmap_anonymous(None, bytes, allowed, MapFlags::MAP_PRIVATE) }.unwrap())
    }

    fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    fn read(self, at: usize) {
        let byte = self.0.as_ptr().cast::<u8>().wrapping_add(at);
        // SAFETY: the byte is mapped.
        unsafe { byte.read_volatile() };
    }

    fn write(self, at: usize) {
        let byte = self.0.as_ptr().cast::<u8>().wrapping_add(at);
        // SAFETY: the byte is mapped, and nothing else uses it.
        unsafe { byte.write_volatile(1) };
    }

    fn forbid(self, allowed: ProtFlags) {
        // SAFETY: an access of this program is handled by its handler.
        unsafe { mprotect(self.0, BYTES, allowed) }.unwrap();
    }
}

/// A driver with two streams, memory of the device, and page-locked memory.
fn prepared() -> (Driver, Host) {
    prepared_by(Driver::new())
}

/// The number of calls of [`prepared_by`].
pub(crate) const PREPARED: u64 = 4;

fn prepared_by(driver: Driver) -> (Driver, Host) {
    for stream in [ONE, OTHER] {
        driver.call(c"cuStreamCreate", &[Out(stream), Int(NON_BLOCKING)]);
    }
    driver.call(c"cuMemAlloc_v2", &[Out(DATA), Word(BYTES as u64)]);
    let host = Host::new();
    driver.call(c"cuMemHostAlloc", &[Out(host.address()), Word(BYTES as u64), Int(0)]);
    (driver, host)
}

/// Makes `count` calls in a program that has initialised CUDA, after [`PREPARED`] ones at the first
/// time: copies from page-locked memory in turn with waits. Between them, the memory is written.
pub(crate) fn copies(count: u64) {
    // Never dropped, because the stand-in must not be unloaded.
    static PREPARATION: OnceLock<(Driver, Host)> = OnceLock::new();
    let (driver, host) = PREPARATION.get_or_init(|| prepared_by(Driver::initialised()));
    for number in 0..count {
        if number % 2 == 0 {
            upload(driver, *host);
        } else {
            wait(driver, ONE);
            host.write(0);
        }
    }
}

fn download(driver: &Driver, host: Host) {
    download_part(driver, host, 0, BYTES);
}

fn download_part(driver: &Driver, host: Host, at: usize, bytes: usize) {
    let to = Word(host.address() + at as u64);
    let passed = [to, Word(DATA + at as u64), Word(bytes as u64), Word(ONE)];
    driver.call(c"cuMemcpyDtoHAsync_v2", &passed);
}

fn upload(driver: &Driver, host: Host) {
    let passed = [Word(DATA), Word(host.address()), Word(BYTES as u64), Word(ONE)];
    driver.call(c"cuMemcpyHtoDAsync_v2", &passed);
}

fn wait(driver: &Driver, stream: u64) {
    driver.call(c"cuStreamSynchronize", &[Word(stream)]);
}

/// Runs the program with this name; false if there is none.
pub(crate) fn run(name: &str) -> bool {
    let program: fn() = match name {
        "reads-early" => || reads_after(|_, _| ()),
        "reads-after-wait" => || reads_after(|driver, _| wait(driver, ONE)),
        "reads-after-other-wait" => || reads_after(|driver, _| wait(driver, OTHER)),
        "reads-after-event" => || {
            reads_after(|driver, _| {
                follow(driver, ONE, OTHER);
                wait(driver, OTHER);
            });
        },
        "reads-after-two-events" => || {
            reads_after(|driver, _| {
                follow(driver, ONE, OTHER);
                driver.call(c"cuEventRecord", &[Word(SECOND_EVENT), Word(OTHER)]);
                driver.call(c"cuEventSynchronize", &[Word(SECOND_EVENT)]);
            });
        },
        "reads-after-early-event" => reads_after_early_event,
        "reads-after-host-function" => || {
            reads_after(|driver, _| {
                driver.call(c"cuLaunchHostFunc", &[Word(ONE), Word(0), Word(0)]);
            });
        },
        "reads-after-kernel-with-memory" => || {
            reads_after(|driver, host| driver.launch(ONE, host.address()));
        },
        "reads-after-value" => || {
            reads_after(|driver, host| {
                let flag = host.address() + PAGE as u64;
                let passed = [Word(ONE), Word(flag), Int(1), Int(0)];
                driver.call(c"cuStreamWriteValue32_v2", &passed);
            });
        },
        "reads-after-batch-of-values" => || {
            reads_after(|driver, _| {
                let passed = [Word(ONE), Int(1), Word(0), Int(0)];
                driver.call(c"cuStreamBatchMemOp_v2", &passed);
            });
        },
        "reads-after-elapsed-time" => || {
            reads_after(|driver, _| {
                driver.call(c"cuEventRecord", &[Word(EVENT), Word(ONE)]);
                driver.call(c"cuEventElapsedTime", &[Word(0), Word(SECOND_EVENT), Word(EVENT)]);
            });
        },
        "reads-in-other-thread" => reads_in_other_thread,
        "reads-end-early" => reads_end_early,
        "reads-registered-early" => || reads_registered(0),
        "reads-read-only" => || reads_registered(READ_ONLY),
        "reads-while-captured" => reads_while_captured,
        "writes-source-of-graph" => writes_source_of_graph,
        "reads-again" => reads_again,
        "reads-part" => reads_part,
        "reads-in-child" => reads_in_child,
        "reads-source" => reads_source,
        "writes-source-early" => writes_source_early,
        "writes-early" => writes_early,
        "writes-freed" => || writes_given_up(c"cuMemFreeHost"),
        "writes-unregistered" => || writes_given_up(c"cuMemHostUnregister"),
        "reads-at-once" => reads_at_once,
        "own-handler" => || own_handler(true),
        "own-handler-later" => || own_handler(false),
        _ => return false,
    };
    program();
    true
}

/// A read of the result of a copy, after `between`.
fn reads_after(between: fn(&Driver, Host)) {
    let (driver, host) = prepared();
    download(&driver, host);
    between(&driver, host);
    host.read(0);
    wait(&driver, ONE);
}

/// The event that the host waits for was recorded before the copy.
fn reads_after_early_event() {
    let (driver, host) = prepared();
    driver.call(c"cuEventRecord", &[Word(EVENT), Word(ONE)]);
    download(&driver, host);
    driver.call(c"cuEventSynchronize", &[Word(EVENT)]);
    host.read(0);
    wait(&driver, ONE);
}

/// A thread that makes no call reads.
fn reads_in_other_thread() {
    let (driver, host) = prepared();
    download(&driver, host);
    std::thread::spawn(move || host.read(0)).join().unwrap();
    wait(&driver, ONE);
}

fn reads_end_early() {
    let (driver, host) = prepared();
    download(&driver, host);
    host.read(BYTES - 1);
    wait(&driver, ONE);
}

/// Memory of the program that it registers with `flags`.
fn reads_registered(flags: u32) {
    let (driver, _) = prepared();
    let host = Host::new();
    if flags == READ_ONLY {
        host.forbid(ProtFlags::PROT_READ);
    }
    let passed = [Word(host.address()), Word(BYTES as u64), Int(flags)];
    driver.call(c"cuMemHostRegister_v2", &passed);
    if flags == READ_ONLY {
        upload(&driver, host);
    } else {
        download(&driver, host);
    }
    host.read(0);
    wait(&driver, ONE);
}

/// A copy that is captured does not run.
fn reads_while_captured() {
    let (driver, host) = prepared();
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    download(&driver, host);
    host.read(0);
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(0x9_0000)]);
}

/// The source of a copy of a graph is written after its second launch.
fn writes_source_of_graph() {
    let (graph, program) = (0x9_0000, 0xa_0000);
    let (driver, host) = prepared();
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    upload(&driver, host);
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(graph)]);
    driver.call(c"cuGraphInstantiateWithFlags", &[Out(program), Word(graph), Word(0)]);
    host.write(0);
    driver.call(c"cuGraphLaunch", &[Word(program), Word(ONE)]);
    wait(&driver, ONE);
    host.write(0);
    driver.call(c"cuGraphLaunch", &[Word(program), Word(OTHER)]);
    host.write(0);
    wait(&driver, OTHER);
}

/// A buffer is used again and again, and read too early the last time.
fn reads_again() {
    let (driver, host) = prepared();
    for _ in 0..100 {
        upload(&driver, host);
        download(&driver, host);
        wait(&driver, ONE);
        host.read(0);
        host.write(0);
    }
    upload(&driver, host);
    download(&driver, host);
    host.read(0);
    wait(&driver, ONE);
}

/// The second copy has a part of the bytes of the first one. The host waits for the first one only.
fn reads_part() {
    let (driver, host) = prepared();
    download_part(&driver, host, 0, 2 * PAGE);
    driver.call(c"cuEventRecord", &[Word(EVENT), Word(ONE)]);
    download_part(&driver, host, PAGE, 2 * PAGE);
    driver.call(c"cuEventSynchronize", &[Word(EVENT)]);
    host.read(0);
    host.read(PAGE);
    wait(&driver, ONE);
}

/// Threads read all the time, while the memory is protected and opened again.
fn reads_at_once() {
    static HAS_ENDED: AtomicBool = AtomicBool::new(false);
    let (driver, host) = prepared();
    let read = move || {
        while !HAS_ENDED.load(Ordering::Relaxed) {
            host.read(0);
            host.read(BYTES - 1);
        }
    };
    let threads = [std::thread::spawn(read), std::thread::spawn(read)];
    for number in 0..500 {
        // Ranges that change keep the handler from finding always the same one.
        download_part(&driver, host, (number % 3) * PAGE, (8 + number % 5) * PAGE);
        wait(&driver, ONE);
    }
    HAS_ENDED.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A child has its own memory.
fn reads_in_child() {
    let (driver, host) = prepared();
    download(&driver, host);
    // SAFETY: the child calls nothing that needs a lock of another thread.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            host.read(0);
            exit(0);
        }
        ForkResult::Parent { child } => {
            let ended = nix::sys::wait::waitpid(child, None).unwrap();
            assert!(matches!(ended, nix::sys::wait::WaitStatus::Exited(_, 0)), "{ended:?}");
        }
    }
    wait(&driver, ONE);
    host.read(0);
}

fn reads_source() {
    let (driver, host) = prepared();
    upload(&driver, host);
    host.read(0);
    host.read(BYTES - 1);
}

fn writes_source_early() {
    let (driver, host) = prepared();
    upload(&driver, host);
    host.read(0);
    host.write(0);
    wait(&driver, ONE);
}

fn writes_early() {
    let (driver, host) = prepared();
    download(&driver, host);
    host.write(0);
    wait(&driver, ONE);
}

/// Memory that is no longer page-locked is written.
fn writes_given_up(function: &std::ffi::CStr) {
    let (driver, host) = prepared();
    download(&driver, host);
    wait(&driver, ONE);
    upload(&driver, host);
    wait(&driver, ONE);
    download(&driver, host);
    wait(&driver, ONE);
    driver.call(function, &[Word(host.address())]);
    host.write(0);
}

/// Memory that the handler of the program opens, and the number of its runs.
static OWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn handler(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the system passes this structure, which nothing else uses meanwhile.
    let info = unsafe { &*info };
    // SAFETY: the signal is one of an address.
    let address = unsafe { info.si_addr() };
    let own = Host(NonNull::new(OWN.load(Ordering::Relaxed)).unwrap());
    assert!((own.address()..own.address() + BYTES as u64).contains(&(address.addr() as u64)));
    own.forbid(ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

fn set_handler() {
    // SAFETY: all zeros are a valid action.
    let mut action: sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = SA_SIGINFO;
    // SAFETY: the handler has the signature that `SA_SIGINFO` demands.
    let code = unsafe { sigaction(nix::libc::SIGSEGV, &raw const action, std::ptr::null_mut()) };
    assert_eq!(code, 0);
}

/// A program with a handler for its own faults reads too early twice.
fn own_handler(is_first: bool) {
    if is_first {
        set_handler();
    }
    let (driver, host) = prepared();
    let own = Host::new();
    OWN.store(own.0.as_ptr(), Ordering::Relaxed);
    for turn in 1..3 {
        download(&driver, host);
        host.read(0);
        own.forbid(ProtFlags::PROT_NONE);
        if !is_first {
            set_handler();
        }
        own.write(0);
        assert_eq!(HANDLED.load(Ordering::Relaxed), turn);
        wait(&driver, ONE);
    }
}
