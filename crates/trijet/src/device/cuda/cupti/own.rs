//! The times of this program's own operations on the GPU: CUPTI's activity records, matched to the
//! tags under which the operations were enqueued.
//!
//! A tag is an external correlation identifier of the calling thread. For each call of the driver
//! under a tag, CUPTI writes a record that connects the tag with the number of the call. The
//! activities of the call have the same number. CUPTI writes these records only while it also
//! collects records of the calls themselves. So the library collects the records of calls, and
//! ignores them.
//!
//! The arguments of a CUPTI callback do not identify a recorder. So a process has one recorder, as
//! it has one driver. CUPTI collects records from the start of a trace to its end. After the trace,
//! CUPTI stays attached to the process. Then calls cost more than before the first trace
//! (docs/metrics.md has the cost).

use super::guarded;
use super::tagged::Tagged;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Nanos;
use crate::device::cuda::api::{CuResult, Handle};
use crate::device::cuda::context::CudaDriver;
use crate::device::cuda::library::{self, Library};
use crate::device::driver::Activities;
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use trijet_cupti::api::CuptiApi;
use trijet_cupti::buffers::{self, Buffers};
use trijet_cupti::layout::{self, kinds};

/// The name of the operation in errors.
const OP: &str = "activity records";

/// `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0`, for tags of tools that are not NVIDIA's.
const TAG_KIND: u32 = 3;

static OWN: OnceLock<Own> = OnceLock::new();

struct Own {
    api: CuptiApi,
    buffers: Buffers,
    session: Mutex<Session>,
    found: Mutex<Tagged>,
}

/// Whether a trace collects records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Session {
    Idle,
    Collecting,
}

fn refused(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, OP, cause.into())
}

/// The recorder of this process. The first call opens the CUPTI library.
fn own() -> Result<&'static Own> {
    static OPENING: Mutex<()> = Mutex::new(());
    let _alone = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = OWN.get() {
        return Ok(own);
    }
    let library = library::open(Library::Cupti)?;
    let find = |symbol: &CStr| library::symbol(&library, symbol);
    // SAFETY: the library is CUPTI by its name. It stays open until the process ends, because
    // `forget` below keeps it open.
    let api = unsafe { CuptiApi::load(find) };
    std::mem::forget(library);
    if let Some(symbol) = api.missing() {
        return Err(refused(format!(
            "the CUPTI library has no `{symbol}`; install CUPTI of CUDA 12 or later"
        )));
    }
    let version = api.version_number();
    if !layout::VERSIONS.contains(&version) {
        let (first, last) = (layout::VERSIONS.start(), layout::VERSIONS.end());
        let cause = format!("CUPTI has version {version}; install one from {first} to {last}");
        return Err(refused(cause));
    }
    Ok(OWN.get_or_init(|| Own {
        api,
        buffers: Buffers::default(),
        session: Mutex::new(Session::Idle),
        found: Mutex::default(),
    }))
}

/// Checks the code of a call. `code` is `None` if the library lacks the symbol.
fn check(what: &str, code: Option<CuResult>) -> Result<()> {
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(refused(format!("CUPTI refused {what}")).with_code(code)),
        None => Err(refused(format!("the CUPTI library has no function for {what}"))),
    }
}

