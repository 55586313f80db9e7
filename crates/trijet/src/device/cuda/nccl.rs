//! NCCL, the library for collectives of several GPUs, if it is installed.

use super::library::{self, Library, MULTICAST, open, whole_table};
use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

pub(super) type Handle = *mut c_void;
/// A `ncclResult_t`.
pub(super) type ResultCode = c_int;

/// A `ncclUniqueId`, which names a communicator to all its processes.
pub(crate) type UniqueId = [u8; 128];

/// `ncclInProgress`: the code of a call that has returned before its work is complete.
pub(super) const IN_PROGRESS: ResultCode = 7;

/// The oldest version whose functions behave as this library expects: 2.18, in the numbers of NCCL.
const OLDEST: c_int = 21_800;

whole_table! { pub(super) Nccl:
    version = "ncclGetVersion": fn(*mut c_int) -> ResultCode;
    error = "ncclGetErrorString": fn(ResultCode) -> *const c_char;
    last_error = "ncclGetLastError": fn(Handle) -> *const c_char;
    unique_id = "ncclGetUniqueId": fn(*mut UniqueId) -> ResultCode;
    init_all = "ncclCommInitAll": fn(*mut Handle, c_int, *const c_int) -> ResultCode;
    init_rank = "ncclCommInitRankConfig": fn(*mut Handle, c_int, ById, c_int, *mut Config) -> ResultCode;
    split = "ncclCommSplit": fn(Handle, c_int, c_int, *mut Handle, *mut Config) -> ResultCode;
    destroy = "ncclCommDestroy": fn(Handle) -> ResultCode;
    abort = "ncclCommAbort": fn(Handle) -> ResultCode;
    async_error = "ncclCommGetAsyncError": fn(Handle, *mut ResultCode) -> ResultCode;
    begin = "ncclGroupStart": fn() -> ResultCode;
    end = "ncclGroupEnd": fn() -> ResultCode;
    all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> ResultCode;
    broadcast = "ncclBroadcast": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> ResultCode;
    reduce = "ncclReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, c_int, Handle, Handle) -> ResultCode;
    all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, Handle, Handle) -> ResultCode;
    reduce_scatter = "ncclReduceScatter": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> ResultCode;
    send = "ncclSend": fn(*const c_void, usize, c_int, c_int, Handle, Handle) -> ResultCode;
    receive = "ncclRecv": fn(*mut c_void, usize, c_int, c_int, Handle, Handle) -> ResultCode;
}

/// A [`UniqueId`] as an argument: C passes the structure by value.
#[repr(C)]
pub(super) struct ById(pub(super) UniqueId);

/// The `ncclConfig_t` of version 2.18. Later versions accept it as well.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
}

impl Config {
    /// The configuration of a communicator whose calls do not wait for other ranks. The
    /// communicator reports when a call is complete.
    pub(super) fn without_waits() -> Self {
        const UNDEFINED: c_int = c_int::MIN;
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: 21_800,
            blocking: 0,
            cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: std::ptr::null(),
            split_share: UNDEFINED,
        }
    }
}

pub(super) fn missing() -> Result<Vec<&'static str>> {
    Ok(match Nccl::load(open(Library::Nccl)?) {
        Ok(_) => Vec::new(),
        Err(missing) => missing,
    })
}

pub(super) fn unsupported(cause: String) -> Error {
    Error::new(ErrorKind::Unsupported, "NCCL", cause)
}

/// The functions of the NCCL library, which stays loaded after its first use.
pub(super) fn functions() -> Result<&'static Nccl> {
    static LOADED: OnceLock<Nccl> = OnceLock::new();
    if let Some(nccl) = LOADED.get() {
        return Ok(nccl);
    }
    let nccl = Nccl::load(open(Library::Nccl)?).map_err(|missing| {
        let missing = missing.join("`, `");
        unsupported(format!("the library has no `{missing}`; install NCCL 2.18 or later"))
    })?;
    let mut version = 0;
    // SAFETY: the call writes the local variable `version`.
    let code = unsafe { (nccl.version)(&raw mut version) };
    if code != 0 || version < OLDEST {
        let cause = format!(
            "NCCL reports version {version} (error {code}); the oldest version that can be used \
             is 21800"
        );
        return Err(unsupported(cause));
    }
    if !library::is_multicast_set() {
        // SAFETY: NCCL reads the variable when a communicator is made, and the first communicator
        // is made after this call. This does not hold if another thread reads the environment
        // without the standard library at this moment.
        unsafe { std::env::set_var(MULTICAST, "0") };
    }
    Ok(LOADED.get_or_init(|| nccl))
}

impl Nccl {
    /// The error that `code` means; `Ok` if the call has succeeded or is still in progress.
    pub(super) fn demand(&self, code: ResultCode, call: &'static str) -> Result<()> {
        if code == 0 || code == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: the function returns a terminated text that lives as long as the library, for
        // every code.
        let told = text(unsafe { (self.error)(code) });
        // SAFETY: the function ignores its argument, and returns a terminated text that belongs to
        // this thread. The next failure in this thread replaces the text, which is copied before.
        let more = text(unsafe { (self.last_error)(std::ptr::null_mut()) });
        let cause = format!("{call}: {told} (NCCL error {code}): {more}");
        Err(Error::new(ErrorKind::Driver, "NCCL", cause))
    }
}

/// A text of the library.
fn text(terminated: *const c_char) -> String {
    if terminated.is_null() {
        return String::new();
    }
    // SAFETY: the pointer is not null. So it points to one of the terminated texts that the two
    // functions above return, and the text lives during this call.
    unsafe { CStr::from_ptr(terminated) }.to_string_lossy().into_owned()
}
