//! NCCL, the library for collectives of several GPUs, when it is installed.

use super::library::{self, Library, MULTICAST, open};
use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

type Handle = *mut c_void;
/// A `ncclResult_t`.
type Code = c_int;

/// The oldest version whose functions behave as this file expects, 2.18, as NCCL numbers it.
const OLDEST: c_int = 21_800;

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($arg:ty),*) -> $result:ty;)*) => {
        /// The functions of the library.
        #[derive(Debug)]
        struct Nccl {
            $($field: unsafe extern "C" fn($($arg),*) -> $result,)*
            _library: libloading::Library,
        }

        impl Nccl {
            /// The table of `library`, or the symbols that it lacks.
            fn load(library: libloading::Library) -> std::result::Result<Self, Vec<&'static str>> {
                $(
                    // SAFETY: name and signature are those of `nccl.h`: false for another library. The pointer is valid while
                    // `_library` is open, which is as long as the table lives.
                    let $field = unsafe { library.get($symbol) }.ok().map(|symbol| *symbol);
                )*
                match ($($field,)*) {
                    ($(Some($field),)*) => Ok(Self { $($field,)* _library: library }),
                    ($($field,)*) => {
                        let found = [$(($symbol, $field.is_some())),*];
                        Err(found.into_iter().filter(|one| !one.1).map(|one| one.0).collect())
                    }
                }
            }
        }
    };
}

functions! {
    version = "ncclGetVersion": fn(*mut c_int) -> Code;
    error = "ncclGetErrorString": fn(Code) -> *const c_char;
    last_error = "ncclGetLastError": fn(Handle) -> *const c_char;
    init_all = "ncclCommInitAll": fn(*mut Handle, c_int, *const c_int) -> Code;
    destroy = "ncclCommDestroy": fn(Handle) -> Code;
    async_error = "ncclCommGetAsyncError": fn(Handle, *mut Code) -> Code;
    begin = "ncclGroupStart": fn() -> Code;
    end = "ncclGroupEnd": fn() -> Code;
    all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> Code;
}

pub(super) fn missing() -> Result<Vec<&'static str>> {
    Ok(match Nccl::load(open(Library::Nccl)?) {
        Ok(_) => Vec::new(),
        Err(missing) => missing,
    })
}

fn unsupported(cause: String) -> Error {
    Error::new(ErrorKind::Unsupported, "NCCL", cause)
}

/// The library, which stays loaded after its first use.
fn functions() -> Result<&'static Nccl> {
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
        let cause =
            format!("the library says version {version} (code {code}); 21800 is the oldest");
        return Err(unsupported(cause));
    }
    if !library::is_multicast_set() {
        // SAFETY: NCCL reads the variable when a communicator is made, and the first one is made after this call. False if
        // another thread reads the environment without the standard library at this moment.
        unsafe { std::env::set_var(MULTICAST, "0") };
    }
    Ok(LOADED.get_or_init(|| nccl))
}

/// One part of a collective: the memory of a device and the stream of the work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) address: u64,
    pub(crate) stream: *mut c_void,
}

/// The communicators of the devices of a process.
#[derive(Debug)]
pub(crate) struct NcclGroup {
    nccl: &'static Nccl,
    communicators: Vec<Handle>,
}

// SAFETY: NCCL allows calls on a communicator from any thread, one at a time. The calls of this file that use one are made by its
// owner with `&mut`, or, for `async_error`, only read it: false if a later function took `&self` and enqueued.
unsafe impl Send for NcclGroup {}

impl NcclGroup {
    /// Communicators for these devices of the driver.
    pub(crate) fn new(devices: &[u32]) -> Result<Self> {
        let nccl = functions()?;
        let ordinals: Vec<c_int> = devices
            .iter()
            .map(|device| {
                c_int::try_from(*device).map_err(|_| unsupported("a device number".into()))
            })
            .collect::<Result<_>>()?;
        let count = c_int::try_from(ordinals.len()).unwrap_or(c_int::MAX);
        let mut communicators = vec![std::ptr::null_mut(); ordinals.len()];
        // SAFETY: both arrays have `count` entries, and the call writes the first one. NCCL uses the primary contexts of the
        // devices, which are those of this library.
        let code = unsafe { (nccl.init_all)(communicators.as_mut_ptr(), count, ordinals.as_ptr()) };
        let group = Self { nccl, communicators };
        group.demand(code, "ncclCommInitAll")?;
        Ok(group)
    }

    /// Combines `count` elements of each part in place, by the numbers that NCCL gives to element types and operations.
    ///
    /// # Safety
    /// There is a part for each device of the group, in their order. Each address has `count` elements, which nothing else uses
    /// from now until the work in the stream is complete, and each stream is a live one of its device.
    pub(crate) unsafe fn all_reduce(
        &mut self,
        parts: &[Part],
        count: usize,
        (element, operation): (c_int, c_int),
    ) -> Result<()> {
        // SAFETY: the call takes no pointer. Calls of a group are enqueued when it ends.
        let begun = unsafe { (self.nccl.begin)() };
        self.demand(begun, "ncclGroupStart")?;
        let mut outcome = 0;
        for (part, communicator) in parts.iter().zip(&self.communicators) {
            let data = part.address as *mut c_void;
            // SAFETY: our caller vouches for memory and streams; the communicator is live, because `drop` ends it. In place: the
            // call allows that both pointers are equal.
            let code = unsafe {
                (self.nccl.all_reduce)(
                    data,
                    data,
                    count,
                    element,
                    operation,
                    *communicator,
                    part.stream,
                )
            };
            if outcome == 0 {
                outcome = code;
            }
        }
        // SAFETY: the call takes no pointer. A group that has begun must end, also after an error.
        let ended = unsafe { (self.nccl.end)() };
        self.demand(outcome, "ncclAllReduce")?;
        self.demand(ended, "ncclGroupEnd")
    }

    /// The error of work that was enqueued.
    pub(crate) fn demand_well(&self) -> Result<()> {
        for communicator in &self.communicators {
            let mut state = 0;
            // SAFETY: the communicator is live; the call writes the local variable `state`.
            let code = unsafe { (self.nccl.async_error)(*communicator, &raw mut state) };
            self.demand(code, "ncclCommGetAsyncError")?;
            self.demand(state, "an earlier collective")?;
        }
        Ok(())
    }

    fn demand(&self, code: Code, call: &'static str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function returns a terminated text that lives as long as the library, for every code.
        let told = text(unsafe { (self.nccl.error)(code) });
        let first = self.communicators.first().copied().unwrap_or(std::ptr::null_mut());
        // SAFETY: the function ignores its argument, and returns a terminated text of this thread that the next failure
        // replaces; it is copied before.
        let more = text(unsafe { (self.nccl.last_error)(first) });
        let cause = format!("{call}: {told} (NCCL error {code}): {more}");
        Err(Error::new(ErrorKind::Driver, "NCCL", cause))
    }

    /// Ends the communicators. Only when no work is pending: the calls would wait for it.
    pub(crate) fn destroy(&mut self) {
        for communicator in self.communicators.drain(..).filter(|handle| !handle.is_null()) {
            // SAFETY: the communicator is live and leaves the list with this call. If the call is refused, it leaks.
            let _code = unsafe { (self.nccl.destroy)(communicator) };
        }
    }
}

/// A text of the library.
fn text(terminated: *const c_char) -> String {
    if terminated.is_null() {
        return String::new();
    }
    // SAFETY: it is no null pointer, so it is one of the terminated texts that the two functions above return, and it lives
    // during this call.
    unsafe { CStr::from_ptr(terminated) }.to_string_lossy().into_owned()
}
