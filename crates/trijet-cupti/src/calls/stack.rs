//! The stack of the host thread at a call: return addresses, and the symbols that they belong to.

use super::python;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;

/// The number of frames that are recorded, with the frames of CUDA.
pub(super) const FRAMES: usize = 20;
/// `_URC_NO_REASON` and `_URC_END_OF_STACK`.
const GO_ON: c_int = 0;
const ENOUGH: c_int = 5;
/// The libraries whose frames are left out.
const LEFT_OUT: [&str; 6] =
    ["libtrijet_", "libcupti", "libsanitizer-", "libcuda.so", "libcudart", "libempty_cupti"];

#[repr(C)]
struct SymbolInfo {
    file: *const c_char,
    base: *mut c_void,
    name: *const c_char,
    address: *mut c_void,
}

unsafe extern "C-unwind" {
    fn _Unwind_Backtrace(
        step: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        to: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, found: *mut SymbolInfo) -> c_int;
}

/// The return addresses of a stack, from the innermost frame outwards. Unused places are 0.
pub(super) type Frames = [usize; FRAMES];

struct Walk {
    frames: Frames,
    length: usize,
}

/// The stack of a host thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct HostStack {
    pub(super) frames: Frames,
    pub(super) python: [python::PythonFrame; python::FRAMES],
}

/// The stack of the calling thread.
pub(super) fn here() -> HostStack {
    let python = python::interpreter().map(python::Interpreter::frames);
    HostStack { frames: walked(), python: python.unwrap_or([[0; 2]; python::FRAMES]) }
}

fn walked() -> Frames {
    let mut walk = Walk { frames: [0; FRAMES], length: 0 };
    // SAFETY: the unwinder calls `step` with the address of `walk` on this thread, and returns
    // after the last call. It takes the loader's lock, so the caller must hold no lock that a
    // thread inside the loader may want.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    walk.frames
}

/// The stack of the calling thread from an instruction that a signal has interrupted, without the
/// frames of the handler. The whole stack if the instruction is not in it.
pub(super) fn interrupted_at(instruction: usize) -> HostStack {
    let mut stack = here();
    let frames = &mut stack.frames;
    if let Some(first) = frames.iter().position(|frame| *frame == instruction && *frame != 0) {
        frames.rotate_left(first);
        frames[FRAMES - first..].fill(0);
        // As if it were the address of a return.
        frames[0] += 1;
    }
    stack
}

extern "C" fn step(frame: *mut c_void, to: *mut c_void) -> c_int {
    // SAFETY: `to` is the address of the variable of `here`, which nothing else uses meanwhile.
    let walk = unsafe { &mut *to.cast::<Walk>() };
    if walk.length == FRAMES {
        return ENOUGH;
    }
    // SAFETY: the unwinder passes its frame, which is valid during this call.
    walk.frames[walk.length] = unsafe { _Unwind_GetIP(frame) };
    walk.length += 1;
    GO_ON
}

/// The addresses of the code of the driver.
pub(super) fn driver_code() -> Vec<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let code = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (addresses, allowed) = (fields.next()?, fields.next()?);
        let file = fields.last()?.rsplit('/').next()?;
        let (start, end) = addresses.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let is_code = allowed.contains('x') && file.starts_with("libcuda.so");
        is_code.then_some(number(start)?..number(end)?)
    };
    maps.lines().filter_map(code).collect()
}

/// A line for each frame of Python, and then for each other one outside of CUDA. The stack must be
/// the present one of the calling thread.
pub(super) fn lines(stack: &HostStack) -> Vec<u8> {
    let mut lines = [0; python::TEXT_BYTES];
    let length = python::interpreter().map_or(0, |one| one.lines(&stack.python, &mut lines));
    [lines[..length].to_vec(), frame_lines(&stack.frames)].concat()
}

/// A line for each frame outside of CUDA: the symbol, or `?`, and the library with the offset.
pub(super) fn frame_lines(frames: &Frames) -> Vec<u8> {
    let mut lines = Vec::new();
    for address in frames.iter().copied().take_while(|address| *address != 0) {
        // A return address may be the first byte of the next function.
        if let Some(line) = line(address - 1) {
            lines.extend(line.into_bytes());
            lines.push(b'\n');
        }
    }
    lines
}

fn line(address: usize) -> Option<String> {
    let null = std::ptr::null::<c_char>();
    let mut found = SymbolInfo {
        file: null,
        base: std::ptr::null_mut(),
        name: null,
        address: std::ptr::null_mut(),
    };
    let wanted = std::ptr::with_exposed_provenance(address);
    // SAFETY: the call takes any address, and writes the local variable. It takes the loader's
    // lock, as `here` does.
    if unsafe { dladdr(wanted, &raw mut found) } == 0 || found.file.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the name while the library is loaded. False if another thread
    // unloads the library now, which a call of this thread is inside of.
    let file = unsafe { CStr::from_ptr(found.file) }.to_string_lossy();
    let file = file.rsplit('/').next().unwrap_or("");
    if LEFT_OUT.iter().any(|prefix| file.starts_with(prefix)) {
        return None;
    }
    let symbol = if found.name.is_null() {
        "?".into()
    } else {
        // SAFETY: the name is a terminated string of the same library.
        unsafe { CStr::from_ptr(found.name) }.to_string_lossy()
    };
    Some(format!("{symbol}\t{file}+{:#x}", address.wrapping_sub(found.base.addr())))
}
