//! The file of a call: its path, and the part of the path below the watched folder.

use libc::{AT_FDCWD, c_char, c_int};
use std::ffi::CStr;

/// Maximum number of bytes of a path (`PATH_MAX`).
pub(crate) const PATH_BYTES: usize = 4096;

/// The path of a file. The path is not on the heap, because the call may come from the allocator of
/// the program.
pub(crate) struct Target {
    path: [u8; PATH_BYTES],
    bytes: usize,
}

impl Target {
    /// The path of the file that is open under the descriptor `file`. Empty if the path cannot be
    /// read.
    pub(crate) fn open(file: c_int) -> Self {
        let mut target = Self { path: [0; PATH_BYTES], bytes: 0 };
        let mut link = [0; 32];
        let name = if file == AT_FDCWD { &b"/proc/self/cwd"[..] } else { number(file, &mut link) };
        let mut end = [0; 48];
        end[..name.len()].copy_from_slice(name);
        // SAFETY: `end` is a string with a zero at its end, and `path` has `PATH_BYTES` bytes.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_readlinkat,
                AT_FDCWD,
                end.as_ptr(),
                target.path.as_mut_ptr(),
                PATH_BYTES,
            )
        };
        target.bytes = usize::try_from(bytes).unwrap_or(0);
        target
    }

    /// The path of the file `name` in the folder `folder`, or the path of the folder itself if
    /// `name` is empty. If `name` is null, the path is empty. Programs pass a null name to test
    /// whether the system has a call.
    ///
    /// # Safety
    /// `name` is null, or a string of C.
    pub(crate) unsafe fn of_name(folder: c_int, name: *const c_char) -> Self {
        let nothing = Self { path: [0; PATH_BYTES], bytes: 0 };
        if name.is_null() {
            return nothing;
        }
        // SAFETY: the promise of this function.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let is_absolute = name.starts_with(b"/");
        let mut target = if is_absolute { nothing } else { Self::open(folder) };
        if !is_absolute && !name.is_empty() {
            target.push(b"/");
        }
        target.push(name);
        target
    }

    fn push(&mut self, more: &[u8]) {
        let more = &more[..more.len().min(PATH_BYTES - self.bytes)];
        self.path[self.bytes..][..more.len()].copy_from_slice(more);
        self.bytes += more.len();
    }

    /// The path.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path[..self.bytes]
    }

    /// The part of the path below `root`. `None` for a file outside `root`.
    pub(crate) fn below(&self, root: &[u8]) -> Option<&[u8]> {
        let rest = self.path().strip_prefix(root)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
    }
}

/// The name of the symbolic link below `/proc/self/fd` that leads to the open file.
fn number(file: c_int, into: &mut [u8; 32]) -> &[u8] {
    const START: &[u8] = b"/proc/self/fd/";
    into[..START.len()].copy_from_slice(START);
    let mut digits = [0; 10];
    let mut first = digits.len();
    let mut rest = u32::try_from(file).unwrap_or(0);
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let count = digits.len() - first;
    into[START.len()..][..count].copy_from_slice(&digits[first..]);
    &into[..START.len() + count]
}
