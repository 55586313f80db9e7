//! A library that replaces CUPTI in tests. The variable `TRIJET_LIBCUPTI` names this library, so
//! that programs are traced without a GPU. The library has the functions that the tracing library
//! calls. It reports invented records on request: [`empty_cupti_emit`] and the functions whose
//! names begin with it. After a call of [`empty_cupti_hold`], it holds full buffers until a forced
//! flush. It reports invented calls of the driver, too: [`empty_cupti_call`]. It is also a stand-in
//! for the Compute Sanitizer API (`sanitizer`).

mod calls;
mod chosen;
mod emitting;
mod sanitizer;

pub use calls::*;
use calls::{Subscriber, driver_function, keep_subscriber};
pub use chosen::*;
use emitting::{
    CALL, Complete, DROPPED, FIRST_NS, KERNEL, NAME, PAIR_NS, RECORD_BYTES, Request, emit, state,
};
pub use sanitizer::*;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// `CUPTI_ERROR_MAX_LIMIT_REACHED`: there is no further record.
const NO_FURTHER: c_int = 12;
const MEMORY: u32 = 49;
const MARKER: u32 = 12;
/// Maximum number of buffers that are held. A recorder lends at most this number of buffers.
const HELD_MAX: usize = 32;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: buffers with unfinished records are returned too.
const FORCED: u32 = 1;
/// The names of the ranges, in turn.
const RANGES: [&CStr; 2] = [c"step 1", c"step 2"];

static RECORDS: AtomicU64 = AtomicU64::new(0);
/// The number of tables of NVTX that were passed to this library.
static TABLES: AtomicU64 = AtomicU64::new(0);

macro_rules! nothing {
    ($($name:ident($($type:ty),*))*) => {$(
        /// Does nothing, and succeeds.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $type),*) -> c_int {
            0
        }
    )*};
}

nothing! {
    cuptiActivityEnableRuntimeApi(u32, u8)
    cuptiActivityEnableDriverApi(u32, u8)
    cuptiSetThreadIdType(c_int)
    cuptiActivityPushExternalCorrelationId(u32, u64)
    cuptiActivityPopExternalCorrelationId(u32, *mut u64)
}

/// Writes 130001, or the version that `EMPTY_CUPTI_VERSION` names.
///
/// # Safety
/// `version` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetVersion(version: *mut u32) -> c_int {
    let chosen = std::env::var("EMPTY_CUPTI_VERSION").ok().and_then(|text| text.parse().ok());
    // SAFETY: the recorder passes a variable for the version.
    unsafe { version.write(chosen.unwrap_or(130_001)) };
    0
}

/// Writes the end of the last record that was made. Time passes only when records are made, and not
/// with the clock of the machine.
///
/// # Safety
/// `time` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetTimestamp(time: *mut u64) -> c_int {
    let pairs = RECORDS.load(Ordering::Relaxed).div_ceil(2).max(chosen::calls());
    let now = FIRST_NS + PAIR_NS * pairs;
    // SAFETY: the recorder passes a variable for the time.
    unsafe { time.write(now) };
    0
}

/// The table of the functions of NVTX: the callbacks of `NvtxExportTableCallbacks`.
#[repr(C)]
struct NvtxCallbacks {
    bytes: usize,
    module: extern "C" fn(u32, *mut *const *mut *const c_void, *mut u32) -> c_int,
}

/// `NVTX_ETID_CALLBACKS`, the module `CORE`, and the numbers of its functions for nested ranges.
const NVTX_CALLBACKS: u32 = 1;
const CORE: u32 = 1;
const PUSH: usize = 9;
const POP: usize = 11;

/// The entry point for a program that uses NVTX without CUDA. The ranges of the program are written
/// to the file that `EMPTY_CUPTI_RANGES` names: a line `push NAME` or `pop` for each call.
///
/// # Safety
/// `tables` is the function that NVTX passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(
    tables: extern "C" fn(u32) -> *const c_void,
) -> c_int {
    let callbacks: *const NvtxCallbacks = tables(NVTX_CALLBACKS).cast();
    if callbacks.is_null() {
        return 0;
    }
    let (mut table, mut size) = (ptr::null(), 0);
    // SAFETY: the program returned its static table of callbacks.
    let module = unsafe { (*callbacks).module };
    if module(CORE, &raw mut table, &raw mut size) == 0 || size as usize <= POP {
        return 0;
    }
    let functions = [(PUSH, push as *const c_void), (POP, pop as *const c_void)];
    for (number, function) in functions {
        // SAFETY: the table has `size` addresses of slots, more than the two numbers.
        let slot = unsafe { table.add(number).read() };
        // SAFETY: the slot is a static variable of the program, which it reads at its next call.
        unsafe { slot.write(function) };
    }
    1
}

