//! Where the calls come from: callbacks of CUPTI, or of the Compute Sanitizer API, which also knows
//! the memory that kernels access. A process has one of the two, because each excludes the other.

use super::arguments::CallbackData;
use super::functions::{FUNCTIONS, Recorded, find};
use super::kernels;
use crate::api::{ANOTHER_SUBSCRIBER, Api, CuptiApi, Subscriber};
use crate::call_file;
use crate::opening::usable;
use crate::search;
use crate::system::{self, Library};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trijet_sanitizer::api::SanitizerApi;
use trijet_sanitizer::capture::{self, AccessCapture, AccessHooks, CallLaunches};

/// The environment variable that is set if the accesses of kernels are recorded.
pub const KERNELS: &str = "TRIJET_CALLS_KERNELS";

/// An upper limit of the numbers of the functions of the driver in CUPTI.
const NUMBERS_MAX: u32 = 4096;
/// Maximum time for which the exit of the program waits until all accesses are read.
const READ_WAIT: Duration = Duration::from_secs(20);
/// The stack size of the thread that reads accesses.
const STACK_BYTES: usize = 1 << 20;

/// The function of [`FUNCTIONS`](super::functions::FUNCTIONS) with a number, and whether its
/// default stream is the one of the thread.
type Numbered = Option<(u16, bool)>;

/// The source of the calls.
#[derive(Debug)]
pub(super) enum CallSource {
    Cupti {
        api: CuptiApi,
        by_number: Vec<Numbered>,
    },
    Sanitizer {
        capture: &'static AccessCapture,
        /// The functions that were called so far, because the library names them at a call only.
        by_number: Mutex<HashMap<u32, Numbered>>,
        /// The numbers of contexts.
        contexts: Mutex<HashMap<usize, u32>>,
    },
}

/// The launches of a call, as they are noted.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotedLaunches(Option<CallLaunches>);

impl NotedLaunches {
    pub(super) fn note(self, out: &mut Vec<u8>) {
        if let Some(launches) = self.0.filter(|one| one.call > 0) {
            call_file::launches(out, launches);
        }
    }
}

