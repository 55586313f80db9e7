//! Questions to the driver of the program: the names of kernels, the layouts of their arguments,
//! the present device, and whether the work of a context is complete.

use super::arguments::pointer;
use crate::search;
use crate::system::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

type NameOf = unsafe extern "C" fn(*mut *const c_char, *const c_void) -> c_int;
type LayoutOf = unsafe extern "C" fn(*const c_void, usize, *mut usize, *mut usize) -> c_int;

type DeviceOf = unsafe extern "C" fn(*mut c_int) -> c_int;
type SetContext = unsafe extern "C" fn(*mut c_void) -> c_int;
type WaitForContext = unsafe extern "C" fn() -> c_int;

/// Maximum number of arguments of a kernel. A kernel has at most 32 KiB of them.
const ARGUMENTS_MAX: usize = 4096;

/// The functions of the driver. A launch takes a function of a module, or a kernel of a library, so
/// a kernel is described by two functions.
#[derive(Debug, Clone, Copy)]
struct DriverFunctions {
    names: [Option<NameOf>; 2],
    layouts: [Option<LayoutOf>; 2],
    device: Option<DeviceOf>,
    enter: Option<SetContext>,
    wait: Option<WaitForContext>,
}

/// A kernel of the program.
#[derive(Debug, Clone, Default)]
pub(super) struct Kernel {
    pub(super) name: Vec<u8>,
    /// The offset and the size of each argument in bytes. Empty if the driver does not tell them.
    pub(super) layout: Vec<(usize, usize)>,
}

fn driver() -> Option<&'static DriverFunctions> {
    static FOUND: OnceLock<Option<DriverFunctions>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref()
}

/// Looks up the functions that describe kernels.
pub(super) fn prepare() {
    // Without these functions, kernels have no names and no known arguments.
    let _found = driver();
}

/// A function of the driver, if it has one of this name.
macro_rules! function {
    ($library:expr, $name:literal, $kind:ty) => {{
        let address = $library.symbol($name);
        // SAFETY: `Option` of a function pointer has the size of a pointer, and null is `None`. The
        // types are the documented signatures. False if the driver exports the names with others.
        unsafe { std::mem::transmute::<*const c_void, Option<$kind>>(address) }
    }};
}

fn find() -> Option<DriverFunctions> {
    let paths = search::DRIVER.candidates().into_iter();
    let library = paths.filter_map(|path| Library::open(&path, true).ok()).next()?;
    Some(DriverFunctions {
        names: [
            function!(library, c"cuFuncGetName", NameOf),
            function!(library, c"cuKernelGetName", NameOf),
        ],
        layouts: [
            function!(library, c"cuFuncGetParamInfo", LayoutOf),
            function!(library, c"cuKernelGetParamInfo", LayoutOf),
        ],
        device: function!(library, c"cuCtxGetDevice", DeviceOf),
        enter: function!(library, c"cuCtxSetCurrent", SetContext),
        wait: function!(library, c"cuCtxSynchronize", WaitForContext),
    })
}

/// The number of the device of the current context of this thread.
pub(super) fn present_device() -> Option<u32> {
    let call = driver()?.device?;
    let mut device = 0;
    // SAFETY: the call writes the local variable. It waits for nothing.
    let code = unsafe { call(&raw mut device) };
    u32::try_from(device).ok().filter(|_| code == 0)
}

/// Waits for all work of a context, in a thread of the recorder that has no context. Returns
/// whether it is complete.
pub(super) fn wait_for_context(context: usize) -> bool {
    let Some(DriverFunctions { enter: Some(enter), wait: Some(wait), .. }) = driver() else {
        return false;
    };
    // SAFETY: the context exists: the callback for its end waits for this thread. After the limit
    // of that wait, the driver refuses the handle.
    let is_entered = unsafe { enter(std::ptr::with_exposed_provenance_mut(context)) } == 0;
    // SAFETY: the call has no arguments. It is refused while a stream is captured.
    let is_done = is_entered && unsafe { wait() } == 0;
    // SAFETY: null leaves the thread without a context.
    unsafe { enter(std::ptr::null_mut()) };
    is_done
}

/// Describes the kernel with this handle. Must be called without a lock: the driver may call back.
pub(super) fn describe(handle: u64) -> Kernel {
    let unknown =
        || Kernel { name: format!("kernel {handle:#x}").into_bytes(), layout: Vec::new() };
    let Some(driver) = driver() else { return unknown() };
    let kernel = pointer::<c_void>(handle);
    for (name, layout) in driver.names.iter().zip(&driver.layouts) {
        let Some(name) = name.and_then(|call| name_by(call, kernel)) else { continue };
        // Only the kind of handle that has a name may be asked further.
        let layout = layout.map_or_else(Vec::new, |call| layout_by(call, kernel));
        return Kernel { name, layout };
    }
    unknown()
}

fn name_by(call: NameOf, kernel: *const c_void) -> Option<Vec<u8>> {
    let mut name = std::ptr::null();
    // SAFETY: the program has just launched this kernel, so its handle is valid as one of two
    // kinds, and the driver refuses it as the other. The call writes the local variable.
    let code = unsafe { call(&raw mut name, kernel) };
    // SAFETY: after success, the name is a terminated string that lives as long as the module.
    (code == 0 && !name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes().to_vec())
}

fn layout_by(call: LayoutOf, kernel: *const c_void) -> Vec<(usize, usize)> {
    let one = |number| {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the driver has named the kernel by a function of the same kind. It refuses the
        // number of an argument that the kernel lacks, and writes the local variables.
        let code = unsafe { call(kernel, number, &raw mut offset, &raw mut bytes) };
        (code == 0).then_some((offset, bytes))
    };
    (0..ARGUMENTS_MAX).map_while(one).collect()
}
