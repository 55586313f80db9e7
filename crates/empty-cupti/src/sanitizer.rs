//! A stand-in for the Compute Sanitizer API, which reports the same invented calls, and launches
//! that access what [`empty_sanitizer_touch`] has named. Its device memory is memory of the host,
//! and it marks accesses as the patches of `trijet-sanitizer` do, by code of its own.
//!
//! The handle of a stream is the stream itself. A handle of a stream that has ended, or of an inner
//! stream of a graph, ends the process: the library would read freed memory. So does any use during
//! a stream capture, which the library would make invalid.
//!
//! `EMPTY_SANITIZER` makes one thing fail: `subscribe`, `memory`, `patches`, `launch` or `read`.
//! With `exit`, the process exits inside of the subscriber, as from a signal handler.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Domains and numbers of callbacks.
const DRIVER: c_int = 1;
const RESOURCE: c_int = 3;
const LAUNCH: c_int = 5;
const GRAPHS: c_int = 10;
const CONTEXT_MADE: u32 = 3;
const STREAM_ENDS: u32 = 7;
const MODULE_LOADED: u32 = 9;

/// An error of the library.
const FAILED: c_int = 1;
/// `SANITIZER_ERROR_MAX_LIMIT_REACHED`.
const ANOTHER: c_int = 10;

/// The callback of a subscriber.
pub(crate) type SanitizerCallback = extern "C" fn(*mut c_void, c_int, u32, *const c_void);

/// An access.
#[derive(Clone, Copy)]
struct Touch {
    address: u64,
    bytes: u64,
    /// 1 for reads, 2 for writes, and 4 more for a tensor map whose tensor begins at the address.
    mode: u32,
}

#[derive(Default)]
struct Standing {
    subscriber: Option<SanitizerCallback>,
    /// The functions that the subscriber does not want.
    disabled: Vec<u32>,
    has_begun: bool,
    /// The accesses of the next launch.
    touches: Vec<Touch>,
    /// The user data of the present launch.
    data: usize,
    /// The streams that have ended.
    ended: Vec<usize>,
    /// The number of streams that are captured.
    captured: usize,
}

static STANDING: Mutex<Option<Standing>> = Mutex::new(None);

fn with<T>(body: impl FnOnce(&mut Standing) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<Standing>> =
        STANDING.lock().unwrap_or_else(PoisonError::into_inner);
    body(guard.get_or_insert_default())
}

/// Ends the process if a stream has ended, or if another one is captured.
fn live(stream: *mut c_void) {
    let stream = stream.expose_provenance();
    let is_ended = stream == INNER || with(|standing| standing.ended.contains(&stream));
    if is_ended || with(|standing| standing.captured > 0) {
        eprintln!("the stand-in was used with a stream that has ended, or during a capture");
        std::process::abort();
    }
}

/// Notes that a capture has begun or ends.
pub(crate) fn capture(has_begun: bool) {
    with(|standing| match has_begun {
        true => standing.captured += 1,
        false => standing.captured = standing.captured.saturating_sub(1),
    });
}

fn fails(what: &str) -> bool {
    std::env::var_os("EMPTY_SANITIZER").is_some_and(|one| one == *what)
}

fn code(of: bool) -> c_int {
    if of { FAILED } else { 0 }
}

/// Keeps the callback of the subscriber.
///
/// # Safety
/// `subscriber` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sanitizerSubscribe(
    subscriber: *mut *mut c_void,
    callback: SanitizerCallback,
    _data: *mut c_void,
) -> c_int {
    if fails("subscribe") {
        return ANOTHER;
    }
    with(|standing| standing.subscriber = Some(callback));
    // SAFETY: the caller passes a variable for the handle.
    unsafe { subscriber.write(ptr::dangling_mut()) };
    0
}

/// Succeeds: every domain is reported.
#[unsafe(no_mangle)]
pub extern "C" fn sanitizerEnableDomain(
    _on: u32,
    _subscriber: *mut c_void,
    _domain: c_int,
) -> c_int {
    0
}

/// Ends the callbacks of a function.
#[unsafe(no_mangle)]
pub extern "C" fn sanitizerEnableCallback(
    on: u32,
    _subscriber: *mut c_void,
    _domain: c_int,
    number: u32,
) -> c_int {
    with(|standing| {
        standing.disabled.retain(|one| *one != number);
        if on == 0 {
            standing.disabled.push(number);
        }
    });
    0
}

/// Takes patches.
#[unsafe(no_mangle)]
pub extern "C" fn sanitizerAddPatches(image: *const c_void, _context: *mut c_void) -> c_int {
    code(image.is_null() || fails("patches"))
}

/// Takes the name of a patch.
#[unsafe(no_mangle)]
pub extern "C" fn sanitizerPatchInstructions(
    _kind: c_int,
    _module: *mut c_void,
    _name: *const c_char,
) -> c_int {
    0
}

