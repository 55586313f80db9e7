//! The calls of CUPTI, and a walk over the records in a buffer.

use std::ffi::{CStr, c_char, c_int, c_void};

/// The code that a call of CUPTI returns; 0 is success.
pub type Code = c_int;
/// The callback with which CUPTI asks for an empty buffer.
pub type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// The callback with which CUPTI returns a buffer.
pub type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// The callback of a subscriber.
pub type Subscriber = extern "C" fn(*mut c_void, c_int, u32, *const c_void);

/// The function with which a program finds the tables of NVTX: the argument is the number of a
/// table.
pub type NvtxExport = unsafe extern "C" fn(u32) -> *const c_void;

/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
pub const ANOTHER_SUBSCRIBER: Code = 39;

/// The function of CUPTI that makes a program report its NVTX ranges to CUPTI.
pub const NAMED_RANGES: &CStr = c"cuptiNvtxInitialize2";

/// The functions that a complete library may lack. Its traces then have no named ranges, no names
/// of threads, or no edges of graphs.
const OPTIONAL: [&CStr; 4] =
    [NAMED_RANGES, c"cuptiSetThreadIdType", c"cuptiGetGraphId", c"cuptiGetGraphNodeId"];

macro_rules! symbols {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal: fn($($arg:ty),* $(,)?);)*) => {
        /// The functions of an open CUPTI library. `None` for a function that the library lacks.
        #[derive(Debug, Clone, Copy)]
        pub struct CuptiApi {
            $($(#[$doc])* pub $field: Option<unsafe extern "C" fn($($arg),*) -> Code>,)*
        }

        impl CuptiApi {
            /// Looks up the address of each function with `find`.
            ///
            /// # Safety
            /// For each symbol, `find` returns null, or the address of the symbol in a CUPTI
            /// library. This library stays loaded for as long as this table is used.
            pub unsafe fn load(find: impl Fn(&CStr) -> *const c_void) -> Self {
                Self {
                    $($field: {
                        let address = find($symbol);
                        // SAFETY: `Option` of a function pointer has the size of a pointer, and
                        // null is `None`. The type is the documented signature of the symbol. This
                        // does not hold if the library exports the name with another meaning.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                Option<unsafe extern "C" fn($($arg),*) -> Code>,
                            >(address)
                        }
                    },)*
                }
            }

            /// The name of the first function that the library lacks, other than the functions
            /// without which a trace lacks only a kind of records: named ranges, the names of
            /// threads, and the edges of graphs.
            #[must_use]
            pub fn missing(&self) -> Option<&'static str> {
                $(if self.$field.is_none() && !OPTIONAL.contains(&$symbol) {
                    return $symbol.to_str().ok();
                })*
                None
            }
        }
    };
}

symbols! {
    /// The version of CUPTI.
    version = c"cuptiGetVersion": fn(*mut u32);
    /// The present time on the clock of CUPTI's records.
    timestamp = c"cuptiGetTimestamp": fn(*mut u64);
    /// Subscribes to CUPTI. CUPTI before version 13.3 accepts one subscriber.
    subscribe = c"cuptiSubscribe": fn(*mut *mut c_void, Subscriber, *mut c_void);
    /// Chooses whether the subscriber is called at a function of CUDA.
    callback = c"cuptiEnableCallback": fn(u32, *mut c_void, c_int, u32);
    /// Writes the number of the device of a context.
    device = c"cuptiGetDeviceId": fn(*mut c_void, *mut u32);
    /// Registers the callbacks for buffers.
    register = c"cuptiActivityRegisterCallbacks": fn(Request, Complete);
    /// Starts the collection of one kind of record.
    enable = c"cuptiActivityEnable": fn(u32);
    /// Ends the collection of a kind of record.
    disable = c"cuptiActivityDisable": fn(u32);
    /// Chooses whether calls of a function of the runtime are collected.
    runtime_function = c"cuptiActivityEnableRuntimeApi": fn(u32, u8);
    /// Chooses whether calls of a function of the driver are collected.
    driver_function = c"cuptiActivityEnableDriverApi": fn(u32, u8);
    /// Begins a tag for the following calls of this thread.
    push = c"cuptiActivityPushExternalCorrelationId": fn(u32, u64);
    /// Ends the tag that this thread began last.
    pop = c"cuptiActivityPopExternalCorrelationId": fn(u32, *mut u64);
    /// Chooses how records number threads.
    thread_numbers = c"cuptiSetThreadIdType": fn(c_int);
    /// Finds the next record in a buffer.
    next = c"cuptiActivityGetNextRecord": fn(*mut u8, usize, *mut *mut c_void);
    /// Counts the records that CUPTI lost because it had no buffer for them.
    dropped = c"cuptiActivityGetNumDroppedRecords": fn(*mut c_void, u32, *mut usize);
    /// Makes CUPTI return buffers that are not full.
    flush = c"cuptiActivityFlushAll": fn(u32);
    /// Looks up the name of a function of CUDA by its number.
    name = c"cuptiGetCallbackName": fn(c_int, u32, *mut *const c_char);
    /// Writes the number of a graph, as records of operations have it.
    graph = c"cuptiGetGraphId": fn(*mut c_void, *mut u32);
    /// Writes the number of a node of a graph, as records of operations have it.
    graph_node = c"cuptiGetGraphNodeId": fn(*mut c_void, *mut u64);
    /// Sets the functions in the NVTX tables of a program to functions of CUPTI.
    named_ranges = c"cuptiNvtxInitialize2": fn(Option<NvtxExport>);
}

