//! The calls of the operating system that protect memory and handle the signal of a forbidden
//! access. All of them may be made in a signal handler.

use std::ffi::{c_int, c_long, c_void};
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn mprotect(address: *mut c_void, bytes: usize, protection: c_int) -> c_int;
    fn sigaction(signal: c_int, new: *const SignalAction, old: *mut SignalAction) -> c_int;
    fn sysconf(name: c_int) -> c_long;
    fn gettid() -> c_int;
    fn raise(signal: c_int) -> c_int;
    fn __errno_location() -> *mut c_int;
}

/// `SIGSEGV`.
const FORBIDDEN_MEMORY: c_int = 11;
/// `SA_SIGINFO`.
const WITH_DETAILS: c_int = 4;
/// `SIG_IGN`; `SIG_DFL` is 0.
const IGNORED: usize = 1;

/// A handler that was set with `SA_SIGINFO`.
pub(crate) type Handler = extern "C" fn(c_int, *const c_void, *mut c_void);

/// `struct sigaction` of the C library on 64-bit Linux.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignalAction {
    handler: usize,
    mask: [u64; 16],
    flags: c_int,
    restorer: usize,
}

impl SignalAction {
    const DEFAULT: Self = Self { handler: 0, mask: [0; 16], flags: 0, restorer: 0 };

    /// Whether the action calls this handler.
    pub(crate) fn is_of(&self, handler: Handler) -> bool {
        self.handler == handler as usize
    }
}

/// The accesses that a protection allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// None.
    None,
    /// Reads.
    Read,
    /// Reads and writes.
    ReadAndWrite,
}

/// Sets the protection of whole pages. Returns whether it succeeded.
pub(crate) fn protect(range: &Range<usize>, protection: Protection) -> bool {
    let allowed = match protection {
        Protection::None => 0,
        Protection::Read => 1,
        Protection::ReadAndWrite => 3,
    };
    let start = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the range is page-locked memory of the program, and a later fault opens it again.
    // False for memory of this library, which is never page-locked.
    unsafe { mprotect(start, range.end - range.start, allowed) == 0 }
}

/// The number of bytes of a page.
pub(crate) fn page_bytes() -> usize {
    /// `_SC_PAGESIZE`.
    const PAGE: c_int = 30;
    // SAFETY: the call takes any number.
    usize::try_from(unsafe { sysconf(PAGE) }).unwrap_or(1 << 16)
}

/// The number of the calling thread in the system.
pub(crate) fn thread() -> c_int {
    // SAFETY: the call has no arguments.
    unsafe { gettid() }
}

/// The present action for forbidden memory.
pub(crate) fn fault_action() -> Option<SignalAction> {
    let mut now = SignalAction::DEFAULT;
    // SAFETY: the call writes the local variable, which has the layout of the C library.
    let code = unsafe { sigaction(FORBIDDEN_MEMORY, std::ptr::null(), &raw mut now) };
    (code == 0).then_some(now)
}

fn set(action: &SignalAction) -> bool {
    // SAFETY: the action is the default one, or calls a function that is mapped until the process
    // ends. False if this library is unloaded before. The driver never unloads it.
    unsafe { sigaction(FORBIDDEN_MEMORY, &raw const *action, std::ptr::null_mut()) == 0 }
}

/// Sets the handler for forbidden memory. It runs on the stack of the thread: an alternative stack
/// of a program is often too small for walking a stack.
pub(crate) fn set_fault_handler(handler: Handler) -> bool {
    set(&SignalAction { handler: handler as usize, flags: WITH_DETAILS, ..SignalAction::DEFAULT })
}

/// An action that is kept for a signal handler.
pub(crate) struct KeptAction {
    handler: AtomicUsize,
    has_details: AtomicUsize,
}

impl KeptAction {
    pub(crate) const fn new() -> Self {
        Self { handler: AtomicUsize::new(0), has_details: AtomicUsize::new(0) }
    }

    pub(crate) fn keep(&self, action: &SignalAction) {
        let has_details = usize::from(action.flags & WITH_DETAILS != 0);
        self.has_details.store(has_details, Ordering::Relaxed);
        self.handler.store(action.handler, Ordering::Relaxed);
    }

    /// Runs the action. The default one ends the process when the faulting instruction is repeated.
    ///
    /// # Safety
    /// The system has passed the arguments to a handler that was set with `SA_SIGINFO`.
    pub(crate) unsafe fn run(&self, signal: c_int, info: *const c_void, context: *mut c_void) {
        let handler = self.handler.load(Ordering::Relaxed);
        // SAFETY: the caller passes the arguments of a handler.
        let is_sent = unsafe { MemoryFault::new(info, context) }.code <= 0;
        if handler == IGNORED && is_sent {
            // Only a fault itself cannot be ignored.
        } else if handler <= IGNORED {
            set(&SignalAction::DEFAULT);
            if is_sent {
                // SAFETY: the signal has its default action, which ends the process.
                unsafe { raise(signal) };
            }
        } else if self.has_details.load(Ordering::Relaxed) != 0 {
            // SAFETY: the program has set this address as a handler of three arguments.
            let run = unsafe { mem::transmute::<usize, Handler>(handler) };
            run(signal, info, context);
        } else {
            // SAFETY: the program has set this address as a handler of one argument.
            let run = unsafe { mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            run(signal);
        }
    }
}

/// A fault, as its handler gets it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryFault {
    pub(crate) code: c_int,
    pub(crate) address: usize,
    /// Whether the instruction writes, where the system tells.
    pub(crate) is_write: Option<bool>,
    /// The address of the instruction; 0 where it is not known.
    pub(crate) instruction: usize,
}

impl MemoryFault {
    /// # Safety
    /// The system has passed the arguments to a handler that was set with `SA_SIGINFO`.
    pub(crate) unsafe fn new(info: *const c_void, context: *const c_void) -> Self {
        let code = info.wrapping_byte_add(8).cast::<c_int>();
        // SAFETY: `siginfo_t` has its code at byte 8 on Linux.
        let code = unsafe { code.read() };
        let address = info.wrapping_byte_add(16).cast::<usize>();
        // SAFETY: `siginfo_t` of this signal has the address at byte 16 on 64-bit Linux.
        let address = unsafe { address.read() };
        if !cfg!(target_arch = "x86_64") {
            return Self { code, address, is_write: None, instruction: 0 };
        }
        let instruction = context.wrapping_byte_add(168).cast::<usize>();
        // SAFETY: `ucontext_t` of x86-64 has `RIP` at byte 168.
        let instruction = unsafe { instruction.read() };
        let error = context.wrapping_byte_add(192).cast::<usize>();
        // SAFETY: `ucontext_t` of x86-64 has the error code at byte 192, whose bit 1 is a write.
        let error = unsafe { error.read() };
        Self { code, address, is_write: Some(error & 2 != 0), instruction }
    }
}

/// The error number of the thread, which is set again when this value is dropped.
pub(crate) struct KeptErrorNumber(c_int);

impl KeptErrorNumber {
    pub(crate) fn new() -> Self {
        // SAFETY: the C library returns the address of a variable of the calling thread.
        let place = unsafe { __errno_location() };
        // SAFETY: the variable exists while the thread does.
        Self(unsafe { place.read() })
    }
}

impl Drop for KeptErrorNumber {
    fn drop(&mut self) {
        // SAFETY: the C library returns the address of a variable of the calling thread.
        let place = unsafe { __errno_location() };
        // SAFETY: the variable of this thread is an integer that any call may set.
        unsafe { place.write(self.0) };
    }
}
