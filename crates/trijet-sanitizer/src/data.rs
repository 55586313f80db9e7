//! The arguments of the library's callbacks, read by offset.
//!
//! A C compiler computed the offsets from the headers of eight versions from 12.4 to 13.5. Later
//! versions have further fields inside some structures, as `greenContext` before the device of a
//! context. Only fields whose offsets are the same in all eight versions are read.

use std::ffi::{CStr, c_char, c_void};

/// The numbers of callbacks.
pub mod numbers {
    /// In the domain of resources: a context was made.
    pub const CONTEXT_MADE: u32 = 3;
    /// In the domain of resources: a context ends.
    pub const CONTEXT_ENDS: u32 = 4;
    /// In the domain of resources: a stream ends.
    pub const STREAM_ENDS: u32 = 7;
    /// In the domain of resources: a module was loaded.
    pub const MODULE_LOADED: u32 = 9;
    /// In the domain of launches: a launch begins.
    pub const LAUNCH_BEGINS: u32 = 1;
    /// In the domain of launches: a launch ends, which means that it was enqueued.
    pub const LAUNCH_ENDS: u32 = 3;
    /// In the domain of graphs: the launch of a node begins.
    pub const NODE_BEGINS: u32 = 4;
    /// In the domain of graphs: the launch of a graph begins.
    pub const GRAPH_BEGINS: u32 = 6;
    /// In the domain of graphs: the launch of a graph ends.
    pub const GRAPH_ENDS: u32 = 7;
}

/// The argument of a callback: the address of a structure.
#[derive(Debug, Clone, Copy)]
pub struct Argument(*const c_void);

/// A launch of a kernel, as handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchHandles {
    /// The context.
    pub context: usize,
    /// The stream, as the library numbers it.
    pub stream: usize,
    /// The module of the kernel.
    pub module: usize,
    /// The kernel.
    pub kernel: usize,
    /// The launch.
    pub launch: usize,
}

impl Argument {
    /// # Safety
    /// `data` is the argument that the library passes to a callback. It stays valid while the
    /// callback runs, and only the methods for its domain and its number are called.
    #[must_use]
    pub unsafe fn new(data: *const c_void) -> Self {
        Self(data)
    }

    fn field<T: Copy>(self, at: usize) -> T {
        let field = self.0.wrapping_byte_add(at).cast::<T>();
        // SAFETY: the structure of the callback has a field of this type at this offset in all
        // versions of the library whose headers were compared. False for a callback of another
        // kind, which `new` excludes.
        unsafe { field.read() }
    }

    /// Whether a call of the driver begins. If not, it has returned.
    #[must_use]
    pub fn is_start(self) -> bool {
        self.field::<u32>(0) == 0
    }

    /// The code that a call of the driver has returned. `None` if the call begins.
    #[must_use]
    pub fn code(self) -> Option<u32> {
        let code: *const u32 = self.field(24);
        let has_code = !self.is_start() && !code.is_null();
        // SAFETY: after the call, the library passes the address of its result, a `CUresult`.
        has_code.then(|| unsafe { code.read() })
    }

    /// The first argument of a call of the driver, if it is a handle or a pointer.
    #[must_use]
    pub fn first_word(self) -> u64 {
        let arguments: *const u64 = self.field(16);
        if arguments.is_null() {
            return 0;
        }
        // SAFETY: the arguments are a structure, whose first field is the first argument. The
        // caller asks only for functions whose first argument has eight bytes.
        unsafe { arguments.read() }
    }

    /// The stream of the launch of a graph, or the stream that ends, as the library numbers it.
    #[must_use]
    pub fn stream(self) -> usize {
        self.field(16)
    }

    /// The name of the function of a call of the driver.
    #[must_use]
    pub fn function(self) -> Option<&'static CStr> {
        let name: *const c_char = self.field(8);
        // SAFETY: the name is a terminated, static string of the library, or null. False after the
        // library is unloaded, which `SanitizerApi::load` excludes.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
    }

    /// The context of a resource.
    #[must_use]
    pub fn context(self) -> usize {
        self.field(0)
    }

    /// The module that was loaded.
    #[must_use]
    pub fn module(self) -> usize {
        self.field(8)
    }

    /// Whether the launch of a graph only uploads it.
    #[must_use]
    pub fn is_upload(self) -> bool {
        self.field::<u32>(32) != 0
    }

    /// A launch of a kernel.
    #[must_use]
    pub fn launch(self) -> LaunchHandles {
        self.launch_at(0)
    }

    /// A launch of a node of a graph, if the node is a kernel.
    #[must_use]
    pub fn node(self) -> Option<LaunchHandles> {
        const KERNEL: u32 = 0;
        const LAUNCH_AT: usize = 32;
        (self.field::<u32>(24) == KERNEL).then(|| self.launch_at(LAUNCH_AT))
    }

    fn launch_at(self, at: usize) -> LaunchHandles {
        LaunchHandles {
            context: self.field(at),
            stream: self.field(at + 16),
            module: self.field(at + 24),
            kernel: self.field(at + 32),
            launch: self.field(at + 96),
        }
    }
}