/// `nvtxRangePushA`.
///
/// # Safety
/// `name` is a terminated text.
unsafe extern "C" fn push(name: *const c_char) -> c_int {
    // SAFETY: the program passes a terminated text.
    let name = unsafe { CStr::from_ptr(name) };
    note(&format!("push {}", name.to_string_lossy()));
    0
}

/// `nvtxRangePop`.
extern "C" fn pop() -> c_int {
    note("pop");
    0
}

/// Appends a line to the file of ranges.
fn note(line: &str) {
    let Some(path) = std::env::var_os("EMPTY_CUPTI_RANGES") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.expect("the file of ranges is writable");
}

/// Counts the tables of NVTX. It fills none of them.
///
/// # Safety
/// `tables` is null or the function that NVTX passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiNvtxInitialize2(tables: *const c_void) -> c_int {
    if tables.is_null() {
        return 1;
    }
    TABLES.fetch_add(1, Ordering::Relaxed);
    0
}

/// The number of tables of NVTX that were passed to this library.
#[unsafe(no_mangle)]
pub extern "C" fn empty_cupti_tables() -> u64 {
    TABLES.load(Ordering::Relaxed)
}

/// Accepts one subscriber. Accepts no subscriber if `EMPTY_CUPTI_TAKEN` is set.
///
/// # Safety
/// `subscriber` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiSubscribe(
    subscriber: *mut *mut c_void,
    callback: Option<Subscriber>,
    _data: *mut c_void,
) -> c_int {
    let mut state = state();
    if state.subscribed || std::env::var_os("EMPTY_CUPTI_TAKEN").is_some() {
        return 39;
    }
    state.subscribed = true;
    keep_subscriber(callback);
    // SAFETY: the recorder passes a variable for its subscription.
    unsafe { subscriber.write(ptr::dangling_mut()) };
    0
}

/// Keeps the callbacks.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityRegisterCallbacks(request: Request, complete: Complete) -> c_int {
    state().callbacks = Some((request, complete));
    0
}

/// Starts to collect records of a kind.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnable(kind: u32) -> c_int {
    state().enabled |= 1 << kind;
    0
}

/// Ends the collection of records of a kind.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityDisable(kind: u32) -> c_int {
    state().enabled &= !(1 << kind);
    0
}

/// Finds the record after the record at `*record`. Finds the first record of the buffer if
/// `*record` is null.
///
/// # Safety
/// `buffer` has `valid` bytes of records, and `record` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNextRecord(
    buffer: *mut u8,
    valid: usize,
    record: *mut *mut u8,
) -> c_int {
    // SAFETY: the recorder passes a variable, which contains null or the address of the last record
    // that the recorder has read.
    let last = unsafe { record.read() };
    let next = if last.is_null() { buffer } else { last.wrapping_add(RECORD_BYTES) };
    if next.addr() - buffer.addr() + RECORD_BYTES > valid {
        return NO_FURTHER;
    }
    // SAFETY: the recorder's variable is writable.
    unsafe { record.write(next) };
    0
}

/// Writes the number of dropped records since the last call.
///
/// # Safety
/// `dropped` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNumDroppedRecords(
    _context: *mut c_void,
    _stream: u32,
    dropped: *mut usize,
) -> c_int {
    let count = DROPPED.swap(0, Ordering::Relaxed);
    // SAFETY: the recorder passes a variable for the number.
    unsafe { dropped.write(usize::try_from(count).unwrap_or(usize::MAX)) };
    0
}

/// Returns the buffer that is being filled, and all held buffers. After a call of
/// [`empty_cupti_hold`], only a forced flush returns buffers.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityFlushAll(flag: u32) -> c_int {
    let (held, buffer, callbacks) = {
        let mut state = state();
        if state.holds && flag & FORCED == 0 {
            return 0;
        }
        (std::mem::take(&mut state.held), state.buffer.take(), state.callbacks)
    };
    let Some((_, complete)) = callbacks else { return 0 };
    // The callback takes its own locks, so it is called without the lock.
    for (address, length, used) in held.into_iter().chain(buffer) {
        complete(ptr::null_mut(), 0, ptr::with_exposed_provenance_mut(address), length, used);
    }
    0
}

/// After this call, full buffers are held until a forced flush. CUPTI does the same with a buffer
/// that has the record of an operation that still runs.
#[unsafe(no_mangle)]
pub extern "C" fn empty_cupti_hold() {
    let mut state = state();
    state.held.reserve(HELD_MAX);
    state.holds = true;
}

