//! The stacks of the calls that a thread makes to the heap while it is followed.

use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use trijet::Result;

thread_local! {
    /// Whether the calls of this thread to the heap are followed.
    static FOLLOWED: Cell<bool> = const { Cell::new(false) };
    static STACKS: RefCell<Vec<Backtrace>> = const { RefCell::new(Vec::new()) };
}

/// The system's allocator, which keeps the stacks of its callers.
struct Following;

/// Keeps the stack of the caller. The capture's own calls to the heap are not followed, and neither
/// is a panic, which holds a lock that the capture needs.
fn keep_stack() {
    if !std::thread::panicking() && FOLLOWED.replace(false) {
        let stack = Backtrace::force_capture();
        STACKS.with_borrow_mut(|stacks| stacks.push(stack));
        FOLLOWED.set(true);
    }
}

// SAFETY: the system's allocator does all of the work. Keeping a stack does not unwind: the list is
// borrowed here only while `FOLLOWED` is down, and a thread that is followed has not ended.
unsafe impl GlobalAlloc for Following {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        keep_stack();
        // SAFETY: the caller promises what the system demands of `block`.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, address: *mut u8, block: Block) {
        keep_stack();
        // SAFETY: `alloc` above got the address from the system, for the same `block`.
        unsafe { System.dealloc(address, block) }
    }
}

#[global_allocator]
static FOLLOWING: Following = Following;

/// Starts to follow this thread.
pub(crate) fn start() {
    FOLLOWED.set(true);
}

/// Ends the following of this thread.
pub(crate) fn stop() {
    FOLLOWED.set(false);
}

/// The stacks since the last call, in the order of the calls.
pub(crate) fn taken() -> Vec<String> {
    STACKS.take().iter().map(|stack| format!("{stack:#}")).collect()
}

/// The stacks of `work`.
pub(crate) fn followed(work: impl FnOnce() -> Result<()>) -> Result<Vec<String>> {
    start();
    let done = work();
    stop();
    done.map(|()| taken())
}
