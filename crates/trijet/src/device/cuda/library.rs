//! The libraries of CUDA. Each library is searched in several folders and opened at run time. No
//! function panics if a library is missing.

use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::{CStr, OsStr, c_void};
use std::path::{Path, PathBuf};
use trijet_cupti::search::Names;

/// A library of CUDA, which is opened at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Library {
    /// The CUDA driver, `libcuda.so.1`. Every use of a GPU needs this library.
    Driver,
    /// The run-time compiler (NVRTC). Kernels in source form need this library.
    Nvrtc,
    /// The collective library (NCCL). Collectives of several GPUs need this library.
    Nccl,
    /// The profiling interface (CUPTI). With this library, the times of a trace are more exact.
    Cupti,
}

impl Library {
    /// All libraries.
    pub const ALL: [Self; 4] = [Self::Driver, Self::Nvrtc, Self::Nccl, Self::Cupti];

    /// The environment variable that names the file of the library. If the variable is set, no
    /// folder is searched.
    #[must_use]
    pub fn variable(self) -> &'static str {
        self.names().variable
    }

    fn names(self) -> Names {
        match self {
            Self::Driver => Names {
                variable: "TRIJET_LIBCUDA",
                files: &["libcuda.so.1", "libcuda.so"],
                toolkit: &["lib64"],
                wheels: &[],
            },
            Self::Nvrtc => Names {
                variable: "TRIJET_LIBNVRTC",
                files: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
                toolkit: &["lib64"],
                wheels: &["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"],
            },
            Self::Nccl => Names {
                variable: "TRIJET_LIBNCCL",
                files: &["libnccl.so.2", "libnccl.so"],
                toolkit: &["lib64"],
                wheels: &["nvidia/nccl/lib"],
            },
            Self::Cupti => trijet_cupti::search::CUPTI,
        }
    }
}

/// Defines a table of the functions of a library. Loading the table fails if the library lacks one
/// of these functions.
macro_rules! whole_table {
    ($visibility:vis $table:ident: $($field:ident = $symbol:literal: fn($($arg:ty),*) -> $result:ty;)*) => {
        /// A table of functions of one library.
        #[derive(Debug)]
        $visibility struct $table {
            $($visibility $field: unsafe extern "C" fn($($arg),*) -> $result,)*
            _library: libloading::Library,
        }

        impl $table {
            /// The table of `library`, or the symbols that it lacks.
            fn load(library: libloading::Library) -> std::result::Result<Self, Vec<&'static str>> {
                $(
                    // SAFETY: name and signature come from the header of the library. This does not
                    // hold for another library. The pointer is valid while `_library` is open,
                    // which is as long as the table lives.
                    let $field = unsafe { library.get($symbol) }.ok().map(|symbol| *symbol);
                )*
                match ($($field,)*) {
                    ($(Some($field),)*) => Ok(Self { $($field,)* _library: library }),
                    ($($field,)*) => {
                        let found = [$(($symbol, $field.is_some())),*];
                        Err(found.into_iter().filter(|one| !one.1).map(|one| one.0).collect())
                    }
                }
            }
        }
    };
}
pub(super) use whole_table;

/// Opens a library.
///
/// # Errors
/// `Unsupported`, with the files that were tried.
pub(super) fn open(library: Library) -> Result<libloading::Library> {
    if library == Library::Cupti
        && let Some(opened) = opened_already(library)
    {
        return Ok(opened);
    }
    let candidates = library.names().candidates();
    let mut reasons = Vec::new();
    for path in &candidates {
        if library == Library::Nvrtc {
            preload_builtins(path);
        }
        match open_file(path) {
            Ok(opened) => return Ok(opened),
            Err(reason) => reasons.push(reason),
        }
    }
    let tried: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
    let cause = format!(
        "the library was not found (tried {}; set {} to the path of its file): {}",
        tried.join(", "),
        library.variable(),
        reasons.first().map_or("no candidate", String::as_str),
    );
    Err(Error::new(ErrorKind::Unsupported, format!("open {library:?} library"), cause))
}

/// The library that the program itself has opened; `None` if the environment names a file. PyTorch
/// brings its own CUPTI, and two copies of CUPTI in one process do not work together.
fn opened_already(library: Library) -> Option<libloading::Library> {
    if std::env::var_os(library.variable()).is_some() {
        return None;
    }
    library.names().files.iter().find_map(|name| find_opened(Path::new(name)))
}

