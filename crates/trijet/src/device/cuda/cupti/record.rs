//! The recorder of a whole process: the callbacks of CUPTI, and their buffers.
//!
//! Callbacks run on threads of the program and of CUPTI, inside of calls of both. No panic leaves
//! them, and they do not call CUDA. The callback on threads of the program only takes a buffer from
//! a list.

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

/// The time between two returns of full buffers, in milliseconds.
const PERIOD_MS: u32 = 1000;

unsafe extern "C" {
    /// A function of the C library.
    fn atexit(handler: extern "C" fn()) -> c_int;
}

static RECORDER: OnceLock<Recorder> = OnceLock::new();

struct Recorder {
    api: CuptiApi,
    process: u32,
    sink: Mutex<Sink<File>>,
    buffers: Buffers,
    /// The time spent in the callbacks of this file, in nanoseconds.
    host: AtomicU64,
}

/// Records this process until it exits, into a file in the folder that the environment names. The
/// library that the driver loads calls it. Without the variable, and at a second call, it does
/// nothing.
///
/// It returns no error, because the program runs on in any case: failures become warnings in the
/// file.
pub fn record_this_process() {
    guarded(|| {
        if let Some(folder) = library::recordings()
            && RECORDER.get().is_none()
        {
            let process = std::process::id();
            // Without the folder there is no place for a warning either.
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
        let words = format!("the CUPTI library has no `{symbol}`; install a newer one");
        return fail(Sink::new(file, process, 0, Nanos(0)), &words);
    }
    let version = api.version_number();
    let mut sink = Sink::new(file, process, version, api.now());
    if !layout::VERSIONS.contains(&version) {
        let words = format!(
            "CUPTI has version {version}, and its records were tested for {} to {} only",
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
    // The callbacks read `RECORDER` as soon as they are registered.
    RECORDER.get_or_init(|| recorder).begin();
}

/// Writes a recording that has a warning and no records.
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
            None => troubles.push(format!("the CUPTI library has no function for {what}")),
        };
        let registered = self.api.register.map(|call| {
            // SAFETY: both functions have the documented signatures, and find the recorder in a
            // static that is set by now. CUPTI calls them until the process ends: false in a
            // library that is unloaded before, and the driver never unloads this one.
            unsafe { call(requested, completed) }
        });
        check("buffers for records", registered);
        if registered == Some(0) {
            for (kind, what) in kinds::ALL {
                // SAFETY: the call takes a number and refuses one that it does not know. The
                // callbacks for the buffers that CUPTI asks for from here on are registered: false
                // otherwise.
                check(what, self.api.enable.map(|call| unsafe { call(kind) }));
            }
            // SAFETY: the call takes a number. It starts a thread of CUPTI that calls `completed`,
            // which is registered, and takes only locks that this function does not hold.
            check("full buffers in time", self.api.period.map(|call| unsafe { call(PERIOD_MS) }));
        }
        // SAFETY: the C library calls `ended` once, while the process exits. The code is mapped
        // until then: false in a library that is unloaded before, and the driver never unloads this
        // one.
        let code = unsafe { atexit(ended) };
        check("an exit handler", Some(code));
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

    /// Whether this is the recorded process and not a child that it forked.
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
        // SAFETY: the record of a kernel holds the address of a terminated string, which CUPTI
        // keeps until it is finalised. False for a record that is read after that: records are read
        // inside of CUPTI's own callback only.
        unsafe { CStr::from_ptr(name) }.to_bytes()
    }

    fn function(&self, api: Api, number: u32) -> Option<&[u8]> {
        // `CUpti_CallbackDomain`.
        let domain = match api {
            Api::Driver => 1,
            Api::Runtime => 2,
        };
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the call writes the local variable `name`, and refuses a domain or a number that
        // it does not know.
        let code = unsafe { (self.api.name?)(domain, number, &raw mut name) };
        if code != 0 || name.is_null() {
            return None;
        }
        // SAFETY: on success `name` is a static, terminated string of the library: false once the
        // library is closed, and the recorder keeps it open until the process ends.
        Some(unsafe { CStr::from_ptr(name) }.to_bytes())
    }
}

/// CUPTI asks for an empty buffer.
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let mut given = buffers::NONE;
    guarded(|| {
        if let Some(recorder) = RECORDER.get() {
            let since = Instant::now();
            given = recorder.buffers.lend();
            recorder.spent(since);
        }
    });
    // SAFETY: CUPTI passes the address of its variable for the buffer, which is valid during this
    // call only. A null pointer in it refuses the request.
    unsafe { buffer.write(given.0) };
    // SAFETY: CUPTI's variable for the length of the buffer, 0 for a refused request; it is written
    // during the call and its address is not kept.
    unsafe { size.write(given.1) };
    // SAFETY: CUPTI's variable for the most records of the buffer, also valid during the call only;
    // 0 means as many as fit.
    unsafe { records.write(0) };
}

/// CUPTI returns a buffer.
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
            // SAFETY: 1 stands for buffers with unfinished records too. The call calls `completed`,
            // which takes the lock of the sink: a deadlock if it were held here. CUPTI is still
            // usable, since its own exit handlers were registered before and run after this one. If
            // the call is refused, the last records are missing.
            unsafe { flush(1) };
        }
        let declined = recorder.buffers.declined();
        let host = Nanos(recorder.host.load(Ordering::Relaxed));
        let mut sink = recorder.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.finish(declined, host, recorder.api.now());
    });
}
