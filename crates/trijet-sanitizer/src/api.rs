//! The functions of the Compute Sanitizer API.

use std::ffi::{CStr, c_char, c_int, c_void};

/// The code that a function returns; 0 is success.
pub type Code = c_int;
/// The callback of a subscriber: the user data, the domain, the number of the callback, and its
/// arguments.
pub type Subscriber = extern "C" fn(*mut c_void, c_int, u32, *const c_void);

/// `SANITIZER_ERROR_MAX_LIMIT_REACHED`: there is another subscriber.
pub const ANOTHER_SUBSCRIBER: Code = 10;

macro_rules! symbols {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal: fn($($arg:ty),* $(,)?);)*) => {
        /// The functions of an open library.
        #[derive(Debug, Clone, Copy)]
        pub struct SanitizerApi {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($arg),*) -> Code,)*
        }

        impl SanitizerApi {
            /// Looks up each function with `find`.
            ///
            /// # Errors
            /// The name of the first function that the library lacks.
            ///
            /// # Safety
            /// For each symbol, `find` returns null, or its address in a library of the Compute
            /// Sanitizer API that stays loaded for as long as this table is used.
            pub unsafe fn load(find: impl Fn(&CStr) -> *const c_void) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let address = find($symbol);
                        if address.is_null() {
                            return Err(stringify!($field));
                        }
                        // SAFETY: the type is the documented signature of the symbol, which is the
                        // same in the versions 12.4 to 13.5. False if the library exports the name
                        // with another meaning.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                unsafe extern "C" fn($($arg),*) -> Code,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

symbols! {
    /// Subscribes to the library, which accepts one subscriber.
    subscribe = c"sanitizerSubscribe": fn(*mut *mut c_void, Subscriber, *mut c_void);
    /// Chooses whether the subscriber gets the callbacks of a domain.
    domain = c"sanitizerEnableDomain": fn(u32, *mut c_void, c_int);
    /// Chooses whether the subscriber gets one callback of a domain.
    callback = c"sanitizerEnableCallback": fn(u32, *mut c_void, c_int, u32);
    /// Loads patches from memory into a context.
    add_patches = c"sanitizerAddPatches": fn(*const c_void, *mut c_void);
    /// Names the patch for a kind of instruction in a module.
    patch_instructions = c"sanitizerPatchInstructions": fn(c_int, *mut c_void, *const c_char);
    /// Patches a module.
    patch_module = c"sanitizerPatchModule": fn(*mut c_void);
    /// Sets the user data of the patches for one launch: the launch, the kernel, the stream.
    launch_data =
        c"sanitizerSetLaunchCallbackData": fn(*mut c_void, *mut c_void, *mut c_void, *const c_void);
    /// Allocates device memory in a context.
    alloc = c"sanitizerAlloc": fn(*mut c_void, *mut *mut c_void, usize);
    /// Fills device memory, in a stream.
    fill = c"sanitizerMemset": fn(*mut c_void, c_int, usize, *mut c_void);
    /// Copies from the device, in a stream, and waits for the copy.
    download = c"sanitizerMemcpyDeviceToHost": fn(*mut c_void, *const c_void, usize, *mut c_void);
    /// Waits for a stream.
    wait = c"sanitizerStreamSynchronize": fn(*mut c_void);
    /// Finds the handle of a stream of a context; null is the legacy stream.
    stream = c"sanitizerGetStreamHandle": fn(*mut c_void, *mut c_void, *mut *mut c_void);
}

/// The domains of callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Calls of the driver.
    Driver = 1,
    /// Contexts, streams, modules and memory.
    Resource = 3,
    /// Launches of kernels.
    Launch = 5,
    /// Launches of graphs, and of their nodes.
    Graphs = 10,
}
