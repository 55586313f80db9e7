//! Streams of other packages, by their handles.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, Weak};
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
    /// The streams that arrays use now. A stream is forgotten with the last array, because its
    /// owner may then destroy it, and the driver may give its handle to another stream.
    seen: Mutex<HashMap<u64, Weak<Stream>>>,
    /// Memory that streams of other threads use, which could not be marked.
    orphans: Mutex<Vec<trijet::Buffer<u8>>>,
}

/// A stream of another package.
#[derive(Debug, Clone)]
pub(crate) struct UserStream {
    pub(crate) handle: u64,
    pub(crate) stream: Arc<Stream>,
}

static OPEN: Mutex<Vec<(i32, Arc<OpenDevice>)>> = Mutex::new(Vec::new());

impl OpenDevice {
    /// The device with this name, such as `cuda:0`; opened when it is first used, and kept.
    pub(crate) fn named(name: &str) -> Result<Arc<Self>> {
        use trijet_tools::command::device::{DeviceName, builder, gpus};
        let parsed = name.parse::<DeviceName>();
        let parsed = parsed.map_err(|cause| crate::error::refused("device", cause))?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match parsed {
            DeviceName::Cuda(number) => i32::try_from(number).unwrap_or(i32::MAX),
            DeviceName::Host => -1,
            DeviceName::Auto if !gpus()?.is_empty() => 0,
            DeviceName::Auto => -1,
        };
        if let Some((_, found)) = open.iter().find(|(own, _)| *own == number) {
            return Ok(Arc::clone(found));
        }
        let device = builder(parsed).open()?;
        let own = device.stream()?.named("exchange");
        let (seen, orphans) = (Mutex::default(), Mutex::default());
        let opened = Arc::new(Self { device, own, seen, orphans });
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
    pub(crate) fn stream(&self, handle: Option<i64>) -> PyResult<Option<UserStream>> {
        let handle = match handle {
            Some(-1) => return Ok(None),
            // The protocol forbids 0, which is ambiguous; CUDA means the legacy stream.
            None | Some(0) => LEGACY,
            Some(handle) => u64::try_from(handle)
                .map_err(|_| PyBufferError::new_err(format!("{handle} is no stream")))?,
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = seen.get(&handle).and_then(Weak::upgrade) {
            return Ok(Some(UserStream { handle, stream }));
        }
        seen.retain(|_, stream| stream.strong_count() > 0);
        let stream = match handle {
            LEGACY => self.device.legacy_stream(),
            // Another thread has another stream with this handle, so it is not kept.
            PER_THREAD => {
                let stream = self.device.per_thread_stream();
                let user = |stream| UserStream { handle, stream: Arc::new(stream) };
                return stream.map(|stream| Some(user(stream))).map_err(failed);
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
        seen.insert(handle, Arc::downgrade(&stream));
        Ok(Some(UserStream { handle, stream }))
    }

    /// Memory of the device.
    pub(crate) fn alloc(&self, bytes: u64) -> Result<trijet::Buffer<u8>> {
        self.free_orphans()?;
        self.own.alloc::<u8>(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Keeps memory that could not be marked, until a later call has waited for the device.
    pub(crate) fn adopt(&self, buffer: trijet::Buffer<u8>) {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }

    fn free_orphans(&self) -> Result<()> {
        let orphans =
            std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner));
        if orphans.is_empty() {
            return Ok(());
        }
        let waited = self.device.synchronize();
        if waited.is_err() {
            // The device is lost, and may still use the memory.
            std::mem::forget(orphans);
        }
        waited
    }
}

fn failed(error: trijet::Error) -> PyErr {
    PyBufferError::new_err(error.to_string())
}