/// Succeeds.
#[unsafe(no_mangle)]
pub extern "C" fn sanitizerPatchModule(_module: *mut c_void) -> c_int {
    0
}

/// Keeps the user data of a launch.
#[unsafe(no_mangle)]
pub extern "C" fn sanitizerSetLaunchCallbackData(
    _launch: *mut c_void,
    _kernel: *mut c_void,
    _stream: *mut c_void,
    data: *const c_void,
) -> c_int {
    if fails("exit") {
        std::process::exit(0);
    }
    if fails("launch") {
        return FAILED;
    }
    with(|standing| standing.data = data.expose_provenance());
    0
}

/// Allocates memory of the host, which stays.
///
/// # Safety
/// `memory` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sanitizerAlloc(
    _context: *mut c_void,
    memory: *mut *mut c_void,
    bytes: usize,
) -> c_int {
    if fails("memory") {
        return FAILED;
    }
    let words: &'static mut [u64] = vec![u64::MAX; bytes.div_ceil(8)].leak();
    // SAFETY: the caller passes a variable for the address.
    unsafe { memory.write(words.as_mut_ptr().cast()) };
    0
}

/// Fills memory of [`sanitizerAlloc`].
///
/// # Safety
/// The bytes are a part of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sanitizerMemset(
    memory: *mut c_void,
    value: c_int,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    live(stream);
    // SAFETY: the bytes are a part of an allocation, as the caller promises.
    unsafe { memory.cast::<u8>().write_bytes(value as u8, bytes) };
    0
}

/// Copies.
///
/// # Safety
/// The bytes are parts of allocations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sanitizerMemcpyDeviceToHost(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    live(stream);
    if fails("read") {
        return FAILED;
    }
    // SAFETY: the caller promises the bytes, and the two do not overlap.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(from.cast(), bytes) };
    0
}

/// Succeeds: all work is complete when it is reported.
#[unsafe(no_mangle)]
pub extern "C" fn sanitizerStreamSynchronize(stream: *mut c_void) -> c_int {
    live(stream);
    0
}

/// Writes a handle.
///
/// # Safety
/// `handle` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sanitizerGetStreamHandle(
    _context: *mut c_void,
    _stream: *mut c_void,
    handle: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a variable for the handle.
    unsafe { handle.write(ptr::dangling_mut()) };
    0
}

/// Names an access of the next launch: 1 for reads, 2 for writes, and 4 more for a tensor map whose
/// tensor begins at the address.
#[unsafe(no_mangle)]
pub extern "C" fn empty_sanitizer_touch(address: u64, bytes: u64, mode: u32) {
    with(|standing| standing.touches.push(Touch { address, bytes, mode }));
}

/// `Sanitizer_LaunchData` of version 13.5, with the padding before its end.
#[repr(C)]
struct LaunchData {
    context: usize,
    stream: usize,
    handle: usize,
    module: usize,
    kernel: usize,
    name: *const c_char,
    sizes: [u32; 9],
    grid: u64,
    launch: usize,
    device: c_int,
    rest: [usize; 4],
}

impl LaunchData {
    fn new(stream: usize) -> Self {
        Self {
            context: CONTEXT,
            stream,
            handle: stream,
            module: MODULE,
            kernel: 4,
            name: c"kernel".as_ptr(),
            sizes: [1; 9],
            grid: 1,
            launch: 5,
            device: 0,
            rest: [0; 4],
        }
    }
}

/// `Sanitizer_GraphNodeLaunchData`.
#[repr(C)]
struct NodeData {
    program: usize,
    number: u32,
    node: usize,
    kind: u32,
    launch: LaunchData,
    is_upload: u32,
}

const CONTEXT: usize = 0x11;
const MODULE: usize = 0x12;
/// The stream of the nodes of graphs.
const INNER: usize = 0x13;

/// The subscriber, if it takes calls of this function. Before the first call, a context is made and
/// a module is loaded.
pub(crate) fn subscriber_of(number: u32) -> Option<SanitizerCallback> {
    let (subscriber, is_first) = with(|standing| {
        let is_wanted = !standing.disabled.contains(&number);
        let subscriber = standing.subscriber.filter(|_| is_wanted);
        (subscriber, subscriber.is_some() && !std::mem::replace(&mut standing.has_begun, true))
    });
    if let Some(subscriber) = subscriber.filter(|_| is_first) {
        let data = [CONTEXT, MODULE, 0, 0, 0];
        subscriber(ptr::null_mut(), RESOURCE, CONTEXT_MADE, data.as_ptr().cast());
        subscriber(ptr::null_mut(), RESOURCE, MODULE_LOADED, data.as_ptr().cast());
    }
    subscriber
}

/// Reports one side of a call of the driver.
pub(crate) fn report(subscriber: SanitizerCallback, number: u32, data: *const c_void) {
    subscriber(ptr::null_mut(), DRIVER, number, data);
}

