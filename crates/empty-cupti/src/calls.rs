//! Calls of the driver that the stand-in reports to its subscriber.

use crate::sanitizer;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The functions of the driver, whose numbers begin at 1.
const FUNCTIONS: [&CStr; 48] = [
    c"cuStreamCreate",
    c"cuStreamDestroy_v2",
    c"cuStreamWaitEvent",
    c"cuStreamSynchronize",
    c"cuEventRecord_ptsz",
    c"cuEventRecord",
    c"cuMemAlloc_v2",
    c"cuMemFree_v2",
    c"cuMemHostAlloc",
    c"cuMemAllocAsync",
    c"cuMemFreeAsync",
    c"cuMemcpyHtoDAsync_v2",
    c"cuMemcpyDtoHAsync_v2",
    c"cuMemcpyDtoH_v2",
    c"cuMemcpy2DAsync_v2",
    c"cuMemsetD8Async",
    c"cuLaunchKernel",
    c"cuStreamBeginCapture_v2",
    c"cuStreamEndCapture",
    c"cuGraphInstantiateWithFlags",
    c"cuGraphLaunch",
    c"cuStreamWaitValue32_v2",
    c"cuStreamWriteValue32_v2",
    c"cuMemFreeHost",
    c"cuMemcpyBatchAsync_v2",
    c"cuMemcpy3DPeerAsync",
    c"cuMemcpyWithAttributesAsync",
    c"cuEventSynchronize",
    c"cuLaunchHostFunc",
    c"cuMemHostRegister_v2",
    c"cuMemHostUnregister",
    c"cuEventRecordWithFlags",
    c"cuStreamBatchMemOp_v2",
    c"cuWaitExternalSemaphoresAsync",
    c"cuSignalExternalSemaphoresAsync",
    c"cuEventElapsedTime",
    c"cuModuleGetGlobal_v2",
    c"cuIpcOpenMemHandle_v2",
    c"cuExternalMemoryGetMappedBuffer",
    c"cuGraphAddMemAllocNode",
    c"cuTensorMapEncodeTiled",
    c"cuGraphAddMemFreeNode",
    c"cuGraphAddMemsetNode",
    c"cuGraphAddEmptyNode",
    c"cuGraphAddNode_v2",
    c"cuGraphAddDependencies",
    c"cuGraphAddDependencies_v2",
    c"cuStreamUpdateCaptureDependencies",
];

/// The callback of a subscriber.
pub(crate) type Subscriber = extern "C" fn(*mut c_void, c_int, u32, *const c_void);

static SUBSCRIBER: Mutex<Option<Subscriber>> = Mutex::new(None);

/// Keeps the callback of the subscriber.
pub(crate) fn keep_subscriber(callback: Option<Subscriber>) {
    *SUBSCRIBER.lock().unwrap_or_else(PoisonError::into_inner) = callback;
}

/// The callback of the subscriber, if there is one.
fn subscriber() -> Option<Subscriber> {
    *SUBSCRIBER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `CUPTI_CB_DOMAIN_RESOURCE`, and the greatest number of a change of a resource before CUDA 12.4.
const RESOURCE: c_int = 3;
const RESOURCES_MAX: u32 = 20;

/// A bit for each change of a resource that the subscriber asked for.
static RESOURCES: AtomicU64 = AtomicU64::new(0);

/// Chooses whether the subscriber is called at a change of a resource. Refuses this if
/// `EMPTY_CUPTI_WITHOUT_EDGES` is set.
fn enable_resource(enable: u32, number: u32) -> c_int {
    if number > RESOURCES_MAX || std::env::var_os("EMPTY_CUPTI_WITHOUT_EDGES").is_some() {
        return 1;
    }
    match enable {
        0 => RESOURCES.fetch_and(!(1 << number), Ordering::Relaxed),
        _ => RESOURCES.fetch_or(1 << number, Ordering::Relaxed),
    };
    0
}

/// Calls the subscriber, if it asked for this change of a resource. `data` is the address of a
/// `CUpti_ResourceData`.
pub(crate) fn resource_changed(number: u32, data: *const c_void) {
    let is_enabled = RESOURCES.load(Ordering::Relaxed) & (1 << number) != 0;
    if let Some(subscriber) = subscriber().filter(|_| is_enabled) {
        subscriber(ptr::null_mut(), RESOURCE, number, data);
    }
}

/// A bit for each function that the subscriber asked for.
static ENABLED: AtomicU64 = AtomicU64::new(0);

/// The name of a function of the driver.
pub(crate) fn driver_function(number: u32) -> Option<&'static CStr> {
    FUNCTIONS.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
}

