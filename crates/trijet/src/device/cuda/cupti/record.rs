//! The recorder of this process: CUPTI's callbacks, and the buffers that go back and forth.
//!
//! Callbacks run on threads of the program and of CUPTI, in the midst of calls of both. None of
//! them panics outwards, none calls CUDA, and the one on the program's threads only takes a buffer
//! from a list.

use super::api::CuptiApi;
use super::buffers::{self, Buffers};
use super::guarded;
use super::layout::{self, kinds};
use super::sink::{Sink, Texts};
use crate::base::units::Nanos;
use crate::device::cuda::api::{CuResult, Handle};
use crate::device::cuda::library::{self, Library};
use crate::trace::activity::Api;
use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// How often CUPTI hands over full buffers, in milliseconds.
const PERIOD_MS: u32 = 1000;

unsafe extern "C" {
    /// Of the C library.
    fn atexit(handler: extern "C" fn()) -> c_int;
}

static RECORDER: OnceLock<Recorder> = OnceLock::new();

struct Recorder {
    api: CuptiApi,
    process: u32,
    sink: Mutex<Sink<File>>,
    buffers: Buffers,
    /// Time in our own callbacks, in nanoseconds.
    host: AtomicU64,
}

/// Starts to record this process, in the folder that the environment names, to its exit. For the
/// library that the driver loads; without the variable, or a second time, it does nothing.
///
/// Nothing is returned, because the program must run on in any case: what fails is said in the
/// file.
pub fn record_this_process() {
    guarded(|| {
        if let Some(folder) = library::recordings()
            && RECORDER.get().is_none()
        {
            let process = std::process::id();
            // A folder that is gone leaves nobody to tell.
            if let Ok(file) = File::create_new(folder.join(format!("{process}.trijet"))) {
                start(file, process);
            }
        }
    });
}

fn start(file: File, process: u32) {
    let api = match library::open(Library::Cupti) {
        Ok(library) => CuptiApi::load(library),
        Err(error) => return fail(Sink::new(file, process, 0, Nanos(0)), &error.to_string()),
    };
    if let Some(symbol) = api.missing().first() {
        let words = format!("the CUPTI library has no `{symbol}`; a newer one has");
        return fail(Sink::new(file, process, 0, Nanos(0)), &words);
    }
    let version = api.version_number();
    let mut sink = Sink::new(file, process, version, api.now());
    if !layout::VERSIONS.contains(&version) {
        let words = format!(
            "the version of CUPTI is {version}; its records were checked for {} to {}",
            layout::VERSIONS.start(),
            layout::VERSIONS.end()
        );
        sink.trouble(&words);
    }
    let recorder = Recorder {
        api,
        process,
        sink: Mutex::new(sink),
        buffers: Buffers::new(),
        host: AtomicU64::new(0),
    };
    // The callbacks look here from the moment at which they are registered.
    RECORDER.get_or_init(|| recorder).begin();
}

/// Ends a recording that never began.
fn fail(mut sink: Sink<File>, words: &str) {
    sink.trouble(words);
    sink.finish(0, Nanos(0), Nanos(0));
}

impl Recorder {
    fn begin(&self) {
        let mut troubles = Vec::new();
        let mut check = |what: &str, code: Option<CuResult>| match code {
            Some(0) => {}
            Some(code) => troubles.push(format!("CUPTI refused {what}: error {code}")),
            None => troubles.push(format!("CUPTI cannot be asked for {what}")),
        };
        let registered = self.api.register.map(|call| {
            // SAFETY: both functions have the documented signatures, live as long as this library,
            // which the driver never unloads, and find the recorder in its place already.
            unsafe { call(requested, completed) }
        });
        check("buffers for records", registered);
        if registered == Some(0) {
            for (kind, what) in kinds::ALL {
                // SAFETY: takes a number; one that this version does not know is refused.
                check(what, self.api.enable.map(|call| unsafe { call(kind) }));
            }
            // SAFETY: takes a number, and buffers are handed to `completed`, which is registered.
            check("full buffers in time", self.api.period.map(|call| unsafe { call(PERIOD_MS) }));
        }
        // SAFETY: `ended` is code of this library, which stays mapped until the process is gone.
        let code = unsafe { atexit(ended) };
        check("a place among the exit handlers", Some(code));
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.iter().for_each(|words| sink.trouble(words));
        sink.flush();
    }

