//! A library that replaces the functions of the C library that work on files. It makes one call of
//! these functions fail. `LD_PRELOAD` loads this library before the C library. Environment
//! variables control it:
//!
//! - `FAILING_FILES_ROOT`: the folder whose files are watched, or the one watched file. The path
//!   must not contain symbolic links.
//! - `FAILING_FILES_LOG`: the file to which each watched call appends a line, with the name of the
//!   call and the path of its file.
//! - `FAILING_FILES_AT`: the watched call that fails: its number, or its line in the log. The first
//!   watched call has the number 1. A line means the first call with this line. Threads may make
//!   calls in another order in each run, and then a number means another call.
//! - `FAILING_FILES_FAULT`: `error=N` with the number of an error; `short`: only a part of the
//!   bytes is moved; `tear`: a part of the bytes is moved, and after that the process dies;
//!   `before` and `after`: the process dies before or after the call; `stop`: the process stops
//!   before this call and before each later call; `appear=PATH`: after the call, a file appears at
//!   PATH, as if another program had created it.
//! - `FAILING_FILES_WITHOUT`: calls that the file system of the watched files lacks, each with its
//!   error: `lock=38,link=1`. The name `noreplace` means a rename with `RENAME_NOREPLACE`.
//! - `FAILING_FILES_DELAY`: the milliseconds that each watched read of a page or more takes in
//!   addition, as from a slow disk, which serves one read after another.
//! - `FAILING_FILES_CLOCK`: the seconds by which the clock of the time of day differs from the
//!   clock of the system. The monotonic clock does not change.
//! - `FAILING_FILES_FOLDED`: a folder whose simulated file system has no upper case. In this
//!   folder, names that differ only in case mean the same file.
//! - `FAILING_FILES_THREADS`: the number of the first thread that cannot be started. Later threads
//!   cannot be started either. The first thread that the program starts has the number 1.
//!
//! Every function on files makes the system call itself, so that it needs no function of the C
//! library.

mod clock;
mod fault;
mod folded;
mod target;
mod threads;

use fault::{call, lacks};
use folded::Folded;
use libc::{
    AT_FDCWD, AT_REMOVEDIR, DIR, c_char, c_int, c_long, c_uint, c_void, mode_t, off_t, size_t,
    ssize_t,
};
use target::Target;

macro_rules! opens {
    ($($name:ident $at:ident)*) => {$(
        /// Opens a file. Without `O_CREAT` or `O_TMPFILE`, the caller passes no mode. In this case,
        /// `mode` has an arbitrary value, which the system does not use.
        ///
        /// # Safety
        /// The same as for the C function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: the promise of this function.
            unsafe { $at(AT_FDCWD, path, flags, mode) }
        }

        /// Opens a file in a folder.
        ///
        /// # Safety
        /// The same as for the C function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $at(
            folder: c_int,
            path: *const c_char,
            flags: c_int,
            mode: mode_t,
        ) -> c_int {
            // SAFETY: in C, a path ends with a zero.
            let target = unsafe { Target::of_name(folder, path) };
            let folded = Folded::of(&target);
            let (folder, path) = folded.name(folder, path);
            let opened = call("open", &target, None, |_| {
                // SAFETY: the caller passes the arguments of this system call.
                unsafe { libc::syscall(libc::SYS_openat, folder, path, flags, mode) }
            });
            number(opened)
        }
    )*};
}

opens! { open openat open64 openat64 }

/// Opens a folder to read its names.
///
/// # Safety
/// The same as for the C function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: in C, a path ends with a zero.
    let target = unsafe { Target::of_name(AT_FDCWD, path) };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let opened = call("list", &target, None, |_| {
        // SAFETY: the caller passes the path of this system call.
        unsafe { libc::syscall(libc::SYS_openat, AT_FDCWD, path, flags) }
    });
    match number(opened) {
        file if file < 0 => std::ptr::null_mut(),
        // SAFETY: the file was opened just now, and nothing else has its number.
        file => unsafe { libc::fdopendir(file) },
    }
}

macro_rules! transfers {
    ($($name:ident $label:literal $buffer:ty, $system:ident $(, $at:ident)?;)*) => {$(
        /// Moves bytes between a file and memory.
        ///
        /// # Safety
        /// The same as for the C function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: c_int, buffer: $buffer, bytes: size_t $(, $at: off_t)?) -> ssize_t {
            let moved = call($label, &Target::open(file), Some(bytes), |bytes| {
                // SAFETY: the buffer has as many bytes as the caller states, and `bytes` is at most
                // this number.
                unsafe { libc::syscall(libc::$system, file, buffer, bytes $(, $at)?) }
            });
            isize::try_from(moved).unwrap_or(-1)
        }
    )*};
}

