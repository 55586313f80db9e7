//! The loaded driver: its table, and each device's primary context.
//!
//! A handle is the driver's pointer with the device's number in its top byte (user-space
//! addresses end at bit 47), so that a verb makes the right context current without a look-up.
//! Handles are made in this folder only; the crate never invents one.

use super::api::{self, CuDevice, CuResult, DriverApi, Handle, need};
use super::error::{INVALID_DEVICE, NOT_READY, check};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::device::driver::Readiness;
use crate::device::fork;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// The oldest driver whose API we use, as the driver counts: CUDA 12.0.
const VERSION_MIN: c_int = 12_000;
const DEVICE_SHIFT: u32 = 56;

/// A retained primary context.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) raw: Handle,
    pub(super) ordinal: CuDevice,
}

// SAFETY: a context handle is an opaque number to us and valid in every thread until released,
// which happens only when the driver table drops.
unsafe impl Send for Context {}
// SAFETY: as for `Send`; the driver API is thread-safe for one context.
unsafe impl Sync for Context {}

/// CUDA, with every device's primary context on first use.
#[derive(Debug)]
pub(in crate::device) struct CudaDriver {
    pub(super) api: DriverApi,
    pub(super) version: c_int,
    pub(super) contexts: Vec<OnceLock<Context>>,
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

/// Calls one driver function and checks its code.
macro_rules! cu {
    ($self:ident, $op:literal, $entry:ident ( $($arg:expr),* $(,)? ), $why:literal) => {{
        let function = need($self.api.$entry, $op)?;
        // SAFETY: the signature is that of the documented symbol; `$why` says for each call what
        // it is given and who keeps it alive.
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
        let mut this = Self { api, version: 0, contexts: Vec::new() };
        cu!(this, "cuInit", init(0), "the only defined flag value")?;
        let mut version = 0;
        cu!(this, "cuDriverGetVersion", driver_version(&raw mut version), "one number to write")?;
        if version < VERSION_MIN {
            let cause = format!(
                "the driver supports CUDA {}.{}; 12.0 is needed",
                version / 1000,
                version % 1000 / 10
            );
            return Err(Error::new(ErrorKind::Unsupported, "open CUDA", cause));
        }
        this.version = version;
        let mut count = 0;
        cu!(this, "cuDeviceGetCount", device_count(&raw mut count), "one number to write")?;
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

    #[cold]
    fn retain(&self, op: &'static str, device: DeviceId) -> Result<&Context> {
        let Some(slot) = self.contexts.get(device.0 as usize) else {
            let cause = format!("there are {} CUDA devices, numbered from 0", self.contexts.len());
            return Err(Error::new(ErrorKind::NoDevice, op, cause)
                .with_code(INVALID_DEVICE)
                .on(device));
        };
        let (mut ordinal, mut raw) = (0, null_mut());
        let number = c_int::try_from(device.0).unwrap_or(c_int::MAX);
        cu!(self, "cuDeviceGet", device_get(&raw mut ordinal, number), "one number to write")?;
        cu!(
            self,
            "cuDevicePrimaryCtxRetain",
            primary_retain(&raw mut raw, ordinal),
            "a device of this driver and one pointer to write"
        )?;
        // Two threads may both retain; the context is one and the count is released in `Drop`
        // only once, which leaves it alive: harmless, and process exit clears it.
        Ok(slot.get_or_init(|| Context { raw, ordinal }))
    }

    /// Makes the device's context current in this thread, if another one is.
    #[inline(always)]
    pub(super) fn enter(&self, op: &'static str, device: DeviceId) -> Result<()> {
        let context = self.context(op, device)?;
        let mut current = null_mut();
        cu!(self, "cuCtxGetCurrent", ctx_get(&raw mut current), "one pointer to write")?;
        if current == context.raw {
            return Ok(());
        }
        cu!(self, "cuCtxSetCurrent", ctx_set(context.raw), "a context retained for the process")
    }

    #[inline]
    pub(super) fn enter_of(&self, op: &'static str, handle: u64) -> Result<DeviceId> {
        let device = device_of(handle);
        self.enter(op, device)?;
        Ok(device)
    }

    /// Makes some context current, if none is: for memory that belongs to no one device.
    pub(super) fn enter_any(&self, op: &'static str) -> Result<()> {
        let mut current = null_mut();
        cu!(self, "cuCtxGetCurrent", ctx_get(&raw mut current), "room for the current context")?;
        if !current.is_null() {
            return Ok(());
        }
        let used = self.contexts.iter().position(|slot| slot.get().is_some()).unwrap_or(0);
        self.enter(op, DeviceId(u32::try_from(used).unwrap_or(u32::MAX)))
    }

    pub(super) fn attribute(&self, ordinal: CuDevice, which: c_int) -> Result<u32> {
        let mut value = 0;
        cu!(
            self,
            "cuDeviceGetAttribute",
            device_attribute(&raw mut value, which, ordinal),
            "a device of this driver, an attribute of CUDA 12.0, one number to write"
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
            // The contexts are the parent's.
            return;
        }
        let Some(release) = self.api.primary_release else { return };
        for context in self.contexts.iter().filter_map(OnceLock::get) {
            // SAFETY: retained by `context` and not used after this drop. A refusal, as during
            // process exit, leaves nothing to be done.
            let _code = unsafe { release(context.ordinal) };
        }
    }
}