/// Chooses whether the subscriber is called at a function, or at a change of a resource.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiEnableCallback(
    enable: u32,
    _subscriber: *mut c_void,
    domain: c_int,
    number: u32,
) -> c_int {
    if domain == RESOURCE {
        return enable_resource(enable, number);
    }
    if domain != 1 || driver_function(number).is_none() {
        return 1;
    }
    match enable {
        0 => ENABLED.fetch_and(!(1 << number), Ordering::Relaxed),
        _ => ENABLED.fetch_or(1 << number, Ordering::Relaxed),
    };
    0
}

/// Writes 0, the number of the only device.
///
/// # Safety
/// `device` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetDeviceId(_context: *mut c_void, device: *mut u32) -> c_int {
    // SAFETY: the recorder passes a variable for the number.
    unsafe { device.write(0) };
    0
}

/// `CUpti_CallbackData`.
#[repr(C)]
struct CallbackData {
    site: c_int,
    function: *const c_char,
    arguments: *const c_void,
    result: *const c_int,
    symbol: *const c_char,
    context: *mut c_void,
    context_number: u32,
    correlation_data: *mut u64,
    correlation: u32,
}

/// Reports a call of the driver to the subscriber, at its start and at its return. `arguments` is a
/// structure with the arguments of the function, and `code` is what the call returns. A function
/// that the subscriber did not ask for is not reported. A function that this library does not know
/// ends the process: a test that reports it would test nothing.
///
/// # Safety
/// `name` is a terminated text. `arguments` has the layout of the function's arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn empty_cupti_call(
    name: *const c_char,
    arguments: *const c_void,
    code: c_int,
) {
    // SAFETY: the caller passes a terminated text.
    let name = unsafe { CStr::from_ptr(name) };
    let number = (1_u32..).zip(FUNCTIONS).find(|(_, one)| *one == name);
    let Some((number, name)) = number else {
        eprintln!("the stand-in for CUPTI has no function {name:?}");
        std::process::abort();
    };
    let of_cupti = subscriber();
    let is_enabled = ENABLED.load(Ordering::Relaxed) & (1 << number) != 0;
    let of_cupti = of_cupti.filter(|_| is_enabled);
    let of_sanitizer = sanitizer::subscriber_of(number);
    for site in [0, 1] {
        let data = CallbackData {
            site,
            function: name.as_ptr(),
            arguments,
            result: if site == 0 { ptr::null() } else { &raw const code },
            symbol: ptr::null(),
            context: ptr::dangling_mut(),
            context_number: 1,
            correlation_data: ptr::null_mut(),
            correlation: 0,
        };
        if let Some(subscriber) = of_cupti {
            subscriber(ptr::null_mut(), 1, number, (&raw const data).cast());
        }
        let Some(subscriber) = of_sanitizer else { continue };
        // SAFETY: the arguments of these functions have a word at this offset.
        let stream = |at| unsafe { arguments.wrapping_byte_add(at).cast::<usize>().read() };
        let is_done = site == 1 && code == 0;
        match name.to_bytes() {
            b"cuStreamBeginCapture_v2" if is_done => sanitizer::capture(true),
            b"cuStreamEndCapture" if site == 0 => sanitizer::capture(false),
            b"cuLaunchKernel" if is_done => sanitizer::launch(subscriber, stream(40), false),
            b"cuGraphLaunch" if is_done => sanitizer::launch(subscriber, stream(8), true),
            b"cuStreamDestroy_v2" if is_done => sanitizer::end_stream(subscriber, stream(0)),
            _ => {}
        }
        sanitizer::report(subscriber, number, (&raw const data).cast());
    }
}
