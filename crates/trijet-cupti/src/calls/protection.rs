//! Protected memory of the program: an access of the host raises a signal, whose handler notes the
//! access, opens the memory, and lets the program go on.
//!
//! The handler may interrupt any code, even the allocator or this recorder. Therefore it takes no
//! lock and allocates nothing: it finds protected ranges in a table of atomic numbers, and leaves
//! its notes in another one.

use super::clock;
use super::python::{self, TEXT_BYTES};
use super::stack::{self, FRAMES, HostStack};
use crate::signal::{self, KeptAction, KeptErrorNumber, MemoryFault, Protection};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of ranges that are protected at a time.
pub(super) const RANGES_MAX: usize = 256;
/// Maximum number of accesses that wait for the recorder.
const NOTES_MAX: usize = 64;
/// Maximum number of faults of a thread in a row at one address without a range. Another thread may
/// have opened the range meanwhile; a fault of the program itself repeats.
const STRAY_MAX: usize = 20;
/// The time after which a fault is in no row with the one before.
const ROW_NANOS: u64 = 10_000_000;
/// The number of rows, by the number of the thread.
const ROWS: usize = 64;
/// `SEGV_ACCERR`: the memory is mapped, and its protection forbids the access.
const FORBIDDEN: c_int = 2;

/// A protected range. The end is 0 in an unused place.
struct ProtectedRange {
    /// Odd while the range is changed.
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    /// Whether the handler has opened the memory.
    is_open: AtomicBool,
    /// Whether reads are allowed.
    is_readable: AtomicBool,
}

/// The states of a note.
const FREE: u32 = 0;
const BUSY: u32 = 1;
const FULL: u32 = 2;

struct NotedAccess {
    state: AtomicU32,
    order: AtomicU64,
    time: AtomicU64,
    address: AtomicUsize,
    is_write: AtomicBool,
    frames: [AtomicUsize; FRAMES],
    /// The frames of Python, and the lines about them: the frames end before the note is taken.
    python: [[AtomicUsize; 2]; python::FRAMES],
    lines: [AtomicU8; TEXT_BYTES],
    lines_length: AtomicUsize,
}

static RANGES: [ProtectedRange; RANGES_MAX] = [const {
    ProtectedRange {
        version: AtomicUsize::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_open: AtomicBool::new(false),
        is_readable: AtomicBool::new(false),
    }
}; RANGES_MAX];
static NOTES: [NotedAccess; NOTES_MAX] = [const {
    NotedAccess {
        state: AtomicU32::new(FREE),
        order: AtomicU64::new(0),
        time: AtomicU64::new(0),
        address: AtomicUsize::new(0),
        is_write: AtomicBool::new(false),
        frames: [const { AtomicUsize::new(0) }; FRAMES],
        python: [const { [const { AtomicUsize::new(0) }; 2] }; python::FRAMES],
        lines: [const { AtomicU8::new(0) }; TEXT_BYTES],
        lines_length: AtomicUsize::new(0),
    }
}; NOTES_MAX];
/// The number of accesses so far, and of those that found no room.
static NOTED: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
/// The number of notes that the recorder has not taken.
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// The addresses below and above all ranges that were ever protected.
static LEAST: AtomicUsize = AtomicUsize::new(usize::MAX);
static GREATEST: AtomicUsize = AtomicUsize::new(0);
/// For each row of faults: the address, the number of faults, and the time of the last one.
static STRAYS: [(AtomicUsize, AtomicUsize, AtomicU64); ROWS] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0)) }; ROWS];
/// The process that is recorded.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The action that the handler has replaced.
static PREVIOUS: KeptAction = KeptAction::new();

/// An access of the host to protected memory.
#[derive(Debug, Clone)]
pub(super) struct HostAccess {
    order: u64,
    /// The time in nanoseconds since the start of the recorder.
    pub(super) time: u64,
    pub(super) address: usize,
    pub(super) is_write: bool,
    pub(super) stack: HostStack,
    /// A line for each frame of Python.
    pub(super) python_lines: Vec<u8>,
}

