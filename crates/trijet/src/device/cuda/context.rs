//! The loaded driver: the table of its functions, and the primary context of each device.
//!
//! A handle is a pointer of the driver with the number of the device in the top byte. This byte is
//! free, because user-space addresses end at bit 47. So a verb makes the right context current
//! without a look-up. Handles are made in this folder only. The layers above destroy an object
//! after its last use, and use no handle afterwards.

use super::api::{self, CuDevice, CuResult, DriverApi, Handle, need};
use super::error::{INVALID_DEVICE, NOT_READY, check};
use super::graph::CudaGraph;
use super::library;
use super::locked::LockedPages;
use super::mapped::Mapped;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::device::driver::{FunctionHandle, Readiness};
use crate::device::fork;
use crate::device::graph_table::GraphTable;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock};

/// The oldest supported driver, in the numbers of the driver: CUDA 12.0.
const VERSION_MIN: c_int = 12_000;
const DEVICE_SHIFT: u32 = 56;

/// A retained primary context.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) raw: Handle,
    pub(super) ordinal: CuDevice,
}

// SAFETY: the handle is never dereferenced here, and the driver accepts it in every thread. The
// handle is valid until the drop of `CudaDriver` releases it. This does not hold for a copy of the
// handle that outlives the driver.
unsafe impl Send for Context {}
// SAFETY: the driver takes calls on one context from several threads at once (CUDA Driver API,
// "thread safety"), and a context error leaves the handle valid: the calls return the error.
unsafe impl Sync for Context {}

/// CUDA, with the primary context of every device that was used.
#[derive(Debug)]
pub(in crate::device) struct CudaDriver {
    pub(super) api: DriverApi,
    pub(super) version: c_int,
    /// The number of hardware queues that the environment requested when the driver was
    /// initialised.
    pub(super) hardware_queues: Option<u32>,
    pub(super) contexts: Vec<OnceLock<Context>>,
    /// The page-locked memory that this library has mapped itself.
    pub(super) locked: LockedPages,
    pub(super) mapped: Mutex<Mapped>,
    pub(super) graphs: GraphTable<CudaGraph>,
    /// For each device that has a graph with conditions: the kernel that sets the conditions.
    pub(super) set_conditions: Mutex<Vec<(DeviceId, FunctionHandle)>>,
}

/// A context that is current in this thread until the guard drops. Other libraries in the thread
/// use the context that is current. So the drop makes the previous context current again, or no
/// context if there was none.
#[must_use = "the context is current until the guard drops"]
#[derive(Debug)]
pub(super) struct Entered<'a> {
    api: &'a DriverApi,
    /// The context that the drop makes current; null for no context. `None` if this context was
    /// current before the guard was made, so that the drop restores nothing.
    before: Option<Handle>,
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            restore(self.api, before);
        }
    }
}

fn restore(api: &DriverApi, before: Handle) {
    let Some(set) = api.ctx_set else { return };
    // SAFETY: `before` was current in this thread when the guard was made, or is null. This does
    // not hold if another thread has destroyed the context since. The driver refuses a destroyed
    // context, and the owner of this context could not use it either. So the code of the call is
    // ignored.
    let _code = unsafe { set(before) };
}

pub(super) fn pack(device: DeviceId, raw: Handle) -> u64 {
    raw as u64 | u64::from(device.0) << DEVICE_SHIFT
}

pub(super) fn raw(handle: u64) -> Handle {
    (handle & ((1 << DEVICE_SHIFT) - 1)) as Handle
}

pub(super) fn device_of(handle: u64) -> DeviceId {
    DeviceId(u32::try_from(handle >> DEVICE_SHIFT).unwrap_or(u32::MAX))
}

/// Calls one driver function and checks its code. The last argument, `$why`, is the rest of the
/// safety argument: what the call reads, writes and keeps, and when that would be invalid.
macro_rules! cu {
    ($self:ident, $op:literal, $entry:ident ( $($arg:expr),* $(,)? ), $why:literal) => {{
        let function = need($self.api.$entry, $op)?;
        // SAFETY: the type of the entry is the documented signature of the symbol. This does not
        // hold for a symbol of another version, whose name has another suffix. For a call on an
        // object of a device, `enter` has made the context of this device current. This does not
        // hold on a second device for a verb that does not call `enter`. After a context error the
        // driver returns the error and uses no argument. `$why` argues the rest for each call.
        let code = unsafe { function($($arg),*) };
        check(&$self.api, $op, code)
    }};
}

pub(super) use cu;

impl CudaDriver {
    /// Opens the library and initialises the driver.
    ///
    /// # Errors
    /// `Unsupported` without a driver or with one that is too old; `NoDevice` without a GPU.
    pub(in crate::device) fn open() -> Result<Self> {
        let api = api::open_driver()?;
        let mut this = Self {
            api,
            version: 0,
            hardware_queues: library::hardware_queues(),
            contexts: Vec::new(),
            locked: LockedPages::default(),
            mapped: Mutex::default(),
            graphs: GraphTable::default(),
            set_conditions: Mutex::default(),
        };
        cu!(this, "cuInit", init(0), "0 is the only defined flag, and the call keeps nothing")?;
        let mut version = 0;
        cu!(
            this,
            "cuDriverGetVersion",
            driver_version(&raw mut version),
            "the call writes the local variable `version` and does not keep its address"
        )?;
        if version < VERSION_MIN {
            let cause = format!(
                "the driver supports CUDA {}.{}; install one that supports CUDA 12.0 or later",
                version / 1000,
                version % 1000 / 10
            );
            return Err(Error::new(ErrorKind::Unsupported, "open CUDA", cause));
        }
        this.version = version;
        let mut count = 0;
        cu!(
            this,
            "cuDeviceGetCount",
            device_count(&raw mut count),
            "the call writes the local variable `count` and does not keep its address"
        )?;
        this.contexts.resize_with(usize::try_from(count).unwrap_or(0), OnceLock::new);
        Ok(this)
    }