/// Writes the name of a function. Some functions of the CUDA runtime have names: function 211,
/// which launches, function 135, which records an event, function 147, which makes a stream wait
/// for one, function 311, which launches a graph, and function 16, which only queries. The
/// functions of the driver that [`empty_cupti_call`] reports have names.
///
/// # Safety
/// `name` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetCallbackName(
    domain: c_int,
    number: u32,
    name: *mut *const c_char,
) -> c_int {
    let text = match (domain, number) {
        (2, 211) => c"cudaLaunchKernel_v7000",
        (2, 135) => c"cudaEventRecord_v3020",
        (2, 147) => c"cudaStreamWaitEvent_v3020",
        (2, 311) => c"cudaGraphLaunch_v10000",
        (2, 16) => c"cudaGetDevice_v3020",
        (1, number) => match driver_function(number) {
            Some(name) => name,
            None => return 1,
        },
        _ => return 1,
    };
    // SAFETY: the recorder passes a variable for the name.
    unsafe { name.write(text.as_ptr()) };
    0
}

/// Makes the record with this number, with the offsets of the headers of CUDA 13.0. An even number
/// makes the record of a kernel. The next odd number makes the record of the call that enqueued the
/// kernel.
fn record(number: u64) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    let pair = number / 2;
    let correlation = u32::try_from(pair & 0x7fff_ffff).unwrap_or(0).to_le_bytes();
    let begin = FIRST_NS + PAIR_NS * pair;
    if number.is_multiple_of(2) {
        put(0, &KERNEL.to_le_bytes());
        put(16, &(begin + 2_000).to_le_bytes());
        put(24, &(begin + 9_000).to_le_bytes());
        put(44, &1_u32.to_le_bytes());
        put(48, &7_u32.to_le_bytes());
        put(92, &correlation);
        put(104, &(NAME.as_ptr().expose_provenance() as u64).to_le_bytes());
    } else {
        put(0, &CALL.to_le_bytes());
        put(4, &211_u32.to_le_bytes());
        put(8, &begin.to_le_bytes());
        put(16, &(begin + 1_000).to_le_bytes());
        put(28, &1_u32.to_le_bytes());
        put(32, &correlation);
    }
    bytes
}

/// Makes the record with this number. An even number makes the record of an allocation of device
/// memory. The next odd number makes the record of the free of this memory.
fn memory(number: u64) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    let what = if number.is_multiple_of(2) { 1_u32 } else { 2 };
    put(0, &MEMORY.to_le_bytes());
    put(4, &what.to_le_bytes());
    put(8, &3_u32.to_le_bytes());
    put(16, &(0x10_0000 + number / 2 * 4096).to_le_bytes());
    put(24, &4096_u64.to_le_bytes());
    put(32, &(FIRST_NS + number).to_le_bytes());
    put(56, &1_u32.to_le_bytes());
    put(60, &7_u32.to_le_bytes());
    put(72, &1_u32.to_le_bytes());
    bytes
}

/// Reports `count` further records, alternately of a kernel and of its call. If no buffer is
/// available, the record is dropped and counted, as in CUPTI.
#[unsafe(no_mangle)]
pub extern "C" fn empty_cupti_emit(count: u64) {
    emit(KERNEL, count, || record(RECORDS.fetch_add(1, Ordering::Relaxed)));
}

/// Reports `count` allocations of device memory, and the free of each allocation.
#[unsafe(no_mangle)]
pub extern "C" fn empty_cupti_emit_memory(count: u64) {
    let mut numbers = 0..;
    emit(MEMORY, 2 * count, || memory(numbers.next().unwrap_or(0)));
}

/// The record of a mark: the start of a range with a name, or the end of a range without one. The
/// number of the range is its correlation number.
fn mark(range: u64, at: u64, name: Option<&CStr>) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &MARKER.to_le_bytes());
    put(4, &(if name.is_some() { 2_u32 } else { 4 }).to_le_bytes());
    put(8, &at.to_le_bytes());
    put(16, &u32::try_from(range & 0x7fff_ffff).unwrap_or(0).to_le_bytes());
    put(20, &2_u32.to_le_bytes());
    put(28, &1_u32.to_le_bytes());
    let name = name.map_or(0, |name| name.as_ptr().expose_provenance());
    put(40, &(name as u64).to_le_bytes());
    bytes
}

/// Reports `count` ranges, each with one kernel and its call in it. If no table of NVTX was passed
/// to this library, it reports the kernels and the calls only, as CUPTI does.
#[unsafe(no_mangle)]
pub extern "C" fn empty_cupti_emit_ranges(count: u64) {
    for range in 0..count {
        let pair = RECORDS.load(Ordering::Relaxed) / 2;
        let begin = FIRST_NS + PAIR_NS * pair;
        let name = RANGES[usize::from(range % 2 == 1)];
        let is_connected = TABLES.load(Ordering::Relaxed) > 0;
        if is_connected {
            emit(MARKER, 1, || mark(range + 1, begin, Some(name)));
        }
        empty_cupti_emit(2);
        if is_connected {
            emit(MARKER, 1, || mark(range + 1, begin + 9_500, None));
        }
    }
}
