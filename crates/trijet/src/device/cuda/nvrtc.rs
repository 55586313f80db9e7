//! Compiling a user's CUDA C++ at run time, when the run-time compiler is installed.

use super::api::CuResult;
use super::library::{Library, open};
use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::{CString, c_char, c_int, c_void};

type Program = *mut c_void;

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($arg:ty),*);)*) => {
        #[derive(Debug)]
        struct Nvrtc {
            $($field: Option<unsafe extern "C" fn($($arg),*) -> CuResult>,)*
            _library: libloading::Library,
        }

        impl Nvrtc {
            fn load(library: libloading::Library) -> Self {
                Self {
                    // SAFETY: name and signature are those of `nvrtc.h`: false for a library that
                    // is no run-time compiler. The pointer is valid while `_library` is open, which
                    // is as long as the table lives.
                    $($field: unsafe { library.get($symbol) }.ok().map(|symbol| *symbol),)*
                    _library: library,
                }
            }

            fn missing(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $(if self.$field.is_none() { missing.push($symbol); })*
                missing
            }
        }
    };
}

functions! {
    create = "nvrtcCreateProgram": fn(
        *mut Program, *const c_char, *const c_char, c_int, *const *const c_char,
        *const *const c_char);
    compile = "nvrtcCompileProgram": fn(Program, c_int, *const *const c_char);
    log_size = "nvrtcGetProgramLogSize": fn(Program, *mut usize);
    log = "nvrtcGetProgramLog": fn(Program, *mut c_char);
    ptx_size = "nvrtcGetPTXSize": fn(Program, *mut usize);
    ptx = "nvrtcGetPTX": fn(Program, *mut c_char);
    destroy = "nvrtcDestroyProgram": fn(*mut Program);
}

pub(super) fn missing() -> Result<Vec<&'static str>> {
    open(Library::Nvrtc).map(|library| Nvrtc::load(library).missing())
}

/// Compiles `source` to PTX for compute capability `compute`. Messages call it `name`.
///
/// # Errors
/// `Unsupported` without the compiler; `Compile` with its messages, which name lines of the source.
pub(crate) fn compile(source: &str, name: &str, compute: (u32, u32)) -> Result<String> {
    let nvrtc = Nvrtc::load(open(Library::Nvrtc)?);
    if let Some(symbol) = nvrtc.missing().first() {
        let cause =
            format!("the run-time compiler has no `{symbol}`; install NVRTC of CUDA 12 or later");
        return Err(Error::new(ErrorKind::Unsupported, "compile", cause));
    }
    let text = |text: &str| {
        CString::new(text).map_err(|_| {
            Error::new(ErrorKind::Compile, "compile", format!("`{name}` contains a NUL byte"))
        })
    };
    let (source, file) = (text(source)?, text(name)?);
    let arch = text(&format!("--gpu-architecture=compute_{}{}", compute.0, compute.1))?;
    let options = [arch.as_ptr(), c"--std=c++17".as_ptr()];
    let (Some(create), Some(compile), Some(destroy)) = (nvrtc.create, nvrtc.compile, nvrtc.destroy)
    else {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "compile",
            "the run-time compiler lacks a function; install NVRTC of CUDA 12 or later",
        ));
    };
    let mut program: Program = std::ptr::null_mut();
    let none = std::ptr::null();
    // SAFETY: the call writes the local variable `program`. The strings are terminated, and the
    // call copies them; the count of headers is 0, so their null arrays are not read.
    let code = unsafe { create(&raw mut program, source.as_ptr(), file.as_ptr(), 0, none, none) };
    if code != 0 {
        let cause = format!("the run-time compiler refuses to start on `{name}`");
        return Err(Error::new(ErrorKind::Compile, "compile", cause).with_code(code));
    }
    // SAFETY: `program` was created above and not destroyed yet. `options` has the 2 entries that
    // the call is told of, each terminated; false if an option were added and the number not
    // changed.
    let code = unsafe { compile(program, 2, options.as_ptr()) };
    let result = if code == 0 {
        output(program, nvrtc.ptx_size, nvrtc.ptx)
    } else {
        let log = output(program, nvrtc.log_size, nvrtc.log)?;
        let cause = format!("`{name}` does not compile:\n{}", log.trim_end());
        Err(Error::new(ErrorKind::Compile, "compile", cause).with_code(code))
    };
    // SAFETY: `program` is live, and is not used after this call. If the call is refused, it leaks.
    unsafe { destroy(&raw mut program) };
    result
}

type SizeFn = unsafe extern "C" fn(Program, *mut usize) -> CuResult;
type TextFn = unsafe extern "C" fn(Program, *mut c_char) -> CuResult;

/// A text that the compiler made: the PTX or the log.
fn output(program: Program, size: Option<SizeFn>, read: Option<TextFn>) -> Result<String> {
    let fail = |code| {
        let cause = "the run-time compiler returned no text";
        Error::new(ErrorKind::Compile, "compile", cause).with_code(code)
    };
    let (Some(size), Some(read)) = (size, read) else { return Err(fail(0)) };
    let mut bytes = 0usize;
    // SAFETY: `program` is live until `compile` destroys it after this; the call writes `bytes`.
    let code = unsafe { size(program, &raw mut bytes) };
    if code != 0 {
        return Err(fail(code));
    }
    let mut text = vec![0u8; bytes];
    // SAFETY: the call writes as many bytes as it reported, the terminator included, and `text` has
    // that many: false if the program were compiled again in between.
    let code = unsafe { read(program, text.as_mut_ptr().cast()) };
    if code != 0 {
        return Err(fail(code));
    }
    while text.last() == Some(&0) {
        text.pop();
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