/// Makes the handler the one of the process. Called before each protection, because the program may
/// have set a handler of its own. Returns whether it succeeded.
pub(super) fn prepare() -> bool {
    let Some(now) = signal::fault_action() else { return false };
    if now.is_of(faulted) {
        return true;
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    PREVIOUS.keep(&now);
    signal::set_fault_handler(faulted)
}

/// Forbids accesses of the host to whole pages. `place` is an index that no other range has.
pub(super) fn protect(place: usize, range: &Range<usize>, is_readable: bool) -> bool {
    let one = &RANGES[place];
    // The handler must find the range before a thread can fault in it.
    one.change(range, is_readable);
    LEAST.fetch_min(range.start, Ordering::Relaxed);
    GREATEST.fetch_max(range.end, Ordering::Relaxed);
    let wanted = if is_readable { Protection::Read } else { Protection::None };
    let is_done = signal::protect(range, wanted);
    if !is_done {
        // A part of the range may have the protection.
        let _done = signal::protect(range, Protection::ReadAndWrite);
        forget(place);
    }
    is_done
}

impl ProtectedRange {
    /// Sets the range. The recorder does so under a lock, and the handler may read meanwhile.
    fn change(&self, range: &Range<usize>, is_readable: bool) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.start.store(range.start, Ordering::SeqCst);
        self.end.store(range.end, Ordering::SeqCst);
        self.is_open.store(false, Ordering::SeqCst);
        self.is_readable.store(is_readable, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The range, if it was not changed meanwhile. A range that changes was opened before, or is
    /// being protected; the fault then repeats.
    fn range(&self) -> Option<Range<usize>> {
        let before = self.version.load(Ordering::SeqCst);
        let range = self.start.load(Ordering::SeqCst)..self.end.load(Ordering::SeqCst);
        let is_whole = before.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == before;
        is_whole.then_some(range)
    }
}

/// Forbids accesses to a part of a range again, after another range has been opened.
pub(super) fn protect_part(place: usize, part: &Range<usize>) {
    let one = &RANGES[place];
    if !is_open(place) {
        let is_readable = one.is_readable.load(Ordering::Relaxed);
        let wanted = if is_readable { Protection::Read } else { Protection::None };
        // After a failure, accesses are missed.
        let _done = signal::protect(part, wanted);
    }
}

/// Whether the handler has opened the range.
pub(super) fn is_open(place: usize) -> bool {
    RANGES[place].is_open.load(Ordering::Relaxed)
}

/// Ends the protection of a range. The place may be used again. The pages may be forbidden even if
/// the handler has opened them: it may have come between the note of a range and its protection.
pub(super) fn open(place: usize, range: &Range<usize>) {
    // It succeeded for this range before; the handler tries again.
    let _done = signal::protect(range, Protection::ReadAndWrite);
    forget(place);
}

/// Gives up a place whose range another one has.
pub(super) fn forget(place: usize) {
    RANGES[place].change(&(0..0), false);
}

/// Whether there are notes.
pub(super) fn has_accesses() -> bool {
    WAITING.load(Ordering::Relaxed) > 0
}

/// Takes the noted accesses in their order, and the number of those that were lost.
pub(super) fn take_accesses() -> (Vec<HostAccess>, u64) {
    let mut all = Vec::new();
    for note in &NOTES {
        if note.state.load(Ordering::Acquire) != FULL {
            continue;
        }
        let load = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        let lines = &note.lines[..load(&note.lines_length).min(TEXT_BYTES)];
        all.push(HostAccess {
            order: note.order.load(Ordering::Relaxed),
            time: note.time.load(Ordering::Relaxed),
            address: note.address.load(Ordering::Relaxed),
            is_write: note.is_write.load(Ordering::Relaxed),
            stack: HostStack {
                frames: note.frames.each_ref().map(load),
                python: note.python.each_ref().map(|frame| frame.each_ref().map(load)),
            },
            python_lines: lines.iter().map(|byte| byte.load(Ordering::Relaxed)).collect(),
        });
        note.state.store(FREE, Ordering::Release);
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
    all.sort_by_key(|one| one.order);
    (all, LOST.swap(0, Ordering::Relaxed))
}

/// The handler of the signal for forbidden memory.
extern "C" fn faulted(number: c_int, info: *const c_void, context: *mut c_void) {
    // SAFETY: the kernel passes both structures to a handler that was set with `SA_SIGINFO`.
    let fault = unsafe { MemoryFault::new(info, context) };
    let _errno = KeptErrorNumber::new();
    if fault.code == FORBIDDEN && (opened(&fault) || is_stray(fault.address)) {
        return;
    }
    // SAFETY: this handler got the same arguments.
    unsafe { PREVIOUS.run(number, info, context) };
}

/// Whether the fault may be in a range that another thread has opened meanwhile.
fn is_stray(address: usize) -> bool {
    if !(LEAST.load(Ordering::Relaxed)..GREATEST.load(Ordering::Relaxed)).contains(&address) {
        return false;
    }
    let (at, count, time) = &STRAYS[signal::thread().unsigned_abs() as usize % ROWS];
    let now = clock::now();
    let last = time.swap(now, Ordering::Relaxed);
    let is_again = at.swap(address, Ordering::Relaxed) == address;
    if !is_again || now.saturating_sub(last) > ROW_NANOS {
        count.store(0, Ordering::Relaxed);
    }
    count.fetch_add(1, Ordering::Relaxed) < STRAY_MAX
}

/// Opens the ranges that have the address of a fault. Returns whether there is one.
fn opened(fault: &MemoryFault) -> bool {
    let (mut is_found, mut is_noted) = (false, false);
    for place in &RANGES {
        let Some(range) = place.range().filter(|range| range.contains(&fault.address)) else {
            continue;
        };
        let is_readable = place.is_readable.load(Ordering::Relaxed);
        if !signal::protect(&range, Protection::ReadAndWrite) {
            return false;
        }
        is_found = true;
        if !place.is_open.swap(true, Ordering::Relaxed) && !is_noted {
            is_noted = true;
            note(fault, fault.is_write.unwrap_or(is_readable));
        }
    }
    is_found
}

fn note(fault: &MemoryFault, is_write: bool) {
    // A forked child is not recorded.
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let take = |note: &&NotedAccess| {
        let state = &note.state;
        state.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let Some(note) = NOTES.iter().find(take) else {
        LOST.fetch_add(1, Ordering::Relaxed);
        return;
    };
    note.order.store(NOTED.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    note.time.store(clock::now(), Ordering::Relaxed);
    note.address.store(fault.address, Ordering::Relaxed);
    note.is_write.store(is_write, Ordering::Relaxed);
    let stack = stack::interrupted_at(fault.instruction);
    let places = note.frames.iter().chain(note.python.iter().flatten());
    let numbers = stack.frames.iter().chain(stack.python.iter().flatten());
    for (place, number) in places.zip(numbers) {
        place.store(*number, Ordering::Relaxed);
    }
    let mut lines = [0; TEXT_BYTES];
    let length = python::interpreter().map_or(0, |one| one.lines(&stack.python, &mut lines));
    for (place, byte) in note.lines.iter().zip(&lines[..length]) {
        place.store(*byte, Ordering::Relaxed);
    }
    note.lines_length.store(length, Ordering::Relaxed);
    WAITING.fetch_add(1, Ordering::Relaxed);
    note.state.store(FULL, Ordering::Release);
}
