//! The streams for copies that runs on one device share.
//!
//! A copy engine works on one of its streams as long as that has copies, and may come to another one
//! seconds later. In one stream the copies keep their order, so what a small copy waits for is what was
//! enqueued before it. Bulk runs therefore keep little enqueued.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::stream::{Device, Event, Stream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The largest copy of a bulk run beside small jobs: 20 us on PCIe 5.
pub(super) const PIECE: Bytes = Bytes(1 << 20);
/// The copies of bulk runs that are under way in one direction: one at work, and one that follows it
/// without a pause.
const UNDER_WAY: usize = 2;

/// The lanes of a device. They are there while a run has them.
pub(super) struct Lanes {
    pub(super) up: Lane,
    pub(super) down: Lane,
    /// The small jobs that copy in the lanes.
    small: AtomicUsize,
}

/// The copies of one direction.
pub(super) struct Lane {
    pub(super) stream: Arc<Stream>,
    turns: Mutex<Turns>,
}

/// The ends of the last copies of bulk runs, in turn.
struct Turns {
    ends: [Event; UNDER_WAY],
    next: usize,
}

impl Lanes {
    /// The lanes of the device, which are opened if no run has them.
    pub(super) fn of(device: &Device) -> Result<Arc<Self>> {
        let mut shared = device.shared().copy_lanes.lock().expect("no panic under this lock");
        if let Some(Ok(lanes)) = shared.upgrade().map(Arc::downcast::<Self>) {
            return Ok(lanes);
        }
        let (up, down) =
            (Lane::open(device, "shared upload")?, Lane::open(device, "shared download")?);
        let lanes = Arc::new(Self { up, down, small: AtomicUsize::new(0) });
        let weak = Arc::downgrade(&lanes);
        *shared = weak;
        Ok(lanes)
    }

    /// The largest copy that a bulk run may enqueue now.
    pub(super) fn piece(&self) -> usize {
        match self.small.load(Ordering::Relaxed) {
            0 => usize::MAX,
            _ => PIECE.to_usize(),
        }
    }
}

impl Lane {
    fn open(device: &Device, name: &str) -> Result<Self> {
        let stream = Arc::new(device.stream()?.named(name));
        let ends = [device.event()?, device.event()?];
        Ok(Self { stream, turns: Mutex::new(Turns { ends, next: 0 }) })
    }

    /// Enqueues a copy of a bulk run as soon as at most one other copy of bulk runs is under way.
    pub(super) fn enqueue(&self, copy: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        let mut turns = self.turns.lock().expect("no panic under this lock");
        let next = turns.next;
        let end = &turns.ends[next];
        end.synchronize()?;
        copy(&self.stream)?;
        end.record(&self.stream)?;
        turns.next = (next + 1) % UNDER_WAY;
        Ok(())
    }
}

/// A small job that copies in the lanes.
pub(super) struct Small(Arc<Lanes>);

impl Small {
    pub(super) fn enter(lanes: &Arc<Lanes>) -> Self {
        lanes.small.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(lanes))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.0.small.fetch_sub(1, Ordering::Relaxed);
    }
}