/// Reports the end of a stream.
pub(crate) fn end_stream(subscriber: SanitizerCallback, stream: usize) {
    let data = [CONTEXT, stream, stream];
    subscriber(ptr::null_mut(), RESOURCE, STREAM_ENDS, data.as_ptr().cast());
    with(|standing| standing.ended.push(stream));
}

/// Reports the launch of a kernel, or of a graph with a kernel for each access that was named.
pub(crate) fn launch(subscriber: SanitizerCallback, stream: usize, is_graph: bool) {
    let touches = with(|standing| std::mem::take(&mut standing.touches));
    let call =
        |domain, number, data: *const c_void| subscriber(ptr::null_mut(), domain, number, data);
    if !is_graph {
        let data = LaunchData::new(stream);
        call(LAUNCH, 1, (&raw const data).cast());
        mark_all(&touches);
        return call(LAUNCH, 3, (&raw const data).cast());
    }
    let graph = [CONTEXT, stream, stream, 3, 0];
    call(GRAPHS, 6, graph.as_ptr().cast());
    for (number, touch) in (0..).zip(&touches) {
        let launch = LaunchData::new(INNER);
        let node = NodeData { program: 3, number, node: 6, kind: 0, launch, is_upload: 0 };
        call(GRAPHS, 4, (&raw const node).cast());
        mark_all(std::slice::from_ref(touch));
    }
    call(GRAPHS, 7, graph.as_ptr().cast());
}

/// Marks accesses in the table of the present launch, if it has one.
fn mark_all(touches: &[Touch]) {
    let data = with(|standing| std::mem::take(&mut standing.data));
    if data == 0 {
        return;
    }
    // The address of a table in memory of `sanitizerAlloc`, and the number of the launch.
    let table = Table { base: data & !0xfff, launch: (data & 0xfff) as u64 };
    for Touch { address, bytes, mode } in touches {
        if mode & 4 != 0 {
            table.mark_map(*address, *mode & 3);
            continue;
        }
        for granule in address / 256..(address + bytes).div_ceil(256) {
            table.mark(granule, *mode);
        }
    }
}

/// A table of the patches.
struct Table {
    base: usize,
    launch: u64,
}

const SLOTS: u64 = 1 << 18;
/// The mask of the entries.
const MASK: u64 = 2 * SLOTS - 1;

impl Table {
    fn word(&self, at: u64) -> *mut u64 {
        ptr::with_exposed_provenance_mut(self.base + usize::try_from(at).unwrap_or(usize::MAX))
    }

    fn read(&self, at: u64) -> u64 {
        // SAFETY: the table has this word, as the layout of `accesses.cu` states.
        unsafe { self.word(at).read() }
    }

    fn write(&self, at: u64, value: u64) {
        // SAFETY: as for `read`. No other launch uses the table at this time.
        unsafe { self.word(at).write(value) }
    }

    /// Marks the use of a tensor map, without the table that finds uses again.
    fn mark_map(&self, first: u64, mode: u32) {
        let uses_at = 8192 + (MASK + 1) * 8 + (SLOTS + 1) * 128 + (SLOTS + 2) * 8 + 8192 * 8;
        let header = self.read(0);
        self.write(0, header + (1 << 32));
        let at = uses_at + (header >> 32) * 24;
        if header >> 32 >= 4096 {
            // The byte of the launch states that accesses are missing.
            let full_at = (1024 + self.launch) / 8 * 8;
            let byte = 1 << ((1024 + self.launch) % 8 * 8);
            return self.write(full_at, self.read(full_at) | byte);
        }
        self.write(at, self.launch << 52 | u64::from(mode) << 50);
        self.write(at + 8, first);
    }

    fn mark(&self, granule: u64, mode: u32) {
        let (chunk, bit) = (granule >> 9, granule & 511);
        let bits_at = 8192 + (MASK + 1) * 8;
        let keys_at = bits_at + (SLOTS + 1) * 128;
        let key = chunk << 32 | self.launch << 20;
        // The first free entry, or the one of the chunk. The place is not hashed.
        let mut place = 0;
        let slot = loop {
            let entry = self.read(8192 + (place & MASK) * 8);
            if entry == 0 {
                let header = self.read(0);
                self.write(0, header + 1);
                let slot = header & 0xffff_ffff;
                self.write(keys_at + slot * 8, key);
                self.write(8192 + (place & MASK) * 8, key | slot);
                break slot;
            }
            if entry & !0xf_ffff == key {
                break entry & 0xf_ffff;
            }
            place += 1;
        };
        for side in [1, 2] {
            if mode & side != 0 {
                let at = bits_at + slot * 128 + u64::from(side - 1) * 64 + bit / 64 * 8;
                self.write(at, self.read(at) | 1 << (bit % 64));
            }
        }
    }
}
