//! NVTX: names ranges of this library for a profiler that listens.
//!
//! A profiler sets `NVTX_INJECTION64_PATH` to the file of a library. This module loads the library
//! at the first range, and passes a function that returns tables, as the headers of NVTX 3 do. A
//! table has the addresses of slots, and the profiler stores the addresses of its functions in the
//! slots, now or later. Without the variable, a range costs a load and a branch.
//!
//! The ranges are in the default domain of NVTX. The two functions for them are in the module
//! `CORE`. The tables of the other modules exist, because a profiler may demand them, and their
//! functions are never called.

use super::library::nvtx_injection;
use std::ffi::{CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The number of functions of each module, with the unused number 0: none, `CORE`, `CUDA`,
/// `OPENCL`, `CUDART`, `CORE2` and `SYNC` (`nvtxTypes.h` of NVTX 3).
const SIZES: [usize; 7] = [0, 16, 9, 15, 7, 16, 7];
/// The module `CORE`.
const CORE: usize = 1;
/// The number of `nvtxRangePushA` in `CORE`.
const PUSH: usize = 9;
/// The number of `nvtxRangePop` in `CORE`.
const POP: usize = 11;

/// The slot of a function: null until a profiler stores an address.
type FunctionSlot = AtomicPtr<c_void>;

/// The slots of all modules, and for each module the addresses of its slots with a null at the end.
struct NvtxTables {
    slots: [&'static [FunctionSlot]; 7],
    addresses: [&'static [AtomicPtr<FunctionSlot>]; 7],
}

static TABLES: OnceLock<NvtxTables> = OnceLock::new();

impl NvtxTables {
    fn new() -> Self {
        let slots = SIZES.map(|size| -> &'static [FunctionSlot] {
            (0..size).map(|_| FunctionSlot::default()).collect::<Vec<_>>().leak()
        });
        let addresses = slots.map(|its| -> &'static [AtomicPtr<FunctionSlot>] {
            // The function with the number 0 does not exist.
            let address = |(number, slot)| match number {
                0 => ptr::null_mut(),
                _ => ptr::from_ref::<FunctionSlot>(slot).cast_mut(),
            };
            let its = its.iter().enumerate().map(address).chain([ptr::null_mut()]);
            its.map(AtomicPtr::new).collect::<Vec<_>>().leak()
        });
        Self { slots, addresses }
    }
}

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    bytes: usize,
    module: extern "C" fn(u32, *mut *const c_void, *mut u32) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    bytes: usize,
    version: u32,
    reserved: u32,
    set: extern "C" fn(u32),
}

static CALLBACKS: Callbacks = Callbacks { bytes: size_of::<Callbacks>(), module };
static VERSION: VersionInfo =
    VersionInfo { bytes: size_of::<VersionInfo>(), version: 3, reserved: 0, set };

/// The profiler states the version of NVTX that it supports. The two functions that are called are
/// in every version.
extern "C" fn set(_: u32) {}

/// Returns the table of a module and the number of its functions.
extern "C" fn module(number: u32, table: *mut *const c_void, size: *mut u32) -> c_int {
    let tables = TABLES.get_or_init(NvtxTables::new);
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let Some(addresses) = tables.addresses.get(number).filter(|its| its.len() > 1) else {
        return 0;
    };
    if !size.is_null() {
        let count = u32::try_from(addresses.len() - 1).unwrap_or(0);
        // SAFETY: the profiler passes the address of its variable, or null, which was excluded.
        unsafe { size.write(count) };
    }
    if !table.is_null() {
        // SAFETY: as above, for the variable of the table. The table is never freed.
        unsafe { table.write(addresses.as_ptr().cast()) };
    }
    1
}

/// Returns one of the tables that all profilers know.
extern "C" fn export(table: u32) -> *const c_void {
    match table {
        1 => ptr::from_ref(&CALLBACKS).cast(),
        3 => ptr::from_ref(&VERSION).cast(),
        _ => ptr::null(),
    }
}

/// The type of the entry point of a profiler for NVTX.
type EntryPoint = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;

/// Loads the library of the profiler, if there is one, and passes the tables to it. Returns whether
/// the profiler listens.
fn connect() -> bool {
    let Some(path) = nvtx_injection() else { return false };
    // SAFETY: the user, or the profiler that the user started, has named this library, so that its
    // initialisers run. NVTX itself would load it in the same way.
    let Ok(library) = (unsafe { libloading::Library::new(path) }) else { return false };
    // The library stays loaded, because its functions are called until the process ends.
    let library = Box::leak(Box::new(library));
    // SAFETY: NVTX documents this type of the symbol. False for a library with another meaning of
    // the name: the user has chosen it as a library for NVTX.
    let entry = unsafe { library.get::<EntryPoint>(c"InitializeInjectionNvtx2") };
    // SAFETY: `export` and all that it returns are valid until the process ends.
    entry.is_ok_and(|entry| unsafe { entry(export) != 0 })
}

/// The slots of the module `CORE`; `None` if no profiler listens.
fn core() -> Option<&'static [FunctionSlot]> {
    static LISTENS: OnceLock<bool> = OnceLock::new();
    LISTENS.get_or_init(connect).then(|| TABLES.get().map(|tables| tables.slots[CORE])).flatten()
}

/// A named range, which ends when this value is dropped. It stays in its thread, because the ranges
/// of a thread are nested.
#[derive(Debug)]
pub(crate) struct NamedRange {
    is_open: bool,
    _in_thread: PhantomData<*const ()>,
}

/// Opens a range, if a profiler listens. Only then `name` is called.
pub(crate) fn named_range(name: impl FnOnce() -> String) -> NamedRange {
    let is_open = core().is_some_and(|core| push(core, name));
    NamedRange { is_open, _in_thread: PhantomData }
}

/// Calls the function of the profiler that opens a range. Returns whether there is such a function.
fn push(core: &[FunctionSlot], name: impl FnOnce() -> String) -> bool {
    let function = core[PUSH].load(Ordering::Acquire);
    let (false, Ok(name)) = (function.is_null(), CString::new(name())) else { return false };
    // SAFETY: the profiler stored a function of this type in the slot with this number, as NVTX 3
    // documents. False for a profiler that confuses the numbers.
    let function = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(function)
    };
    // SAFETY: the text is terminated, and the profiler copies it during the call.
    unsafe { function(name.as_ptr()) };
    true
}

impl Drop for NamedRange {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let function = core().map_or(ptr::null_mut(), |core| core[POP].load(Ordering::Acquire));
        if function.is_null() {
            return;
        }
        // SAFETY: as in `push`, for the slot of the function that ends the last range of a thread.
        let function = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(function)
        };
        // SAFETY: the function takes nothing, and this thread opened the range that it ends.
        unsafe { function() };
    }
}