    /// The context of a device, retained on first use.
    #[inline(always)]
    pub(super) fn context(&self, op: &'static str, device: DeviceId) -> Result<&Context> {
        match self.contexts.get(device.0 as usize).and_then(OnceLock::get) {
            Some(context) => Ok(context),
            None => self.retain(op, device),
        }
    }

    /// The driver's number of a device. A call of this function retains no context.
    pub(super) fn ordinal(&self, op: &'static str, device: DeviceId) -> Result<CuDevice> {
        if device.0 as usize >= self.contexts.len() {
            let cause = format!("there are {} CUDA devices, numbered from 0", self.contexts.len());
            return Err(Error::new(ErrorKind::NoDevice, op, cause)
                .with_code(INVALID_DEVICE)
                .on(device));
        }
        let mut ordinal = 0;
        let number = c_int::try_from(device.0).unwrap_or(c_int::MAX);
        cu!(
            self,
            "cuDeviceGet",
            device_get(&raw mut ordinal, number),
            "the call writes the local variable `ordinal`; it refuses a number without a device"
        )?;
        Ok(ordinal)
    }

    #[cold]
    fn retain(&self, op: &'static str, device: DeviceId) -> Result<&Context> {
        let ordinal = self.ordinal(op, device)?;
        let mut raw = null_mut();
        cu!(
            self,
            "cuDevicePrimaryCtxRetain",
            primary_retain(&raw mut raw, ordinal),
            "`ordinal` is of this driver; the call writes the local variable `raw`"
        )?;
        // Two threads may both retain the context, but `Drop` releases it only once. Then the
        // context lives until the process ends, which does no harm.
        Ok(self.contexts[device.0 as usize].get_or_init(|| Context { raw, ordinal }))
    }

    /// Makes the device's context current in this thread until the guard drops.
    #[inline(always)]
    pub(super) fn enter(&self, op: &'static str, device: DeviceId) -> Result<Entered<'_>> {
        let context = self.context(op, device)?;
        let current = self.current()?;
        if current == context.raw {
            return Ok(Entered { api: &self.api, before: None });
        }
        cu!(
            self,
            "cuCtxSetCurrent",
            ctx_set(context.raw),
            "the context is retained until `self` drops; false for a context that was reset"
        )?;
        Ok(Entered { api: &self.api, before: Some(current) })
    }

    #[inline(always)]
    pub(super) fn enter_of(&self, op: &'static str, handle: u64) -> Result<Entered<'_>> {
        self.enter(op, device_of(handle))
    }

    /// Used by calls on memory that belongs to no device. If no context is current, makes the
    /// context of any device current until the guard drops.
    pub(super) fn enter_any(&self, op: &'static str) -> Result<Entered<'_>> {
        if !self.current()?.is_null() {
            return Ok(Entered { api: &self.api, before: None });
        }
        let used = self.contexts.iter().position(|slot| slot.get().is_some()).unwrap_or(0);
        self.enter(op, DeviceId(u32::try_from(used).unwrap_or(u32::MAX)))
    }

    /// The context that is current in this thread, or null.
    #[inline(always)]
    fn current(&self) -> Result<Handle> {
        let mut current = null_mut();
        cu!(
            self,
            "cuCtxGetCurrent",
            ctx_get(&raw mut current),
            "the call writes the local variable `current` and needs no context"
        )?;
        Ok(current)
    }

    pub(super) fn attribute(&self, ordinal: CuDevice, which: c_int) -> Result<u32> {
        let mut value = 0;
        cu!(
            self,
            "cuDeviceGetAttribute",
            device_attribute(&raw mut value, which, ordinal),
            "`ordinal` is of this driver, and the call writes the local variable `value`; an \
             attribute that the driver does not know is refused"
        )?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    pub(super) fn readiness(&self, op: &'static str, code: CuResult) -> Result<Readiness> {
        if code == NOT_READY {
            return Ok(Readiness::NotReady);
        }
        check(&self.api, op, code).map(|()| Readiness::Ready)
    }
}

impl Drop for CudaDriver {
    fn drop(&mut self) {
        if fork::is_child() {
            // The process is a child of `fork`, and the contexts belong to its parent.
            return;
        }
        self.unlock_all();
        let Some(release) = self.api.primary_release else { return };
        for context in self.contexts.iter().filter_map(OnceLock::get) {
            // SAFETY: `retain` retained the context, and nothing uses it after this drop. This does
            // not hold if a handle outlives the driver; the layers above drop the driver after the
            // last handle. While the process exits the driver refuses the call. Then nothing needs
            // to be done.
            let _code = unsafe { release(context.ordinal) };
        }
    }
}
