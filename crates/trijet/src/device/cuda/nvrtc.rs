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
                    // SAFETY: name and signature are those of nvrtc.h; `_library` keeps the code.
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

/// Compiles `source`, called `name` in messages, to PTX for compute capability `compute`.
///
/// # Errors
/// `Unsupported` without the compiler; `Compile` with its messages, which carry the lines of the
/// source.
pub(crate) fn compile(source: &str, name: &str, compute: (u32, u32)) -> Result<String> {
    let nvrtc = Nvrtc::load(open(Library::Nvrtc)?);
    if let Some(symbol) = nvrtc.missing().first() {
        let cause = format!("the run-time compiler has no `{symbol}`");
        return Err(Error::new(ErrorKind::Unsupported, "compile", cause));
    }
    let text = |text: &str| {
        CString::new(text).map_err(|_| {
            Error::new(ErrorKind::Compile, "compile", format!("`{name}` holds a NUL byte"))
        })
    };
    let (source, file) = (text(source)?, text(name)?);
    let arch = text(&format!("--gpu-architecture=compute_{}{}", compute.0, compute.1))?;
    let options = [arch.as_ptr(), c"--std=c++17".as_ptr()];
    let (Some(create), Some(compile), Some(destroy)) = (nvrtc.create, nvrtc.compile, nvrtc.destroy)
    else {
        return Err(Error::new(ErrorKind::Unsupported, "compile", "incomplete compiler library"));
    };
    let mut program: Program = std::ptr::null_mut();
    let none = std::ptr::null();
    // SAFETY: the strings are terminated and outlive the call, which copies them; no headers.
    let code = unsafe { create(&raw mut program, source.as_ptr(), file.as_ptr(), 0, none, none) };
    if code != 0 {
        return Err(Error::new(ErrorKind::Compile, "compile", "cannot start").with_code(code));
    }
    // SAFETY: `program` was created above; the options are terminated and outlive the call.
    let code = unsafe { compile(program, 2, options.as_ptr()) };
    let result = if code == 0 {
        output(program, nvrtc.ptx_size, nvrtc.ptx)
    } else {
        let log = output(program, nvrtc.log_size, nvrtc.log)?;
        let cause = format!("`{name}` does not compile:\n{}", log.trim_end());
        Err(Error::new(ErrorKind::Compile, "compile", cause).with_code(code))
    };
    // SAFETY: `program` is live and not used again. A refusal would only leak it.
    unsafe { destroy(&raw mut program) };
    result
}

type SizeFn = unsafe extern "C" fn(Program, *mut usize) -> CuResult;
type TextFn = unsafe extern "C" fn(Program, *mut c_char) -> CuResult;

/// A text output of a program: its size, then its bytes.
fn output(program: Program, size: Option<SizeFn>, read: Option<TextFn>) -> Result<String> {
    let fail = |code| Error::new(ErrorKind::Compile, "compile", "no output").with_code(code);
    let (Some(size), Some(read)) = (size, read) else { return Err(fail(0)) };
    let mut bytes = 0usize;
    // SAFETY: `program` is live; the call writes one number.
    let code = unsafe { size(program, &raw mut bytes) };
    if code != 0 {
        return Err(fail(code));
    }
    let mut text = vec![0u8; bytes];
    // SAFETY: the buffer has the size that the compiler asked for, the terminator included.
    let code = unsafe { read(program, text.as_mut_ptr().cast()) };
    if code != 0 {
        return Err(fail(code));
    }
    while text.last() == Some(&0) {
        text.pop();
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