/// The environment variable that controls NVLink multicast. NCCL uses multicast unless the variable
/// is 0.
pub(super) const MULTICAST: &str = "NCCL_NVLS_ENABLE";

/// Whether the environment sets [`MULTICAST`]. If so, this library does not change the variable.
pub(super) fn is_multicast_set() -> bool {
    std::env::var_os(MULTICAST).is_some()
}

/// Whether `trijet trace` records this process.
pub(super) fn is_recorded() -> bool {
    std::env::var_os(trijet_cupti::recorder::RECORDINGS).is_some()
}

/// The file of the library with which a profiler collects NVTX ranges.
pub(super) fn nvtx_injection() -> Option<std::ffi::OsString> {
    std::env::var_os("NVTX_INJECTION64_PATH")
}

/// The number of hardware queues of a driver that is initialised now. `None` if the environment
/// variable `CUDA_DEVICE_MAX_CONNECTIONS` has a value whose effect is not documented.
pub(super) fn hardware_queues() -> Option<u32> {
    queues_of(std::env::var_os("CUDA_DEVICE_MAX_CONNECTIONS").as_deref())
}

/// The number of hardware queues if `CUDA_DEVICE_MAX_CONNECTIONS` has this value: 8 without a
/// value, and the value itself from 1 to 32 (CUDA Programming Guide, environment variables).
fn queues_of(value: Option<&OsStr>) -> Option<u32> {
    let Some(value) = value else { return Some(8) };
    let count = value.to_str()?.trim().parse().ok()?;
    (1..=32).contains(&count).then_some(count)
}

/// The address of a symbol; null if the library lacks it.
pub(super) fn symbol(library: &libloading::Library, name: &CStr) -> *const c_void {
    // SAFETY: every symbol has an address, so the type is right for every symbol. The address is
    // valid while the library is open, and the caller keeps the library open.
    let found = unsafe { library.get::<*const c_void>(name.to_bytes()) };
    found.map_or(std::ptr::null(), |symbol| *symbol)
}

/// Opens the built-ins of the run-time compiler before the compiler does. The compiler opens the
/// built-ins by their file name alone, and the loader does not search the folder of the compiler.
/// The loader finds the built-ins if they are open already.
fn preload_builtins(compiler: &Path) {
    let Some(folder) = compiler.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return;
    };
    let Ok(files) = std::fs::read_dir(folder) else { return };
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libnvrtc-builtins.so."))
    };
    for path in files.flatten().map(|entry| entry.path()).filter(named) {
        // If the built-ins do not open, the compiler reports what is missing. The built-ins stay
        // open until the process ends, like the compiler.
        if let Ok(builtins) = open_file(&path) {
            std::mem::forget(builtins);
        }
    }
}

/// Opens a shared library.
fn open_file(path: &Path) -> std::result::Result<libloading::Library, String> {
    // SAFETY: the initialisers of the libraries of CUDA set up their own state and expect nothing
    // of their caller. This does not hold for another library that the environment names. The
    // initialisers of such a library run like the initialisers of a library in `LD_PRELOAD`, at the
    // responsibility of the user.
    unsafe { libloading::Library::new(path) }.map_err(|error| {
        use std::error::Error;
        // The source of the error is the message of the loader, which names the file.
        error.source().map_or_else(|| error.to_string(), ToString::to_string)
    })
}

/// The shared library of this name, if the process has opened it already.
fn find_opened(name: &Path) -> Option<libloading::Library> {
    use libloading::os::unix::{Library, RTLD_LAZY};
    /// A flag of `dlfcn.h`: find the library, and do not load it.
    const RTLD_NOLOAD: std::ffi::c_int = 4;
    // SAFETY: with `RTLD_NOLOAD` nothing is loaded, so no initialiser runs. The returned handle
    // keeps the library open, even when the program closes its own.
    unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_NOLOAD) }.ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_that_names_it() {
        let missing = PathBuf::from("libtrijet-no-such-library.so.1");
        let reason = open_file(&missing).expect_err("there is no such library");
        assert!(reason.contains("libtrijet-no-such-library.so.1"), "{reason}");
    }

    #[test]
    fn hardware_queues_are_known_where_their_number_is_documented() {
        let found = [None, Some("1"), Some(" 32"), Some("33"), Some("0"), Some("-1"), Some("all")];
        let queues = found.map(|value| queues_of(value.map(OsStr::new)));
        assert_eq!(queues, [Some(8), Some(1), Some(32), None, None, None, None]);
    }
}
