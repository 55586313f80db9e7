//! The calls of the operating system that the standard library does not offer. They load libraries,
//! block signals, make a private descriptor table, and query the free space of a file system.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
    fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn sigfillset(set: *mut SignalSet) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn statvfs(path: *const c_char, out: *mut FileSystem) -> c_int;
    fn atexit(handler: extern "C" fn()) -> c_int;
}

/// `sigset_t`: 1024 bits.
#[repr(C)]
#[derive(Clone, Copy)]
struct SignalSet([u64; 16]);

/// `struct statvfs` on 64-bit Linux, with room for fields of later versions.
#[repr(C)]
struct FileSystem {
    block_bytes: c_ulong,
    fragment_bytes: c_ulong,
    blocks: u64,
    free: u64,
    available: u64,
    rest: [u64; 32],
}

/// A library that stays open until the process ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library(*mut c_void);

impl Library {
    /// Opens the library `file`. With `loaded_only`, the call fails for a library that the process
    /// has not loaded.
    pub(crate) fn open(file: &Path, loaded_only: bool) -> Result<Self, String> {
        /// `RTLD_LAZY` and `RTLD_NOLOAD` of `dlfcn.h`.
        const LAZY: c_int = 1;
        const LOADED_ONLY: c_int = 4;
        let name = CString::new(file.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        let flags = if loaded_only { LAZY | LOADED_ONLY } else { LAZY };
        // SAFETY: the name is a terminated string. The initialisers of CUPTI set up their own
        // state, and demand nothing from their caller. This does not hold for another library that
        // the environment names. The user is responsible for the initialisers of such a library, as
        // with `LD_PRELOAD`.
        let library = unsafe { dlopen(name.as_ptr(), flags) };
        if !library.is_null() {
            return Ok(Self(library));
        }
        // SAFETY: the call has no arguments. The result is checked before it is used.
        let reason = unsafe { dlerror() };
        if reason.is_null() {
            return Err(format!("{}: the library cannot be loaded", file.display()));
        }
        // SAFETY: the loader's message is a terminated string, valid until the next call of the
        // loader by this thread.
        Err(unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned())
    }

    /// All libraries whose symbols the whole process can use.
    pub(crate) fn all() -> Self {
        Self(std::ptr::null_mut())
    }

    /// The address of a symbol. Null if the library does not have the symbol.
    pub(crate) fn symbol(self, name: &CStr) -> *const c_void {
        // SAFETY: the library is open until the process ends, or null for all of them. The name is
        // terminated.
        unsafe { dlsym(self.0, name.as_ptr()) }
    }
}

/// Calls `start` with all signals blocked. A thread that `start` starts inherits the blocked
/// signals, so the signals of the program reach only the threads of the program.
pub(crate) fn with_blocked_signals<T>(start: impl FnOnce() -> T) -> T {
    /// `SIG_SETMASK`.
    const SET: c_int = 2;
    let (mut all, mut old) = (SignalSet([0; 16]), SignalSet([0; 16]));
    // SAFETY: the call writes the local variable `all`.
    unsafe { sigfillset(&raw mut all) };
    // SAFETY: `all` and `old` are signal sets. The call changes the mask of this thread only.
    let code = unsafe { pthread_sigmask(SET, &raw const all, &raw mut old) };
    let result = start();
    if code == 0 {
        // SAFETY: `old` is the signal mask that this thread had before.
        unsafe { pthread_sigmask(SET, &raw const old, std::ptr::null_mut()) };
    }
    result
}

/// Gives the calling thread its own, empty descriptor table. After that, the thread shares no
/// descriptor with the program. Returns whether the system supports this.
pub(crate) fn with_private_files() -> bool {
    /// `close_range`, with the same number on all architectures, and `CLOSE_RANGE_UNSHARE`.
    const CLOSE_RANGE: c_long = 436;
    const UNSHARE: c_uint = 2;
    // SAFETY: the call affects the descriptor table of the calling thread only. Nothing in this
    // thread uses a descriptor of the table. This does not hold on a thread of the program.
    unsafe { syscall(CLOSE_RANGE, 0 as c_uint, c_uint::MAX, UNSHARE) == 0 }
}

/// The number of free bytes on the file system of `path`, for a user without privileges. `None` if
/// the system does not report this number.
pub(crate) fn free_bytes(path: &CStr) -> Option<u64> {
    let mut found = FileSystem {
        block_bytes: 0,
        fragment_bytes: 0,
        blocks: 0,
        free: 0,
        available: 0,
        rest: [0; 32],
    };
    // SAFETY: the path is a terminated string. `FileSystem` has at least the size of the system's
    // structure.
    let code = unsafe { statvfs(path.as_ptr(), &raw mut found) };
    (code == 0).then(|| found.available.saturating_mul(found.fragment_bytes))
}

/// Makes the process call `handler` when it exits. Returns whether the registration succeeded.
pub(crate) fn at_exit(handler: extern "C" fn()) -> bool {
    // SAFETY: the C library calls the handler once, while the process exits. The code of the
    // handler is mapped until then. This does not hold if this library is unloaded before. The
    // driver never unloads it.
    unsafe { atexit(handler) == 0 }
}
