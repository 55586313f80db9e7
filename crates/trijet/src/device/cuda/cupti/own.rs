//! When the engines of the GPU worked on operations of this program: CUPTI's activity records,
//! matched to the tags under which the operations were enqueued.
//!
//! A tag is an external correlation identifier of the calling thread. CUPTI writes one more record
//! for each call of the driver that is made under one, which ties the tag to the number that the
//! activities of the call bear. It does so only while it records the calls themselves, so these are
//! asked for too, and left unread.
//!
//! CUPTI calls back without a word of whose buffers these are, so there is one recorder per process,
//! as there is one driver. It is asked for records when a recording begins, and no more when that
//! ends; CUPTI itself stays attached to the process, and calls stay dearer than before the first
//! recording (docs/metrics.md says by how much).

use super::api::CuptiApi;
use super::buffers::{self, Buffers};
use super::guarded;
use super::layout::{self, kinds};
use super::tagged::Tagged;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Nanos;
use crate::device::cuda::api::{CuResult, Handle};
use crate::device::cuda::context::CudaDriver;
use crate::device::cuda::library::{self, Library};
use crate::device::driver::Activities;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What the error of a refusal names.
const OP: &str = "activity records";

/// `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0`: for tools like this one.
const TAG_KIND: u32 = 3;

static OWN: OnceLock<Own> = OnceLock::new();

struct Own {
    api: CuptiApi,
    buffers: Buffers,
    session: Mutex<Session>,
    found: Mutex<Tagged>,
}

/// Whether somebody records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Session {
    Idle,
    Recording,
}

fn refused(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, OP, cause.into())
}

/// The recorder, with the library opened at its first use.
fn own() -> Result<&'static Own> {
    static OPENING: Mutex<()> = Mutex::new(());
    let _alone = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = OWN.get() {
        return Ok(own);
    }
    let api = CuptiApi::load(library::open(Library::Cupti)?);
    if let Some(symbol) = api.missing().first() {
        return Err(refused(format!("the CUPTI library has no `{symbol}`")));
    }
    let version = api.version_number();
    if !layout::VERSIONS.contains(&version) {
        let (first, last) = (layout::VERSIONS.start(), layout::VERSIONS.end());
        let cause = format!("CUPTI {version}: its records were checked for {first} to {last}");
        return Err(refused(cause));
    }
    Ok(OWN.get_or_init(|| Own {
        api,
        buffers: Buffers::new(),
        session: Mutex::new(Session::Idle),
        found: Mutex::default(),
    }))
}

/// Makes sure that CUPTI took a call.
fn check(what: &str, code: Option<CuResult>) -> Result<()> {
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(refused(format!("CUPTI refused {what}")).with_code(code)),
        None => Err(refused(format!("CUPTI cannot be asked for {what}"))),
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
        if *session == Session::Recording {
            return Err(refused("another recording has them: there is one at a time"));
        }
        self.buffers.warm();
        *self.found() = Tagged::default();
        let registered = self.api.register.map(|call| {
            // SAFETY: both functions have the documented signatures and find the recorder in its
            // place, which is a static. It would not do in a library that can be unloaded.
            unsafe { call(requested, completed) }
        });
        check("buffers for records", registered)?;
        for (kind, what) in kinds::OWN {
            // SAFETY: takes a number, and the buffers that follow go to `completed`, which is
            // registered by now; a kind that this version does not know is refused.
            let enabled = check(what, self.api.enable.map(|call| unsafe { call(kind) }));
            if let Err(error) = enabled {
                self.disable();
                return Err(error);
            }
        }
        *session = Session::Recording;
        Ok(())
    }

    /// CUPTI writes no more records. What is not enabled is refused, and nobody has to know.
    fn disable(&self) {
        for (kind, _) in kinds::OWN {
            if let Some(call) = self.api.disable {
                // SAFETY: takes a number; records that were made keep their buffers.
                let _code = unsafe { call(kind) };
            }
        }
    }

    fn take(&self) -> Result<Activities> {
        let mut session = self.session();
        if *session == Session::Idle {
            return Err(refused("nothing records them"));
        }
        *session = Session::Idle;
        let flushed = self.api.flush.map(|call| {
            // SAFETY: 1 asks for buffers with unfinished records too. `completed` is called from in
            // here and takes the lock of `found`, which is not held.
            unsafe { call(1) }
        });
        self.disable();
        check("the records", flushed)?;
        Ok(std::mem::take(&mut *self.found()).activities())
    }
}

/// CUPTI wants an empty buffer.
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let mut given = buffers::NONE;
    guarded(|| given = OWN.get().map_or(buffers::NONE, |own| own.buffers.lend()));
    // SAFETY: the address of a variable of CUPTI's own; null in it declines, as documented.
    unsafe { buffer.write(given.0) };
    // SAFETY: the variable for the length of what was given, valid for the time of this call.
    unsafe { size.write(given.1) };
    // SAFETY: the variable for the most records of the buffer; 0 means as many as fit.
    unsafe { records.write(0) };
}

/// CUPTI hands a buffer back.
extern "C" fn completed(_: Handle, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    guarded(|| {
        let Some(own) = OWN.get() else { return };
        if let Some(buffer) = own.buffers.take_back(buffer) {
            let mut found = own.found();
            own.api.walk(&buffer, valid, |bytes| found.take(layout::read(bytes)));
            found.lost(own.api.dropped_number());
            own.buffers.keep(buffer);
        }
    });
}

impl CudaDriver {
    pub(in crate::device::cuda) fn activity_begin(&self) -> Result<()> {
        if library::recordings().is_some() {
            return Err(refused("this process is recorded as a whole, and CUPTI serves one tool"));
        }
        own()?.begin()
    }

    pub(in crate::device::cuda) fn activity_tag(&self, tag: Option<u64>) {
        let Some(own) = OWN.get() else { return };
        match (tag, own.api.push, own.api.pop) {
            (Some(tag), Some(push), _) => {
                // SAFETY: takes two numbers. A refusal leaves the operation without a time, and
                // who takes the times counts those.
                let _code = unsafe { push(TAG_KIND, tag) };
            }
            (None, _, Some(pop)) => {
                let mut last = 0;
                // SAFETY: writes one number; with no tag there it is refused and writes none.
                let _code = unsafe { pop(TAG_KIND, &raw mut last) };
            }
            _ => {}
        }
    }

    pub(in crate::device::cuda) fn activity_time(&self) -> Result<Nanos> {
        Ok(own()?.api.now())
    }

    pub(in crate::device::cuda) fn activity_take(&self) -> Result<Activities> {
        own()?.take()
    }
}
