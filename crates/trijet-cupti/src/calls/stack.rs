//! The stack of the host thread at a call: return addresses, and the symbols that they belong to.

use std::ffi::{CStr, c_char, c_int, c_void};

/// The number of frames that are recorded, with the frames of CUDA.
const FRAMES: usize = 20;
/// `_URC_NO_REASON` and `_URC_END_OF_STACK`.
const GO_ON: c_int = 0;
const ENOUGH: c_int = 5;
/// The libraries whose frames are left out.
const LEFT_OUT: [&str; 5] = ["libtrijet_", "libcupti", "libcuda.so", "libcudart", "libempty_cupti"];

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

/// The stack of the calling thread.
pub(super) fn here() -> Frames {
    let mut walk = Walk { frames: [0; FRAMES], length: 0 };
    // SAFETY: the unwinder calls `step` with the address of `walk` on this thread, and returns
    // after the last call. It takes the loader's lock, so the caller must hold no lock that a
    // thread inside the loader may want.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    walk.frames
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

/// A line for each frame outside of CUDA: the symbol, or `?`, and the library with the offset.
pub(super) fn lines(frames: &Frames) -> Vec<u8> {
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
