//! NVRTC, opened at run time. It compiles CUDA C++ to PTX.
//!
//! NVRTC opens its second library, the built-ins, by file name only. The loader finds the built-ins
//! in two cases: `LD_LIBRARY_PATH` has their folder, or the process has already opened them. This
//! code opens the built-ins first, by their full path.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;

use crate::tools::Result;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// The functions of an open NVRTC. The functions stay valid as long as `_libraries` is open.
pub(crate) struct Nvrtc {
    create: Create,
    compile: Compile,
    ptx_size: Size,
    ptx: Text,
    log_size: Size,
    log: Text,
    destroy: Destroy,
    _libraries: [Library; 2],
}

impl Nvrtc {
    /// Opens NVRTC 12.0 in `folder`.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        // SAFETY: opening a library runs its initialisers. The library is from NVIDIA's wheel at a
        // pinned version, and its initialisers only set up tables.
        let builtins = unsafe { Library::new(folder.join("libnvrtc-builtins.so.12.0")) }?;
        // SAFETY: the initialisers are harmless as above. The built-ins, which this library needs,
        // are open.
        let library = unsafe { Library::new(folder.join("libnvrtc.so.12")) }?;
        Ok(Self {
            // SAFETY: the signature of nvrtcCreateProgram in nvrtc.h 12.0.
            create: *unsafe { library.get::<Create>(b"nvrtcCreateProgram") }?,
            // SAFETY: the signature of nvrtcCompileProgram in nvrtc.h 12.0.
            compile: *unsafe { library.get::<Compile>(b"nvrtcCompileProgram") }?,
            // SAFETY: the signature of nvrtcGetPTXSize in nvrtc.h 12.0.
            ptx_size: *unsafe { library.get::<Size>(b"nvrtcGetPTXSize") }?,
            // SAFETY: the signature of nvrtcGetPTX in nvrtc.h 12.0.
            ptx: *unsafe { library.get::<Text>(b"nvrtcGetPTX") }?,
            // SAFETY: the signature of nvrtcGetProgramLogSize in nvrtc.h 12.0.
            log_size: *unsafe { library.get::<Size>(b"nvrtcGetProgramLogSize") }?,
            // SAFETY: the signature of nvrtcGetProgramLog in nvrtc.h 12.0.
            log: *unsafe { library.get::<Text>(b"nvrtcGetProgramLog") }?,
            // SAFETY: the signature of nvrtcDestroyProgram in nvrtc.h 12.0.
            destroy: *unsafe { library.get::<Destroy>(b"nvrtcDestroyProgram") }?,
            _libraries: [library, builtins],
        })
    }

    /// Compiles `source` to PTX. The messages of the compiler name the source `name`. Warnings are
    /// errors.
    pub(crate) fn compile(&self, name: &str, source: &str, options: &[&CStr]) -> Result<String> {
        let (c_name, source) = (CString::new(name)?, CString::new(source)?);
        let mut program: Program = ptr::null_mut();
        // SAFETY: both strings end in NUL and outlive the call, which copies them. The number of
        // headers is 0, so the arrays of headers may be null.
        let status = unsafe {
            (self.create)(
                &raw mut program,
                source.as_ptr(),
                c_name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        if status != 0 {
            return Err(format!("{name}: nvrtcCreateProgram failed (status {status})").into());
        }
        let outcome = self.compile_program(name, program, options);
        // SAFETY: `program` was created above, and nothing uses it afterwards.
        let status = unsafe { (self.destroy)(&raw mut program) };
        if status != 0 {
            return Err(format!("{name}: nvrtcDestroyProgram failed (status {status})").into());
        }
        outcome
    }

    fn compile_program(&self, name: &str, program: Program, options: &[&CStr]) -> Result<String> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len())?;
        // SAFETY: `program` is live; `pointers` holds `count` strings that end in NUL and outlive
        // the call.
        let status = unsafe { (self.compile)(program, count, pointers.as_ptr()) };
        let log = text(program, self.log_size, self.log)?;
        if status != 0 || !log.trim().is_empty() {
            return Err(format!("{name}: nvrtcCompileProgram: status {status}\n{log}").into());
        }
        text(program, self.ptx_size, self.ptx)
    }
}

/// Reads the PTX or the log of a live program.
fn text(program: Program, size: Size, get: Text) -> Result<String> {
    let mut bytes_max = 0;
    // SAFETY: `program` is live, and NVRTC writes the size to `bytes_max`, which is a local
    // variable.
    let status = unsafe { size(program, &raw mut bytes_max) };
    if status != 0 {
        return Err(format!("NVRTC returned no size (status {status})").into());
    }
    let mut buffer = vec![0_u8; bytes_max];
    // SAFETY: `program` is live, and the buffer has the size that NVRTC returned, which includes
    // NUL.
    let status = unsafe { get(program, buffer.as_mut_ptr().cast()) };
    if status != 0 {
        return Err(format!("NVRTC returned no text (status {status})").into());
    }
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len());
    buffer.truncate(end);
    Ok(String::from_utf8(buffer)?)
}
