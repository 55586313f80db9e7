//! Compiles CUDA C++ of the user at run time, if the run-time compiler is installed.

use super::api::CuResult;
use super::library::{Library, open, whole_table};
use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

type NvrtcHandle = *mut c_void;

whole_table! { Nvrtc:
    create = "nvrtcCreateProgram": fn(
        *mut NvrtcHandle, *const c_char, *const c_char, c_int, *const *const c_char,
        *const *const c_char) -> CuResult;
    compile = "nvrtcCompileProgram": fn(NvrtcHandle, c_int, *const *const c_char) -> CuResult;
    log_size = "nvrtcGetProgramLogSize": fn(NvrtcHandle, *mut usize) -> CuResult;
    log = "nvrtcGetProgramLog": fn(NvrtcHandle, *mut c_char) -> CuResult;
    ptx_size = "nvrtcGetPTXSize": fn(NvrtcHandle, *mut usize) -> CuResult;
    ptx = "nvrtcGetPTX": fn(NvrtcHandle, *mut c_char) -> CuResult;
    destroy = "nvrtcDestroyProgram": fn(*mut NvrtcHandle) -> CuResult;
}

pub(super) fn missing() -> Result<Vec<&'static str>> {
    Ok(match Nvrtc::load(open(Library::Nvrtc)?) {
        Ok(_) => Vec::new(),
        Err(missing) => missing,
    })
}

/// The compiler, which stays loaded after its first use.
fn compiler() -> Result<&'static Nvrtc> {
    static LOADED: OnceLock<Nvrtc> = OnceLock::new();
    if let Some(nvrtc) = LOADED.get() {
        return Ok(nvrtc);
    }
    let nvrtc = Nvrtc::load(open(Library::Nvrtc)?).map_err(|missing| {
        let missing = missing.join("`, `");
        let cause =
            format!("the run-time compiler has no `{missing}`; install NVRTC of CUDA 12 or later");
        Error::new(ErrorKind::Unsupported, "compile", cause)
    })?;
    Ok(LOADED.get_or_init(|| nvrtc))
}

/// A program of the compiler. The drop destroys the program.
struct NvrtcProgram {
    nvrtc: &'static Nvrtc,
    raw: NvrtcHandle,
}

impl Drop for NvrtcProgram {
    fn drop(&mut self) {
        // SAFETY: `raw` is a live program, and is not used after this call. If the call is refused,
        // the program leaks.
        let _code = unsafe { (self.nvrtc.destroy)(&raw mut self.raw) };
    }
}

impl NvrtcProgram {
    fn new(nvrtc: &'static Nvrtc, source: &CString, file: &CString) -> Result<Self> {
        let mut raw: NvrtcHandle = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: the call writes the local variable `raw`. The strings are terminated, and the
        // call copies them. The number of headers is 0, so the null arrays of headers are not read.
        let code =
            unsafe { (nvrtc.create)(&raw mut raw, source.as_ptr(), file.as_ptr(), 0, none, none) };
        if code != 0 {
            let cause =
                format!("the run-time compiler refuses to start on {file:?} (NVRTC error {code})");
            return Err(Error::new(ErrorKind::Compile, "compile", cause));
        }
        Ok(Self { nvrtc, raw })
    }

    fn compile(&self, options: &[&CStr]) -> CuResult {
        let count = c_int::try_from(options.len()).unwrap_or(0);
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is live. `options` has `count` entries, each a terminated text. The
        // call reads the entries before it returns.
        unsafe { (self.nvrtc.compile)(self.raw, count, options.as_ptr()) }
    }

    /// A text that the compiler made: the PTX or the log.
    fn text(&self, size: SizeFn, read: TextFn) -> Result<String> {
        let fail = |code| {
            let cause = format!("the run-time compiler returned no text (NVRTC error {code})");
            Error::new(ErrorKind::Compile, "compile", cause)
        };
        let mut bytes = 0usize;
        // SAFETY: the program is live; the call writes `bytes`.
        let code = unsafe { size(self.raw, &raw mut bytes) };
        if code != 0 {
            return Err(fail(code));
        }
        let mut text = vec![0u8; bytes];
        // SAFETY: the call writes as many bytes as `size` reported, the terminator included, and
        // `text` has that many bytes. This does not hold if the program is compiled again in
        // between.
        let code = unsafe { read(self.raw, text.as_mut_ptr().cast()) };
        if code != 0 {
            return Err(fail(code));
        }
        while text.last() == Some(&0) {
            text.pop();
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

type SizeFn = unsafe extern "C" fn(NvrtcHandle, *mut usize) -> CuResult;
type TextFn = unsafe extern "C" fn(NvrtcHandle, *mut c_char) -> CuResult;

/// Compiles `source` to PTX for compute capability `compute`. Messages name the source by `name`.
///
/// # Errors
/// `Unsupported` without the compiler. `Compile` with the messages of the compiler, which name
/// lines of the source.
pub(crate) fn compile(source: &str, name: &str, compute: (u32, u32)) -> Result<String> {
    let nvrtc = compiler()?;
    let text = |text: &str| {
        CString::new(text).map_err(|_| {
            Error::new(ErrorKind::Compile, "compile", format!("`{name}` contains a NUL byte"))
        })
    };
    let program = NvrtcProgram::new(nvrtc, &text(source)?, &text(name)?)?;
    let arch = text(&format!("--gpu-architecture=compute_{}{}", compute.0, compute.1))?;
    // The option for line information puts the lines of the source into the PTX. Then messages of
    // the driver's compiler can name these lines.
    let code = program.compile(&[&arch, c"--std=c++17", c"--generate-line-info"]);
    if code == 0 {
        return program.text(nvrtc.ptx_size, nvrtc.ptx);
    }
    let log = program.text(nvrtc.log_size, nvrtc.log)?;
    let lines: Vec<_> = log.trim_end().lines().map(|line| with_line(line, name)).collect();
    let hint = if log.contains("could not open source file") { NO_HEADERS } else { "" };
    let cause = format!("{name} does not compile:\n{}{hint}", lines.join("\n"));
    Err(Error::new(ErrorKind::Compile, "compile", cause))
}

/// The end of the message about an `#include`.
const NO_HEADERS: &str = "
there are no headers here, neither <stdint.h> nor <cuda_fp16.h>: leave the `#include` out, and write `unsigned char`, \
`unsigned short` or `unsigned int` for `uint8_t`, `uint16_t` or `uint32_t`";

/// A message of the compiler, `FILE(LINE): ..`, as `FILE:LINE: ..`, which editors and terminals
/// recognize.
fn with_line(message: &str, file: &str) -> String {
    let placed = || {
        let (number, rest) = message.strip_prefix(file)?.strip_prefix('(')?.split_once(')')?;
        let number: u32 = number.parse().ok()?;
        Some(format!("{file}:{number}{rest}"))
    };
    placed().unwrap_or_else(|| message.to_owned())
}
