//! The driver, called directly, as another library of the process would call it.

use libloading::{Library, Symbol};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

pub(crate) type Handle = *mut c_void;

type Get = unsafe extern "C" fn(*mut Handle) -> c_int;
type Set = unsafe extern "C" fn(Handle) -> c_int;
type Retain = unsafe extern "C" fn(*mut Handle, c_int) -> c_int;

/// The functions of a driver library that the process uses already.
pub(crate) struct Driver(Library);

impl Driver {
    pub(crate) fn open(path: &Path) -> Self {
        // SAFETY: the process uses the library already, so its initialisers have run.
        Self(unsafe { Library::new(path) }.expect("the library that the device was opened with"))
    }

    /// Makes a call, and returns its code.
    pub(crate) fn ask<A>(&self, name: &str, call: impl FnOnce(Symbol<'_, A>) -> c_int) -> c_int {
        // SAFETY: the callers' types have the signatures of `cuda.h`.
        let function = unsafe { self.0.get::<A>(name.as_bytes()) }.expect("the driver has it");
        call(function)
    }

    /// Makes a call that must succeed.
    pub(crate) fn call<A>(&self, name: &str, call: impl FnOnce(Symbol<'_, A>) -> c_int) {
        assert_eq!(self.ask(name, call), 0, "{name}");
    }

    /// The context that is current in this thread; null for none.
    pub(crate) fn current(&self) -> Handle {
        let mut current = null_mut();
        // SAFETY: one handle to write.
        self.call::<Get>("cuCtxGetCurrent", |get| unsafe { get(&raw mut current) });
        current
    }

    /// Makes a context current in this thread; null for none.
    pub(crate) fn set_current(&self, context: Handle) {
        // SAFETY: a live context, or null.
        self.call::<Set>("cuCtxSetCurrent", |set| unsafe { set(context) });
    }

    /// The primary context of the first device, which the library uses too.
    pub(crate) fn primary(&self) -> Handle {
        let mut context = null_mut();
        // SAFETY: one handle to write. The context stays retained until the process ends.
        self.call::<Retain>("cuDevicePrimaryCtxRetain", |get| unsafe { get(&raw mut context, 0) });
        context
    }
}
