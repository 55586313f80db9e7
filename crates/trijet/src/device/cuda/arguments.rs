//! The arguments of a launch as the driver takes them: a pointer to each.
#![forbid(unsafe_code)]

use crate::device::args::{ARGS_MAX, ArgBlock};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Calls `with` with pointers to the arguments.
#[inline]
pub(super) fn with_pointers<R>(args: &ArgBlock, with: impl FnOnce(*mut *mut c_void) -> R) -> R {
    // The driver reads as many pointers as the kernel has arguments, and not the rest.
    let mut params = [const { MaybeUninit::<*mut c_void>::uninit() }; ARGS_MAX];
    for (param, word) in params.iter_mut().zip(args.iter()) {
        param.write((&raw const *word).cast_mut().cast());
    }
    with(params.as_mut_ptr().cast())
}