impl CallSource {
    /// Opens the library that the environment asks for. `hooks` are for the Compute Sanitizer API.
    pub(super) fn open(hooks: AccessHooks) -> Result<Self, String> {
        if std::env::var_os(KERNELS).is_none() {
            let (api, _) = usable()?;
            let is_wanted = |(index, _): &(u16, bool)| {
                FUNCTIONS[usize::from(*index)].recorded != Recorded::TensorMap
            };
            let of =
                |number| find(api.function(Api::Driver, number)?.to_str().ok()?).filter(is_wanted);
            let by_number = (0..NUMBERS_MAX).map(of).collect();
            return Ok(Self::Cupti { api, by_number });
        }
        let capture = capture::begin(sanitizer()?, hooks)?;
        let started = system::with_blocked_signals(|| {
            std::thread::Builder::new()
                .name("trijet-accesses".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(|| capture.read_tables())
        });
        started.map_err(|error| format!("the thread for accesses was not started: {error}"))?;
        let (by_number, contexts) = (Mutex::default(), Mutex::default());
        Ok(Self::Sanitizer { capture, by_number, contexts })
    }

    /// Subscribes to CUPTI with `called`, and asks for a callback at each function. Returns whether
    /// CUPTI accepted it. Appends the reason to `words` if not.
    pub(super) fn subscribe(&self, called: Subscriber, words: &mut Vec<u8>) -> bool {
        let Self::Cupti { api, by_number } = self else { return true };
        let mut subscriber: *mut c_void = std::ptr::null_mut();
        let code = api.subscribe.map_or(1, |call| {
            // SAFETY: the call writes the local variable. `called` is mapped until the process
            // ends. False if this library is unloaded before. The driver never unloads it.
            unsafe { call(&raw mut subscriber, called, std::ptr::null_mut()) }
        });
        match code {
            0 => {}
            ANOTHER_SUBSCRIBER => {
                call_file::trouble(
                    words,
                    "another tool in this process, such as a profiler, has subscribed to CUPTI",
                );
                return false;
            }
            code => {
                let words_of = format!("CUPTI refused a subscription: error {code}");
                call_file::trouble(words, &words_of);
                return false;
            }
        }
        let mut refused = 0;
        for (number, function) in (0..).zip(by_number) {
            if function.is_some()
                && let Some(call) = api.callback
            {
                // SAFETY: the subscriber is the one that CUPTI has just made. CUPTI has named the
                // number itself, and refuses an unknown one.
                let code = unsafe { call(1, subscriber, Api::Driver.domain(), number) };
                refused += u32::from(code != 0);
            }
        }
        if refused > 0 {
            let words_of = format!("CUPTI refused callbacks for {refused} functions");
            call_file::trouble(words, &words_of);
        }
        true
    }

    /// The function with a number.
    pub(super) fn function(&self, number: u32, data: CallbackData) -> Numbered {
        match self {
            Self::Cupti { by_number, .. } => by_number.get(number as usize).copied().flatten(),
            Self::Sanitizer { by_number, .. } => {
                let mut known = by_number.lock().unwrap_or_else(PoisonError::into_inner);
                let name = || find(data.function()?.to_str().ok()?);
                *known.entry(number).or_insert_with(name)
            }
        }
    }

    /// The number of the current context of a call.
    pub(super) fn context_number(&self, data: CallbackData) -> u32 {
        match self {
            Self::Cupti { .. } => data.context_number(),
            Self::Sanitizer { contexts, .. } => {
                let mut known = contexts.lock().unwrap_or_else(PoisonError::into_inner);
                let next = u32::try_from(known.len() + 1).unwrap_or(u32::MAX);
                *known.entry(data.context().addr()).or_insert(next)
            }
        }
    }

    /// The number of the device of the current context.
    pub(super) fn device(&self, context: *mut c_void) -> u32 {
        let mut device = 0;
        match self {
            Self::Cupti { api, .. } => {
                if let Some(call) = api.device {
                    // SAFETY: the context is the current one of this thread, which is inside a
                    // call. The call writes the local variable. If CUPTI refuses, the device counts
                    // as the first.
                    unsafe { call(context, &raw mut device) };
                }
            }
            Self::Sanitizer { .. } => device = kernels::present_device().unwrap_or(0),
        }
        device
    }

    /// The launches of the present call of this thread.
    pub(super) fn launches(&self) -> NotedLaunches {
        let is_known = matches!(self, Self::Sanitizer { .. });
        NotedLaunches(is_known.then(capture::present_launches))
    }

    /// Reads the accesses of all launches.
    pub(super) fn finish(&self) {
        if let Self::Sanitizer { capture, .. } = self {
            // A signal handler that calls `exit` may have interrupted this thread in the capture.
            if !capture::is_inside() {
                capture.read_all(Some(READ_WAIT));
            }
        }
    }
}

/// Opens the Compute Sanitizer API.
fn sanitizer() -> Result<SanitizerApi, String> {
    let names = search::SANITIZER;
    let mut first = None;
    for path in names.candidates() {
        match Library::open(&path, false) {
            Ok(library) => {
                // SAFETY: the library stays open until the process ends.
                let api = unsafe { SanitizerApi::load(|symbol| library.symbol(symbol)) };
                return api.map_err(|symbol| {
                    format!("the Compute Sanitizer API has no function `{symbol}`; install 12.4 or later")
                });
            }
            Err(reason) => first = first.or(Some(reason)),
        }
    }
    let first = first.unwrap_or_default();
    Err(format!(
        "the Compute Sanitizer API was not found: {first}; install the CUDA toolkit or the package \
         nvidia-cuda-sanitizer-api of PyPI, or set {} to the path of libsanitizer-public.so",
        names.variable
    ))
}
