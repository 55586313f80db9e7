//! The streams for copies that the runs on one device share.
//!
//! A copy engine works on one of its streams as long as that stream has copies, and may reach
//! another stream only seconds later. So runs with the sharing `Latency` or `Bulk` copy in the same
//! streams. Copies in one stream keep their order: a small copy waits only for copies that were
//! enqueued before it. So bulk runs keep few copies enqueued. Each run limits only its own copies.
//! There is no common lock: a run would hold the lock while it waits, which could stop the host
//! threads of a simulation.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::stream::{Device, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest copy of a bulk run beside small jobs. A copy of this size takes 20 us on PCIe 5.
pub(super) const PIECE: Bytes = Bytes(1 << 20);

/// The shared streams of a device. The streams exist as long as a run uses them.
pub(super) struct CopyStreams {
    pub(super) up: Arc<Stream>,
    pub(super) down: Arc<Stream>,
    /// The number of small jobs that copy in the streams now.
    small: AtomicUsize,
}

impl CopyStreams {
    /// Returns the shared streams of the device, and opens them if no run uses them.
    pub(super) fn of(device: &Device) -> Result<Arc<Self>> {
        let mut shared = device
            .shared()
            .copy_streams
            .lock()
            .expect("no thread panicked while it held this lock");
        if let Some(Ok(copies)) = shared.upgrade().map(Arc::downcast::<Self>) {
            return Ok(copies);
        }
        let open = |name| -> Result<_> { Ok(Arc::new(device.stream()?.named(name))) };
        let (up, down) = (open("shared upload")?, open("shared download")?);
        let copies = Arc::new(Self { up, down, small: AtomicUsize::new(0) });
        let weak = Arc::downgrade(&copies);
        *shared = weak;
        Ok(copies)
    }

    /// The size of the largest copy that a bulk run may enqueue now, in bytes.
    pub(super) fn piece(&self) -> usize {
        match self.small.load(Ordering::Relaxed) {
            0 => usize::MAX,
            _ => PIECE.to_usize(),
        }
    }
}

/// Counts a small job as one that copies in the shared streams, until this value is dropped.
pub(super) struct Small(Arc<CopyStreams>);

impl Small {
    pub(super) fn enter(copies: &Arc<CopyStreams>) -> Self {
        copies.small.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(copies))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.0.small.fetch_sub(1, Ordering::Relaxed);
    }
}