    /// Writes the records of a buffer.
    fn take(&self, buffer: &[u64], valid: usize) {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        self.api.walk(buffer, valid, |bytes| sink.take(layout::read(bytes), self));
        sink.dropped(self.api.dropped_number());
        sink.flush();
    }

    /// Whether this is the process that is recorded, and not a child that it forked.
    fn is_at_home(&self) -> bool {
        std::process::id() == self.process
    }

    fn spent(&self, since: Instant) {
        let spent = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.host.fetch_add(spent, Ordering::Relaxed);
    }
}

impl Texts for Recorder {
    fn kernel(&self, address: u64) -> &[u8] {
        let Ok(address) = usize::try_from(address) else { return b"" };
        let name = std::ptr::with_exposed_provenance::<c_char>(address);
        if name.is_null() {
            return b"";
        }
        // SAFETY: the record of a kernel holds a terminated string, which CUPTI keeps for all
        // records of that kernel. This becomes false if a record is read after CUPTI was finalised;
        // we never do that, and records are read inside of CUPTI's own callback.
        unsafe { CStr::from_ptr(name) }.to_bytes()
    }

    fn function(&self, api: Api, number: u32) -> Option<&[u8]> {
        // `CUpti_CallbackDomain`.
        let domain = match api {
            Api::Driver => 1,
            Api::Runtime => 2,
        };
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the call writes one pointer; a number that it does not know is refused.
        let code = unsafe { (self.api.name?)(domain, number, &raw mut name) };
        if code != 0 || name.is_null() {
            return None;
        }
        // SAFETY: on success it is one of the static, terminated strings of the library, which the
        // recorder keeps open for ever.
        Some(unsafe { CStr::from_ptr(name) }.to_bytes())
    }
}

/// CUPTI wants an empty buffer.
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let mut given = buffers::NONE;
    guarded(|| {
        if let Some(recorder) = RECORDER.get() {
            let since = Instant::now();
            given = recorder.buffers.lend();
            recorder.spent(since);
        }
    });
    // SAFETY: CUPTI passes the address of its variable; null in it declines, as documented.
    unsafe { buffer.write(given.0) };
    // SAFETY: likewise a variable of CUPTI, for the length of what was given.
    unsafe { size.write(given.1) };
    // SAFETY: the third variable of the request; 0 means as many records as fit.
    unsafe { records.write(0) };
}

/// CUPTI hands a buffer back.
extern "C" fn completed(_: Handle, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    guarded(|| {
        let Some(recorder) = RECORDER.get() else { return };
        if !recorder.is_at_home() {
            return;
        }
        let since = Instant::now();
        if let Some(buffer) = recorder.buffers.take_back(buffer) {
            recorder.take(&buffer, valid);
            recorder.buffers.keep(buffer);
        }
        recorder.spent(since);
    });
}

/// The process exits.
extern "C" fn ended() {
    guarded(|| {
        let Some(recorder) = RECORDER.get() else { return };
        if !recorder.is_at_home() {
            return;
        }
        if let Some(flush) = recorder.api.flush {
            // SAFETY: 1 asks for unfinished records too. No lock of ours is held, since `completed`
            // is called from in here; CUPTI's own exit handlers were registered before and run
            // after this one. A refusal leaves records out, and there is nobody left to tell.
            unsafe { flush(1) };
        }
        let declined = recorder.buffers.declined();
        let host = Nanos(recorder.host.load(Ordering::Relaxed));
        let mut sink = recorder.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.finish(declined, host, recorder.api.now());
    });
}
