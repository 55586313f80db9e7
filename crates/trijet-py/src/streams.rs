//! Streams of other packages, by their handles.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use trijet::{Device, Result, Stream};

/// The handle of the legacy default stream (`CU_STREAM_LEGACY`).
const LEGACY: u64 = 1;
/// The handle of the default stream of the thread (`CU_STREAM_PER_THREAD`).
const PER_THREAD: u64 = 2;

/// An open device, and the streams of other packages that were seen on it.
pub(crate) struct OpenDevice {
    pub(crate) device: Device,
    /// The stream in which memory is allocated and received.
    pub(crate) own: Stream,
    seen: Mutex<HashMap<u64, Arc<Stream>>>,
}

static OPEN: Mutex<Vec<(i32, Arc<OpenDevice>)>> = Mutex::new(Vec::new());

impl OpenDevice {
    /// The device with this name, such as `cuda:0`; opened when it is first used, and kept.
    pub(crate) fn named(name: &str) -> Result<Arc<Self>> {
        use trijet_tools::command::device::{DeviceName, builder};
        let parsed = name.parse::<DeviceName>();
        let parsed = parsed.map_err(|cause| crate::error::refused("device", cause))?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match parsed {
            DeviceName::Cuda(number) => i32::try_from(number).unwrap_or(i32::MAX),
            DeviceName::Host => -1,
            DeviceName::Auto if Device::cuda_devices().is_ok_and(|all| !all.is_empty()) => 0,
            DeviceName::Auto => -1,
        };
        if let Some((_, found)) = open.iter().find(|(own, _)| *own == number) {
            return Ok(Arc::clone(found));
        }
        let device = builder(parsed).open()?;
        let own = device.stream()?.named("exchange");
        let opened = Arc::new(Self { device, own, seen: Mutex::default() });
        open.push((number, Arc::clone(&opened)));
        Ok(opened)
    }

    /// Whether the device is a host device.
    pub(crate) fn is_host(&self) -> bool {
        self.device.info().compute.0 == 0
    }

    /// The ordinal of the device.
    pub(crate) fn ordinal(&self) -> i32 {
        i32::try_from(self.device.id().0).unwrap_or(i32::MAX)
    }

    /// The stream with a handle of the DLPack protocol. `None` for -1, which asks for no order.
    /// Without a handle, it is the legacy default stream.
    pub(crate) fn stream(&self, handle: Option<i64>) -> PyResult<Option<Arc<Stream>>> {
        let handle = match handle {
            Some(-1) => return Ok(None),
            // The protocol forbids 0, which is ambiguous; CUDA means the legacy stream.
            None | Some(0) => LEGACY,
            Some(handle) => u64::try_from(handle)
                .map_err(|_| PyBufferError::new_err(format!("{handle} is no stream")))?,
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = seen.get(&handle) {
            return Ok(Some(Arc::clone(stream)));
        }
        let stream = match handle {
            LEGACY => self.device.legacy_stream(),
            // Another thread has another stream with this handle, so it is not kept.
            PER_THREAD => {
                let stream = self.device.per_thread_stream();
                return stream.map(|stream| Some(Arc::new(stream))).map_err(failed);
            }
            _ => {
                let address = usize::try_from(handle).unwrap_or(usize::MAX);
                let raw = std::ptr::with_exposed_provenance_mut::<c_void>(address);
                // SAFETY: the consumer passes a live stream, by the DLPack protocol. It would be
                // false if the stream was destroyed before the arrays that it used were returned.
                unsafe { self.device.stream_from_raw(raw, ()) }
            }
        };
        let stream = Arc::new(stream.map_err(failed)?);
        seen.insert(handle, Arc::clone(&stream));
        Ok(Some(stream))
    }
}

fn failed(error: trijet::Error) -> PyErr {
    PyBufferError::new_err(error.to_string())
}