impl Own {
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self) -> MutexGuard<'_, Tagged> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Result<()> {
        let mut session = self.session();
        if *session == Session::Collecting {
            return Err(refused(
                "another trace collects activity records; end that trace before you begin the next",
            ));
        }
        self.buffers.warm();
        *self.found() = Tagged::default();
        let registered = self.api.register.map(|call| {
            // SAFETY: both functions have the documented signatures, and find the recorder in a
            // static. CUPTI calls them until the process ends. This does not hold in a library that
            // is unloaded before.
            unsafe { call(requested, completed) }
        });
        check("buffers for records", registered)?;
        for (kind, what) in kinds::OWN {
            // SAFETY: the call takes a number, and refuses a number that it does not know. After
            // the call, CUPTI asks for buffers by the callbacks, which are registered by now.
            let enabled = check(what, self.api.enable.map(|call| unsafe { call(kind) }));
            if let Err(error) = enabled {
                self.disable();
                return Err(error);
            }
        }
        *session = Session::Collecting;
        Ok(())
    }

    /// Ends the collection. CUPTI refuses to disable a kind of record that was not enabled. This
    /// does no harm.
    fn disable(&self) {
        for (kind, _) in kinds::OWN {
            if let Some(call) = self.api.disable {
                // SAFETY: the call takes a number. CUPTI keeps the buffers that have records until
                // it returns them, and the recorder exists until the process ends.
                let _code = unsafe { call(kind) };
            }
        }
    }

    fn take(&self) -> Result<Activities> {
        let mut session = self.session();
        if *session == Session::Idle {
            return Err(refused("no trace collects activity records; begin a trace first"));
        }
        *session = Session::Idle;
        let flushed = self.api.flush.map(|call| {
            // SAFETY: with the flag 1, CUPTI returns buffers with unfinished records too. The call
            // calls `completed`, which takes the lock of `found`. Only the lock of `session` is
            // held here, so there is no deadlock.
            unsafe { call(1) }
        });
        self.disable();
        check("the records", flushed)?;
        Ok(std::mem::take(&mut *self.found()).activities())
    }
}

/// CUPTI calls this to get an empty buffer.
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let mut given = buffers::NONE;
    guarded(|| given = OWN.get().map_or(buffers::NONE, |own| own.buffers.lend()));
    // SAFETY: CUPTI passes the address of a variable of its own, valid during this call. A null
    // pointer in it refuses the request, as documented.
    unsafe { buffer.write(given.0) };
    // SAFETY: the address of CUPTI's variable for the length of the buffer, valid during this call.
    // This does not hold if the address is kept and written later.
    unsafe { size.write(given.1) };
    // SAFETY: the address of CUPTI's variable for the maximum number of records in the buffer,
    // valid during this call. The value 0 means as many records as fit.
    unsafe { records.write(0) };
}

/// CUPTI calls this to return a buffer.
extern "C" fn completed(_: Handle, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    guarded(|| {
        let Some(own) = OWN.get() else { return };
        if let Some(buffer) = own.buffers.take_back(buffer) {
            let mut found = own.found();
            let version = own.api.version_number();
            own.api.walk(buffer.bytes(valid), |bytes| found.take(layout::read(bytes, version)));
            found.lost(own.api.dropped_number());
            own.buffers.keep(buffer);
        }
    });
}

impl CudaDriver {
    pub(in crate::device::cuda) fn activity_begin(&self) -> Result<()> {
        if library::is_recorded() {
            return Err(refused(
                "`trijet trace` records this process (TRIJET_RECORDINGS is set), and CUPTI allows \
                 one recorder; unset it to time operations here",
            ));
        }
        own()?.begin()
    }

    pub(in crate::device::cuda) fn activity_tag(&self, tag: Option<u64>) {
        let Some(own) = OWN.get() else { return };
        match (tag, own.api.push, own.api.pop) {
            (Some(tag), Some(push), _) => {
                // SAFETY: the call takes two numbers and acts on the calling thread only. If the
                // call is refused, the operation gets no time, and is counted as an operation
                // without a time.
                let _code = unsafe { push(TAG_KIND, tag) };
            }
            (None, _, Some(pop)) => {
                let mut last = 0;
                // SAFETY: the call writes the local variable `last`. Without a tag on this thread,
                // the call is refused and writes nothing.
                let _code = unsafe { pop(TAG_KIND, &raw mut last) };
            }
            _ => {}
        }
    }

    pub(in crate::device::cuda) fn activity_time(&self) -> Result<Nanos> {
        Ok(Nanos(own()?.api.now()))
    }

    pub(in crate::device::cuda) fn activity_take(&self) -> Result<Activities> {
        own()?.take()
    }
}