transfers! {
    read "read" *mut c_void, SYS_read;
    pread "read" *mut c_void, SYS_pread64, at;
    pread64 "read" *mut c_void, SYS_pread64, at;
    write "write" *const c_void, SYS_write;
    pwrite "write" *const c_void, SYS_pwrite64, at;
    pwrite64 "write" *const c_void, SYS_pwrite64, at;
}

macro_rules! on_open_files {
    ($($name:ident $label:literal $system:ident ($($argument:ident: $type:ty),*);)*) => {$(
        /// Acts on an open file.
        ///
        /// # Safety
        /// The same as for the C function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: c_int $(, $argument: $type)*) -> c_int {
            let done = call($label, &Target::open(file), None, |_| {
                // SAFETY: the caller passes the arguments of this system call.
                unsafe { libc::syscall(libc::$system, file $(, $argument)*) }
            });
            number(done)
        }
    )*};
}

on_open_files! {
    ftruncate "truncate" SYS_ftruncate(bytes: off_t);
    ftruncate64 "truncate" SYS_ftruncate(bytes: off_t);
    fallocate "allocate" SYS_fallocate(mode: c_int, start: off_t, bytes: off_t);
    fallocate64 "allocate" SYS_fallocate(mode: c_int, start: off_t, bytes: off_t);
    fsync "sync" SYS_fsync();
    fdatasync "sync" SYS_fdatasync();
    flock "lock" SYS_flock(operation: c_int);
    fsetxattr "mark" SYS_fsetxattr(name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int);
}

macro_rules! on_names {
    ($($name:ident $label:literal ($($argument:ident: $type:ty),*)
        [$folder:expr, $path:ident $(, $replaces:expr)?] $system:ident($($passed:expr),*);)*) => {$(
        /// Acts on the file with a name, without opening the file.
        ///
        /// # Safety
        /// The same as for the C function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the path is a string of C.
            let target = unsafe { Target::of_name($folder, $path) };
            $(
                let replaces: bool = $replaces;
                if !replaces && lacks("noreplace", &target) {
                    return -1;
                }
            )?
            let done = call($label, &target, None, |_| {
                // SAFETY: the C library makes the same system call in the function of this name.
                unsafe { libc::syscall(libc::$system, $($passed),*) }
            });
            number(done)
        }
    )*};
}

on_names! {
    unlink "unlink" (path: *const c_char) [AT_FDCWD, path] SYS_unlinkat(AT_FDCWD, path, 0);
    unlinkat "unlink" (folder: c_int, path: *const c_char, flags: c_int)
        [folder, path] SYS_unlinkat(folder, path, flags);
    rmdir "unlink" (path: *const c_char) [AT_FDCWD, path] SYS_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
    mkdir "mkdir" (path: *const c_char, mode: mode_t)
        [AT_FDCWD, path] SYS_mkdirat(AT_FDCWD, path, mode);
    rename "rename" (path: *const c_char, to: *const c_char)
        [AT_FDCWD, path] SYS_renameat2(AT_FDCWD, path, AT_FDCWD, to, 0);
    renameat2 "rename" (folder: c_int, path: *const c_char, new: c_int, to: *const c_char, flags: c_uint)
        [folder, path, flags & libc::RENAME_NOREPLACE == 0]
        SYS_renameat2(folder, path, new, to, flags);
    linkat "link" (folder: c_int, path: *const c_char, new: c_int, to: *const c_char, flags: c_int)
        [new, to] SYS_linkat(folder, path, new, to, flags);
    statx "state" (folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, state: *mut c_void)
        [folder, path] SYS_statx(folder, path, flags, mask, state);
}

macro_rules! states {
    ($($name:ident)*) => {$(
        /// Writes the state of a file in a folder to `state`.
        ///
        /// # Safety
        /// The same as for the C function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            folder: c_int,
            path: *const c_char,
            state: *mut c_void,
            flags: c_int,
        ) -> c_int {
            // SAFETY: in C, a path ends with a zero.
            let target = unsafe { Target::of_name(folder, path) };
            let folded = Folded::of(&target);
            let (folder, path) = folded.name(folder, path);
            let done = call("state", &target, None, |_| {
                // SAFETY: the caller passes the arguments of `newfstatat`.
                unsafe { libc::syscall(libc::SYS_newfstatat, folder, path, state, flags) }
            });
            number(done)
        }
    )*};
}

states! { fstatat fstatat64 }

/// Converts the result of a system call to `c_int`. The results of the calls above are small.
fn number(result: c_long) -> c_int {
    c_int::try_from(result).unwrap_or(-1)
}