/// The API that a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// The CUDA driver.
    Driver,
    /// The CUDA runtime.
    Runtime,
}

impl Api {
    /// The value of `CUpti_CallbackDomain`.
    #[must_use]
    pub fn domain(self) -> c_int {
        match self {
            Self::Driver => 1,
            Self::Runtime => 2,
        }
    }
}

impl CuptiApi {
    /// The version of CUPTI; 0 if CUPTI does not report it.
    #[must_use]
    pub fn version_number(&self) -> u32 {
        let mut version = 0;
        let Some(call) = self.version else { return 0 };
        // SAFETY: the call writes the local variable `version`. It needs no context and no
        // initialisation of CUPTI, and works after a context error.
        let code = unsafe { call(&raw mut version) };
        if code == 0 { version } else { 0 }
    }

    /// The present time in nanoseconds on the clock of CUPTI's records. 0 if CUPTI does not report
    /// it.
    #[must_use]
    pub fn now(&self) -> u64 {
        let mut now = 0;
        let Some(call) = self.timestamp else { return 0 };
        // SAFETY: the call writes the local variable `now`, whether or not CUPTI collects records.
        // This does not hold in a child of a fork. There, every call is refused before this one.
        let code = unsafe { call(&raw mut now) };
        if code == 0 { now } else { 0 }
    }

    /// Calls `each` with every record of a buffer that CUPTI returned. The argument of `each`
    /// starts with the record, and ends at the end of the buffer.
    pub fn walk(&self, buffer: &[u8], mut each: impl FnMut(&[u8])) {
        let Some(next) = self.next else { return };
        let mut record: *mut c_void = std::ptr::null_mut();
        let mut last = None;
        loop {
            // SAFETY: CUPTI filled the buffer up to this length. The call reads the buffer and
            // writes `record`. This does not hold if the buffer was lent to CUPTI again.
            let code = unsafe { next(buffer.as_ptr().cast_mut(), buffer.len(), &raw mut record) };
            let at = record.addr().wrapping_sub(buffer.as_ptr().addr());
            // The loop stops unless this record starts after the last record and inside the buffer.
            // So the loop always ends.
            if code != 0 || at >= buffer.len() || last.is_some_and(|last| at <= last) {
                break;
            }
            last = Some(at);
            each(&buffer[at..]);
        }
    }

    /// The number of records that CUPTI lost since the last call of this function, because CUPTI
    /// had no buffer for them.
    #[must_use]
    pub fn dropped_number(&self) -> u64 {
        let mut dropped = 0;
        let Some(call) = self.dropped else { return 0 };
        // SAFETY: null and 0 mean all contexts and all streams. The call writes the local variable
        // `dropped`.
        let code = unsafe { call(std::ptr::null_mut(), 0, &raw mut dropped) };
        if code == 0 { dropped as u64 } else { 0 }
    }

    /// The name of the CUDA function with this number. `None` if CUPTI does not know the number.
    #[must_use]
    pub fn function(&self, api: Api, number: u32) -> Option<&'static CStr> {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the call writes the local variable `name`. CUPTI refuses an unknown domain and an
        // unknown number.
        let code = unsafe { (self.name?)(api.domain(), number, &raw mut name) };
        if code != 0 || name.is_null() {
            return None;
        }
        // SAFETY: after success, `name` is a static, terminated string of the library. This does
        // not hold after the library is unloaded. The caller of `load` has promised that the
        // library stays loaded.
        Some(unsafe { CStr::from_ptr(name) })
    }
}
