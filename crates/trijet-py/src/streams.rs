//! Streams of other packages, by their handles.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use trijet::{Device, ErrorKind, Result, Stream, Uses};

/// The handle of the legacy default stream (`CU_STREAM_LEGACY`).
const LEGACY: u64 = 1;
/// The handle of the default stream of the thread (`CU_STREAM_PER_THREAD`).
const PER_THREAD: u64 = 2;

/// An open device.
pub(crate) struct OpenDevice {
    pub(crate) device: Device,
    /// The stream in which memory is allocated and received.
    pub(crate) own: Stream,
    orphans: Mutex<Vec<Orphan>>,
}

/// Memory whose consumers' work was not followed yet when it was dropped.
struct Orphan {
    buffer: trijet::Buffer<u8>,
    /// The stream with all work of its consumers. `None` if it is not known.
    used: Option<UsedIn>,
}

/// A stream that has all work on memory, in a run of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsedIn {
    pub(crate) run: u64,
    pub(crate) stream: UserStreamId,
}

/// The handle of a stream that means the same stream on every thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserStreamId(u64);

/// A stream of another package, for the time of one call.
#[derive(Debug)]
pub(crate) struct UserStream {
    handle: u64,
    pub(crate) stream: Stream,
}

impl UserStream {
    /// `None` for the default stream of a thread, whose handle means another stream elsewhere.
    pub(crate) fn id(&self) -> Option<UserStreamId> {
        (self.handle != PER_THREAD).then_some(UserStreamId(self.handle))
    }
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
        let opened = Arc::new(Self { device, own, orphans: Mutex::default() });
        open.push((number, Arc::clone(&opened)));
        Ok(opened)
    }

    /// The device of an array that names none itself.
    pub(crate) fn of_interface(name: &str) -> Result<Arc<Self>> {
        if name == "auto" && trijet_tools::command::device::gpus()?.len() > 1 {
            let cause = "there are several GPUs: name the GPU of the array, as in device='cuda:0'";
            return Err(crate::error::refused("asarray", cause));
        }
        Self::named(name)
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
            None => LEGACY,
            // Zero could be the stream of the thread or the legacy one, so the protocol forbids it.
            Some(handle @ ..=0) => {
                let cause = format!(
                    "{handle} is no stream: 1 is the legacy default stream, and 2 the default \
                     stream of the thread"
                );
                return Err(PyBufferError::new_err(cause));
            }
            Some(handle) => handle.unsigned_abs(),
        };
        let stream = match handle {
            LEGACY => self.device.legacy_stream(),
            PER_THREAD => self.device.per_thread_stream(),
            _ => {
                let address = usize::try_from(handle).unwrap_or(usize::MAX);
                let raw = std::ptr::with_exposed_provenance_mut::<c_void>(address);
                // SAFETY: the consumer passes a live stream, by the DLPack protocol.
                let captured = unsafe { self.device.is_captured_raw(raw) };
                if captured.map_err(failed)? {
                    return Err(PyBufferError::new_err("the stream is in a capture"));
                }
                // SAFETY: the stream is live, as above, and the value is dropped before the call of
                // the consumer returns. It would be false for a value that is kept, or whose end is
                // recorded later because the stream is in a capture.
                unsafe { self.device.stream_from_raw(raw, ()) }
            }
        };
        Ok(Some(UserStream { handle, stream: stream.map_err(failed)? }))
    }

    /// Memory of the device.
    pub(crate) fn alloc(&self, bytes: u64) -> Result<trijet::Buffer<u8>> {
        self.free_orphans()?;
        self.own.alloc::<u8>(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Memory of the device with the content of `bytes`.
    pub(crate) fn upload(&self, bytes: &[u8]) -> Result<trijet::Buffer<u8>> {
        self.free_orphans()?;
        self.own.upload(bytes)
    }

    /// Keeps memory until a later allocation has followed the work of its consumers. With `used`,
    /// [`passed`](Self::passed) frees the memory.
    pub(crate) fn adopt(&self, buffer: trijet::Buffer<u8>, used: Option<UsedIn>) {
        let orphan = Orphan { buffer, used };
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).push(orphan);
    }

    /// Frees memory of the run of a feed that was used in the stream `handle` only, after the work
    /// in this stream until now. The stream is live.
    pub(crate) fn passed(&self, run: u64, handle: i64) -> PyResult<()> {
        let stream = UserStreamId(handle.unsigned_abs());
        let is_own = |orphan: &Orphan| orphan.used == Some(UsedIn { run, stream });
        let (own, others): (Vec<_>, Vec<_>) = self.take_orphans().into_iter().partition(is_own);
        self.keep_orphans(others);
        if own.is_empty() {
            return Ok(());
        }
        let user = self.stream(Some(handle));
        let is_marked = |orphan: &mut Orphan| match &user {
            Ok(Some(user)) => mark(&user.stream, &mut orphan.buffer).is_ok(),
            _ => false,
        };
        let kept = own.into_iter().filter_map(|mut one| (!is_marked(&mut one)).then_some(one));
        self.keep_orphans(kept.collect());
        user.map(drop)
    }

    /// Takes the orphans out, because memory of other packages must not be dropped under the lock:
    /// its deleter may wait for the lock of Python, and a thread with that lock for this one.
    fn take_orphans(&self) -> Vec<Orphan> {
        std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep_orphans(&self, orphans: Vec<Orphan>) {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).extend(orphans);
    }

    /// Counts all work of the device until now as work on `buffers`.
    pub(crate) fn follow_all<'b>(
        &self,
        buffers: impl IntoIterator<Item = &'b mut trijet::Buffer<u8>>,
    ) -> Result<()> {
        let mut buffers = buffers.into_iter();
        let Some(first) = buffers.next() else { return Ok(()) };
        match self.own.follow_device(Uses::new().update(first)) {
            // A driver before CUDA 12.5. Work that is complete needs no order.
            Err(error) if error.kind() == ErrorKind::Unsupported => self.device.synchronize(),
            outcome => outcome.and_then(|()| buffers.try_for_each(|one| mark(&self.own, one))),
        }
    }

    /// Frees the memory that is kept, after all work of the device.
    pub(crate) fn free_orphans(&self) -> Result<()> {
        let mut orphans = self.take_orphans();
        let followed = self.follow_all(orphans.iter_mut().map(|orphan| &mut orphan.buffer));
        if followed.is_err() {
            // The device is lost, or a stream is in a capture: the memory may be in use.
            self.keep_orphans(orphans);
        }
        followed
    }
}

/// Orders a stream of another package after the work on the memory, and the later work on the
/// memory after what the stream holds now.
pub(crate) fn mark(stream: &Stream, buffer: &mut trijet::Buffer<u8>) -> Result<()> {
    let uses = Uses::new().update(buffer);
    // SAFETY: the function enqueues nothing; it only marks the place in the stream.
    unsafe { stream.foreign("array of another package", uses, |_| Ok(())) }
}

fn failed(error: trijet::Error) -> PyErr {
    PyBufferError::new_err(error.to_string())
}
